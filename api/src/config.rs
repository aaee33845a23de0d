//! `conf.yml`: the one file that agent and controller read (reference §4.3 and §6.7).
//!
//! No YAML is read here: a program deserializes [`ConfFile`] with the format it likes, hands the same text as a
//! [`Value`] to [`ConfFile::unknown_keys`] for its warnings, and starts only if [`ConfFile::check`] agrees. Keys that
//! Orbweaver has no use for are known all the same, because the file is Spiderpool's.

mod reading;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::GoDuration;
use crate::provider::settings::{self, InvalidSetting};

/// Port of the provider's service when the file names none (reference §6.7).
pub const DEFAULT_SERVICE_PORT: u16 = 8443;

/// Where Spiderpool's plugin looks for the agent.
pub const DEFAULT_SOCKET: &str = "/var/run/spidernet/spiderpool.sock";

/// Values that keep a program from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The provider's section (seed "Validation rules").
    #[error(transparent)]
    Provider(#[from] InvalidSetting),
    /// Nothing could ever be allocated.
    #[error("invalid enableIPv4 false: enableIPv6 is false too; set at least one of the two to true")]
    NoFamily,
}

/// The whole file. Absent keys have the defaults of Spiderpool's chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools, reason = "the file's keys are what they are")]
pub struct ConfFile {
    /// Where the agent listens; empty: [`DEFAULT_SOCKET`].
    #[serde(deserialize_with = "reading::socket")]
    pub ipam_unix_socket_path: PathBuf,
    /// Give IPv4 addresses.
    #[serde(rename = "enableIPv4")]
    pub enable_ipv4: bool,
    /// Give IPv6 addresses.
    #[serde(rename = "enableIPv6")]
    pub enable_ipv6: bool,
    /// Kernel settings of nodes; Spiderpool's init container reads it.
    pub tune_sysctl_config: bool,
    /// Pods of a StatefulSet keep their addresses.
    pub enable_stateful_set: bool,
    /// Virtual machines keep their addresses.
    #[serde(rename = "enableKubevirtStaticIP")]
    pub enable_kubevirt_static_ip: bool,
    /// SpiderSubnet is served.
    pub enable_spider_subnet: bool,
    /// Pools are made for workloads.
    pub enable_auto_pool_for_application: bool,
    /// Endpoints without pod and owner are collected.
    pub enable_clean_outdated_endpoint: bool,
    /// Probe for a second owner of an address; must stay off with a network provider.
    #[serde(rename = "enableIPConflictDetection")]
    pub enable_ip_conflict_detection: bool,
    /// Probe for the gateway; must stay off with a network provider.
    pub enable_gateway_detection: bool,
    /// Spare addresses of a pool made for a workload, as the chart spells it.
    #[serde(rename = "clusterSubnetDefaultFlexibleIPNumber")]
    pub cluster_subnet_default_flexible_ip_number: Option<u32>,
    /// The same, as Spiderpool's programs spell it.
    #[serde(rename = "clusterSubnetAutoPoolDefaultRedundantIPNumber")]
    pub cluster_subnet_auto_pool_default_redundant_ip_number: Option<u32>,
    /// Refuse to delete resources in use.
    pub enable_validating_resources_deleted_webhook: bool,
    /// Which pods get resources injected.
    #[serde(deserialize_with = "reading::section")]
    pub pod_resource_inject: PodResourceInject,
    /// Settings of the agent alone.
    #[serde(deserialize_with = "reading::section")]
    pub agent: AgentSection,
    /// The network provider.
    #[serde(deserialize_with = "reading::section")]
    pub iaas_network_provider: ProviderSection,
}

/// `podResourceInject`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceInject {
    /// On.
    pub enabled: bool,
    /// Namespaces whose pods are left alone.
    pub namespaces_exclude: Vec<String>,
    /// When not empty: only these namespaces.
    pub namespaces_include: Vec<String>,
}

/// `agent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSection {
    /// The device plugin that counts sub-ENIs.
    #[serde(deserialize_with = "reading::section")]
    pub network_resource_plugin: NetworkResourcePlugin,
}

/// `agent.networkResourcePlugin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkResourcePlugin {
    /// On.
    pub enabled: bool,
    /// Kubelet's directory.
    pub kubelet_root_dir: PathBuf,
    /// Nodes on which it runs; not looked into here.
    pub device_plugin_affinity: Value,
    /// What it tells kubelet; not looked into here.
    pub resource_advertisement: Value,
}

/// `iaasNetworkProvider`, as written; [`ConfFile::provider`] is what it means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSection {
    /// Absent: on when there is a URL or a service.
    pub enabled: Option<bool>,
    /// URL of the provider; beats `service`.
    #[serde(deserialize_with = "reading::text")]
    pub server_url: String,
    /// The provider's service, called over HTTPS.
    #[serde(deserialize_with = "reading::section")]
    pub service: ServiceSection,
    /// Whom to trust.
    #[serde(deserialize_with = "reading::section")]
    pub tls: TlsSection,
    /// A Go duration; empty: 50 s.
    #[serde(deserialize_with = "reading::text")]
    pub http_request_timeout: String,
}

/// `iaasNetworkProvider.service`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSection {
    /// Its name.
    #[serde(deserialize_with = "reading::text")]
    pub name: String,
    /// Its namespace.
    #[serde(deserialize_with = "reading::text")]
    pub namespace: String,
    /// Its port; absent: [`DEFAULT_SERVICE_PORT`].
    pub port: Option<u16>,
}

/// `iaasNetworkProvider.tls`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// How to call the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// `http://` or `https://`, a host, perhaps a path.
    pub base_url: String,
    /// Longest time of one call.
    pub http_request_timeout: GoDuration,
    /// Trusted instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Client certificate; there when its key is.
    pub client_cert: Option<PathBuf>,
    /// Key of the client certificate.
    pub client_key: Option<PathBuf>,
    /// Believe whoever answers.
    pub insecure_skip_verify: bool,
}

impl Default for ConfFile {
    fn default() -> Self {
        Self {
            ipam_unix_socket_path: PathBuf::from(DEFAULT_SOCKET),
            enable_ipv4: true,
            enable_ipv6: true,
            tune_sysctl_config: true,
            enable_stateful_set: true,
            enable_kubevirt_static_ip: true,
            enable_spider_subnet: true,
            enable_auto_pool_for_application: true,
            enable_clean_outdated_endpoint: false,
            enable_ip_conflict_detection: false,
            enable_gateway_detection: false,
            cluster_subnet_default_flexible_ip_number: None,
            cluster_subnet_auto_pool_default_redundant_ip_number: None,
            enable_validating_resources_deleted_webhook: false,
            pod_resource_inject: PodResourceInject::default(),
            agent: AgentSection::default(),
            iaas_network_provider: ProviderSection::default(),
        }
    }
}

impl Default for PodResourceInject {
    fn default() -> Self {
        let excluded = ["kube-system", "spiderpool", "metallb-system", "istio-system"];
        Self {
            enabled: false,
            namespaces_exclude: excluded.map(str::to_owned).to_vec(),
            namespaces_include: Vec::new(),
        }
    }
}

impl Default for NetworkResourcePlugin {
    fn default() -> Self {
        Self {
            enabled: false,
            kubelet_root_dir: PathBuf::from("/var/lib/kubelet"),
            device_plugin_affinity: Value::Null,
            resource_advertisement: Value::Null,
        }
    }
}

impl ConfFile {
    /// Everything that must hold before agent or controller may start.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.enable_ipv4 && !self.enable_ipv6 {
            return Err(ConfigError::NoFamily);
        }
        self.provider().map(drop)
    }

    /// The provider; `None` when none is configured. Its timeout is judged all the same: a wrong one is fatal.
    pub fn provider(&self) -> Result<Option<ProviderConfig>, ConfigError> {
        let section = &self.iaas_network_provider;
        let timeout = settings::request_timeout(&section.http_request_timeout)?;
        if section.enabled == Some(false) {
            return Ok(None);
        }
        let Some(base_url) = section.base_url()? else {
            return Ok(None);
        };
        section.tls.check()?;
        let tls = section.tls.clone();
        Ok(Some(ProviderConfig {
            base_url,
            http_request_timeout: GoDuration::from(timeout),
            ca_file: tls.ca_file,
            client_cert: tls.cert_file,
            client_key: tls.key_file,
            insecure_skip_verify: tls.insecure_skip_verify,
        }))
    }

    /// Dotted paths of the keys of `raw`, the text that `self` was read from, that nobody reads; probably misspelt.
    pub fn unknown_keys(&self, raw: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        // Every known key is written out, whatever its value: the struct is the list.
        if let Ok(known) = serde_json::to_value(self) {
            collect_unknown("", raw, &known, &mut unknown);
        }
        unknown
    }
}

impl ProviderSection {
    fn base_url(&self) -> Result<Option<String>, InvalidSetting> {
        let url = match (self.server_url.trim(), self.service.name.trim()) {
            ("", "") if self.enabled == Some(true) => {
                let why = "enabled is true, but neither serverUrl nor service.name is set; set one of them";
                return Err(wrong("serverUrl", "", why));
            }
            ("", "") => return Ok(None),
            ("", name) => self.service.url(name)?,
            (url, _) => url.to_owned(),
        };
        settings::server_url(&url)?;
        Ok(Some(url))
    }
}

impl ServiceSection {
    fn url(&self, name: &str) -> Result<String, InvalidSetting> {
        let namespace = self.namespace.trim();
        // A host is made of them: anything else than a label would end up somewhere else in the URL.
        for (key, label) in [("service.name", name), ("service.namespace", namespace)] {
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if label.is_empty() || !label.chars().all(good) {
                let why = "write a DNS label: lower case letters, digits and dashes";
                return Err(wrong(key, label, why));
            }
        }
        match self.port.unwrap_or(DEFAULT_SERVICE_PORT) {
            0 => Err(wrong("service.port", "0", "write 1 to 65535")),
            port => Ok(format!("https://{name}.{namespace}.svc:{port}")),
        }
    }
}

impl TlsSection {
    fn check(&self) -> Result<(), InvalidSetting> {
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => Err(wrong(
                "tls.keyFile",
                "",
                "tls.certFile needs its key; set both or none",
            )),
            (None, Some(_)) => Err(wrong(
                "tls.certFile",
                "",
                "tls.keyFile needs its certificate; set both or none",
            )),
            _ => Ok(()),
        }
    }
}

fn wrong(key: &'static str, value: &str, why: &str) -> InvalidSetting {
    InvalidSetting {
        key,
        value: value.to_owned(),
        why: why.to_owned(),
    }
}

fn collect_unknown(at: &str, raw: &Value, known: &Value, unknown: &mut Vec<String>) {
    let (Value::Object(raw), Value::Object(known)) = (raw, known) else {
        return;
    };
    for (key, value) in raw {
        let path = if at.is_empty() {
            key.clone()
        } else {
            format!("{at}.{key}")
        };
        match known.get(key) {
            Some(known) => collect_unknown(&path, value, known, unknown),
            None => unknown.push(path),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
