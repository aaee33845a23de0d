//! The daemon's life: telemetry, runtime, controller, signal.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use orbweaver_api::config::ConfFile;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::admission::Settings;
use crate::admission::injection::Injection;
use crate::cluster::{self, Cluster};
use crate::collection::cluster::ClusterStore;
use crate::collection::report;
use crate::collection::store::CollectionStore;
use crate::config::{Args, Config, HOST_NAME, file, log_level};
use crate::{chain, controller, metrics, telemetry};

/// What tasks that ignore the end get.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// `conf.yml`; without one, what an empty one says.
fn conf_of(args: &Args) -> Result<ConfFile, file::FileError> {
    let conf = args.config.as_deref().map(file::load).transpose()?;
    Ok(conf.unwrap_or_default())
}

/// Prints what garbage collection would do, and writes nothing.
pub fn dry_run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lookup = |name: &str| std::env::var(name).ok();
    let conf = conf_of(args)?;
    let policy = args.gc.resolve(&conf, &lookup)?;
    let has_provider = conf.provider()?.is_some();
    let cluster = args
        .kubeconfig
        .clone()
        .map_or(Cluster::Infer, Cluster::Kubeconfig);
    // Fails only if the process has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let table = runtime.block_on(async {
        let store = ClusterStore::new(cluster::connect(&cluster).await?, None);
        let seen = store.look().await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(report::table(&seen, &policy, has_provider, store.now()))
    })?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Runs the daemon until a signal or a failure ends it.
pub fn run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lookup = |name: &str| std::env::var(name).ok();
    telemetry::install(args.log_format, &log_level(args, &lookup))?;
    info!(version = env!("CARGO_PKG_VERSION"), "orbweaver-controller starts");
    let conf = conf_of(args)?;
    let mut config = Config::resolve(args, &|name: &str| lookup(name).or_else(|| host_name(name)))?;
    config.apply(args, &conf, &lookup)?;
    if let (Some(_), Some(webhook)) = (&args.config, &mut config.webhook) {
        webhook.settings = Settings {
            ipv4: conf.enable_ipv4,
            ipv6: conf.enable_ipv6,
            guard_deletes: conf.enable_validating_resources_deleted_webhook,
        };
        webhook.injection = Injection::new(&conf.pod_resource_inject, &config.namespace);
    }
    config.metrics = metrics::install();
    // Fails only if the process has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(config));
    runtime.shutdown_timeout(LAST_MOMENT);
    match &result {
        Ok(()) => info!("orbweaver-controller ended"),
        Err(error) => error!(error = chain(error.as_ref()), "orbweaver-controller ends"),
    }
    result
}

/// `HOSTNAME` is in a pod's environment, but on a node it is often only the shell's.
fn host_name(variable: &str) -> Option<String> {
    let name = (variable == HOST_NAME)
        .then(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .flatten()?;
    Some(name.trim().to_owned())
}

async fn serve(config: Config) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let mut running = std::pin::pin!(controller::run(config, shutdown.clone()));
    tokio::select! {
        result = &mut running => return Ok(result?),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("told to stop");
    shutdown.cancel();
    tokio::select! {
        result = &mut running => Ok(result?),
        _ = terminate.recv() => Err("told to stop twice: the drain was cut short".into()),
        _ = interrupt.recv() => Err("told to stop twice: the drain was cut short".into()),
    }
}
