//! A network provider that obeys the seed's contract, over a simulated cloud, for tests, demos and load.
//!
//! | part | what it is |
//! |---|---|
//! | [`truth`] | the cloud itself: sub-ENIs, VLANs of parent NICs, their limit. Outlives every provider |
//! | [`ask`], [`budget`], [`bucket`], [`plan`], [`refusal`] | the rules of the two calls |
//! | [`pool_view`], [`envelope`], [`prewarm`], [`watermark`] | the rules of pools and their ledgers |
//! | [`faults`], [`calls`] | what tests make go wrong, and what they look at |
//!
//! Choices where the seed is silent: a budget that is too small is answered 503, a full queue 429 with `Retry-After`,
//! a conflict or a full parent NIC 409, a failure of the cloud 502. A request whose sub-ENIs are all as asked calls no
//! cloud and spends no token. An address that moves keeps its MAC and gets a VLAN of its new parent NIC. A release that
//! names another node than the sub-ENI's is a late one: it changes nothing and succeeds.

pub mod ask;
pub mod bucket;
pub mod budget;
pub mod call_time;
pub mod calls;
mod cloud_api;
mod desk;
pub mod envelope;
mod exchange;
pub mod faults;
pub mod options;
pub mod plan;
pub mod pool_view;
pub mod prewarm;
mod provider;
pub mod refusal;
mod routes;
mod server;
pub mod sub_eni;
mod tls;
pub mod truth;
pub mod watermark;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::calls::{Calls, Counters};
use crate::cloud_api::CloudApi;
use crate::faults::Faults;
use crate::options::BadOption;
pub use crate::options::CloudOptions;
use crate::provider::Provider;
use crate::sub_eni::SubEni;

/// What connections share.
pub(crate) struct Shared {
    pub(crate) cloud: Arc<CloudApi>,
    pub(crate) calls: Calls,
    pub(crate) faults: Faults,
    pub(crate) started: Instant,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
    options: Arc<CloudOptions>,
    kube: Client,
    provider: RwLock<Option<Arc<Provider>>>,
    /// One restart or shutdown at a time.
    turns: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A running cloud with its provider. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Cloud {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_pem: Option<String>,
}

/// The cloud could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] BadOption),
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

impl Cloud {
    /// Starts the cloud, without any sub-ENI, and a provider that keeps the ledgers of the client's cluster.
    pub async fn start(options: CloudOptions, kube: Client) -> Result<Self, StartError> {
        options.check()?;
        let address = options.listen;
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (tls, ca_pem) = if options.tls {
            let (acceptor, ca_pem) = tls::acceptor().map_err(StartError::Certificates)?;
            (Some(acceptor), Some(ca_pem))
        } else {
            (None, None)
        };
        let options = Arc::new(options);
        let faults = Faults::default();
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            cloud: Arc::new(CloudApi::new(options.clone(), faults.clone(), tasks.clone())),
            calls: Calls::new(options.recorded_calls),
            faults,
            started: Instant::now(),
            stopping: CancellationToken::new(),
            tasks,
            options,
            kube,
            provider: RwLock::new(None),
            turns: tokio::sync::Mutex::new(()),
        });
        shared.start_provider();
        shared.tasks.spawn(server::accept(shared.clone(), listener, tls));
        Ok(Self {
            shared,
            address,
            ca_pem,
        })
    }

    /// `http://127.0.0.1:port` or `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The CA that signed the server's certificate; `None` over plain HTTP.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Faults to inject.
    pub fn faults(&self) -> Faults {
        self.shared.faults.clone()
    }

    /// The record of requests.
    pub fn calls(&self) -> Calls {
        self.shared.calls.clone()
    }

    /// Counts since the start or the last reset.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Tokens taken since the start or the last reset.
    pub fn tokens_spent(&self) -> u64 {
        self.counters().tokens
    }

    /// Every sub-ENI there is, in address order, as the cloud itself knows it.
    pub fn sub_enis(&self) -> Vec<SubEni> {
        self.shared.cloud.list().iter().cloned().collect()
    }

    /// Kills the provider and starts another: connections break, what it knew is lost, calls that the cloud has got
    /// go on there.
    pub async fn restart_provider(&self) {
        let _turn = self.shared.turns.lock().await;
        self.shared.stop_provider().await;
        if !self.shared.stopping.is_cancelled() {
            self.shared.start_provider();
        }
    }

    /// Kills the provider and starts none; connections are closed at once.
    pub async fn stop_provider(&self) {
        let _turn = self.shared.turns.lock().await;
        self.shared.stop_provider().await;
    }

    /// Ends everything and waits for it; the cloud finishes the calls that it has got.
    pub async fn shutdown(&self) {
        let _turn = self.shared.turns.lock().await;
        self.shared.stopping.cancel();
        self.shared.stop_provider().await;
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    pub(crate) fn provider(&self) -> Option<Arc<Provider>> {
        self.provider.read().clone()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            cloud: self.cloud.work(),
            ..self.calls.counters()
        }
    }

    fn start_provider(&self) {
        let provider = Provider::start(
            self.cloud.clone(),
            self.options.clone(),
            self.calls.clone(),
            self.kube.clone(),
        );
        *self.provider.write() = Some(provider);
    }

    async fn stop_provider(&self) {
        let provider = self.provider.write().take();
        if let Some(provider) = provider {
            provider.stop().await;
        }
    }
}
