//! A Kubernetes 1.36 control plane in one process: no ports, no containers, ready in milliseconds.
//!
//! The core ([`control_plane::ControlPlane`]) is plain synchronous code without sockets, threads,
//! clocks or randomness of its own: `(state, request, now) -> (state, response, events)`. Shells are
//! put around it: a tower service for [`kube::Client`] ([`cluster`]) and HTTPS for every other
//! client ([`serve`]).
//!
//! Module map, from values to shells; a module uses only what stands above it:
//!
//! | modules | what they are |
//! |---|---|
//! | [`object`], [`error`], [`resource`], [`schema`], [`selector`], [`quantity`], [`draws`] | values |
//! | [`patch`], [`managed_fields`], [`expression`], [`table`] | pure functions over values; they have never heard of the store |
//! | [`store`], [`watch`] | committed objects, the version counter, the event log |
//! | [`request`], [`registry`], [`builtin`], [`definitions`], [`admission`], [`access`] | one request, from decoding to commit: the only write path |
//! | [`control_plane`] | the core: routes a request through all of the above; may pause for a webhook |
//! | [`loops`] | control loops as actors: state and time in, requests out |
//! | [`http`], [`discovery`] | bytes to requests and responses to bytes |
//! | [`host`] | the core in real time: clock, running control loops, webhooks, watches |
//! | [`cluster`], [`serve`] | shells |

pub mod access;
pub mod admission;
pub mod builtin;
pub mod cluster;
pub mod control_plane;
pub mod definitions;
pub mod discovery;
pub mod draws;
pub mod error;
pub mod expression;
pub mod guest;
pub mod host;
pub mod http;
pub mod loops;
pub mod managed_fields;
pub mod object;
pub mod patch;
pub mod quantity;
pub mod registry;
pub mod request;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod serve;
pub mod store;
pub mod table;
pub mod watch;

pub use cluster::Cluster;
pub use control_plane::ControlPlane;
pub use error::ApiError;
