//! Faults that tests inject while the server runs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is answered so much later.
    Delay(Duration),
    /// The request is refused with this HTTP status before it does anything.
    Refuse(u16),
    /// The request is carried out, and its connection is closed instead of an answer.
    LoseReply,
    /// The connection is closed before the request does anything.
    Disconnect,
}

/// Which requests it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; empty for all.
    pub verb: String,
    /// `spiderippools`; empty for all.
    pub resource: String,
    /// So many more times.
    pub times: u64,
    /// What happens.
    pub fault: Fault,
}

/// The faults of one cluster; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    /// Grows when open watches are to end.
    watch_drops: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    outage: bool,
}

impl Faults {
    /// Adds a rule; the oldest rule that fits a request hits it.
    pub fn add(&self, rule: Rule) {
        self.state.lock().rules.push(rule);
    }

    /// Everything is refused and open watches end, or nothing is refused any more.
    pub fn set_outage(&self, outage: bool) {
        self.state.lock().outage = outage;
        if outage {
            self.drop_watches();
        }
    }

    /// Ends every watch that is open now.
    pub fn drop_watches(&self) {
        self.watch_drops.send_modify(|drops| *drops += 1);
    }

    /// Forgets all rules and ends the outage.
    pub fn clear(&self) {
        *self.state.lock() = State::default();
    }

    pub(crate) fn watch_epoch(&self) -> u64 {
        *self.watch_drops.borrow()
    }

    pub(crate) async fn watch_dropped(&self, epoch: u64) {
        // The sender lives as long as these faults do.
        let _ = self
            .watch_drops
            .subscribe()
            .wait_for(|drops| *drops != epoch)
            .await;
    }

    pub(crate) fn hit(&self, verb: &str, resource: &str) -> Option<Fault> {
        let mut state = self.state.lock();
        if state.outage {
            return Some(Fault::Disconnect);
        }
        let fits = |rule: &Rule| {
            rule.times > 0
                && (rule.verb.is_empty() || rule.verb == verb)
                && (rule.resource.is_empty() || rule.resource == resource)
        };
        let index = state.rules.iter().position(fits)?;
        let rule = &mut state.rules[index];
        rule.times -= 1;
        let fault = rule.fault.clone();
        if rule.times == 0 {
            state.rules.remove(index);
        }
        Some(fault)
    }
}
