//! Watches: what happened since a version, then what happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Shared;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::store::{Change, Cursor, event_line};
use crate::table;

/// How often a bookmark tells a quiet watcher the newest version.
const BOOKMARK_EVERY: Duration = Duration::from_secs(10);
/// How long a watch lasts when the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// A watch, as its request says.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) bookmarks: bool,
    /// The state first, as events, ended by a marked bookmark.
    pub(crate) initial: bool,
    pub(crate) version: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) form: Form,
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Partial,
    Table,
}

impl Watch {
    fn shown(&self, object: &Value) -> Value {
        match self.form {
            Form::Whole => object.clone(),
            Form::Partial => table::partial(object),
            Form::Table => table::table(&self.kind, &[object], "", false),
        }
    }

    fn wanted(&self, object: &Value) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
            && self.selector.matches(object)
    }

    /// The line of a change for this watcher: an object that leaves the selection is deleted for it.
    fn line(&self, change: &Change) -> Option<Bytes> {
        let now = change.event != "DELETED" && self.wanted(&change.object);
        let before = change.before.as_ref().is_some_and(|before| self.wanted(before));
        let event = match (before, now) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        if event == change.event && self.form == Form::Whole {
            return Some(change.line());
        }
        Some(event_line(event, &self.shown(&change.object)))
    }

    fn bookmark(&self, version: u64, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if end_of_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object =
            json!({ "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata });
        event_line(
            "BOOKMARK",
            &if self.form == Form::Table {
                self.shown(&object)
            } else {
                object
            },
        )
    }

    fn beginning(&self, shared: &Shared) -> (Cursor, Vec<Bytes>) {
        let key = self.kind.key();
        if let Some(version) = self.version.filter(|version| *version > 0 && !self.initial) {
            return (shared.store.follow(&key, version), Vec::new());
        }
        let (version, objects) = shared.store.list(&key, self.namespace.as_deref());
        let wanted = objects.iter().filter(|object| self.wanted(object));
        let mut lines: Vec<Bytes> = wanted
            .map(|object| event_line("ADDED", &self.shown(object)))
            .collect();
        if self.initial && self.bookmarks {
            lines.push(self.bookmark(version, true));
        }
        (shared.store.follow(&key, version), lines)
    }
}

struct Following {
    shared: Arc<Shared>,
    watch: Watch,
    cursor: Cursor,
    ready: std::collections::VecDeque<Bytes>,
    until: Instant,
    epoch: u64,
    over: bool,
}

/// The watch's body.
pub(crate) fn stream(shared: Arc<Shared>, watch: Watch) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let (cursor, lines) = watch.beginning(&shared);
    let following = Following {
        until: Instant::now() + watch.timeout.unwrap_or(DEFAULT_TIMEOUT),
        epoch: shared.faults.watch_epoch(),
        shared,
        watch,
        cursor,
        ready: lines.into(),
        over: false,
    };
    futures::stream::unfold(following, |mut following| async move {
        let line = following.next().await?;
        following.shared.counters.watched(line.len());
        Some((Ok(line), following))
    })
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over || self.shared.faults.watch_epoch() != self.epoch {
                return None;
            }
            match self.shared.store.changes(&mut self.cursor) {
                Ok(changes) => self
                    .ready
                    .extend(changes.iter().filter_map(|change| self.watch.line(change))),
                Err(error) => {
                    self.over = true;
                    return Some(event_line("ERROR", &error.status()));
                }
            }
            if self.ready.is_empty() {
                self.wait().await?;
            }
        }
    }

    /// Until something changes, a bookmark is due, or the watch ends (`None`).
    async fn wait(&mut self) -> Option<()> {
        let quiet_until = (Instant::now() + BOOKMARK_EVERY).min(self.until);
        tokio::select! {
            () = self.cursor.changed() => Some(()),
            () = self.shared.stopping.cancelled() => None,
            () = self.shared.faults.watch_dropped(self.epoch) => None,
            () = tokio::time::sleep_until(quiet_until) => {
                if Instant::now() >= self.until {
                    return None;
                }
                if self.watch.bookmarks {
                    self.ready.push_back(self.watch.bookmark(self.cursor.after.max(1), false));
                }
                Some(())
            }
        }
    }
}
