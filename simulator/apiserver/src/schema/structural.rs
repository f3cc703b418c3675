//! What a custom resource's schema demands of values, compiled from its keywords.
//!
//! Whether a schema is structural at all is judged when its definition is written
//! ([`crate::definitions::validation`]); here it is known to be.

use regex::Regex;
use serde_json::{Map, Value};

use super::SchemaSet;
use crate::expression::rules::Rule;

/// Limits on the values of one place.
#[derive(Debug, Default)]
pub struct Constraints {
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`: is the minimum itself too small?
    pub exclusive_minimum: bool,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`: is the maximum itself too large?
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`, in characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// `pattern`; one that does not compile is refused with the definition.
    pub pattern: Option<Regex>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `allOf`.
    pub all_of: Vec<u32>,
    /// `anyOf`.
    pub any_of: Vec<u32>,
    /// `oneOf`.
    pub one_of: Vec<u32>,
    /// `not`.
    pub not: Option<u32>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
}

impl Constraints {
    /// Compiles the keywords of one place; `None` when it has none. Rules are added by
    /// [`crate::definitions`], which knows the types.
    pub(super) fn compile(keywords: &Map<String, Value>, set: &mut SchemaSet) -> Option<Box<Self>> {
        const KEYWORDS: [&str; 18] = [
            "minimum",
            "exclusiveMinimum",
            "maximum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "pattern",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "x-kubernetes-validations",
        ];
        if !keywords.keys().any(|keyword| KEYWORDS.contains(&keyword.as_str())) {
            return None;
        }
        let number = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
        let count = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
        let is = |keyword: &str| keywords.get(keyword) == Some(&Value::Bool(true));
        let mut schemas = |keyword: &str| -> Vec<u32> {
            let list = keywords.get(keyword).and_then(Value::as_array);
            list.into_iter().flatten().map(|schema| set.add(schema)).collect()
        };
        let (all_of, any_of, one_of) = (schemas("allOf"), schemas("anyOf"), schemas("oneOf"));
        Some(Box::new(Self {
            minimum: number("minimum"),
            exclusive_minimum: is("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: is("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: keywords.get("pattern").and_then(Value::as_str).and_then(|pattern| Regex::new(pattern).ok()),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: is("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of,
            any_of,
            one_of,
            not: keywords.get("not").map(|schema| set.add(schema)),
            rules: Vec::new(),
        }))
    }
}
