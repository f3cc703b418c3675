//! Names: labels, annotations, finalizers, and how children are called.

use crate::api::{NamingScheme, Role};

/// Label on a cluster: being restored. Only presence matters.
pub const RESTORING: &str = "kubedirector.hpe.com/restoring";
/// Label on a cluster: may be deleted although it is being restored.
pub const ALLOW_DELETE_WHILE_RESTORING: &str = "kubedirector.hpe.com/allow-delete-while-restoring";
/// Annotation on a cluster: whether a status backup exists. Presence means that a controller has
/// handled this cluster before, and so, on a new object, that it is a restored one.
pub const STATUS_BACKUP_EXISTS: &str = "kubedirector.hpe.com/status-backup-exists";
/// Annotation on a cluster: `name/incarnation` of the first object of its lineage. Tells a restored cluster
/// from a copy under another name, and its backup from one left behind by a namesake.
pub const ORIGIN: &str = "kubedirector.hpe.com/origin";
/// Finalizer on clusters and on the config.
pub const FINALIZER: &str = "kubedirector.hpe.com/cleanup";

/// Label on everything that belongs to a cluster: the cluster's name.
pub const CLUSTER: &str = "kubedirector.hpe.com/kdcluster";
/// Label: name of the app.
pub const APP: &str = "kubedirector.hpe.com/kdapp";
/// Label: catalogue of the app.
pub const APP_CATALOG: &str = "kubedirector.hpe.com/appCatalog";
/// Label: id of the role.
pub const ROLE: &str = "kubedirector.hpe.com/role";
/// Label on StatefulSets, pods and claims: the cluster's name; the headless Service selects by it.
pub const HEADLESS: &str = "kubedirector.hpe.com/headless";
/// Annotation on children: the app's name for people.
pub const APP_PRETTY_NAME: &str = "kubedirector.hpe.com/kdapp-prettyName";
/// Label on a connected ConfigMap: what it is about.
pub const CONFIG_MAP_TYPE: &str = "kubedirector.hpe.com/cmType";
/// Label on a connected Secret: what it is about.
pub const SECRET_TYPE: &str = "kubedirector.hpe.com/secretType";

/// The only KubeDirectorConfig that counts.
pub const CONFIG_NAME: &str = "kd-global-config";
/// Container of a member pod that the guest runs in.
pub const CONTAINER: &str = "app";
/// Name of a member's claim template.
pub const CLAIM_TEMPLATE: &str = "p";
/// `members[].service` of a role without ports.
pub const NO_SERVICE: &str = "n/a";
/// The one port of the headless Service, which nothing listens on.
pub const HEADLESS_PORT: i32 = 8888;
/// Most members of a cluster, over all roles.
pub const MEMBERS_MAX: usize = 1000;
/// `fieldManager` of our writes.
pub const FIELD_MANAGER: &str = "rewake-controller";

/// The webhook configuration of the controller.
pub const WEBHOOK_CONFIGURATION: &str = "kubedirector-webhook";
/// The Service in front of the webhook server.
pub const WEBHOOK_SERVICE: &str = "kubedirector-validator";
/// The Secret with the webhook server's certificate.
pub const WEBHOOK_SECRET: &str = "kubedirector-validator-secret";
/// Path of the webhook server.
pub const WEBHOOK_PATH: &str = "/validate";

/// Longest part of a generated name that comes from a cluster's or a role's name.
const MUNGED_MAX: usize = 46;

/// `generateName` of the headless Service.
pub fn headless_prefix(cluster: &str, scheme: NamingScheme) -> String {
    match scheme {
        NamingScheme::Uid => "kdhs-".to_owned(),
        NamingScheme::CrNameRole => munged(cluster),
    }
}

/// `generateName` of a role's StatefulSet.
pub fn set_prefix(cluster: &str, role: &Role, scheme: NamingScheme) -> String {
    match scheme {
        NamingScheme::Uid => "kdss-".to_owned(),
        NamingScheme::CrNameRole => format!("{}-", munged(&format!("{cluster}-{}", role.id))),
    }
}

/// Name of a StatefulSet's pod.
pub fn pod(set: &str, ordinal: usize) -> String {
    format!("{set}-{ordinal}")
}

/// Name of a member's Service.
pub fn member_service(pod: &str, scheme: NamingScheme) -> String {
    match scheme {
        NamingScheme::Uid => format!("s-{pod}"),
        NamingScheme::CrNameRole => pod.to_owned(),
    }
}

/// Name of a member's claim.
pub fn claim(pod: &str) -> String {
    format!("{CLAIM_TEMPLATE}-{pod}")
}

/// Name of the template of a member's block device.
pub fn block_template(device: i64) -> String {
    format!("b{device}")
}

/// Whether a claim's name has the form a StatefulSet of ours gives it: `p-SET-N` or `bI-SET-N`.
pub fn is_member_claim(name: &str) -> bool {
    let Some((template, pod)) = name.split_once('-') else { return false };
    let ours = template == CLAIM_TEMPLATE
        || template
            .strip_prefix('b')
            .is_some_and(|device| !device.is_empty() && device.bytes().all(|b| b.is_ascii_digit()));
    ours && pod.rsplit_once('-').is_some_and(|(set, ordinal)| {
        !set.is_empty() && !ordinal.is_empty() && ordinal.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Lower case, `.` and `_` as `-`, cut at [`MUNGED_MAX`] characters.
fn munged(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '.' | '_') { '-' } else { c.to_ascii_lowercase() }).take(MUNGED_MAX).collect()
}
