//! The provider over HTTP: one `POST` per call, no redirects, no retries, every body bounded.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use orbweaver_api::provider::{
    ALLOCATE_PATH, AllocateRequest, AllocateResponse, RELEASE_PATH, ReleaseRequest, TIMEOUT_HEADER,
};
use reqwest::{Response, Url};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::client::FollowingClient;
use super::outcome::{self, Call, CallFailure, Limit, Progress};
use super::tls::{TlsError, TlsFiles};
use super::witness::{Witness, WitnessedBody};
use super::{ProviderApi, metrics, throttle};
use crate::deadline::Deadline;
use crate::error::ProviderError;

/// An answer to an allocate call is some 300 bytes per sub-ENI; this holds thousands.
const ALLOCATE_BODY: usize = 1024 * 1024;
/// What is read of a body that only helps to keep the connection, or to explain a refusal.
const OTHER_BODY: usize = 64 * 1024;
/// How long such a body is waited for: the outcome is known, the caller should have it.
const OTHER_BODY_WAIT: Duration = Duration::from_millis(500);
const REQUEST_ID_HEADER: &str = "x-request-id";

/// Where the provider is and how it is spoken to.
#[derive(Clone, Debug)]
pub struct ProviderHttpOptions {
    /// `http://` or `https://`, host, perhaps a port and a path that the contract's paths are appended to.
    pub base_url: String,
    /// `httpRequestTimeout`.
    pub request_timeout: Duration,
    /// `tls.caFile`: trusted instead of the system's roots. Read anew when it changes.
    pub ca_file: Option<PathBuf>,
    /// Certificate chain shown to the provider, PEM. Read anew when it changes.
    pub client_certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub client_key: Option<PathBuf>,
    /// `tls.insecureSkipVerify`: believe whoever answers.
    pub insecure_skip_verify: bool,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ProviderHttpError {
    /// Not a URL that can be called.
    #[error("invalid iaasNetworkProvider.serverUrl {url:?}: {why}")]
    BaseUrl {
        /// As given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client itself.
    #[error("the provider's HTTP client cannot be built: {0}")]
    Client(#[source] reqwest::Error),
}

/// The provider's HTTP API.
pub struct ProviderHttp {
    allocate: Url,
    release: Url,
    request_timeout: Duration,
    client: FollowingClient,
}

impl std::fmt::Debug for ProviderHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderHttp")
            .field("allocate", &self.allocate.as_str())
            .finish_non_exhaustive()
    }
}

impl ProviderHttp {
    /// Reads the certificate files and builds the client. Call it on the runtime that does the IO.
    pub async fn new(options: ProviderHttpOptions) -> Result<Self, ProviderHttpError> {
        let allocate = endpoint(&options.base_url, ALLOCATE_PATH)?;
        let release = endpoint(&options.base_url, RELEASE_PATH)?;
        let files = TlsFiles {
            ca: options.ca_file,
            certificate: options.client_certificate,
            key: options.client_key,
        };
        if options.insecure_skip_verify {
            tracing::warn!(
                url = %allocate,
                "the provider's certificate is not verified: anybody on the path can hand out sub-ENIs; \
                 set tls.caFile and turn tls.insecureSkipVerify off"
            );
        }
        let verify = allocate.scheme() == "https" && !options.insecure_skip_verify;
        let client = FollowingClient::new(files, verify).await?;
        Ok(Self {
            allocate,
            release,
            request_timeout: options.request_timeout,
            client,
        })
    }

    async fn send(&self, exchange: &Exchange<'_>, url: &Url, body: Bytes) -> Result<Sent, CallFailure> {
        let call = exchange.call;
        let witness = Witness::default();
        let unwritten = |_| outcome::timed_out(call, exchange.limit, Progress::Unwritten);
        let client = timeout_at(exchange.deadline, self.client.get())
            .await
            .map_err(unwritten)?;
        let mut request = client
            .post(url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(reqwest::Body::wrap(WitnessedBody::new(body, witness.clone())));
        // An id that cannot be a header is still in the log.
        if let Ok(id) = HeaderValue::from_str(exchange.request_id) {
            request = request.header(REQUEST_ID_HEADER, id);
        }
        let at = Instant::now();
        let budget = exchange.deadline.saturating_duration_since(at);
        if budget.is_zero() {
            return Err(outcome::nothing_left(call, exchange.began.elapsed()).into());
        }
        metrics::budget_at_send(call, budget);
        let sending = request.header(TIMEOUT_HEADER, whole_milliseconds(budget)).send();
        let progress = move || {
            if witness.written() {
                Progress::Written {
                    budget,
                    elapsed: at.elapsed(),
                }
            } else {
                Progress::Unwritten
            }
        };
        match timeout_at(exchange.deadline, sending).await {
            Ok(Ok(response)) => Ok(Sent { response, at, budget }),
            Ok(Err(why)) => Err(outcome::broken(call, progress(), chain(&why)).into()),
            Err(_) => Err(outcome::timed_out(call, exchange.limit, progress()).into()),
        }
    }

    fn exchange<'a>(&self, call: Call, parent: Deadline, request_id: &'a str) -> Exchange<'a> {
        let began = Instant::now();
        let deadline = parent.within(began, self.request_timeout).instant();
        let limit = if deadline < began + self.request_timeout {
            Limit::Parent(parent.remaining(began))
        } else {
            Limit::Configured(self.request_timeout)
        };
        Exchange {
            call,
            request_id,
            began,
            deadline,
            limit,
        }
    }
}

#[async_trait]
impl ProviderApi for ProviderHttp {
    async fn allocate(
        &self,
        request: &AllocateRequest,
        deadline: Deadline,
        request_id: &str,
    ) -> Result<AllocateResponse, CallFailure> {
        let exchange = self.exchange(Call::Allocate, deadline, request_id);
        let mut sent = self.send(&exchange, &self.allocate, json(request)?).await?;
        if !sent.response.status().is_success() {
            return Err(exchange.refused(sent).await);
        }
        let mut body = Vec::new();
        let read = read_up_to(&mut sent.response, &mut body, ALLOCATE_BODY);
        let end = match timeout_at(exchange.deadline, read).await {
            Ok(Ok(end)) => end,
            Ok(Err(why)) => return Err(outcome::broken(Call::Allocate, sent.progress(), chain(&why)).into()),
            Err(_) => return Err(outcome::timed_out(Call::Allocate, exchange.limit, sent.progress()).into()),
        };
        if end == BodyEnd::Cut {
            let why = format!("the answer has more than {ALLOCATE_BODY} bytes");
            return Err(outcome::unreadable(why).into());
        }
        serde_json::from_slice(&body).map_err(|why| outcome::unreadable(why).into())
    }

    async fn release(
        &self,
        request: &ReleaseRequest,
        deadline: Deadline,
        request_id: &str,
    ) -> Result<(), CallFailure> {
        let exchange = self.exchange(Call::Release, deadline, request_id);
        let sent = self.send(&exchange, &self.release, json(request)?).await?;
        if !sent.response.status().is_success() {
            return Err(exchange.refused(sent).await);
        }
        exchange.rest(sent.response).await;
        Ok(())
    }
}

/// One call's bounds.
struct Exchange<'a> {
    call: Call,
    request_id: &'a str,
    began: Instant,
    deadline: Instant,
    limit: Limit,
}

/// A call whose status line has come.
struct Sent {
    response: Response,
    at: Instant,
    budget: Duration,
}

impl Sent {
    fn progress(&self) -> Progress {
        Progress::Written {
            budget: self.budget,
            elapsed: self.at.elapsed(),
        }
    }
}

impl Exchange<'_> {
    /// The status decides; the body only explains, and a body that does not come changes nothing.
    async fn refused(&self, sent: Sent) -> CallFailure {
        let status = sent.response.status().as_u16();
        let value = sent
            .response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let retry_after = throttle::retry_after(status, value, SystemTime::now());
        let body = self.rest(sent.response).await;
        CallFailure {
            error: outcome::refused(self.call, status, &body),
            retry_after,
        }
    }

    /// What comes soon of a body, so that the connection can be used again.
    async fn rest(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let until = self.deadline.min(Instant::now() + OTHER_BODY_WAIT);
        // Cut, broken or late: the outcome stands.
        let _ = timeout_at(until, read_up_to(&mut response, &mut body, OTHER_BODY)).await;
        body
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    Cut,
}

async fn read_up_to(
    response: &mut Response,
    body: &mut Vec<u8>,
    limit: usize,
) -> Result<BodyEnd, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let room = limit.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() > room {
            return Ok(BodyEnd::Cut);
        }
    }
    Ok(BodyEnd::Whole)
}

fn endpoint(base: &str, path: &str) -> Result<Url, ProviderHttpError> {
    let invalid = |why: &str| ProviderHttpError::BaseUrl {
        url: base.to_owned(),
        why: why.to_owned(),
    };
    let mut url = Url::parse(base).map_err(|why| invalid(&why.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must start with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must end with the host, the port or a path"));
    }
    // After the host is known to be there: behind an empty one the path would become the host.
    let path = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn json(request: &impl Serialize) -> Result<Bytes, ProviderError> {
    serde_json::to_vec(request)
        .map(Bytes::from)
        .map_err(|why| ProviderError::NotSent(format!("the request cannot be written as JSON: {why}").into()))
}

/// Rounded up, so that a positive rest never reads as nothing.
fn whole_milliseconds(budget: Duration) -> u64 {
    u64::try_from(budget.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// An error and its causes, outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_whole_milliseconds_rounded_up_and_positive() {
        let millis = |nanos| whole_milliseconds(Duration::from_nanos(nanos));
        assert_eq!([millis(1), millis(1_000_000), millis(1_000_001)], [1, 1, 2]);
        assert_eq!(whole_milliseconds(Duration::from_secs(50)), 50_000);
        assert_eq!(whole_milliseconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn the_contracts_paths_follow_the_base() {
        let url = |base| {
            endpoint(base, RELEASE_PATH)
                .map(|url| url.to_string())
                .map_err(|why| why.to_string())
        };
        let path = RELEASE_PATH;
        assert_eq!(url("https://p.svc:8443"), Ok(format!("https://p.svc:8443{path}")));
        assert_eq!(url("http://p/prefix/"), Ok(format!("http://p/prefix{path}")));
        assert_eq!(
            url("ftp://p"),
            Err(
                "invalid iaasNetworkProvider.serverUrl \"ftp://p\": must start with http:// or https://"
                    .into()
            )
        );
        assert!(url("not a url").is_err());
        for wrong in ["https://", "https://p?x=1", "https://p#x"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
