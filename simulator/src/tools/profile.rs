//! What tools and versions differ in, as data.

/// How a tool treats `metadata` before it creates an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetadataReset {
    /// Only name, namespace, labels and annotations survive (Velero up to v1.10.1).
    AllowList,
    /// What the server sets is removed; finalizers and managedFields survive (Velero since v1.10.2).
    DenyList,
    /// Only `resourceVersion`, `uid`, `creationTimestamp`, `generation` and `managedFields` are removed:
    /// what a careful person strips from exported YAML.
    ServerFields,
    /// Nothing but what the author wrote: name, namespace, labels, annotations (manifests in git).
    Authored,
}

/// How a tool treats `metadata.ownerReferences`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OwnerReferences {
    /// Dropped.
    Dropped,
    /// Kept with the old uids.
    KeptStale,
    /// Rewritten to the live owner of that name; dropped where there is none (Rancher).
    FromLiveOwner,
    /// Rewritten to the owner's new uid; owners are created before dependents (clusterctl move).
    Rebuilt,
}

/// What a tool does when the object is there already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Existing {
    /// Leaves it alone and warns when it differs.
    Skip,
    /// Sends a merge patch from the live object to the archived one (Velero's policy `update`).
    MergePatch,
    /// Replaces it by an update (Rancher, clusterctl).
    Replace,
    /// `kubectl apply`: a merge patch of what the manifest says, nothing is taken away.
    Apply,
}

/// A restore tool in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name in scenarios, for example `velero-1.18`.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// Metadata treatment.
    pub metadata: MetadataReset,
    /// Owner references treatment.
    pub owner_references: OwnerReferences,
    /// Types restored first, in this order.
    pub high: &'static [&'static str],
    /// Types restored last, in this order.
    pub low: &'static [&'static str],
    /// Puts the archived managedFields back after each create.
    pub patches_managed_fields: bool,
    /// Looks whether the object exists before it creates it.
    pub looks_before_creating: bool,
    /// Default treatment of what exists.
    pub existing: Existing,
    /// Restores `status` when asked to.
    pub restores_status: bool,
    /// Restores `status` of custom resources without being asked (Rancher).
    pub always_restores_status: bool,
    /// Labels what it restores with the names of backup and restore.
    pub labels: bool,
    /// Applies Velero's restore item actions.
    pub item_actions: bool,
    /// Deletes what lives in the restored namespaces but not in the backup.
    pub prunes: bool,
    /// Leaves out what controllers made: objects that had an owner, and objects without an author
    /// (events, endpoints, pods, claims): what git holds.
    pub authored_only: bool,
    /// Backs up objects that are being deleted.
    pub saves_terminating: bool,
}

/// Velero's order since v1.18.
const VELERO_1_18: &[&str] = &[
    "customresourcedefinitions",
    "namespaces",
    "storageclasses",
    "volumesnapshotclass.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
    "datauploads.velero.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles",
    "roles",
    "serviceaccounts",
    "clusterrolebindings",
    "rolebindings",
    "secrets",
    "configmaps",
    "limitranges",
    "priorityclasses",
    "pods",
    "replicasets.apps",
    "clusterclasses.cluster.x-k8s.io",
    "endpoints",
    "services",
];

/// Velero's order in v1.9.
const VELERO_1_9: &[&str] = &[
    "customresourcedefinitions",
    "namespaces",
    "storageclasses",
    "volumesnapshotclass.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "secrets",
    "configmaps",
    "serviceaccounts",
    "limitranges",
    "pods",
    "replicasets.apps",
    "clusters.cluster.x-k8s.io",
    "clusterresourcesets.addons.cluster.x-k8s.io",
    "clusterclasses.cluster.x-k8s.io",
];

/// Velero's types that come last since v1.15.
const VELERO_LOW: &[&str] = &[
    "clusterbootstraps.run.tanzu.vmware.com",
    "clusters.cluster.x-k8s.io",
    "clusterresourcesets.addons.cluster.x-k8s.io",
    "apps.kappctrl.k14s.io",
    "packageinstalls.packaging.carvel.dev",
];

const VELERO: Profile = Profile {
    name: "velero-1.18",
    about: "Velero v1.18: finalizers kept, managedFields patched back, owner references dropped",
    metadata: MetadataReset::DenyList,
    owner_references: OwnerReferences::Dropped,
    high: VELERO_1_18,
    low: VELERO_LOW,
    patches_managed_fields: true,
    looks_before_creating: true,
    existing: Existing::Skip,
    restores_status: true,
    always_restores_status: false,
    labels: true,
    item_actions: true,
    prunes: false,
    authored_only: false,
    saves_terminating: false,
};

const PLAIN: Profile = Profile {
    high: &["customresourcedefinitions", "namespaces"],
    low: &[],
    patches_managed_fields: false,
    looks_before_creating: true,
    restores_status: false,
    labels: false,
    item_actions: false,
    ..VELERO
};

/// Every profile, the default first.
pub const PROFILES: &[Profile] = &[
    VELERO,
    Profile {
        name: "velero-1.9",
        about: "Velero v1.9: only name, namespace, labels and annotations survive; finalizers are stripped",
        metadata: MetadataReset::AllowList,
        high: VELERO_1_9,
        low: &[],
        patches_managed_fields: false,
        looks_before_creating: false,
        ..VELERO
    },
    Profile {
        name: "kubectl-apply",
        about: "kubectl apply of exported YAML: owner references kept with their old uids, status ignored",
        metadata: MetadataReset::ServerFields,
        owner_references: OwnerReferences::KeptStale,
        existing: Existing::Apply,
        ..PLAIN
    },
    Profile {
        name: "gitops",
        about: "GitOps re-apply: only what somebody wrote, in file order; nothing that controllers made",
        metadata: MetadataReset::Authored,
        existing: Existing::Apply,
        authored_only: true,
        ..PLAIN
    },
    Profile {
        name: "rancher",
        about: "Rancher's backup-restore operator: owner references rewritten from live owners, status of custom \
                resources restored, existing objects replaced, what is not in the backup pruned",
        metadata: MetadataReset::DenyList,
        owner_references: OwnerReferences::FromLiveOwner,
        existing: Existing::Replace,
        always_restores_status: true,
        prunes: true,
        saves_terminating: true,
        ..PLAIN
    },
    Profile {
        name: "clusterctl-move",
        about: "clusterctl move: owners first, owner references rebuilt with new uids, finalizers copied, no status",
        metadata: MetadataReset::DenyList,
        owner_references: OwnerReferences::Rebuilt,
        existing: Existing::Replace,
        ..PLAIN
    },
];

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The default: the newest Velero.
    #[must_use]
    pub fn newest() -> &'static Self {
        &PROFILES[0]
    }
}
