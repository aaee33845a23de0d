//! What a kubelet does for a pod: it calls the real plugin, as `docs/` and the CNI specification say.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::programs;

/// A sandbox of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Pod namespace.
    pub namespace: String,
    /// Pod name.
    pub name: String,
    /// Pod UID.
    pub uid: String,
    /// Container id.
    pub container: String,
    /// Network namespace path; empty in late DELs.
    pub netns: String,
}

impl Sandbox {
    /// A new sandbox of a pod.
    pub fn of(namespace: &str, name: &str, uid: &str) -> Self {
        let id = format!("{:032x}", rand::random::<u128>());
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            netns: format!("/var/run/netns/cni-{id}"),
            container: id,
        }
    }

    /// The late DEL of the same sandbox: no network namespace any more.
    #[must_use]
    pub fn late(&self) -> Self {
        Self {
            netns: String::new(),
            ..self.clone()
        }
    }
}

/// What the plugin answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Exit code 0.
    pub success: bool,
    /// Its JSON; null when it printed none.
    pub json: Value,
    /// Start to end of the process.
    pub took: Duration,
}

impl Answer {
    /// Bare address of the first `ips` entry.
    pub fn address(&self) -> Option<String> {
        let text = self.json["ips"][0]["address"].as_str()?;
        Some(text.split('/').next().unwrap_or_default().to_owned())
    }

    /// CNI error code.
    pub fn code(&self) -> Option<u64> {
        self.json["code"].as_u64()
    }

    /// Message and details of an error.
    pub fn text(&self) -> String {
        let part = |field: &str| self.json[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", part("msg"), part("details"))
    }
}

/// Calls the plugin for the pods of one node.
#[derive(Clone, Debug)]
pub struct Kubelet {
    plugin: PathBuf,
    /// The agent's socket.
    pub socket: PathBuf,
    log: PathBuf,
    /// Default pools of the network configuration, IPv4.
    pub default_pools: Vec<String>,
    /// CNI version of the configuration.
    pub cni_version: String,
}

impl Kubelet {
    /// A kubelet whose plugin speaks to `socket` and logs to `log`.
    pub fn new(socket: PathBuf, log: PathBuf) -> Result<Self> {
        Ok(Self {
            plugin: programs::find("orbweaver-cni")?,
            socket,
            log,
            default_pools: Vec::new(),
            cni_version: "1.0.0".to_owned(),
        })
    }

    /// The network configuration.
    pub fn configuration(&self) -> Value {
        json!({
            "cniVersion": self.cni_version, "name": "orbweaver", "type": "bridge",
            "ipam": {
                "type": "spiderpool", "log_level": "info", "log_file_path": self.log,
                "ipam_unix_socket_path": self.socket, "default_ipv4_ippool": self.default_pools,
            },
        })
    }

    /// ADD of `nic`.
    pub async fn add(&self, sandbox: &Sandbox, nic: &str) -> Result<Answer> {
        self.call("ADD", sandbox, nic, &self.configuration()).await
    }

    /// DEL of `nic`.
    pub async fn del(&self, sandbox: &Sandbox, nic: &str) -> Result<Answer> {
        self.call("DEL", sandbox, nic, &self.configuration()).await
    }

    /// CHECK of `nic` against an earlier result.
    pub async fn check(&self, sandbox: &Sandbox, nic: &str, result: &Value) -> Result<Answer> {
        let mut configuration = self.configuration();
        configuration["prevResult"] = result.clone();
        self.call("CHECK", sandbox, nic, &configuration).await
    }

    /// Any command with any standard input.
    pub async fn call(&self, command: &str, sandbox: &Sandbox, nic: &str, stdin: &Value) -> Result<Answer> {
        self.call_text(command, sandbox, nic, &stdin.to_string()).await
    }

    /// Any command with any text as standard input.
    pub async fn call_text(
        &self,
        command: &str,
        sandbox: &Sandbox,
        nic: &str,
        stdin: &str,
    ) -> Result<Answer> {
        // A real runtime sends the arguments in any order.
        let mut arguments = [
            "IgnoreUnknown=1".to_owned(),
            format!("K8S_POD_NAMESPACE={}", sandbox.namespace),
            format!("K8S_POD_NAME={}", sandbox.name),
            format!("K8S_POD_INFRA_CONTAINER_ID={}", sandbox.container),
            format!("K8S_POD_UID={}", sandbox.uid),
        ];
        rand::seq::SliceRandom::shuffle(&mut arguments[..], &mut rand::rng());
        let begun = tokio::time::Instant::now();
        let mut child = Command::new(&self.plugin)
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &sandbox.container)
            .env("CNI_NETNS", &sandbox.netns)
            .env("CNI_IFNAME", nic)
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", arguments.join(";"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("the plugin did not start")?;
        let mut input = child.stdin.take().context("the plugin has a standard input")?;
        // A plugin that has already said no does not read to the end.
        let _ = input.write_all(stdin.as_bytes()).await;
        drop(input);
        let output = tokio::time::timeout(Duration::from_secs(120), child.wait_with_output())
            .await
            .context("the plugin did not end within kubelet's two minutes")??;
        Ok(Answer {
            success: output.status.success(),
            json: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
            took: begun.elapsed(),
        })
    }
}
