//! `KubeDirectorApp`: what an app consists of. A catalogue entry; it has no status.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{QUANTITY_PATTERN, ROLE_ID_PATTERN, nullable_resource_list};

const PACKAGE_URL_PATTERN: &str = r"^(file|https?)://.+\.tgz$";
const SERVICE_ID_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The roles of an app, their images and services.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubedirector.hpe.com",
    version = "v1beta1",
    kind = "KubeDirectorApp",
    plural = "kubedirectorapps",
    singular = "kubedirectorapp",
    shortname = "kdapp",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"App Name","type":"string","description":"Human-readable app name","jsonPath":".spec.label.name"}"#,
    printcolumn = r#"{"name":"Distro ID","type":"string","description":"Unique identifier of a series of kdapp versions","jsonPath":".spec.distroID"}"#,
    printcolumn = r#"{"name":"Version","type":"string","description":"A specific release of a kdapp distro ID","jsonPath":".spec.version"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AppSpec {
    /// Name and description for people.
    pub label: AppLabel,
    /// Identifies a series of releases.
    #[serde(rename = "distroID")]
    #[schemars(length(min = 1))]
    pub distro_id: String,
    /// One release of the series.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Version of the contract between app and controller.
    #[schemars(range(min = 7))]
    pub config_schema_version: i64,
    /// Image of roles that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub default_image_repo_tag: Option<String>,
    /// Setup package of roles that say nothing about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config_package: Option<ConfigPackage>,
    /// Log bytes to keep of roles that say nothing. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub default_max_log_size_dump: Option<i64>,
    /// Services the roles may offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<AppService>,
    /// The roles.
    pub roles: Vec<AppRole>,
    /// Which roles run which services.
    pub config: AppConfig,
    /// Persistent folders of roles that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^/.*[^/]$")))]
    pub default_persist_dirs: Option<Vec<String>>,
    /// Events that roles which name none listen for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^configure$|^addnodes$|^delnodes$")))]
    pub default_event_list: Option<Vec<String>>,
    /// Linux capabilities of the containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub capabilities: Vec<String>,
    /// The containers run systemd. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd_required: Option<bool>,
    /// A picture for user interfaces.
    #[serde(default, rename = "logoURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), regex(pattern = r"^(file|https|http?)://.+\.(jpeg|png)$"))]
    pub logo_url: Option<String>,
}

/// Name and description for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AppLabel {
    /// Short name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// One or more sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A package with the app's setup scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPackage {
    /// Where it is fetched from.
    #[serde(rename = "packageURL")]
    #[schemars(regex(pattern = PACKAGE_URL_PATTERN))]
    pub package_url: String,
    /// The package has the newer folder layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_new_setup_layout: Option<bool>,
}

/// A service that roles may offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AppService {
    /// Its id, also the name of the port.
    #[schemars(length(min = 1, max = 15), regex(pattern = SERVICE_ID_PATTERN))]
    pub id: String,
    /// Name and description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<ServiceLabel>,
    /// Where it listens, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
}

/// Name and description of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceLabel {
    /// Short name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// One or more sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Where a service listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// TCP port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Scheme of its URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15), regex(pattern = SERVICE_ID_PATTERN))]
    pub url_scheme: Option<String>,
    /// Path of its URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// It is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_dashboard: Option<bool>,
    /// It asks for the member's token. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_auth_token: Option<bool>,
}

/// One role of an app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppRole {
    /// Its id.
    #[schemars(length(min = 1, max = 63), regex(pattern = ROLE_ID_PATTERN))]
    pub id: String,
    /// How many members: digits, with a trailing `+` for "at least".
    #[schemars(regex(pattern = r"^\d+\+?$"))]
    pub cardinality: String,
    /// Image of the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image_repo_tag: Option<String>,
    /// Setup package. Absent takes the app's default; an explicit null means none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<ConfigPackage>")]
    pub config_package: Option<Option<ConfigPackage>>,
    /// Persistent folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^/.*[^/]$")))]
    pub persist_dirs: Option<Vec<String>>,
    /// Events the guest listens for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^configure$|^addnodes$|^delnodes$")))]
    pub event_list: Option<Vec<String>>,
    /// Terminal options of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_spec: Option<ContainerSpec>,
    /// The least resources a member may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "nullable_resource_list")]
    pub min_resources: Option<BTreeMap<String, Value>>,
    /// The least storage a member may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_storage: Option<MinStorage>,
    /// Log bytes to keep. Accepted and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_log_size_dump: Option<i64>,
}

/// Tells an explicit null from an absent field.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Terminal options of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerSpec {
    /// Keep standard input open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
    /// Allocate a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
}

/// The least storage a member may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MinStorage {
    /// Size of the claim.
    #[schemars(regex(pattern = QUANTITY_PATTERN))]
    pub size: String,
    /// The role also works without storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_mode_supported: Option<bool>,
}

/// Which roles run which services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppConfig {
    /// Free settings for the guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_meta: Option<BTreeMap<String, String>>,
    /// Roles that are in use.
    #[schemars(inner(length(min = 1)))]
    pub selected_roles: Vec<String>,
    /// The services of each role.
    pub role_services: Vec<RoleServices>,
}

/// The services of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleServices {
    /// Id of the role.
    #[serde(rename = "roleID")]
    #[schemars(length(min = 1, max = 63), regex(pattern = ROLE_ID_PATTERN))]
    pub role_id: String,
    /// Ids of its services.
    #[serde(rename = "serviceIDs")]
    #[schemars(inner(length(min = 1, max = 15), regex(pattern = SERVICE_ID_PATTERN)))]
    pub service_ids: Vec<String>,
}

impl AppSpec {
    /// The role with this id.
    pub fn role(&self, id: &str) -> Option<&AppRole> {
        self.roles.iter().find(|role| role.id == id)
    }

    /// Whether members of the role are set up by a package.
    pub fn has_setup(&self, role: &AppRole) -> bool {
        match &role.config_package {
            Some(own) => own.is_some(),
            None => self.default_config_package.is_some(),
        }
    }

    /// Whether the role's guests listen for `event`. Without a list they listen for all.
    pub fn listens(&self, role: &AppRole, event: &str) -> bool {
        match role.event_list.as_ref().or(self.default_event_list.as_ref()) {
            Some(events) => events.iter().any(|listed| listed == event),
            None => true,
        }
    }

    /// Image of the role's members.
    pub fn image<'a>(&'a self, role: &'a AppRole) -> Option<&'a str> {
        role.image_repo_tag.as_deref().or(self.default_image_repo_tag.as_deref())
    }

    /// Folders of the role that live on its storage.
    pub fn persist_dirs<'a>(&'a self, role: &'a AppRole) -> &'a [String] {
        role.persist_dirs.as_ref().or(self.default_persist_dirs.as_ref()).map_or(&[], Vec::as_slice)
    }

    /// The role's services that listen somewhere, in the app's order.
    pub fn endpoints(&self, role: &str) -> Vec<(&AppService, &Endpoint)> {
        let offered: Vec<&str> = self
            .config
            .role_services
            .iter()
            .filter(|services| services.role_id == role)
            .flat_map(|services| services.service_ids.iter().map(String::as_str))
            .collect();
        self.services
            .iter()
            .filter(|service| offered.contains(&service.id.as_str()))
            .filter_map(|service| service.endpoint.as_ref().map(|endpoint| (service, endpoint)))
            .collect()
    }
}

impl AppRole {
    /// The least number of members, and whether more are allowed.
    pub fn members(&self) -> (i64, bool) {
        let open = self.cardinality.ends_with('+');
        (self.cardinality.trim_end_matches('+').parse().unwrap_or(i64::MAX), open)
    }
}
