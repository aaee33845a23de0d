//! What the controller is told: flags and variables ([`Args`]) and `conf.yml` ([`mod@file`]).

pub mod file;
pub mod gc;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use metrics_exporter_prometheus::PrometheusHandle;
use orbweaver_api::config::{ConfFile, ProviderConfig};

use crate::admission::Settings;
use crate::admission::certificate::Source;
use crate::admission::injection::Injection;
use crate::admission::keeper::Place;
use crate::admission::server::WebhookConfig;
use crate::cluster::Cluster;
use crate::collection::Policy;
use crate::config::file::FileError;
use crate::config::gc::GcArgs;
use crate::lease::election::{Timing, TimingError};
use crate::telemetry::LogFormat;

/// Name of the lease (reference §5.1).
pub const LEASE_NAME: &str = "spiderpool-controller-leases";
/// The variable that names this replica when nothing else does.
pub const HOST_NAME: &str = "HOSTNAME";

/// What to do instead of running as a daemon.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Look at the cluster and tell what would be collected, and why
    Gc {
        /// Write nothing; the only way there is, because the leader is the one who collects
        #[arg(long, required = true)]
        dry_run: bool,
    },
}

/// The cluster controller of Orbweaver: leads by a lease, keeps pools' counters and finalizers, collects garbage.
#[derive(Clone, Debug, Parser)]
#[command(name = "orbweaver-controller", version)]
pub struct Args {
    /// What to do instead
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Kubeconfig file; without it KUBECONFIG, then the pod's service account
    #[arg(long, global = true, env = "ORBWEAVER_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the lease; also SPIDERPOOL_POD_NAMESPACE
    #[arg(long, env = "ORBWEAVER_NAMESPACE")]
    pub namespace: Option<String>,
    /// Name of this replica in the lease; also SPIDERPOOL_POD_NAME; without it the host's name
    #[arg(long, env = "ORBWEAVER_IDENTITY")]
    pub identity: Option<String>,
    /// Address of /livez, /readyz and /metrics
    #[arg(long, env = "ORBWEAVER_ADMIN_LISTEN", default_value = "0.0.0.0:5720")]
    pub admin_listen: SocketAddr,
    /// Address of the admission webhooks, with TLS
    #[arg(long, env = "ORBWEAVER_WEBHOOK_LISTEN", default_value = "0.0.0.0:5722")]
    pub webhook_listen: SocketAddr,
    /// PEM file of the webhooks' certificate chain; without it and --tls-key, --tls-secret is used
    #[arg(long, env = "ORBWEAVER_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the key of --tls-cert
    #[arg(long, env = "ORBWEAVER_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// PEM file of the authorities that API servers are to trust with --tls-cert; without it caBundle is not touched
    #[arg(long, env = "ORBWEAVER_TLS_CA", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// Secret of the webhooks' certificate, shared by replicas; made and renewed unless it has no ca.key
    #[arg(
        long,
        env = "ORBWEAVER_TLS_SECRET",
        default_value = "spiderpool-controller-server-certs"
    )]
    pub tls_secret: String,
    /// Further DNS name or address under which API servers call the webhooks; may be repeated
    #[arg(long, env = "ORBWEAVER_WEBHOOK_NAME", value_delimiter = ',')]
    pub webhook_name: Vec<String>,
    /// MutatingWebhookConfiguration whose caBundle is kept right; empty: none
    #[arg(
        long,
        env = "ORBWEAVER_MUTATING_WEBHOOK_CONFIGURATION",
        default_value = "spiderpool-controller"
    )]
    pub mutating_webhook_configuration: String,
    /// ValidatingWebhookConfiguration whose caBundle is kept right; empty: none
    #[arg(
        long,
        env = "ORBWEAVER_VALIDATING_WEBHOOK_CONFIGURATION",
        default_value = "spiderpool-controller"
    )]
    pub validating_webhook_configuration: String,
    /// Path of conf.yml
    #[arg(long, global = true, env = "ORBWEAVER_CONFIG")]
    pub config: Option<PathBuf>,
    /// How log lines look
    #[arg(long, env = "ORBWEAVER_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// trace, debug, info, warn, error, or a tracing filter; also SPIDERPOOL_LOG_LEVEL
    #[arg(long, env = "ORBWEAVER_LOG_LEVEL")]
    pub log_level: Option<String>,
    /// Seconds that others wait for a leader that does not renew
    #[arg(long, env = "ORBWEAVER_LEASE_DURATION", default_value = "15")]
    pub lease_duration: u64,
    /// Seconds after which a leader that cannot renew stops
    #[arg(long, env = "ORBWEAVER_RENEW_DEADLINE", default_value = "10")]
    pub renew_deadline: u64,
    /// Seconds between attempts to get or renew the lease
    #[arg(long, env = "ORBWEAVER_RETRY_PERIOD", default_value = "2")]
    pub retry_period: u64,
    /// Seconds for which a pool's count of claims may be wrong before it is corrected
    #[arg(long, env = "ORBWEAVER_SETTLE_DELAY", default_value = "5")]
    pub settle_delay: u64,
    /// Seconds after which a pool is looked at even if nothing happens
    #[arg(long, env = "ORBWEAVER_RESYNC_PERIOD", default_value = "300")]
    pub resync_period: u64,
    /// Garbage collection
    #[command(flatten)]
    pub gc: GcArgs,
}

/// Everything that a controller needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the cluster is.
    pub cluster: Cluster,
    /// Namespace of the lease.
    pub namespace: String,
    /// This replica.
    pub identity: String,
    /// The admin port; `None`: none.
    pub admin_listen: Option<SocketAddr>,
    /// The admission port; `None`: none.
    pub webhook: Option<WebhookConfig>,
    /// What `/metrics` shows; `None` when the process has a recorder of its own.
    pub metrics: Option<PrometheusHandle>,
    /// Durations of the election.
    pub timing: Timing,
    /// For how long a pool's count of claims may be wrong before it is corrected.
    pub settle_delay: Duration,
    /// After how long a pool is looked at even if nothing happens.
    pub resync_period: Duration,
    /// How garbage is collected.
    pub collection: Policy,
    /// The network provider that sub-ENIs are given back to.
    pub provider: Option<ProviderConfig>,
}

/// The controller cannot start with what it was told.
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
        /// The flag.
        name: &'static str,
        /// As given.
        value: String,
        /// What would be right.
        why: &'static str,
    },
    /// The election's durations do not fit together.
    #[error("--lease-duration, --renew-deadline and --retry-period do not fit together")]
    Timing(#[from] TimingError),
    /// `conf.yml` is wrong.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Config {
    /// What a controller needs at least; everything else is the default. For controllers inside another process.
    pub fn new(cluster: Cluster, namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            cluster,
            namespace: namespace.into(),
            identity: identity.into(),
            admin_listen: None,
            webhook: None,
            metrics: None,
            timing: Timing::default(),
            settle_delay: Duration::from_secs(5),
            resync_period: Duration::from_secs(300),
            collection: Policy::default(),
            provider: None,
        }
    }

    /// Takes what `conf.yml` says.
    pub fn apply(
        &mut self,
        args: &Args,
        conf: &ConfFile,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        self.collection = args.gc.resolve(conf, lookup)?;
        self.provider = conf.provider().map_err(FileError::from)?;
        if let Some(provider) = &self.provider {
            // The file's rules hold it between nothing and the static limit.
            self.collection.release_budget = provider
                .http_request_timeout
                .to_std()
                .unwrap_or(self.collection.release_budget);
        }
        Ok(())
    }

    /// From flags and variables (`lookup`, for the names that Spiderpool's charts set).
    pub fn resolve(args: &Args, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let namespace = or_variable(args.namespace.as_ref(), "SPIDERPOOL_POD_NAMESPACE", lookup).ok_or(
            ConfigError::Missing {
                flag: "--namespace",
                variable: "ORBWEAVER_NAMESPACE",
            },
        )?;
        // Two replicas of one name never lead at once all the same: a lease is known by its term.
        let identity = or_variable(args.identity.as_ref(), "SPIDERPOOL_POD_NAME", lookup)
            .or_else(|| or_variable(None, HOST_NAME, lookup))
            .ok_or(ConfigError::Missing {
                flag: "--identity",
                variable: "ORBWEAVER_IDENTITY",
            })?;
        let cluster = args
            .kubeconfig
            .clone()
            .map_or(Cluster::Infer, Cluster::Kubeconfig);
        let mut config = Self::new(cluster, namespace, identity);
        config.admin_listen = Some(args.admin_listen);
        config.webhook = Some(webhook(args, &config.namespace));
        config.timing = Timing {
            lease: positive("--lease-duration", args.lease_duration)?,
            renew_deadline: positive("--renew-deadline", args.renew_deadline)?,
            retry: positive("--retry-period", args.retry_period)?,
        };
        config.timing.check()?;
        config.settle_delay = positive("--settle-delay", args.settle_delay)?;
        config.resync_period = positive("--resync-period", args.resync_period)?;
        Ok(config)
    }
}

/// Without files, a shared secret for the names of the chart's service.
fn webhook(args: &Args, namespace: &str) -> WebhookConfig {
    let source = match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Source::Files {
            chain: chain.clone(),
            key: key.clone(),
            trust: args.tls_ca.clone(),
        },
        _ => Source::Secret {
            name: args.tls_secret.clone(),
            names: [
                format!("spiderpool-controller.{namespace}.svc"),
                format!("spiderpool-controller.{namespace}.svc.cluster.local"),
                "localhost".to_owned(),
                "127.0.0.1".to_owned(),
            ]
            .into_iter()
            .chain(args.webhook_name.iter().cloned())
            .collect(),
        },
    };
    let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    WebhookConfig {
        listen: args.webhook_listen,
        place: Place {
            source,
            namespace: namespace.to_owned(),
            mutating: named(&args.mutating_webhook_configuration),
            validating: named(&args.validating_webhook_configuration),
        },
        settings: Settings::default(),
        injection: Injection::default(),
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
    let set = |value: &String| !value.is_empty();
    // A chart that renders an empty value means none.
    flag.cloned().filter(set).or_else(|| lookup(variable).filter(set))
}

fn positive(name: &'static str, seconds: u64) -> Result<Duration, ConfigError> {
    match seconds {
        1..=86_400 => Ok(Duration::from_secs(seconds)),
        _ => Err(ConfigError::Wrong {
            name,
            value: seconds.to_string(),
            why: "write 1 to 86400 seconds",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: &[&str]) -> Result<Config, ConfigError> {
        let args = Args::parse_from(std::iter::once(&"orbweaver-controller").chain(flags));
        Config::resolve(&args, &|name| match name {
            "SPIDERPOOL_POD_NAMESPACE" => Some("ns".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_charts_variables_are_understood_and_flags_beat_them() {
        let config = resolve(&["--identity", "c-0"]).unwrap();
        assert_eq!(
            (config.namespace.as_str(), config.identity.as_str()),
            ("ns", "c-0")
        );
        assert_eq!(config.timing, Timing::default());
        assert_eq!(
            resolve(&["--identity", "c", "--namespace", "other"])
                .unwrap()
                .namespace,
            "other"
        );
    }

    #[test]
    fn a_replica_without_a_name_takes_the_hosts() {
        let named = |flags: &[&str], variables: &'static [(&str, &str)]| {
            let args = Args::parse_from([&["c", "--namespace", "n"], flags].concat());
            let lookup = move |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name)?;
                Some(found.1.to_owned())
            };
            Config::resolve(&args, &lookup).unwrap().identity
        };
        let both = &[("SPIDERPOOL_POD_NAME", "pod"), (HOST_NAME, "host")];
        assert_eq!(named(&["--identity", "flag"], both), "flag");
        assert_eq!(named(&["--identity", ""], both), "pod");
        assert_eq!(
            named(&[], &[("SPIDERPOOL_POD_NAME", ""), (HOST_NAME, "host")]),
            "host"
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let text = |flags: &[&str]| crate::chain(&resolve(flags).unwrap_err());
        assert!(text(&[]).contains("ORBWEAVER_IDENTITY"));
        let timing = text(&["--identity", "c", "--lease-duration", "10"]);
        assert!(
            timing.contains("--lease-duration") && timing.contains("10s"),
            "{timing}"
        );
        for flag in [
            "--settle-delay",
            "--lease-duration",
            "--renew-deadline",
            "--retry-period",
        ] {
            for value in ["0", "18446744073709551615"] {
                assert!(
                    text(&["--identity", "c", flag, value]).contains(flag),
                    "{flag} {value}"
                );
            }
        }
    }
}
