//! Which stage a request is in, and how long it was in each.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Stage;
use crate::metrics;

/// Shared by the task that works and the caller that may have to say what it waited for.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    verb: &'static str,
    current: Arc<Mutex<(Stage, Instant)>>,
}

impl Stages {
    pub(super) fn new(verb: &'static str) -> Self {
        Self {
            verb,
            current: Arc::new(Mutex::new((Stage::Admission, Instant::now()))),
        }
    }

    /// Leaves the current stage for the next.
    pub(super) fn enter(&self, stage: Stage) {
        let now = Instant::now();
        let (left, since) = std::mem::replace(&mut *self.current.lock(), (stage, now));
        metrics::stage_passed(self.verb, left, now.saturating_duration_since(since));
    }

    /// Where it is.
    pub(super) fn current(&self) -> Stage {
        self.current.lock().0
    }

    /// The last stage ends.
    pub(super) fn finish(&self) {
        self.enter(self.current());
    }
}
