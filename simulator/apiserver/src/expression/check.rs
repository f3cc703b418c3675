//! Types and cost of expressions over custom objects: what is known before anything is evaluated.
//!
//! One walk finds both. Types follow cel-go's checker and its sentences; costs are the upper bounds of its
//! estimator (`cel-go/checker/{checker,cost}.go`, `k8s.io/apiserver/pkg/cel/library/cost.go`), for the limits
//! are about the worst case.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, SourceInfo};

use super::{Program, values};
use crate::schema::{Node, SchemaSet};

mod functions;
pub(crate) mod sizes;

/// Cost of listing, mapping and reading, as cel-go counts.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
/// One step through a string costs a tenth; one through a pattern a quarter.
const PER_CHARACTER: f64 = 0.1;
const PER_PATTERN_CHARACTER: f64 = 0.25;

/// A static type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Anything.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Kind,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// An object of the schema, by its place.
    Object(u32),
    /// The metadata of an object.
    Metadata,
    /// A type of a library.
    Opaque(&'static str),
}

impl Type {
    /// As cel-go prints it.
    fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Kind => "type".to_owned(),
            Self::List(item) => format!("list({})", item.name()),
            Self::Map(key, value) => format!("map({}, {})", key.name(), value.name()),
            Self::Optional(value) => format!("optional_type({})", value.name()),
            Self::Object(_) | Self::Metadata => "object".to_owned(),
            Self::Opaque(name) => (*name).to_owned(),
        }
    }

    /// May a value of this type stand where `wanted` is declared?
    fn fits(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.fits(c) && b.fits(d),
            // Objects may be told from null, whether they can be null or not.
            (Self::Null, Self::Object(_) | Self::Metadata | Self::Duration | Self::Timestamp | Self::Optional(_))
            | (Self::Object(_) | Self::Metadata | Self::Duration | Self::Timestamp | Self::Optional(_), Self::Null) => {
                true
            }
            (a, b) => a == b,
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Duration | Self::Timestamp
        )
    }
}

/// What is known about the value of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) type_: Type,
    /// The place in the schema that it comes from.
    place: Option<u32>,
    /// Most characters, items or members; `u64::MAX` when unknown.
    size: u64,
    /// Most that its evaluation costs.
    pub(crate) cost: u64,
}

impl Known {
    fn new(type_: Type, cost: u64) -> Self {
        let size = if type_.is_scalar() { 1 } else { u64::MAX };
        Self { type_, place: None, size, cost }
    }

    /// The value at a place of a schema.
    pub(crate) fn at(set: &SchemaSet, place: u32) -> Self {
        let node = &set.nodes[place as usize];
        Self { type_: type_at(set, place), place: Some(place), size: sizes::most(set, node), cost: 0 }
    }

    /// The value at a place, or none.
    pub(crate) fn optional(self) -> Self {
        Self { type_: Type::Optional(Box::new(self.type_)), ..self }
    }

    fn costing(self, cost: u64) -> Self {
        Self { cost, ..self }
    }
}

/// The type of values at a place of a schema.
fn type_at(set: &SchemaSet, place: u32) -> Type {
    let node = &set.nodes[place as usize];
    if node.int_or_string {
        return Type::Dyn;
    }
    match (node.type_.as_str(), node.format.as_str()) {
        ("integer", _) => Type::Int,
        ("number", _) => Type::Double,
        ("boolean", _) => Type::Bool,
        ("string", "byte") => Type::Bytes,
        ("string", "date" | "date-time" | "datetime") => Type::Timestamp,
        ("string", "duration") => Type::Duration,
        ("string", _) => Type::Text,
        ("array", _) => Type::List(Box::new(node.items.map_or(Type::Dyn, |items| type_at(set, items)))),
        ("object", _) if node.additional.is_some() || node.additional_any => {
            let value = node.additional.map_or(Type::Dyn, |value| type_at(set, value));
            Type::Map(Box::new(Type::Text), Box::new(value))
        }
        ("object", _) => Type::Object(place),
        _ => Type::Dyn,
    }
}

/// Checks a program in which `variables` are known.
///
/// # Errors
/// What does not fit, as cel-go prints it.
pub(crate) fn check(program: &Program, set: &SchemaSet, variables: Vec<(&str, Known)>) -> Result<Known, String> {
    run(program, set, variables, false)
}

/// Checks a program whose variables may be anything; `builds` says that it may build objects.
///
/// # Errors
/// What does not fit, as cel-go prints it.
pub(crate) fn check_untyped(program: &Program, variables: &[&str], builds: bool) -> Result<(), String> {
    let variables = variables.iter().map(|name| (*name, Known::new(Type::Dyn, 0))).collect();
    run(program, &SchemaSet::default(), variables, builds).map(|_| ())
}

fn run(program: &Program, set: &SchemaSet, variables: Vec<(&str, Known)>, builds: bool) -> Result<Known, String> {
    let variables = variables.into_iter().map(|(name, known)| (name.to_owned(), known)).collect();
    let mut checker = Checker { set, source: program.program.source_info(), variables, builds, errors: Vec::new() };
    let known = checker.expression(program.program.expression());
    if checker.errors.is_empty() {
        return Ok(known);
    }
    checker.errors.sort();
    checker.errors.dedup();
    let source = program.source();
    let texts: Vec<String> = checker
        .errors
        .iter()
        .map(|(offset, message)| {
            let before = source.get(..*offset).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = offset - before.rfind('\n').map_or(0, |at| at + 1) + 1;
            super::excerpt(source, isize::try_from(line).unwrap_or(1), isize::try_from(column).unwrap_or(1), message)
        })
        .collect();
    Err(texts.join("\n"))
}

struct Checker<'a> {
    set: &'a SchemaSet,
    source: &'a SourceInfo,
    /// Innermost last.
    variables: Vec<(String, Known)>,
    /// May objects be built?
    builds: bool,
    /// Offset and message.
    errors: Vec<(usize, String)>,
}

impl Checker<'_> {
    fn error(&mut self, expression: u64, message: String) -> Known {
        let offset = self.source.offset_for(expression).map_or(0, |(start, _)| start as usize);
        self.errors.push((offset, message));
        Known::new(Type::Dyn, 0)
    }

    fn node(&self, place: u32) -> &Node {
        &self.set.nodes[place as usize]
    }

    fn expression(&mut self, expression: &IdedExpr) -> Known {
        match &expression.expr {
            Expr::Unspecified => Known::new(Type::Dyn, 0),
            Expr::Literal(literal) => literal_known(literal),
            Expr::Ident(name) => self.variable(expression.id, name),
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let items: Vec<Known> = list.elements.iter().map(|element| self.expression(element)).collect();
                let cost = items.iter().fold(LIST_COST, |cost, item| cost.saturating_add(item.cost));
                let type_ = Type::List(Box::new(common(items.iter().map(|item| &item.type_))));
                Known { type_, place: None, size: items.len() as u64, cost }
            }
            Expr::Map(map) => {
                let (mut cost, mut keys, mut found) = (MAP_COST, Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let (key, value) = (self.expression(&entry.key), self.expression(&entry.value));
                        cost = cost.saturating_add(key.cost).saturating_add(value.cost);
                        keys.push(key.type_);
                        found.push(value.type_);
                    }
                }
                let size = keys.len() as u64;
                let type_ = Type::Map(Box::new(common(keys.iter())), Box::new(common(found.iter())));
                Known { type_, place: None, size, cost }
            }
            Expr::Struct(built) if self.builds => {
                for entry in &built.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.expression(&field.value);
                    }
                }
                Known::new(Type::Dyn, 0)
            }
            Expr::Struct(built) => {
                let message = format!("undeclared reference to '{}' (in container '')", built.type_name);
                self.error(expression.id, message)
            }
        }
    }

    fn variable(&mut self, id: u64, name: &str) -> Known {
        if let Some((_, known)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return known.clone().costing(1);
        }
        if functions::is_type(name) {
            return Known::new(Type::Kind, 1);
        }
        self.error(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Known {
        let operand = self.expression(&select.operand);
        let cost = operand.cost.saturating_add(1);
        let found = self.member(id, &operand, &select.field).costing(cost);
        if select.test { Known::new(Type::Bool, cost) } else { found }
    }

    /// The value of a field.
    fn member(&mut self, id: u64, operand: &Known, field: &str) -> Known {
        match &operand.type_ {
            Type::Dyn => Known::new(Type::Dyn, 0),
            Type::Optional(value) => {
                let inner = Known { type_: Type::clone(value), ..operand.clone() };
                self.member(id, &inner, field).optional()
            }
            Type::Map(_, value) => match operand.place.and_then(|place| self.node(place).additional) {
                Some(place) => Known::at(self.set, place),
                None => Known::new(Type::clone(value), 0),
            },
            Type::Metadata if matches!(field, "name" | "generateName") => Known::new(Type::Text, 0),
            Type::Object(place) => {
                let (place, set) = (*place, self.set);
                let node = self.node(place);
                let is_resource = place == 0 || node.embedded_resource;
                let declared = node.properties.iter().find(|(name, _)| values::escape(name) == field);
                match declared {
                    _ if is_resource && field == "metadata" => Known::new(Type::Metadata, 0),
                    _ if is_resource && matches!(field, "apiVersion" | "kind") => Known::new(Type::Text, 0),
                    Some((_, place)) => Known::at(set, *place),
                    None => self.error(id, format!("undefined field '{field}'")),
                }
            }
            Type::Metadata => self.error(id, format!("undefined field '{field}'")),
            other => {
                let message = format!("type '{}' does not support field selection", other.name());
                self.error(id, message)
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Known {
        if let Some(name) = self.qualified(call) {
            let args: Vec<Known> = call.args.iter().map(|arg| self.expression(arg)).collect();
            return self.function(id, &name, None, &args);
        }
        let target = call.target.as_deref().map(|target| self.expression(target));
        match (call.func_name.as_str(), target.is_some(), call.args.as_slice()) {
            ("_[_]", _, [operand, index]) => self.index(id, operand, index, false),
            ("_[?_]", _, [operand, index]) => self.index(id, operand, index, true),
            ("_?._", _, [operand, field]) => {
                let operand = self.expression(operand);
                let cost = operand.cost.saturating_add(1);
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Known::new(Type::Dyn, cost);
                };
                let found = self.member(id, &operand, field.inner()).costing(cost);
                if matches!(found.type_, Type::Optional(_)) { found } else { found.optional() }
            }
            ("_?_:_", _, [condition, yes, no]) => {
                let condition = self.expression(condition);
                let (yes, no) = (self.expression(yes), self.expression(no));
                if !condition.type_.fits(&Type::Bool) || !yes.type_.fits(&no.type_) {
                    return self.no_overload(id, "_?_:_", None, &[condition, yes, no]);
                }
                let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
                let type_ = common([&yes.type_, &no.type_].into_iter());
                let place = if yes.place == no.place { yes.place } else { None };
                Known { type_, place, size: yes.size.max(no.size), cost }
            }
            (name, _, args) => {
                let args: Vec<Known> = args.iter().map(|arg| self.expression(arg)).collect();
                self.function(id, name, target.as_ref(), &args)
            }
        }
    }

    /// `ip.isCanonical` and its like: a function whose name has a dot, not a member of a variable.
    fn qualified(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(namespace) = &call.target.as_deref()?.expr else { return None };
        let is_variable = self.variables.iter().any(|(name, _)| name == namespace);
        let name = format!("{namespace}.{}", call.func_name);
        (!is_variable && functions::is_declared(&name)).then_some(name)
    }

    fn index(&mut self, id: u64, operand: &IdedExpr, index: &IdedExpr, optional: bool) -> Known {
        let (operand, index) = (self.expression(operand), self.expression(index));
        let cost = operand.cost.saturating_add(index.cost).saturating_add(1);
        let name = if optional { "_[?_]" } else { "_[_]" };
        let (type_, inside_optional) = match &operand.type_ {
            Type::Optional(inner) => (Type::clone(inner), true),
            other => (other.clone(), false),
        };
        let node = operand.place.map(|place| self.node(place));
        let found = match &type_ {
            Type::List(item) if index.type_.fits(&Type::Int) => match node.and_then(|node| node.items) {
                Some(place) => Known::at(self.set, place),
                None => Known::new(Type::clone(item), 0),
            },
            Type::Map(key, value) if index.type_.fits(key) => match node.and_then(|node| node.additional) {
                Some(place) => Known::at(self.set, place),
                None => Known::new(Type::clone(value), 0),
            },
            Type::Dyn => Known::new(Type::Dyn, 0),
            _ => return self.no_overload(id, name, None, &[operand, index]),
        };
        let found = found.costing(cost);
        if optional || inside_optional { found.optional() } else { found }
    }

    fn no_overload(&mut self, id: u64, name: &str, target: Option<&Known>, args: &[Known]) -> Known {
        let types: Vec<String> = args.iter().map(|arg| arg.type_.name()).collect();
        let applied = match target {
            Some(target) => format!("{}.({})", target.type_.name(), types.join(", ")),
            None => format!("({})", types.join(", ")),
        };
        let name = if name == "@in" { "_in_" } else { name };
        self.error(id, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    fn function(&mut self, id: u64, name: &str, target: Option<&Known>, args: &[Known]) -> Known {
        if !functions::is_declared(name) {
            return self.error(id, format!("undeclared reference to '{name}' (in container '')"));
        }
        let all: Vec<&Known> = target.into_iter().chain(args).collect();
        let types: Vec<&Type> = all.iter().map(|known| &known.type_).collect();
        let Some(type_) = functions::result(name, target.is_some(), &types) else {
            return self.no_overload(id, name, target, args);
        };
        let paid = all.iter().fold(0u64, |cost, known| cost.saturating_add(known.cost));
        let sizes: Vec<u64> = all.iter().map(|known| known.size).collect();
        let is_sized = |index: usize| types.get(index).is_some_and(|type_| !type_.is_scalar());
        let own = match (name, sizes.as_slice()) {
            ("startsWith" | "endsWith", [_, other]) => share(*other, PER_CHARACTER),
            ("contains", [text, part]) => share(*text, PER_CHARACTER).saturating_mul(share(*part, PER_CHARACTER)),
            ("matches" | "find" | "findAll", [text, pattern, ..]) => {
                share(text.saturating_add(1), PER_CHARACTER).saturating_mul(share(*pattern, PER_PATTERN_CHARACTER))
            }
            ("@in", [_, list]) => *list,
            ("_+_", _) if matches!(types[0], Type::List(_)) => 1,
            ("_+_", [left, right]) if is_sized(0) => share(left.saturating_add(*right), PER_CHARACTER),
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                share((*left).min(*right), PER_CHARACTER).max(1)
            }
            ("_&&_" | "_||_" | "@not_strictly_false", _) => 0,
            ("isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf", [list, ..])
                if matches!(types[0], Type::List(_)) =>
            {
                *list
            }
            (
                "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" | "url" | "isURL" | "validate",
                [.., text],
            ) => share(*text, PER_CHARACTER),
            ("lowerAscii" | "upperAscii" | "substring" | "trim" | "replace" | "split" | "join", [text, ..]) => {
                share(*text, PER_CHARACTER)
            }
            _ => 1,
        };
        let size = match (name, sizes.as_slice()) {
            ("_+_", [left, right]) if is_sized(0) => left.saturating_add(*right),
            ("lowerAscii" | "upperAscii" | "substring" | "trim" | "split" | "find", [text, ..]) => *text,
            _ if type_.is_scalar() => 1,
            _ => u64::MAX,
        };
        let place = match name {
            "orValue" | "value" | "dyn" => all.first().and_then(|known| known.place),
            _ => None,
        };
        let size = if place.is_some() { sizes.first().copied().unwrap_or(size) } else { size };
        Known { type_, place, size, cost: paid.saturating_add(own) }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Known {
        let range = self.expression(&comprehension.iter_range);
        let accumulator = self.expression(&comprehension.accu_init);
        let node = range.place.map(|place| self.node(place));
        let (first, second) = match &range.type_ {
            Type::List(item) => {
                let item = match node.and_then(|node| node.items) {
                    Some(place) => Known::at(self.set, place),
                    None => Known::new(Type::clone(item), 0),
                };
                (item.clone(), item)
            }
            Type::Map(key, value) => {
                let value = match node.and_then(|node| node.additional) {
                    Some(place) => Known::at(self.set, place),
                    None => Known::new(Type::clone(value), 0),
                };
                (Known::new(Type::clone(key), 0), value)
            }
            Type::Dyn => (Known::new(Type::Dyn, 0), Known::new(Type::Dyn, 0)),
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                );
                let unknown = self.error(comprehension.iter_range.id, message);
                (unknown.clone(), unknown)
            }
        };
        let depth = self.variables.len();
        self.variables.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.variables.push((name.clone(), second));
        }
        // The step may say more about the accumulator than its beginning: an empty list has no item type.
        let mut accumulated = Known { cost: 0, ..accumulator.clone() };
        self.variables.push((comprehension.accu_var.clone(), accumulated.clone()));
        let condition = self.expression(&comprehension.loop_cond);
        let step = self.expression(&comprehension.loop_step);
        accumulated.type_ = common([&accumulated.type_, &step.type_].into_iter());
        self.variables.truncate(depth);
        // `map` and `filter` give at most one item for each of the range.
        if !accumulated.type_.is_scalar() {
            accumulated.size = range.size;
        }
        self.variables.push((comprehension.accu_var.clone(), accumulated));
        let result = self.expression(&comprehension.result);
        self.variables.truncate(depth);
        let rounds = range.size.saturating_mul(step.cost.saturating_add(condition.cost));
        let cost = [range.cost, accumulator.cost, rounds, result.cost]
            .iter()
            .fold(0u64, |sum, cost| sum.saturating_add(*cost));
        result.costing(cost)
    }
}

/// `factor` of a size, rounded up; of an unknown size, unknown.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
fn share(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn literal_known(literal: &LiteralValue) -> Known {
    match literal {
        LiteralValue::Boolean(_) => Known::new(Type::Bool, 0),
        LiteralValue::Bytes(bytes) => Known { size: bytes.inner().len() as u64, ..Known::new(Type::Bytes, 0) },
        LiteralValue::Double(_) => Known::new(Type::Double, 0),
        LiteralValue::Int(_) => Known::new(Type::Int, 0),
        LiteralValue::Null => Known::new(Type::Null, 0),
        LiteralValue::String(text) => Known { size: text.inner().len() as u64, ..Known::new(Type::Text, 0) },
        LiteralValue::UInt(_) => Known::new(Type::Uint, 0),
    }
}

/// The type that all have, or dyn; of lists and maps that are empty, nothing is known.
fn common<'t>(types: impl Iterator<Item = &'t Type>) -> Type {
    let mut found: Option<Type> = None;
    for type_ in types {
        found = Some(match found {
            None => type_.clone(),
            Some(same) if same == *type_ => same,
            Some(Type::List(a)) if matches!(type_, Type::List(_)) => match type_ {
                Type::List(b) if *a == Type::Dyn => Type::List(b.clone()),
                _ => Type::List(a),
            },
            Some(Type::Optional(a)) if matches!(type_, Type::Optional(_)) => match type_ {
                Type::Optional(b) if *a == Type::Dyn => Type::Optional(b.clone()),
                _ => Type::Optional(a),
            },
            Some(_) => return Type::Dyn,
        });
    }
    found.unwrap_or(Type::Dyn)
}
