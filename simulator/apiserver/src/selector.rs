//! Label selectors and field selectors.

use serde_json::Value;

pub mod fields;
pub mod query;

/// What labels must be like (`labels.Selector` upstream). Without requirements it matches everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of its value.
    pub operator: Operator,
    /// The values that the operator compares with; sorted.
    pub values: Vec<String>,
}

/// Operators of `metav1.LabelSelector` and of selectors in queries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// There is no such label, or its value is none of these.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// The value is a number and greater.
    GreaterThan,
    /// The value is a number and less.
    LessThan,
}

impl LabelSelector {
    /// A selector with these requirements; all of them must hold.
    #[must_use]
    pub fn new(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// Reads a `metav1.LabelSelector` (`matchLabels`, `matchExpressions`) that validation has accepted.
    /// `Null` and the empty selector match everything; an unknown operator matches nothing.
    #[must_use]
    pub fn from_object(selector: &Value) -> Self {
        let labels = selector["matchLabels"].as_object().into_iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
            let texts = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut values: Vec<String> = texts.map(str::to_owned).collect();
            values.sort();
            let operator = match expression["operator"].as_str() {
                Some("NotIn") => Operator::NotIn,
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => Operator::In,
            };
            Requirement { key: expression["key"].as_str().unwrap_or_default().to_owned(), operator, values }
        });
        Self { requirements: labels.chain(expressions).collect() }
    }

    /// Does it match everything?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Its requirements.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Do these labels (`metadata.labels`; anything but an object has none) satisfy it?
    #[must_use]
    pub fn matches(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels[&requirement.key].as_str()))
    }
}

impl Requirement {
    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let theirs = self.values.first().map(String::as_str).and_then(number);
        value.and_then(number).zip(theirs).is_some_and(|(ours, theirs)| holds(ours, theirs))
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|other| other == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |ours, theirs| ours > theirs),
            Operator::LessThan => self.compares(value, |ours, theirs| ours < theirs),
        }
    }
}
