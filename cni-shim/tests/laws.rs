//! Laws of a whole run, with the world faked in process: time, broken agents, arbitrary input.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

#[path = "fake_agent/server.rs"]
mod fake_agent;

use std::ffi::OsString;
use std::io::{Cursor, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fake_agent::{FakeAgent, Mood};
use orbweaver_cni::{Budget, Outcome, Process, STDIN_MAX, run};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Enough to reach a listening agent on a busy machine.
const SHORT: Duration = Duration::from_secs(1);
/// Far more than a run with [`SHORT`] takes on a busy machine, far less than [`LONG`].
const PATIENCE: Duration = Duration::from_secs(30);
/// For runs that end by something else than the clock.
const LONG: Duration = Duration::from_secs(60);

fn network(socket: &Path) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "name": "pods",
        "prevResult": {"ips": [{"address": "10.6.0.3/16"}]},
        "cni.dev/valid-attachments": [],
        "ipam": {"ipam_unix_socket_path": socket, "log_file_path": "/dev/null"},
    })
}

fn process(command: &'static str, stdin: impl Read + Send + 'static, budget: Duration) -> Process {
    let env = move |name: &str| {
        let value = match name {
            "CNI_COMMAND" => command,
            "CNI_CONTAINERID" => "c1",
            "CNI_NETNS" => "/run/netns/c1",
            "CNI_IFNAME" => "eth0",
            "CNI_ARGS" => "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0",
            _ => return None,
        };
        Some(OsString::from(value))
    };
    let budget = Budget {
        request: budget,
        status: budget,
    };
    Process {
        env: Box::new(env),
        stdin: Box::new(stdin),
        start: Instant::now(),
        budget,
    }
}

/// On a thread of its own, so that a plugin that never ends fails the test instead of stopping it.
fn run_to_the_end(process: impl FnOnce() -> Process + Send + 'static) -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(run(process())));
    receiver.recv_timeout(PATIENCE).unwrap()
}

fn ask(command: &'static str, socket: &Path, budget: Duration) -> (u64, String) {
    let stdin = network(socket).to_string();
    code_and_msg(&run_to_the_end(move || {
        process(command, Cursor::new(stdin), budget)
    }))
}

fn code_and_msg(outcome: &Outcome) -> (u64, String) {
    assert!(!outcome.success, "{outcome:?}");
    let error: Value = serde_json::from_str(&outcome.stdout).unwrap();
    (
        error["code"].as_u64().unwrap(),
        error["msg"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn an_agent_that_hangs_costs_the_budget_and_no_more() {
    let agent = FakeAgent::start(Mood::Hangs);
    let verbs = [
        ("ADD", 11),
        ("DEL", 11),
        ("CHECK", 11),
        ("STATUS", 50),
        ("GC", 11),
    ];
    std::thread::scope(|scope| {
        let socket = agent.socket();
        let asked = verbs.map(|(command, wanted)| {
            let socket = socket.clone();
            (wanted, scope.spawn(move || ask(command, &socket, SHORT)))
        });
        for (wanted, asked) in asked {
            let (code, msg) = asked.join().unwrap();
            assert_eq!(code, wanted, "{msg}");
            assert!(msg.contains("did not answer within 1s"), "{msg}");
        }
    });
    assert_eq!(agent.calls().len(), 5);
}

#[test]
fn an_agent_that_is_frozen_costs_the_budget_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    // The kernel accepts for it, and nobody ever reads.
    let _listener = UnixListener::bind(&socket).unwrap();
    let (code, msg) = ask("ADD", &socket, SHORT);
    assert!(
        code == 11 && msg.contains("did not answer within 1s"),
        "{code} {msg}"
    );
}

#[test]
fn an_agent_whose_accept_queue_stays_full_costs_the_budget_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let listening = tokio::net::UnixSocket::new_stream().unwrap();
    listening.bind(&socket).unwrap();
    let _listener = listening.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let next = tokio::net::UnixSocket::new_stream().unwrap();
        match runtime.block_on(next.connect(&socket)) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let (code, msg) = ask("ADD", &socket, SHORT);
    assert!(
        code == 11 && msg.contains("did not accept the connection within 1s"),
        "{code} {msg}"
    );
}

#[test]
fn garbage_instead_of_an_answer_is_reported_as_such() {
    // A linear congruence, so that a failure can be repeated.
    let noise = |seed: u32| -> Vec<u8> {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(seed), next)
            .take(64 << 10)
            .map(|state| state.to_be_bytes()[0])
            .collect()
    };
    let mut answers: Vec<Vec<u8>> = (0..8).map(noise).collect();
    answers.push(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec());
    answers.push(vec![0; 64 << 10]);
    answers.push(Vec::new());
    // The frame in which an HTTP/2 server begins, then noise.
    answers.push([&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &noise(99)].concat());
    for answer in answers {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&answer).ok();
            stream.shutdown(std::net::Shutdown::Write).ok();
            std::io::copy(&mut stream, &mut std::io::sink()).ok();
        });
        let (code, msg) = ask("ADD", &socket, LONG);
        assert!(
            code == 11 && msg.starts_with("the connection to the agent at "),
            "{code} {msg}"
        );
        agent.join().unwrap();
    }
}

#[test]
fn a_stdin_that_nobody_closes_costs_the_budget_and_no_more() {
    let (mut open, stdin) = UnixStream::pair().unwrap();
    open.write_all(b"{").unwrap();
    let (code, msg) = code_and_msg(&run_to_the_end(|| process("DEL", stdin, SHORT)));
    assert!(code == 5 && msg.contains("not closed in time"), "{code} {msg}");
}

#[test]
fn a_stdin_without_end_is_not_read_to_its_end() {
    struct Endless(Arc<AtomicU64>);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b' ');
            self.0.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            Ok(buffer.len())
        }
    }
    let read = Arc::new(AtomicU64::new(0));
    let stdin = Endless(read.clone());
    let (code, msg) = code_and_msg(&run_to_the_end(|| process("DEL", stdin, LONG)));
    assert!(code == 6 && msg.contains("larger than"), "{code} {msg}");
    assert!(read.load(Ordering::Relaxed) <= 2 * STDIN_MAX);
}

#[test]
fn version_reads_nothing() {
    struct Trap;
    impl Read for Trap {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            panic!("VERSION must not read");
        }
    }
    let outcome = run(process("VERSION", Trap, Duration::ZERO));
    assert!(
        outcome.success && outcome.stdout.contains("supportedVersions"),
        "{outcome:?}"
    );
}

#[test]
fn a_bug_is_answered_as_a_cni_error() {
    let this_program = std::env::current_exe().unwrap();
    let buggy = std::process::Command::new(this_program)
        .args(["--exact", "the_bug_of_that_answer", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let stdout = String::from_utf8(buggy.stdout).unwrap();
    let answer = stdout
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("{stdout}"));
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert!(!buggy.status.success());
    assert_eq!(answer["code"], 110);
    assert!(answer["msg"].as_str().unwrap().contains("laws.rs"), "{answer}");
}

#[test]
#[ignore = "ends its process; the law above runs it"]
fn the_bug_of_that_answer() {
    orbweaver_cni::answer_panics();
    panic!("a bug");
}

/// A success, or an error in the form of CNI; never anything else on stdout.
fn is_an_answer(outcome: &Outcome) -> bool {
    let parsed = serde_json::from_str::<Value>(&outcome.stdout);
    if outcome.success {
        return outcome.stdout.is_empty() || parsed.is_ok();
    }
    parsed.is_ok_and(|error| error["code"].as_u64().is_some_and(|code| code > 0) && error["msg"].is_string())
}

fn command() -> impl Strategy<Value = OsString> {
    prop_oneof![
        9 => prop::sample::select(vec!["ADD", "DEL", "CHECK", "STATUS", "GC", "VERSION"]).prop_map(OsString::from),
        1 => anything(),
    ]
}

fn anything() -> impl Strategy<Value = OsString> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec);
    prop_oneof![bytes, "[a-zA-Z0-9./:; =_-]{0,40}".prop_map(OsString::from)]
}

fn some_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "(?s).{0,9}".prop_map(Value::from),
        Just(json!("1.1.0")),
        Just(json!("10.6.0.3/16")),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let key = "ips|interfaces|address|interface|name|containerID|ifname|x";
        let object = prop::collection::btree_map(key, inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Socket and log are out of reach, whatever else the configuration says.
fn stdin() -> impl Strategy<Value = Vec<u8>> {
    let keys = "clean_gateway|log_level|log_file_max_size|default_ipv4_ippool|y";
    let ipam = prop::collection::btree_map(keys, some_json(), 0..3);
    let near_miss = (ipam, some_json(), some_json(), any::<bool>()).prop_map(|(ipam, prev, valid, good)| {
        let mut network = network(Path::new("/nonexistent/agent.sock"));
        network["prevResult"] = prev;
        network["cni.dev/valid-attachments"] = valid;
        if !good {
            for (key, value) in ipam {
                network["ipam"][key] = value;
            }
        }
        network.to_string().into_bytes()
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), near_miss]
}

proptest! {
    #[test]
    fn any_input_gets_one_answer(
        command in command(), container in anything(), netns in anything(), nic in anything(), args in anything(),
        stdin in stdin(), plausible in any::<bool>(),
    ) {
        let plain = process("", Cursor::new(""), LONG).env;
        let env = move |name: &str| match name {
            "CNI_COMMAND" => Some(command.clone()),
            _ if plausible => plain(name),
            "CNI_CONTAINERID" => Some(container.clone()),
            "CNI_NETNS" => Some(netns.clone()),
            "CNI_IFNAME" => Some(nic.clone()),
            "CNI_ARGS" => Some(args.clone()),
            _ => None,
        };
        let process = Process { env: Box::new(env), ..process("", Cursor::new(stdin), LONG) };
        let outcome = run(process);
        prop_assert!(is_an_answer(&outcome), "{outcome:?}");
    }
}
