//! Tests of the controller that need no cluster.

mod crds;
