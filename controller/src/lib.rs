//! The reference controller: KubeDirector's four kinds, so that restores do not break them.
//!
//! ```text
//! watch events -> Index -> Target -> observe -> Observed -> decide -> Plan -> apply, change by change
//! AdmissionReview -> facts -> verdict -> AdmissionReview
//! ```
//!
//! Only `reconcile::observe` and `reconcile::apply` touch a client on the first line, only
//! `admission::facts` on the second; everything between is plain values and pure functions. There are no
//! clocks, threads or randomness: times are handed in, names are made by the server or from other names.

pub mod api;
pub mod crds;
pub mod guest;
pub mod kinds;
pub mod manifests;
pub mod names;
pub mod settings;

mod admission;
mod error;
mod index;
mod reconcile;

pub use error::Error;
pub use index::{Index, Target, Watched, watched};
pub use reconcile::installation;
pub use reconcile::{
    Act, Change, ClusterFacts, ConfigFacts, Connection, Controller, ObjectRef, Observed, Plan, decide,
};
pub use settings::{Safeguards, Settings, UnknownSafeguard, WebhookAddress};
