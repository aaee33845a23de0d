//! How API servers are told of the webhooks: the entries of a `MutatingWebhookConfiguration` and a
//! `ValidatingWebhookConfiguration`. Pure; charts say the same.

use serde_json::{Value, json};

use super::review::Hook;

/// Seconds that an API server waits for an answer.
const TIMEOUT: u32 = 10;

/// The entry of a hook. `client` is its `clientConfig` without the bundle, which the controller writes.
///
/// Pools and reserved addresses fail closed: an overlap that slipped in would hand addresses out twice.
pub fn entry(hook: Hook, client: &Value) -> Value {
    let (plural, operations) = match hook {
        Hook::MutatePool => ("spiderippools", json!(["CREATE", "UPDATE"])),
        Hook::ValidatePool => ("spiderippools", json!(["CREATE", "UPDATE", "DELETE"])),
        Hook::MutateReserved | Hook::ValidateReserved => ("spiderreservedips", json!(["CREATE", "UPDATE"])),
    };
    json!({
        "name": name(hook),
        "clientConfig": client,
        "rules": [{
            "apiGroups": [orbweaver_api::GROUP],
            "apiVersions": [orbweaver_api::VERSION],
            "resources": [plural],
            "operations": operations,
            "scope": "Cluster",
        }],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": if hook == Hook::ValidatePool { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": TIMEOUT,
        "admissionReviewVersions": ["v1"],
    })
}

/// The entry's name; Spiderpool's, but one for each hook of a configuration.
pub fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::MutatePool | Hook::ValidatePool => "spiderippool.spiderpool.spidernet.io",
        Hook::MutateReserved | Hook::ValidateReserved => "spiderreservedip.spiderpool.spidernet.io",
    }
}
