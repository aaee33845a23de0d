//! Runs the plugin as a runtime would: environment and stdin in, exit status and stdout out.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// One run to be.
pub(crate) struct Plugin {
    env: Vec<(String, String)>,
    stdin: String,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A configuration whose socket and log are in `folder`.
pub(crate) fn network(version: &str, folder: &Path) -> Value {
    json!({
        "cniVersion": version,
        "name": "pods",
        "type": "macvlan",
        "ipam": {
            "type": "spiderpool",
            "ipam_unix_socket_path": folder.join("agent.sock"),
            "log_file_path": folder.join("cni.log"),
        },
    })
}

impl Plugin {
    /// What a kubelet's sandbox `c1` for pod `shop/cart-0` sets.
    pub(crate) fn new(command: &str, network: &Value) -> Self {
        let plugin = Self {
            env: Vec::new(),
            stdin: network.to_string(),
        };
        plugin
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_NETNS", "/run/netns/c1")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
            .env(
                "CNI_ARGS",
                "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1;IgnoreUnknown=1;K8S_POD_NAME=cart-0;K8S_POD_NAMESPACE=shop",
            )
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    pub(crate) fn run(&self) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orbweaver-cni"))
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The plugin stops reading what is too long, which breaks the pipe.
        child.stdin.take().unwrap().write_all(self.stdin.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        Ended {
            success: output.status.success(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// The error answer; everything else about the run must fit it.
    pub(crate) fn error(&self) -> Value {
        assert!(!self.success, "{self:?}");
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Code and message.
    pub(crate) fn code_and_msg(&self) -> (u64, String) {
        let error = self.error();
        (
            error["code"].as_u64().unwrap(),
            error["msg"].as_str().unwrap().to_owned(),
        )
    }

    /// A success that says nothing.
    pub(crate) fn is_silent_success(&self) -> bool {
        self.success && self.stdout.is_empty() && self.stderr.is_empty()
    }
}
