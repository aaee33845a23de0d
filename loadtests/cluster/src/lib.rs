//! A Kubernetes API server in memory, over HTTPS, for tests, demos and load.
//!
//! **Is simulated**: discovery, OpenAPI roots, tables and partial metadata for `kubectl`; create, read, list
//! (label and field selectors, paging), watch (bookmarks, streaming lists, 410), update, merge, JSON, strategic
//! and server-side apply patches; one version counter, conflicts, UIDs, generations; the status subresource;
//! finalizers, graceful deletion of pods, preconditions; owner references and namespaces; custom resources with
//! schemas (validation, defaults, pruning, `self == oldSelf`), printer columns and short names; leases; bearer
//! token; admission webhooks by URL (rules, selectors, failure policy, dry run, `caBundle`); counters of requests and
//! injected faults.
//!
//! **Is not**: other CEL rules, conversion, RBAC (the one token may do everything), webhooks by service, their match
//! conditions and reinvocation, built-in validation, protobuf, lists merged by key under server-side apply (they are atomic), persistence.

mod admission;
mod apply;
pub mod counters;
mod deletion;
mod discovery;
pub mod error;
pub mod faults;
mod handler;
pub mod kind;
mod lifecycle;
mod ops;
mod patch;
mod route;
mod schema;
mod selector;
pub mod store;
mod table;
mod tls;
mod watch;
mod webhook;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::counters::Counters;
use crate::faults::Faults;
use crate::kind::ResourceKey;
use crate::store::Store;

/// How long a client may take for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How the cluster is started.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Where it listens; port 0 chooses one.
    pub listen: SocketAddr,
    /// Changes of each resource that watches can go back to.
    pub history: usize,
    /// Added to every request.
    pub latency: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            history: 20_000,
            latency: Duration::ZERO,
        }
    }
}

/// What connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) counters: Counters,
    pub(crate) faults: Faults,
    pub(crate) token: String,
    pub(crate) latency: Duration,
    pub(crate) stopping: CancellationToken,
    pub(crate) callers: admission::Callers,
}

/// A running cluster. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_pem: String,
    tasks: TaskTracker,
}

/// The cluster could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Certificates could not be made.
    #[error("cannot make certificates: {0}")]
    Certificates(String),
}

impl Cluster {
    /// Starts serving, with the namespaces `default` and `kube-system`.
    pub async fn start(options: ClusterOptions) -> Result<Self, StartError> {
        let address = options.listen;
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (acceptor, ca_pem) = tls::acceptor().map_err(StartError::Certificates)?;
        let shared = Arc::new(Shared {
            store: Store::new(options.history),
            counters: Counters::default(),
            faults: Faults::default(),
            token: format!("{:032x}", rand::random::<u128>()),
            latency: options.latency,
            stopping: CancellationToken::new(),
            callers: admission::Callers::default(),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(accept(shared.clone(), listener, acceptor, tasks.clone()));
        let cluster = Self {
            shared,
            address,
            ca_pem,
            tasks,
        };
        for namespace in ["default", "kube-system"] {
            cluster.add_namespace(namespace);
        }
        Ok(cluster)
    }

    fn add_namespace(&self, name: &str) {
        let kinds = self.shared.store.kinds();
        let kind = kinds.iter().find(|kind| kind.kind == "Namespace");
        if let Some(kind) = kind {
            let key = (String::new(), name.to_owned());
            let write = ops::Write {
                kind,
                key,
                subresource: "",
                manager: "cluster-sim",
                force: false,
                dry_run: false,
            };
            // It is there already when two callers ask for it.
            let _ = ops::create(
                &self.shared.store,
                &write,
                serde_json::json!({ "metadata": { "name": name } }),
            );
        }
    }

    /// `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig with the CA and a token that may do everything.
    pub fn kubeconfig(&self) -> String {
        tls::kubeconfig(&self.url(), &self.ca_pem, &self.shared.token)
    }

    /// Counts of requests.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }

    /// Faults to inject.
    pub fn faults(&self) -> Faults {
        self.shared.faults.clone()
    }

    /// Makes every watch that is behind get 410.
    pub fn compact(&self) {
        self.shared.store.compact();
    }

    /// An object, straight from the store.
    pub fn get(&self, resource: &ResourceKey, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.shared
            .store
            .get(resource, &(namespace.to_owned(), name.to_owned()))
    }

    /// All objects, straight from the store.
    pub fn list(&self, resource: &ResourceKey) -> Vec<Arc<Value>> {
        self.shared.store.list(resource, None).1
    }

    /// Ends every connection and waits for the tasks.
    pub async fn shutdown(&self) {
        self.shared.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, acceptor: TlsAcceptor, tasks: TaskTracker) {
    loop {
        let stream = tokio::select! {
            () = shared.stopping.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    continue;
                }
            },
        };
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        tasks.spawn(async move {
            let stopping = shared.stopping.clone();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = connection(shared, stream, acceptor) => {}
            }
        });
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, acceptor: TlsAcceptor) {
    // Small answers should not wait for more.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await else {
        return;
    };
    let service = service_fn(move |request| handler::serve(shared.clone(), request));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(10_000);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}
