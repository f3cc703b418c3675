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
use serde_json::{Value, json};

use crate::draws::Draws;
use crate::error::{ApiError, FieldError};
use crate::object::set_meta;
use crate::resource::{GroupVersionKind, Resource};
use crate::schema;
use crate::store::Store;

pub mod actions;
pub mod metadata;
pub mod names;
pub mod scale;

mod addresses;
mod admission_kinds;
mod at;
mod autoscaling;
mod claims;
mod config;
mod containers;
mod coordination;
mod cron;
mod endpoints;
mod events;
mod fill;
mod flow_control;
mod go;
mod jobs;
mod limits;
mod namespaces;
mod networking;
mod nodes;
mod pod_defaults;
mod pod_spec;
mod pods;
mod policy;
mod rbac;
mod scheduling;
mod services;
mod stateful_sets;
mod storage;
mod volume_sources;
mod volumes;
mod workload_rules;
mod workloads;

pub use pods::quality_of_service;

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
    /// Does a patch change the object, and so write its JSON anew?
    pub is_patch: bool,
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

/// How objects of one resource live: a table row of what upstream spreads over a strategy type.
pub struct Strategy {
    /// Rule for `metadata.name`.
    name: names::NameRule,
    /// May a PUT without `metadata.resourceVersion` replace what is there?
    unconditional_update: bool,
    /// May a PUT make the object?
    create_on_update: bool,
    /// What counts up `metadata.generation` when it changes, as JSON pointers; nothing: the kind has
    /// no generation.
    generation: &'static [&'static str],
    /// What becomes of `status` on create.
    status: Status,
    /// Fields of metadata that a write of `status` cannot change.
    status_keeps: &'static [&'static str],
    /// Propagation policy of a delete that names none.
    default_propagation: Option<&'static str>,
    /// Seconds of grace of a delete, for kinds with graceful deletion.
    grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// What changes in an object whose deletion begins.
    begin_deletion: fn(&mut Value),
    /// Does something besides `metadata.finalizers` keep a deleted object?
    holds: fn(&Value) -> bool,
    /// What an update is validated against besides the rules for changes.
    on_update: OnUpdate,
    /// Fills in defaults.
    default: fn(&mut Value),
    /// What is left for a new object after status and generation are set.
    prepare_for_create: Prepare,
    /// What is left for an update after status is kept, before generation is counted.
    prepare_for_update: PrepareUpdate,
    /// Rules for a new object, besides metadata.
    validate: fn(&Value, &mut at::Errors),
    /// Rules for changes, besides metadata.
    validate_update: fn(&Value, &Value, &mut at::Errors),
    /// Rules for changes of `status`, besides metadata.
    validate_status_update: fn(&Value, &Value, &mut at::Errors),
}

type Prepare = fn(&mut Value, &mut Context<'_>) -> Result<(), ApiError>;
type PrepareUpdate = fn(&mut Value, &Value, &mut Context<'_>) -> Result<(), ApiError>;

/// What becomes of `status` when an object is created.
enum Status {
    /// It is replaced by this, when the resource serves `status`.
    Reset(fn() -> Value),
    /// It is kept as sent (Nodes), or the kind has none.
    Keep,
}

/// Which of its rules a kind repeats on update, and in which order; upstream's kinds differ, and it
/// shows in repeated causes.
#[derive(Clone, Copy, Eq, PartialEq)]
enum OnUpdate {
    /// Changes of metadata, rules for changes.
    Changes,
    /// Changes of metadata, rules for changes, then everything that a create checks.
    ChangesThenWhole,
    /// Everything that a create checks, then changes of metadata, then rules for changes.
    WholeThenChanges,
    /// Changes of metadata, the kind's rules of a create (not its metadata), then rules for changes.
    RulesThenChanges,
}

impl Strategy {
    /// A kind with a schema and nothing else.
    const PLAIN: Self = Self {
        name: names::NameRule::Subdomain,
        unconditional_update: true,
        create_on_update: false,
        generation: &[],
        status: Status::Reset(|| json!({})),
        status_keeps: &[],
        default_propagation: None,
        grace_period: None,
        begin_deletion: |_| {},
        holds: |_| false,
        on_update: OnUpdate::Changes,
        default: |_| {},
        prepare_for_create: |_, _| Ok(()),
        prepare_for_update: |_, _, _| Ok(()),
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status_update: |_, _, _| {},
    };

    /// A kind whose `spec` has a generation.
    const WITH_GENERATION: Self = Self { generation: &["/spec"], ..Self::PLAIN };

    /// Custom resources: everything but metadata and status moves the generation, a PUT names a version.
    const CUSTOM: Self = Self { unconditional_update: false, status: Status::Reset(|| Value::Null), ..Self::PLAIN };

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
        // Nobody is told a link to oneself any more; storage forgets what is sent.
        set_meta(object, "selfLink", Value::Null);
        if let Status::Reset(initial) = self.status
            && context.resource.has_status()
        {
            let mut status = initial();
            if let Some(schema) = context.resource.schema.property("status").filter(|_| status.is_object()) {
                // Written as Go writes it: some zero values show, most do not.
                schema::typed::decode(&mut status, &schema).map_err(ApiError::internal)?;
            }
            fill::put(object, "status", status);
        }
        if context.resource.is_custom() || !self.generation.is_empty() {
            set_meta(object, "generation", 1);
        }
        (self.prepare_for_create)(object, context)
    }

    /// Everything wrong with a new object: metadata and the kind's own rules.
    #[must_use]
    pub fn validate(&self, object: &Value, context: &Context<'_>) -> Vec<FieldError> {
        let mut errors = metadata::validate(object, context.resource.namespaced, self.name);
        if !context.resource.is_custom() {
            metadata::builtin_finalizers("metadata.finalizers", &object["metadata"]["finalizers"], &mut errors);
        }
        (self.validate)(object, &mut errors);
        errors
    }

    /// Brings an update into shape: what the written subresource may not touch is taken from `old`,
    /// generation is counted up, addresses are kept or allocated.
    ///
    /// # Errors
    /// What cannot be allocated.
    pub fn prepare_for_update(&self, new: &mut Value, old: &Value, context: &mut Context<'_>) -> Result<(), ApiError> {
        set_meta(new, "generation", old["metadata"]["generation"].clone());
        set_meta(new, "selfLink", Value::Null);
        match context.subresource {
            "" if context.resource.has_status() => fill::put(new, "status", old["status"].clone()),
            "status" if context.resource.is_custom() => {
                let (status, managed) = (fill::take(new, "status"), new["metadata"]["managedFields"].take());
                new.clone_from(old);
                fill::put(new, "status", status);
                set_meta(new, "managedFields", managed);
            }
            "status" => {
                keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
                for field in self.status_keeps {
                    set_meta(new, field, old["metadata"][*field].clone());
                }
            }
            "finalize" => fill::put(new, "status", old["status"].clone()),
            "approval" => {
                let conditions = new["status"]["conditions"].take();
                keep_all_but(new, old, &["apiVersion", "kind", "metadata"]);
                if let Some(status) = fill::object_in(new, "status") {
                    fill::put(status, "conditions", conditions);
                }
            }
            "ephemeralcontainers" => pods::keep_all_but_ephemeral_containers(new, old),
            "resize" => pods::keep_all_but_resources(new, old),
            _ => {}
        }
        (self.prepare_for_update)(new, old, context)?;
        if self.moves_generation(new, old, context) {
            set_meta(new, "generation", old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        Ok(())
    }

    fn moves_generation(&self, new: &Value, old: &Value, context: &Context<'_>) -> bool {
        if context.resource.is_custom() {
            let counts = |key: &String| key != "metadata" && !(key == "status" && context.resource.has_status());
            let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
            let changed = |key: &String| counts(key) && new.get(key) != old.get(key);
            return new.keys().any(changed) || old.keys().any(changed);
        }
        let at = |object: &Value, pointer| object.pointer(pointer).cloned().unwrap_or_default();
        context.subresource != "status"
            && self.generation.iter().any(|pointer| !at::same(&at(new, pointer), &at(old, pointer)))
    }

    /// Everything wrong with an update.
    #[must_use]
    pub fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>) -> Vec<FieldError> {
        // Upstream's generic code and every kind's own code check metadata; causes come twice.
        let mut errors = metadata::validate_update(new, old);
        let changes_of_metadata = errors.clone();
        match context.subresource {
            "status" => {
                errors.extend(changes_of_metadata);
                (self.validate_status_update)(new, old, &mut errors);
            }
            "ephemeralcontainers" => pods::validate_ephemeral_containers(new, old, &mut errors),
            "resize" => pods::validate_resize(new, old, &mut errors),
            _ => match self.on_update {
                OnUpdate::Changes => {
                    errors.extend(changes_of_metadata);
                    (self.validate_update)(new, old, &mut errors);
                }
                OnUpdate::ChangesThenWhole => {
                    errors.extend(changes_of_metadata);
                    (self.validate_update)(new, old, &mut errors);
                    errors.extend(self.validate(new, context));
                }
                OnUpdate::WholeThenChanges => {
                    errors.extend(self.validate(new, context));
                    errors.extend(changes_of_metadata);
                    (self.validate_update)(new, old, &mut errors);
                }
                OnUpdate::RulesThenChanges => {
                    errors.extend(changes_of_metadata);
                    (self.validate)(new, &mut errors);
                    (self.validate_update)(new, old, &mut errors);
                }
            },
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
    pub fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        self.grace_period.map(|period| period(object, requested))
    }

    /// Changes an object whose deletion begins but does not complete (Namespaces become Terminating).
    pub fn begin_deletion(&self, object: &mut Value) {
        (self.begin_deletion)(object);
    }

    /// Is there something besides `metadata.finalizers` that keeps a deleted object
    /// (`spec.finalizers` of Namespaces)?
    #[must_use]
    pub fn holds(&self, object: &Value) -> bool {
        (self.holds)(object)
    }

    /// Fields that a write of this (sub)resource cannot own, as JSON pointers: its managed fields leave
    /// them out (`GetResetFields` upstream).
    #[must_use]
    pub fn reset_fields(&self, resource: &Resource, subresource: &str) -> Vec<String> {
        let keep = |fields: &[&str]| fields.iter().map(|field| format!("/metadata/{field}")).collect::<Vec<_>>();
        match subresource {
            "" if resource.has_status() && !matches!(self.status, Status::Keep) => vec!["/status".to_owned()],
            "status" if resource.is_custom() => {
                let others = resource.schema.properties().map(|(name, _)| name.to_owned());
                let others =
                    others.filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
                others
                    .map(|name| format!("/{name}"))
                    .chain(keep(&["annotations", "finalizers", "labels", "ownerReferences"]))
                    .collect()
            }
            "status" => std::iter::once("/spec".to_owned()).chain(keep(self.status_keeps)).collect(),
            _ => Vec::new(),
        }
    }
}

/// Takes every top-level field from `old` but these.
fn keep_all_but(new: &mut Value, old: &Value, fields: &[&str]) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    new.retain(|field, _| fields.contains(&field.as_str()));
    let kept = old.iter().filter(|(field, _)| !fields.contains(&field.as_str()));
    new.extend(kept.map(|(field, value)| (field.clone(), value.clone())));
}

/// The group that messages about an invalid object name: upstream judges objects of its internal types,
/// and events have only that of the core group.
#[must_use]
pub fn reported_group(kind: &GroupVersionKind) -> &str {
    if (&*kind.group, &*kind.kind) == ("events.k8s.io", "Event") { "" } else { &kind.group }
}

/// A built-in object as another resource of the same store shows it: Events have two groups,
/// autoscalers two versions whose fields differ. `None`: nothing but `apiVersion` differs.
#[must_use]
pub fn convert(object: &Value, to: &Resource) -> Option<Value> {
    let version = to.api_version();
    match &*to.kind.kind {
        "Event" if matches!(version.as_str(), "v1" | "events.k8s.io/v1") => Some(events::convert(object, &version)),
        "HorizontalPodAutoscaler" if &*to.kind.group == "autoscaling" => Some(autoscaling::convert(object, &version)),
        _ => None,
    }
}

static PLAIN: Strategy = Strategy::PLAIN;
static WITH_GENERATION: Strategy = Strategy::WITH_GENERATION;
static CUSTOM: Strategy = Strategy::CUSTOM;

/// How objects of this resource live.
#[must_use]
pub fn strategy(resource: &Resource) -> &'static Strategy {
    if resource.is_custom() {
        return &CUSTOM;
    }
    let group = &*resource.group_resource.group;
    match (group, &*resource.group_resource.resource) {
        ("", "configmaps") => &config::CONFIG_MAPS,
        ("", "secrets") => &config::SECRETS,
        ("", "serviceaccounts") => &config::SERVICE_ACCOUNTS,
        ("", "pods") => &pods::PODS,
        ("", "podtemplates") => &pods::POD_TEMPLATES,
        ("", "replicationcontrollers") => &workloads::REPLICATION_CONTROLLERS,
        ("", "services") => &services::SERVICES,
        ("", "endpoints") => &endpoints::ENDPOINTS,
        ("", "persistentvolumeclaims") => &claims::CLAIMS,
        ("", "persistentvolumes") => &volumes::VOLUMES,
        ("", "namespaces") => &namespaces::NAMESPACES,
        ("", "nodes") => &nodes::NODES,
        ("" | "events.k8s.io", "events") => &events::EVENTS,
        ("", "limitranges") => &limits::LIMIT_RANGES,
        ("", "resourcequotas") => &limits::RESOURCE_QUOTAS,
        ("apps", "statefulsets") => &stateful_sets::STATEFUL_SETS,
        ("apps", "deployments") => &workloads::DEPLOYMENTS,
        ("apps", "replicasets") => &workloads::REPLICA_SETS,
        ("apps", "daemonsets") => &workloads::DAEMON_SETS,
        ("apps", "controllerrevisions") => &stateful_sets::CONTROLLER_REVISIONS,
        ("batch", "jobs") => &jobs::JOBS,
        ("batch", "cronjobs") => &jobs::CRON_JOBS,
        ("autoscaling", "horizontalpodautoscalers") => &autoscaling::AUTOSCALERS,
        ("policy", "poddisruptionbudgets") => &policy::DISRUPTION_BUDGETS,
        ("scheduling.k8s.io", "priorityclasses") => &scheduling::PRIORITY_CLASSES,
        ("storage.k8s.io", "storageclasses") => &storage::STORAGE_CLASSES,
        ("storage.k8s.io", "csidrivers") => &storage::DRIVERS,
        ("storage.k8s.io", "csinodes" | "volumeattachments" | "csistoragecapacities" | "volumeattributesclasses") => {
            &storage::OTHERS
        }
        ("networking.k8s.io", "ingresses") => &networking::INGRESSES,
        ("networking.k8s.io", "networkpolicies") => &networking::NETWORK_POLICIES,
        ("networking.k8s.io", "ingressclasses") => &networking::INGRESS_CLASSES,
        ("networking.k8s.io", "ipaddresses") => &networking::IP_ADDRESSES,
        ("discovery.k8s.io", "endpointslices") => &endpoints::ENDPOINT_SLICES,
        ("coordination.k8s.io", "leases") => &coordination::LEASES,
        ("rbac.authorization.k8s.io", "roles") => &rbac::ROLES,
        ("rbac.authorization.k8s.io", "clusterroles") => &rbac::CLUSTER_ROLES,
        ("rbac.authorization.k8s.io", "rolebindings") => &rbac::ROLE_BINDINGS,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &rbac::CLUSTER_ROLE_BINDINGS,
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => &admission_kinds::VALIDATING_WEBHOOKS,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => &admission_kinds::MUTATING_WEBHOOKS,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &admission_kinds::VALIDATING_POLICIES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => &admission_kinds::VALIDATING_BINDINGS,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => &admission_kinds::MUTATING_POLICIES,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => &admission_kinds::MUTATING_BINDINGS,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &admission_kinds::DEFINITIONS,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &flow_control::FLOW_SCHEMAS,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => &flow_control::PRIORITY_LEVELS,
        ("apiregistration.k8s.io", "apiservices") => &flow_control::API_SERVICES,
        ("resource.k8s.io", "resourceclaims" | "resourceclaimtemplates") => &scheduling::RESOURCE_CLAIMS,
        ("node.k8s.io", _) => &storage::OTHERS,
        ("resource.k8s.io", "deviceclasses" | "resourceslices") => &WITH_GENERATION,
        _ => &PLAIN,
    }
}
