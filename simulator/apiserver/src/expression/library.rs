//! Functions that Kubernetes adds to CEL (`k8s.io/apiserver/pkg/cel/library`).
//!
//! | module | functions |
//! |---|---|
//! | [`quantities`] | `quantity`, `isQuantity` and what quantities can do |
//! | [`networks`] | `ip`, `cidr`, `url` and theirs |
//! | [`lists`] | `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`; `sets` |
//! | [`texts`] | `find`, `findAll`; named formats |
//! | [`versions`] | `semver` and theirs |
//!
//! String functions, `slice`, `distinct` and their like are extensions of the `cel` crate.

use cel::common::types::Type;
use cel::common::value::{CowVal, FromVal, Val};
use cel::{DeclarationError, Env, ExecutionError, extensions};

mod lists;
mod networks;
mod quantities;
mod texts;
mod versions;

/// Declares every function.
///
/// # Errors
/// When two declarations clash, which is a mistake here.
pub fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    env.add_extension(quantities::register)?;
    env.add_extension(networks::register)?;
    env.add_extension(lists::register)?;
    env.add_extension(texts::register)?;
    env.add_extension(versions::register)
}

/// What an overload answers.
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// An argument as the type that its overload was declared with.
fn arg<'b, 'v, T: FromVal<'b, 'v>>(args: &'b [CowVal<'_, 'v>], index: usize) -> Result<&'b T, ExecutionError> {
    let value = args.get(index).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let value: &'b (dyn Val + 'v) = value.as_ref();
    value.downcast_ref::<T>().ok_or_else(|| ExecutionError::no_such_overload("function", Vec::new()))
}

/// A failure of a function, with the sentence that is shown.
fn failed(sentence: impl ToString) -> ExecutionError {
    ExecutionError::function_error("function", sentence)
}

/// Declares a type of our own, so that overloads can be declared for it.
fn opaque(name: &'static str) -> Type {
    Type::new_opaque_type(name)
}
