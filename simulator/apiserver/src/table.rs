//! `Table` of `meta.k8s.io`: what `kubectl get` prints, made by the server.
//!
//! A [`Printer`] knows the columns of one resource and turns objects into rows. Built-in kinds with
//! columns of their own are in `builtin`, printer columns of definitions in `custom`; every other kind
//! has `Name` and `Created At`.

mod age;
mod builtin;
mod custom;
mod json_path;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::control_plane::View;
use crate::http::encode::partial;
use crate::object::ObjectExt;
use crate::resource::{GroupVersionKind, Resource};

pub use age::{age, human_duration};

/// What `ObjectMeta` says of `name`: the description of every `Name` column.
pub(crate) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// What `ObjectMeta` says of `creationTimestamp`: the description of every `Age` column.
pub(crate) const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    name: String,
    /// OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    type_: String,
    /// OpenAPI format; `name` marks the column that names the object.
    format: String,
    description: String,
    /// 0 is always shown, more only with `-o wide`.
    priority: i64,
}

impl Column {
    fn name() -> Self {
        Self {
            name: "Name".to_owned(),
            type_: "string".to_owned(),
            format: "name".to_owned(),
            description: NAME_DESCRIPTION.to_owned(),
            priority: 0,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.type_,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// What each row carries of its object: `includeObject`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IncludeObject {
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

/// How objects of one resource become rows.
#[derive(Clone, Debug)]
pub struct Printer {
    /// Of the objects: those in a built-in list do not say it themselves.
    kind: GroupVersionKind,
    columns: Vec<Column>,
    rows: Rows,
}

#[derive(Clone, Debug)]
enum Rows {
    /// Of a built-in kind with columns of its own.
    BuiltIn(builtin::Cells),
    /// Of printer columns.
    Custom(Vec<custom::PrinterColumn>),
    /// Name and time of creation.
    Default,
}

impl Printer {
    /// The columns of a resource.
    #[must_use]
    pub fn of(view: &View<'_>, resource: &Resource) -> Self {
        if resource.is_custom() {
            let columns = custom::columns(view, resource);
            let definitions = std::iter::once(Column::name()).chain(columns.iter().map(custom::PrinterColumn::column));
            return Self { kind: resource.kind.clone(), columns: definitions.collect(), rows: Rows::Custom(columns) };
        }
        let kind = resource.kind.clone();
        match builtin::printer(&kind.group, &kind.kind) {
            Some((columns, cells)) => Self { kind, columns, rows: Rows::BuiltIn(cells) },
            None => {
                let created_at = Column {
                    name: "Created At".to_owned(),
                    type_: "date".to_owned(),
                    format: String::new(),
                    description: AGE_DESCRIPTION.to_owned(),
                    priority: 0,
                };
                Self { kind, columns: vec![Column::name(), created_at], rows: Rows::Default }
            }
        }
    }

    /// A table of these objects. A watch sends the columns only once (`with_columns`).
    #[must_use]
    pub fn table(
        &self,
        version: &str,
        objects: &[&Value],
        metadata: &Value,
        include: IncludeObject,
        with_columns: bool,
        now: Timestamp,
    ) -> Value {
        let columns: Value =
            if with_columns { self.columns.iter().map(Column::to_json).collect() } else { Value::Null };
        let rows: Vec<Value> = objects.iter().map(|object| self.row(version, object, include, now)).collect();
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn row(&self, version: &str, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let cells: Vec<Value> = match &self.rows {
            Rows::BuiltIn(cells) => cells(object, now),
            Rows::Custom(columns) => std::iter::once(Value::from(object.name()))
                .chain(columns.iter().map(|column| column.cell(object, now)))
                .collect(),
            Rows::Default => vec![object.name().into(), object.meta("creationTimestamp").into()],
        };
        let included = match include {
            IncludeObject::Metadata => partial(version, object),
            IncludeObject::Object => {
                let mut whole = object.clone();
                whole["apiVersion"] = self.kind.api_version().into();
                whole["kind"] = (*self.kind.kind).into();
                whole
            }
            IncludeObject::None => Value::Null,
        };
        let mut row = json!({"cells": cells, "object": included});
        let is_pod = self.kind.group.is_empty() && &*self.kind.kind == "Pod";
        let conditions = if is_pod { builtin::pod_conditions(object) } else { Vec::new() };
        if !conditions.is_empty() {
            row["conditions"] = conditions.into();
        }
        row
    }
}
