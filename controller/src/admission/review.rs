//! `AdmissionReview` v1 of `admission.k8s.io`: what is asked, and the answer. Pure.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Settings;
use super::finding::Finding;
use super::pledge::Pledge;
use super::{pool_mutation, pool_rules, reserved_rules};

/// Most findings in one answer: whatever was sent, somebody must read it.
const TOLD: usize = 100;

/// One of the paths that an API server calls (reference §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Completes a pool.
    MutatePool,
    /// Judges a pool.
    ValidatePool,
    /// Completes reserved addresses.
    MutateReserved,
    /// Judges reserved addresses.
    ValidateReserved,
    /// Completes a pod.
    MutatePod,
}

impl Hook {
    /// Every hook.
    pub const ALL: [Self; 5] = [
        Self::MutatePool,
        Self::ValidatePool,
        Self::MutateReserved,
        Self::ValidateReserved,
        Self::MutatePod,
    ];

    /// The path, Spiderpool's.
    pub fn path(self) -> &'static str {
        match self {
            Self::MutatePool => "/mutate-spiderpool-spidernet-io-v2beta1-spiderippool",
            Self::ValidatePool => "/validate-spiderpool-spidernet-io-v2beta1-spiderippool",
            Self::MutateReserved => "/mutate-spiderpool-spidernet-io-v2beta1-spiderreservedip",
            Self::ValidateReserved => "/validate-spiderpool-spidernet-io-v2beta1-spiderreservedip",
            Self::MutatePod => "/mutate--v1-pod",
        }
    }

    /// Closed label set for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::MutatePool => "mutate_pool",
            Self::ValidatePool => "validate_pool",
            Self::MutateReserved => "mutate_reserved_ip",
            Self::ValidateReserved => "validate_reserved_ip",
            Self::MutatePod => "mutate_pod",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::MutatePool | Self::ValidatePool => "SpiderIPPool",
            Self::MutateReserved | Self::ValidateReserved => "SpiderReservedIP",
            Self::MutatePod => "Pod",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::MutatePod => "",
            _ => orbweaver_api::GROUP,
        }
    }
}

/// What an API server asks; what nobody reads is left out.
#[derive(Clone, Debug, Deserialize)]
pub struct Review {
    /// The question.
    pub request: Request,
}

/// The question.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Goes back with the answer.
    pub uid: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The object's name; empty when the API server is to make one.
    #[serde(default)]
    pub name: String,
    /// The object's namespace; empty for cluster-wide kinds.
    #[serde(default)]
    pub namespace: String,
    /// `status` for writes of the status alone.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// Nothing may be written because of it.
    #[serde(default)]
    pub dry_run: bool,
    /// As it will be; null for a deletion.
    #[serde(default)]
    pub object: Value,
    /// As it is; null for a creation.
    #[serde(default)]
    pub old_object: Value,
}

impl Request {
    /// True when an object of its own is made, no part of one.
    pub fn is_creation(&self) -> bool {
        self.operation == "CREATE" && self.sub_resource.as_deref().is_none_or(str::is_empty)
    }
}

/// An answer, and what to count.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The whole `AdmissionReview`.
    pub body: Value,
    /// Whether the object passes.
    pub allowed: bool,
}

/// Answers one question; `pools` are those of the cluster. Questions that [`must_pledge`] are answered by
/// [`verdict`] of what the registrar finds.
pub fn answer(hook: Hook, request: &Request, pools: &[Arc<SpiderIPPool>], settings: Settings) -> Answer {
    // The status is the agents' and the provider's; nothing of it is judged here.
    if is_of_status(request) {
        return passed(request, &[]);
    }
    let findings = match hook {
        Hook::MutatePool => return complete(request, pool_mutation::patch),
        Hook::MutateReserved => return complete(request, reserved_rules::patch),
        // Answered by [`complete_pod`].
        Hook::MutatePod => Vec::new(),
        Hook::ValidatePool => judge_pool(request, pools, settings),
        Hook::ValidateReserved => judge::<SpiderReservedIP>(
            request,
            |new| reserved_rules::create(new, settings),
            |old, new| reserved_rules::update(old, new, settings),
            |_| Vec::new(),
        ),
    };
    verdict(hook, request, findings)
}

/// The answer about a pod: what it gets, or why it cannot be made.
pub fn complete_pod(request: &Request, patch: Result<Vec<Value>, Finding>) -> Answer {
    match patch {
        Ok(operations) => passed(request, &operations),
        Err(finding) => refused(Hook::MutatePod, request, vec![finding]),
    }
}

/// The answer to a validating question.
pub fn verdict(hook: Hook, request: &Request, findings: Vec<Finding>) -> Answer {
    if findings.is_empty() {
        passed(request, &[])
    } else {
        refused(hook, request, findings)
    }
}

/// Every finding against a pool.
pub fn judge_pool(request: &Request, pools: &[Arc<SpiderIPPool>], settings: Settings) -> Vec<Finding> {
    let pools = pools.iter().map(AsRef::as_ref);
    judge(
        request,
        |new| pool_rules::create(new, pools.clone(), settings),
        |old, new| pool_rules::update(old, new, pools.clone(), settings),
        |old| pool_rules::delete(old, settings),
    )
}

/// True when a pool gains addresses, so that what a cache says of the others is not enough.
pub fn must_pledge(hook: Hook, request: &Request) -> bool {
    if hook != Hook::ValidatePool || is_of_status(request) {
        return false;
    }
    let (old, new) = pool_change(request);
    new.is_some_and(|new| Pledge::of(old.as_ref(), &new, Duration::ZERO).is_some())
}

/// A pool before and after, as far as they can be read.
pub fn pool_change(request: &Request) -> (Option<SpiderIPPool>, Option<SpiderIPPool>) {
    let read = |value: &Value| SpiderIPPool::deserialize(value).ok();
    (read(&request.old_object), read(&request.object))
}

fn is_of_status(request: &Request) -> bool {
    request.sub_resource.as_deref().is_some_and(|sub| !sub.is_empty())
}

/// An object that cannot be read passes as it is: the validating hook refuses it with the reason.
fn complete<T: DeserializeOwned>(request: &Request, patch: impl Fn(&T) -> Vec<Value>) -> Answer {
    let object = match request.operation.as_str() {
        "CREATE" | "UPDATE" => T::deserialize(&request.object).ok(),
        _ => None,
    };
    passed(request, &object.map(|object| patch(&object)).unwrap_or_default())
}

fn judge<T: DeserializeOwned>(
    request: &Request,
    create: impl Fn(&T) -> Vec<Finding>,
    update: impl Fn(&T, &T) -> Vec<Finding>,
    delete: impl Fn(&T) -> Vec<Finding>,
) -> Vec<Finding> {
    let read = |value: &Value| {
        T::deserialize(value)
            .map_err(|error| vec![Finding::invalid("spec", format!("cannot be read: {error}"))])
    };
    let judged = match request.operation.as_str() {
        "CREATE" => read(&request.object).map(|new| create(&new)),
        "UPDATE" => read(&request.object).map(|new| match read(&request.old_object) {
            Ok(old) => update(&old, &new),
            // It becomes readable: what it was before cannot be compared.
            Err(_) => create(&new),
        }),
        // What cannot be read must still be deletable.
        "DELETE" => Ok(read(&request.old_object)
            .map(|old| delete(&old))
            .unwrap_or_default()),
        _ => Ok(Vec::new()),
    };
    judged.unwrap_or_else(|findings| findings)
}

fn passed(request: &Request, operations: &[Value]) -> Answer {
    let mut response = json!({ "uid": request.uid, "allowed": true });
    if !operations.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(json!(operations).to_string()));
    }
    review(&response, true)
}

fn refused(hook: Hook, request: &Request, mut findings: Vec<Finding>) -> Answer {
    findings.sort();
    findings.dedup();
    let more = findings.len().saturating_sub(TOLD);
    findings.truncate(TOLD);
    let mut told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    let told = match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let cause = |finding: &Finding| json!({ "field": finding.field, "reason": finding.kind.reason(), "message": finding.detail });
    let causes: Vec<Value> = findings.iter().map(cause).collect();
    let (kind, group, name) = (hook.kind(), hook.group(), &request.name);
    let resource = if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    };
    // Forbidden findings are told as 422 too, as Spiderpool does.
    let status = json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": format!("{resource} {name:?} is invalid: {told}"),
        "details": { "name": name, "group": group, "kind": kind, "causes": causes },
    });
    let response = json!({ "uid": request.uid, "allowed": false, "status": status });
    review(&response, false)
}

fn review(response: &Value, allowed: bool) -> Answer {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    });
    Answer { body, allowed }
}
