//! One connection: HTTP/1.1 or HTTP/2, with limits on everything that a client could leave open.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use orbweaver_actors::deadline::Deadline;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

/// From connecting to the first whole request header, and between requests of a persistent client.
const IDLE: Duration = Duration::from_secs(30);
/// What an HTTP/1.1 client may take for one header.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Header bytes.
const HEADER_LIMIT: usize = 16 * 1024;
/// Header fields.
const HEADER_FIELDS: usize = 64;
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 64;
/// The longest budget that a request can name, and a little for writing the answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(Deadline::CNI_BUDGET.as_secs() + 5);
/// What is left to a connection after it was told to end and has nothing in flight.
const FAREWELL: Duration = Duration::from_secs(1);

/// How a connection ended. A closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed it, or it was told to end and did.
    Done,
    /// Wrong user.
    Peer,
    /// Too many connections.
    Full,
    /// Nothing was asked for too long.
    Idle,
    /// Not HTTP, too large a header, or cut off.
    Broken,
}

impl Ending {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Peer => "peer",
            Self::Full => "full",
            Self::Idle => "idle",
            Self::Broken => "broken",
        }
    }
}

/// Serves a connection until the client is done, it is idle for too long, or `stop` fires and what is in
/// flight has been answered.
pub async fn serve<I>(stream: I, routes: Router, stop: CancellationToken) -> Ending
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let counted = activity.clone();
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let running = counted.start();
        let routes = routes.clone();
        async move {
            let answer = routes.oneshot(request.map(Body::new));
            let answer = timeout(REQUEST_LIMIT, answer)
                .await
                .unwrap_or_else(|_| Ok(too_late()));
            drop(running);
            answer
        }
    });
    let builder = builder();
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let ending = tokio::select! {
        result = connection.as_mut() => return ended(result),
        () = activity.idle(IDLE) => Ending::Idle,
        () = stop.cancelled() => Ending::Done,
    };
    connection.as_mut().graceful_shutdown();
    // What the farewell itself ends with says nothing more: a connection that never said which HTTP it
    // speaks ends with an error.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = activity.idle(FAREWELL) => {}
    }
    ending
}

fn ended(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) -> Ending {
    match result {
        Ok(()) => Ending::Done,
        Err(error) => {
            debug!(%error, "a connection broke");
            Ending::Broken
        }
    }
}

fn too_late() -> Response<Body> {
    let mut answer = Response::new(Body::from("\"the request took longer than any budget\""));
    *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    answer
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_LIMIT)
        .max_headers(HEADER_FIELDS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_LIMIT.try_into().unwrap_or(u32::MAX))
        .keep_alive_interval(Some(IDLE))
        .keep_alive_timeout(HEADER_TIME);
    builder
}

/// Counts the requests that run on a connection.
#[derive(Debug, Default)]
struct Activity {
    running: AtomicUsize,
    changed: Notify,
}

/// A request that runs; dropped with its answer, or when its client goes away.
struct Running(Arc<Activity>);

impl Activity {
    fn start(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        Running(self.clone())
    }

    /// Returns when nothing ran for `period`.
    async fn idle(&self, period: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.running.load(Ordering::Acquire) > 0 {
                changed.await;
            } else if timeout(period, changed).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_is_closed() {
        let (mut client, server) = tokio::io::duplex(1024);
        let ending = serve(server, Router::new(), CancellationToken::new()).await;
        assert_eq!(ending, Ending::Idle);
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_runs_keeps_its_connection() {
        let activity = Arc::new(Activity::default());
        let running = activity.start();
        let long = timeout(IDLE * 5, activity.idle(IDLE)).await;
        assert!(long.is_err(), "idle although a request runs");
        drop(running);
        activity.idle(IDLE).await;
    }
}
