//! The definitions of the custom resources as the files of the chart.

use anyhow::Result;

/// File names with their text, in a stable order.
pub fn all() -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for definition in orbweaver_api::crd::all()? {
        let mut value = serde_json::to_value(&definition)?;
        value["apiVersion"] = "apiextensions.k8s.io/v1".into();
        value["kind"] = "CustomResourceDefinition".into();
        let text = format!("# Generated from api/ by `make crds`; do not edit.\n{}", serde_yaml::to_string(&value)?);
        files.push((format!("{}.yaml", definition.spec.names.plural), text));
    }
    Ok(files)
}
