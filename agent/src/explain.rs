//! `orbweaver-agent explain`: why a pod gets, or does not get, its addresses from which pools. The running
//! agent answers on its admin port, to this node only, as JSON; the command prints it.

pub mod text;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use clap::Parser;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::request::{AddRequest, Attachment};
use orbweaver_actors::supervisor::explain::Explanation;
use serde::{Deserialize, Serialize};

use crate::admin::{Health, Phase};

/// What the command waits for the agent, which only looks at what it has in memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a pod of this node gets, or does not get, its addresses from which pools; claims nothing
#[derive(Clone, Debug, Parser)]
pub struct ExplainArgs {
    /// The pod, as namespace/name
    #[arg(long)]
    pub pod: String,
    /// The NIC
    #[arg(long, default_value = "eth0")]
    pub nic: String,
    /// IPv4 pools of the CNI configuration (`default_ipv4_ippool`), where the NIC's SpiderMultusConfig does not name them
    #[arg(long, value_delimiter = ',')]
    pub ipv4: Vec<String>,
    /// IPv6 pools of the CNI configuration (`default_ipv6_ippool`)
    #[arg(long, value_delimiter = ',')]
    pub ipv6: Vec<String>,
    /// The agent's admin port on this node
    #[arg(long, env = "ORBWEAVER_EXPLAIN_ADMIN", default_value = "127.0.0.1:5711")]
    pub admin: SocketAddr,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The query of `/explain`; lists are separated by commas.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExplainQuery {
    pod: String,
    #[serde(default = "eth0")]
    nic: String,
    #[serde(default)]
    ipv4: String,
    #[serde(default)]
    ipv6: String,
}

fn eth0() -> String {
    "eth0".to_owned()
}

/// Why there is no explanation.
#[derive(Debug, Deserialize, Serialize)]
struct Refusal {
    error: String,
    remedy: String,
}

/// The route; only for callers on this node, because annotations are their owners' business.
pub fn routes(health: Health) -> Router {
    Router::new()
        .route("/explain", axum::routing::get(answer))
        .with_state(health)
}

async fn answer(State(health): State<Health>, Query(query): Query<ExplainQuery>) -> Response {
    let refuse = |status: StatusCode, error: String, remedy: &str| {
        let remedy = remedy.to_owned();
        (status, Json(Refusal { error, remedy })).into_response()
    };
    let Phase::Serving(service) = health.phase() else {
        let error = "the agent does not serve yet, or no more".to_owned();
        return refuse(StatusCode::SERVICE_UNAVAILABLE, error, "see /readyz");
    };
    let Some((namespace, name)) = query.pod.split_once('/') else {
        let error = format!("pod {:?} is not namespace/name", query.pod);
        return refuse(StatusCode::BAD_REQUEST, error, "write --pod namespace/name");
    };
    match service.explain(&request(&query, namespace, name)) {
        Ok(explanation) => Json(explanation).into_response(),
        Err(error) => refuse(
            StatusCode::UNPROCESSABLE_ENTITY,
            error.to_string(),
            error.remedy(),
        ),
    }
}

fn request(query: &ExplainQuery, namespace: &str, name: &str) -> AddRequest {
    let list = |text: &str| {
        let names = text.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    AddRequest {
        attachment: Attachment {
            container_id: "explain".to_owned(),
            nic: query.nic.clone(),
            netns: String::new(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        },
        default_ipv4_pools: list(&query.ipv4),
        default_ipv6_pools: list(&query.ipv6),
        clean_gateway: false,
        deadline: Deadline::after(PATIENCE),
        request_id: Arc::from("explain"),
    }
}

/// No explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The agent is not there.
    #[error(
        "no agent answers on {admin}; run this on the pod's node, or in its agent's container, and see --admin"
    )]
    Unreachable {
        /// Where it was looked for.
        admin: SocketAddr,
        /// Why not.
        #[source]
        source: reqwest::Error,
    },
    /// The agent says no.
    #[error("{error}; {remedy}")]
    Refused {
        /// What is wrong.
        error: String,
        /// What to do.
        remedy: String,
    },
    /// The answer is not an agent's.
    #[error("{admin} answered with HTTP status {status} and not as an agent does; see --admin")]
    Strange {
        /// Who answered.
        admin: SocketAddr,
        /// The status.
        status: u16,
    },
}

/// Asks the agent; gives what is to be printed.
pub async fn ask(args: &ExplainArgs) -> Result<String, ExplainError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let admin = args.admin;
    let query = ExplainQuery {
        pod: args.pod.clone(),
        nic: args.nic.clone(),
        ipv4: args.ipv4.join(","),
        ipv6: args.ipv6.join(","),
    };
    let unreachable = |source| ExplainError::Unreachable { admin, source };
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
    let request = client
        .map_err(unreachable)?
        .get(format!("http://{admin}/explain"));
    let response = request.query(&query).send().await.map_err(unreachable)?;
    let status = response.status().as_u16();
    let body = response.bytes().await.map_err(unreachable)?;
    let strange = || ExplainError::Strange { admin, status };
    if status != 200 {
        let Refusal { error, remedy } = serde_json::from_slice(&body).map_err(|_| strange())?;
        return Err(ExplainError::Refused { error, remedy });
    }
    let explanation: Explanation = serde_json::from_slice(&body).map_err(|_| strange())?;
    if args.json {
        return serde_json::to_string_pretty(&explanation).map_err(|_| strange());
    }
    Ok(text::render(&explanation))
}
