//! Tests of the controller that need no cluster.

mod crds;
mod faults;
mod lives;
mod manifests;
mod restores;
mod world;
