//! A [`kube::Client`] onto a simulated cluster: bytes in, bytes out, no port.
//!
//! Watches are not served here: a subject in a world is handed its events by the scheduler.

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use rewake_apiserver::ApiError;
use rewake_apiserver::http::{Received, receive, refusal};
use rewake_apiserver::request::User;

use crate::trace::Actor;
use crate::world::{Api, ConnectionLost};

/// A client whose requests are made by `by`, under the rights of a cluster administrator.
#[must_use]
pub fn client(api: &Api, by: Actor) -> kube::Client {
    let api = api.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| answer(api.clone(), by.clone(), request));
    kube::Client::new(service, "default")
}

/// Broken connections surface as errors of the transport, as they would over a network.
fn answer(
    api: Api,
    by: Actor,
    request: http::Request<Body>,
) -> BoxFuture<'static, Result<http::Response<Full<Bytes>>, ConnectionLost>> {
    Box::pin(async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| ConnectionLost)?.to_bytes();
        let received = {
            let mut kernel = api.kernel();
            let received = receive(&kernel.plane.view(), &user(&by), &parts, body);
            if !matches!(received, Received::Run(_)) {
                kernel.count(&by);
            }
            received
        };
        let response = match received {
            Received::Answer(response) => response,
            Received::Connect(_) => {
                refusal(&parts, &ApiError::bad_request("the simulated cluster serves no connections to pods here"))
            }
            Received::Run(mut call) => {
                let response = api.send(&by, call.request).await?;
                let now = api.kernel().now;
                call.encoder.response(&response, now)
            }
        };
        Ok(response.map(Full::new))
    })
}

/// Who an actor is to the API server.
fn user(by: &Actor) -> User {
    let mut user = User::service_account(super::reference::NAMESPACE, &by.to_string());
    user.groups.push("system:masters".to_owned());
    user
}
