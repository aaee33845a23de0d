//! `orbweaver-load`: shows Orbweaver at work and puts it under load.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use orbweaver_loadtests::demo::{self, DemoOptions};

/// Shows Orbweaver at work on a simulated cluster and cloud
#[derive(Debug, Parser)]
#[command(name = "orbweaver-load", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job, told step by step; fails when one of its claims is false
    Demo(DemoOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Demo(options) = Args::parse().command;
    match demo::run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orbweaver-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}
