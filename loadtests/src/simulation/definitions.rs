//! The custom resources that a simulated cluster must know.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::PATIENCE;
use crate::wait::until;

/// Applies what is checked in under `charts/`, not what the code would generate.
pub(super) async fn define(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for text in DEFINITIONS {
        let definition: CustomResourceDefinition = serde_yaml::from_str(text)?;
        let name = definition.name_any();
        let mut body = serde_json::to_value(&definition)?;
        body["apiVersion"] = json!("apiextensions.k8s.io/v1");
        body["kind"] = json!("CustomResourceDefinition");
        api.patch(
            &name,
            &PatchParams::apply("orbweaver-load").force(),
            &Patch::Apply(body),
        )
        .await?;
        until(&format!("{name} is served"), PATIENCE, || async {
            let found = api.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = found
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let established = conditions
                .iter()
                .any(|one| one.type_ == "Established" && one.status == "True");
            if established {
                Ok(())
            } else {
                Err("not established".to_owned())
            }
        })
        .await?;
    }
    Ok(())
}

const DEFINITIONS: [&str; 6] = [
    include_str!("../../../charts/orbweaver/crds/spidercoordinators.yaml"),
    include_str!("../../../charts/orbweaver/crds/spiderendpoints.yaml"),
    include_str!("../../../charts/orbweaver/crds/spiderippools.yaml"),
    include_str!("../../../charts/orbweaver/crds/spidermultusconfigs.yaml"),
    include_str!("../../../charts/orbweaver/crds/spiderreservedips.yaml"),
    include_str!("../../../charts/orbweaver/crds/spidersubnets.yaml"),
];
