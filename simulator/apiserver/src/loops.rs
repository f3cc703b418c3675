//! Control loops as actors with mailboxes: garbage collector, namespaces, StatefulSet, claims, ….
//!
//! A loop reads the store and decides; it never writes. What it wants done leaves it as requests,
//! which the driver sends through the same pipeline as everybody else's, one at a time, in order,
//! stopping at the first that is refused. Who moves next is the driver's choice, so "the garbage
//! collector was faster than the operator" can be asked for.

use jiff::Timestamp;

use crate::control_plane::View;
use crate::request::{Request, Response, User};
use crate::watch::LogEntry;

pub mod claim_binder;
pub mod definitions;
pub mod endpoint_slices;
pub mod endpoints;
mod events;
pub mod garbage_collector;
pub mod mailbox;
pub mod namespace;
pub mod node;
pub mod protection;
pub mod resource_quota;
pub mod service_accounts;
mod service_pods;
pub mod stateful_set;

/// `User-Agent` of upstream's control loops, and so their field manager.
const AGENT: &str = "kube-controller-manager";

/// The service account as which one of upstream's control loops acts.
fn controller_user(name: &str) -> User {
    let mut user = User::service_account("kube-system", name);
    user.groups.push("system:masters".to_owned());
    user
}

/// One control loop. Implementations are plain data: cloning one forks it.
pub trait ControlLoop: Send + Sync {
    /// Name as in kube-controller-manager (`garbage-collector-controller`), used by `--controllers`
    /// and in traces.
    fn name(&self) -> &'static str;

    /// A change was committed: put what it concerns into the mailbox. Must be cheap; runs for every
    /// entry of the log, in order.
    fn notice(&mut self, entry: &LogEntry, view: &View<'_>, now: Timestamp);

    /// When the next item of the mailbox is due; `None` when the mailbox is empty. Not after `now`
    /// means runnable.
    fn due(&self) -> Option<Timestamp>;

    /// Takes the next due item and answers what to send for it. An item that needs nothing yields an
    /// empty list.
    fn work(&mut self, view: &View<'_>, now: Timestamp) -> Work;

    /// What came of [`ControlLoop::work`]: one response for each request that was sent (fewer than
    /// planned when one was refused). The loop decides whether to try again and when.
    fn done(&mut self, work: &Work, responses: &[Response], view: &View<'_>, now: Timestamp);

    /// A copy, for a fork of the control plane.
    fn fork(&self) -> Box<dyn ControlLoop>;
}

/// The loops that a list of names asks for, as `--controllers` of kube-controller-manager reads it:
/// `*` is every standard loop, `NAME` one of them, `-NAME` takes one away; `none` is the empty list.
///
/// # Errors
/// The first name that is not known.
pub fn select(controllers: &str) -> Result<Vec<Box<dyn ControlLoop>>, String> {
    let names: Vec<&str> = controllers.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "none")).collect();
    let mut loops = standard();
    if let Some(unknown) = names
        .iter()
        .map(|name| name.trim_start_matches('-'))
        .find(|name| *name != "*" && !loops.iter().any(|known| known.name() == *name))
    {
        return Err(unknown.to_owned());
    }
    loops.retain(|control_loop| {
        let name = control_loop.name();
        let wanted = names.contains(&"*") || names.contains(&name);
        wanted && !names.iter().any(|without| without.strip_prefix('-') == Some(name))
    });
    Ok(loops)
}

/// What a loop wants done for one item.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The item, for traces and for [`ControlLoop::done`], for example `statefulset default/web`.
    pub item: String,
    /// Requests to send, in order.
    pub requests: Vec<Request>,
    /// Also send the rest after one was refused (event records and best-effort clean-up).
    pub keep_going: bool,
}

/// The control loops of kube-controller-manager that this control plane has, in a fixed order.
#[must_use]
pub fn standard() -> Vec<Box<dyn ControlLoop>> {
    vec![
        Box::new(namespace::Namespaces::default()),
        Box::new(garbage_collector::GarbageCollector::default()),
        Box::new(stateful_set::StatefulSets::default()),
        Box::new(claim_binder::ClaimBinder::default()),
        Box::new(protection::Protection::default()),
        Box::new(resource_quota::ResourceQuotas::default()),
        Box::new(service_accounts::ServiceAccounts::default()),
        Box::new(endpoints::Endpoints::default()),
        Box::new(endpoint_slices::EndpointSlices::default()),
    ]
}

/// The control loops of the API server itself: always there, whatever runs beside it.
#[must_use]
pub fn server() -> Vec<Box<dyn ControlLoop>> {
    vec![Box::new(definitions::Definitions::default())]
}

/// The node stand-in, for clusters without scheduler and kubelet.
#[must_use]
pub fn node() -> Box<dyn ControlLoop> {
    Box::new(node::Node::default())
}
