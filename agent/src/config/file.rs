//! `conf.yml` (reference §4.3): the keys that the agent reads. Keys of other components are accepted, keys
//! that nobody knows are warned about, bad values are fatal with the key named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orbweaver_actors::provider::ProviderHttpOptions;
use orbweaver_api::duration::GoDuration;
use serde::Deserialize;
use serde_yaml::Value;

/// `httpRequestTimeout` when it is not set (seed "Validation rules").
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(50);
/// Static safety limit of the seed.
const STATIC_LIMIT: Duration = Duration::from_secs(120);
/// What the plugin waits for the agent.
const CNI_LIMIT: Duration = Duration::from_secs(100);

/// Keys of the same file that other components read, or that Orbweaver does not need.
const OTHER_KEYS: &[&str] = &[
    "tuneSysctlConfig",
    "enableSpiderSubnet",
    "enableAutoPoolForApplication",
    "enableCleanOutdatedEndpoint",
    "enableIPConflictDetection",
    "enableGatewayDetection",
    "clusterSubnetDefaultFlexibleIPNumber",
    "clusterSubnetAutoPoolDefaultRedundantIPNumber",
    "enableValidatingResourcesDeletedWebhook",
    "podResourceInject",
    "agent",
];

/// The file, as far as the agent reads it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools, reason = "the file's keys are what they are")]
pub struct ConfFile {
    /// Path of the unix socket.
    pub ipam_unix_socket_path: Option<PathBuf>,
    /// Give IPv4 addresses.
    #[serde(rename = "enableIPv4")]
    pub enable_ipv4: bool,
    /// Give IPv6 addresses.
    #[serde(rename = "enableIPv6")]
    pub enable_ipv6: bool,
    /// Pods of StatefulSets keep their addresses.
    pub enable_stateful_set: bool,
    /// Virtual machines keep their addresses.
    #[serde(rename = "enableKubevirtStaticIP")]
    pub enable_kubevirt_static_ip: bool,
    /// The network provider.
    pub iaas_network_provider: ProviderSection,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// `iaasNetworkProvider`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSection {
    /// Absent: on when a URL or a service is given.
    pub enabled: Option<bool>,
    /// URL of the provider; beats `service`.
    pub server_url: String,
    /// The provider's service, called over HTTPS.
    pub service: ServiceSection,
    /// Whom to trust.
    pub tls: TlsSection,
    /// Go duration.
    pub http_request_timeout: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// `iaasNetworkProvider.service`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceSection {
    /// Service name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its port; 443 when absent.
    pub port: Option<u16>,
}

/// `iaasNetworkProvider.tls`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsSection {
    /// Trusted instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Client certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Believe whoever answers.
    pub insecure_skip_verify: bool,
}

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
    #[error("conf.yml is wrong: {0}")]
    Malformed(#[from] serde_yaml::Error),
    /// The seed's rules.
    #[error("invalid iaasNetworkProvider.{key} {value:?}: {why}")]
    Provider {
        /// Key below `iaasNetworkProvider`.
        key: &'static str,
        /// As given.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing could ever be allocated.
    #[error("conf.yml: enableIPv4 and enableIPv6 are both false; set at least one to true")]
    NoFamily,
}

impl Default for ConfFile {
    fn default() -> Self {
        Self {
            ipam_unix_socket_path: None,
            enable_ipv4: true,
            enable_ipv6: true,
            enable_stateful_set: true,
            enable_kubevirt_static_ip: true,
            iaas_network_provider: ProviderSection::default(),
            rest: BTreeMap::new(),
        }
    }
}

impl ConfFile {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(|source| FileError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Reads a text; an empty one is all defaults.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let file: Self = serde_yaml::from_str::<Option<Self>>(text)?.unwrap_or_default();
        if !file.enable_ipv4 && !file.enable_ipv6 {
            return Err(FileError::NoFamily);
        }
        Ok(file)
    }

    /// Keys that nobody reads; probably misspelt.
    pub fn unknown_keys(&self) -> Vec<String> {
        let top = self.rest.keys().filter(|key| !OTHER_KEYS.contains(&key.as_str()));
        let provider = &self.iaas_network_provider.rest;
        top.cloned()
            .chain(provider.keys().map(|key| format!("iaasNetworkProvider.{key}")))
            .collect()
    }

    /// The provider; `None` when none is configured. The timeout is checked all the same: a wrong value is
    /// fatal (seed "Validation rules").
    pub fn provider(&self) -> Result<Option<ProviderHttpOptions>, FileError> {
        let section = &self.iaas_network_provider;
        let request_timeout = request_timeout(&section.http_request_timeout)?;
        if section.enabled == Some(false) {
            return Ok(None);
        }
        let base_url = match (section.server_url.trim(), section.service.name.trim()) {
            ("", "") if section.enabled == Some(true) => {
                return Err(FileError::Provider {
                    key: "enabled",
                    value: "true".to_owned(),
                    why: "neither serverUrl nor service.name is set".to_owned(),
                });
            }
            ("", "") => return Ok(None),
            ("", name) => service_url(name, &section.service)?,
            (url, _) => checked_url(url)?,
        };
        let tls = section.tls.clone();
        Ok(Some(ProviderHttpOptions {
            base_url,
            request_timeout,
            ca_file: tls.ca_file,
            client_certificate: tls.cert_file,
            client_key: tls.key_file,
            insecure_skip_verify: tls.insecure_skip_verify,
        }))
    }
}

fn service_url(name: &str, service: &ServiceSection) -> Result<String, FileError> {
    if service.namespace.trim().is_empty() {
        return Err(FileError::Provider {
            key: "service.namespace",
            value: String::new(),
            why: "it is needed beside service.name".to_owned(),
        });
    }
    let port = service.port.unwrap_or(443);
    Ok(format!("https://{name}.{}.svc:{port}", service.namespace.trim()))
}

fn checked_url(url: &str) -> Result<String, FileError> {
    let wrong = |why: &str| FileError::Provider {
        key: "serverUrl",
        value: url.to_owned(),
        why: why.to_owned(),
    };
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
        .ok_or_else(|| wrong("must start with http:// or https://"))?;
    if rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) {
        return Err(wrong("host is empty"));
    }
    url.parse::<http::Uri>()
        .map_err(|error| wrong(&error.to_string()))?;
    Ok(url.to_owned())
}

fn request_timeout(text: &str) -> Result<Duration, FileError> {
    let wrong = |why: String| FileError::Provider {
        key: "httpRequestTimeout",
        value: text.to_owned(),
        why,
    };
    if text.trim().is_empty() {
        return Ok(DEFAULT_TIMEOUT);
    }
    let parsed: GoDuration = text.trim().parse().map_err(|error| wrong(format!("{error}")))?;
    let timeout = parsed
        .to_std()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| wrong("timeout must be positive".to_owned()))?;
    if timeout >= STATIC_LIMIT {
        return Err(wrong("must be less than static limit 2m0s".to_owned()));
    }
    if timeout >= CNI_LIMIT {
        return Err(wrong("must be less than CNI client timeout 1m40s".to_owned()));
    }
    Ok(timeout)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
