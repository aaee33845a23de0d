//! `conf.yml` from the disk. Its keys and rules are [`orbweaver_api::config`]'s, so that what keeps the controller from
//! starting keeps an agent from starting too (seed "Validation rules").

use std::path::{Path, PathBuf};

use orbweaver_actors::provider::ProviderHttpOptions;
use orbweaver_api::config::{ConfFile, ConfigError};
use tracing::warn;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not readable.
    #[error("cannot read {path}; correct --config or mount the config map")]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Not YAML, or a value of the wrong kind; the text names the key.
    #[error("conf.yml is wrong")]
    Malformed(#[from] serde_yaml::Error),
    /// A value that breaks a rule.
    #[error(transparent)]
    Rule(#[from] ConfigError),
}

/// Reads and judges a file, and warns about keys that nobody reads.
pub fn load(path: &Path) -> Result<ConfFile, FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let (file, unknown_keys) = parse(&text)?;
    for key in &unknown_keys {
        warn!(key, path = %path.display(), "conf.yml has a key that nobody reads; correct its spelling or remove it");
    }
    Ok(file)
}

/// Judges a text, an empty one is all defaults; with the dotted paths of keys that are probably misspelt.
pub fn parse(text: &str) -> Result<(ConfFile, Vec<String>), FileError> {
    let file = serde_yaml::from_str::<Option<ConfFile>>(text)?.unwrap_or_default();
    file.check()?;
    // Only for the warnings: a text with keys that are not texts has been refused above.
    let raw = serde_yaml::from_str(text).unwrap_or_default();
    let unknown_keys = file.unknown_keys(&raw);
    Ok((file, unknown_keys))
}

/// How to call the provider; `None`: none is configured.
pub fn provider(file: &ConfFile) -> Result<Option<ProviderHttpOptions>, FileError> {
    let provider = file.provider()?;
    Ok(provider.map(|provider| ProviderHttpOptions {
        base_url: provider.base_url,
        // A timeout that is not positive has been refused.
        request_timeout: provider.http_request_timeout.to_std().unwrap_or_default(),
        ca_file: provider.ca_file,
        client_certificate: provider.client_cert,
        client_key: provider.client_key,
        insecure_skip_verify: provider.insecure_skip_verify,
    }))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
