//! A node and its pods as network namespaces, and the main CNI plugins run in them as a runtime would.
//!
//! ```text
//! let Some(node) = Node::new() else { return };         // prints why there can be none
//! let pod = Pod::new("c1", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0;K8S_POD_UID=u1");
//! let result = node.cni(&pod, "ADD", &network)?;        // runs /usr/lib/cni/<network.type> inside the node
//! pod.addresses("eth0"); pod.routes(4);
//! ```
//!
//! Everything that a plugin makes lies in namespaces that are deleted on drop, failed test or not.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Where Debian's containernetworking-plugins puts them.
const MAIN_PLUGINS: &str = "/usr/lib/cni";

/// A namespace of its own, so that tests share no bridge, no master and no route with the machine or each other.
pub(crate) struct Node {
    namespace: Namespace,
    /// Holds the IPAM plugin under the name that networks use.
    bin: tempfile::TempDir,
}

/// A pod's sandbox.
pub(crate) struct Pod {
    namespace: Namespace,
    container_id: String,
    cni_args: String,
}

struct Namespace {
    name: String,
}

/// A route as `ip` prints it: destination and gateway (empty: on link).
pub(crate) type Route = (String, String);

impl Node {
    /// `ipam` is installed as `spiderpool`. `None`, with the reason on stderr: this machine cannot have namespaces
    /// or lacks the plugins.
    pub(crate) fn new(ipam: &Path) -> Option<Self> {
        match Self::try_new(ipam) {
            Ok(node) => Some(node),
            Err(reason) => {
                // Not `eprintln!`, which the test runner swallows when a test passes.
                writeln!(std::io::stderr(), "skipped, not tested: {reason}").ok();
                None
            }
        }
    }

    fn try_new(ipam: &Path) -> Result<Self, String> {
        for plugin in ["bridge", "macvlan", "ptp"] {
            if !Path::new(MAIN_PLUGINS).join(plugin).exists() {
                return Err(format!(
                    "no {MAIN_PLUGINS}/{plugin}; Debian's containernetworking-plugins has it"
                ));
            }
        }
        let namespace = Namespace::new("node")?;
        let bin = tempfile::tempdir().map_err(|error| error.to_string())?;
        std::os::unix::fs::symlink(ipam, bin.path().join("spiderpool")).map_err(|error| error.to_string())?;
        Ok(Self { namespace, bin })
    }

    /// A device that macvlan can sit on; it ends in another device of the node.
    pub(crate) fn add_uplink(&self, name: &str) {
        let peer = format!("{name}-peer");
        let node = &self.namespace.name;
        ip(&[
            "-n", node, "link", "add", name, "type", "veth", "peer", "name", &peer,
        ])
        .unwrap();
        ip(&["-n", node, "link", "set", name, "up"]).unwrap();
        ip(&["-n", node, "link", "set", &peer, "up"]).unwrap();
    }

    /// Runs the network's main plugin on the node for NIC `eth0` of `pod`. The error is the plugin's own, on stdout.
    pub(crate) fn cni(&self, pod: &Pod, command: &str, network: &Value) -> Result<Value, String> {
        self.cni_with_netns(pod, command, network, pod.netns().to_str().unwrap())
    }

    /// The same, as late DELs come.
    pub(crate) fn late_del(&self, pod: &Pod, network: &Value) -> Result<Value, String> {
        self.cni_with_netns(pod, "DEL", network, "")
    }

    fn cni_with_netns(
        &self,
        pod: &Pod,
        command: &str,
        network: &Value,
        netns: &str,
    ) -> Result<Value, String> {
        let plugin = Path::new(MAIN_PLUGINS).join(network["type"].as_str().unwrap());
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.namespace.name])
            .arg(plugin)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &pod.container_id)
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", "eth0")
            .env(
                "CNI_PATH",
                format!("{}:{MAIN_PLUGINS}", self.bin.path().display()),
            )
            .env("CNI_ARGS", &pod.cni_args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(network.to_string().as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            return Err(stdout);
        }
        Ok(if stdout.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&stdout).unwrap()
        })
    }
}

impl Pod {
    /// A sandbox without interfaces, for the pod that `cni_args` names.
    pub(crate) fn new(container_id: &str, cni_args: &str) -> Self {
        let namespace = Namespace::new("pod").unwrap();
        Self {
            namespace,
            container_id: container_id.to_owned(),
            cni_args: cni_args.to_owned(),
        }
    }

    fn netns(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.namespace.name)
    }

    /// Names of all its links but `lo`.
    pub(crate) fn links(&self) -> Vec<String> {
        let links = self.ip(&["link", "show"]);
        let names = links
            .iter()
            .map(|link| link["ifname"].as_str().unwrap().to_owned());
        names.filter(|name| name != "lo").collect()
    }

    /// Addresses of a NIC with prefix length, link-local ones left out.
    pub(crate) fn addresses(&self, nic: &str) -> Vec<String> {
        let links = self.ip(&["addr", "show", "dev", nic, "scope", "global"]);
        let all = links
            .iter()
            .filter_map(|link| link["addr_info"].as_array())
            .flatten();
        let given = all.filter(|address| address["local"].is_string());
        given
            .map(|address| format!("{}/{}", address["local"].as_str().unwrap(), address["prefixlen"]))
            .collect()
    }

    /// Routes of family 4 or 6.
    pub(crate) fn routes(&self, family: u8) -> Vec<Route> {
        let routes = self.ip(&[if family == 4 { "-4" } else { "-6" }, "route", "show"]);
        let text = |route: &Value, key: &str| route[key].as_str().unwrap_or_default().to_owned();
        routes
            .iter()
            .map(|route| (text(route, "dst"), text(route, "gateway")))
            .collect()
    }

    fn ip(&self, args: &[&str]) -> Vec<Value> {
        let output = ip(&[&["-n", &self.namespace.name, "-json"][..], args].concat()).unwrap();
        if output.trim().is_empty() {
            Vec::new()
        } else {
            serde_json::from_str(&output).unwrap()
        }
    }
}

impl Namespace {
    fn new(kind: &str) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("orbweaver-{kind}-{}-{number}", std::process::id());
        ip(&["netns", "add", &name]).map_err(|error| format!("no network namespace can be made: {error}"))?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "del", &self.name]) {
            eprintln!("namespace {} stays behind: {error}", self.name);
        }
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .map_err(|error| format!("ip (iproute2): {error}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|error| error.to_string());
    }
    Err(format!(
        "ip {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
