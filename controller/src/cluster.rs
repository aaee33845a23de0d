//! The way to the API server: one client, without retries of its own.

use std::path::PathBuf;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// How long a connection to the API server may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How the API server's logs and fairness tell the controller from others.
const USER_AGENT: &str = concat!("orbweaver-controller/", env!("CARGO_PKG_VERSION"));

/// Where the cluster is.
#[derive(Clone, Debug, Default)]
pub enum Cluster {
    /// `KUBECONFIG`, `~/.kube/config` or the pod's service account, as kube does it.
    #[default]
    Infer,
    /// A kubeconfig file.
    Kubeconfig(PathBuf),
    /// Given by the process that starts the controller.
    Config(Box<kube::Config>),
}

/// The cluster's access data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Nothing found.
    #[error("no cluster access: set --kubeconfig or KUBECONFIG, or run in a pod with a service account")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// The file cannot be used.
    #[error("the kubeconfig {path} cannot be used")]
    Kubeconfig {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// No client could be made, for example because a certificate cannot be read.
    #[error("no client for the API server can be made")]
    Client(#[source] Box<kube::Error>),
}

/// Makes the client. Must be called on the runtime that will use it.
pub async fn connect(cluster: &Cluster) -> Result<kube::Client, ClusterError> {
    let mut config = match cluster {
        Cluster::Infer => kube::Config::infer()
            .await
            .map_err(|error| ClusterError::Infer(Box::new(error)))?,
        Cluster::Kubeconfig(path) => from_file(path).await?,
        Cluster::Config(config) => (**config).clone(),
    };
    // A write that was answered with 503 or 504 may have happened; only whoever asked knows what that means.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    let builder = ClientBuilder::try_from(config).map_err(|error| ClusterError::Client(Box::new(error)))?;
    Ok(builder.build())
}

async fn from_file(path: &std::path::Path) -> Result<kube::Config, ClusterError> {
    let wrong = |source| ClusterError::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(wrong)
}
