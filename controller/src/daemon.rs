//! The daemon's life: telemetry, runtime, controller, signal.

use std::error::Error;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::config::{Args, Config, file, log_level};
use crate::{chain, controller, metrics, telemetry};

/// What tasks that ignore the end get.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Runs the daemon until a signal or a failure ends it.
pub fn run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lookup = |name: &str| std::env::var(name).ok();
    telemetry::install(args.log_format, &log_level(args, &lookup))?;
    info!(version = env!("CARGO_PKG_VERSION"), "orbweaver-controller starts");
    args.config.as_deref().map(file::check).transpose()?;
    let mut config = Config::resolve(args, &lookup)?;
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
