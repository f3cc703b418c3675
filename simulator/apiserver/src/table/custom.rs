//! Printer columns of definitions.
//!
//! Source: `k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use serde_json::Value;

use super::json_path::JsonPath;
use super::{AGE_DESCRIPTION, Column, age};
use crate::control_plane::View;
use crate::resource::{GroupResource, Resource};

/// One printer column, its path compiled.
#[derive(Clone, Debug)]
pub(super) struct PrinterColumn {
    column: Column,
    /// `None` for a path that cannot be read; validation refuses such definitions.
    path: Option<JsonPath>,
}

/// The printer columns of a custom resource; `Age` where its definition has none.
pub(super) fn columns(view: &View<'_>, resource: &Resource) -> Vec<PrinterColumn> {
    let name = resource.group_resource.to_string();
    let definition = view.get(&GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions"), "", &name);
    let columns = definition.and_then(|definition| {
        let versions = definition["spec"]["versions"].as_array()?;
        let version = versions.iter().find(|version| version["name"] == *resource.kind.version)?;
        version["additionalPrinterColumns"].as_array().filter(|columns| !columns.is_empty())
    });
    match columns {
        Some(columns) => columns.iter().map(PrinterColumn::read).collect(),
        None => vec![PrinterColumn {
            column: Column {
                name: "Age".to_owned(),
                type_: "date".to_owned(),
                format: String::new(),
                description: AGE_DESCRIPTION.to_owned(),
                priority: 0,
            },
            path: JsonPath::parse(".metadata.creationTimestamp").ok(),
        }],
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> Self {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            empty if empty.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
            given => given,
        };
        Self {
            column: Column {
                name: text("name"),
                type_: text("type"),
                format: text("format"),
                description,
                priority: column["priority"].as_i64().unwrap_or_default(),
            },
            path: JsonPath::parse(&path).ok(),
        }
    }

    pub(super) fn column(&self) -> Column {
        self.column.clone()
    }

    /// The cell: `null` where the path picks nothing or a value of another type.
    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(path) = &self.path else { return Value::Null };
        let Some(value) = path.pick(object).first().copied() else { return Value::Null };
        match self.column.type_.as_str() {
            "integer" => value
                .as_i64()
                .or_else(|| {
                    // Go converts floating-point numbers by cutting them off.
                    #[expect(clippy::cast_possible_truncation, reason = "what upstream does")]
                    value.as_f64().map(|number| number as i64)
                })
                .map_or(Value::Null, Value::from),
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "string" => match value {
                Value::Null => Value::Null,
                Value::String(_) => value.clone(),
                other => other.to_string().into(),
            },
            "date" => match value.as_str() {
                Some(text) => match text.parse::<Timestamp>() {
                    Ok(_) => age(value, now).into(),
                    Err(_) => "<invalid>".into(),
                },
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}
