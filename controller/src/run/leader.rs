//! Leader election: one replica reconciles, by a `coordination.k8s.io` Lease.
//!
//! The rules are client-go's (`tools/leaderelection`): a lease is taken over only after it has not changed
//! for its duration on our own clock, so clocks of different machines are never compared; every write is
//! conditional on the version that was read; who cannot renew in time stops leading before anyone else starts.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rewake_controller::manifests::NAME as LEASE;
use tokio::time::Instant;

/// Others may lead when the lease has not been renewed for this long, in seconds.
const DURATION_SECONDS: i32 = 15;
/// A leader that has not renewed for this long gives up, well before the lease runs out.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Between two looks at the lease.
const RETRY: Duration = Duration::from_secs(2);
/// A request that takes longer is given up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Why this replica leads no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseLost {
    /// Somebody else holds it.
    #[error("lost the lease {LEASE}: it is held by {holder:?}")]
    Taken {
        /// Who.
        holder: String,
    },
    /// It could not be renewed in time.
    #[error("lost the lease {LEASE}: it was not renewed for {} s: {reason}", RENEW_DEADLINE.as_secs())]
    NotRenewed {
        /// The last error.
        reason: String,
    },
}

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    /// It is ours.
    Renew,
    /// It is nobody's, or was abandoned.
    TakeOver,
    /// It is somebody else's.
    Wait,
}

/// What one replica knows of the lease.
struct Candidate {
    identity: String,
    /// The lease as last read, and since when it has been like that, on our clock.
    seen: Option<(LeaseSpec, Duration)>,
}

impl Candidate {
    fn judge(&mut self, lease: Option<&LeaseSpec>, now: Duration) -> Step {
        let Some(lease) = lease else {
            self.seen = None;
            return Step::Create;
        };
        let since = match &self.seen {
            Some((seen, since)) if seen == lease => *since,
            _ => {
                self.seen = Some((lease.clone(), now));
                now
            }
        };
        let holder = lease.holder_identity.as_deref().unwrap_or_default();
        if holder == self.identity {
            return Step::Renew;
        }
        let duration = u64::try_from(lease.lease_duration_seconds.unwrap_or(DURATION_SECONDS)).unwrap_or_default();
        if holder.is_empty() || now.saturating_sub(since) >= Duration::from_secs(duration) {
            Step::TakeOver
        } else {
            Step::Wait
        }
    }

    /// The lease as it should be written.
    fn written(&self, step: Step, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let mut spec = before.cloned().unwrap_or_default();
        if step != Step::Renew {
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions =
                Some(before.map_or(0, |spec| spec.lease_transitions.unwrap_or(0).saturating_add(1)));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(DURATION_SECONDS);
        spec.renew_time = Some(MicroTime(now));
        spec
    }
}

/// How a try went.
enum Tried {
    Held,
    HeldBy(String),
}

/// A replica that wants to lead, or does.
pub(super) struct Election {
    leases: Api<Lease>,
    candidate: Candidate,
    start: Instant,
}

impl Election {
    /// A candidate called `identity`, which must be unique among replicas.
    pub(super) fn new(client: Client, namespace: &str, identity: String) -> Self {
        let candidate = Candidate { identity, seen: None };
        Self { leases: Api::namespaced(client, namespace), candidate, start: Instant::now() }
    }

    /// Its name among the replicas.
    pub(super) fn identity(&self) -> &str {
        &self.candidate.identity
    }

    /// Waits until this replica leads.
    pub(super) async fn win(&mut self) {
        let mut told = None;
        loop {
            match self.attempt().await {
                Ok(Tried::Held) => return,
                Ok(Tried::HeldBy(holder)) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(%holder, "standing by");
                        told = Some(holder);
                    }
                }
                Err(reason) => tracing::warn!(%reason, "failed to acquire the lease; trying again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease for as long as that works.
    pub(super) async fn hold(&mut self) -> LeaseLost {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RETRY).await;
            let deadline = renewed + RENEW_DEADLINE;
            // The time of a renewal is the time at which it was begun, as that is what is written.
            let begun = Instant::now();
            let reason = match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Tried::Held)) => {
                    renewed = begun;
                    continue;
                }
                Ok(Ok(Tried::HeldBy(holder))) => return LeaseLost::Taken { holder },
                Ok(Err(reason)) => reason,
                Err(_elapsed) => "no answer".to_owned(),
            };
            tracing::warn!(%reason, "failed to renew the lease");
            if Instant::now() >= deadline {
                return LeaseLost::NotRenewed { reason };
            }
        }
    }

    /// Gives the lease back, so that the next leader need not wait for it to run out.
    pub(super) async fn release(&mut self) {
        let released = async {
            let Some(mut lease) = self.leases.get_opt(LEASE).await? else { return Ok(()) };
            match &mut lease.spec {
                Some(spec) if spec.holder_identity.as_ref() == Some(&self.candidate.identity) => {
                    spec.holder_identity = Some(String::new());
                    spec.lease_duration_seconds = Some(1);
                    spec.renew_time = Some(MicroTime(Timestamp::now()));
                }
                _ => return Ok(()),
            }
            self.leases.replace(LEASE, &PostParams::default(), &lease).await.map(drop)
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to release the lease; it will run out"),
            Err(_elapsed) => tracing::warn!("failed to release the lease in time; it will run out"),
        }
    }

    async fn attempt(&mut self) -> Result<Tried, String> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.try_once()).await {
            Ok(tried) => tried.map_err(|error| error.to_string()),
            Err(_elapsed) => Err(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
        }
    }

    async fn try_once(&mut self) -> kube::Result<Tried> {
        let found = self.leases.get_opt(LEASE).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let step = self.candidate.judge(spec.as_ref(), self.start.elapsed());
        if step == Step::Wait {
            return Ok(Tried::HeldBy(spec.and_then(|spec| spec.holder_identity).unwrap_or_default()));
        }
        let next = self.candidate.written(step, spec.as_ref(), Timestamp::now());
        let params = PostParams::default();
        match found {
            None => {
                let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
                self.leases.create(&params, &Lease { metadata, spec: Some(next) }).await?;
            }
            // The version that was read travels along: whoever was faster has won.
            Some(lease) => {
                self.leases.replace(LEASE, &params, &Lease { spec: Some(next), ..lease }).await?;
            }
        }
        Ok(Tried::Held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).expect("a small number"))),
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_over_only_after_it_stood_still_for_its_duration_on_our_clock() {
        let second = Duration::from_secs;
        let mut candidate = Candidate { identity: "me".to_owned(), seen: None };
        // The times in the lease are of another clock, decades behind: they must not matter.
        assert_eq!(candidate.judge(Some(&held_by("other", 1)), second(100)), Step::Wait);
        assert_eq!(candidate.judge(Some(&held_by("other", 1)), second(114)), Step::Wait);
        assert_eq!(candidate.judge(Some(&held_by("other", 3)), second(114)), Step::Wait, "renewed");
        assert_eq!(candidate.judge(Some(&held_by("other", 3)), second(128)), Step::Wait);
        assert_eq!(candidate.judge(Some(&held_by("other", 3)), second(129)), Step::TakeOver);
        assert_eq!(candidate.judge(Some(&held_by("", 3)), second(130)), Step::TakeOver, "released");
        assert_eq!(candidate.judge(Some(&held_by("me", 9)), second(131)), Step::Renew);
        assert_eq!(candidate.judge(None, second(132)), Step::Create);
    }

    #[test]
    fn transitions_are_counted_and_the_time_of_acquiring_survives_renewals() {
        let candidate = Candidate { identity: "me".to_owned(), seen: None };
        let at = |second| Timestamp::from_second(second).expect("a small number");
        let taken = candidate.written(Step::TakeOver, Some(&held_by("other", 1)), at(50));
        assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(5), Some("me")));
        let renewed = candidate.written(Step::Renew, Some(&taken), at(60));
        assert_eq!(renewed.lease_transitions, Some(5));
        assert_eq!(renewed.acquire_time, Some(MicroTime(at(50))));
        assert_eq!(renewed.renew_time, Some(MicroTime(at(60))));
        assert_eq!(candidate.written(Step::Create, None, at(1)).lease_transitions, Some(0));
    }
}
