//! A simulated node: a real agent process, and a kubelet that calls the real plugin.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::metrics::{self, Samples};
use crate::programs;
use crate::wait::until;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The node's name.
    pub node: String,
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// Folder for its socket, configuration and log.
    pub folder: PathBuf,
    /// Content of conf.yml.
    pub conf: String,
    /// MAC of the node's `eth1`, which this machine does not really have.
    pub parent_mac: String,
}

/// An agent in a process of its own.
#[derive(Debug)]
pub struct Agent {
    options: AgentOptions,
    socket: PathBuf,
    admin: SocketAddr,
    child: Option<Child>,
}

impl Agent {
    /// Starts the process and returns when it is ready.
    pub async fn start(options: AgentOptions) -> Result<Self> {
        let socket = options.folder.join(format!("{}.sock", options.node));
        let admin = free_address()?;
        let mut agent = Self {
            options,
            socket,
            admin,
            child: None,
        };
        agent.spawn()?;
        agent.ready().await?;
        Ok(agent)
    }

    fn spawn(&mut self) -> Result<()> {
        let options = &self.options;
        let conf = options.folder.join(format!("{}.yml", options.node));
        std::fs::write(&conf, &options.conf)?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(options.folder.join(format!("{}.log", options.node)))?;
        let child = Command::new(programs::find("orbweaver-agent")?)
            .args([
                "--node-name",
                &options.node,
                "--log-format",
                "text",
                "--log-level",
                "info",
            ])
            .args(["--link-mac", &format!("eth1={}", options.parent_mac)])
            .arg("--kubeconfig")
            .arg(&options.kubeconfig)
            .arg("--socket")
            .arg(&self.socket)
            .arg("--config")
            .arg(conf)
            .arg("--admin-listen")
            .arg(self.admin.to_string())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the agent did not start")?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it can serve.
    pub async fn ready(&mut self) -> Result<()> {
        let admin = self.admin;
        let ready = until("the agent is ready", Duration::from_secs(60), || async move {
            match metrics::fetch(admin, "/readyz").await {
                Ok((200, _)) => Ok(()),
                Ok((code, text)) => Err(format!("{code} {text}")),
                Err(error) => Err(error.to_string()),
            }
        });
        let Some(child) = &mut self.child else {
            bail!("the agent of {} was not started", self.options.node)
        };
        tokio::select! {
            ready = ready => ready.with_context(|| format!("agent of {}", self.options.node)),
            status = child.wait() => bail!("the agent of {} ended with {}; see its log", self.options.node, status?),
        }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.options.node
    }

    /// The agent's unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The agent's admin port.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// What `/metrics` says.
    pub async fn metrics(&self) -> Result<Samples> {
        let (code, text) = metrics::fetch(self.admin, "/metrics").await?;
        anyhow::ensure!(code == 200, "/metrics answered {code}");
        Ok(Samples::parse(&text))
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Starts again after [`Self::kill`].
    pub async fn restart(&mut self) -> Result<()> {
        self.spawn()?;
        self.ready().await
    }

    /// SIGTERM, then waits for the end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let Some(mut child) = self.child.take() else {
            bail!("the agent does not run")
        };
        if let Some(pid) = child.id() {
            let sent = Command::new("kill")
                .args(["-TERM", &pid.to_string()])
                .status()
                .await?;
            anyhow::ensure!(sent.success(), "kill -TERM {pid} failed");
        }
        Ok(tokio::time::timeout(Duration::from_secs(60), child.wait()).await??)
    }
}

/// A port that was free a moment ago.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
