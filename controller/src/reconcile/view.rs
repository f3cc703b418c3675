//! One cluster as the decisions look at it: the facts, with the questions that many of them ask.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::observed::ClusterFacts;
use super::status;
use crate::api::{AppRole, AppSpec, Catalog, ClusterStatus, KubeDirectorApp, KubeDirectorCluster, NamingScheme, Role};
use crate::names;
use crate::settings::{Safeguards, Settings};

/// One cluster as the decisions look at it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) facts: &'a ClusterFacts,
    pub(super) cluster: &'a KubeDirectorCluster,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
}

impl<'a> View<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &'a str {
        self.cluster.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &'a str {
        self.cluster.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn safeguards(&self) -> &'a Safeguards {
        &self.settings.safeguards
    }

    /// The stored status, empty if there is none yet.
    pub(super) fn stored_status(&self) -> ClusterStatus {
        self.cluster.status.clone().unwrap_or_default()
    }

    pub(super) fn has_label(&self, key: &str) -> bool {
        self.cluster.labels().contains_key(key)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.cluster.annotations().get(key).map(String::as_str)
    }

    pub(super) fn app(&self) -> Option<&'a AppSpec> {
        self.facts.app.as_ref().map(|app| &app.spec)
    }

    pub(super) fn app_role(&self, id: &str) -> Option<&'a AppRole> {
        self.app().and_then(|app| app.role(id))
    }

    pub(super) fn role(&self, id: &str) -> Option<&'a Role> {
        self.cluster.spec.roles.iter().find(|role| role.id == id)
    }

    /// How many members the spec asks for, within [`names::MEMBERS_MAX`]: none of a role it no longer has, and as many as there are of one that
    /// nothing is said about (the app is another one than it was).
    pub(super) fn members_wanted(&self, id: &str) -> usize {
        let Some(role) = self.role(id) else { return 0 };
        let asked = role.members.or_else(|| self.app_role(id).map(|role| role.members().0));
        match asked {
            Some(members) => usize::try_from(members).unwrap_or_default().min(names::MEMBERS_MAX),
            None => {
                let roles = self.cluster.status.iter().flat_map(|status| &status.roles);
                roles.filter(|known| known.id == id).map(|known| known.members.len()).sum()
            }
        }
    }

    pub(super) fn naming_scheme(&self) -> NamingScheme {
        let configured = self.facts.config.as_ref().and_then(|config| config.default_naming_scheme);
        self.cluster.spec.naming_scheme.or(configured).unwrap_or(NamingScheme::Uid)
    }

    /// Where the app is from: as the spec says, else where it was found.
    pub(super) fn catalog(&self, app: &KubeDirectorApp) -> Catalog {
        let found =
            if app.metadata.namespace.as_deref() == Some(self.namespace()) { Catalog::Local } else { Catalog::System };
        self.cluster.spec.app_catalog.unwrap_or(found)
    }

    /// Suffix of Service names in DNS.
    pub(super) fn domain(&self) -> &'a str {
        let configured = self.facts.config.as_ref().and_then(|config| config.cluster_svc_domain_base.as_deref());
        configured.unwrap_or(".svc.cluster.local")
    }

    /// The object carries this cluster's label (and, if asked, this role's), or nobody looks.
    pub(super) fn is_ours(&self, metadata: &ObjectMeta, role: Option<&str>) -> bool {
        let none = BTreeMap::new();
        let labels = metadata.labels.as_ref().unwrap_or(&none);
        let has = |key: &str, value: &str| labels.get(key).is_some_and(|label| label == value);
        !self.safeguards().check_labels_of_named
            || (has(names::CLUSTER, self.name()) && role.is_none_or(|role| has(names::ROLE, role)))
    }

    /// A Service in front of all members, by what it is rather than by its name.
    pub(super) fn looks_headless(&self, service: &Service) -> bool {
        let headless = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None");
        headless
            && service.labels().get(names::CLUSTER).is_some_and(|cluster| cluster == self.name())
            && !service.labels().contains_key(names::ROLE)
    }

    /// A number that is another one at another time, for who comes first among those who may fail. The time
    /// itself will not do: retries come at even distances.
    pub(super) fn turn(&self) -> usize {
        let digest = status::incarnation(&self.now.as_second().to_string());
        usize::from_str_radix(&digest[..7], 16).unwrap_or_default()
    }

    /// Digest of the uid: which of the objects that have had this name.
    pub(super) fn incarnation(&self) -> String {
        status::incarnation(self.uid())
    }

    /// `name/incarnation`: the lineage that starts with this very object.
    pub(super) fn own_origin(&self) -> String {
        format!("{}/{}", self.name(), self.incarnation())
    }
}
