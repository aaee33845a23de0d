//! One run of the plugin: environment and stdin in, one request to the agent, one JSON answer out.
//!
//! ```text
//! env ──> args ─┐
//!               ├─> command ──gRPC, unix socket──> agent
//! stdin > config┘        └──> result | error ──> stdout
//! ```
//!
//! | module | what it holds | IO |
//! |---|---|---|
//! | [`args`] | `CNI_*` variables and `CNI_ARGS` | none |
//! | [`config`] | the network configuration on stdin | none |
//! | [`command`] | the verbs, one file each | through [`client`] |
//! | [`client`] | the agent's socket and the deadline | socket |
//! | [`result`](mod@result) | the answer of ADD in each CNI version | none |
//! | [`error`] | everything that can go wrong, and its CNI code | none |
//! | [`log`] | the log file and its rotation | files |

pub mod args;
pub mod client;
pub mod command;
pub mod config;
pub mod error;
pub mod log;
mod request_id;
pub mod result;
mod run;

pub use run::{Budget, Outcome, Process, STDIN_MAX, Variables, answer_panics, run};
