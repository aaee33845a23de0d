//! How API servers are told of the webhooks: the entries of a `MutatingWebhookConfiguration` and a
//! `ValidatingWebhookConfiguration`. Pure; charts say the same.

use orbweaver_api::{GROUP, VERSION};
use serde_json::{Value, json};

use super::injection::Injection;
use super::review::Hook;

/// Seconds that an API server waits for an answer.
const TIMEOUT: u32 = 10;
/// The same for pods, which do without.
const POD_TIMEOUT: u32 = 3;

/// The entry of a hook. `client` is its `clientConfig` without the bundle, which the controller writes.
///
/// Pools and reserved addresses fail closed: an overlap that slipped in would hand addresses out twice. Pods fail open,
/// and those of the cluster's own namespaces are not asked about at all: a controller that is away must not keep
/// anything from starting.
pub fn entry(hook: Hook, client: &Value, injection: &Injection) -> Value {
    let (group, version, plural, operations) = match hook {
        Hook::MutatePool => (GROUP, VERSION, "spiderippools", json!(["CREATE", "UPDATE"])),
        Hook::ValidatePool => (
            GROUP,
            VERSION,
            "spiderippools",
            json!(["CREATE", "UPDATE", "DELETE"]),
        ),
        Hook::MutateReserved | Hook::ValidateReserved => {
            (GROUP, VERSION, "spiderreservedips", json!(["CREATE", "UPDATE"]))
        }
        Hook::MutatePod => ("", "v1", "pods", json!(["CREATE"])),
    };
    let is_pod = hook == Hook::MutatePod;
    json!({
        "name": name(hook),
        "clientConfig": client,
        "rules": [{
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": [plural],
            "operations": operations,
            "scope": if is_pod { "Namespaced" } else { "Cluster" },
        }],
        "namespaceSelector": if is_pod { injection.selector() } else { json!({}) },
        "failurePolicy": if is_pod { "Ignore" } else { "Fail" },
        "matchPolicy": "Equivalent",
        "sideEffects": if hook == Hook::ValidatePool { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": if is_pod { POD_TIMEOUT } else { TIMEOUT },
        "admissionReviewVersions": ["v1"],
    })
}

/// The entry's name; Spiderpool's, but one for each hook of a configuration.
pub fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::MutatePool | Hook::ValidatePool => "spiderippool.spiderpool.spidernet.io",
        Hook::MutateReserved | Hook::ValidateReserved => "spiderreservedip.spiderpool.spidernet.io",
        Hook::MutatePod => "pods.spiderpool.spidernet.io",
    }
}
