//! The TCP port for the node's kubelet and for Prometheus: `/livez`, `/readyz`, `/metrics`, and Spiderpool's
//! probe paths; `/explain` for callers on this node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::explain;
use crate::server::service::IpamService;
use crate::server::{ACCEPT_PAUSE, connection};

/// Probes and scrapes are few; more is somebody else's mistake.
const CONNECTIONS: usize = 32;
/// What a probe may wait for the Supervisor. kubelet's own default is 1 s.
const READY_BUDGET: Duration = Duration::from_millis(900);
/// How often histograms are folded, so that they do not grow between scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Where the agent is in its life.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // the service has none
pub enum Phase {
    /// Not serving yet, and why.
    Starting(&'static str),
    /// Serving, if the service says so too.
    Serving(Arc<dyn IpamService>),
    /// Not serving any more.
    Stopping,
}

/// What the probes ask. Clones share the phase.
#[derive(Clone)]
pub struct Health {
    phase: Arc<RwLock<Phase>>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            phase: Arc::new(RwLock::new(Phase::Starting("starting"))),
        }
    }
}

impl Health {
    /// The agent's life goes on.
    pub fn enter(&self, phase: Phase) {
        *self.phase.write() = phase;
    }

    /// Where the agent is in its life.
    pub fn phase(&self) -> Phase {
        self.phase.read().clone()
    }

    /// `Err` says why nothing can be served now.
    pub async fn ready(&self) -> Result<(), String> {
        match self.phase() {
            Phase::Starting(why) => Err(why.to_owned()),
            Phase::Stopping => Err("stopping".to_owned()),
            Phase::Serving(service) => timeout(READY_BUDGET, service.ready())
                .await
                .unwrap_or_else(|_| Err("the supervisor did not answer in time".to_owned())),
        }
    }
}

#[derive(Clone)]
struct Admin {
    health: Health,
    metrics: Option<PrometheusHandle>,
}

/// The port's routes. Without `metrics` (another recorder is installed in this process) `/metrics` is 404.
pub fn routes(health: Health, metrics: Option<PrometheusHandle>) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(render))
        .route("/v1/runtime/startup", get(ready))
        .route("/v1/runtime/readiness", get(ready))
        .route("/v1/runtime/liveness", get(alive))
        .with_state(Admin { health, metrics })
}

async fn alive() -> &'static str {
    "ok"
}

async fn ready(State(admin): State<Admin>) -> Response {
    match admin.health.ready().await {
        Ok(()) => "ok".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn render(State(admin): State<Admin>) -> Response {
    match admin.metrics {
        Some(metrics) => (
            [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
            metrics.render(),
        )
            .into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A bound port that answers probes from the first moment until it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    /// Where it listens; the port is the real one when 0 was asked for.
    pub address: SocketAddr,
    /// Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
}

impl AdminServer {
    /// Binds and serves.
    pub async fn start(
        listen: SocketAddr,
        health: Health,
        metrics: Option<PrometheusHandle>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        info!(%address, "admin port open");
        let mut tasks = JoinSet::new();
        if let Some(metrics) = metrics.clone() {
            tasks.spawn(fold(metrics));
        }
        let everybody = routes(health.clone(), metrics);
        let this_node = everybody.clone().merge(explain::routes(health));
        tasks.spawn(accept(listener, everybody, this_node));
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }
}

async fn accept(listener: TcpListener, everybody: Router, this_node: Router) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "a connection on the admin port could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            warn!(%peer, "too many connections on the admin port");
            continue;
        };
        let routes = if peer.ip().to_canonical().is_loopback() {
            this_node.clone()
        } else {
            everybody.clone()
        };
        let connection = connection::serve(stream, routes, CancellationToken::new());
        connections.spawn(async move {
            connection.await;
            drop(slot);
        });
    }
}

async fn fold(metrics: PrometheusHandle) {
    let mut ticks = interval(UPKEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
