//! Endpoints of this node's pods, over the API server, with the [`EndpointBook`] in front.

use std::sync::Arc;

use async_trait::async_trait;
use either::Either;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DeserializeGuard;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{EndpointStore, StoreError};
use orbweaver_api::FINALIZER;
use orbweaver_api::endpoint::SpiderEndpoint;
use serde_json::json;
use tracing::warn;

use crate::store::Calls;
use crate::store::book::EndpointBook;

/// Endpoints per page of the list at start.
const PAGE: u32 = 500;
/// Times that a removal looks again after somebody else changed the object. Others touch an endpoint when
/// its pod goes (garbage collection) and then no more, so that the second look nearly always settles it.
const LOOKS: u32 = 5;

/// Endpoints of the cluster, as this node's agent needs them.
#[derive(Clone)]
pub struct KubeEndpoints {
    client: Client,
    calls: Calls,
    book: Arc<EndpointBook>,
}

impl std::fmt::Debug for KubeEndpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeEndpoints")
            .field("book", &self.book.len())
            .finish_non_exhaustive()
    }
}

impl KubeEndpoints {
    /// Over a client, for a node.
    pub fn new(client: Client, calls: Calls, node: Arc<str>) -> Self {
        Self {
            client,
            calls,
            book: Arc::new(EndpointBook::new(node)),
        }
    }

    /// Fills the book from one complete list. A list whose paging broke off (410) starts again from
    /// nothing, because half a list is not a fact (peer lesson L2).
    pub async fn load(&self) -> Result<usize, StoreError> {
        let mut listed = self.list_mine().await;
        for _ in 0..LOOKS {
            match &listed {
                Err(StoreError::Refused(text)) if text.ends_with("(410)") => {
                    warn!("the list of endpoints expired half way, starting again");
                    listed = self.list_mine().await;
                }
                _ => break,
            }
        }
        for endpoint in listed? {
            self.book.saw(&endpoint);
        }
        Ok(self.book.len())
    }

    async fn list_mine(&self) -> Result<Vec<Arc<SpiderEndpoint>>, StoreError> {
        let api: Api<DeserializeGuard<SpiderEndpoint>> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut mine = Vec::new();
        loop {
            let page = self.calls.run_bounded(api.list(&params)).await?;
            for DeserializeGuard(item) in page.items {
                match item {
                    Ok(endpoint) if self.book.is_mine(&endpoint) => mine.push(lean(endpoint)),
                    Ok(_) => {}
                    Err(invalid) => warn!(
                        namespace = invalid.metadata.namespace,
                        name = invalid.metadata.name,
                        error = invalid.error,
                        "a SpiderEndpoint cannot be read and is left out"
                    ),
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(mine),
            }
        }
    }

    fn api(&self, namespace: &str) -> Api<SpiderEndpoint> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// One DELETE of exactly what `endpoint` is; `None` when nothing is left of it.
    async fn delete(
        &self,
        endpoint: &SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Option<SpiderEndpoint>, StoreError> {
        if endpoint.metadata.deletion_timestamp.is_some() {
            return Ok(Some(endpoint.clone()));
        }
        let (namespace, name) = name_of(endpoint);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: endpoint.metadata.uid.clone(),
            // The object's UID survives when a StatefulSet's pod comes back on another node: without the
            // version, a late removal here would take away what the pod got there.
            resource_version: endpoint.metadata.resource_version.clone(),
        });
        let api = self.api(namespace);
        match self.calls.run(deadline, api.delete(name, &params)).await? {
            Either::Left(deleting) => Ok(Some(deleting)),
            Either::Right(_) => Ok(None),
        }
    }

    /// Takes our finalizer off an object that is being deleted.
    async fn let_go(&self, endpoint: &SpiderEndpoint, deadline: Deadline) -> Result<(), StoreError> {
        let (namespace, name) = name_of(endpoint);
        let held = endpoint.metadata.finalizers.as_deref().unwrap_or_default();
        let others: Vec<&String> = held.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        if others.len() == held.len() {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": endpoint.metadata.resource_version,
            "finalizers": others,
        }});
        let api = self.api(namespace);
        let params = PatchParams::default();
        self.calls
            .run(deadline, api.patch_metadata(name, &params, &Patch::Merge(&patch)))
            .await
            .map(|_| ())
    }

    /// Both steps on one view of the object.
    async fn remove_seen(&self, endpoint: &SpiderEndpoint, deadline: Deadline) -> Result<(), StoreError> {
        match self.delete(endpoint, deadline).await? {
            Some(deleting) => self.let_go(&deleting, deadline).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl EndpointStore for KubeEndpoints {
    fn known_endpoint(&self, namespace: &str, name: &str) -> Option<Arc<SpiderEndpoint>> {
        self.book.get(namespace, name)
    }

    async fn read_endpoint(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        let api = self.api(namespace);
        let answer = self.calls.run(deadline, api.get(name)).await;
        if matches!(answer, Err(StoreError::NotFound)) {
            self.book.forget(namespace, name);
        }
        let endpoint = lean(answer?);
        self.book.saw(&endpoint);
        Ok(endpoint)
    }

    async fn create_endpoint(
        &self,
        mut endpoint: SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        let finalizers = endpoint.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        let api = self.api(name_of(&endpoint).0);
        let params = PostParams::default();
        let created = self.calls.run(deadline, api.create(&params, &endpoint)).await?;
        let created = lean(created);
        self.book.saw(&created);
        Ok(created)
    }

    async fn replace_endpoint(
        &self,
        endpoint: SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        let (namespace, name) = name_of(&endpoint);
        let api = self.api(namespace);
        let params = PostParams::default();
        let answer = self
            .calls
            .run(deadline, api.replace(name, &params, &endpoint))
            .await;
        if matches!(
            answer,
            Err(StoreError::Conflict | StoreError::NotFound | StoreError::Unknown(_))
        ) {
            self.book.forget(namespace, name);
        }
        let replaced = lean(answer?);
        self.book.saw(&replaced);
        Ok(replaced)
    }

    /// The endpoint may have been touched since it was seen (its deletion may have begun): as long as it
    /// still says the same about the pod it is removed all the same, and when it says something else
    /// this is [`StoreError::Conflict`].
    async fn remove_endpoint(&self, endpoint: &SpiderEndpoint, deadline: Deadline) -> Result<(), StoreError> {
        let (namespace, name) = name_of(endpoint);
        let mut seen = endpoint.clone();
        for _ in 0..LOOKS {
            match self.remove_seen(&seen, deadline).await {
                Ok(()) | Err(StoreError::NotFound) => {
                    self.book.forget(namespace, name);
                    return Ok(());
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
            let now = match self.read_endpoint(namespace, name, deadline).await {
                Err(StoreError::NotFound) => return Ok(()),
                now => now?,
            };
            if now.metadata.uid != endpoint.metadata.uid {
                return Ok(());
            }
            if now.status.current != endpoint.status.current {
                return Err(StoreError::Conflict);
            }
            seen = (*now).clone();
        }
        Err(StoreError::Conflict)
    }
}

fn name_of(endpoint: &SpiderEndpoint) -> (&str, &str) {
    (
        endpoint.metadata.namespace.as_deref().unwrap_or_default(),
        endpoint.metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Without what nobody here reads.
fn lean(mut endpoint: SpiderEndpoint) -> Arc<SpiderEndpoint> {
    endpoint.metadata.managed_fields = None;
    Arc::new(endpoint)
}
