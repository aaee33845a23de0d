//! The daemon's life: telemetry, runtime, agent, signal, drain.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use crate::agent::{self, RunningAgent};
use crate::config::{Args, Config, file, log_level};
use crate::explain::ExplainArgs;
use crate::host::{ActorHost, io_runtime};
use crate::{metrics, store, telemetry};

/// Threads for actors. A Supervisor and its pools need a small part of one on a node.
const ARBITERS: usize = 1;
/// What tasks that ignore the end get.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Runs the daemon until a signal or a failure ends it.
pub fn run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lookup = |name: &str| std::env::var(name).ok();
    telemetry::install(args.log_format, &log_level(args, &lookup))?;
    info!(version = env!("CARGO_PKG_VERSION"), "orbweaver-agent starts");
    let file = args
        .config
        .as_deref()
        .map(file::load)
        .transpose()?
        .unwrap_or_default();
    let mut config = Config::resolve(args, &file, &lookup)?;
    config.metrics = metrics::install();

    let io = io_runtime()?;
    let host = ActorHost::start(io.clone(), ARBITERS)?;
    let result = io.block_on(serve(config, &host));
    host.stop();
    if let Some(io) = Arc::into_inner(io) {
        io.shutdown_timeout(LAST_MOMENT);
    }
    match &result {
        Ok(()) => info!("orbweaver-agent ended"),
        Err(error) => error!(error = store::chain(error.as_ref()), "orbweaver-agent ends"),
    }
    result
}

/// Prints why a pod gets its addresses from which pools.
pub fn explain(args: &ExplainArgs) -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let page = runtime.block_on(crate::explain::ask(args))?;
    println!("{}", page.trim_end());
    Ok(())
}

async fn serve(config: Config, host: &ActorHost) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut signals = Signals::new()?;
    let mut agent = tokio::select! {
        agent = agent::start(config, host) => agent?,
        () = signals.next() => {
            info!("told to stop while starting");
            return Ok(());
        }
    };
    tokio::select! {
        () = signals.next() => info!("told to stop, draining"),
        reason = agent.ended() => {
            agent.stop().await;
            return Err(reason.into());
        }
    }
    drain(agent, &mut signals).await
}

/// A second signal is somebody who does not want to wait.
async fn drain(agent: RunningAgent, signals: &mut Signals) -> Result<(), Box<dyn Error + Send + Sync>> {
    tokio::select! {
        () = agent.stop() => Ok(()),
        () = signals.next() => Err("told to stop twice: the drain was cut short".into()),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
