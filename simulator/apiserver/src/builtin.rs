//! What differs per built-in kind, and what is common to the life of every object.
//!
//! The pipeline asks [`strategy`] for the [`Strategy`] of a resource and calls its methods at fixed
//! places, as upstream's generic registry calls a `RESTCreateStrategy` and its relatives
//! (`k8s.io/apiserver/pkg/registry/rest`):
//!
//! | request | calls, in order |
//! |---|---|
//! | any body | [`Strategy::default`], after decoding and again after each mutating webhook |
//! | create | [`Strategy::prepare_for_create`], [`Strategy::validate`] |
//! | update, patch, apply (also of `status` and other subresources that speak the object's own kind) | [`Strategy::prepare_for_update`], [`Strategy::validate_update`] |
//! | delete | [`Strategy::grace_period`], [`Strategy::begin_deletion`], [`Strategy::holds`] |
//! | actions (`eviction`, `binding`, `token`) | [`actions`] |
//! | `scale` | [`scale`] |
//!
//! A kind's rules stand in one file of this folder; a kind without an entry has a schema and nothing
//! else. Admission plugins (priorities, limit ranges, claim protection, …) are not here but in
//! [`crate::admission`].

use jiff::Timestamp;
use serde_json::Value;

use crate::draws::Draws;
use crate::error::{ApiError, FieldError};
use crate::resource::Resource;
use crate::store::Store;

pub mod actions;
pub mod metadata;
pub mod names;
pub mod scale;

/// What the hooks may look at besides the object.
pub struct Context<'a> {
    /// The resource concerned.
    pub resource: &'a Resource,
    /// The subresource that is written, or empty.
    pub subresource: &'a str,
    /// Committed objects.
    pub store: &'a Store,
    /// Chance, for addresses and ports.
    pub draws: &'a mut Draws,
    /// The time.
    pub now: Timestamp,
    /// Addresses and ports of Services.
    pub network: &'a Network,
}

/// The ranges that Services draw from.
#[derive(Clone, Debug)]
pub struct Network {
    /// First address of the range of cluster IPs (`--service-cluster-ip-range`).
    pub service_base: std::net::Ipv4Addr,
    /// Length of its prefix in bits.
    pub service_prefix: u8,
    /// Node ports (`--service-node-port-range`).
    pub node_ports: std::ops::RangeInclusive<u16>,
}

impl Default for Network {
    /// 10.96.0.0/16 and 30000 to 32767.
    fn default() -> Self {
        Self { service_base: std::net::Ipv4Addr::new(10, 96, 0, 0), service_prefix: 16, node_ports: 30_000..=32_767 }
    }
}

/// How objects of one resource live.
pub struct Strategy {
    /// Rule for `metadata.name`.
    name: names::NameRule,
    /// May a PUT without `metadata.resourceVersion` replace what is there?
    unconditional_update: bool,
    /// May a PUT (or a strategic patch) make the object?
    create_on_update: bool,
    /// Does a change of anything but metadata and status count up `metadata.generation`?
    generation: bool,
    /// Propagation policy of a delete that names none.
    default_propagation: Option<&'static str>,
    default: fn(&mut Value),
    prepare_for_create: fn(&mut Value, &mut Context<'_>) -> Result<(), ApiError>,
    prepare_for_update: fn(&mut Value, &Value, &mut Context<'_>) -> Result<(), ApiError>,
    validate: fn(&Value, &mut Vec<FieldError>),
    validate_update: fn(&Value, &Value, &mut Vec<FieldError>),
    validate_status_update: fn(&Value, &Value, &mut Vec<FieldError>),
}

impl Strategy {
    const PLAIN: Self = Self {
        name: names::NameRule::Subdomain,
        unconditional_update: true,
        create_on_update: false,
        generation: false,
        default_propagation: None,
        default: |_| {},
        prepare_for_create: |_, _| Ok(()),
        prepare_for_update: |_, _, _| Ok(()),
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status_update: |_, _, _| {},
    };

    /// Fills in what upstream's defaulting functions fill in beyond the schema's own defaults.
    pub fn default(&self, object: &mut Value) {
        (self.default)(object);
    }

    /// Brings a new object into its first state: status reset, generation, allocated addresses.
    /// `metadata.name`, `uid` and `creationTimestamp` are already set.
    ///
    /// # Errors
    /// What cannot be allocated.
    pub fn prepare_for_create(&self, object: &mut Value, context: &mut Context<'_>) -> Result<(), ApiError> {
        (self.prepare_for_create)(object, context)
    }

    /// Everything wrong with a new object: metadata and the kind's own rules.
    #[must_use]
    pub fn validate(&self, object: &Value, context: &Context<'_>) -> Vec<FieldError> {
        let mut errors = metadata::validate(object, context.resource.namespaced, self.name);
        (self.validate)(object, &mut errors);
        errors
    }

    /// Brings an update into shape: what the written subresource may not touch is taken from `old`,
    /// generation is counted up, addresses are kept or allocated.
    ///
    /// # Errors
    /// What cannot be allocated.
    pub fn prepare_for_update(&self, new: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
        (self.prepare_for_update)(new, old, context)
    }

    /// Everything wrong with an update.
    #[must_use]
    pub fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>) -> Vec<FieldError> {
        let mut errors = metadata::validate_update(new, old);
        match context.subresource {
            "status" => (self.validate_status_update)(new, old, &mut errors),
            _ => (self.validate_update)(new, old, &mut errors),
        }
        errors
    }

    /// May a PUT without `metadata.resourceVersion` replace what is there?
    #[must_use]
    pub fn can_unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    /// May a PUT to a name that does not exist make the object?
    #[must_use]
    pub fn can_create_on_update(&self) -> bool {
        self.create_on_update
    }

    /// Propagation policy of a delete that names none: `Orphan` for Jobs, otherwise `None`
    /// (background).
    #[must_use]
    pub fn default_propagation(&self) -> Option<&'static str> {
        self.default_propagation
    }

    /// Seconds of grace of a delete; `None` for kinds without graceful deletion. `requested` is
    /// `gracePeriodSeconds` of the delete's options.
    #[must_use]
    pub fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Changes an object whose deletion begins but does not complete (Namespaces become Terminating).
    pub fn begin_deletion(&self, _object: &mut Value) {}

    /// Is there something besides `metadata.finalizers` that keeps a deleted object
    /// (`spec.finalizers` of Namespaces)?
    #[must_use]
    pub fn holds(&self, _object: &Value) -> bool {
        false
    }
}

static PLAIN: Strategy = Strategy::PLAIN;

/// How objects of this resource live.
#[must_use]
pub fn strategy(_resource: &Resource) -> &'static Strategy {
    &PLAIN
}
