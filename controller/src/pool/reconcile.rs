//! The watch of pools, and the writes that put them right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use http::header::CONTENT_TYPE;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, DeserializeGuard};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use orbweaver_api::FINALIZER;
use orbweaver_api::pool::SpiderIPPool;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::pool::Pace;
use crate::pool::agenda::{Agenda, Outcome, Turn};
use crate::pool::gauges::Gauges;
use crate::pool::plan::{PoolAction, PoolProblem, plan};
use crate::{chain, metrics};

/// Pools written at once.
const WRITES: usize = 4;
/// What one write may take.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// After so many conflicts in a row a total is written whatever the version, if the spec is still the one that it was
/// computed from: nothing else changes it.
const CONFLICTS: u32 = 3;
/// How the API server names our writes.
const FIELD_MANAGER: &str = "orbweaver-controller";

type PoolEvent = Event<DeserializeGuard<SpiderIPPool>>;

/// Watches and writes until dropped.
pub async fn run(client: Client, pace: Pace) {
    let pools: Api<DeserializeGuard<SpiderIPPool>> = Api::all(client.clone());
    let resource = ApiResource::erase::<SpiderIPPool>(&());
    let writer: Api<DynamicObject> = Api::all_with(client, &resource);
    let events = watcher::watcher(pools, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut agenda = Agenda::new(pace);
    let mut seen = Seen::default();
    let mut gauges = Gauges::default();
    let mut writes = FuturesUnordered::new();
    loop {
        let due = agenda.next_due().filter(|_| writes.len() < WRITES);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    follow(event, &mut agenda, &mut seen);
                    gauges.retain(agenda.len(), |name| agenda.knows(name));
                }
                Some(Err(error)) => report_watch(&error),
                None => return,
            },
            Some(ended) = writes.next(), if !writes.is_empty() => {
                let (name, outcome): (String, Outcome) = ended;
                agenda.done(&name, outcome, Instant::now());
            }
            () = wait_until(due) => {
                if let Some((name, turn)) = agenda.take_due(Instant::now()) {
                    gauges.show(&name, &turn.pool);
                    let actions = judge(&name, &turn, &mut agenda);
                    writes.push(settle(&writer, name, turn, actions));
                }
            }
        }
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// What the watch has told, beside the pools themselves.
#[derive(Debug, Default)]
struct Seen {
    /// Names of a list that is not complete yet.
    listed: BTreeSet<String>,
    /// Pools that cannot be read, with the reason as last told.
    unreadable: BTreeMap<String, String>,
}

impl Seen {
    /// True when this reason is new for this pool: a list repeats what a watch has told.
    fn is_news(&mut self, name: &str, reason: &str) -> bool {
        let before = self.unreadable.insert(name.to_owned(), reason.to_owned());
        before.as_deref() != Some(reason)
    }
}

fn follow(event: PoolEvent, agenda: &mut Agenda, seen: &mut Seen) {
    match event {
        Event::Init => seen.listed.clear(),
        Event::InitApply(guard) => {
            seen.listed.insert(guard.name_any());
            apply(guard, agenda, seen);
        }
        Event::InitDone => {
            let listed = std::mem::take(&mut seen.listed);
            agenda.retain(|name| listed.contains(name));
            seen.unreadable.retain(|name, _| listed.contains(name));
            info!(pools = agenda.len(), "list of pools complete");
        }
        Event::Apply(guard) => apply(guard, agenda, seen),
        Event::Delete(guard) => {
            let name = guard.name_any();
            agenda.remove(&name);
            seen.unreadable.remove(&name);
        }
    }
    metrics::pools(agenda.len());
}

fn apply(guard: DeserializeGuard<SpiderIPPool>, agenda: &mut Agenda, seen: &mut Seen) {
    let name = guard.name_any();
    match guard.0 {
        Ok(pool) => {
            seen.unreadable.remove(&name);
            agenda.apply(&name, Arc::new(pool), Instant::now());
        }
        Err(invalid) => {
            if seen.is_news(&name, &invalid.error) {
                metrics::pool_invalid("unreadable");
                warn!(
                    pool = name,
                    error = invalid.error,
                    "the pool cannot be read; correct it, until then its counters and finalizer stay as they are"
                );
            }
            agenda.remove(&name);
        }
    }
}

fn report_watch(error: &watcher::Error) {
    metrics::watch_failed("spiderippools");
    match error {
        // What the API server does every few minutes when it drops old versions.
        watcher::Error::WatchError(status) if status.code == 410 => {
            debug!("the watch expired, listing again");
        }
        error => warn!(
            error = chain(error),
            "the watch of pools failed and is tried again"
        ),
    }
}

/// What is to be done; says in the log what nobody can do.
fn judge(name: &str, turn: &Turn, agenda: &mut Agenda) -> Vec<PoolAction> {
    let (actions, text) = match plan(&turn.pool) {
        Ok(actions) => {
            let text = actions.iter().find_map(|action| match action {
                PoolAction::AwaitClaims(claims) => Some(format!("{claims} claims")),
                _ => None,
            });
            (actions, text)
        }
        Err(problem) => {
            let text = problem.to_string();
            if agenda.says(name, Some(&text)) {
                report_problem(name, &problem);
            }
            return Vec::new();
        }
    };
    if agenda.says(name, text.as_deref()) {
        info!(
            pool = name,
            held_by = text,
            "the pool is to be deleted and waits for its pods to go"
        );
    }
    actions
}

fn report_problem(name: &str, problem: &PoolProblem) {
    metrics::pool_invalid(problem.label());
    warn!(
        pool = name,
        problem = problem.label(),
        "the pool cannot be used: {problem}"
    );
}

async fn settle(
    api: &Api<DynamicObject>,
    name: String,
    turn: Turn,
    actions: Vec<PoolAction>,
) -> (String, Outcome) {
    let mut outcome = Outcome::Settled;
    if let Some(patch) = counters_patch(&turn, &actions) {
        outcome = write(api, &name, "counters", &patch).await;
    } else if actions.contains(&PoolAction::RemoveFinalizer) {
        let patch = Guarded::Version(finalizer_patch(&turn.pool));
        outcome = write(api, &name, "finalizer", &patch).await;
    }
    (name, outcome)
}

/// How a write finds out that it is too late.
#[derive(Clone, Debug, PartialEq)]
enum Guarded {
    /// A merge patch that carries the version.
    Version(Value),
    /// A JSON patch that tests UID and generation: the API server applies it to whatever version is the newest.
    Generation(Value),
}

/// The counters that are wrong, and nothing else.
fn counters_patch(turn: &Turn, actions: &[PoolAction]) -> Option<Guarded> {
    let metadata = &turn.pool.metadata;
    let mut status = serde_json::Map::new();
    for action in actions {
        match action {
            PoolAction::SetTotal(total) => status.insert("totalIPCount".to_owned(), json!(total)),
            PoolAction::SetAllocated(allocated) => {
                status.insert("allocatedIPCount".to_owned(), json!(allocated))
            }
            _ => None,
        };
    }
    // Agents who keep writing a pool have given it a status.
    let is_busy = turn.failures > CONFLICTS && turn.pool.status.is_some();
    match (status.get("totalIPCount"), metadata.generation) {
        (Some(total), Some(generation)) if is_busy => Some(Guarded::Generation(json!([
            { "op": "test", "path": "/metadata/uid", "value": metadata.uid },
            { "op": "test", "path": "/metadata/generation", "value": generation },
            { "op": "add", "path": "/status/totalIPCount", "value": total },
        ]))),
        _ if status.is_empty() => None,
        // A count of claims is only true of the version that it was counted in.
        _ => {
            let version = &metadata.resource_version;
            Some(Guarded::Version(
                json!({ "metadata": { "resourceVersion": version }, "status": status }),
            ))
        }
    }
}

fn finalizer_patch(pool: &SpiderIPPool) -> Value {
    let rest: Vec<&String> = pool
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    json!({ "metadata": { "resourceVersion": pool.metadata.resource_version, "finalizers": rest } })
}

/// What no typed call of the client offers without another feature of it.
fn json_patch(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<Request<Vec<u8>>, kube::Error> {
    let url = format!(
        "{}/{name}/status?fieldManager={FIELD_MANAGER}",
        api.resource_url()
    );
    Request::patch(url)
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))
}

async fn send(
    api: &Api<DynamicObject>,
    name: &str,
    action: &str,
    patch: &Guarded,
) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match patch {
        Guarded::Version(patch) if action == "counters" => {
            api.patch_status(name, &params, &Patch::Merge(patch)).await
        }
        Guarded::Version(patch) => api.patch(name, &params, &Patch::Merge(patch)).await,
        Guarded::Generation(patch) => {
            let request = json_patch(api, name, patch)?;
            api.clone().into_client().request(request).await
        }
    }
}

async fn write(api: &Api<DynamicObject>, name: &str, action: &'static str, patch: &Guarded) -> Outcome {
    let request = send(api, name, action, patch);
    let (label, outcome) = match timeout(WRITE_WITHIN, request).await {
        Ok(Ok(_)) => {
            debug!(pool = name, action, "written");
            ("ok", Outcome::Settled)
        }
        // A JSON patch whose test fails is 422.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 409 | 422) => ("conflict", Outcome::Again),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => ("gone", Outcome::Settled),
        Ok(Err(error)) => {
            warn!(
                pool = name,
                action,
                error = chain(&error),
                "the pool could not be written; tried again later"
            );
            ("failed", Outcome::Again)
        }
        Err(_) => {
            warn!(pool = name, action, limit = ?WRITE_WITHIN, "the API server did not answer in time; tried again later");
            ("failed", Outcome::Again)
        }
    };
    metrics::pool_written(action, label);
    outcome
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
