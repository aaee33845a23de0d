//! What a webhook configuration needs so that API servers trust the webhook port: pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::review::Hook;

/// JSON patch operations that put `bundle` (PEM) into every entry of `configuration` that leads to one of our paths;
/// none when all are right. Other entries and other fields are never touched.
pub fn patch(configuration: &Value, bundle: &[u8]) -> Vec<Value> {
    let wanted = json!(STANDARD.encode(bundle));
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let mut operations: Vec<Value> = entries
        .enumerate()
        .filter(|(_, entry)| is_ours(&entry["clientConfig"]) && entry["clientConfig"]["caBundle"] != wanted)
        .map(|(at, _)| {
            let path = format!("/webhooks/{at}/clientConfig/caBundle");
            json!({ "op": "add", "path": path, "value": wanted })
        })
        .collect();
    if !operations.is_empty() {
        // Entries are known by their place: in another version that may be another entry's.
        let version = &configuration["metadata"]["resourceVersion"];
        let test = json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version });
        operations.insert(0, test);
    }
    operations
}

fn is_ours(client: &Value) -> bool {
    let by_service = client["service"]["path"].as_str();
    // Without a scheme and a host, what is left of a URL is its path.
    let by_url = client["url"].as_str().and_then(|url| {
        let (_, rest) = url.split_once("://")?;
        let path = &rest[rest.find('/')?..];
        Some(path.split(['?', '#']).next().unwrap_or(path))
    });
    let path = by_service.or(by_url);
    Hook::ALL.iter().any(|hook| Some(hook.path()) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(entries: &[Value]) -> Value {
        json!({ "metadata": { "resourceVersion": "7" }, "webhooks": entries })
    }

    #[test]
    fn only_the_bundle_of_our_own_entries_is_written() {
        let path = Hook::ValidatePool.path();
        let entries = [
            json!({ "name": "other", "clientConfig": { "service": { "path": "/other" } } }),
            json!({ "name": "service", "clientConfig": { "service": { "path": path }, "caBundle": "b2xk" } }),
            json!({ "name": "url", "clientConfig": { "url": format!("https://127.0.0.1:1{path}?timeout=1s") } }),
            json!({ "name": "right", "clientConfig": { "service": { "path": path }, "caBundle": "bmV3" } }),
        ];
        let bundle = |at: u8| json!({ "op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": "bmV3" });
        let test = json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" });
        assert_eq!(
            patch(&configuration(&entries), b"new"),
            [test, bundle(1), bundle(2)]
        );
        assert_eq!(patch(&configuration(&entries[3..]), b"new"), Vec::<Value>::new());
    }
}
