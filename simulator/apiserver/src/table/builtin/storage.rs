//! Volumes, claims and classes.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cells, Definition, NAME, count, created, items, name, text};

/// Columns and cells.
pub(super) fn printer(group: &str, kind: &str) -> Option<(&'static [Definition], Cells)> {
    Some(match (group, kind) {
        ("", "PersistentVolume") => (VOLUME, volume),
        ("", "PersistentVolumeClaim") => (CLAIM, claim),
        ("storage.k8s.io", "StorageClass") => (STORAGE_CLASS, storage_class),
        ("storage.k8s.io", "VolumeAttachment") => (ATTACHMENT, attachment),
        ("storage.k8s.io", "VolumeAttributesClass") => (ATTRIBUTES_CLASS, attributes_class),
        ("storage.k8s.io", "CSINode") => (CSI_NODE, csi_node),
        _ => return None,
    })
}

const CAPACITY: &str = "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity";
const ACCESS_MODES: &str = "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes";
const VOLUME_MODE: &str = "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.";

const VOLUME: &[Definition] = &[
    NAME,
    ("Capacity", "string", CAPACITY, 0),
    ("Access Modes", "string", ACCESS_MODES, 0),
    (
        "Reclaim Policy",
        "string",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        0,
    ),
    (
        "Status",
        "string",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        0,
    ),
    (
        "Claim",
        "string",
        "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
        0,
    ),
    (
        "StorageClass",
        "string",
        "storageClassName is the name of StorageClass to which this persistent volume belongs. Empty value means that this volume does not belong to any StorageClass.",
        0,
    ),
    (
        "VolumeAttributesClass",
        "string",
        "Name of VolumeAttributesClass to which this persistent volume belongs. Empty value is not allowed. When this field is not set, it indicates that this volume does not belong to any VolumeAttributesClass. This field is mutable and can be changed by the CSI driver after a volume has been updated successfully to a new class. For an unbound PersistentVolume, the volumeAttributesClassName will be matched with unbound PersistentVolumeClaims during the binding process.",
        0,
    ),
    (
        "Reason",
        "string",
        "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.",
        0,
    ),
    AGE,
    ("VolumeMode", "string", VOLUME_MODE, 1),
];

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    vec![
        name(object),
        text(&spec["capacity"]["storage"]).into(),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(object, text(&status["phase"])),
        claim.into(),
        class_of(object).into(),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        text(&status["reason"]).into(),
        created(object, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

const CLAIM: &[Definition] = &[
    NAME,
    ("Status", "string", "phase represents the current phase of PersistentVolumeClaim.", 0),
    ("Volume", "string", "volumeName is the binding reference to the PersistentVolume backing this claim.", 0),
    ("Capacity", "string", "capacity represents the actual resources of the underlying volume.", 0),
    (
        "Access Modes",
        "string",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
        0,
    ),
    (
        "StorageClass",
        "string",
        "storageClassName is the name of the StorageClass required by the claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#class-1",
        0,
    ),
    (
        "VolumeAttributesClass",
        "string",
        "volumeAttributesClassName may be used to set the VolumeAttributesClass used by this claim. If specified, the CSI driver will create or update the volume with the attributes defined in the corresponding VolumeAttributesClass. This has a different purpose than storageClassName, it can be changed after the claim is created. An empty string or nil value indicates that no VolumeAttributesClass will be applied to the claim. If the claim enters an Infeasible error state, this field can be reset to its previous value (including nil) to cancel the modification. If the resource referred to by volumeAttributesClass does not exist, this PersistentVolumeClaim will be set to a Pending state, as reflected by the modifyVolumeStatus field, until such as a resource exists. More info: https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/",
        0,
    ),
    AGE,
    (
        "VolumeMode",
        "string",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
        1,
    ),
];

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    // What is known of the volume shows only once the claim has one.
    let (capacity, modes) = if text(&spec["volumeName"]).is_empty() {
        ("".into(), "".into())
    } else {
        (Value::from(text(&status["capacity"]["storage"])), access_modes(&status["accessModes"]))
    };
    vec![
        name(object),
        phase(object, text(&status["phase"])),
        text(&spec["volumeName"]).into(),
        capacity,
        modes,
        class_of(object).into(),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        created(object, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

fn phase(object: &Value, phase: &str) -> Value {
    if object["metadata"]["deletionTimestamp"].is_string() { "Terminating".into() } else { phase.into() }
}

/// The class by its field, or by the annotation that came before it.
fn class_of(object: &Value) -> &str {
    object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"]
        .as_str()
        .unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

/// Access modes, shortened, each once, in upstream's order.
fn access_modes(modes: &Value) -> Value {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given: Vec<&str> = items(modes).map(text).collect();
    let shown: Vec<&str> = SHORT.iter().filter(|(long, _)| given.contains(long)).map(|(_, short)| *short).collect();
    shown.join(",").into()
}

const STORAGE_CLASS: &[Definition] = &[
    NAME,
    ("Provisioner", "string", "provisioner indicates the type of the provisioner.", 0),
    (
        "ReclaimPolicy",
        "string",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
        0,
    ),
    (
        "VolumeBindingMode",
        "string",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
        0,
    ),
    ("AllowVolumeExpansion", "string", "allowVolumeExpansion shows whether the storage class allow volume expand.", 0),
    AGE,
];

fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = |prefix: &str| {
        object["metadata"]["annotations"][format!("storageclass.{prefix}kubernetes.io/is-default-class")] == "true"
    };
    let name = if annotation("") || annotation("beta.") {
        format!("{} (default)", text(&object["metadata"]["name"])).into()
    } else {
        name(object)
    };
    vec![
        name,
        text(&object["provisioner"]).into(),
        object["reclaimPolicy"].as_str().unwrap_or("Delete").into(),
        object["volumeBindingMode"].as_str().unwrap_or("Immediate").into(),
        (object["allowVolumeExpansion"] == true).into(),
        created(object, now),
    ]
}

const ATTACHMENT: &[Definition] = &[
    NAME,
    (
        "Attacher",
        "string",
        "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
        0,
    ),
    ("PV", "string", "persistentVolumeName represents the name of the persistent volume to attach.", 0),
    ("Node", "string", "nodeName represents the node that the volume should be attached to.", 0),
    (
        "Attached",
        "boolean",
        "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.",
        0,
    ),
    AGE,
];

fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        (object["status"]["attached"] == true).into(),
        created(object, now),
    ]
}

const ATTRIBUTES_CLASS: &[Definition] =
    &[NAME, ("DriverName", "string", "Name of the CSI driver This field is immutable.", 0), AGE];

fn attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["driverName"]).into(), created(object, now)]
}

const CSI_NODE: &[Definition] =
    &[NAME, ("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node", 0), AGE];

fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["spec"]["drivers"]).into(), created(object, now)]
}
