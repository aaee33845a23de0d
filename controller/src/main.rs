//! The daemon: reads its flags, runs, and says why it ended.

use std::process::ExitCode;

use clap::Parser;
use orbweaver_controller::config::Args;
use orbweaver_controller::{chain, daemon};

fn main() -> ExitCode {
    match daemon::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also for those who run it by hand, or whose log level hides it.
            eprintln!("orbweaver-controller: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
