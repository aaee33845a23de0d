//! Everything that can go wrong, by what the reader can do about it, and the error answer of CNI.

mod code;
mod refusal;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use refusal::Refusal;

use crate::command::Command;
use crate::result::Version;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Upgrade or correct the network configuration.
    #[error("cniVersion {found} is not supported, supported are {}", Version::list())]
    VersionUnsupported {
        /// `cniVersion` as given; without one CNI's library means 0.1.0.
        found: String,
    },
    /// Raise `cniVersion`, or do not call this verb.
    #[error("{command} needs cniVersion {since} or later, the configuration has {found}", command = command.name())]
    VerbNotOffered {
        /// The verb that was called.
        command: Command,
        /// The version of the configuration.
        found: Version,
        /// The version that brought the verb.
        since: Version,
    },
    /// The runtime did not set what CNI requires.
    #[error("{} needs the environment variables {names}, which are empty or not set", command.name())]
    VariablesMissing {
        /// The verb that needs them.
        command: Command,
        /// Their names, with commas.
        names: String,
    },
    /// The runtime set a variable to something that breaks a rule.
    #[error("{variable} {problem}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// The rest of the sentence: value and remedy.
        problem: String,
    },
    /// The node is short of processes, memory or file descriptors.
    #[error("the plugin cannot start its work: {0}")]
    Resources(std::io::Error),
    /// Standard input gave no configuration.
    #[error("the network configuration cannot be read from standard input: {0}")]
    Stdin(String),
    /// Standard input is not a JSON object of acceptable size.
    #[error("the network configuration on standard input {0}")]
    Decode(String),
    /// Correct one field of the network configuration.
    #[error("{field} is {value}: {remedy}")]
    Config {
        /// Path of the field, `ipam.log_level`.
        field: &'static str,
        /// What was found.
        value: String,
        /// What would be right.
        remedy: String,
    },
    /// Nothing listens; ask again later.
    #[error("no agent answers at the socket {}: {cause}", socket.display())]
    Unreachable {
        /// `ipam.ipam_unix_socket_path`.
        socket: PathBuf,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// The time is up; ask again later.
    #[error("the agent at {} did not {stage} within {budget:?}", socket.display())]
    Deadline {
        /// `ipam.ipam_unix_socket_path`.
        socket: PathBuf,
        /// What was waited for: `accept the connection`, `answer`.
        stage: &'static str,
        /// The whole budget of the run.
        budget: Duration,
    },
    /// The connection broke, or what came over it is not gRPC. What the agent did is unknown.
    #[error("the connection to the agent at {} failed: {cause}", socket.display())]
    Broken {
        /// `ipam.ipam_unix_socket_path`.
        socket: PathBuf,
        /// Chain of causes in one line.
        cause: String,
    },
    /// The agent answered no.
    #[error("{0}")]
    Refused(Refusal),
    /// The agent answered yes, with something that cannot be used.
    #[error("the agent's answer cannot be used: {0}")]
    Answer(String),
    /// The agent answered yes, and gave this NIC nothing.
    #[error("no Interface {nic} IP allocation found: the agent's answer is for {others}")]
    NothingForNic {
        /// `CNI_IFNAME`.
        nic: String,
        /// The NICs that it named, or `no NIC at all`.
        others: String,
    },
}

impl Error {
    /// The CNI error code for `command`, whose contract may leave only one choice.
    pub fn code(&self, command: Option<Command>) -> u32 {
        match command {
            // A release that was not confirmed must be asked for again: this plugin has no journal,
            // so an error that reads as final would leak the address.
            Some(Command::Del | Command::Gc) if self.is_about_the_agent() => code::TRY_AGAIN_LATER,
            // CNI 1.1's only word for "an ADD could not be served now".
            Some(Command::Status) if self.is_about_the_agent() => code::NOT_AVAILABLE,
            _ => self.own_code(),
        }
    }

    fn own_code(&self) -> u32 {
        match self {
            Self::VersionUnsupported { .. } | Self::VerbNotOffered { .. } => code::INCOMPATIBLE_VERSION,
            Self::VariablesMissing { .. } | Self::Variable { .. } => code::INVALID_ENVIRONMENT,
            Self::Stdin(_) => code::IO_FAILURE,
            Self::Decode(_) | Self::Answer(_) => code::DECODE_FAILURE,
            Self::Config { .. } => code::INVALID_CONFIGURATION,
            Self::Resources(_) | Self::Unreachable { .. } | Self::Deadline { .. } | Self::Broken { .. } => {
                code::TRY_AGAIN_LATER
            }
            Self::NothingForNic { .. } => code::NOTHING_FOR_NIC,
            Self::Refused(refusal) => refusal.cni_code(),
        }
    }

    fn is_about_the_agent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Deadline { .. }
                | Self::Broken { .. }
                | Self::Refused(_)
                | Self::Answer(_)
                | Self::NothingForNic { .. }
        )
    }

    /// What to check or change, for a person. The request id joins this log with the agent's.
    fn details(&self, request_id: &str) -> String {
        let advice = match self {
            Self::Unreachable { .. } => {
                "check that the agent's pod on this node is running and mounts the socket's directory from the \
                 host, and that ipam.ipam_unix_socket_path names the same path; kubelet asks again by itself"
                    .to_owned()
            }
            Self::Deadline { .. } => {
                "kubelet asks again by itself; if this stays, the agent's log and metrics tell which stage is slow"
                    .to_owned()
            }
            Self::Broken { .. } => {
                "the agent may have restarted, or another program listens on this socket; kubelet asks again by itself"
                    .to_owned()
            }
            Self::Answer(_) | Self::NothingForNic { .. } => {
                "agent and plugin should come from the same release; the agent's log shows what it answered".to_owned()
            }
            Self::Refused(refusal) => refusal.details(),
            _ => String::new(),
        };
        match (advice.is_empty(), request_id.is_empty()) {
            (_, true) => advice,
            (true, false) => format!("request id: {request_id}"),
            (false, false) => format!("{advice}; request id: {request_id}"),
        }
    }
}

/// The error answer of the CNI specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    cni_version: &'static str,
    code: u32,
    msg: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    details: String,
}

impl Report {
    /// `version` is the configuration's, when it was understood.
    pub fn new(error: &Error, version: Option<Version>, command: Option<Command>, request_id: &str) -> Self {
        Self {
            cni_version: version.unwrap_or(Version::LATEST).name(),
            code: error.code(command),
            msg: error.to_string(),
            details: error.details(request_id),
        }
    }

    /// Everything but the version, in one line.
    pub fn for_the_log(&self) -> String {
        let Self {
            code, msg, details, ..
        } = self;
        if details.is_empty() {
            format!("{msg} (code {code})")
        } else {
            format!("{msg} (code {code}); {details}")
        }
    }

    /// For a bug in this program.
    pub fn of_a_panic(place: &str) -> Self {
        Self {
            cni_version: Version::LATEST.name(),
            code: code::BUG,
            msg: format!("internal error of the CNI plugin at {place}"),
            details: "please report this as a bug; kubelet asks again by itself".to_owned(),
        }
    }
}

/// Longest piece of somebody else's text in a message, in characters.
const SHOWN_CHARS: usize = 80;

/// A text in quotes for a message: escaped and cut, since it may come from anywhere.
pub(crate) fn shown(text: &str) -> String {
    match cut(text) {
        Some(cut) => format!("{cut:?}…"),
        None => format!("{text:?}"),
    }
}

/// The same for a value of the configuration, as it stands there. `None`: it is absent.
pub(crate) fn shown_json(value: Option<&serde_json::Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(serde_json::Value::String(text)) => shown(text),
        Some(other) => {
            let text = other.to_string();
            cut(&text).map_or_else(|| text.clone(), |cut| format!("{cut}…"))
        }
    }
}

fn cut(text: &str) -> Option<&str> {
    text.char_indices().nth(SHOWN_CHARS).map(|(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent_errors() -> Vec<Error> {
        let socket = PathBuf::from("/run/a.sock");
        vec![
            Error::Unreachable {
                socket: socket.clone(),
                cause: std::io::ErrorKind::NotFound.into(),
            },
            Error::Deadline {
                socket: socket.clone(),
                stage: "answer",
                budget: Duration::from_secs(100),
            },
            Error::Broken {
                socket,
                cause: "reset".into(),
            },
            Error::Refused(Refusal::from(&tonic::Status::internal("bug"))),
            Error::Answer("no prefix".into()),
            Error::NothingForNic {
                nic: "eth0".into(),
                others: "net1".into(),
            },
        ]
    }

    #[test]
    fn a_failed_del_always_asks_to_be_tried_again() {
        for error in agent_errors() {
            assert_eq!(error.code(Some(Command::Del)), 11, "{error}");
        }
    }

    #[test]
    fn an_agent_that_cannot_serve_makes_status_answer_50() {
        for error in agent_errors() {
            assert_eq!(error.code(Some(Command::Status)), 50, "{error}");
        }
    }

    #[test]
    fn a_wrong_input_keeps_its_code_for_every_verb() {
        for command in Command::ALL {
            assert_eq!(Error::Decode("is empty".into()).code(Some(command)), 6);
            assert_eq!(
                Error::VersionUnsupported { found: "9".into() }.code(Some(command)),
                1
            );
        }
    }

    #[test]
    fn a_shown_value_is_escaped_and_bounded() {
        let shown = shown(&"é\n".repeat(1000));
        assert!(shown.chars().count() < 200 && !shown.contains('\n'), "{shown}");
    }
}
