//! Warnings on pods, as Kubernetes Events: where the user of a pod looks first.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use orbweaver_actors::store::{Events, StoreError};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::store::Calls;

/// Events that wait for the API server. They are rare and the log says the same: more is dropped.
const WAITING: usize = 128;
/// Events remembered as told. Forgetting costs one request that the API server answers with "exists".
const REMEMBERED: usize = 4096;
/// What an Event's note may hold (Kubernetes refuses more than 1024 bytes).
const NOTE: usize = 1000;
/// How much of a pod's name fits into an Event's: 253 characters less a dot and 16 digits.
const NAME: usize = 236;

/// Takes Events and never waits; [`publish`] sends them.
#[derive(Debug)]
pub struct PodEvents {
    node: Arc<str>,
    told: Mutex<HashSet<String>>,
    queue: mpsc::Sender<Event>,
}

/// The Events that [`publish`] is to send.
#[derive(Debug)]
pub struct Queue(mpsc::Receiver<Event>);

impl PodEvents {
    /// Both ends.
    pub fn new(node: Arc<str>) -> (Self, Queue) {
        let (queue, waiting) = mpsc::channel(WAITING);
        let events = Self {
            node,
            told: Mutex::default(),
            queue,
        };
        (events, Queue(waiting))
    }

    /// True the first time.
    fn is_new(&self, name: &str) -> bool {
        let mut told = self.told.lock();
        if told.len() >= REMEMBERED {
            told.clear();
        }
        told.insert(name.to_owned())
    }
}

impl Events for PodEvents {
    fn warn_pod(&self, pod: &Pod, reason: &'static str, subject: &str, note: String) {
        let event = warning(pod, &self.node, reason, subject, &note);
        if !self.is_new(&event.name_any()) {
            return;
        }
        if self.queue.try_send(event).is_err() {
            info!(
                pod = pod.name_any(),
                reason, "too many Events wait for the API server, this one is left out"
            );
        }
    }
}

/// The same reason for the same subject of the same pod has the same name, so that it exists once, whichever
/// retry or agent tells it.
fn warning(pod: &Pod, node: &str, reason: &str, subject: &str, note: &str) -> Event {
    let mut hash = DefaultHasher::new();
    (pod.uid(), reason, subject).hash(&mut hash);
    let now = Time(Timestamp::now());
    let pod_name = pod.name_any();
    // What is cut off must leave a name behind that Kubernetes takes.
    let shown = cut(&pod_name, NAME).trim_end_matches(['-', '.']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{shown}.{:016x}", hash.finish())),
            namespace: pod.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(cut(note, NOTE).to_owned()),
        source: Some(EventSource {
            component: Some("orbweaver-agent".to_owned()),
            host: Some(node.to_owned()),
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

/// At most so many bytes, of whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Sends what comes, one after the other, as long as somebody may tell something. Nothing is tried twice: an
/// Event is a courtesy.
pub async fn publish(client: Client, calls: Calls, mut queue: Queue) {
    while let Some(event) = queue.0.recv().await {
        let api: Api<Event> = Api::namespaced(client.clone(), &event.namespace().unwrap_or_default());
        match calls
            .run_bounded(api.create(&PostParams::default(), &event))
            .await
        {
            Ok(_) => {}
            Err(StoreError::AlreadyExists) => debug!(event = event.name_any(), "told before"),
            Err(error) => warn!(event = event.name_any(), %error, "an Event could not be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "shop", "uid": uid } }))
            .unwrap()
    }

    #[test]
    fn one_reason_of_one_nic_of_one_pod_is_told_once() {
        let (events, mut queue) = PodEvents::new("n1".into());
        for (uid, subject) in [
            ("u1", "eth0"),
            ("u1", "eth0"),
            ("u1", "net1"),
            ("u2", "eth0"),
            ("u1", "eth0"),
        ] {
            events.warn_pod(&pod(uid), "Reason", subject, "note".to_owned());
        }
        let mut names = HashSet::new();
        while let Ok(event) = queue.0.try_recv() {
            assert!(names.insert(event.name_any()), "{}", event.name_any());
        }
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn an_event_of_the_longest_pod_name_has_a_name_that_kubernetes_takes() {
        let mut long = pod("u");
        long.metadata.name = Some(format!("{}-{}", "a".repeat(235), "b".repeat(17)));
        let name = warning(&long, "n1", "Reason", "eth0", "note").name_any();
        assert!(name.len() <= 253 && !name.contains("-."), "{name}");
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let event = warning(&pod("u"), "n1", "Reason", "eth0", &"ä".repeat(NOTE));
        assert_eq!(event.message.unwrap().len(), NOTE);
    }

    #[test]
    fn more_events_than_can_wait_are_left_out_and_nobody_waits() {
        let (events, mut queue) = PodEvents::new("n1".into());
        for index in 0..2 * WAITING {
            events.warn_pod(&pod(&index.to_string()), "Reason", "eth0", String::new());
        }
        let mut kept = 0;
        while queue.0.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, WAITING);
    }
}
