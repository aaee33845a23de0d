//! `conf.yml` (reference §4.3), as far as the controller must judge it: a provider section that no agent could start
//! with keeps the controller from starting too (seed "Validation rules"). Other keys are the agents'.

use std::path::{Path, PathBuf};

use orbweaver_api::provider::settings::{self, InvalidSetting};
use serde::Deserialize;

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
    /// The seed's rules.
    #[error(transparent)]
    Provider(#[from] InvalidSetting),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfFile {
    iaas_network_provider: ProviderSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProviderSection {
    enabled: Option<bool>,
    server_url: String,
    http_request_timeout: String,
}

/// Reads and judges a file.
pub fn check(path: &Path) -> Result<(), FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    check_text(&text)
}

/// Judges a text; an empty one is all defaults.
pub fn check_text(text: &str) -> Result<(), FileError> {
    let file = serde_yaml::from_str::<Option<ConfFile>>(text)?.unwrap_or_default();
    let provider = file.iaas_network_provider;
    settings::request_timeout(&provider.http_request_timeout)?;
    let url = provider.server_url.trim();
    if provider.enabled != Some(false) && !url.is_empty() {
        settings::server_url(url)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_no_agent_starts_with_is_fatal() {
        let timeout =
            |text: &str| check_text(&format!("iaasNetworkProvider:\n  httpRequestTimeout: {text}\n"));
        assert!(timeout("50s").is_ok());
        assert!(check_text("").is_ok());
        assert!(check_text("enableIPv4: true\n").is_ok());
        for bad in ["100s", "2m", "0s", "-1s", "fast"] {
            let error = timeout(bad).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("iaasNetworkProvider.httpRequestTimeout"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_url_that_no_agent_starts_with_is_fatal_unless_switched_off() {
        let section = |enabled: &str| {
            check_text(&format!(
                "iaasNetworkProvider:\n  serverUrl: provider:80\n{enabled}"
            ))
        };
        assert!(matches!(section(""), Err(FileError::Provider(_))));
        assert!(section("  enabled: false\n").is_ok());
    }
}
