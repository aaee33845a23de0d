//! One call of the contract: faults, checks, work, answer, record.

use std::sync::Arc;

use orbweaver_api::provider::{AllocateRequest, AllocateResponse, ReleaseRequest, SubEniResponse};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::Shared;
use crate::ask::{AllocateAsk, ReleaseAsk};
use crate::budget;
use crate::calls::{Call, Outcome};
use crate::desk::Ask;
use crate::faults::{CallKind, Fault};
use crate::provider::Provider;
use crate::refusal::Refusal;
use crate::sub_eni::SubEni;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) kind: CallKind,
    pub(crate) path: String,
    pub(crate) budget: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// What goes back.
#[derive(Debug)]
pub(crate) enum Reply {
    Answer(Answered),
    Close,
}

/// An answer, apart from HTTP.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) json: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) retry_after: Option<u64>,
}

/// Carries out a call and records it before the caller can know of it.
pub(crate) async fn exchange(shared: Arc<Shared>, provider: Arc<Provider>, asked: Asked) -> Reply {
    let arrived = Instant::now();
    let record = |outcome, reply: &Reply| shared.calls.record(asked.seen(&shared, arrived, outcome, reply));
    let fault = shared.faults.hit(asked.kind);
    if let Some(fault) = fault.as_ref().filter(|fault| fault.prevents()) {
        let reply = prevented(fault);
        record(Outcome::Faulted, reply.as_ref().unwrap_or(&Reply::Close));
        return match reply {
            Some(reply) => reply,
            None => std::future::pending().await,
        };
    }
    let (answer, outcome) = match work(&provider, &asked).await {
        Ok(worked) => worked,
        Err(refusal) => (refused(&refusal), outcome_of(&refusal)),
    };
    let (reply, outcome) = match &fault {
        None | Some(Fault::Delay(_)) => (Reply::Answer(answer), outcome),
        Some(Fault::HangAfter) => (Reply::Close, Outcome::Spoiled),
        Some(fault) => (spoiled(answer, fault), Outcome::Spoiled),
    };
    record(outcome, &reply);
    match fault {
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::HangAfter) => std::future::pending().await,
        _ => {}
    }
    reply
}

impl Asked {
    fn seen(&self, shared: &Shared, arrived: Instant, outcome: Outcome, reply: &Reply) -> Call {
        let (status, error) = match reply {
            Reply::Answer(answer) if answer.status >= 300 => {
                (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
            }
            Reply::Answer(answer) => (answer.status, String::new()),
            Reply::Close => (0, String::new()),
        };
        let text = || Value::String(String::from_utf8_lossy(&self.body).into_owned());
        Call {
            at: arrived.saturating_duration_since(shared.started),
            took: arrived.elapsed(),
            path: self.path.clone(),
            budget: self.budget.clone(),
            body: serde_json::from_slice(&self.body).unwrap_or_else(|_| text()),
            outcome,
            status,
            error,
        }
    }
}

async fn work(provider: &Arc<Provider>, asked: &Asked) -> Result<(Answered, Outcome), Refusal> {
    let budget = budget::read(asked.budget.as_deref())?;
    match asked.kind {
        CallKind::Allocate => {
            let request: AllocateRequest = read(&asked.body)?;
            let ask = AllocateAsk::read(&request)?;
            let (found, outcome) = provider.request(Ask::Allocate(ask), budget).await?;
            Ok((allocated(&request, &found), outcome))
        }
        CallKind::Release => {
            let request: ReleaseRequest = read(&asked.body)?;
            let ask = ReleaseAsk::read(&request)?;
            let (_, outcome) = provider.request(Ask::Release(ask), budget).await?;
            let answer = Answered {
                status: 204,
                ..Answered::default()
            };
            Ok((answer, outcome))
        }
    }
}

/// serde's message names the field that is missing or wrong.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
        Refusal::invalid("body", start, error.to_string())
    })
}

/// Answers with the families that were asked for: the caller does not know of others.
fn allocated(request: &AllocateRequest, found: &[SubEni]) -> Answered {
    let items = request.sub_eni_requests.iter().zip(found);
    let response = AllocateResponse {
        pod_name: request.pod_name.clone(),
        pod_namespace: request.pod_namespace.clone(),
        node_name: request.node_name.clone(),
        sub_eni_responses: items
            .map(|(item, sub_eni)| SubEniResponse {
                parent_nic_mac: item.parent_nic_mac.clone(),
                subnet: item.subnet.clone(),
                ipv4_address: item.ipv4_address.clone(),
                ipv6_address: item.ipv6_address.clone(),
                mac_address: sub_eni.mac.to_string(),
                vlan_id: sub_eni.vlan().map(i64::from),
            })
            .collect(),
    };
    encoded(&response)
}

fn encoded(response: &AllocateResponse) -> Answered {
    Answered {
        status: 200,
        json: true,
        // Texts and numbers always print.
        body: serde_json::to_vec(response).unwrap_or_default(),
        retry_after: None,
    }
}

fn refused(refusal: &Refusal) -> Answered {
    Answered {
        status: refusal.status(),
        json: false,
        body: refusal.to_string().into_bytes(),
        retry_after: refusal.retry_after(),
    }
}

fn outcome_of(refusal: &Refusal) -> Outcome {
    match refusal {
        Refusal::Invalid { .. } => Outcome::RejectedInvalid,
        Refusal::Budget { .. } => Outcome::RejectedBudget,
        Refusal::Throttled { .. } => Outcome::RejectedThrottled,
        Refusal::Conflict(_) => Outcome::RejectedConflict,
        Refusal::Cloud(_) => Outcome::CloudFailed,
        Refusal::Unavailable(_) => Outcome::Unavailable,
    }
}

/// The reply of a fault that strikes before the work; `None` never comes.
fn prevented(fault: &Fault) -> Option<Reply> {
    let refuse = |status, retry_after| {
        Reply::Answer(Answered {
            status,
            json: false,
            body: b"injected fault".to_vec(),
            retry_after,
        })
    };
    match fault {
        Fault::Refuse(status) => Some(refuse(*status, None)),
        Fault::RefuseFor(status, seconds) => Some(refuse(*status, Some(*seconds))),
        Fault::Hang => None,
        _ => Some(Reply::Close),
    }
}

/// The reply of a fault that strikes after the work.
fn spoiled(mut answer: Answered, fault: &Fault) -> Reply {
    if *fault == Fault::LoseReply {
        return Reply::Close;
    }
    if *fault == Fault::TruncatedJson {
        answer.body.truncate(answer.body.len() / 2);
        return Reply::Answer(answer);
    }
    if let Fault::HugeBody(size) = fault {
        // Blanks are allowed behind a JSON value.
        answer.body.resize(answer.body.len().max(*size), b' ');
        answer.status = if answer.status == 204 { 200 } else { answer.status };
        return Reply::Answer(answer);
    }
    let Ok(mut response) = serde_json::from_slice::<AllocateResponse>(&answer.body) else {
        return Reply::Answer(answer);
    };
    for item in &mut response.sub_eni_responses {
        match fault {
            Fault::WrongAddress => {
                let wrong = if item.ipv4_address.is_empty() {
                    &mut item.ipv6_address
                } else {
                    &mut item.ipv4_address
                };
                let six = wrong.contains(':');
                wrong.clear();
                wrong.push_str(if six { "2001:db8::dead" } else { "203.0.113.113" });
            }
            Fault::Vlan(vlan) => item.vlan_id = Some(*vlan),
            Fault::MacText(mac) => item.mac_address.clone_from(mac),
            Fault::Bare => {
                item.mac_address.clear();
                item.vlan_id = None;
            }
            _ => {}
        }
    }
    Reply::Answer(encoded(&response))
}
