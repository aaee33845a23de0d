//! The provider's HTTP client against servers that behave, misbehave and disappear.
// Clippy knows tests by their attribute, not what only they call.
#![allow(missing_docs, clippy::panic)]

#[path = "provider_support/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::outcome::TRANSIT;
use orbweaver_actors::provider::{CallFailure, ProviderApi, ProviderHttp, ProviderHttpOptions};
use orbweaver_api::provider::{ALLOCATE_PATH, AllocateRequest, AllocateResponse, RELEASE_PATH};
use proptest::prelude::*;
use server::{Reply, Server, allocate_request, answer, bound, release_request};
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(50);

fn options(url: &str) -> ProviderHttpOptions {
    ProviderHttpOptions {
        base_url: url.into(),
        request_timeout: TIMEOUT,
        ca_file: None,
        client_certificate: None,
        client_key: None,
        insecure_skip_verify: false,
    }
}

async fn http(url: &str) -> ProviderHttp {
    ProviderHttp::new(options(url)).await.expect("a client")
}

async fn allocate(url: &str) -> Result<AllocateResponse, CallFailure> {
    let deadline = Deadline::after(Deadline::CNI_BUDGET);
    http(url)
        .await
        .allocate(&allocate_request("10.0.0.10"), deadline, "r-1")
        .await
}

/// The error of a call to a server that answers so.
async fn allocate_fails(reply: Reply) -> ProviderError {
    let server = Server::plain(reply).await;
    allocate(&server.url())
        .await
        .expect_err("the server gives no usable answer")
        .error
}

/// The error of a call whose request has arrived and whose time then runs out.
async fn allocate_runs_out(reply: Reply, budget: Duration) -> ProviderError {
    let mut server = Server::plain(reply).await;
    let http = http(&server.url()).await;
    let request = allocate_request("10.0.0.10");
    let call = http.allocate(&request, Deadline::after(budget), "r-1");
    let arrived = async {
        server.request().await;
        tokio::time::pause();
    };
    let (outcome, ()) = tokio::join!(call, arrived);
    outcome.expect_err("no answer came").error
}

fn rejected(error: &ProviderError) -> &str {
    match error {
        ProviderError::Rejected(text) => text,
        other => panic!("{other:?} should be rejected"),
    }
}

fn unknown(error: &ProviderError) -> (&str, Duration) {
    match error {
        ProviderError::Unknown { message, may_run_for } => (message, *may_run_for),
        other => panic!("{other:?} should be unknown"),
    }
}

#[tokio::test]
async fn a_call_carries_its_budget_its_id_and_its_body() {
    let mut server = Server::plain(Reply::Keep(bound("10.0.0.10"))).await;
    let http = http(&format!("{}/prefix/", server.url())).await;
    let sent = allocate_request("10.0.0.10");
    let began = Instant::now();
    let response = http
        .allocate(&sent, Deadline::after(Deadline::CNI_BUDGET), "r-1")
        .await
        .expect("answered");
    assert_eq!(response.sub_eni_responses[0].vlan_id, Some(100));

    let received = server.request().await;
    assert_eq!(
        received.head.lines().next(),
        Some(&*format!("POST /prefix{ALLOCATE_PATH} HTTP/1.1"))
    );
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("x-request-id"), Some("r-1"));
    assert!(
        received
            .header("user-agent")
            .is_some_and(|agent| agent.starts_with("orbweaver/"))
    );
    let body: AllocateRequest = serde_json::from_slice(&received.body).expect("JSON");
    assert_eq!(body, sent);
    let budget: u64 = received
        .header("x-request-timeout-ms")
        .expect("budget")
        .parse()
        .expect("a number");
    let left_on_arrival = (began + TIMEOUT).duration_since(received.at);
    assert!(
        u128::from(budget) >= left_on_arrival.as_millis() && budget <= 50_000,
        "{budget}"
    );
}

#[tokio::test]
async fn the_budget_sent_is_the_parents_when_that_is_smaller() {
    let mut server = Server::plain(Reply::Keep(answer("204 No Content", "", ""))).await;
    let http = http(&server.url()).await;
    let deadline = Deadline::after(Duration::from_secs(10));
    http.release(&release_request("10.0.0.10"), deadline, "r-1")
        .await
        .expect("released");
    let received = server.request().await;
    assert_eq!(
        received.head.lines().next(),
        Some(&*format!("POST {RELEASE_PATH} HTTP/1.1"))
    );
    let budget: u64 = received
        .header("x-request-timeout-ms")
        .expect("budget")
        .parse()
        .expect("a number");
    assert!(
        u128::from(budget) >= deadline.remaining(received.at).as_millis() && budget <= 10_000,
        "{budget}"
    );
}

#[tokio::test]
async fn a_call_without_any_budget_is_not_sent() {
    let mut server = Server::plain(Reply::Keep(bound("10.0.0.10"))).await;
    let http = http(&server.url()).await;
    let outcome = http
        .allocate(
            &allocate_request("10.0.0.10"),
            Deadline::at(Instant::now()),
            "r-1",
        )
        .await;
    let error = outcome.expect_err("no budget").error;
    assert!(matches!(error, ProviderError::NotSent(_)), "{error:?}");
    assert!(server.saw_nothing_more());
}

#[tokio::test]
async fn our_own_timeout_is_unknown_and_has_the_seeds_text() {
    let error = allocate_runs_out(Reply::Hang(vec![]), Deadline::CNI_BUDGET).await;
    let (text, may_run_for) = unknown(&error);
    assert!(
        text.starts_with(
            "provider-interaction timeout: IaaS allocate API call exceeded configured timeout 50s: "
        ),
        "{text}"
    );
    assert_eq!(may_run_for, TRANSIT, "the budget is spent");
}

#[tokio::test]
async fn the_parents_deadline_is_unknown_and_has_the_other_text() {
    let error = allocate_runs_out(Reply::Hang(vec![]), Duration::from_secs(20)).await;
    let (text, _) = unknown(&error);
    assert!(
        text.starts_with(
            "parent budget exhausted: IaaS allocate API call cancelled by parent context deadline: "
        ),
        "{text}"
    );
}

#[tokio::test]
async fn an_answer_that_stops_in_its_body_is_unknown() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"subEni".to_vec();
    let hanging = allocate_runs_out(Reply::Hang(half.clone()), Deadline::CNI_BUDGET).await;
    assert!(unknown(&hanging).0.starts_with("provider-interaction timeout"));
    tokio::time::resume();
    let (cut, left) = (allocate_fails(Reply::Close(half)).await, TIMEOUT + TRANSIT);
    let (text, may_run_for) = unknown(&cut);
    assert!(text.starts_with("iaas allocate API call failed: "), "{text}");
    assert!(may_run_for > TRANSIT && may_run_for <= left);
}

#[tokio::test]
async fn a_connection_cut_after_sending_is_unknown() {
    let error = allocate_fails(Reply::Close(vec![])).await;
    let (text, may_run_for) = unknown(&error);
    assert!(text.starts_with("iaas allocate API call failed: "), "{text}");
    assert!(may_run_for > TRANSIT && may_run_for <= TIMEOUT + TRANSIT);
}

#[tokio::test]
async fn a_refused_connection_is_rejected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    drop(listener);
    let error = allocate(&url).await.expect_err("nobody listens").error;
    let text = rejected(&error);
    assert!(text.starts_with("iaas allocate API call failed: "), "{text}");
    assert!(text.contains("refused"), "the cause is in {text}");
}

#[tokio::test]
async fn time_that_runs_out_before_anything_was_written_is_rejected() {
    // It takes the connection and never says hello.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback");
    let url = format!("https://{}", listener.local_addr().expect("address"));
    let options = ProviderHttpOptions {
        insecure_skip_verify: true,
        ..options(&url)
    };
    let http = ProviderHttp::new(options).await.expect("a client");
    let request = allocate_request("10.0.0.10");
    let call = http.allocate(&request, Deadline::after(Deadline::CNI_BUDGET), "r-1");
    let connected = async {
        let connection = listener.accept().await.expect("a connection");
        tokio::time::pause();
        connection
    };
    let (outcome, _connection) = tokio::join!(call, connected);
    let error = outcome.expect_err("no handshake").error;
    assert!(
        rejected(&error).starts_with("provider-interaction timeout: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_is_a_refusal_and_is_not_followed() {
    let mut elsewhere = Server::plain(Reply::Keep(bound("10.0.0.10"))).await;
    let location = format!("location: {}/\r\n", elsewhere.url());
    // A client that follows turns a 303 into a GET without body, so that one is the easiest to follow.
    for status in ["301 Moved", "303 See Other", "307 Temporary"] {
        let error = allocate_fails(Reply::Keep(answer(status, &location, "moved"))).await;
        let code = &status[..3];
        assert_eq!(
            rejected(&error),
            format!("iaas allocate API returned status {code}: moved")
        );
    }
    assert!(elsewhere.saw_nothing_more());
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_rejected_without_being_read() {
    let huge = answer("200 OK", "", &" ".repeat(10 * 1024 * 1024));
    let endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    for reply in [Reply::Close(huge), Reply::Endless(endless)] {
        let error = allocate_fails(reply).await;
        let text = rejected(&error);
        assert!(
            text.starts_with("failed to unmarshal allocate response: the answer has more than"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn truncated_json_in_a_complete_answer_is_rejected() {
    for body in [
        "",
        "{\"subEniResponses\":[",
        "null",
        "[]",
        "{}",
        "{\"subEniResponses\":[{\"vlanId\":\"x\"}]}",
    ] {
        let error = allocate_fails(Reply::Keep(answer("200 OK", "", body))).await;
        assert!(
            rejected(&error).starts_with("failed to unmarshal allocate response: "),
            "{body}: {error}"
        );
    }
}

#[tokio::test]
async fn a_refusal_stands_whatever_becomes_of_its_body() {
    let head = |length: &str| format!("HTTP/1.1 500 Oops\r\n{length}\r\nwhy").into_bytes();
    let endless = allocate_fails(Reply::Endless(head(""))).await;
    assert!(rejected(&endless).starts_with("iaas allocate API returned status 500: why"));
    let cut = allocate_fails(Reply::Close(head("content-length: 99\r\n"))).await;
    assert_eq!(rejected(&cut), "iaas allocate API returned status 500: why");
    let hanging = allocate_fails(Reply::Hang(head("content-length: 99\r\n"))).await;
    assert_eq!(rejected(&hanging), "iaas allocate API returned status 500: why");
}

#[tokio::test]
async fn any_2xx_is_a_release_whatever_its_body() {
    let replies = [
        Reply::Keep(answer("200 OK", "", "not JSON")),
        Reply::Keep(answer("202 Accepted", "", "")),
        Reply::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ncut".to_vec()),
        Reply::Hang(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nlate".to_vec()),
        Reply::Endless(b"HTTP/1.1 299 Fine\r\n\r\n".to_vec()),
    ];
    for reply in replies {
        let server = Server::plain(reply.clone()).await;
        let deadline = Deadline::after(Deadline::CNI_BUDGET);
        let outcome = http(&server.url())
            .await
            .release(&release_request("10.0.0.10"), deadline, "r-1")
            .await;
        assert!(outcome.is_ok(), "{reply:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_release_that_is_refused_says_so() {
    let server = Server::plain(Reply::Keep(answer("404 Not Found", "", "unknown subnet"))).await;
    let deadline = Deadline::after(Deadline::CNI_BUDGET);
    let outcome = http(&server.url())
        .await
        .release(&release_request("10.0.0.10"), deadline, "r-1")
        .await;
    let error = outcome.expect_err("refused").error;
    assert_eq!(
        rejected(&error),
        "iaas release API returned status 404: unknown subnet"
    );
}

#[tokio::test]
async fn a_throttled_call_is_rejected_and_names_the_pause() {
    let reply = answer("429 Too Many Requests", "retry-after: 7\r\n", "slow down");
    let server = Server::plain(Reply::Keep(reply)).await;
    let failure = allocate(&server.url()).await.expect_err("throttled");
    assert_eq!(
        rejected(&failure.error),
        "iaas allocate API returned status 429: slow down"
    );
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let server = Server::plain(Reply::Keep(bound("10.0.0.10"))).await;
    let http = http(&server.url()).await;
    for _ in 0..3 {
        let deadline = Deadline::after(Deadline::CNI_BUDGET);
        http.allocate(&allocate_request("10.0.0.10"), deadline, "r-1")
            .await
            .expect("answered");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_url_that_cannot_be_called_is_refused_with_its_key() {
    let options = options("provider:8443");
    let error = ProviderHttp::new(options)
        .await
        .expect_err("no scheme")
        .to_string();
    assert!(
        error.starts_with("invalid iaasNetworkProvider.serverUrl \"provider:8443\": "),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_bytes_come_back_the_call_ends_with_an_outcome(
        good_head in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        let reply = if good_head { [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &bytes].concat() } else { bytes };
        let outcome = runtime.block_on(async {
            let server = Server::plain(Reply::Close(reply)).await;
            let api: Arc<dyn ProviderApi> = Arc::new(http(&server.url()).await);
            api.allocate(&allocate_request("10.0.0.10"), Deadline::after(Deadline::CNI_BUDGET), "r-1").await
        });
        if let Err(failure) = outcome {
            prop_assert!(!matches!(failure.error, ProviderError::NotSent(_)), "{failure:?}: it was sent");
        }
    }
}
