//! One agent: made in order, served, drained in order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::provider::{
    ProviderHandle, ProviderHttp, ProviderHttpError, ProviderHttpOptions, ProviderOptions,
};
use orbweaver_actors::store::{Links, StoreError};
use orbweaver_actors::supervisor::{Ports, SupervisorHandle, SupervisorOptions};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::admin::{AdminServer, Health, Phase};
use crate::cluster::{self, ClusterError};
use crate::config::Config;
use crate::events::{self, PodEvents};
use crate::host::ActorHost;
use crate::links::NodeLinks;
use crate::parent_nic;
use crate::server::service::Agent;
use crate::server::socket::{Peers, Socket, SocketError};
use crate::server::{self, Server, ServerLimits};
use crate::store::Calls;
use crate::store::endpoints::KubeEndpoints;
use crate::store::owners::KubeOwners;
use crate::store::pools::KubePools;
use crate::watch::view::{KubeView, Watched};
use crate::watch::{self, WatchError};

/// Between tries of the start-up list of endpoints.
const LIST_PAUSE: Duration = Duration::from_secs(2);
/// Connections beyond one per request: probes and clients that keep theirs.
const SPARE_CONNECTIONS: usize = 64;
/// How often the Provider, which tells nobody when it stops, is looked at.
const PROVIDER_LOOK: Duration = Duration::from_secs(5);

/// The agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No way to the API server.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The admin port.
    #[error("the admin port {address} cannot be opened; give another --admin-listen")]
    Admin {
        /// As configured.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The first lists.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A watch ended.
    #[error("the watch of {0} ended while the agent started")]
    WatchEnded(&'static str),
    /// The list of endpoints.
    #[error("this node's SpiderEndpoints could not be listed: {0}")]
    Endpoints(#[source] StoreError),
    /// The provider's client.
    #[error(transparent)]
    Provider(#[from] ProviderHttpError),
    /// The actor threads are gone.
    #[error("the actor threads have ended")]
    NoActors,
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Who this process is cannot be found out.
    #[error("the agent's own user cannot be read from /proc/self")]
    OwnUser(#[source] std::io::Error),
}

/// An agent that serves. Dropping it is a crash: connections are cut off, watches end, nothing is drained.
#[derive(Debug)]
pub struct RunningAgent {
    socket: PathBuf,
    health: Health,
    admin: Option<AdminServer>,
    server: Server,
    supervisor: SupervisorHandle,
    provider: Option<ProviderHandle>,
    fatal: oneshot::Receiver<String>,
    tasks: JoinSet<&'static str>,
    graceful_period: Duration,
}

/// Starts an agent whose actors live on `host`, and returns when it serves. Order: probes answer, every
/// list is complete, endpoints are known, actors run, and only then the socket opens (peer lesson L2).
pub async fn start(config: Config, host: &ActorHost) -> Result<RunningAgent, StartError> {
    // Whoever was first decides; both are ring in this workspace.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let give_up = Instant::now() + config.start_budget;
    let health = Health::default();
    let admin = open_admin(&config, &health).await?;
    let client = cluster::connect(&config.cluster).await?;

    health.enter(Phase::Starting("the first lists are not complete"));
    let watched = Arc::new(Watched::default());
    let mut tasks = watch::start(&client, &config.node_name, &watched);
    tokio::select! {
        complete = watched.complete(config.start_budget) => complete?,
        ended = tasks.join_next() => return Err(StartError::WatchEnded(task_name(ended.as_ref()))),
    }
    // Bounds of their own: a burst of endpoint writes must not keep a pool's one write waiting.
    let (pool_calls, endpoint_calls, view_calls) = (Calls::default(), Calls::default(), Calls::default());
    let node = config.node_name.clone();
    let endpoints = Arc::new(KubeEndpoints::new(client.clone(), endpoint_calls, node.clone()));
    let known = load(&endpoints, give_up).await?;
    info!(endpoints = known, "caches complete");

    let provider = match config.provider.clone() {
        Some(options) => Some(start_provider(options, host).await?),
        None => None,
    };
    let pools = KubePools::new(client.clone(), pool_calls);
    let links: Arc<dyn Links> = Arc::new(NodeLinks {
        given: config.link_macs.clone(),
    });
    let (events, told) = PodEvents::new(node.clone());
    let owner_calls = Calls::default();
    let ports = Ports {
        pools: Arc::new(pools.clone()),
        endpoints: endpoints.clone(),
        view: Arc::new(KubeView::new(
            watched.clone(),
            node.clone(),
            client.clone(),
            view_calls,
        )),
        owners: Arc::new(KubeOwners::new(client.clone(), owner_calls.clone())),
        events: Arc::new(events),
        links: links.clone(),
        provider: provider.clone(),
    };
    tasks.spawn(async move {
        events::publish(client, owner_calls, told).await;
        "Events"
    });
    let (supervisor, fatal) = start_supervisor(&config, ports, host).await?;
    watched.observe(Arc::new(supervisor.clone()));
    tasks.spawn(async move {
        parent_nic::publish(watched, pools, links, node).await;
        "parent NICs"
    });

    let service = Arc::new(Agent {
        supervisor: supervisor.clone(),
        endpoints,
    });
    let server = match open_socket(&config, service.clone()).await {
        Ok(server) => server,
        Err(error) => {
            supervisor.drain(Deadline::after(Deadline::UNDO_BUDGET)).await;
            return Err(error);
        }
    };
    health.enter(Phase::Serving(service));
    info!(node = &*config.node_name, "serving");
    Ok(RunningAgent {
        socket: config.socket,
        health,
        admin,
        server,
        supervisor,
        provider,
        fatal,
        tasks,
        graceful_period: config.graceful_period,
    })
}

async fn open_admin(config: &Config, health: &Health) -> Result<Option<AdminServer>, StartError> {
    let Some(address) = config.admin_listen else {
        return Ok(None);
    };
    AdminServer::start(address, health.clone(), config.metrics.clone())
        .await
        .map(Some)
        .map_err(|source| StartError::Admin { address, source })
}

async fn open_socket(config: &Config, service: Arc<Agent>) -> Result<Server, StartError> {
    let peers = Peers::new(config.socket_group).map_err(StartError::OwnUser)?;
    let socket = Socket::bind(&config.socket, config.socket_group).await?;
    let limits = ServerLimits {
        connections: config.max_requests + SPARE_CONNECTIONS,
    };
    Ok(Server::start(socket, peers, server::routes(service), limits))
}

async fn load(endpoints: &KubeEndpoints, give_up: Instant) -> Result<usize, StartError> {
    loop {
        match endpoints.load().await {
            Ok(known) => return Ok(known),
            Err(error) if Instant::now() < give_up => {
                warn!(%error, "this node's SpiderEndpoints could not be listed, trying again");
                sleep(LIST_PAUSE).await;
            }
            Err(error) => return Err(StartError::Endpoints(error)),
        }
    }
}

async fn start_provider(
    options: ProviderHttpOptions,
    host: &ActorHost,
) -> Result<ProviderHandle, StartError> {
    let api = Arc::new(ProviderHttp::new(options).await?);
    // The last arbiter: with more than one, provider calls do not share the Supervisor's.
    let arbiter = host.arbiters().last().ok_or(StartError::NoActors)?;
    Ok(ProviderHandle::start(ProviderOptions::default(), api, arbiter))
}

async fn start_supervisor(
    config: &Config,
    ports: Ports,
    host: &ActorHost,
) -> Result<(SupervisorHandle, oneshot::Receiver<String>), StartError> {
    let options = SupervisorOptions {
        node_name: config.node_name.clone(),
        enable_ipv4: config.enable_ipv4,
        enable_ipv6: config.enable_ipv6,
        default_network: config.cluster_network.clone(),
        namespace: config.namespace.clone(),
        returning: config.returning,
        max_claims_per_pool: config.max_claims_per_pool,
        max_requests: config.max_requests,
    };
    let arbiters = host.arbiters().to_vec();
    host.inside(move || SupervisorHandle::start(options, ports, arbiters))
        .await
        .ok_or(StartError::NoActors)
}

fn task_name(ended: Option<&Result<&'static str, JoinError>>) -> &'static str {
    match ended {
        Some(Ok(name)) => name,
        Some(Err(_)) => "a resource (it panicked)",
        None => "every resource",
    }
}

impl RunningAgent {
    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The admin port's real address.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.address)
    }

    /// `Err` says why nothing can be served now.
    pub async fn ready(&self) -> Result<(), String> {
        self.health.ready().await
    }

    /// Waits until something ends that must not; gives the reason. The agent should be stopped then.
    pub async fn ended(&mut self) -> String {
        let provider = self.provider.clone();
        tokio::select! {
            ended = self.tasks.join_next() => format!("the task of {} ended", task_name(ended.as_ref())),
            reason = &mut self.fatal => {
                reason.unwrap_or_else(|_| "the supervisor ended without a word".to_owned())
            }
            () = self.server.accepting_ended() => "the server ended".to_owned(),
            () = provider_ended(provider) => "the provider's actor ended".to_owned(),
        }
    }

    /// Ordered end: probes say no, no new connections, requests in flight end, pools and provider drain.
    /// The threads of the host stay.
    pub async fn stop(self) {
        self.health.enter(Phase::Stopping);
        self.server.stop(self.graceful_period).await;
        self.supervisor
            .drain(Deadline::after(Deadline::UNDO_BUDGET))
            .await;
        if let Some(provider) = &self.provider {
            let report = provider.drain(Deadline::after(self.graceful_period)).await;
            info!(?report, "provider drained");
        }
        let mut tasks = self.tasks;
        tasks.shutdown().await;
    }
}

async fn provider_ended(provider: Option<ProviderHandle>) {
    let Some(provider) = provider else {
        return std::future::pending().await;
    };
    while provider.alive() {
        sleep(PROVIDER_LOOK).await;
    }
}
