//! `semver("1.2.3").isLessThan(semver("1.10.0"))`.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/semverlib.go`, `blang/semver`.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::OnceLock;

use cel::common::types::{BOOL_TYPE, CelBool, CelInt, CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env};

use super::{Answer, arg, failed, opaque};

/// A semantic version; what follows `+` does not take part in comparisons.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<String>,
}

impl Semver {
    /// Reads `1.2.3-rc.1+build`; `normalize` also takes `v1.2` and leading zeros.
    fn parse(text: &str, normalize: bool) -> Option<Self> {
        let text = if normalize { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, rest)| (core, Some(rest)));
        let is_identifier =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !build.into_iter().chain(pre_release).flat_map(|parts| parts.split('.')).all(is_identifier) {
            return None;
        }
        let mut numbers = [0; 3];
        let mut parts = core.split('.');
        for (index, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                Some(part)
                    if part.bytes().all(|b| b.is_ascii_digit())
                        && (normalize || part == "0" || !part.starts_with('0')) =>
                {
                    *number = part.parse().ok()?;
                }
                None if normalize && index > 0 => {}
                _ => return None,
            }
        }
        if parts.next().is_some() {
            return None;
        }
        let pre_release = pre_release.map(|parts| parts.split('.').map(str::to_owned).collect()).unwrap_or_default();
        Some(Self { numbers, pre_release })
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_pre_release = || match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            // A release comes after what was before it.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let parts = self.pre_release.iter().zip(&other.pre_release).map(|(a, b)| {
                    match (a.parse::<u64>(), b.parse::<u64>()) {
                        (Ok(a), Ok(b)) => a.cmp(&b),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => a.cmp(b),
                    }
                });
                parts.fold(Ordering::Equal, Ordering::then).then(self.pre_release.len().cmp(&other.pre_release.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre_release)
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn type_() -> &'static Type {
    static TYPE: OnceLock<Type> = OnceLock::new();
    TYPE.get_or_init(declared)
}

fn declared() -> Type {
    opaque("kubernetes.Semver")
}

impl Val for Semver {
    fn get_type(&self) -> &Type {
        type_()
    }

    fn cel_type() -> &'static Type {
        type_()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Semver {}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    let of = declared;
    env.add_type(of())?;
    env.add_overload("semver", "string_to_semver", vec![STRING_TYPE], |args| read(&args, false))?;
    env.add_overload("semver", "string_bool_to_semver", vec![STRING_TYPE, BOOL_TYPE], |args| {
        read(&args, *arg::<CelBool>(&args, 1)?.inner())
    })?;
    env.add_overload("isSemver", "is_semver_string", vec![STRING_TYPE], |args| is(&args, false))?;
    env.add_overload("isSemver", "is_semver_string_bool", vec![STRING_TYPE, BOOL_TYPE], |args| {
        is(&args, *arg::<CelBool>(&args, 1)?.inner())
    })?;
    env.add_member_overload("isGreaterThan", "semver_is_greater_than", of(), vec![of()], |args| {
        boolean(arg::<Semver>(&args, 0)? > arg::<Semver>(&args, 1)?)
    })?;
    env.add_member_overload("isLessThan", "semver_is_less_than", of(), vec![of()], |args| {
        boolean(arg::<Semver>(&args, 0)? < arg::<Semver>(&args, 1)?)
    })?;
    env.add_member_overload("compareTo", "semver_compare_to", of(), vec![of()], |args| {
        let order = arg::<Semver>(&args, 0)?.cmp(arg::<Semver>(&args, 1)?);
        Ok(CowVal::owned(CelInt::from(order as i64)))
    })?;
    env.add_member_overload("major", "semver_major", of(), vec![], |args| number(&args, 0))?;
    env.add_member_overload("minor", "semver_minor", of(), vec![], |args| number(&args, 1))?;
    env.add_member_overload("patch", "semver_patch", of(), vec![], |args| number(&args, 2))
}

fn read<'b, 'v>(args: &[CowVal<'b, 'v>], normalize: bool) -> Answer<'b, 'v> {
    let text = arg::<CelString>(args, 0)?.inner();
    Semver::parse(text, normalize)
        .map(CowVal::owned)
        .ok_or_else(|| failed(format!("Invalid semantic version {text:?}")))
}

fn is<'b, 'v>(args: &[CowVal<'b, 'v>], normalize: bool) -> Answer<'b, 'v> {
    boolean(Semver::parse(arg::<CelString>(args, 0)?.inner(), normalize).is_some())
}

fn boolean<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn number<'b, 'v>(args: &[CowVal<'b, 'v>], index: usize) -> Answer<'b, 'v> {
    let number = arg::<Semver>(args, 0)?.numbers[index];
    Ok(CowVal::owned(CelInt::from(i64::try_from(number).unwrap_or(i64::MAX))))
}
