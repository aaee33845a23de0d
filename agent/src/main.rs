//! The daemon: reads its flags, runs, and says why it ended.

use std::process::ExitCode;

use clap::Parser;
use orbweaver_agent::config::{Args, Command};
use orbweaver_agent::{runtime, store};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.command {
        Some(Command::Explain(explain)) => runtime::explain(explain),
        None => runtime::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also for those who run it by hand, or whose log level hides it.
            eprintln!("orbweaver-agent: {}", store::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
