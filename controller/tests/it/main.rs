//! Tests of the controller that need no cluster.

mod crds;
mod lives;
mod restores;
mod world;
