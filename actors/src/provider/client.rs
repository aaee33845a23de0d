//! The HTTP client, and how it follows certificate files that change.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::http::ProviderHttpError;
use super::tls::{self, TlsError, TlsFiles, TlsMaterial};

/// Certificate files are looked at no more often, and only when there is a call.
const FILES_EVERY: Duration = Duration::from_secs(1);
/// Shorter than the keep-alive of common servers (60 s and more): a connection that the server closes while a
/// request is on its way makes an unknown outcome out of nothing.
const IDLE_CONNECTION: Duration = Duration::from_secs(15);
/// Idle connections kept.
const IDLE_CONNECTIONS: usize = 8;

/// A client that is rebuilt when a certificate file changed.
pub(super) struct FollowingClient {
    files: TlsFiles,
    verify: bool,
    system_roots: Arc<RootCertStore>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    client: reqwest::Client,
    material: TlsMaterial,
    checked: Instant,
}

impl FollowingClient {
    /// Reads the files and builds the first client. `verify`: certificates of servers are checked.
    pub(super) async fn new(files: TlsFiles, verify: bool) -> Result<Self, ProviderHttpError> {
        let system_roots = if verify && files.ca.is_none() {
            tokio::task::spawn_blocking(tls::system_roots)
                .await
                .map_err(|_| TlsError::NoRoots)?
        } else {
            RootCertStore::empty()
        };
        let system_roots = Arc::new(system_roots);
        let material = files.read().await?;
        let client = client(&material, &system_roots, verify)?;
        let loaded = Mutex::new(Loaded {
            client,
            material,
            checked: Instant::now(),
        });
        Ok(Self {
            files,
            verify,
            system_roots,
            loaded,
        })
    }

    /// The client. Calls in flight keep the one that they have.
    pub(super) async fn get(&self) -> reqwest::Client {
        let mut loaded = self.loaded.lock().await;
        let now = Instant::now();
        if self.files.none() || now.duration_since(loaded.checked) < FILES_EVERY {
            return loaded.client.clone();
        }
        loaded.checked = now;
        // Contents are compared, not times: files that are mounted from a Secret change by a swapped link.
        match self.files.read().await {
            Ok(material) if material == loaded.material => {}
            Ok(material) => match client(&material, &self.system_roots, self.verify) {
                Ok(client) => {
                    tracing::info!("the provider's certificate files changed and were read anew");
                    loaded.client = client;
                    loaded.material = material;
                }
                Err(why) => {
                    tracing::warn!(%why, "new certificate files are not usable; the old ones stay in use");
                }
            },
            Err(why) => tracing::warn!(%why, "certificate files cannot be read; the old ones stay in use"),
        }
        loaded.client.clone()
    }
}

fn client(
    material: &TlsMaterial,
    system_roots: &Arc<RootCertStore>,
    verify: bool,
) -> Result<reqwest::Client, ProviderHttpError> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls::client_config(material, system_roots, verify)?)
        .user_agent(concat!("orbweaver/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // The provider is a Service of the cluster; a proxy for the world outside does not know it.
        .no_proxy()
        .http1_only()
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build()
        .map_err(ProviderHttpError::Client)
}
