//! A real program of this workspace, in a process of its own, with an admin port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::metrics::{self, Samples};
use crate::programs;
use crate::wait::until;

/// How long a program may take to become ready, or to end, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that can be killed and started again.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    admin: SocketAddr,
    child: Option<Child>,
}

impl Program {
    /// Starts `name` with `arguments` and a free `--admin-listen`, and returns when it is ready. Its log is appended
    /// to `log`.
    pub async fn start(name: &'static str, mut arguments: Vec<String>, log: PathBuf) -> Result<Self> {
        let admin = free_address()?;
        arguments.extend(["--admin-listen".to_owned(), admin.to_string()]);
        arguments.extend(["--log-format", "text", "--log-level", "info"].map(str::to_owned));
        let mut program = Self {
            name,
            arguments,
            log,
            admin,
            child: None,
        };
        program.restart().await?;
        Ok(program)
    }

    fn spawn(&mut self) -> Result<()> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let child = Command::new(programs::find(self.name)?)
            .args(&self.arguments)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        self.child = Some(child.with_context(|| format!("{} did not start", self.name))?);
        Ok(())
    }

    /// Waits until it can serve.
    pub async fn ready(&mut self) -> Result<()> {
        let admin = self.admin;
        let ready = until("it is ready", PATIENCE, || async move {
            match metrics::fetch(admin, "/readyz").await {
                Ok((200, _)) => Ok(()),
                Ok((code, text)) => Err(format!("{code} {text}")),
                Err(error) => Err(error.to_string()),
            }
        });
        let Some(child) = &mut self.child else {
            bail!("{} was not started", self.name)
        };
        tokio::select! {
            ready = ready => ready.with_context(|| format!("{}; its log is {}", self.name, self.log.display())),
            status = child.wait() => bail!("{} ended with {}; its log is {}", self.name, status?, self.log.display()),
        }
    }

    /// The admin port.
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
            bail!("{} does not run", self.name)
        };
        if let Some(pid) = child.id() {
            let sent = Command::new("kill")
                .args(["-TERM", &pid.to_string()])
                .status()
                .await?;
            anyhow::ensure!(sent.success(), "kill -TERM {pid} failed");
        }
        Ok(tokio::time::timeout(PATIENCE, child.wait()).await??)
    }
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
