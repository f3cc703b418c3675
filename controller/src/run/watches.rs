//! Watches: every kind the controller watches feeds the index, which fills the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Error as WatchError, Event, watcher};
use kube::{Api, Client, ResourceExt};
use rewake_controller::{Index, Target, Watched, kinds, names};
use serde::Serialize;
use serde_json::{Value, json};

use super::metrics::Metrics;
use super::queue::WorkQueue;

/// What the watches know, and where they report.
pub(super) struct Watches {
    index: Mutex<Index>,
    /// What a slow resync looks at again.
    known: Mutex<BTreeMap<Key, Target>>,
    queue: Arc<WorkQueue>,
    metrics: Arc<Metrics>,
}

/// Kind, namespace, name.
type Key = (&'static str, String, String);

impl Watches {
    pub(super) fn new(queue: Arc<WorkQueue>, metrics: Arc<Metrics>) -> Self {
        Self { index: Mutex::default(), known: Mutex::default(), queue, metrics }
    }

    /// Watches one kind for ever. Watches that break off are taken up again, with growing pauses if need be.
    pub(super) async fn follow(&self, client: Client, watched: &'static Watched) {
        let (group, version) = watched.api_version.split_once('/').unwrap_or(("", watched.api_version));
        let kind = GroupVersionKind::gvk(group, version, watched.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, watched.plural);
        let mut config = watcher::Config::default();
        if let Some(selector) = watched.label_selector {
            config = config.labels(selector);
        }
        if watched.kind == kinds::CLUSTER.kind || watched.label_selector.is_some() {
            let api: Api<DynamicObject> = Api::all_with(client, &resource);
            self.take_in(watched, watcher(api, config).default_backoff()).await;
        } else {
            // What these are called is all that counts; their content is read when needed.
            let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
            self.take_in(watched, watcher(api, config).default_backoff()).await;
        }
    }

    async fn take_in<K: ResourceExt + Serialize>(
        &self,
        watched: &'static Watched,
        events: impl Stream<Item = Result<Event<K>, WatchError>>,
    ) {
        let mut events = std::pin::pin!(events);
        // What there is, so that what went while nobody watched is noticed at the next list.
        let mut present: BTreeMap<Key, Value> = BTreeMap::new();
        let mut vanished: BTreeMap<Key, Value> = BTreeMap::new();
        while let Some(event) = events.next().await {
            let key = |object: &K| (watched.kind, object.namespace().unwrap_or_default(), object.name_any());
            match event {
                Ok(Event::Init) => vanished.append(&mut present),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    let (key, last) = (key(&object), identity(watched, &object));
                    vanished.remove(&key);
                    self.notice("MODIFIED", &key, &whole(watched, &object));
                    present.insert(key, last);
                }
                Ok(Event::InitDone) => {
                    for (key, object) in std::mem::take(&mut vanished) {
                        self.notice("DELETED", &key, &object);
                    }
                }
                Ok(Event::Delete(object)) => {
                    let key = key(&object);
                    present.remove(&key);
                    self.notice("DELETED", &key, &whole(watched, &object));
                }
                Err(error) => {
                    self.metrics.watch_failed(watched.kind);
                    tracing::warn!(kind = watched.kind, %error, "a watch broke off; it is taken up again");
                }
            }
        }
    }

    fn notice(&self, event: &str, key: &Key, object: &Value) {
        let targets = self.index.lock().unwrap_or_else(PoisonError::into_inner).notice(event, object);
        if let Some(target) = own_target(key) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if event == "DELETED" {
                known.remove(key);
            } else {
                known.insert(key.clone(), target);
            }
        }
        for target in targets {
            tracing::trace!(%target, kind = key.0, namespace = key.1, name = key.2, event, "noticed");
            self.queue.add(target, Duration::ZERO);
        }
    }

    /// Looks at everything again every `period`, spread over its first tenth.
    pub(super) async fn resync(&self, period: Duration) {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let known: Vec<Target> =
                self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let targets = known.into_iter().chain([Target::Installation]);
            let step = period / 10 / u32::try_from(targets.size_hint().0).unwrap_or(u32::MAX).max(1);
            for (position, target) in (0_u32..).zip(targets) {
                self.queue.add(target, step * position);
            }
        }
    }
}

/// The target an object itself is.
fn own_target((kind, namespace, name): &Key) -> Option<Target> {
    let (namespace, name) = (namespace.clone(), name.clone());
    if *kind == kinds::CLUSTER.kind {
        Some(Target::Cluster { namespace, name })
    } else if *kind == kinds::CONFIG.kind {
        Some(Target::Config { namespace, name })
    } else {
        None
    }
}

/// An object as the index looks at it. In lists, objects do not say what kind they are.
fn whole(watched: &Watched, object: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    object["kind"] = watched.kind.into();
    object
}

/// As much of an object as tells whom it concerns.
fn identity(watched: &Watched, object: &impl ResourceExt) -> Value {
    let mut metadata = json!({"namespace": object.namespace(), "name": object.name_any()});
    if watched.label_selector.is_some() {
        if let Some(cluster) = object.labels().get(names::CLUSTER) {
            metadata["labels"] = json!({names::CLUSTER: cluster});
        }
        let owners = object.owner_references().iter().map(|owner| json!({"kind": owner.kind, "name": owner.name}));
        metadata["ownerReferences"] = owners.collect();
    }
    json!({"kind": watched.kind, "metadata": metadata})
}
