//! Objects of one kind as the watch last saw them. Pure but for its lock.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

/// An object as it came over the wire, already reduced to what is kept.
#[derive(Debug)]
pub struct Seen<T> {
    /// `name` or `namespace/name`.
    pub key: String,
    /// What is kept; `Ok(None)`: the object counts as absent; `Err`: it cannot be read.
    pub value: Result<Option<T>, String>,
}

/// What a step of a watch did to the cache.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// New or changed.
    Seen(Arc<T>),
    /// No longer there.
    Gone(String),
}

type Objects<T> = HashMap<String, Arc<T>>;

/// The objects by key.
#[derive(Debug)]
pub struct Cache<T> {
    objects: RwLock<Objects<T>>,
    complete: watch::Sender<bool>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            complete: watch::Sender::new(false),
        }
    }
}

impl<T> Cache<T> {
    /// One object.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.objects.read().get(key).cloned()
    }

    /// Every object, in no order.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.objects.read().values().cloned().collect()
    }

    /// True once a first list was complete.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Waits for the first complete list.
    pub async fn completed(&self) {
        // The sender lives as long as the cache.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// An object changed. One that cannot be read keeps its last good version: forgetting a reserved range
    /// or a pool because of a typo would hand out what must not be.
    pub fn apply(&self, seen: Seen<T>) -> Option<Change<T>> {
        match seen.value {
            Ok(Some(value)) => {
                let value = Arc::new(value);
                self.objects.write().insert(seen.key, value.clone());
                Some(Change::Seen(value))
            }
            Ok(None) => self.delete(seen.key),
            Err(_) => None,
        }
    }

    /// An object went.
    pub fn delete(&self, key: String) -> Option<Change<T>> {
        self.objects.write().remove(&key).map(|_| Change::Gone(key))
    }

    /// A complete list replaces everything; what it lacks is gone.
    pub fn replace(&self, list: Vec<Seen<T>>) -> Vec<Change<T>> {
        let mut objects = self.objects.write();
        let mut next = Objects::with_capacity(list.len());
        let mut changes = Vec::with_capacity(list.len());
        for seen in list {
            let value = match seen.value {
                Ok(Some(value)) => Arc::new(value),
                Ok(None) => continue,
                Err(_) => match objects.get(&seen.key) {
                    Some(last_good) => last_good.clone(),
                    None => continue,
                },
            };
            changes.push(Change::Seen(value.clone()));
            next.insert(seen.key, value);
        }
        let gone = objects.keys().filter(|key| !next.contains_key(*key)).cloned();
        changes.extend(gone.map(Change::Gone));
        *objects = next;
        changes
    }

    /// A first list is here, and whoever derives something from it has done so: who waits for the cache must
    /// not find it full and the derived empty.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(key: &str, value: u32) -> Seen<u32> {
        Seen {
            key: key.to_owned(),
            value: Ok(Some(value)),
        }
    }

    fn bad(key: &str) -> Seen<u32> {
        Seen {
            key: key.to_owned(),
            value: Err("unreadable".to_owned()),
        }
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let cache = Cache::default();
        cache.replace(vec![good("a", 1), good("b", 2)]);
        let changes = cache.replace(vec![good("b", 3)]);
        assert_eq!(changes, [Change::Seen(Arc::new(3)), Change::Gone("a".to_owned())]);
        assert!(cache.get("a").is_none());
    }

    #[test]
    fn an_unreadable_object_keeps_its_last_good_version() {
        let cache = Cache::default();
        cache.replace(vec![good("a", 1), bad("b")]);
        assert!(cache.get("b").is_none());
        assert_eq!(cache.apply(bad("a")), None);
        cache.replace(vec![bad("a")]);
        assert_eq!(cache.get("a").as_deref(), Some(&1));
    }

    #[test]
    fn an_object_that_counts_as_absent_is_taken_out() {
        let cache = Cache::default();
        cache.replace(vec![good("a", 1)]);
        let absent = Seen {
            key: "a".to_owned(),
            value: Ok(None),
        };
        assert_eq!(cache.apply(absent), Some(Change::Gone("a".to_owned())));
        assert!(cache.all().is_empty());
    }

    #[test]
    fn no_list_completes_before_all_that_comes_of_it_is_done() {
        let cache = Cache::default();
        cache.apply(good("a", 1));
        cache.replace(Vec::new());
        assert!(!cache.is_complete());
        cache.complete();
        assert!(cache.is_complete());
    }
}
