//! The guest: what runs inside a member's container, and the four things the controller asks of it.
//!
//! Everything is one `exec` of a small shell script, so that any image with a shell will do, and so
//! that a test can answer by looking at the arguments alone: `sh -c SCRIPT rewake-guest ACTION ARGS...`.
//!
//! A guest keeps a *record* of its setup, `<container id>=<exit code>`, in [`DIR`]. The role's storage is
//! mounted there, if it has any: then the record outlives the container, and the setup is not repeated.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

/// Folder of the guest's files.
pub const DIR: &str = "/opt/guestconfig";
/// The metadata the guest holds.
pub const METADATA_FILE: &str = "/opt/guestconfig/configmeta.json";
/// The notifications the guest has seen.
pub const NOTIFY_LOG: &str = "/opt/guestconfig/notify.log";
/// `argv[3]`: what the script is called.
pub const ARGV0: &str = "rewake-guest";

/// The script. `configure` learns the container's id from standard input: a container does not know its own.
pub const SCRIPT: &str = r#"set -e
action=$1; shift
case $action in
configure)
  mkdir -p "$1"
  read -r id
  echo "$id=" > "$1/configure.status"
  echo "$id" >> "$1/configure.count"
  echo "$id=${2:-0}" > "$1/configure.status"
  exit "${2:-0}" ;;
status)
  if test -f "$1/configure.status"; then cat "$1/configure.status"; fi ;;
notify)
  log=$1; shift
  mkdir -p "${log%/*}"
  echo "$*" | tee -a "$log" ;;
upload)
  mkdir -p "${1%/*}"
  cat > "$1" ;;
*)
  echo "unknown action $action" >&2; exit 64 ;;
esac
"#;

/// Most bytes of output that are kept.
const OUTPUT_MAX: usize = 64 * 1024;

/// A pod by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecResult {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code.
    pub exit: i32,
}

/// A command that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The container could not be reached.
    #[error("failed to reach the guest in pod {pod}: {reason}")]
    Unreachable {
        /// The pod.
        pod: String,
        /// Why.
        reason: String,
    },
    /// The guest answered with an error.
    #[error("{action} failed in pod {pod} with exit code {exit}: {stderr}")]
    Failed {
        /// The pod.
        pod: String,
        /// What was asked.
        action: String,
        /// The exit code.
        exit: i32,
        /// What it said.
        stderr: String,
    },
}

/// Runs commands in members' containers.
#[async_trait]
pub trait Guest: Send + Sync {
    /// Runs `argv` in a container with `stdin` as its input.
    ///
    /// # Errors
    /// The container could not be reached. A command that fails is not an error here.
    async fn exec(
        &self,
        pod: &PodRef,
        container: &str,
        argv: &[String],
        stdin: &[u8],
    ) -> Result<ExecResult, GuestError>;
}

/// What the controller asks of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestAction {
    /// Set the member up, for this container id.
    Configure {
        /// Id of the container, written into the record.
        container: String,
    },
    /// Tell it about changes.
    Notify {
        /// Arguments of its start script.
        arguments: Vec<String>,
    },
    /// Hand it new metadata.
    Upload {
        /// The metadata, JSON.
        metadata: String,
    },
}

impl GuestAction {
    /// Action and arguments behind [`ARGV0`], and the standard input.
    fn command(&self) -> (Vec<String>, Vec<u8>) {
        match self {
            GuestAction::Configure { container } => {
                (vec!["configure".into(), DIR.into(), "0".into()], format!("{container}\n").into_bytes())
            }
            GuestAction::Notify { arguments } => {
                let mut words = vec!["notify".to_owned(), NOTIFY_LOG.to_owned()];
                words.extend(arguments.iter().cloned());
                (words, Vec::new())
            }
            GuestAction::Upload { metadata } => {
                (vec!["upload".into(), METADATA_FILE.into()], metadata.clone().into_bytes())
            }
        }
    }
}

impl fmt::Display for GuestAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestAction::Configure { .. } => write!(f, "configure"),
            GuestAction::Notify { arguments } => write!(f, "notify {}", arguments.join(" ")),
            GuestAction::Upload { .. } => write!(f, "upload metadata"),
        }
    }
}

/// The record of a member's setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupRecord {
    /// Container in which the setup was started; empty when none ever was.
    pub container: String,
    /// How it ended, once it has.
    pub exit: Option<i32>,
}

impl SetupRecord {
    /// Reads `<container id>=<exit code>`. What cannot be read is no record.
    pub fn parse(text: &str) -> Self {
        match text.trim().rsplit_once('=') {
            Some((container, exit)) => Self { container: container.to_owned(), exit: exit.parse().ok() },
            None => Self::default(),
        }
    }
}

fn argv(words: Vec<String>) -> Vec<String> {
    ["sh", "-c", SCRIPT, ARGV0].into_iter().map(str::to_owned).chain(words).collect()
}

/// Does one action.
///
/// # Errors
/// The guest cannot be reached, or says that it failed. A setup that fails also leaves a record that says so.
pub(crate) async fn act(
    guest: &dyn Guest,
    pod: &PodRef,
    container: &str,
    action: &GuestAction,
) -> Result<(), GuestError> {
    let (words, stdin) = action.command();
    let result = guest.exec(pod, container, &argv(words), &stdin).await?;
    if result.exit == 0 {
        return Ok(());
    }
    Err(GuestError::Failed {
        pod: pod.name.clone(),
        action: action.to_string(),
        exit: result.exit,
        stderr: String::from_utf8_lossy(&result.stderr).trim().to_owned(),
    })
}

/// Reads the record of the setup.
///
/// # Errors
/// The guest cannot be reached.
pub(crate) async fn record(guest: &dyn Guest, pod: &PodRef, container: &str) -> Result<SetupRecord, GuestError> {
    let result = guest.exec(pod, container, &argv(vec!["status".into(), DIR.into()]), &[]).await?;
    if result.exit != 0 {
        let reason = format!("reading the setup record ended with exit code {}", result.exit);
        return Err(GuestError::Unreachable { pod: pod.name.clone(), reason });
    }
    Ok(SetupRecord::parse(&String::from_utf8_lossy(&result.stdout)))
}

/// Guests of a real cluster, reached through the API server's `exec`.
pub struct ExecGuest {
    client: kube::Client,
}

impl ExecGuest {
    /// Guests behind this client.
    pub fn new(client: kube::Client) -> Arc<Self> {
        Arc::new(Self { client })
    }
}

#[async_trait]
impl Guest for ExecGuest {
    async fn exec(
        &self,
        pod: &PodRef,
        container: &str,
        argv: &[String],
        stdin: &[u8],
    ) -> Result<ExecResult, GuestError> {
        use kube::api::AttachParams;
        use tokio::io::AsyncWriteExt;

        let unreachable =
            |reason: String| GuestError::Unreachable { pod: format!("{}/{}", pod.namespace, pod.name), reason };
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(self.client.clone(), &pod.namespace);
        let params = AttachParams::default()
            .container(container)
            .stdin(!stdin.is_empty())
            .stdout(true)
            .stderr(true)
            .max_stdout_buf_size(OUTPUT_MAX)
            .max_stderr_buf_size(OUTPUT_MAX);
        let mut process = pods.exec(&pod.name, argv, &params).await.map_err(|error| unreachable(error.to_string()))?;
        if let Some(mut input) = process.stdin() {
            input.write_all(stdin).await.map_err(|error| unreachable(error.to_string()))?;
            input.shutdown().await.map_err(|error| unreachable(error.to_string()))?;
        }
        let status = process.take_status();
        let (stdout, stderr) = futures::join!(read_all(process.stdout()), read_all(process.stderr()));
        let status = match status {
            Some(status) => status.await,
            None => None,
        };
        process.join().await.map_err(|error| unreachable(error.to_string()))?;
        let exit = status.map_or(Ok(0), |status| exit_code(&status)).map_err(unreachable)?;
        Ok(ExecResult { stdout, stderr, exit })
    }
}

async fn read_all(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // A stream that breaks off is as long as it got; the exit code says whether that matters.
        let _ = stream.take(OUTPUT_MAX as u64).read_to_end(&mut bytes).await;
    }
    bytes
}

/// The exit code hides in a cause of the final Status. See kubernetes/apimachinery
/// `pkg/util/remotecommand` (`NonZeroExitCodeReason`, `ExitCodeCauseType`).
fn exit_code(status: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Status) -> Result<i32, String> {
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.as_ref().and_then(|details| details.causes.as_ref());
    causes
        .into_iter()
        .flatten()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .and_then(|cause| cause.message.as_deref()?.parse().ok())
        .ok_or_else(|| status.message.clone().unwrap_or_else(|| "exec ended without an exit code".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_record_is_read_back_and_rubbish_is_no_record() {
        for (text, container, exit) in [
            ("containerd://a1=0\n", "containerd://a1", Some(0)),
            ("containerd://a1=7", "containerd://a1", Some(7)),
            ("containerd://a1=", "containerd://a1", None),
            ("", "", None),
            ("rubbish", "", None),
        ] {
            assert_eq!(SetupRecord::parse(text), SetupRecord { container: container.into(), exit }, "{text:?}");
        }
    }
}
