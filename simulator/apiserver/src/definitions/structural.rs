//! What is refused about the schemas of a definition: unsupported keywords, and what keeps them from being
//! structural.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation` (`specStandardValidatorV3`) and
//! `.../apiserver/schema/validation.go`.

use regex::Regex;
use serde_json::{Map, Value};

use crate::error::FieldError;
use crate::schema::{SchemaSet, validate::validate_default};

/// Deepest nesting of a schema that is followed.
const MAX_DEPTH: usize = 100;

/// Types, as unsupported ones are answered.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Keywords that custom resources do not have.
const UNSUPPORTED: [&str; 7] =
    ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties", "$schema"];

/// Everything wrong with the schema of `version`.
pub(super) fn validate(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        return;
    }
    let mut check = Check { errors: Vec::new() };
    check.keywords(schema, path, 0);
    if check.errors.is_empty() {
        check.structure(schema, Level::Root, path);
        check.metadata(schema, path);
    }
    if check.errors.is_empty() {
        check.completeness(schema, path);
    }
    if check.errors.is_empty() {
        check.defaults(schema, path);
    }
    if check.errors.is_empty() {
        super::validations::validate(schema, path, &mut check.errors);
    }
    errors.append(&mut check.errors);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

struct Check {
    errors: Vec<FieldError>,
}

impl Check {
    fn forbid(&mut self, path: String, detail: &str) {
        self.errors.push(FieldError::forbidden(path, detail));
    }

    fn invalid(&mut self, path: String, value: &Value, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    fn require(&mut self, path: String, detail: &str) {
        self.errors.push(FieldError::required(path, detail));
    }

    /// Each schema below `schema`, with its path.
    fn below<'v>(schema: &'v Value, path: &str) -> Vec<(&'v Value, String)> {
        let mut found = Vec::new();
        if schema["items"].is_object() {
            found.push((&schema["items"], format!("{path}.items")));
        }
        if schema["additionalProperties"].is_object() {
            found.push((&schema["additionalProperties"], format!("{path}.additionalProperties")));
        }
        for (name, property) in members(&schema["properties"]) {
            found.push((property, format!("{path}.properties[{name}]")));
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            for (index, schema) in list(&schema[keyword]).iter().enumerate() {
                found.push((schema, format!("{path}.{keyword}[{index}]")));
            }
        }
        if schema["not"].is_object() {
            found.push((&schema["not"], format!("{path}.not")));
        }
        found
    }

    /// Keywords that are refused wherever they stand, and list types.
    fn keywords(&mut self, schema: &Value, path: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return self.forbid(path.to_owned(), &format!("schemas nest at most {MAX_DEPTH} deep"));
        }
        for keyword in UNSUPPORTED {
            if !schema[keyword].is_null() {
                self.forbid(format!("{path}.{keyword}"), &format!("{keyword} is not supported"));
            }
        }
        if schema["uniqueItems"] == true {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(format!("{path}.uniqueItems"), detail);
        }
        if schema["additionalProperties"] == false {
            self.forbid(format!("{path}.additionalProperties"), "additionalProperties cannot be set to false");
        }
        let type_ = text(&schema["type"]);
        if type_ == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.forbid(format!("{path}.type"), detail);
        } else if !type_.is_empty() && !TYPES.contains(&type_) {
            self.errors.push(FieldError::not_supported(format!("{path}.type"), &schema["type"], &TYPES));
        }
        if schema["items"].is_array() {
            self.forbid(format!("{path}.items"), "items must be a schema object and not an array");
        }
        let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
        if has_properties && !matches!(schema["additionalProperties"], Value::Null | Value::Bool(false)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.forbid(format!("{path}.additionalProperties"), detail);
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && let Some(error) = pattern_error(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(format!("{path}.pattern"), &schema["pattern"], detail);
        }
        self.list_type(schema, path);
        self.map_type(schema, path);
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let detail = "must be true or undefined";
            self.invalid(format!("{path}.x-kubernetes-preserve-unknown-fields"), &Value::Bool(false), detail);
        }
        for (schema, path) in Self::below(schema, path) {
            self.keywords(schema, &path, depth + 1);
        }
    }

    fn list_type(&mut self, schema: &Value, path: &str) {
        let keyword = &schema["x-kubernetes-list-type"];
        let keys = list(&schema["x-kubernetes-list-map-keys"]);
        let keys_path = format!("{path}.x-kubernetes-list-map-keys");
        if keyword.is_null() {
            if !keys.is_empty() {
                self.forbid(keys_path, "must not be set if x-kubernetes-list-type is not map");
            }
            return;
        }
        if schema["type"] != "array" {
            let type_path = format!("{path}.type");
            if text(&schema["type"]).is_empty() {
                self.require(type_path, "must be array if x-kubernetes-list-type is specified");
            } else {
                self.invalid(type_path, &schema["type"], "must be array if x-kubernetes-list-type is specified");
            }
            return;
        }
        let items = &schema["items"];
        match text(keyword) {
            "atomic" => {}
            "set" => self.set_items(items, &format!("{path}.items")),
            "map" => {
                if keys.is_empty() {
                    self.require(keys_path.clone(), "must not be empty if x-kubernetes-list-type is map");
                }
                if items["type"] != "object" {
                    let detail = "must be object if parent array's x-kubernetes-list-type is map";
                    self.invalid(format!("{path}.items.type"), &items["type"], detail);
                    return;
                }
                self.map_keys(schema, keys, &keys_path, &format!("{path}.items"));
            }
            _ => {
                let supported = ["atomic", "map", "set"];
                let path = format!("{path}.x-kubernetes-list-type");
                self.errors.push(FieldError::not_supported(path, keyword, &supported));
            }
        }
        if keyword != "map" && !keys.is_empty() {
            self.forbid(keys_path, "must not be set if x-kubernetes-list-type is not map");
        }
    }

    fn set_items(&mut self, items: &Value, path: &str) {
        if items["nullable"] == true {
            self.forbid(format!("{path}.nullable"), "cannot be nullable when x-kubernetes-list-type is set");
        }
        match text(&items["type"]) {
            "array" if items["x-kubernetes-list-type"] != "atomic" => {
                let path = format!("{path}.x-kubernetes-list-type");
                let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                self.invalid(path, &items["x-kubernetes-list-type"], detail);
            }
            "object" if items["x-kubernetes-map-type"] != "atomic" => {
                let path = format!("{path}.x-kubernetes-map-type");
                let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                self.invalid(path, &items["x-kubernetes-map-type"], detail);
            }
            _ => {}
        }
    }

    fn map_keys(&mut self, schema: &Value, keys: &[Value], keys_path: &str, items_path: &str) {
        let items = &schema["items"];
        let mut seen: Vec<&Value> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if seen.contains(&key) {
                self.errors.push(FieldError::duplicate(format!("{keys_path}[{index}]"), key));
            }
            seen.push(key);
            let Some(property) = items["properties"].get(text(key)) else {
                let value = &schema["x-kubernetes-list-map-keys"];
                self.invalid(keys_path.to_owned(), value, "entries must all be names of item properties");
                continue;
            };
            let path = format!("{items_path}.properties[{}]", text(key));
            if matches!(text(&property["type"]), "array" | "object") {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.invalid(format!("{path}.type"), &property["type"], detail);
            }
            if property["nullable"] == true {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(format!("{path}.nullable"), detail);
            }
            if property["default"].is_null() && !list(&items["required"]).contains(key) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.require(format!("{path}.default"), detail);
            }
        }
    }

    fn map_type(&mut self, schema: &Value, path: &str) {
        let keyword = &schema["x-kubernetes-map-type"];
        if keyword.is_null() {
            return;
        }
        if schema["type"] != "object" {
            let type_path = format!("{path}.type");
            let detail = "must be object if x-kubernetes-map-type is specified";
            if text(&schema["type"]).is_empty() {
                self.require(type_path, detail);
            } else {
                self.invalid(type_path, &schema["type"], detail);
            }
        }
        if !matches!(text(keyword), "atomic" | "granular") {
            let path = format!("{path}.x-kubernetes-map-type");
            self.errors.push(FieldError::not_supported(path, keyword, &["atomic", "granular"]));
        }
    }

    /// Every place that is not a mere condition on values has a type.
    fn structure(&mut self, schema: &Value, level: Level, path: &str) {
        let type_ = text(&schema["type"]);
        let int_or_string = schema["x-kubernetes-int-or-string"] == true;
        let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
        if type_ == "array" && !schema["items"].is_object() {
            self.require(format!("{path}.items"), "must be specified");
        }
        if type_.is_empty() && !int_or_string && !(preserves && level != Level::Root) {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Field => "must not be empty for specified object fields",
                Level::Item => "must not be empty for specified array items",
            };
            self.require(format!("{path}.type"), detail);
        }
        if level == Level::Root && !type_.is_empty() && type_ != "object" {
            self.invalid(format!("{path}.type"), &schema["type"], "must be object at the root");
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            if type_.is_empty() {
                let detail = "must be object if x-kubernetes-embedded-resource is true";
                self.require(format!("{path}.type"), detail);
            } else if type_ != "object" {
                let detail = "must be object if x-kubernetes-embedded-resource is true";
                self.invalid(format!("{path}.type"), &schema["type"], detail);
            }
            let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
            if !preserves && !has_properties {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
                self.require(format!("{path}.properties"), detail);
            }
        }
        if int_or_string && !type_.is_empty() {
            let detail = "must be empty if x-kubernetes-int-or-string is true";
            self.invalid(format!("{path}.type"), &schema["type"], detail);
        }
        if schema["items"].is_object() {
            self.structure(&schema["items"], Level::Item, &format!("{path}.items"));
        }
        if schema["additionalProperties"].is_object() {
            let path = format!("{path}.additionalProperties");
            self.structure(&schema["additionalProperties"], Level::Field, &path);
        }
        for (name, property) in members(&schema["properties"]) {
            self.structure(property, Level::Field, &format!("{path}.properties[{name}]"));
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (index, condition) in list(&schema[keyword]).iter().enumerate() {
                let whole = int_or_string && is_int_or_string(keyword, schema);
                self.condition(condition, whole, &format!("{path}.{keyword}[{index}]"));
            }
        }
        if schema["not"].is_object() {
            self.condition(&schema["not"], false, &format!("{path}.not"));
        }
    }

    /// A schema within `allOf`, `anyOf`, `oneOf` or `not`: conditions on values, nothing about structure.
    fn condition(&mut self, schema: &Value, may_have_type: bool, path: &str) {
        if !text(&schema["type"]).is_empty() && !may_have_type {
            self.forbid(format!("{path}.type"), "must be empty to be structural");
        }
        for keyword in ["title", "description"] {
            if !text(&schema[keyword]).is_empty() {
                self.forbid(format!("{path}.{keyword}"), "must be empty to be structural");
            }
        }
        for keyword in ["default", "additionalProperties"] {
            if !schema[keyword].is_null() {
                self.forbid(format!("{path}.{keyword}"), "must be undefined to be structural");
            }
        }
        if schema["nullable"] == true {
            self.forbid(format!("{path}.nullable"), "must be false to be structural");
        }
        for keyword in
            ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"]
        {
            if schema[keyword] == true {
                self.forbid(format!("{path}.{keyword}"), "must be false to be structural");
            }
        }
        for keyword in ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"] {
            if !schema[keyword].is_null() {
                self.forbid(format!("{path}.{keyword}"), "must be undefined to be structural");
            }
        }
        if !list(&schema["x-kubernetes-validations"]).is_empty() {
            self.forbid(format!("{path}.x-kubernetes-validations"), "must be empty to be structural");
        }
        for (schema, path) in Self::below(schema, path) {
            self.condition(schema, false, &path);
        }
    }

    /// Whatever conditions speak of has to be declared.
    fn completeness(&mut self, schema: &Value, path: &str) {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (index, condition) in list(&schema[keyword]).iter().enumerate() {
                self.declared(condition, schema, &format!("{path}.{keyword}[{index}]"), path);
            }
        }
        if schema["not"].is_object() {
            self.declared(&schema["not"], schema, &format!("{path}.not"), path);
        }
        for (schema, path) in Self::below(schema, path) {
            let is_condition = path.ends_with(']') && !path.contains("properties[") && path.contains("Of[");
            if !is_condition {
                self.completeness(schema, &path);
            }
        }
    }

    fn declared(&mut self, condition: &Value, schema: &Value, path: &str, declared: &str) {
        for (name, property) in members(&condition["properties"]) {
            let path = format!("{path}.properties[{name}]");
            let at = format!("{declared}.properties[{name}]");
            match schema["properties"].get(name) {
                Some(schema) => self.declared(property, schema, &path, &at),
                None => self.require(at, &format!("because it is defined in {path}")),
            }
        }
        if condition["items"].is_object() {
            let (path, at) = (format!("{path}.items"), format!("{declared}.items"));
            if schema["items"].is_object() {
                self.declared(&condition["items"], &schema["items"], &path, &at);
            } else {
                self.require(at, &format!("because it is defined in {path}"));
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (index, condition) in list(&condition[keyword]).iter().enumerate() {
                self.declared(condition, schema, &format!("{path}.{keyword}[{index}]"), declared);
            }
        }
    }

    /// Metadata is the server's, but for conditions on names.
    fn metadata(&mut self, schema: &Value, path: &str) {
        let metadata = &schema["properties"]["metadata"];
        if metadata.is_null() {
            return;
        }
        let path = format!("{path}.properties[metadata]");
        if metadata["type"] != "object" {
            self.invalid(format!("{path}.type"), &metadata["type"], "must be object");
        }
        let allowed =
            |map: &Map<String, Value>| map.keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
        let only_names = metadata["properties"].as_object().is_none_or(allowed);
        let only_properties =
            members(metadata).all(|(keyword, _)| matches!(keyword.as_str(), "type" | "properties" | "description"));
        if !only_names || !only_properties {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbid(path, detail);
        }
    }

    /// Defaults fit their own schemas.
    fn defaults(&mut self, schema: &Value, path: &str) {
        if let Some(default) = schema.get("default") {
            let compiled = SchemaSet::single(schema);
            let path = format!("{path}.default");
            let mut pruned = default.clone();
            let known = crate::schema::prune::is_known_value(&pruned, &compiled);
            crate::schema::default::apply(&mut pruned, &compiled);
            if known {
                self.errors.extend(validate_default(&pruned, &compiled, &path));
            } else {
                self.invalid(path, default, "must not have unknown fields");
            }
        }
        for (schema, path) in Self::below(schema, path) {
            self.defaults(schema, &path);
        }
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, which may stand beside `x-kubernetes-int-or-string`; for `allOf` its
/// first member may be such.
fn is_int_or_string(keyword: &str, schema: &Value) -> bool {
    keyword == "anyOf"
        && list(&schema["anyOf"]).len() == 2
        && schema["anyOf"][0]["type"] == "integer"
        && schema["anyOf"][1]["type"] == "string"
}

/// What Go's `regexp` says about a pattern that does not compile.
fn pattern_error(pattern: &str) -> Option<String> {
    let error = Regex::new(pattern).err()?;
    // The cases that Go names otherwise than the regex crate does, by the parser's own kinds.
    let text = error.to_string();
    let (kind, part) = if text.contains("unclosed group") {
        ("missing closing )", pattern)
    } else if text.contains("unopened group") {
        ("unexpected )", pattern)
    } else if text.contains("unclosed character class") {
        ("missing closing ]", &pattern[pattern.rfind('[').unwrap_or(0)..])
    } else if text.contains("repetition operator missing expression") {
        ("missing argument to repetition operator", pattern.get(..1).unwrap_or_default())
    } else if text.contains("look-around") {
        (
            "invalid or unsupported Perl syntax",
            pattern.get(pattern.find("(?").unwrap_or(0)..).and_then(|rest| rest.get(..3)).unwrap_or("(?"),
        )
    } else if text.contains("escape") || text.contains("backreference") {
        (
            "invalid escape sequence",
            pattern.get(pattern.find('\\').unwrap_or(0)..).and_then(|rest| rest.get(..2)).unwrap_or("\\"),
        )
    } else {
        ("invalid character class range", pattern)
    };
    Some(format!("error parsing regexp: {kind}: `{part}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_keeps_a_schema_from_being_structural_is_told_at_its_place() {
        let cases = [
            (json!({"properties": {}}), "schema.type: Required value: must not be empty at the root"),
            (
                json!({"type": "object", "properties": {"a": {"properties": {}}}}),
                "schema.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "schema.properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"b": {"type": "string"}}}]}),
                "schema.anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}),
                "schema.properties[b]: Required value: because it is defined in schema.anyOf[0].properties[b]",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                "schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error \
                 parsing regexp: missing closing ): `(`",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
                "schema.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
                 metadata is implicitly specified",
            ),
        ];
        for (schema, expected) in cases {
            let mut errors = Vec::new();
            validate(&json!({"schema": {"openAPIV3Schema": schema}}), "schema", &mut errors);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, [expected], "{schema}");
        }
    }

    #[test]
    fn schemas_of_every_day_pass() {
        let schema = json!({"type": "object", "properties": {
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "one": {"type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer"}}, "oneOf": [{"required": ["a"]}]},
        }});
        let mut errors = Vec::new();
        validate(&json!({"schema": {"openAPIV3Schema": schema}}), "schema", &mut errors);
        assert_eq!(errors, []);
    }
}
