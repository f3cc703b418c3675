//! `metadata.managedFields`: its entries, who they belong to, how they are read and written.
//!
//! Source: `k8s.io/apimachinery/pkg/util/managedfields/internal` (`managedfields.go`,
//! `capmanagers.go`).

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// How many Update managers an object may have before the oldest are folded into one.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager that the oldest Update managers are folded into.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// How a manager came by its fields.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields. Appliers are the same in every version, so theirs does not count.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Manager {
    /// Is this the same manager, so that there is one entry for both?
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The text by which upstream sorts managers: their entry as JSON, without fields and time.
    pub(super) fn sort_key(&self) -> String {
        let mut key = format!(r#"{{"manager":{},"operation":"{}""#, json!(self.name), self.operation.as_str());
        if self.operation == Operation::Update {
            key += &format!(r#","apiVersion":{}"#, json!(self.api_version));
        }
        if !self.subresource.is_empty() {
            key += &format!(r#","subresource":{}"#, json!(self.subresource));
        }
        key + "}"
    }
}

/// `"installer" using v1`, `"controller" with subresource "status"`: as conflicts name a manager.
impl std::fmt::Display for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", json!(self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", json!(self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) manager: Manager,
    /// RFC 3339 in UTC with whole seconds, so that texts sort as times do; empty when there is none.
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

/// The entries of an object: one for each manager, none without fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(pub(super) Vec<Entry>);

impl Entries {
    /// Reads `metadata.managedFields`.
    ///
    /// # Errors
    /// What is malformed.
    pub(super) fn decode(managed_fields: &Value) -> Result<Self, String> {
        let mut entries = Self::default();
        for (index, entry) in managed_fields.as_array().into_iter().flatten().enumerate() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let operation = match entry["operation"].as_str() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match entry["fieldsType"].as_str() {
                Some("FieldsV1") => {}
                None | Some("") => return Err(format!("missing fieldsType in managed fields entry {index}")),
                Some(other) => {
                    return Err(format!("invalid fieldsType {} in managed fields entry {index}", json!(other)));
                }
            }
            let fields = match &entry["fieldsV1"] {
                Value::Null => FieldSet::default(),
                fields => FieldSet::from_json(fields)?,
            };
            let manager = Manager { name: text("manager"), operation, api_version, subresource: text("subresource") };
            entries.put(Entry { manager, time: text("time"), fields });
        }
        Ok(entries)
    }

    /// The value of `metadata.managedFields`: appliers first, then by time and name; `null` when
    /// nobody owns anything.
    pub(super) fn encode(self) -> Value {
        let mut entries = self.0;
        if entries.is_empty() {
            return Value::Null;
        }
        entries.sort_by(|left, right| {
            let (a, b) = (&left.manager, &right.manager);
            (a.operation, &left.time, &a.name, &a.api_version, &a.subresource).cmp(&(
                b.operation,
                &right.time,
                &b.name,
                &b.api_version,
                &b.subresource,
            ))
        });
        entries.into_iter().map(Entry::into_json).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    /// Puts an entry in the place of the one its manager has.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|other| other.manager.is(&entry.manager)) {
            Some(other) => *other = entry,
            None => self.0.push(entry),
        }
    }

    /// Takes a manager's entry out.
    pub(super) fn take(&mut self, manager: &Manager) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.manager.is(manager))?;
        Some(self.0.remove(place))
    }

    /// Drops entries without fields.
    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Folds the oldest Update entries into one for each version until no more than ten are left.
    pub(super) fn cap(&mut self) {
        let is_update = |entry: &Entry| entry.manager.operation == Operation::Update;
        let mut count = self.0.iter().filter(|entry| is_update(entry)).count();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let mut oldest: Vec<Entry> = self.0.extract_if(.., |entry| is_update(entry)).collect();
        oldest.sort_by_cached_key(|entry| (entry.time.clone(), entry.manager.sort_key()));
        let mut kept: Vec<Entry> = Vec::with_capacity(oldest.len());
        for mut entry in oldest {
            let same_version = |other: &&mut Entry| other.manager.api_version == entry.manager.api_version;
            match kept.iter_mut().find(same_version) {
                Some(bucket) if count > MAX_UPDATE_MANAGERS => {
                    ANCIENT_CHANGES.clone_into(&mut bucket.manager.name);
                    bucket.manager.subresource.clear();
                    bucket.fields = std::mem::take(&mut bucket.fields).union(entry.fields);
                    bucket.time = entry.time;
                    count -= 1;
                }
                _ => {
                    entry.fields = std::mem::take(&mut entry.fields);
                    kept.push(entry);
                }
            }
        }
        for entry in kept {
            self.put(entry);
        }
    }
}

impl Entry {
    fn into_json(self) -> Value {
        let mut entry = Map::new();
        let mut set = |field: &str, value: Value| entry.insert(field.to_owned(), value);
        set("apiVersion", self.manager.api_version.into());
        set("fieldsType", "FieldsV1".into());
        set("fieldsV1", self.fields.into_json());
        if !self.manager.name.is_empty() {
            set("manager", self.manager.name.into());
        }
        set("operation", self.manager.operation.as_str().into());
        if !self.manager.subresource.is_empty() {
            set("subresource", self.manager.subresource.into());
        }
        if !self.time.is_empty() {
            set("time", self.time.into());
        }
        Value::Object(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(name: &str, version: &str, second: usize) -> Value {
        json!({"manager": name, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": {format!("f:{name}"): {}}})
    }

    #[test]
    fn the_oldest_update_managers_are_folded_by_version() {
        let mut managed: Vec<Value> = (0..11).map(|n| update(&format!("m{n:02}"), "v1", n)).collect();
        managed.push(update("other", "v2", 0));
        let mut entries = Entries::decode(&managed.into()).expect("entries");
        entries.cap();
        let encoded = entries.encode();
        let names: Vec<&str> = encoded.as_array().expect("list").iter().filter_map(|e| e["manager"].as_str()).collect();
        assert_eq!(names[..3], ["other", "ancient-changes", "m03"]);
        assert_eq!(names.len(), 10);
        assert_eq!(encoded[1]["fieldsV1"], json!({"f:m00": {}, "f:m01": {}, "f:m02": {}}));
        assert_eq!(encoded[1]["time"], "2026-01-01T00:00:02Z");
    }

    #[test]
    fn a_malformed_entry_is_refused_in_words() {
        for (bad, why) in [
            (json!([{"operation": "Sometimes"}]), "operation must be `Apply` or `Update`"),
            (json!([{"operation": "Apply"}]), "apiVersion must not be empty"),
            (json!([{"operation": "Apply", "apiVersion": "v1"}]), "missing fieldsType in managed fields entry 0"),
        ] {
            assert_eq!(Entries::decode(&bad).expect_err("malformed"), why);
        }
    }
}
