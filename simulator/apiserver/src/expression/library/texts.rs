//! `"abc123".find("[0-9]+")`; `format.dns1123Label().validate("x")`; `jsonpatch.escapeKey("a/b")`.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/{regex,format,jsonpatch}.go`.

use std::any::Any;
use std::sync::OnceLock;

use cel::common::types::CelInt;
use cel::common::types::{CelList, CelOptional, CelString, INT_TYPE, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env};
use regex::Regex;

use super::{arg, failed, opaque};
use crate::builtin::names;

/// A named format as a CEL value: its name.
#[derive(Clone, Copy, Debug)]
struct CelFormat(&'static str);

fn type_() -> &'static Type {
    static TYPE: OnceLock<Type> = OnceLock::new();
    TYPE.get_or_init(declared)
}

fn declared() -> Type {
    opaque("kubernetes.NamedFormat")
}

impl Val for CelFormat {
    fn get_type(&self) -> &Type {
        type_()
    }

    fn cel_type() -> &'static Type {
        type_()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelFormat {}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("find", "string_find_string", STRING_TYPE, vec![STRING_TYPE], |args| {
        let (text, pattern) = (arg::<CelString>(&args, 0)?.inner(), compile(arg::<CelString>(&args, 1)?.inner())?);
        let found = pattern.find(text).map_or("", |found| found.as_str()).to_owned();
        Ok(CowVal::owned(CelString::from(found)))
    })?;
    env.add_member_overload("findAll", "string_find_all_string", STRING_TYPE, vec![STRING_TYPE], |args| {
        let (text, pattern) = (arg::<CelString>(&args, 0)?.inner(), compile(arg::<CelString>(&args, 1)?.inner())?);
        Ok(CowVal::owned(all(text, &pattern, usize::MAX)))
    })?;
    env.add_member_overload(
        "findAll",
        "string_find_all_string_int",
        STRING_TYPE,
        vec![STRING_TYPE, INT_TYPE],
        |args| {
            let (text, pattern) = (arg::<CelString>(&args, 0)?.inner(), compile(arg::<CelString>(&args, 1)?.inner())?);
            // A negative limit is none.
            let limit = usize::try_from(*arg::<CelInt>(&args, 2)?.inner()).unwrap_or(usize::MAX);
            Ok(CowVal::owned(all(text, &pattern, limit)))
        },
    )?;
    env.add_overload("jsonpatch.escapeKey", "string_jsonpatch_escape_key_string", vec![STRING_TYPE], |args| {
        let key = arg::<CelString>(&args, 0)?.inner().replace('~', "~0").replace('/', "~1");
        Ok(CowVal::owned(CelString::from(key)))
    })?;
    register_formats(env)
}

fn compile(pattern: &str) -> Result<Regex, cel::ExecutionError> {
    Regex::new(pattern).map_err(|_| failed(format!("Illegal regex: {pattern}")))
}

fn all(text: &str, pattern: &Regex, limit: usize) -> CelList<'static> {
    let found = pattern.find_iter(text).take(limit);
    let found: Vec<Box<dyn Val>> = found
        .map(|found| {
            let found: Box<dyn Val> = Box::new(CelString::from(found.as_str().to_owned()));
            found
        })
        .collect();
    CelList::from(found)
}

fn register_formats(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(declared())?;
    macro_rules! format {
        ($($name:literal),*) => {$(
            env.add_overload(concat!("format.", $name), concat!("format-", $name), vec![], |_| {
                Ok(CowVal::owned(CelFormat($name)))
            })?;
        )*};
    }
    format!(
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime"
    );
    env.add_overload("format.named", "format-named", vec![STRING_TYPE], |args| {
        let wanted = arg::<CelString>(&args, 0)?.inner();
        let found: Option<Box<dyn Val>> = FORMATS.iter().find(|known| **known == wanted).map(|name| {
            let format: Box<dyn Val> = Box::new(CelFormat(name));
            format
        });
        Ok(CowVal::owned(CelOptional::from(found)))
    })?;
    env.add_member_overload("validate", "format-validate", declared(), vec![STRING_TYPE], |args| {
        let wrong = wrong(arg::<CelFormat>(&args, 0)?.0, arg::<CelString>(&args, 1)?.inner());
        let list: Option<Box<dyn Val>> = (!wrong.is_empty()).then(|| {
            let wrong = wrong.into_iter().map(|sentence| {
                let sentence: Box<dyn Val> = Box::new(CelString::from(sentence));
                sentence
            });
            let list: Box<dyn Val> = Box::new(CelList::from(wrong.collect::<Vec<_>>()));
            list
        });
        Ok(CowVal::owned(CelOptional::from(list)))
    })
}

const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// What keeps `text` from being of a format.
fn wrong(format: &str, text: &str) -> Vec<String> {
    // A prefix may end in a dash, for something follows.
    let prefix = text.strip_suffix('-').map_or_else(|| text.to_owned(), |rest| format!("{rest}a"));
    match format {
        "dns1123Label" => names::label(text),
        "dns1123Subdomain" => names::subdomain(text),
        "dns1035Label" => names::label_1035(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::label(&prefix),
        "dns1123SubdomainPrefix" => names::subdomain(&prefix),
        "dns1035LabelPrefix" => names::label_1035(&prefix),
        "labelValue" => names::label_value(text),
        checked => {
            let checked = if checked == "datetime" { "date-time" } else { checked };
            if crate::schema::formats::is_valid(checked, text) {
                Vec::new()
            } else {
                vec![format!("invalid {checked}")]
            }
        }
    }
}
