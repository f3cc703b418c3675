//! Webhook configurations and policies, compiled when they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::policies::{Binding, mutating, validating};
use super::webhooks::Webhook;
use crate::object::{Object, ObjectExt};
use crate::resource::GroupResource;
use crate::store::Store;
use crate::watch::{LogEntry, LogKind};

/// Group of every kind that configures admission.
const GROUP: &str = "admissionregistration.k8s.io";

/// What is to be asked about writes. Cloning shares everything.
#[derive(Clone, Debug, Default)]
pub struct Configurations {
    mutating: Webhooks,
    validating: Webhooks,
    validating_policies: Policies<validating::Policy>,
    mutating_policies: Policies<mutating::Policy>,
}

/// Policies of one kind and their bindings, by name.
#[derive(Debug)]
struct Policies<P> {
    policies: BTreeMap<String, Arc<P>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

impl<P> Default for Policies<P> {
    fn default() -> Self {
        Self { policies: BTreeMap::new(), bindings: BTreeMap::new() }
    }
}

impl<P> Clone for Policies<P> {
    fn clone(&self) -> Self {
        Self { policies: self.policies.clone(), bindings: self.bindings.clone() }
    }
}

impl<P> Policies<P> {
    /// Each policy with its bindings.
    fn bound(&self) -> impl Iterator<Item = (&Arc<P>, impl Iterator<Item = &Arc<Binding>>)> {
        self.policies
            .iter()
            .map(|(name, policy)| (policy, self.bindings.values().filter(move |binding| binding.policy_name() == name)))
    }
}

/// The webhooks of one kind of configuration.
#[derive(Clone, Debug, Default)]
struct Webhooks {
    by_configuration: BTreeMap<String, Vec<Arc<Webhook>>>,
    /// All of them in calling order: by name of the configuration, then as listed.
    in_order: Arc<[Arc<Webhook>]>,
}

impl Webhooks {
    fn set(&mut self, configuration: &Object, kept: bool) {
        let name = configuration.name();
        if kept {
            self.by_configuration.insert(name.to_owned(), Webhook::read_all(configuration));
        } else {
            self.by_configuration.remove(name);
        }
        self.in_order = self.by_configuration.values().flatten().cloned().collect();
    }
}

impl Configurations {
    /// Everything that a store holds: after a rollback.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let mut all = Self::default();
        for resource in store.resources().filter(|resource| &*resource.group == GROUP) {
            for object in store.list(resource, "") {
                all.set(resource, object, true);
            }
        }
        all
    }

    /// Takes notice of a commit; cheap for everything that does not configure admission.
    pub fn notice(&mut self, entry: &LogEntry) {
        if &*entry.resource.group == GROUP {
            self.set(&entry.resource, &entry.object, entry.kind != LogKind::Deleted);
        }
    }

    fn set(&mut self, resource: &GroupResource, object: &Object, kept: bool) {
        match &*resource.resource {
            "mutatingwebhookconfigurations" => self.mutating.set(object, kept),
            "validatingwebhookconfigurations" => self.validating.set(object, kept),
            "validatingadmissionpolicies" => {
                set(&mut self.validating_policies.policies, object, kept, validating::Policy::compile);
            }
            "validatingadmissionpolicybindings" => {
                set(&mut self.validating_policies.bindings, object, kept, Binding::read);
            }
            "mutatingadmissionpolicies" => {
                set(&mut self.mutating_policies.policies, object, kept, mutating::Policy::compile);
            }
            "mutatingadmissionpolicybindings" => {
                set(&mut self.mutating_policies.bindings, object, kept, Binding::read);
            }
            _ => {}
        }
    }

    /// Mutating webhooks in calling order.
    pub(super) fn mutating(&self) -> &Arc<[Arc<Webhook>]> {
        &self.mutating.in_order
    }

    /// Validating webhooks in calling order.
    pub(super) fn validating(&self) -> &Arc<[Arc<Webhook>]> {
        &self.validating.in_order
    }

    /// Validating policies by name, each with its bindings by name.
    pub(super) fn validating_policies(
        &self,
    ) -> impl Iterator<Item = (&Arc<validating::Policy>, impl Iterator<Item = &Arc<Binding>>)> {
        self.validating_policies.bound()
    }

    /// Mutating policies by name, each with its bindings by name.
    pub(super) fn mutating_policies(
        &self,
    ) -> impl Iterator<Item = (&Arc<mutating::Policy>, impl Iterator<Item = &Arc<Binding>>)> {
        self.mutating_policies.bound()
    }
}

fn set<T>(all: &mut BTreeMap<String, Arc<T>>, object: &Object, kept: bool, read: fn(&Object) -> T) {
    if kept {
        all.insert(object.name().to_owned(), Arc::new(read(object)));
    } else {
        all.remove(object.name());
    }
}
