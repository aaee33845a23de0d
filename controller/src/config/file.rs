//! `conf.yml` from the disk. Its keys and rules are [`orbweaver_api::config`]'s, so that what keeps an agent from
//! starting keeps the controller from starting too (seed "Validation rules").

use std::path::{Path, PathBuf};

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

/// What a file says, and what of it nobody reads.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its values; they hold.
    pub file: ConfFile,
    /// Dotted paths of keys that are probably misspelt.
    pub unknown_keys: Vec<String>,
}

/// Reads and judges a file, and warns about keys that nobody reads.
pub fn load(path: &Path) -> Result<ConfFile, FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let checked = check_text(&text)?;
    for key in &checked.unknown_keys {
        warn!(key, path = %path.display(), "conf.yml has a key that nobody reads; correct its spelling or remove it");
    }
    Ok(checked.file)
}

/// Judges a text; an empty one is all defaults.
pub fn check_text(text: &str) -> Result<Checked, FileError> {
    let file = serde_yaml::from_str::<Option<ConfFile>>(text)?.unwrap_or_default();
    file.check()?;
    // Only for the warnings: a text with keys that are not texts has been refused above.
    let raw = serde_yaml::from_str(text).unwrap_or_default();
    let unknown_keys = file.unknown_keys(&raw);
    Ok(Checked { file, unknown_keys })
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
        assert!(matches!(section(""), Err(FileError::Rule(_))));
        assert!(section("  enabled: false\n").is_ok());
    }

    #[test]
    fn a_misspelt_key_is_listed_and_nothing_worse() {
        let checked = check_text("enableIpv4: true\niaasNetworkProvider:\n  tls:\n    ca: /c\n").unwrap();
        assert_eq!(checked.unknown_keys, ["enableIpv4", "iaasNetworkProvider.tls.ca"]);
        assert_eq!(check_text("").unwrap().unknown_keys, Vec::<String>::new());
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_with_its_key() {
        for (text, key) in [
            ("enableIPv4: maybe\n", "enableIPv4"),
            (
                "iaasNetworkProvider:\n  service:\n    port: high\n",
                "iaasNetworkProvider.service.port",
            ),
        ] {
            let error = crate::chain(&check_text(text).unwrap_err());
            assert!(error.contains(key), "{error}");
        }
        let bare_number = check_text("iaasNetworkProvider:\n  httpRequestTimeout: 50\n").unwrap_err();
        assert!(
            bare_number
                .to_string()
                .starts_with("invalid iaasNetworkProvider.httpRequestTimeout \"50\": "),
            "{bare_number}"
        );
    }

    #[test]
    fn a_section_without_content_is_all_defaults() {
        let hollow = check_text("iaasNetworkProvider:\nagent:\npodResourceInject:\n").unwrap();
        assert_eq!(hollow.file, ConfFile::default());
        let emptied = check_text("iaasNetworkProvider:\n  serverUrl:\n  httpRequestTimeout:\n").unwrap();
        assert_eq!(emptied.file, ConfFile::default());
    }
}
