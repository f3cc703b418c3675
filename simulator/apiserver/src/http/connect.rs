//! Conversations with a pod: `exec`, `attach`, `log`, `portforward`, `proxy`. The API server only finds
//! the pod and passes bytes on; who answers for the pod is a [`PodExec`] of the shell.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Method};

use super::encode::text_response;
use super::route::ResourcePath;
use crate::control_plane::View;
use crate::error::ApiError;
use crate::object::Object;
use crate::request::{Options, User};
use crate::resource::GroupResource;

/// A request to talk to a pod.
#[derive(Clone, Debug)]
pub struct Connect {
    /// What the path names.
    pub at: ResourcePath,
    /// Query parameters, the first of each.
    pub options: Options,
    /// The query as sent: `command` may be repeated.
    pub query: String,
    /// Method of the request.
    pub method: Method,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Who asks.
    pub user: User,
}

/// What runs commands in containers.
pub trait PodExec: Send + Sync {
    /// Runs a command to its end.
    fn exec(&self, command: ExecRequest) -> BoxFuture<'static, ExecResult>;

    /// What a container has printed so far.
    fn log(&self, pod: &Object, container: &str) -> String;
}

/// A command for a container.
#[derive(Clone, Debug)]
pub struct ExecRequest {
    /// The pod as stored.
    pub pod: Object,
    /// Container name.
    pub container: String,
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Everything that was sent on standard input, where the caller attached one.
    pub stdin: Bytes,
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecResult {
    /// Standard output.
    pub stdout: Bytes,
    /// Standard error.
    pub stderr: Bytes,
    /// How it ended.
    pub exit: Exit,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// It could not be run: the runtime's sentence.
    Failed(String),
}

impl Default for Exit {
    fn default() -> Self {
        Self::Code(0)
    }
}

/// Is this subresource a conversation rather than an object?
#[must_use]
pub fn is_connect(resource: &GroupResource, subresource: &str) -> bool {
    resource.group.is_empty()
        && match &*resource.resource {
            "pods" => matches!(subresource, "exec" | "attach" | "portforward" | "proxy" | "log"),
            "services" | "nodes" => subresource == "proxy",
            _ => false,
        }
}

/// May a path go on behind this subresource?
#[must_use]
pub fn takes_path(subresource: &str) -> bool {
    subresource == "proxy"
}

impl Connect {
    pub(super) fn new(at: ResourcePath, options: Options, user: User, parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Self { at, options, query, method: parts.method.clone(), headers: parts.headers.clone(), user }
    }

    /// The pod, and the container that is meant.
    ///
    /// # Errors
    /// 404 without such a pod; 400 when the container is not clear or not there.
    pub fn container(&self, view: &View<'_>) -> Result<(Object, String), ApiError> {
        let resource = GroupResource::new(&self.at.group, &self.at.resource);
        let object = view
            .get(&resource, if self.at.resource == "nodes" { "" } else { &self.at.namespace }, &self.at.name)
            .ok_or_else(|| ApiError::not_found(&resource, &self.at.name))?;
        if &*resource.resource != "pods" {
            return Err(unreachable_backend(&resource.resource, &self.at.name));
        }
        let container = container_name(object, &self.at.name, self.options.get("container"))?;
        Ok((object.clone(), container))
    }

    /// Command and arguments of an `exec`.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .filter(|(name, _)| name == "command")
            .map(|(_, value)| value.into_owned())
            .collect()
    }

    /// Answers everything but a running `exec`: logs, and refusals.
    ///
    /// # Errors
    /// As [`Connect::container`]; 400 for pods without a node; 501 for what no stand-in does.
    pub fn answer(&self, view: &View<'_>, pods: Option<&dyn PodExec>) -> Result<http::Response<Bytes>, ApiError> {
        let (pod, container) = self.container(view)?;
        let placed = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        match self.at.subresource.as_str() {
            // A pod that no node has yet has an empty log.
            "log" if !placed => Ok(text_response(200, "")),
            "log" => Ok(text_response(200, pods.map_or_else(String::new, |pods| pods.log(&pod, &container)))),
            _ if !placed => Err(ApiError::bad_request(format!("pod {} does not have a host assigned", self.at.name))),
            other => {
                Err(ApiError::new(501, "NotImplemented", format!("the node stand-in does not support {other} on pods")))
            }
        }
    }
}

/// `pkg/registry/core/pod/strategy.go`, `validateContainer`.
fn container_name(pod: &Object, name: &str, asked: &str) -> Result<String, ApiError> {
    let names = |field: &str| -> Vec<&str> {
        pod["spec"][field].as_array().into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, init, ephemeral) = (names("containers"), names("initContainers"), names("ephemeralContainers"));
    if !asked.is_empty() {
        let known = [&containers, &init, &ephemeral].into_iter().flatten().any(|container| *container == asked);
        return if known {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        };
    }
    match containers.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        several => {
            let mut message =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", several.join(" "));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(message))
        }
    }
}

fn unreachable_backend(resource: &str, name: &str) -> ApiError {
    let message = if resource == "services" {
        format!("no endpoints available for service \"{name}\"")
    } else {
        format!("no preferred addresses found; known addresses of node \"{name}\": []")
    };
    ApiError::new(503, "ServiceUnavailable", message)
}
