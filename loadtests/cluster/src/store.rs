//! Objects and their history: one counter of versions, one bounded history a resource, watchers that read it
//! with a cursor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::ApiError;
use crate::kind::{Kind, ResourceKey};

/// Namespace (empty for cluster-wide resources) and name.
pub type ObjectKey = (String, String);

/// A change, as watchers see it.
#[derive(Debug)]
pub struct Change {
    /// The version that it made.
    pub version: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'static str,
    /// The object after it, or before it when it was deleted.
    pub object: Arc<Value>,
    /// The object before it.
    pub before: Option<Arc<Value>>,
    line: OnceLock<Bytes>,
}

impl Change {
    /// The event as one line; printed once for all watchers.
    pub fn line(&self) -> Bytes {
        self.line
            .get_or_init(|| event_line(self.event, &self.object))
            .clone()
    }
}

/// One line of a watch.
pub fn event_line(event: &str, object: &Value) -> Bytes {
    let mut text = json!({ "type": event, "object": object }).to_string();
    text.push('\n');
    text.into()
}

#[derive(Debug)]
struct Shelf {
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    history: VecDeque<Arc<Change>>,
    /// Changes up to this version are forgotten.
    forgotten: u64,
    latest: watch::Sender<u64>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: 0,
            latest: watch::Sender::new(0),
        }
    }
}

/// The store.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    kinds: RwLock<Arc<Vec<Kind>>>,
    history_length: usize,
}

#[derive(Debug, Default)]
struct Inner {
    version: u64,
    shelves: HashMap<ResourceKey, Shelf>,
}

/// What a write makes of an object.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing changed: no new version.
    Same(Value),
    /// The object is this from now on.
    Keep(Value),
    /// The object is gone; this was its last state.
    Remove(Value),
}

impl Store {
    /// An empty store that remembers so many changes of each resource.
    pub fn new(history_length: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                version: 1,
                shelves: HashMap::new(),
            }),
            kinds: RwLock::new(Arc::new(crate::kind::built_in())),
            history_length,
        }
    }

    /// Everything served.
    pub fn kinds(&self) -> Arc<Vec<Kind>> {
        self.kinds.read().clone()
    }

    /// Serves what the definitions say, besides what is built in.
    pub fn reload_definitions(&self) {
        let definitions = self
            .list(
                &ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions"),
                None,
            )
            .1;
        let mut kinds = crate::kind::built_in();
        kinds.extend(
            definitions
                .iter()
                .flat_map(|definition| crate::kind::of_definition(definition)),
        );
        *self.kinds.write() = Arc::new(kinds);
    }

    /// One object.
    pub fn get(&self, resource: &ResourceKey, key: &ObjectKey) -> Option<Arc<Value>> {
        self.inner.lock().shelves.get(resource)?.objects.get(key).cloned()
    }

    /// The objects of a namespace, or all, with the version at which that is true.
    pub fn list(&self, resource: &ResourceKey, namespace: Option<&str>) -> (u64, Vec<Arc<Value>>) {
        let inner = self.inner.lock();
        let Some(shelf) = inner.shelves.get(resource) else {
            return (inner.version, Vec::new());
        };
        let wanted = shelf
            .objects
            .iter()
            .filter(|((of, _), _)| namespace.is_none_or(|namespace| namespace == of));
        (inner.version, wanted.map(|(_, object)| object.clone()).collect())
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    /// Reads, decides and writes in one step. `decide` sees the object as it is and says what becomes of it.
    pub fn update(
        &self,
        resource: &ResourceKey,
        key: &ObjectKey,
        decide: impl FnOnce(Option<&Arc<Value>>) -> Result<Outcome, ApiError>,
    ) -> Result<Arc<Value>, ApiError> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let shelf = inner.shelves.entry(resource.clone()).or_default();
        let before = shelf.objects.get(key).cloned();
        let (mut object, removed) = match decide(before.as_ref())? {
            Outcome::Same(object) => return Ok(Arc::new(object)),
            Outcome::Keep(object) => (object, false),
            Outcome::Remove(object) => (object, true),
        };
        inner.version += 1;
        object["metadata"]["resourceVersion"] = json!(inner.version.to_string());
        let object = Arc::new(object);
        let event = match (&before, removed) {
            (_, true) => "DELETED",
            (None, false) => "ADDED",
            (Some(_), false) => "MODIFIED",
        };
        if removed {
            shelf.objects.remove(key);
        } else {
            shelf.objects.insert(key.clone(), object.clone());
        }
        let change = Change {
            version: inner.version,
            event,
            object: object.clone(),
            before,
            line: OnceLock::new(),
        };
        shelf.history.push_back(Arc::new(change));
        while shelf.history.len() > self.history_length {
            if let Some(oldest) = shelf.history.pop_front() {
                shelf.forgotten = oldest.version;
            }
        }
        shelf.latest.send_replace(inner.version);
        Ok(object)
    }

    /// Follows a resource from a version on.
    pub fn follow(&self, resource: &ResourceKey, after: u64) -> Cursor {
        let mut inner = self.inner.lock();
        let shelf = inner.shelves.entry(resource.clone()).or_default();
        Cursor {
            resource: resource.clone(),
            after,
            latest: shelf.latest.subscribe(),
        }
    }

    /// Changes after the cursor, which moves past them.
    pub fn changes(&self, cursor: &mut Cursor) -> Result<Vec<Arc<Change>>, ApiError> {
        cursor.latest.mark_unchanged();
        let inner = self.inner.lock();
        let Some(shelf) = inner.shelves.get(&cursor.resource) else {
            return Ok(Vec::new());
        };
        if cursor.after < shelf.forgotten {
            return Err(ApiError::gone(cursor.after));
        }
        let first = shelf
            .history
            .partition_point(|change| change.version <= cursor.after);
        let changes: Vec<Arc<Change>> = shelf.history.range(first..).cloned().collect();
        if let Some(last) = changes.last() {
            cursor.after = last.version;
        }
        Ok(changes)
    }

    /// Forgets all history: every watch that is behind gets 410.
    pub fn compact(&self) {
        let mut inner = self.inner.lock();
        let version = inner.version;
        for shelf in inner.shelves.values_mut() {
            shelf.history.clear();
            shelf.forgotten = version;
        }
    }
}

/// Where a watcher is.
#[derive(Debug)]
pub struct Cursor {
    resource: ResourceKey,
    /// The last version seen.
    pub after: u64,
    latest: watch::Receiver<u64>,
}

impl Cursor {
    /// Resolves when there may be something new.
    pub async fn changed(&mut self) {
        // The store outlives its watchers: the sender is never dropped first.
        let _ = self.latest.changed().await;
    }
}
