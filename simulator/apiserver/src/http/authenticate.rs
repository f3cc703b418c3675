//! Who asks: bearer tokens, and impersonation.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::access::{self, Attributes, Authorization};
use crate::control_plane::View;
use crate::error::ApiError;
use crate::request::User;

/// Bearer tokens and whom they stand for.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    users: BTreeMap<String, User>,
}

/// A token file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the token file: want token,user,uid and optionally \"group1,group2\"")]
pub struct TokenFileError {
    line: usize,
}

impl Tokens {
    /// Reads a static token file: `token,user,uid[,"group1,group2"]` a line, as `--token-auth-file`
    /// of kube-apiserver takes it. Empty lines and lines that begin with `#` are passed over.
    ///
    /// # Errors
    /// When a line has fewer than three fields.
    pub fn parse(file: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        for (at, line) in file.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.splitn(4, ',').map(|field| field.trim().trim_matches('"'));
            let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(TokenFileError { line: at + 1 });
            };
            let groups = fields.next().unwrap_or_default();
            let groups: Vec<String> =
                groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
            tokens.insert(token, User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() });
        }
        Ok(tokens)
    }

    /// Lets a token stand for a user, who also becomes a member of `system:authenticated`.
    pub fn insert(&mut self, token: &str, mut user: User) {
        if !user.groups.iter().any(|group| group == "system:authenticated") {
            user.groups.push("system:authenticated".to_owned());
        }
        self.users.insert(token.to_owned(), user);
    }

    /// Who sends these headers; nobody is `system:anonymous`.
    ///
    /// # Errors
    /// 401 for a token that is not known.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<User, ApiError> {
        let token = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        match token {
            None => Ok(anonymous()),
            Some(token) => {
                self.users.get(token).cloned().ok_or_else(|| ApiError::new(401, "Unauthorized", "Unauthorized"))
            }
        }
    }
}

fn anonymous() -> User {
    User { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()], ..User::default() }
}

const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The user that a request acts as: the sender, or whom its `Impersonate-*` headers name.
///
/// # Errors
/// 400 for headers without a user, 403 when the sender may not.
pub fn impersonate(
    view: &View<'_>,
    sender: &User,
    headers: &HeaderMap,
    attributes: &Attributes<'_>,
) -> Result<User, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut user = User { name: text("impersonate-user"), uid: text("impersonate-uid"), ..User::default() };
    user.groups = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    for (name, value) in headers {
        let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA_PREFIX), value.to_str()) else { continue };
        let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
        user.extra.entry(key).or_default().push(value.to_owned());
    }
    if user == User::default() {
        return Ok(sender.clone());
    }
    if user.name.is_empty() {
        return Err(ApiError::bad_request(format!("requested {} without impersonating a user name", go_user(&user))));
    }
    if view.authorization() == Authorization::Rbac {
        access::authorize_impersonation(view.store(), sender, &user, attributes)?;
    }
    if let Some((namespace, name)) = service_account(&user.name)
        && user.groups.is_empty()
    {
        user.groups = User::service_account(namespace, name).groups;
    }
    let authentication = ["system:authenticated", "system:unauthenticated"];
    if !user.groups.iter().any(|group| authentication.contains(&group.as_str())) {
        let at = usize::from(user.name == "system:anonymous");
        user.groups.push(authentication[at].to_owned());
    }
    Ok(user)
}

/// Namespace and name of a service account's user name.
#[must_use]
pub fn service_account(user_name: &str) -> Option<(&str, &str)> {
    user_name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// A user as Go prints it with `%#v`.
fn go_user(user: &User) -> String {
    let quoted = |texts: &[String]| {
        texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect::<Vec<_>>().join(", ")
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        format!("[]string{{{}}}", quoted(&user.groups))
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> = user
            .extra
            .iter()
            .map(|(key, values)| format!("{}:[]string{{{}}}", Value::from(key.as_str()), quoted(values)))
            .collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let (name, uid) = (Value::from(user.name.as_str()), Value::from(user.uid.as_str()));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
