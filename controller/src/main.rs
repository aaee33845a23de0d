//! The daemon: reads its flags, runs, and says why it ended; or tells what garbage collection would do.

use std::process::ExitCode;

use clap::Parser;
use orbweaver_controller::config::{Args, Command};
use orbweaver_controller::{chain, daemon};

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.command {
        Some(Command::Gc { dry_run: _ }) => daemon::dry_run(&args),
        None => daemon::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Also for those who run it by hand, or whose log level hides it.
            eprintln!("orbweaver-controller: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
