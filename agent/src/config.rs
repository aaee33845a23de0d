//! What the agent is told: flags and variables ([`Args`]), `conf.yml` ([`mod@file`]), and the two together.

pub mod file;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use metrics_exporter_prometheus::PrometheusHandle;
use orbweaver_actors::provider::ProviderHttpOptions;
use orbweaver_actors::supervisor::Returning;
use orbweaver_api::config::ConfFile;
use orbweaver_api::mac::Mac;

use crate::cluster::Cluster;
use crate::config::file::FileError;
use crate::explain::ExplainArgs;
use crate::telemetry::LogFormat;

/// Claims a pool may hold (reference §4.2).
const MAX_CLAIMS: usize = 5000;

/// The node agent of Orbweaver: gives pods their addresses.
#[derive(Clone, Debug, Parser)]
#[command(name = "orbweaver-agent", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Something else than to serve
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Kubeconfig file; without it KUBECONFIG, then the pod's service account
    #[arg(long, env = "ORBWEAVER_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the node that this agent serves; also SPIDERPOOL_NODE_NAME
    #[arg(long, env = "ORBWEAVER_NODE_NAME")]
    pub node_name: Option<String>,
    /// Unix socket to serve on; else ipamUnixSocketPath of conf.yml, else /var/run/spidernet/spiderpool.sock
    #[arg(long, env = "ORBWEAVER_SOCKET")]
    pub socket: Option<PathBuf>,
    /// Numeric group that may use the socket beside root
    #[arg(long, env = "ORBWEAVER_SOCKET_GROUP")]
    pub socket_group: Option<u32>,
    /// Path of conf.yml
    #[arg(long, env = "ORBWEAVER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address of /livez, /readyz and /metrics
    #[arg(long, env = "ORBWEAVER_ADMIN_LISTEN", default_value = "0.0.0.0:5711")]
    pub admin_listen: SocketAddr,
    /// How log lines look
    #[arg(long, env = "ORBWEAVER_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// trace, debug, info, warn, error, or a tracing filter; also SPIDERPOOL_LOG_LEVEL
    #[arg(long, env = "ORBWEAVER_LOG_LEVEL")]
    pub log_level: Option<String>,
    /// Multus default network, as ns/name or name; also MULTUS_CLUSTER_NETWORK
    #[arg(long, env = "ORBWEAVER_CLUSTER_NETWORK")]
    pub cluster_network: Option<String>,
    /// Namespace of the agent and of network names without one; also SPIDERPOOL_POD_NAMESPACE
    #[arg(long, env = "ORBWEAVER_NAMESPACE")]
    pub namespace: Option<String>,
    /// MAC of a link that this process cannot see, as eth1=fa:16:3e:00:00:01; may be repeated
    #[arg(long, env = "ORBWEAVER_LINK_MAC", value_delimiter = ',', value_parser = link_mac)]
    pub link_mac: Vec<(String, Mac)>,
    /// Claims that one pool may hold [default: 5000]; also SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS
    #[arg(long, env = "ORBWEAVER_MAX_CLAIMS_PER_POOL")]
    pub max_claims_per_pool: Option<usize>,
    /// Requests served at once; further ones are told to come back
    #[arg(long, env = "ORBWEAVER_MAX_REQUESTS", default_value = "256")]
    pub max_requests: usize,
    /// Seconds that requests in flight get when the agent stops
    #[arg(long, env = "ORBWEAVER_GRACEFUL_PERIOD", default_value = "20")]
    pub graceful_period: u64,
}

/// What the program does besides serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Why a pod of this node gets, or does not get, its addresses from which pools; claims nothing
    Explain(ExplainArgs),
}

/// Everything that an agent needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub node_name: Arc<str>,
    /// Where the cluster is.
    pub cluster: Cluster,
    /// The socket's path.
    pub socket: PathBuf,
    /// Numeric group of the socket.
    pub socket_group: Option<u32>,
    /// The admin port; `None`: none.
    pub admin_listen: Option<SocketAddr>,
    /// What `/metrics` shows; `None` when the process has a recorder of its own.
    pub metrics: Option<PrometheusHandle>,
    /// Namespace of network names without one.
    pub namespace: Arc<str>,
    /// Multus default network.
    pub cluster_network: Option<String>,
    /// MACs of links that are not asked of the kernel.
    pub link_macs: BTreeMap<String, Mac>,
    /// Claims that one pool may hold.
    pub max_claims_per_pool: usize,
    /// Requests served at once.
    pub max_requests: usize,
    /// What requests in flight get when the agent stops.
    pub graceful_period: Duration,
    /// How long the first lists may take.
    pub start_budget: Duration,
    /// `enableIPv4`.
    pub enable_ipv4: bool,
    /// `enableIPv6`.
    pub enable_ipv6: bool,
    /// `enableStatefulSet` and `enableKubevirtStaticIP`.
    pub returning: Returning,
    /// The network provider; `None`: none is configured.
    pub provider: Option<ProviderHttpOptions>,
}

/// The agent cannot start with what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A required value is missing.
    #[error("{flag} is missing; set it, or the variable {variable}")]
    Missing {
        /// The flag.
        flag: &'static str,
        /// The first variable that would do.
        variable: &'static str,
    },
    /// A value is wrong.
    #[error("{name} {value:?} is wrong: {why}")]
    Wrong {
        /// Flag or variable.
        name: &'static str,
        /// As given.
        value: String,
        /// What would be right.
        why: String,
    },
    /// `conf.yml` is wrong.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Config {
    /// What an agent of `node` needs at least; everything else is the default. For agents inside another
    /// process.
    pub fn of_node(node: &str, cluster: Cluster, socket: PathBuf) -> Self {
        Self {
            node_name: node.into(),
            cluster,
            socket,
            socket_group: None,
            admin_listen: None,
            metrics: None,
            namespace: "kube-system".into(),
            cluster_network: None,
            link_macs: BTreeMap::new(),
            max_claims_per_pool: MAX_CLAIMS,
            max_requests: 256,
            graceful_period: Duration::from_secs(20),
            start_budget: Duration::from_secs(300),
            enable_ipv4: true,
            enable_ipv6: true,
            returning: Returning {
                stateful_sets: true,
                virtual_machines: true,
            },
            provider: None,
        }
    }

    /// From flags, variables (`lookup`, for the names that Spiderpool's charts set) and `conf.yml`.
    pub fn resolve(
        args: &Args,
        file: &ConfFile,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let node = or_variable(args.node_name.as_ref(), "SPIDERPOOL_NODE_NAME", lookup).ok_or(
            ConfigError::Missing {
                flag: "--node-name",
                variable: "ORBWEAVER_NODE_NAME",
            },
        )?;
        check_node_name(&node)?;
        let provider = file::provider(file)?;
        let cluster = args
            .kubeconfig
            .clone()
            .map_or(Cluster::Infer, Cluster::Kubeconfig);
        let socket = args.socket.clone();
        let socket = socket.unwrap_or_else(|| file.ipam_unix_socket_path.clone());
        let mut config = Self::of_node(&node, cluster, socket);
        config.socket_group = args.socket_group;
        config.admin_listen = Some(args.admin_listen);
        if let Some(namespace) = or_variable(args.namespace.as_ref(), "SPIDERPOOL_POD_NAMESPACE", lookup) {
            config.namespace = namespace.into();
        }
        config.cluster_network = or_variable(args.cluster_network.as_ref(), "MULTUS_CLUSTER_NETWORK", lookup);
        config.link_macs = args.link_mac.iter().cloned().collect();
        config.max_claims_per_pool = max_claims(args, lookup)?;
        config.max_requests = positive("--max-requests", args.max_requests)?;
        config.graceful_period = Duration::from_secs(args.graceful_period);
        config.enable_ipv4 = file.enable_ipv4;
        config.enable_ipv6 = file.enable_ipv6;
        config.returning = Returning {
            stateful_sets: file.enable_stateful_set,
            virtual_machines: file.enable_kubevirt_static_ip,
        };
        config.provider = provider;
        Ok(config)
    }
}

/// The level to log at: flag, Spiderpool's variable, `info`.
pub fn log_level(args: &Args, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    or_variable(args.log_level.as_ref(), "SPIDERPOOL_LOG_LEVEL", lookup).unwrap_or_else(|| "info".to_owned())
}

fn or_variable(
    flag: Option<&String>,
    variable: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    flag.cloned()
        .or_else(|| lookup(variable))
        .filter(|value| !value.is_empty())
}

fn link_mac(text: &str) -> Result<(String, Mac), String> {
    let (link, mac) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} has no '='; write eth1=fa:16:3e:00:00:01"))?;
    let mac = mac.parse().map_err(|error| format!("{error}"))?;
    Ok((link.to_owned(), mac))
}

/// The name ends up in field selectors.
fn check_node_name(node: &str) -> Result<(), ConfigError> {
    let good = node.len() <= 253
        && node
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.');
    if good {
        return Ok(());
    }
    Err(ConfigError::Wrong {
        name: "--node-name",
        value: node.to_owned(),
        why: "a node's name has up to 253 lower-case letters, digits, '-' and '.'".to_owned(),
    })
}

fn max_claims(args: &Args, lookup: &dyn Fn(&str) -> Option<String>) -> Result<usize, ConfigError> {
    const VARIABLE: &str = "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS";
    if let Some(limit) = args.max_claims_per_pool {
        return positive("--max-claims-per-pool", limit);
    }
    let Some(text) = lookup(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(MAX_CLAIMS);
    };
    let limit = text.parse().map_err(|_| ConfigError::Wrong {
        name: VARIABLE,
        value: text.clone(),
        why: "write a whole number".to_owned(),
    })?;
    positive(VARIABLE, limit)
}

fn positive(name: &'static str, value: usize) -> Result<usize, ConfigError> {
    if value > 0 {
        return Ok(value);
    }
    Err(ConfigError::Wrong {
        name,
        value: value.to_string(),
        why: "it must be at least 1".to_owned(),
    })
}

#[cfg(test)]
mod tests;
