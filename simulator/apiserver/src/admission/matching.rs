//! Which writes a webhook or a policy is about: rules, selectors, equivalent versions.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/{predicates,generic}` and
//! `k8s.io/apiserver/pkg/admission/plugin/policy/matching`.

use std::sync::Arc;

use serde_json::Value;

use super::{Attributes, Context, Operation};
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::{GroupResource, GroupVersionKind, Resource};
use crate::selector::LabelSelector;

/// One rule: operations on resources (`RuleWithOperations`, with the names of policies' rules).
#[derive(Debug)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; a rule without a slash is about the resource itself.
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Names that the rule is limited to; empty: all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let split = |resource: String| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource, String::new()),
        };
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]).into_iter().map(split).collect(),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
            names: texts(&rule["resourceNames"]),
        }
    }

    /// The rules of a list.
    pub(super) fn read_all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::read).collect()
    }

    /// Does it hold for this write, seen as a write of `resource`?
    fn matches(&self, attributes: &Attributes, resource: &Resource) -> bool {
        let listed = |list: &[String], what: &str| list.iter().any(|item| item == "*" || item == what);
        let of = &resource.group_resource;
        let is_namespace = of.group.is_empty() && &*of.resource == "namespaces";
        let cluster_scoped = is_namespace || attributes.namespace.is_empty();
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => cluster_scoped,
            Scope::Namespaced => !cluster_scoped,
        };
        in_scope
            && listed(&self.operations, attributes.operation.as_str())
            && listed(&self.groups, &of.group)
            && listed(&self.versions, &resource.kind.version)
            && self.resources.iter().any(|(name, subresource)| {
                (name == "*" || name.as_str() == &*of.resource)
                    && (subresource == "*" || *subresource == attributes.subresource)
            })
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }
}

/// Which writes a webhook or policy is about (`MatchResources`, and the like fields of a webhook).
#[derive(Debug)]
pub(super) struct Criteria {
    pub(super) rules: Vec<Rule>,
    pub(super) exclude_rules: Vec<Rule>,
    pub(super) namespace_selector: LabelSelector,
    pub(super) object_selector: LabelSelector,
    /// `matchPolicy: Equivalent`: a rule on one version holds for writes through the others.
    pub(super) equivalent: bool,
    /// Do no rules mean every resource (policies), or none (webhooks)?
    pub(super) without_rules: bool,
}

/// As what a write matched: the resource and kind that the rule names, in which the object is shown.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    pub(super) resource: Arc<Resource>,
    pub(super) kind: GroupVersionKind,
}

impl Matched {
    fn as_asked(attributes: &Attributes) -> Self {
        Self { resource: Arc::clone(&attributes.resource), kind: attributes.kind.clone() }
    }
}

impl Criteria {
    /// Reads the selectors and `matchPolicy` of a webhook or of `MatchResources`.
    pub(super) fn read(object: &Value, rules: &str, without_rules: bool) -> Self {
        Self {
            rules: Rule::read_all(&object[rules]),
            exclude_rules: Rule::read_all(&object["excludeResourceRules"]),
            namespace_selector: LabelSelector::from_object(&object["namespaceSelector"]),
            object_selector: LabelSelector::from_object(&object["objectSelector"]),
            equivalent: object["matchPolicy"] != "Exact",
            without_rules,
        }
    }

    /// Could it match a write of this resource at all? Cheap, and never wrong when it says no.
    pub(super) fn concerns(&self, attributes: &Attributes) -> bool {
        if self.rules.is_empty() {
            return self.without_rules;
        }
        let of = &attributes.resource.group_resource;
        let operation = attributes.operation.as_str();
        self.rules.iter().any(|rule| {
            let named = rule.resources.iter().any(|(name, _)| name == "*" || name.as_str() == &*of.resource);
            named && rule.operations.iter().any(|listed| listed == "*" || listed == operation)
        })
    }

    /// As what it matches this write, if it does.
    ///
    /// # Errors
    /// When the namespace to select by does not exist.
    pub(super) fn matches(&self, attributes: &Attributes, context: &Context<'_>) -> Result<Option<Matched>, ApiError> {
        let in_namespace = self.matches_namespace(attributes, context);
        if in_namespace == Ok(false) || !self.matches_object(attributes) {
            return Ok(None);
        }
        if self.first_match(&self.exclude_rules, attributes, context).is_some() {
            return Ok(None);
        }
        let matched = if self.rules.is_empty() && self.without_rules {
            Some(Matched::as_asked(attributes))
        } else {
            self.first_match(&self.rules, attributes, context)
        };
        // A namespace that is missing is only an error for what else would have matched.
        if matched.is_some() {
            in_namespace?;
        }
        Ok(matched)
    }

    fn first_match(&self, rules: &[Rule], attributes: &Attributes, context: &Context<'_>) -> Option<Matched> {
        if rules.iter().any(|rule| rule.matches(attributes, &attributes.resource)) {
            return Some(Matched::as_asked(attributes));
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = context.interfaces.equivalents(&attributes.resource);
        // The earlier rule wins, then the earlier version.
        let other = rules.iter().find_map(|rule| {
            let mut others = others.iter().filter(|other| other.kind != attributes.resource.kind);
            others.find(|other| rule.matches(attributes, other))
        })?;
        Some(Matched {
            resource: Arc::clone(other),
            kind: other
                .subresource(&attributes.subresource)
                .map_or(&other.kind, |subresource| &subresource.kind)
                .clone(),
        })
    }

    fn matches_object(&self, attributes: &Attributes) -> bool {
        self.object_selector.is_empty()
            || [&attributes.object, &attributes.old_object]
                .into_iter()
                .flatten()
                .any(|object| self.object_selector.matches(&object["metadata"]["labels"]))
    }

    fn matches_namespace(&self, attributes: &Attributes, context: &Context<'_>) -> Result<bool, ApiError> {
        let of = &attributes.resource.group_resource;
        let is_namespace = &*of.resource == "namespaces";
        if self.namespace_selector.is_empty() || (attributes.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && written {
            // The namespace as it will be, not as it is.
            let labels = attributes.object.as_ref().map_or(&Value::Null, |object| &object["metadata"]["labels"]);
            return Ok(self.namespace_selector.matches(labels));
        }
        let namespaces = GroupResource::new("", "namespaces");
        match context.store.get(&namespaces, "", &attributes.namespace) {
            Some(namespace) => Ok(self.namespace_selector.matches(&namespace.value()["metadata"]["labels"])),
            None => Err(ApiError::not_found(&namespaces, &attributes.namespace)),
        }
    }
}

/// The objects of a write in the version that was matched.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) object: Option<Object>,
    pub(super) old_object: Option<Object>,
}

impl Matched {
    /// The objects of the write as a webhook or policy sees them.
    ///
    /// # Errors
    /// When they cannot be converted.
    pub(super) fn show(&self, attributes: &Attributes, context: &Context<'_>) -> Result<Shown, ApiError> {
        let convert = |object: &Option<Object>| match object {
            Some(object) if self.kind != attributes.kind => context.interfaces.convert(object, &self.kind).map(Some),
            other => Ok(other.clone()),
        };
        Ok(Shown { object: convert(&attributes.object)?, old_object: convert(&attributes.old_object)? })
    }
}
