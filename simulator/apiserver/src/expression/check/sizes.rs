//! How large values can be: from the limits of a schema, or from what fits a request.
//!
//! Source: `k8s.io/apiserver/pkg/cel/common/schemas.go`.

use crate::schema::{Node, SchemaSet};

/// Bytes of a request (`celconfig.MaxRequestSizeBytes`).
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// Bytes that a character takes at most.
const PER_CHARACTER: u64 = 4;

/// Most characters, items or members of a value here.
#[must_use]
pub(crate) fn most(set: &SchemaSet, node: &Node) -> u64 {
    let constraints = node.constraints.as_deref();
    match node.type_.as_str() {
        "string" => {
            if let Some(most) = constraints.and_then(|constraints| constraints.max_length) {
                return most.saturating_mul(PER_CHARACTER);
            }
            let longest = node.enumeration.iter().filter_map(|value| value.as_str()).map(str::len).max();
            match (longest, node.format.as_str()) {
                (Some(longest), _) => longest as u64,
                (None, "duration" | "date" | "date-time" | "datetime") => 1,
                (None, _) => MAX_REQUEST - 2,
            }
        }
        "array" => {
            let given = constraints.and_then(|constraints| constraints.max_items);
            let least = node.items.map_or(1, |items| least_bytes(set, &set.nodes[items as usize], 0));
            given.unwrap_or((MAX_REQUEST - 2) / (least + 1))
        }
        "object" => {
            let given = constraints.and_then(|constraints| constraints.max_properties);
            let least = node.additional.map_or(1, |value| least_bytes(set, &set.nodes[value as usize], 0));
            given.unwrap_or((MAX_REQUEST - 2) / (least + 6))
        }
        "" => u64::MAX,
        _ => 1,
    }
}

/// Fewest bytes that a value takes as JSON.
fn least_bytes(set: &SchemaSet, node: &Node, depth: usize) -> u64 {
    /// Deeper values are taken for empty.
    const MAX_DEPTH: usize = 32;
    match node.type_.as_str() {
        "string" => match node.format.as_str() {
            "date" => 12,
            "date-time" | "datetime" => 22,
            _ => 2,
        },
        "boolean" => 4,
        "integer" | "number" => 1,
        "object" if depth < MAX_DEPTH => {
            let required = node
                .properties
                .iter()
                .filter(|(name, id)| node.required.contains(name) && set.nodes[**id as usize].default.is_none());
            required.fold(2, |bytes, (name, id)| {
                bytes + name.len() as u64 + 4 + least_bytes(set, &set.nodes[*id as usize], depth + 1)
            })
        }
        _ => 2,
    }
}
