//! Two looks: nothing is collected that was not found abandoned twice, a grace period apart (peer rule L3).

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::collection::Policy;
use crate::collection::rules::{Cause, Keep, Opinion};

/// What is to become of a claim or an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Keep),
    /// It has looked abandoned since then; not for long enough, or only once.
    Suspect(Cause, Instant),
    /// It goes, if a last read says the same.
    Collect(Cause),
}

/// What earlier looks found. `K` names one life of one holder, so that nothing is remembered of the next.
#[derive(Clone, Debug)]
pub struct Looks<K> {
    since: BTreeMap<K, Instant>,
}

impl<K> Default for Looks<K> {
    fn default() -> Self {
        Self {
            since: BTreeMap::new(),
        }
    }
}

impl<K: Ord> Looks<K> {
    /// Takes one whole look. What it does not mention, or keeps, has never been suspect.
    pub fn look<T>(
        &mut self,
        opinions: impl IntoIterator<Item = (K, T, Opinion)>,
        policy: &Policy,
        now: Instant,
    ) -> Vec<(T, Verdict)> {
        let before = std::mem::take(&mut self.since);
        let wait = policy.grace.max(policy.gap);
        let mut verdicts = Vec::new();
        for (key, item, opinion) in opinions {
            let verdict = match opinion {
                Opinion::Keep(keep) => Verdict::Keep(keep),
                Opinion::Abandoned(cause) => {
                    let first = before.get(&key).copied();
                    let since = first.unwrap_or(now);
                    self.since.insert(key, since);
                    if first.is_some() && now.saturating_duration_since(since) >= wait {
                        Verdict::Collect(cause)
                    } else {
                        Verdict::Suspect(cause, since)
                    }
                }
            };
            verdicts.push((item, verdict));
        }
        verdicts
    }

    /// A closer look found these above suspicion: they have never been suspect.
    pub fn clear(&mut self, cleared: impl Fn(&K) -> bool) {
        self.since.retain(|key, _| !cleared(key));
    }

    /// Things under suspicion.
    pub fn len(&self) -> usize {
        self.since.len()
    }

    /// True when nothing is under suspicion.
    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }
}
