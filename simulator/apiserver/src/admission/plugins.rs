//! Built-in admission plugins that upstream enables by default, in upstream's order.

use super::{Attributes, Context};
use crate::error::ApiError;

mod namespace_lifecycle;

/// What plugins change, or refuse before anything is changed.
///
/// # Errors
/// The first refusal.
pub(super) fn mutate(attributes: &mut Attributes, context: &Context<'_>) -> Result<(), ApiError> {
    namespace_lifecycle::admit(attributes, context)
}

/// What plugins have against the object as it would be committed.
///
/// # Errors
/// The first refusal.
pub(super) fn validate(_attributes: &Attributes, _context: &Context<'_>) -> Result<(), ApiError> {
    Ok(())
}

/// What the quotas of the namespace have against it: last, when nobody else refuses.
///
/// # Errors
/// The quota that is exceeded.
pub(super) fn charge(_attributes: &Attributes, _context: &Context<'_>) -> Result<(), ApiError> {
    Ok(())
}
