//! `labelSelector` in a query: `tier in (gold, tin),zone!=eu,!old`.
//!
//! The grammar and the sentences are those of `k8s.io/apimachinery/pkg/labels/selector.go`.

use super::{LabelSelector, Operator, Requirement};
use crate::builtin::names;
use crate::error::FieldError;

/// Reads a label selector.
///
/// # Errors
/// Upstream's sentence about what is wrong.
pub fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            (Kind::Identifier | Kind::Not, _) => {
                let requirement = parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                requirements.push(requirement);
                match parser.take() {
                    (Kind::End, _) => return Ok(LabelSelector::new(requirements)),
                    (Kind::Comma, _) => {
                        let (kind, literal) = parser.peek();
                        if !matches!(kind, Kind::Identifier | Kind::Not) {
                            return Err(format!("found '{literal}', expected: identifier after ','"));
                        }
                    }
                    (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
                }
            }
            (Kind::End, _) => return Ok(LabelSelector::new(requirements)),
            (_, literal) => return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Identifier,
    /// `in` or `notin`: an operator after a key, an identifier elsewhere.
    Word,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

type Token<'a> = (Kind, &'a str);

fn tokens(text: &str) -> Vec<Token<'_>> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if special(first) {
            if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 }
        } else {
            rest.find(|c: char| special(c) || c.is_whitespace()).unwrap_or(rest.len())
        };
        let (literal, after) = rest.split_at(end);
        let kind = match literal {
            "=" | "==" => Kind::Equals,
            "!=" => Kind::NotEquals,
            "!" => Kind::Not,
            "(" => Kind::Open,
            ")" => Kind::Close,
            "," => Kind::Comma,
            ">" => Kind::Greater,
            "<" => Kind::Less,
            "in" | "notin" => Kind::Word,
            _ => Kind::Identifier,
        };
        out.push((kind, literal));
        rest = after.trim_start();
    }
    out
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next token, words taken as identifiers.
    fn peek(&self) -> Token<'a> {
        match self.tokens.get(self.at).copied().unwrap_or((Kind::End, "")) {
            (Kind::Word, literal) => (Kind::Identifier, literal),
            token => token,
        }
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut negated = false;
        let (mut kind, mut key) = self.take();
        if kind == Kind::Not {
            negated = true;
            (kind, key) = self.take();
        }
        if kind != Kind::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = names::qualified_name(key);
        if !wrong.is_empty() {
            return Err(FieldError::invalid("<nil>", &key.into(), wrong.join("; ")).to_string());
        }
        let unary = |operator| Requirement { key: key.to_owned(), operator, values: Vec::new() };
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(unary(if negated { Operator::DoesNotExist } else { Operator::Exists }));
        }
        if negated {
            return Ok(unary(Operator::DoesNotExist));
        }
        let (kind, literal) = self.tokens.get(self.at).copied().unwrap_or((Kind::End, ""));
        self.at += 1;
        let (operator, mut values) = match (kind, literal) {
            (Kind::Word, "in") => (Operator::In, self.values()?),
            (Kind::Word, _) => (Operator::NotIn, self.values()?),
            (Kind::Equals, _) => (Operator::In, vec![self.exact_value()?]),
            (Kind::NotEquals, _) => (Operator::NotIn, vec![self.exact_value()?]),
            (Kind::Greater, _) => (Operator::GreaterThan, vec![self.exact_value()?]),
            (Kind::Less, _) => (Operator::LessThan, vec![self.exact_value()?]),
            _ => return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        values.sort_unstable();
        values.dedup();
        check_values(key, operator, &values)?;
        let values = values.into_iter().map(str::to_owned).collect();
        Ok(Requirement { key: key.to_owned(), operator, values })
    }

    fn exact_value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok("");
        }
        match self.take() {
            (Kind::Identifier, literal) => Ok(literal),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.take() {
            (Kind::Open, _) => {}
            (_, literal) => return Err(format!("found '{literal}' expected: '('")),
        }
        match self.peek() {
            (Kind::Identifier | Kind::Comma, literal) => {
                let values = self.identifiers()?;
                match self.take() {
                    (Kind::Close, _) => Ok(values),
                    _ => Err(format!("found '{literal}', expected: ')'")),
                }
            }
            (Kind::Close, _) => {
                self.take();
                Ok(Vec::new())
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<&'a str>, String> {
        let mut values = Vec::new();
        loop {
            match self.take() {
                (Kind::Identifier, literal) => {
                    values.push(literal);
                    match self.peek() {
                        (Kind::Comma, _) => {}
                        (Kind::Close, _) => return Ok(values),
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                (Kind::Comma, _) => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek().0 {
                        Kind::Close => {
                            values.push("");
                            return Ok(values);
                        }
                        Kind::Comma => {
                            self.take();
                            values.push("");
                        }
                        _ => {}
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &[&str]) -> Result<(), String> {
    let mut errors = Vec::new();
    let numeric = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    for (index, value) in values.iter().enumerate() {
        if numeric && value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{index}]"), &(*value).into(), why));
        }
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("values[{index}][{key}]"), &(*value).into(), wrong.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.to_string()),
        several => {
            let all: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(format!("[{}]", all.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_selector_chooses() {
        let labels = json!({"tier": "gold", "zone": "eu", "members": "3"});
        for (selector, chosen) in [
            ("", true),
            ("tier=gold", true),
            ("tier==gold,zone!=us", true),
            ("tier!=gold", false),
            ("other!=x", true),
            ("tier in (tin, gold)", true),
            ("tier in ()", false),
            ("tier notin (tin)", true),
            ("tier", true),
            ("!tier", false),
            ("!other , zone", true),
            ("members>2", true),
            ("members < 3", false),
            ("other>1", false),
            ("in in (in)", false),
        ] {
            assert_eq!(parse(selector).map(|parsed| parsed.matches(&labels)), Ok(chosen), "{selector}");
        }
    }
}
