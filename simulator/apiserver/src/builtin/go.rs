//! How Go prints the structs of Kubernetes' internal types, where a message quotes one.
//!
//! Internal types have no JSON names: `json.Marshal` writes Go's field names in the order of the type,
//! zero values included. A [`Shape`] is such a type, with the JSON name that each field has outside.

use serde_json::Value;

/// A type, as far as printing needs it.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Anything printed as it is outside, `null` when absent: pointers to scalars, maps.
    AsIs,
    /// A string: `""` when absent.
    Text,
    /// A number: `0` when absent.
    Number,
    /// A boolean: `false` when absent.
    Flag,
    /// A number-or-string: `0` when absent.
    NumberOrText,
    /// A list: `null` when absent.
    List(&'static Shape),
    /// A pointer to a struct: `null` when absent.
    Pointer(&'static [Field]),
    /// A struct: its zero value when absent.
    Struct(&'static [Field]),
    /// A struct of `metav1` or `core/v1`, which has JSON names: fields in order, absent ones left out.
    Tagged(&'static [&'static str]),
}

/// Go's name, the JSON name, the type.
type Field = (&'static str, &'static str, Shape);

impl Shape {
    /// One line, as `json.Marshal` gives it.
    pub(super) fn print(self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, None, 0, &mut out);
        out
    }

    /// Several lines, indented by one blank, as upstream's `diff` prepares it.
    pub(super) fn print_lines(self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, Some(()), 0, &mut out);
        out
    }

    fn write(self, value: &Value, lines: Option<()>, depth: usize, out: &mut String) {
        let plain = |value: &Value, zero: &str, out: &mut String| {
            if value.is_null() {
                out.push_str(zero);
            } else if lines.is_some() {
                indent_json(value, depth, out);
            } else {
                out.push_str(&value.to_string());
            }
        };
        match self {
            Self::AsIs => plain(value, "null", out),
            Self::Text => plain(value, "\"\"", out),
            Self::Number | Self::NumberOrText => plain(value, "0", out),
            Self::Flag => plain(value, "false", out),
            Self::List(item) => match value.as_array() {
                None => out.push_str("null"),
                Some(items) => group('[', ']', items.iter(), lines, depth, out, |one, out| {
                    item.write(one, lines, depth + 1, out);
                }),
            },
            Self::Pointer(_) if value.is_null() => out.push_str("null"),
            Self::Pointer(fields) | Self::Struct(fields) => {
                group('{', '}', fields.iter(), lines, depth, out, |(name, json, shape), out| {
                    key(name, lines, out);
                    shape.write(value.get(json).unwrap_or(&Value::Null), lines, depth + 1, out);
                });
            }
            Self::Tagged(_) if value.is_null() => out.push_str("null"),
            Self::Tagged(fields) => {
                let present = fields.iter().filter(|field| !value[**field].is_null());
                group('{', '}', present, lines, depth, out, |field, out| {
                    key(field, lines, out);
                    Self::AsIs.write(&value[*field], lines, depth + 1, out);
                });
            }
        }
    }
}

fn key(name: &str, lines: Option<()>, out: &mut String) {
    out.extend(["\"", name, if lines.is_some() { "\": " } else { "\":" }]);
}

fn group<T>(
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    lines: Option<()>,
    depth: usize,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    let mut any = false;
    for item in items {
        if any {
            out.push(',');
        }
        any = true;
        if lines.is_some() {
            newline(depth + 1, out);
        }
        write(item, out);
    }
    if any && lines.is_some() {
        newline(depth, out);
    }
    out.push(close);
}

fn newline(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth));
}

fn indent_json(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => {
            group('[', ']', items.iter(), Some(()), depth, out, |item, out| indent_json(item, depth + 1, out));
        }
        Value::Object(map) => group('{', '}', map.iter(), Some(()), depth, out, |(name, item), out| {
            key(name, Some(()), out);
            indent_json(item, depth + 1, out);
        }),
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// A unified diff with three lines of context and without file names, as
/// `k8s.io/apimachinery/pkg/util/diff` makes it.
pub(super) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let edits = edits(&old, &new);
    let mut out = String::new();
    let mut at = 0;
    while let Some(first) = edits[at..].iter().position(|edit| edit.mark != ' ').map(|offset| at + offset) {
        let start = first.saturating_sub(CONTEXT).max(at);
        let mut end = first + 1;
        // Changes that are close share a hunk.
        while let Some(next) = edits[end..].iter().position(|edit| edit.mark != ' ') {
            if next > 2 * CONTEXT {
                break;
            }
            end += next + 1;
        }
        let end = (end + CONTEXT).min(edits.len());
        let hunk = &edits[start..end];
        let count = |skip: char| hunk.iter().filter(|edit| edit.mark != skip).count();
        out.push_str(&format!("@@ -{},{} +{},{} @@\n", hunk[0].old + 1, count('+'), hunk[0].new + 1, count('-')));
        for edit in hunk {
            out.push(edit.mark);
            out.push_str(edit.line);
            out.push('\n');
        }
        at = end;
    }
    out
}

const CONTEXT: usize = 3;

/// One line of a diff, with its place in both texts.
struct Edit<'a> {
    mark: char,
    line: &'a str,
    old: usize,
    new: usize,
}

/// Common head and tail are kept; between them a longest common subsequence. Specs have tens of lines,
/// so a quadratic table is small.
fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Edit<'a>> {
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut edits) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let edit = |mark, line| Edit { mark, line, old: i, new: j };
        if i < old.len() && j < new.len() && old[i] == new[j] {
            edits.push(edit(' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            edits.push(edit('-', old[i]));
            i += 1;
        } else {
            edits.push(edit('+', new[j]));
            j += 1;
        }
    }
    edits
}

/// `metav1.LabelSelector`.
pub(super) const LABEL_SELECTOR: Shape = Shape::Tagged(&["matchLabels", "matchExpressions"]);

/// `apps.RollingUpdateStatefulSetStrategy`.
pub(super) const STATEFUL_SET_ROLLING_UPDATE: Shape = Shape::Pointer(ROLLING_UPDATE_FIELDS);
const ROLLING_UPDATE_FIELDS: &[Field] =
    &[("Partition", "partition", Shape::Number), ("MaxUnavailable", "maxUnavailable", Shape::AsIs)];

/// `apps.StatefulSetUpdateStrategy`.
pub(super) const STATEFUL_SET_UPDATE_STRATEGY: Shape = Shape::Struct(&[
    ("Type", "type", Shape::Text),
    ("RollingUpdate", "rollingUpdate", Shape::Pointer(ROLLING_UPDATE_FIELDS)),
]);

/// `core.ServicePort`.
pub(super) const SERVICE_PORT: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("Protocol", "protocol", Shape::Text),
    ("AppProtocol", "appProtocol", Shape::AsIs),
    ("Port", "port", Shape::Number),
    ("TargetPort", "targetPort", Shape::NumberOrText),
    ("NodePort", "nodePort", Shape::Number),
]);

/// `policy.PodDisruptionBudgetSpec`.
pub(super) const DISRUPTION_BUDGET_SPEC: Shape = Shape::Struct(&[
    ("MinAvailable", "minAvailable", Shape::AsIs),
    ("Selector", "selector", LABEL_SELECTOR),
    ("MaxUnavailable", "maxUnavailable", Shape::AsIs),
    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", Shape::AsIs),
]);

/// `rbac.RoleRef`.
pub(super) const ROLE_REF: Shape = Shape::Struct(&[
    ("APIGroup", "apiGroup", Shape::Text),
    ("Kind", "kind", Shape::Text),
    ("Name", "name", Shape::Text),
]);

/// `core.TypedLocalObjectReference`.
const TYPED_LOCAL_REFERENCE: Shape = Shape::Pointer(&[
    ("APIGroup", "apiGroup", Shape::AsIs),
    ("Kind", "kind", Shape::Text),
    ("Name", "name", Shape::Text),
]);

/// `core.PersistentVolumeClaimSpec`.
pub(super) const CLAIM_SPEC: Shape = Shape::Struct(&[
    ("AccessModes", "accessModes", Shape::List(&Shape::Text)),
    ("Selector", "selector", LABEL_SELECTOR),
    (
        "Resources",
        "resources",
        Shape::Struct(&[("Limits", "limits", Shape::AsIs), ("Requests", "requests", Shape::AsIs)]),
    ),
    ("VolumeName", "volumeName", Shape::Text),
    ("StorageClassName", "storageClassName", Shape::AsIs),
    ("VolumeMode", "volumeMode", Shape::AsIs),
    ("DataSource", "dataSource", TYPED_LOCAL_REFERENCE),
    (
        "DataSourceRef",
        "dataSourceRef",
        Shape::Pointer(&[
            ("APIGroup", "apiGroup", Shape::AsIs),
            ("Kind", "kind", Shape::Text),
            ("Name", "name", Shape::Text),
            ("Namespace", "namespace", Shape::AsIs),
        ]),
    ),
    ("VolumeAttributesClassName", "volumeAttributesClassName", Shape::AsIs),
]);

const SECRET_REFERENCE: Shape =
    Shape::Pointer(&[("Name", "name", Shape::Text), ("Namespace", "namespace", Shape::Text)]);
const LOCAL_REFERENCE: Shape = Shape::Pointer(&[("Name", "name", Shape::Text)]);

/// `core.PersistentVolumeSource`.
pub(super) const VOLUME_SOURCE: Shape = Shape::Struct(&[
    (
        "GCEPersistentDisk",
        "gcePersistentDisk",
        Shape::Pointer(&[
            ("PDName", "pdName", Shape::Text),
            ("FSType", "fsType", Shape::Text),
            ("Partition", "partition", Shape::Number),
            ("ReadOnly", "readOnly", Shape::Flag),
        ]),
    ),
    (
        "AWSElasticBlockStore",
        "awsElasticBlockStore",
        Shape::Pointer(&[
            ("VolumeID", "volumeID", Shape::Text),
            ("FSType", "fsType", Shape::Text),
            ("Partition", "partition", Shape::Number),
            ("ReadOnly", "readOnly", Shape::Flag),
        ]),
    ),
    ("HostPath", "hostPath", Shape::Pointer(&[("Path", "path", Shape::Text), ("Type", "type", Shape::AsIs)])),
    (
        "Glusterfs",
        "glusterfs",
        Shape::Pointer(&[
            ("EndpointsName", "endpoints", Shape::Text),
            ("Path", "path", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
            ("EndpointsNamespace", "endpointsNamespace", Shape::AsIs),
        ]),
    ),
    (
        "NFS",
        "nfs",
        Shape::Pointer(&[
            ("Server", "server", Shape::Text),
            ("Path", "path", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
        ]),
    ),
    (
        "RBD",
        "rbd",
        Shape::Pointer(&[
            ("CephMonitors", "monitors", Shape::List(&Shape::Text)),
            ("RBDImage", "image", Shape::Text),
            ("FSType", "fsType", Shape::Text),
            ("RBDPool", "pool", Shape::Text),
            ("RadosUser", "user", Shape::Text),
            ("Keyring", "keyring", Shape::Text),
            ("SecretRef", "secretRef", SECRET_REFERENCE),
            ("ReadOnly", "readOnly", Shape::Flag),
        ]),
    ),
    ("Quobyte", "quobyte", Shape::AsIs),
    (
        "ISCSI",
        "iscsi",
        Shape::Pointer(&[
            ("TargetPortal", "targetPortal", Shape::Text),
            ("IQN", "iqn", Shape::Text),
            ("Lun", "lun", Shape::Number),
            ("ISCSIInterface", "iscsiInterface", Shape::Text),
            ("FSType", "fsType", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
            ("Portals", "portals", Shape::List(&Shape::Text)),
            ("DiscoveryCHAPAuth", "chapAuthDiscovery", Shape::Flag),
            ("SessionCHAPAuth", "chapAuthSession", Shape::Flag),
            ("SecretRef", "secretRef", SECRET_REFERENCE),
            ("InitiatorName", "initiatorName", Shape::AsIs),
        ]),
    ),
    ("FlexVolume", "flexVolume", Shape::AsIs),
    (
        "Cinder",
        "cinder",
        Shape::Pointer(&[
            ("VolumeID", "volumeID", Shape::Text),
            ("FSType", "fsType", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
            ("SecretRef", "secretRef", SECRET_REFERENCE),
        ]),
    ),
    ("CephFS", "cephfs", Shape::AsIs),
    ("FC", "fc", Shape::AsIs),
    ("Flocker", "flocker", Shape::AsIs),
    ("AzureFile", "azureFile", Shape::AsIs),
    ("VsphereVolume", "vsphereVolume", Shape::AsIs),
    ("AzureDisk", "azureDisk", Shape::AsIs),
    ("PhotonPersistentDisk", "photonPersistentDisk", Shape::AsIs),
    ("PortworxVolume", "portworxVolume", Shape::AsIs),
    ("ScaleIO", "scaleIO", Shape::AsIs),
    ("Local", "local", Shape::Pointer(&[("Path", "path", Shape::Text), ("FSType", "fsType", Shape::AsIs)])),
    ("StorageOS", "storageos", LOCAL_REFERENCE),
    (
        "CSI",
        "csi",
        Shape::Pointer(&[
            ("Driver", "driver", Shape::Text),
            ("VolumeHandle", "volumeHandle", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
            ("FSType", "fsType", Shape::Text),
            ("VolumeAttributes", "volumeAttributes", Shape::AsIs),
            ("ControllerPublishSecretRef", "controllerPublishSecretRef", SECRET_REFERENCE),
            ("NodeStageSecretRef", "nodeStageSecretRef", SECRET_REFERENCE),
            ("NodePublishSecretRef", "nodePublishSecretRef", SECRET_REFERENCE),
            ("ControllerExpandSecretRef", "controllerExpandSecretRef", SECRET_REFERENCE),
            ("NodeExpandSecretRef", "nodeExpandSecretRef", SECRET_REFERENCE),
        ]),
    ),
]);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zero_values_are_printed_in_the_order_of_the_type() {
        assert_eq!(
            SERVICE_PORT.print(&json!({"port": 1, "protocol": "TCP"})),
            r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}"#
        );
    }

    #[test]
    fn a_diff_shows_three_lines_around_a_change() {
        let spec = |mode: &str| {
            CLAIM_SPEC.print_lines(&json!({"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}))
        };
        assert_eq!(
            diff(&spec("ReadWriteOnce"), &spec("ReadWriteMany")),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n  ],\n  \
             \"Selector\": null,\n  \"Resources\": {\n"
        );
    }
}
