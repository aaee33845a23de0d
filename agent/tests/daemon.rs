//! The binary itself: flags in, exit code and words out.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
#[path = "support/world.rs"]
mod world;

use std::process::{Output, Stdio};

use tokio::process::{Child, Command};
use tokio::time::timeout;
use world::{NODE, PATIENCE, World, run, until};

/// The daemon, without any of this process's variables.
fn daemon(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver-agent"));
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn output(child: Child) -> Output {
    timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the daemon does not end")
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    let sent = std::process::Command::new("kill")
        .args([name, &id])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Starts it in a world and waits for its socket.
async fn serving(world: &World) -> Child {
    world.define(true, None).await;
    let kubeconfig = world.folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, world.simulated.kubeconfig()).unwrap();
    let socket = world.folder.path().join("agent.sock");
    let child = daemon(&[
        "--admin-listen=127.0.0.1:0",
        &format!("--kubeconfig={}", kubeconfig.display()),
        &format!("--socket={}", socket.display()),
    ])
    .env("SPIDERPOOL_NODE_NAME", NODE)
    .spawn()
    .unwrap();
    until("the daemon's socket", async || socket.exists().then_some(())).await;
    child
}

#[test]
fn a_terminated_daemon_drains_and_exits_with_zero() {
    run(async |world| {
        let child = serving(&world).await;
        signal(&child, "-TERM");
        let output = output(child).await;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert!(!world.folder.path().join("agent.sock").exists());
        for line in log.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect(line);
            assert!(line["message"].is_string(), "{line}");
        }
        assert!(
            log.contains("draining") && log.contains("orbweaver-agent ended"),
            "{log}"
        );
    });
}

#[test]
fn a_daemon_that_cannot_run_says_why_and_exits_with_non_zero() {
    run(async |world| {
        let conf = world.folder.path().join("conf.yml");
        std::fs::write(&conf, "iaasNetworkProvider:\n  httpRequestTimeout: 2m\n").unwrap();
        let conf = format!("--config={}", conf.display());
        for (arguments, words) in [
            (&[][..], "--node-name is missing"),
            (&["--node-name=A/b"][..], "--node-name \"A/b\" is wrong"),
            (
                &["--node-name=n", "--kubeconfig=/none"][..],
                "the kubeconfig /none cannot be used",
            ),
            (&["--node-name=n", "--config=/none"][..], "cannot read /none"),
            (&["--node-name=n", "--log-level=a=b=c"][..], "--log-level"),
            (&["--node-name=n", "--max-requests=0"][..], "--max-requests"),
            (
                &["--node-name=n", &conf][..],
                "invalid iaasNetworkProvider.httpRequestTimeout \"2m\": must be less than static limit 2m0s",
            ),
        ] {
            let mut command = daemon(arguments);
            let output = output(command.arg("--admin-listen=127.0.0.1:0").spawn().unwrap()).await;
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {log}");
            let last = log.lines().last().unwrap_or_default();
            assert!(
                last.starts_with("orbweaver-agent: ") && last.contains(words),
                "{arguments:?}: {log}"
            );
        }
    });
}
