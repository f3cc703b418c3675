//! What requests read and write: the store, and what is worked out from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kinds;
use super::scope::Scope;
use super::watch::Watch;
use crate::access::{self, Authorization, Target};
use crate::admission::{self, Configurations};
use crate::builtin::{self, Network};
use crate::draws::Draws;
use crate::error::ApiError;
use crate::object::{Object, ObjectExt};
use crate::resource::{GroupResource, Resource};
use crate::store::{Change, Store};
use crate::watch::WatchId;

/// The state of a control plane without its loops. A clone is a fork.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) configurations: Configurations,
    pub(crate) draws: Draws,
    pub(crate) network: Network,
    pub(crate) authorization: Authorization,
    pub(crate) watches: BTreeMap<WatchId, Watch>,
    pub(crate) watches_opened: u64,
}

impl State {
    /// An empty store.
    pub(crate) fn new(seed: u64, network: Network, authorization: Authorization) -> Self {
        Self {
            store: Store::default(),
            kinds: Arc::new(Kinds::built_in()),
            configurations: Configurations::default(),
            draws: Draws::new(seed),
            network,
            authorization,
            watches: BTreeMap::new(),
            watches_opened: 0,
        }
    }

    /// Makes one change. The only caller of [`Store::commit`].
    pub(crate) fn commit(&mut self, resource: &GroupResource, change: Change, by: &Arc<str>) -> Object {
        let committed = self.store.commit(resource, change, by);
        if let Some(entry) = self.store.last() {
            self.configurations.notice(entry);
            if Kinds::is_definition(resource) {
                let kept = entry.kind != crate::watch::LogKind::Deleted;
                Arc::make_mut(&mut self.kinds).define(committed.name(), kept.then_some(&committed));
            }
        }
        committed
    }

    /// 403 when a role or binding hands out rights that its writer does not hold.
    pub(crate) fn refuse_escalation(&self, scope: &Scope, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        match self.authorization {
            Authorization::AlwaysAllow => Ok(()),
            Authorization::Rbac => access::escalation::check(
                &self.store,
                &scope.user,
                &scope.resource.group_resource,
                &scope.namespace,
                object,
                old,
            ),
        }
    }

    /// 403 when an update or an apply would create, and its sender may only change.
    pub(crate) fn refuse_unless_creator(&self, scope: &Scope) -> Result<(), ApiError> {
        if self.authorization == Authorization::AlwaysAllow {
            return Ok(());
        }
        let of = &scope.resource.group_resource;
        let target = Target::Resource {
            group: (*of.group).into(),
            resource: (*of.resource).into(),
            subresource: "".into(),
            namespace: scope.namespace.as_str().into(),
            name: scope.name.as_str().into(),
        };
        access::authorize(&self.store, &scope.user, &access::Attributes { verb: "create".into(), target })
    }

    /// Works out anew everything that follows from the store: after a rollback.
    pub(crate) fn refresh(&mut self) {
        self.configurations = Configurations::of(&self.store);
        let mut kinds = Kinds::built_in();
        for definition in self.store.list(&Kinds::definitions(), "") {
            kinds.define(definition.name(), Some(definition));
        }
        self.kinds = Arc::new(kinds);
    }

    /// What admission may look at.
    pub(crate) fn admission(&mut self) -> admission::Context<'_> {
        admission::Context {
            store: &self.store,
            interfaces: &*self.kinds,
            configurations: &self.configurations,
            draws: &mut self.draws,
        }
    }

    /// What the strategies of kinds may look at.
    pub(crate) fn strategy_context<'a>(
        &'a mut self,
        resource: &'a Resource,
        subresource: &'a str,
        now: Timestamp,
    ) -> builtin::Context<'a> {
        builtin::Context {
            resource,
            subresource,
            store: &self.store,
            draws: &mut self.draws,
            now,
            network: &self.network,
            is_patch: false,
        }
    }
}
