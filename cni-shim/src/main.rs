//! The CNI IPAM plugin of Orbweaver, installed into the CNI bin directory as `spiderpool`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let start = tokio::time::Instant::now();
    orbweaver_cni::answer_panics();
    orbweaver_cni::run(orbweaver_cni::Process::of_this_process(start)).print()
}
