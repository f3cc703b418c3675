//! CEL: expressions compiled once and evaluated against JSON.

use cel::{Context, ExecutionError};
use serde_json::Value;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    program: cel::Program,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("compilation failed: {0}")]
pub struct CompileError(String);

/// Why an expression has no value, in the words of cel-go.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(String);

impl Program {
    /// Compiles an expression over these variables.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn compile(source: &str, _variables: &[&str]) -> Result<Self, CompileError> {
        cel::Program::compile(source).map(|program| Self { program }).map_err(|error| CompileError(error.to_string()))
    }

    /// The value of the expression for these values of its variables.
    ///
    /// # Errors
    /// Missing keys, wrong types, overflow and their like.
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<Value, EvalError> {
        let mut context = Context::default();
        for (name, value) in variables {
            context.add_variable(*name, *value).map_err(|error| EvalError(error.to_string()))?;
        }
        let value = self.program.execute(&context).map_err(|error| {
            EvalError(match error {
                ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
                other => other.to_string(),
            })
        })?;
        value.json().map_err(|error| EvalError(error.to_string()))
    }
}
