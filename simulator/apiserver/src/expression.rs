//! CEL expressions, compiled once and evaluated against JSON.
//!
//! The language itself comes from the `cel` crate; here is what Kubernetes adds to it: the functions of
//! `k8s.io/apiserver/pkg/cel/library` ([`library`]), JSON values as CEL values ([`values`]) and upstream's
//! wording of errors. Whoever uses expressions (validation rules, match conditions, policies) decides
//! which variables there are.

use std::sync::{Arc, OnceLock};

use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Value as Cel};
use serde_json::Value;

pub(crate) mod check;
pub mod library;
mod literals;
pub mod rules;
pub mod values;

/// Longest expression in bytes: far beyond any real one, and a bound on the parser's work.
const MAX_SOURCE: usize = 256 * 1024;

/// A compiled expression. Immutable and shared: forks and threads may evaluate it at the same time.
pub struct Program {
    source: String,
    program: cel::Program,
    environment: Arc<Env>,
    /// The declared variables that it mentions; nothing else is converted for an evaluation.
    mentions: Vec<String>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.source).finish()
    }
}

/// An expression that does not compile: the message as upstream's compiler prints it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

/// An evaluation that ended in an error, worded as upstream words it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

impl Program {
    /// Compiles `source`, in which the variables `vars` are known.
    ///
    /// # Errors
    /// Syntax errors and references to anything unknown, with place and excerpt.
    pub fn compile(source: &str, vars: &[&str]) -> Result<Self, CompileError> {
        let program = Self::compile_in(Arc::clone(environment()), source, vars)?;
        check::check_untyped(&program, vars, false).map_err(CompileError)?;
        Ok(program)
    }

    /// Compiles an expression that may build objects: `Object{...}` and `JSONPatch{...}`.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn compile_literal(source: &str, vars: &[&str]) -> Result<Self, CompileError> {
        let mut environment = new_environment();
        literals::declare(&mut environment, source);
        let program = Self::compile_in(Arc::new(environment), source, vars)?;
        check::check_untyped(&program, vars, true).map_err(CompileError)?;
        Ok(program)
    }

    fn compile_in(environment: Arc<Env>, source: &str, vars: &[&str]) -> Result<Self, CompileError> {
        if source.len() > MAX_SOURCE {
            return Err(CompileError(format!("expression is longer than {MAX_SOURCE} bytes")));
        }
        let program = environment.compile(source).map_err(|errors| CompileError(excerpts(source, &errors)))?;
        let mentions = {
            let references = program.references();
            let known = |name: &&str| vars.contains(name);
            references.variables().into_iter().filter(known).map(str::to_owned).collect()
        };
        Ok(Self { source: source.to_owned(), program, environment, mentions })
    }

    /// The expression as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Is this variable mentioned?
    #[must_use]
    pub fn mentions(&self, variable: &str) -> bool {
        self.mentions.iter().any(|name| name == variable)
    }

    /// Evaluates with JSON variables, whose objects and lists are of any type.
    ///
    /// # Errors
    /// Whatever goes wrong within the expression, and results that JSON cannot say.
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<Value, EvalError> {
        let variables = variables.iter().filter(|(name, _)| self.mentions(name));
        let value = self.run(variables.map(|(name, value)| (*name, values::untyped(value))))?;
        values::to_json(&value).ok_or_else(|| EvalError("result is not representable in JSON".to_owned()))
    }

    /// Evaluates with CEL variables.
    ///
    /// # Errors
    /// Whatever goes wrong within the expression.
    pub fn run<'v>(&self, variables: impl Iterator<Item = (&'v str, Box<dyn Val + 'v>)>) -> Result<Cel, EvalError> {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        for (name, value) in variables {
            context.add_variable_as_val(name, value);
        }
        self.program.execute(&context).map_err(|error| EvalError(words(&error)))
    }
}

/// The functions and types that every expression may use.
fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| Arc::new(new_environment()))
}

fn new_environment() -> Env {
    let mut env = Env::stdlib();
    library::register(&mut env).expect("no function is declared twice: a test makes the environment");
    env
}

/// Errors with place and excerpt, as cel-go prints them.
fn excerpts(source: &str, errors: &cel::ParseErrors) -> String {
    let texts: Vec<String> =
        errors.errors.iter().map(|error| excerpt(source, error.pos.0, error.pos.1, &error.msg)).collect();
    texts.join("\n")
}

/// One error at a line and a column, both counted from 1.
fn excerpt(source: &str, line: isize, column: isize, message: &str) -> String {
    let at = usize::try_from(line - 1).unwrap_or_default();
    let dots = ".".repeat(usize::try_from(column - 1).unwrap_or_default());
    let text = source.lines().nth(at).unwrap_or_default();
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
}

/// An evaluation error in cel-go's words.
fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UnsupportedBinaryOperator(..) => {
            "no such overload".to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(index) => match index {
            Cel::Int(index) => format!("index out of bounds: {index}"),
            index => format!("index out of bounds: {index:?}"),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_see_json_as_it_is() {
        let object = json!({"spec": {"replicas": 3, "names": ["a", "b"]}, "metadata": {"labels": {"app": "db"}}});
        let cases = [
            ("object.spec.replicas + 1", json!(4)),
            ("object.spec.names.exists(name, name == 'b')", json!(true)),
            ("has(object.spec.paused) || object.metadata.labels['app'].startsWith('d')", json!(true)),
            ("object.?spec.?paused.orValue('no')", json!("no")),
            ("{'a': [1, 2.5, null]}", json!({"a": [1, 2.5, null]})),
        ];
        for (source, expected) in cases {
            let program = Program::compile(source, &["object"]).expect(source);
            assert_eq!(program.evaluate(&[("object", &object)]), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_is_not_declared_is_refused_before_anything_is_evaluated() {
        let cases = [
            ("objec.spec", "1:1: undeclared reference to 'objec' (in container '')"),
            ("object.spec.fo('a')", "1:15: undeclared reference to 'fo' (in container '')"),
            ("'a' > 1", "1:5: found no matching overload for '_>_' applied to '(string, int)'"),
            ("'a'.startsWith(1)", "1:15: found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ];
        for (source, expected) in cases {
            let error = Program::compile(source, &["object"]).expect_err(source).0;
            assert!(error.starts_with(&format!("ERROR: <input>:{expected}\n | {source}")), "{error}");
        }
    }

    #[test]
    fn the_functions_of_kubernetes_are_there() {
        let truths = [
            "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('50k').asInteger() == 50000",
            "!isQuantity('lots') && quantity('1').add(1).compareTo(quantity('2')) == 0",
            "ip('10.0.0.1').family() == 4 && !isIP('10.0.0') && ip.isCanonical('::1') && string(ip('::1')) == '::1'",
            "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').containsIP('10.9.9.9')",
            "url('https://a.example:81/b?x=1').getHost() == 'a.example:81' && url('/b').getScheme() == ''",
            "[1, 2, 2].isSorted() && [1, 2].sum() == 3 && ['b', 'a'].min() == 'a' && [1, 2, 1].lastIndexOf(1) == 2",
            "'abc123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
            "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
            "'%s has %d'.format(['a', 2]) == 'a has 2' && 'A,b'.lowerAscii().split(',') == ['a', 'b']",
            "duration('1h') > duration('59m') && timestamp('2026-01-02T03:04:05Z').getFullYear() == 2026",
            "[1, 2, 3].slice(0, 2) == [1, 2] && {'a': 1}.exists(k, k == 'a')",
            "sets.contains([1, 2], [2]) && !sets.intersects([1], [2]) && sets.equivalent([1, 2, 1], [2, 1])",
            "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3-rc.1').major() == 1 && !isSemver('v1')",
            "semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1 && isSemver('v1.2', true)",
        ];
        for source in truths {
            let program = Program::compile(source, &[]).expect(source);
            assert_eq!(program.evaluate(&[]), Ok(json!(true)), "{source}");
        }
    }

    #[test]
    fn errors_read_as_upstream_prints_them() {
        let object = json!({});
        let error = |source: &str| {
            let program = Program::compile(source, &["object"]).expect(source);
            program.evaluate(&[("object", &object)]).expect_err(source).0
        };
        assert_eq!(error("object.min > 1"), "no such key: min");
        assert_eq!(error("1 / 0 > 1"), "division by zero");
        let error = Program::compile("object.members +", &["object"]).expect_err("half a sum").0;
        assert_eq!(
            error,
            "ERROR: <input>:1:17: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', \
             'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n \
             | object.members +\n | ................^"
        );
    }
}
