//! Validation rules of custom resources (`x-kubernetes-validations`).

/// One compiled rule.
#[derive(Debug)]
pub struct Rule {}
