//! The daemon as a process: signals, exit codes, the admin port.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use orbweaver_api::crd;
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use orbweaver_controller::config::LEASE_NAME;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

fn daemon(kubeconfig: &Path, admin: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orbweaver-controller"))
        .args([
            "--namespace",
            "kube-system",
            "--identity",
            "d",
            "--log-level",
            "error",
        ])
        .args(["--webhook-listen", "127.0.0.1:0"])
        .args(["--admin-listen", admin, "--kubeconfig"])
        .arg(kubeconfig)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn end(child: &mut Child) -> ExitStatus {
    timeout(PATIENCE, child.wait()).await.unwrap().unwrap()
}

/// A port that was free a moment ago.
async fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    answer
}

#[tokio::test]
async fn a_signal_ends_the_work_frees_the_lease_and_is_no_failure() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, cluster.kubeconfig()).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    for definition in crd::all().unwrap() {
        let definitions = Api::all(client.clone());
        let params = PostParams::default();
        definitions.create(&params, &definition).await.unwrap();
    }
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let holder = async || leases.get_opt(LEASE_NAME).await.unwrap()?.spec?.holder_identity;

    let admin = free_port().await;
    let mut child = daemon(&path, &admin);
    let give_up = Instant::now() + PATIENCE;
    while holder().await.as_deref() != Some("d") {
        assert!(Instant::now() < give_up, "it never led");
        sleep(Duration::from_millis(20)).await;
    }
    while !get(&admin, "/readyz").await.starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < give_up, "it was never ready");
        sleep(Duration::from_millis(20)).await;
    }
    for path in ["/livez", "/readyz", "/v1/runtime/readiness"] {
        assert!(get(&admin, path).await.starts_with("HTTP/1.1 200"), "{path}");
    }
    assert!(
        get(&admin, "/metrics")
            .await
            .contains("orbweaver_controller_leader")
    );

    let id = child.id().unwrap().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(kill.success());
    assert!(end(&mut child).await.success());
    assert_eq!(holder().await.as_deref(), Some(""));
}

#[tokio::test]
async fn what_keeps_it_from_starting_is_a_failure_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken
        .local_addr()
        .map(|address| (address.to_string(), taken))
        .unwrap();
    for (admin, reason) in [
        ("127.0.0.1:0", "kubeconfig"),
        (taken.0.as_str(), "--admin-listen"),
    ] {
        let child = daemon(&missing, admin);
        let output = timeout(PATIENCE, child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn the_daemon_refuses_a_timeout_that_no_agent_starts_with() {
    let directory = tempfile::tempdir().unwrap();
    let conf = directory.path().join("conf.yml");
    std::fs::write(&conf, "iaasNetworkProvider:\n  httpRequestTimeout: 2m\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_orbweaver-controller"))
        .args([
            "--namespace",
            "n",
            "--identity",
            "i",
            "--admin-listen",
            "127.0.0.1:0",
            "--config",
        ])
        .arg(&conf)
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("httpRequestTimeout") && said.contains("static limit 2m0s"),
        "{said}"
    );
}
