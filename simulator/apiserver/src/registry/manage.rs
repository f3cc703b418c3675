//! Where the pipeline keeps `metadata.managedFields` up to date.

use jiff::Timestamp;
use serde_json::Value;

use super::scope::Scope;
use crate::object::Object;

/// A new object: everything sent belongs to its manager.
pub(crate) fn on_create(_scope: &Scope, _object: &mut Value, _now: Timestamp) {}

/// A change: what differs from `live` belongs to the manager.
pub(crate) fn on_update(_scope: &Scope, _live: &Object, _new: &mut Value, _now: Timestamp) {}

/// A change that touches only the times of managed fields is none.
pub(crate) fn settle(_new: &mut Value, _live: &Object) {}
