//! A simulated node's agent: the real program.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::Result;

use crate::metrics::Samples;
use crate::process::Program;

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
    node: String,
    socket: PathBuf,
    program: Program,
}

impl Agent {
    /// Starts the process and returns when it is ready.
    pub async fn start(options: AgentOptions) -> Result<Self> {
        let AgentOptions {
            node,
            kubeconfig,
            folder,
            conf,
            parent_mac,
        } = options;
        let file = |ending: &str| folder.join(format!("{node}.{ending}"));
        let (socket, conf_file) = (file("sock"), file("yml"));
        std::fs::write(&conf_file, conf)?;
        let path = |path: &Path| path.display().to_string();
        let arguments = [
            ["--node-name".to_owned(), node.clone()],
            ["--kubeconfig".to_owned(), path(&kubeconfig)],
            ["--socket".to_owned(), path(&socket)],
            ["--config".to_owned(), path(&conf_file)],
            ["--link-mac".to_owned(), format!("eth1={parent_mac}")],
        ];
        let program = Program::start("orbweaver-agent", arguments.concat(), file("log")).await?;
        Ok(Self {
            node,
            socket,
            program,
        })
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The agent's unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Waits until it can serve.
    pub async fn ready(&mut self) -> Result<()> {
        self.program.ready().await
    }

    /// What `/metrics` says.
    pub async fn metrics(&self) -> Result<Samples> {
        self.program.metrics().await
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        self.program.kill().await
    }

    /// Starts again after [`Self::kill`].
    pub async fn restart(&mut self) -> Result<()> {
        self.program.restart().await
    }

    /// SIGTERM, then waits for the end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.program.stop().await
    }
}
