//! The plugin runs once per pod: what it is made of decides how long a pod waits for its process to start.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::process::Command;

#[test]
fn the_plugin_is_built_without_kube_actix_and_other_heavy_crates() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "orbweaver-cni",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let crates: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"tonic"), "the tree was not read: {text}");
    let banned = [
        "kube",
        "actix",
        "k8s-openapi",
        "schemars",
        "reqwest",
        "rustls",
        "axum",
        "clap",
        "regex",
        "tracing-subscriber",
    ];
    let found: Vec<&&str> = crates
        .iter()
        .filter(|name| banned.iter().any(|ban| name.starts_with(ban)))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}
