//! The TLS port that API servers call. Every replica serves, leading or not.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request as HttpRequest, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::Settings;
use super::cache::{self, PoolCache};
use super::certificate::{CertificateError, Identity};
use super::injection::Injection;
use super::keeper::{Keeper, Place};
use super::networks::Networks;
use super::registrar::{self, Registrar};
use super::review::{self, Answer, Hook, Request, Review};
use crate::metrics;

/// Largest question: two objects of the largest size that etcd takes.
const BODY_LIMIT: usize = 3 << 20;
/// What questions that are open get when the port closes.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a handshake, a head or a body may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Most connections at once; an API server keeps one or two.
const CONNECTIONS: usize = 512;

/// How to serve.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// Where.
    pub listen: SocketAddr,
    /// With which certificate, and where its trust is kept.
    pub place: Place,
    /// By which rules.
    pub settings: Settings,
    /// Whose pods get resources.
    pub injection: Injection,
}

/// The port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No usable certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The port is taken or not ours.
    #[error("cannot listen on {address} for admission; choose another --webhook-listen")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS for the webhook cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A bound port that serves until it is dropped.
#[derive(Debug)]
pub struct WebhookServer {
    /// Where it listens; the port is the real one when 0 was asked for.
    pub address: SocketAddr,
    /// The certificate in use.
    pub identity: Arc<Identity>,
    readiness: Readiness,
    closing: CancellationToken,
    /// Aborts its tasks when dropped.
    tasks: JoinSet<()>,
}

/// What must be known before questions can be answered.
#[derive(Clone, Debug)]
pub struct Readiness {
    pools: PoolCache,
    /// `None`: pods are left alone.
    networks: Option<Networks>,
}

impl Readiness {
    fn is_complete(&self) -> bool {
        self.pools.all().is_some() && self.networks.as_ref().is_none_or(Networks::is_ready)
    }

    /// Resolves once everything is known.
    pub async fn complete(&self) {
        let mut changes = self.pools.changes();
        while self.pools.all().is_none() {
            changes.changed().await;
        }
        if let Some(networks) = &self.networks {
            networks.ready().await;
        }
    }
}

impl WebhookServer {
    /// Binds and serves.
    pub async fn start(config: &WebhookConfig, client: Client) -> Result<Self, ServerError> {
        let keeper = Keeper::new(client.clone(), config.place.clone());
        let identity = Arc::new(Identity::new(keeper.begin().await?)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(identity.clone());
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listen = |source| ServerError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        info!(%address, "admission port open");
        let pools = PoolCache::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(cache::follow(client.clone(), pools.clone()));
        tasks.spawn(keeper.run(identity.clone()));
        let namespace = &config.place.namespace;
        let injection = &config.injection;
        let networks = injection
            .is_enabled()
            .then(|| Networks::follow(&client, &mut tasks));
        let readiness = Readiness {
            pools: pools.clone(),
            networks,
        };
        let (registrar, desk) = registrar::open(client, namespace, pools.clone(), config.settings);
        tasks.spawn(desk.run());
        let router = routes(Hooks {
            readiness: readiness.clone(),
            injection: injection.clone(),
            registrar,
            settings: config.settings,
        });
        let closing = CancellationToken::new();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tasks.spawn(accept(listener, acceptor, router, closing.clone()));
        Ok(Self {
            address,
            identity,
            readiness,
            closing,
            tasks,
        })
    }

    /// What it waits for before it can answer.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Answers what has been asked, takes no further connections and ends.
    pub async fn stop(mut self) {
        self.closing.cancel();
        // The others do not end by themselves.
        if timeout(DRAIN, self.tasks.join_next()).await.is_err() {
            warn!("questions of API servers were still open when the admission port closed");
        }
    }

    /// Waits until one of its tasks ends, which none does by itself.
    pub async fn ended(&mut self) {
        if let Some(Err(error)) = self.tasks.join_next().await {
            error!(%error, "the admission port failed");
        }
    }
}

#[derive(Clone)]
struct Hooks {
    readiness: Readiness,
    injection: Injection,
    registrar: Registrar,
    settings: Settings,
}

fn routes(hooks: Hooks) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready));
    for hook in Hook::ALL {
        let serve = move |State(hooks): State<Hooks>, request| serve(hook, hooks, request);
        router = router.route(hook.path(), post(serve));
    }
    router.with_state(hooks)
}

async fn ready(State(hooks): State<Hooks>) -> Response {
    if hooks.readiness.is_complete() {
        "ok".into_response()
    } else {
        not_ready()
    }
}

fn not_ready() -> Response {
    let text = "the lists of pools and networks are not complete yet; try again";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn serve(hook: Hook, hooks: Hooks, request: HttpRequest<Body>) -> Response {
    let (outcome, response) = respond(hook, &hooks, request).await;
    metrics::reviewed(hook.label(), outcome);
    response
}

async fn respond(hook: Hook, hooks: &Hooks, request: HttpRequest<Body>) -> (&'static str, Response) {
    let malformed = |code, text: String| ("malformed", (code, text).into_response());
    let body = match timeout(READ_WITHIN, to_bytes(request.into_body(), BODY_LIMIT)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let text = format!("the body cannot be read or has more than {BODY_LIMIT} bytes: {error}");
            return malformed(StatusCode::PAYLOAD_TOO_LARGE, text);
        }
        Err(_) => return malformed(StatusCode::REQUEST_TIMEOUT, "the body came too slowly".to_owned()),
    };
    let review: Review = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(error) => {
            let text = format!("the body is not an AdmissionReview of admission.k8s.io/v1: {error}");
            return malformed(StatusCode::BAD_REQUEST, text);
        }
    };
    let request = review.request;
    if hook == Hook::MutatePod {
        return about_pod(hooks, &request);
    }
    let Some(pools) = hooks.readiness.pools.all() else {
        return ("not_ready", not_ready());
    };
    if let (Hook::ValidatePool, Some(uid)) = (hook, request.old_object["metadata"]["uid"].as_str()) {
        hooks.readiness.pools.is_there(uid);
    }
    let answer = if review::must_pledge(hook, &request) {
        match hooks.registrar.judge(request.clone()).await {
            Ok(findings) => review::verdict(hook, &request, findings),
            Err(error) => {
                warn!(%error, pool = request.name, "no verdict about a pool");
                return (
                    "undecided",
                    (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
                );
            }
        }
    } else {
        review::answer(hook, &request, &pools, hooks.settings)
    };
    told(answer)
}

fn told(answer: Answer) -> (&'static str, Response) {
    let outcome = if answer.allowed { "allowed" } else { "refused" };
    (outcome, Json(answer.body).into_response())
}

fn about_pod(hooks: &Hooks, request: &Request) -> (&'static str, Response) {
    let patch = match &hooks.readiness.networks {
        Some(networks) if !networks.is_ready() => return ("not_ready", not_ready()),
        Some(networks) if request.is_creation() && hooks.injection.concerns(&request.namespace) => {
            networks.patch(&request.object, &request.namespace)
        }
        _ => Ok(Vec::new()),
    };
    told(review::complete_pod(request, patch))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, router: Router, closing: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            // The semaphore is never closed.
            let slot = slots.clone().acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = closing.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (acceptor, router, closing) = (acceptor.clone(), router.clone(), closing.clone());
                connections.spawn(async move {
                    connection(stream, acceptor, router, closing).await;
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "a connection to the admission port could not be accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, closing: CancellationToken) {
    let Ok(Ok(stream)) = timeout(READ_WITHIN, acceptor.accept(stream)).await else {
        return;
    };
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_WITHIN);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(READ_WITHIN));
    let service = TowerToHyperService::new(router);
    let mut serving = pin!(server.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = &mut serving => served,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection to the admission port ended");
    }
}
