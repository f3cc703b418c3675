//! Who may do what: roles, bindings, and what is said to those who may not.
//!
//! Source: `plugin/pkg/auth/authorizer/rbac` and `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`.

pub(crate) mod bootstrap;
pub(crate) mod escalation;
pub(crate) mod reviews;
mod rules;

use std::borrow::Cow;

use http::Method;

use crate::error::{ApiError, Details};
use crate::http::route::Route;
use crate::request::{Options, User, Verb};
use crate::resource::GroupResource;
use crate::store::Store;

/// Whether access rules are asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Authorization {
    /// Everybody may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide.
    Rbac,
}

/// What is asked for, as access rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes<'a> {
    /// `get`, `list`, …; for other paths the method in lower case.
    pub verb: Cow<'a, str>,
    /// On what.
    pub target: Target<'a>,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq)]
pub enum Target<'a> {
    /// A resource.
    Resource {
        /// API group.
        group: Cow<'a, str>,
        /// Plural.
        resource: Cow<'a, str>,
        /// Subresource, or empty.
        subresource: Cow<'a, str>,
        /// Namespace; empty for the whole cluster.
        namespace: Cow<'a, str>,
        /// Object name, or empty.
        name: Cow<'a, str>,
    },
    /// Any other path.
    Path(Cow<'a, str>),
}

impl<'a> Attributes<'a> {
    /// What an HTTP request asks for.
    #[must_use]
    pub fn of(route: &'a Route, method: &Method, options: &'a Options) -> Self {
        match route {
            Route::Path(path) => Self {
                verb: Cow::Owned(method.as_str().to_ascii_lowercase()),
                target: Target::Path(Cow::Borrowed(path)),
            },
            Route::Resource(at) => {
                let mut name = at.name.as_str();
                // A list or watch of one object is judged by its name.
                if name.is_empty() && matches!(at.verb, Some(Verb::List | Verb::Watch)) {
                    name = options.get("fieldSelector").strip_prefix("metadata.name=").unwrap_or_default();
                    name = if name.contains(',') { "" } else { name };
                }
                Self {
                    verb: Cow::Borrowed(at.verb.map_or("", Verb::as_str)),
                    target: Target::Resource {
                        group: Cow::Borrowed(&at.group),
                        resource: Cow::Borrowed(&at.resource),
                        subresource: Cow::Borrowed(&at.subresource),
                        namespace: Cow::Borrowed(&at.namespace),
                        name: Cow::Borrowed(name),
                    },
                }
            }
        }
    }

    /// The same target, another verb.
    #[must_use]
    pub fn with_verb(&self, verb: String) -> Self {
        Self { verb: Cow::Owned(verb), target: self.target.clone() }
    }
}

/// May the user do this?
///
/// # Errors
/// 403 in upstream's words when not.
pub fn authorize(store: &Store, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    match rules::evaluate(store, user, attributes) {
        Ok(_) => Ok(()),
        Err(reason) => Err(forbidden(user, attributes, &reason)),
    }
}

/// May `sender` act as `user` to do this?
///
/// Either the constrained kind (`impersonate:user-info` on the user, `impersonate-on:user-info:VERB` on
/// the target) or the older one (`impersonate` on user, groups, uid and extra) is enough.
///
/// # Errors
/// 403 when neither is granted.
pub fn authorize_impersonation(
    store: &Store,
    sender: &User,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), ApiError> {
    let may = |verb: &str, group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let target = Target::Resource {
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        rules::evaluate(store, sender, &Attributes { verb: verb.to_owned().into(), target }).is_ok()
    };
    let all = |verb: &str, grouped: &str| {
        let named = match crate::http::authenticate::service_account(&user.name) {
            Some((namespace, name)) => may(verb, grouped, "serviceaccounts", "", namespace, name),
            None => may(verb, grouped, "users", "", "", &user.name),
        };
        named
            && user.groups.iter().all(|group| may(verb, grouped, "groups", "", "", group))
            && (user.uid.is_empty() || may(verb, "authentication.k8s.io", "uids", "", "", &user.uid))
            && user.extra.iter().all(|(key, values)| {
                values.iter().all(|value| may(verb, "authentication.k8s.io", "userextras", key, "", value))
            })
    };
    if all("impersonate", "") {
        return Ok(());
    }
    let on = attributes.with_verb(format!("impersonate-on:user-info:{}", attributes.verb));
    authorize(store, sender, &on)?;
    if all("impersonate:user-info", "authentication.k8s.io") { Ok(()) } else { Err(forbidden(sender, &on, "")) }
}

/// What those are told who may not.
fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let (who, verb) = (&user.name, &attributes.verb);
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match &attributes.target {
        Target::Path(path) => {
            let mut error = ApiError::new(
                403,
                "Forbidden",
                format!("forbidden: User \"{who}\" cannot {verb} path \"{path}\"{because}"),
            );
            error.details = Some(Box::new(Details::default()));
            error
        }
        Target::Resource { group, resource, subresource, namespace, name } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace \"{namespace}\"")
            };
            let why = format!(
                "User \"{who}\" cannot {verb} resource \"{resource}{slash}{subresource}\" in API group \"{group}\" {place}{because}"
            );
            ApiError::forbidden(&GroupResource::new(group, resource), name, &why)
        }
    }
}
