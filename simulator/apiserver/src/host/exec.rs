//! `exec` over WebSocket, the protocols `v5.channel.k8s.io` and `v4.channel.k8s.io`.
//!
//! Each frame begins with the number of its channel; the status comes last, as JSON on channel 3.
//! Source: `k8s.io/apimachinery/pkg/util/remotecommand` and `k8s.io/kubelet/pkg/cri/streaming`.

use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Core;
use super::answer::{Body, full};
use crate::error::ApiError;
use crate::http as wire;
use crate::http::connect::{Connect, ExecRequest, ExecResult, Exit};
use crate::http::route::is_true;

/// Bytes of standard input that are taken; more ends the conversation.
const STDIN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of output in one frame.
const FRAME_BYTES_MAX: usize = 32 * 1024;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Channel of close signals: `[255, 0]` ends standard input. Only in v5.
const CLOSE: u8 = 255;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

/// Does a client ask to exchange frames with a command?
pub(super) fn is_upgrade(connect: &Connect) -> bool {
    let header =
        |name| connect.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    connect.at.subresource == "exec" && header(UPGRADE).eq_ignore_ascii_case("websocket")
}

/// Accepts the conversation; it goes on in a task of its own.
pub(super) fn upgrade<C: Core>(core: &C, connect: &Connect, parts: &mut Parts) -> http::Response<Body> {
    match accept(core, connect, parts) {
        Ok(response) => response,
        Err(error) => wire::refusal(parts, &error).map(full),
    }
}

fn accept<C: Core>(core: &C, connect: &Connect, parts: &mut Parts) -> Result<http::Response<Body>, ApiError> {
    let (pod, container) = core.with(|plane, _| connect.container(&plane.view()))?;
    let pods = core.pods();
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let (Some(pods), true) = (pods, placed) else {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", connect.at.name)));
    };
    let argv = connect.argv();
    if argv.is_empty() {
        return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
    }
    let header =
        |name| connect.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let offered: Vec<&str> = header(SEC_WEBSOCKET_PROTOCOL).split(',').map(str::trim).collect();
    let protocol = [V5, V4].into_iter().find(|known| offered.contains(known)).ok_or_else(|| {
        ApiError::bad_request(format!("unable to upgrade: none of the protocols {offered:?} is supported"))
    })?;
    let on_upgrade = parts
        .extensions
        .remove::<OnUpgrade>()
        .ok_or_else(|| ApiError::bad_request("unable to upgrade: the connection does not allow it"))?;
    let wants = |name: &str| is_true(connect.options.0.get(name).map(String::as_str));
    let (stdin, stdout, stderr) = (wants("stdin"), wants("stdout"), wants("stderr"));
    let run = move |input: Bytes| pods.exec(ExecRequest { pod, container, argv, stdin: input });
    tokio::spawn(async move {
        let Ok(upgraded) = on_upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        let input = if stdin { read_input(&mut socket, protocol == V5).await } else { Some(Bytes::new()) };
        let Some(input) = input else { return };
        let mut result = run(input).await;
        if !stdout {
            result.stdout.clear();
        }
        if !stderr {
            result.stderr.clear();
        }
        // The client may be gone; there is nobody left to tell.
        let _gone = send(&mut socket, &result).await;
    });
    let mut response = http::Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    let key = derive_accept_key(header(SEC_WEBSOCKET_KEY).as_bytes());
    headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(key).map_err(ApiError::internal)?);
    Ok(response)
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Standard input up to its end: a close signal, or (v4, which has none) an empty frame. `None` when
/// the client went away or sent too much.
async fn read_input(socket: &mut Socket, has_close_signal: bool) -> Option<Bytes> {
    let mut input = BytesMut::new();
    while let Some(message) = socket.next().await {
        let (channel, data) = match message.ok()? {
            Message::Binary(data) => (data.first().copied()?, data.slice(1..)),
            Message::Close(_) => break,
            _ => continue,
        };
        match channel {
            CLOSE if has_close_signal && data.first() == Some(&STDIN) => break,
            STDIN if data.is_empty() && !has_close_signal => break,
            STDIN => input.extend_from_slice(&data),
            _ => {}
        }
        if input.len() > STDIN_BYTES_MAX {
            return None;
        }
    }
    Some(input.freeze())
}

async fn send(socket: &mut Socket, result: &ExecResult) -> Result<(), Error> {
    for (channel, output) in [(STDOUT, &result.stdout), (STDERR, &result.stderr)] {
        for chunk in output.chunks(FRAME_BYTES_MAX) {
            socket.send(frame(channel, chunk)).await?;
        }
    }
    socket.send(frame(STATUS, status(&result.exit).to_string().as_bytes())).await?;
    // Without a code, clients complain about an abnormal end.
    socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await
}

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(data.len() + 1);
    bytes.put_u8(channel);
    bytes.put_slice(data);
    Message::Binary(bytes.freeze())
}

fn status(exit: &Exit) -> Value {
    match exit {
        Exit::Code(0) => json!({"metadata": {}, "status": "Success"}),
        Exit::Code(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Exit::Failed(why) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("Internal error occurred: {why}"),
            "reason": "InternalError",
            "details": {"causes": [{"message": why}]},
            "code": 500,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_told_as_a_status() {
        assert_eq!(status(&Exit::Code(0))["status"], "Success");
        assert_eq!(status(&Exit::Code(3))["details"]["causes"][0]["message"], "3");
        assert_eq!(status(&Exit::Failed("no such container".to_owned()))["code"], 500);
    }
}
