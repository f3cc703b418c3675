//! Functions that Kubernetes adds to CEL (`k8s.io/apiserver/pkg/cel/library`).

use cel::{DeclarationError, Env, extensions};

/// Declares every function.
///
/// # Errors
/// When two declarations clash, which is a mistake here.
pub fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    Ok(())
}
