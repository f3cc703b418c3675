//! One HTTP request in, one HTTP response out, watches as streams.

use bytes::Bytes;
use futures::stream::{self, Stream};
use futures::{FutureExt, select_biased};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use jiff::{SignedDuration, Timestamp};

use super::{Core, exec, run};
use crate::http::encode::Encoder;
use crate::http::{self as wire, Call, Received};
use crate::request::{Answer, User};
use crate::resource::GroupResource;
use crate::watch::WatchId;

/// The body of a response; watches are streams.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// How often a watch looks for what no commit announces, such as bookmarks.
const WATCH_POLL: SignedDuration = SignedDuration::from_secs(1);

/// Answers a request of a user who is already authenticated.
pub async fn answer<C: Core>(core: &C, user: &User, request: http::Request<Bytes>) -> http::Response<Body> {
    let (mut parts, body) = request.into_parts();
    let received = core.with(|plane, _| wire::receive(&plane.view(), user, &parts, body));
    match received {
        Received::Answer(response) => response.map(full),
        Received::Run(call) => respond(core, *call).await,
        Received::Connect(connect) if exec::is_upgrade(&connect) => exec::upgrade(core, &connect, &mut parts),
        Received::Connect(connect) => {
            let pods = core.pods();
            core.with(|plane, _| connect.answer(&plane.view(), pods.as_deref()))
                .unwrap_or_else(|error| wire::refusal(&parts, &error))
                .map(full)
        }
    }
}

/// A body of bytes.
#[must_use]
pub fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

async fn respond<C: Core>(core: &C, call: Call) -> http::Response<Body> {
    let Call { request, mut encoder } = call;
    let resource = GroupResource::new(&request.group, &request.resource);
    let timeout = request.options.get("timeoutSeconds").parse::<i64>().ok().filter(|seconds| *seconds > 0);
    let response = run(core, request).await;
    let (encoded, now) = core.with(|_, now| (encoder.response(&response, now), now));
    let Answer::Watch(id) = response.body else { return encoded.map(full) };
    let end = timeout.and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok());
    let watch = Watch { core: core.clone(), id, resource, encoder, end };
    encoded.map(|_| StreamBody::new(watch.stream()).boxed_unsync())
}

/// An open watch; dropping it closes it.
struct Watch<C: Core> {
    core: C,
    id: WatchId,
    resource: GroupResource,
    encoder: Encoder,
    end: Option<Timestamp>,
}

impl<C: Core> Watch<C> {
    fn stream(self) -> impl Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send {
        stream::unfold(self, |mut watch| async move {
            let bytes = watch.next().await?;
            Some((Ok(Frame::data(bytes)), watch))
        })
    }

    /// The events that have come since the last call, as lines; waits for the first. `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Asked for before the look, so that no change falls between the two.
            let changed = self.core.changed(&self.resource);
            let (events, now) = self.core.with(|plane, now| (plane.poll_watch(self.id, now), now));
            let events = events?;
            if !events.is_empty() {
                let lines: Vec<Bytes> = events.iter().map(|event| self.encoder.event(event, now)).collect();
                return Some(match <[Bytes; 1]>::try_from(lines) {
                    Ok([line]) => line,
                    Err(lines) => lines.concat().into(),
                });
            }
            if self.end.is_some_and(|end| end <= now) {
                return None;
            }
            let poll = now.saturating_add(WATCH_POLL).unwrap_or(Timestamp::MAX);
            let wake = self.end.map_or(poll, |end| end.min(poll));
            select_biased! {
                () = changed.fuse() => {}
                () = self.core.sleep_until(wake).fuse() => {}
            }
        }
    }
}

impl<C: Core> Drop for Watch<C> {
    fn drop(&mut self) {
        self.core.with(|plane, _| plane.close_watch(self.id));
    }
}
