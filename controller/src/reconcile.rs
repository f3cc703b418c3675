//! The shell around a decision: observe, decide, apply.

pub(crate) mod observe;

pub mod installation;

mod apply;
mod backup;
mod children;
mod cleanup;
mod conditions;
mod connections;
mod decide;
mod events;
mod guests;
mod members;
mod notify;
mod observed;
pub(crate) mod owners;
mod plan;
mod restore;
mod roles;
mod running;
pub(crate) mod status;
mod view;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

pub use decide::decide;
pub use observed::{ClusterFacts, ConfigFacts, Connection, Observed};
pub use plan::{Act, Change, ObjectRef, Plan};

use crate::error::Error;
use crate::guest::Guest;
use crate::index::Target;
use crate::settings::Settings;

/// The controller: a client, the guests, and settings. It remembers nothing between two looks.
#[derive(Clone)]
pub struct Controller {
    client: Client,
    guest: Arc<dyn Guest>,
    settings: Settings,
}

impl Controller {
    /// A controller that reads and writes through `client`.
    pub fn new(client: Client, guest: Arc<dyn Guest>, settings: Settings) -> Self {
        Self { client, guest, settings }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads what a decision about `target` needs.
    ///
    /// # Errors
    /// The API server could not be asked.
    pub async fn observe(&self, target: &Target) -> Result<Observed, Error> {
        observe::observe(&self.client, &*self.guest, &self.settings, target).await
    }

    /// Decides what to do. A function of its arguments and of the settings.
    pub fn decide(&self, observed: &Observed, now: Timestamp) -> Plan {
        decide::decide(observed, &self.settings, now)
    }

    /// Decides how to tell users that a change was refused: an event, or nothing.
    pub fn report(&self, observed: &Observed, failure: &Error, now: Timestamp) -> Plan {
        decide::report(observed, failure, &self.settings, now)
    }

    /// Carries out one change: one request, or one action in a guest.
    ///
    /// # Errors
    /// It was refused. The rest of its plan is void then.
    pub async fn apply(&self, change: &Change) -> Result<(), Error> {
        apply::apply(&self.client, &*self.guest, change).await
    }

    /// What each start does: applies the webhook Service and configuration as they should be.
    ///
    /// # Errors
    /// Something was refused.
    pub async fn startup(&self, now: Timestamp) -> Result<(), Error> {
        self.reconcile(&Target::Installation, now).await.map(drop)
    }

    /// All three. Answers after how long to look again, if the watches will not tell.
    ///
    /// # Errors
    /// Something could not be read, or was refused.
    pub async fn reconcile(&self, target: &Target, now: Timestamp) -> Result<Option<Duration>, Error> {
        let observed = self.observe(target).await?;
        let plan = self.decide(&observed, now);
        for change in &plan.changes {
            tracing::debug!(%target, %change, "applying");
            if let Err(failure) = self.apply(change).await {
                for telling in &self.report(&observed, &failure, now).changes {
                    self.apply(telling).await?;
                }
                return Err(failure);
            }
        }
        Ok(plan.next_check)
    }
}
