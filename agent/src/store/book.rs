//! What this agent knows of its node's endpoints without asking: those that named this node when the agent
//! started, kept current by the agent's own writes.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use orbweaver_api::endpoint::SpiderEndpoint;

/// Endpoints by pod. Only this node's: a pod that came back on another node is dropped when that is seen.
#[derive(Debug)]
pub struct EndpointBook {
    node: Arc<str>,
    entries: DashMap<Key, Arc<SpiderEndpoint>>,
}

type Key = (Box<str>, Box<str>);

impl EndpointBook {
    /// An empty book of a node.
    pub fn new(node: Arc<str>) -> Self {
        Self {
            node,
            entries: DashMap::new(),
        }
    }

    /// The endpoint of a pod.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<SpiderEndpoint>> {
        self.entries
            .get(&key(namespace, name))
            .map(|entry| entry.value().clone())
    }

    /// True when the endpoint's pod runs on this node.
    pub fn is_mine(&self, endpoint: &SpiderEndpoint) -> bool {
        endpoint.status.current.node == *self.node
    }

    /// Number of endpoints.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without endpoints.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An endpoint was written or read. An answer that comes late does not replace a newer one.
    pub fn saw(&self, endpoint: &Arc<SpiderEndpoint>) {
        let key = key_of(endpoint);
        if !self.is_mine(endpoint) {
            self.entries.remove_if(&key, |_, known| !newer(known, endpoint));
            return;
        }
        match self.entries.entry(key) {
            Entry::Occupied(mut known) if !newer(known.get(), endpoint) => {
                known.insert(endpoint.clone());
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => {
                place.insert(endpoint.clone());
            }
        }
    }

    /// What is known of this pod is wrong or gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.entries.remove(&key(namespace, name));
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.into(), name.into())
}

fn key_of(endpoint: &SpiderEndpoint) -> Key {
    let metadata = &endpoint.metadata;
    key(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// True when `known` is certainly newer than `seen`. resourceVersions compare as numbers; where one is not
/// a number, what was seen last wins.
fn newer(known: &SpiderEndpoint, seen: &SpiderEndpoint) -> bool {
    let version = |endpoint: &SpiderEndpoint| -> Option<u64> {
        endpoint.metadata.resource_version.as_deref()?.parse().ok()
    };
    matches!((version(known), version(seen)), (Some(known), Some(seen)) if known > seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(node: &str, version: &str) -> Arc<SpiderEndpoint> {
        let mut endpoint = SpiderEndpoint::default();
        endpoint.metadata.namespace = Some("ns".to_owned());
        endpoint.metadata.name = Some("pod".to_owned());
        endpoint.metadata.resource_version = Some(version.to_owned());
        endpoint.status.current.node = node.to_owned();
        Arc::new(endpoint)
    }

    fn version(book: &EndpointBook) -> Option<String> {
        book.get("ns", "pod")?.metadata.resource_version.clone()
    }

    #[test]
    fn a_late_answer_does_not_replace_a_newer_one() {
        let book = EndpointBook::new("n".into());
        book.saw(&endpoint("n", "10"));
        book.saw(&endpoint("n", "9"));
        assert_eq!(version(&book).as_deref(), Some("10"));
        book.saw(&endpoint("n", "11"));
        assert_eq!(version(&book).as_deref(), Some("11"));
    }

    #[test]
    fn an_endpoint_that_moved_away_leaves_the_book() {
        let book = EndpointBook::new("n".into());
        book.saw(&endpoint("n", "10"));
        book.saw(&endpoint("other", "9"));
        assert_eq!(book.len(), 1);
        book.saw(&endpoint("other", "11"));
        assert!(book.is_empty());
        book.saw(&endpoint("other", "12"));
        assert!(book.is_empty());
    }
}
