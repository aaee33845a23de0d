//! Turns one watch into changes of a [`Cache`].

use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use orbweaver_actors::store::Marks;
use tracing::{debug, info, warn};

use crate::metrics;
use crate::store::chain;
use crate::watch::cache::{Cache, Change, Seen};

/// Where a watch's objects go.
#[derive(Debug)]
pub struct Feed<T> {
    /// The resource's plural.
    pub name: &'static str,
    cache: Arc<Cache<T>>,
    optional: bool,
}

impl<T> Feed<T> {
    /// A resource that must be there.
    pub fn new(name: &'static str, cache: Arc<Cache<T>>) -> Self {
        Self {
            name,
            cache,
            optional: false,
        }
    }

    /// A resource whose CRD may be absent; then its list counts as complete and empty.
    pub fn optional(name: &'static str, cache: Arc<Cache<T>>) -> Self {
        Self {
            name,
            cache,
            optional: true,
        }
    }
}

/// Events of a kind whose objects may be unreadable, each reduced by `keep` (`None`: counts as absent).
pub fn guarded<K, T>(
    stream: impl Stream<Item = watcher::Result<Event<DeserializeGuard<K>>>> + Send + 'static,
    keep: impl Fn(K) -> Option<T> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<Seen<T>>>> + Send
where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    let keep = move |guard: DeserializeGuard<K>| Seen {
        key: key_of(&guard),
        value: guard.0.map(&keep).map_err(|invalid| invalid.error),
    };
    stream
        .default_backoff()
        .map_ok(move |event| map_event(event, &keep))
}

/// Events of a kind of which only labels and annotations matter.
pub fn marks<K>(
    stream: impl Stream<Item = watcher::Result<Event<PartialObjectMeta<K>>>> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<Seen<Marks>>>> + Send
where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    let keep = |object: PartialObjectMeta<K>| Seen {
        key: object.metadata.name.clone().unwrap_or_default(),
        value: Ok(Some(Marks {
            labels: object.metadata.labels.unwrap_or_default(),
            annotations: object.metadata.annotations.unwrap_or_default(),
        })),
    };
    stream
        .default_backoff()
        .map_ok(move |event| map_event(event, keep))
}

fn key_of<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

fn map_event<A, B>(event: Event<A>, map: impl Fn(A) -> B) -> Event<B> {
    match event {
        Event::Apply(object) => Event::Apply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::InitDone => Event::InitDone,
    }
}

/// Keeps `feed`'s cache at what the stream says, until the stream ends (which it should not). A watch that
/// failed is tried again by the stream itself, with back-off and jitter. `changed` gets what one event did:
/// one change, or all that a list brought.
pub async fn follow<T>(
    stream: impl Stream<Item = watcher::Result<Event<Seen<T>>>> + Send,
    feed: Feed<T>,
    mut changed: impl FnMut(Vec<Change<T>>) + Send,
) {
    let mut stream = std::pin::pin!(stream);
    let mut list = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => list.clear(),
            Ok(Event::InitApply(seen)) => {
                report_invalid(feed.name, &seen);
                list.push(seen);
            }
            Ok(Event::InitDone) => {
                info!(objects = list.len(), "list complete");
                changed(feed.cache.replace(std::mem::take(&mut list)));
                feed.cache.complete();
            }
            Ok(Event::Apply(seen)) => {
                report_invalid(feed.name, &seen);
                changed(feed.cache.apply(seen).into_iter().collect());
            }
            Ok(Event::Delete(seen)) => changed(feed.cache.delete(seen.key).into_iter().collect()),
            Err(error) => failed(&feed, &error),
        }
    }
}

fn report_invalid<T>(resource: &'static str, seen: &Seen<T>) {
    if let Err(error) = &seen.value {
        metrics::watched_invalid(resource);
        warn!(
            key = seen.key,
            error, "an object cannot be read; its last good version stays in use"
        );
    }
}

fn failed<T>(feed: &Feed<T>, error: &watcher::Error) {
    metrics::watch_failed(feed.name);
    if feed.optional && kind_is_absent(error) {
        if !feed.cache.is_complete() {
            warn!("the resource is not installed; going on without it");
            feed.cache.replace(Vec::new());
            feed.cache.complete();
        }
        return;
    }
    match error {
        // What the API server does every few minutes when it drops old versions.
        watcher::Error::WatchError(status) if status.code == 410 => {
            debug!("the watch expired, listing again");
        }
        error => warn!(error = chain(error), "the watch failed and is tried again"),
    }
}

fn kind_is_absent(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}
