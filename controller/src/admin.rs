//! The TCP port for kubelet and Prometheus: `/livez`, `/readyz`, `/metrics`, and Spiderpool's probe paths.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};

/// How often histograms are folded, so that they do not grow between scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Whether this replica does its part: leading, or waiting to.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
}

impl Health {
    /// The replica begins or ends to do its part.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
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
    if admin.health.ready.load(Ordering::Acquire) {
        "ok".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping").into_response()
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
    tasks: JoinSet<()>,
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
        tasks.spawn(async move {
            // Accept errors are retried inside; this returns only if axum gives up.
            if let Err(error) = axum::serve(listener, routes(health, metrics)).await {
                error!(%error, "the admin port closed");
            }
        });
        Ok(Self { address, tasks })
    }

    /// Waits until one of its tasks ends, which none does by itself; the process should end then, because nobody
    /// could tell any more how it is.
    pub async fn ended(&mut self) {
        if let Some(Err(error)) = self.tasks.join_next().await {
            error!(%error, "the admin port failed");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_is_noticed_and_others_are_not() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = AdminServer::start(listen, Health::default(), None).await.unwrap();
        let at_once = tokio::time::timeout(Duration::ZERO, server.ended()).await;
        assert!(at_once.is_err(), "it serves");
        server.tasks.abort_all();
        tokio::time::timeout(Duration::from_secs(20), server.ended())
            .await
            .unwrap();
    }
}
