//! Tests of the controller that need no cluster.

mod crds;
mod faults;
mod lives;
mod restores;
mod world;
