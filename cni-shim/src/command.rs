//! The verbs of CNI that reach the agent. One file each; each is a request, a call and an answer.

mod add;
mod check;
mod del;
mod gc;
mod status;

use std::time::Duration;

use orbweaver_api::grpc::Attachment;
use tokio::time::Instant;

use crate::args::Args;
use crate::client::Agent;
use crate::config::Config;
use crate::error::Error;
use crate::result::Version;

/// `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Give the NIC its addresses.
    Add,
    /// Take them back.
    Del,
    /// Does the NIC still hold them?
    Check,
    /// Take back what belongs to no attachment any more.
    Gc,
    /// Could an ADD be served now?
    Status,
    /// Which versions of CNI are spoken?
    Version,
}

impl Command {
    /// All verbs.
    pub const ALL: [Self; 6] = [
        Self::Add,
        Self::Del,
        Self::Check,
        Self::Gc,
        Self::Status,
        Self::Version,
    ];

    /// As in `CNI_COMMAND`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The verb of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }

    /// The first version of CNI that has the verb, among those spoken here.
    pub const fn since(self) -> Version {
        match self {
            Self::Add | Self::Del | Self::Version => Version::V0_3_0,
            Self::Check => Version::V0_4_0,
            Self::Gc | Self::Status => Version::V1_1_0,
        }
    }

    /// Whether CNI requires the environment variable for this verb. `CNI_ARGS` stands for the pod's name in it.
    pub fn needs(self, variable: &str) -> bool {
        match self {
            Self::Add | Self::Check => {
                matches!(
                    variable,
                    "CNI_CONTAINERID" | "CNI_IFNAME" | "CNI_NETNS" | "CNI_ARGS"
                )
            }
            Self::Del => matches!(variable, "CNI_CONTAINERID" | "CNI_IFNAME"),
            Self::Gc | Self::Status | Self::Version => false,
        }
    }
}

/// What every verb has in hand.
#[derive(Debug)]
pub struct Request {
    /// The verb.
    pub command: Command,
    /// From the environment.
    pub args: Args,
    /// From standard input.
    pub config: Config,
    /// Joins this log with the agent's.
    pub id: String,
    /// When an answer is of no use any more.
    pub deadline: Instant,
    /// What `deadline` was made from, for messages.
    pub budget: Duration,
}

impl Request {
    fn attachment(&self) -> Attachment {
        Attachment {
            container_id: self.args.container_id.clone(),
            nic: self.args.nic.clone(),
            netns: self.args.netns.clone(),
            pod_namespace: self.args.pod.namespace.clone(),
            pod_name: self.args.pod.name.clone(),
            pod_uid: self.args.pod.uid.clone(),
        }
    }
}

/// How a verb ended well.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Success {
    /// For standard output; empty for all but ADD.
    pub answer: String,
    /// For the log.
    pub summary: String,
}

impl Success {
    fn silent(summary: &str) -> Self {
        Self {
            answer: String::new(),
            summary: summary.to_owned(),
        }
    }
}

/// Asks the agent what the verb is about.
///
/// # Errors
/// Those of the agent and of the way to it; code 7 when the configuration lacks what this verb needs.
pub async fn carry_out(request: &Request) -> Result<Success, Error> {
    match request.command {
        Command::Add => add::add(request).await,
        Command::Del => del::del(request).await,
        Command::Check => check::check(request).await,
        Command::Gc => gc::gc(request).await,
        Command::Status => status::status(request).await,
        Command::Version => Ok(Success {
            answer: crate::result::versions(),
            ..Success::default()
        }),
    }
}

async fn agent(request: &Request) -> Result<Agent, Error> {
    Agent::connect(&request.config.socket, request.deadline, request.budget).await
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn every_verb_is_found_by_its_name_and_by_no_other() {
        for command in Command::ALL {
            assert_eq!(Command::parse(command.name()), Some(command));
        }
        for name in ["", "add", "ADD ", "UPDATE"] {
            assert_eq!(Command::parse(name), None);
        }
    }
}
