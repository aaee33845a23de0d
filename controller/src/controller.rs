//! A whole controller, put together.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use kube::Client;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::provider::{ProviderApi, ProviderHttp, ProviderHttpOptions};
use orbweaver_api::config::ProviderConfig;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::admin::{AdminServer, Health};
use crate::admission::server::{ServerError, WebhookServer};
use crate::cluster::{self, ClusterError};
use crate::collection::cluster::ClusterStore;
use crate::collection::engine::Collector;
use crate::config::{Config, LEASE_NAME};
use crate::lease::campaign::{Campaign, CampaignError};
use crate::lease::election::{Election, TimingError};
use crate::lease::store::ClusterLease;
use crate::{chain, pool};

/// Why a controller ended by itself, or never began.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No client.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The election's durations do not fit together.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The admin port cannot be opened.
    #[error("cannot listen on {address} for probes and metrics; choose another --admin-listen")]
    Admin {
        /// As configured.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The admission port cannot be served.
    #[error(transparent)]
    Webhook(#[from] ServerError),
    /// API servers would get no answer any more.
    #[error("the admission port ended by itself")]
    WebhookEnded,
    /// Nobody could tell any more how this replica is.
    #[error("the admin port ended by itself")]
    AdminEnded,
    /// The leader's work ended.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
}

/// Runs until `shutdown`, or until something fails that another replica may do better. Order of the end: the leader's
/// work, then its lease, then the admission port, which answers what it was asked, then the admin port.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), RunError> {
    config.timing.check()?;
    let health = Health::default();
    let mut admin = match config.admin_listen {
        Some(address) => Some(
            AdminServer::start(address, health.clone(), config.metrics.clone())
                .await
                .map_err(|source| RunError::Admin { address, source })?,
        ),
        None => None,
    };
    let client = cluster::connect(&config.cluster).await?;
    let mut webhook = match &config.webhook {
        Some(webhook) => Some(WebhookServer::start(webhook, client.clone()).await?),
        None => None,
    };
    let lease = ClusterLease::new(client.clone(), &config.namespace, LEASE_NAME);
    let election = Election::new(config.identity.clone(), config.timing);
    info!(
        identity = config.identity,
        namespace = config.namespace,
        "waits to lead"
    );
    let stop = shutdown.child_token();
    let campaign =
        Campaign::new(lease, election).run(&stop, |token| lead(client.clone(), config.clone(), token));
    let mut campaign = pin!(campaign);
    let readiness = webhook.as_ref().map(WebhookServer::readiness);
    let mut readable = pin!(async {
        if let Some(readiness) = readiness {
            readiness.complete().await;
        }
    });
    let mut is_ready = false;
    let result = loop {
        tokio::select! {
            result = &mut campaign => break result.map_err(RunError::from),
            // A replica may lead before: nobody asks it anything for that.
            () = &mut readable, if !is_ready => {
                is_ready = true;
                health.set_ready(true);
            }
            () = admin_ended(admin.as_mut()) => {
                stop.cancel();
                break campaign.await.map_err(RunError::from).and(Err(RunError::AdminEnded));
            }
            () = webhook_ended(webhook.as_mut()) => {
                stop.cancel();
                break campaign.await.map_err(RunError::from).and(Err(RunError::WebhookEnded));
            }
        }
    };
    health.set_ready(false);
    if let Some(webhook) = webhook {
        webhook.stop().await;
    }
    result
}

async fn admin_ended(admin: Option<&mut AdminServer>) {
    match admin {
        Some(admin) => admin.ended().await,
        None => std::future::pending().await,
    }
}

async fn webhook_ended(webhook: Option<&mut WebhookServer>) {
    match webhook {
        Some(webhook) => webhook.ended().await,
        None => std::future::pending().await,
    }
}

/// All that only a leader does.
async fn lead(client: Client, config: Config, token: CancellationToken) -> Result<(), String> {
    let pace = pool::Pace {
        settle: config.settle_delay,
        resync: config.resync_period,
        ..pool::Pace::default()
    };
    let collection = collect(client.clone(), &config).await?;
    tokio::select! {
        () = token.cancelled() => Ok(()),
        () = collection => Err("the collector ended".to_owned()),
        () = pool::reconcile::run(client, pace) => Err("the watch of pools ended".to_owned()),
    }
}

/// The collector's life in one term; for ever, also when it is switched off.
async fn collect(client: Client, config: &Config) -> Result<impl Future<Output = ()> + use<>, String> {
    let provider = match &config.provider {
        Some(provider) if config.collection.enabled => Some(connect_provider(provider).await?),
        _ => None,
    };
    let has_provider = provider.is_some();
    let store = ClusterStore::new(client, provider);
    let collector = Collector::new(store, config.collection, &config.identity, has_provider);
    let enabled = config.collection.enabled;
    Ok(async move {
        if enabled {
            collector.run().await;
        } else {
            std::future::pending::<()>().await;
        }
    })
}

async fn connect_provider(provider: &ProviderConfig) -> Result<Arc<dyn ProviderApi>, String> {
    let options = ProviderHttpOptions {
        base_url: provider.base_url.clone(),
        request_timeout: provider
            .http_request_timeout
            .to_std()
            .unwrap_or(Deadline::UNDO_BUDGET),
        ca_file: provider.ca_file.clone(),
        client_certificate: provider.client_cert.clone(),
        client_key: provider.client_key.clone(),
        insecure_skip_verify: provider.insecure_skip_verify,
    };
    let http = ProviderHttp::new(options).await;
    let http = http.map_err(|error| format!("the network provider cannot be used: {}", chain(&error)))?;
    Ok(Arc::new(http))
}
