//! Logs, to stderr.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Not a level.
    #[error("--log-level {level:?} is neither trace, debug, info, warn, error nor a tracing filter")]
    Level {
        /// As given.
        level: String,
        /// Why.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Set up already.
    #[error("logging is set up already")]
    Installed(#[source] TryInitError),
}

/// Sets up logging for the whole process; only the daemon does this.
pub fn install(format: LogFormat, level: &str) -> Result<(), TelemetryError> {
    use tracing_subscriber::util::SubscriberInitExt;

    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|source| TelemetryError::Level {
            level: level.to_owned(),
            source,
        })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
        LogFormat::Text => lines.with_ansi(false).finish().try_init(),
    }
    .map_err(TelemetryError::Installed)
}
