//! The status of a cluster, which is also the content of its backup.
//!
//! Status is output: the controller computes it from what it observes and never compares tokens in it
//! to decide whether a write is its own. What it *remembers* there is what cannot be observed: names
//! handed out, which container was configured, which notifications are still owed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Overall state.
    pub state: ClusterState,
    /// What a restore still waits for. Absent unless the cluster is being restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_progress: Option<RestoreProgress>,
    /// What is the matter with any member.
    pub member_state_rollup: Rollup,
    /// Changes with every status write. Informative: nobody may conclude anything from it but "changed".
    #[serde(rename = "generationUID")]
    pub generation_uid: String,
    /// Counts changes of membership and of connections; what the guests' metadata is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_generation_to_process: Option<i64>,
    /// Name of the headless Service.
    pub cluster_service: String,
    /// The last member number handed out.
    #[serde(rename = "lastNodeID")]
    pub last_node_id: i64,
    /// The roles and their members.
    #[serde(deserialize_with = "null_as_default")]
    pub roles: Vec<RoleStatus>,
    /// Digest of what the cluster is connected to.
    pub last_connection_hash: String,

    /// Counts changes of the connections; a member whose `lastConnectionVersion` is lower is owed a
    /// reconnect. (KubeDirector keeps it in an annotation, where a refused write loses it.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_change_counter: Option<i64>,
    /// `metadata.generation` this status speaks of. Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Digest of the `metadata.uid` of the object this status was written for. A status with another was
    /// put there by a tool. (A digest, because after a restore the uid itself would be a dangling
    /// reference.) Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// `name/incarnation` of the first object of this lineage: a re-created cluster keeps the origin of
    /// the one it was restored from, a cluster made anew has its own. Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The release of the app the members were built from. Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_release: Option<AppRelease>,
    /// Machine-readable reasons for every wait. Not in KubeDirector.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

/// Which release of an app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppRelease {
    /// The app's `spec.distroID`.
    #[serde(rename = "distroID")]
    pub distro_id: String,
    /// The app's `spec.version`.
    pub version: String,
}

/// Overall state of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum ClusterState {
    /// Nothing has been done yet.
    #[default]
    New,
    /// Being built for the first time.
    Creating,
    /// Changing.
    Updating,
    /// At rest, every member configured.
    Configured,
}

impl ClusterState {
    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterState::New => "",
            ClusterState::Creating => "creating",
            ClusterState::Updating => "updating",
            ClusterState::Configured => "configured",
        }
    }
}

impl From<String> for ClusterState {
    /// An unknown word (KubeDirector's `spec modified` among them) means that work is left.
    fn from(word: String) -> Self {
        match word.as_str() {
            "" => ClusterState::New,
            "creating" => ClusterState::Creating,
            "configured" => ClusterState::Configured,
            _ => ClusterState::Updating,
        }
    }
}

impl From<ClusterState> for String {
    fn from(state: ClusterState) -> Self {
        state.as_str().to_owned()
    }
}

/// What a restore still waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreProgress {
    /// The app is not there.
    pub awaiting_app: bool,
    /// The status backup is not there, or not usable.
    pub awaiting_status: bool,
    /// An object named by the status, or a connection, is not there.
    pub awaiting_resources: bool,
    /// Why waiting alone will not help, or why resuming was refused. Empty when neither holds.
    pub error: String,
    /// One word for the state of the restore; the reason of condition `Restoring`. Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every awaited object, as `kind/name`. Not in KubeDirector.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub missing: Vec<String>,
    /// When the restore was noticed (RFC 3339). Not in KubeDirector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// What is the matter with any member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollup {
    /// Members are being added or removed.
    pub membership_changing: bool,
    /// A container is absent, terminated or unresponsive.
    pub members_down: bool,
    /// An init container runs.
    pub members_initializing: bool,
    /// A container waits to run.
    pub members_waiting: bool,
    /// A member that was configured has another container now.
    pub members_restarting: bool,
    /// A setup ended with an error.
    pub config_errors: bool,
    /// A pod has no node.
    pub members_not_scheduled: bool,
}

/// One role in the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleStatus {
    /// Id of the role.
    pub id: String,
    /// Name of the role's StatefulSet.
    pub stateful_set: String,
    /// Its members, by ordinal.
    #[serde(deserialize_with = "null_as_default")]
    pub members: Vec<Member>,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    /// Name of the pod.
    pub pod: String,
    /// Name of the member's Service; `n/a` when the role has no ports; empty until there is one.
    pub service: String,
    /// Name of the claim, when the role has storage.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pvc: String,
    /// Where the member stands.
    pub state: MemberState,
    /// Its number, unique in the life of the cluster.
    #[serde(rename = "nodeID")]
    pub node_id: i64,
    /// Token for the role's endpoints. Kept, never made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// Paths of the block devices.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub block_device_paths: Vec<String>,
    /// What is remembered about its container.
    pub state_detail: StateDetail,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum MemberState {
    /// Waits for its container.
    #[default]
    CreatePending,
    /// The container runs; its setup is under way.
    Creating,
    /// Ready.
    Configured,
    /// To be removed; the others are told first.
    DeletePending,
    /// Being removed.
    Deleting,
    /// Its setup failed.
    ConfigError,
}

impl MemberState {
    /// The words in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::CreatePending => "create pending",
            MemberState::Creating => "creating",
            MemberState::Configured => "configured",
            MemberState::DeletePending => "delete pending",
            MemberState::Deleting => "deleting",
            MemberState::ConfigError => "config error",
        }
    }

    /// The member is on its way out.
    pub fn leaving(self) -> bool {
        matches!(self, MemberState::DeletePending | MemberState::Deleting)
    }
}

impl From<String> for MemberState {
    /// Unknown words (a backup is only JSON) mean that everything has yet to be shown.
    fn from(words: String) -> Self {
        match words.as_str() {
            "creating" => MemberState::Creating,
            "configured" => MemberState::Configured,
            "delete pending" => MemberState::DeletePending,
            "deleting" => MemberState::Deleting,
            "config error" => MemberState::ConfigError,
            _ => MemberState::CreatePending,
        }
    }
}

impl From<MemberState> for String {
    fn from(state: MemberState) -> Self {
        state.as_str().to_owned()
    }
}

/// What is remembered about a member's container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StateDetail {
    /// Why the setup failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_error_detail: Option<String>,
    /// Generation of the metadata the guest holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_config_data_generation: Option<i64>,
    /// Generation the guest was set up with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_setup_generation: Option<i64>,
    /// Id of the container being set up.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub configuring_container: String,
    /// Id of the container that was last set up.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_configured_container: String,
    /// What the container was seen doing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_known_container_state: String,
    /// Notifications still owed to the guest, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub pending_notify_cmds: Vec<NotifyCommand>,
    /// Connection version the guest was last told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connection_version: Option<i64>,
    /// First words of the setup's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_script_stdout_message: Option<String>,
    /// First words of the setup's error output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_script_stderr_message: Option<String>,
    /// Why the pod has no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_error_message: Option<String>,
    /// Progress of the first filling of the storage. Kept, never made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_init_progress: Option<String>,
}

/// One notification owed to a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NotifyCommand {
    /// The arguments of the guest's start script.
    #[serde(deserialize_with = "null_as_default")]
    pub arguments: Vec<String>,
}

/// Lists that a backup may hold as null.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
