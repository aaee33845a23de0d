//! Pools: read with a GET, written with a merge patch of `status` that carries the resourceVersion.

use std::sync::Arc;

use async_trait::async_trait;
use kube::api::{Api, Patch, PatchParams, Request};
use kube::{Client, Resource};
use orbweaver_actors::store::{ClaimsWrite, PoolStore, StoreError};
use orbweaver_api::pool::{ParentNic, SpiderIPPool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::store::Calls;

/// Pools of the cluster.
#[derive(Clone)]
pub struct KubePools {
    client: Client,
    api: Api<SpiderIPPool>,
    calls: Calls,
}

impl std::fmt::Debug for KubePools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubePools").finish_non_exhaustive()
    }
}

/// The little that is wanted of the answer: a pool of 5000 claims is not parsed again only to learn its
/// version.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    resource_version: String,
}

impl KubePools {
    /// Over a client.
    pub fn new(client: Client, calls: Calls) -> Self {
        Self {
            api: Api::all(client.clone()),
            client,
            calls,
        }
    }

    /// Writes `status.parentNic`. No resourceVersion: the field has one writer, the pool's node.
    pub async fn write_parent_nic(&self, pool: &str, nic: &ParentNic) -> Result<(), StoreError> {
        self.patch_status(pool, &json!({ "status": { "parentNic": nic } }))
            .await
            .map(|_| ())
    }

    async fn patch_status(&self, pool: &str, body: &Value) -> Result<Written, StoreError> {
        let request = Request::new(SpiderIPPool::url_path(&(), None))
            .patch_subresource("status", pool, &PatchParams::default(), &Patch::Merge(body))
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        self.calls
            .run_bounded(self.client.request::<Written>(request))
            .await
    }
}

#[async_trait]
impl PoolStore for KubePools {
    async fn read_pool(&self, name: &str) -> Result<Arc<SpiderIPPool>, StoreError> {
        let mut pool = self.calls.run_bounded(self.api.get(name)).await?;
        pool.metadata.managed_fields = None;
        Ok(Arc::new(pool))
    }

    async fn write_claims(&self, write: ClaimsWrite) -> Result<String, StoreError> {
        let body = claims_patch(&write);
        let written = self.patch_status(&write.pool, &body).await?;
        Ok(written.metadata.resource_version)
    }
}

/// Only our two fields: the provider writes `ipMetaData` in the same status (design §5). `null` clears.
fn claims_patch(write: &ClaimsWrite) -> Value {
    json!({
        "metadata": { "resourceVersion": write.resource_version },
        "status": {
            "allocatedIPs": write.allocated_ips,
            "allocatedIPCount": write.allocated_ip_count,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claims_write_names_its_version_and_touches_two_fields() {
        let mut write = ClaimsWrite {
            pool: "p".into(),
            resource_version: "7".to_owned(),
            allocated_ips: Some("{}".to_owned()),
            allocated_ip_count: 2,
        };
        assert_eq!(
            claims_patch(&write),
            json!({
                "metadata": { "resourceVersion": "7" },
                "status": { "allocatedIPs": "{}", "allocatedIPCount": 2 },
            })
        );
        write.allocated_ips = None;
        assert_eq!(claims_patch(&write)["status"]["allocatedIPs"], Value::Null);
    }

    #[test]
    fn the_answer_to_a_write_needs_nothing_but_a_version() {
        let text = r#"{"kind":"SpiderIPPool","metadata":{"name":"p","resourceVersion":"8"},"status":{"allocatedIPs":7}}"#;
        let written: Written = serde_json::from_str(text).unwrap();
        assert_eq!(written.metadata.resource_version, "8");
    }
}
