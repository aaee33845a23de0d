//! Writes ledgers: server-side apply of `status.ipMetaData` alone, so that no other field is touched.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use orbweaver_api::pool::{IpMetaData, SpiderIPPool};
use serde_json::json;

use super::{PoolEntry, Provider, Signals};
use crate::envelope::render;
use crate::sub_eni::Inventory;

/// Field manager of everything that the provider writes.
pub(crate) const FIELD_MANAGER: &str = "iaas-network-provider";

/// How long one write may take.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Pause after a failed write, before scaling.
const PAUSE: Duration = Duration::from_secs(1);

/// A ledger that is to be written.
pub(super) struct Draft {
    /// The ledger.
    pub(super) ledger: IpMetaData,
    /// The pool's UID: another pool of the same name shall not get it.
    pub(super) uid: String,
    /// What the write shall be refused for when the pool has changed since.
    pub(super) version: Option<String>,
}

impl Draft {
    /// The ledger as it should be, to be written only if the pool is as it was last seen.
    pub(super) fn guarded(entry: &PoolEntry, known: &Inventory) -> Self {
        let view = &entry.view;
        Self {
            ledger: render(view, known.of_pool(&view.name), &entry.marks),
            uid: view.uid.clone(),
            version: Some(view.resource_version.clone()),
        }
    }
}

/// Writes the ledger of one pool whenever it differs, until the pool is gone.
pub(super) async fn run(provider: Arc<Provider>, name: &str, signals: &Signals) {
    let delay = provider.options.scaled(provider.options.flush_delay);
    loop {
        signals.ledger.notified().await;
        if provider.draft(name).is_none() {
            continue;
        }
        tokio::time::sleep(delay).await;
        let turn = signals.write.lock().await;
        let written = match provider.draft(name) {
            Some(draft) => provider.write(name, draft).await,
            None => Ok(()),
        };
        drop(turn);
        if let Err(error) = written {
            tracing::warn!(pool = name, %error, "the ledger could not be written");
            tokio::time::sleep(provider.options.scaled(PAUSE)).await;
            signals.ledger.notify_one();
        }
    }
}

impl Provider {
    /// The ledger of a pool as it should be, when that is not how it is.
    fn draft(&self, name: &str) -> Option<Draft> {
        let state = self.state.lock();
        let entry = state.pools.get(name)?;
        if !entry.view.keeps_ledger() {
            return None;
        }
        let ledger = render(&entry.view, state.desk.known.of_pool(name), &entry.marks);
        (entry.view.ledger.as_ref() != Some(&ledger)).then(|| Draft {
            ledger,
            uid: entry.view.uid.clone(),
            version: None,
        })
    }

    /// Writes; the caller holds the pool's turn to write.
    pub(super) async fn write(self: &Arc<Self>, name: &str, draft: Draft) -> Result<(), String> {
        let api: Api<SpiderIPPool> = Api::all(self.kube.clone());
        let mut body = json!({
            "apiVersion": format!("{}/{}", orbweaver_api::GROUP, orbweaver_api::VERSION),
            "kind": "SpiderIPPool",
            "metadata": { "name": name, "uid": draft.uid },
            "status": { "ipMetaData": draft.ledger },
        });
        if let Some(version) = draft.version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(body);
        let write = api.patch_status(name, &params, &patch);
        let result = match tokio::time::timeout(WRITE_WITHIN, write).await {
            Ok(Ok(pool)) => {
                self.see(&pool);
                Ok(())
            }
            // A pool that is gone has no ledger.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {WRITE_WITHIN:?}")),
        };
        self.calls.count(|counters| match result {
            Ok(()) => counters.ledger_writes += 1,
            Err(_) => counters.ledger_failures += 1,
        });
        result
    }
}
