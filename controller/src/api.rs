//! The API of the controller: the four kinds of group `kubedirector.hpe.com`, version `v1beta1`.
//!
//! The types describe what KubeDirector's own definitions describe, so that manifests written for it
//! are accepted unchanged, plus a few output fields that a restore needs (each says so in its docs).
//! What the definitions add around these types (name patterns, optional specs) is in [`crate::crds`].

mod app;
mod cluster;
mod common;
mod config;
mod scheduling;
mod status;
mod status_backup;

pub use app::{
    AppConfig, AppLabel, AppRole, AppService, AppSpec, ConfigPackage, ContainerSpec, Endpoint, KubeDirectorApp,
    MinStorage, RoleServices,
};
pub use cluster::{
    BlockStorage, ClusterSpec, Connections, EnvVar, FileInjection, FilePermissions, KubeDirectorCluster, NamingScheme,
    Role, SecretKey, SecretMount, ServiceType, Storage, VolumeProjection,
};
pub use common::{Catalog, GROUP, KEY_PREFIX, Requirements, VERSION, api_version};
pub use config::{ConfigSpec, ConfigStatus, KubeDirectorConfig};
pub use scheduling::Affinity;
pub use status::{
    AppRelease, ClusterState, ClusterStatus, Member, MemberState, NotifyCommand, RestoreProgress, RoleStatus, Rollup,
    StateDetail,
};
pub use status_backup::{KubeDirectorStatusBackup, StatusBackupSpec};
