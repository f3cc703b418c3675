//! Every knob of the controller, with unit, default and meaning.

use std::time::Duration;

/// How the controller behaves, apart from what users set in the KubeDirectorConfig.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controller's own namespace: the config and `system` apps live there.
    pub namespace: String,
    /// How long the runtime may go without looking at a cluster again. The watches do the work; this only
    /// heals what a watch cannot see. Default: 10 minutes.
    pub resync: Duration,
    /// How soon a refused resume or an unreachable guest is tried again. Default: 30 seconds, as KubeDirector.
    pub retry: Duration,
    /// How long a restore waits for member Services, which can be made again under the same name.
    /// Default: none, it waits for ever.
    pub service_wait_max: Option<Duration>,
    /// How the API server reaches the admission webhook; none when nobody serves it.
    pub webhook: Option<WebhookAddress>,
    /// Protections that a test may switch off, one at a time.
    pub safeguards: Safeguards,
}

/// How the API server reaches the admission webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAddress {
    /// Certificate authority of the server's certificate, PEM; none trusts the API server's own roots.
    pub ca_bundle: Option<String>,
    /// A URL instead of the Service in [`Settings::namespace`].
    pub url: Option<String>,
}

impl Settings {
    /// Defaults, for a controller in `namespace`.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            resync: Duration::from_secs(600),
            retry: Duration::from_secs(30),
            service_wait_max: None,
            webhook: None,
            safeguards: Safeguards::default(),
        }
    }
}

macro_rules! safeguards {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Protections against what a restore does. All are on; a scenario switches one off to show the harm.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Safeguards {
            $($(#[doc = $doc])+ pub $name: bool,)+
        }

        impl Default for Safeguards {
            fn default() -> Self {
                Self { $($name: true,)+ }
            }
        }

        impl Safeguards {
            /// Name and meaning of each, in the order of declaration.
            pub const ALL: &'static [(&'static str, &'static str)] = &[$((stringify!($name), concat!($($doc),+)),)+];

            fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

safeguards! {
    /// A restored cluster is recognised by its annotation. Off: by its finalizer, which tools strip.
    detect_by_annotation,
    /// The controller recognises restored clusters too (B8, B43). Off: only the webhook does.
    controller_side_detection,
    /// Nothing is built while a cluster is being restored. Off: the label is ignored.
    pause_while_restoring,
    /// While a cluster is being restored its spec is frozen and deletes are refused. Off: neither.
    guard_while_restoring,
    /// Removing the label asks for full validation (I5). Off: it is always accepted.
    validate_on_resume,
    /// A restore waits for the objects the cluster is connected to. Off: it does not.
    wait_for_connections,
    /// A restored object is used only if its label names this cluster (B16). Off: its name suffices.
    check_labels_of_named,
    /// A status backup is used and replaced only by the lineage it belongs to (B9, B17). Off: by name alone.
    match_origin,
    /// Notifications still owed do not keep a restored cluster from resuming (B2). Off: they do, for ever.
    skip_pending_check_on_resume,
    /// Members without a container do not wait for metadata to reach them (B3). Off: they do, for ever.
    proceed_create_pending,
    /// An unnamed child with our labels is adopted (B10). Off: another one is made.
    adopt_by_label,
    /// A lost StatefulSet is made again over its claims (B4). Off: its members and claims are removed.
    keep_claims_on_lost_set,
    /// The claim template carries no owner. Off: it does, and a restore makes that owner stale.
    clean_claim_template,
    /// A StatefulSet whose claim template names an owner is made again without. Off: it is kept.
    replace_stale_template,
    /// The webhook gives claims their owner. Off: it leaves them alone.
    claim_webhook,
    /// The webhook replaces stale owners of StatefulSets, Services and backups (B11). Off: it leaves them alone.
    children_webhook,
    /// Owners of StatefulSets, Services and backups are repaired. Off: they stay lost.
    repair_owners,
    /// Owners of claims are repaired (B13). Off: they stay lost.
    repair_claim_owners,
    /// Without a config, backups stay as they are (B28). Off: no config reads as "no backups".
    backup_unknown_is_not_false,
    /// Status is written before its backup (B29). Off: after.
    status_before_backup,
    /// Status is backed up when the config says so. Off: never.
    status_backup,
    /// The finalizer is put on clusters. Off: it is not, and nothing is put in order before a cluster goes.
    finalizer,
}

/// A safeguard that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no safeguard is called {name:?}; the nearest is {nearest:?}")]
pub struct UnknownSafeguard {
    /// What was asked for.
    pub name: String,
    /// The most similar name.
    pub nearest: &'static str,
}

impl Safeguards {
    /// All but one.
    ///
    /// # Errors
    /// No safeguard has this name.
    pub fn without(name: &str) -> Result<Self, UnknownSafeguard> {
        let mut safeguards = Self::default();
        safeguards.remove(name)?;
        Ok(safeguards)
    }

    /// Switches one more off.
    ///
    /// # Errors
    /// No safeguard has this name.
    pub fn remove(&mut self, name: &str) -> Result<(), UnknownSafeguard> {
        match self.switch(name) {
            Some(safeguard) => {
                *safeguard = false;
                Ok(())
            }
            None => Err(UnknownSafeguard { name: name.to_owned(), nearest: nearest(name) }),
        }
    }
}

fn nearest(name: &str) -> &'static str {
    Safeguards::ALL.iter().map(|(known, _)| *known).min_by_key(|known| edits(name, known)).unwrap_or_default()
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_safeguard_is_answered_with_the_near_name() {
        let error = Safeguards::without("adopt_by_lable").unwrap_err();
        assert_eq!(error.nearest, "adopt_by_label");
        let safeguards = Safeguards::without("finalizer").unwrap();
        assert!(!safeguards.finalizer && safeguards.adopt_by_label);
    }
}
