//! Objects that expressions build: `Object{spec: Object.spec{replicas: 3}}`, `JSONPatch{op: "remove"}`.
//!
//! Upstream knows the types of these literals from the schema of the object
//! (`k8s.io/apiserver/pkg/cel/mutation`). Here every such literal is a map of what it sets; whether the
//! fields exist is found out when the result is decoded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cel::common::types::{CelMap, CelMapKey, Type};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, StructType};

/// A type whose literals are maps.
struct Literal(Type);

impl StructType for Literal {
    fn get_type(&self) -> &Type {
        &self.0
    }

    fn new_value<'b, 'v>(&self, fields: BTreeMap<String, CowVal<'b, 'v>>) -> Result<Box<dyn Val + 'v>, ExecutionError> {
        let members: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> =
            fields.into_iter().map(|(name, value)| (CelMapKey::from(name), value.into_owned())).collect();
        Ok(Box::new(CelMap::from(members)))
    }
}

/// Makes the types of the literals in `source` known. Names within strings count as well; they do no
/// harm.
pub(super) fn declare(env: &mut Env, source: &str) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (brace, _) in source.match_indices('{') {
        let before = source[..brace].trim_end();
        let start = before.rfind(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '.')));
        let name = &before[start.map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))..];
        if name == "JSONPatch" || name == "Object" || name.starts_with("Object.") {
            names.insert(name);
        }
    }
    for name in names {
        // What is no name of a type makes the expression fail where it is used.
        let _malformed = env.add_type(Literal(Type::new_struct(name.to_owned())));
    }
}
