//! The shell for Rust tests: a control plane behind a [`kube::Client`].

/// A running control plane.
pub struct Cluster {}
