//! The agent on its unix socket: one connection, one call, one deadline.

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use orbweaver_api::grpc::ipam_client::IpamClient;
use orbweaver_api::grpc::{
    AddRequest, AddResponse, CheckRequest, CheckResponse, DelRequest, DelResponse, GcRequest, GcResponse,
    StatusRequest, StatusResponse,
};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Request, Response, Status};

use crate::error::{Error, Refusal};

/// What the agent is told to have less than this plugin has. An agent that runs out of time knows which stage
/// spent it, so its answer must get here before this plugin gives up by itself.
const ANSWER_RESERVE: Duration = Duration::from_millis(250);
/// Largest answer that is read. Two addresses and a pool's routes take a few KiB.
const ANSWER_MAX: usize = 1 << 20;
/// Pause before another try to connect, when the agent's accept queue is full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(10);

/// A connection to the agent.
#[derive(Debug)]
pub struct Agent {
    client: IpamClient<Http2>,
    connection: JoinHandle<()>,
    line: Line,
}

/// What a failure on the way is reported with.
#[derive(Debug)]
struct Line {
    socket: PathBuf,
    deadline: Instant,
    budget: Duration,
}

impl Agent {
    /// Connects to `socket`. `budget` is what `deadline` was made from, for messages.
    ///
    /// # Errors
    /// Nobody listens, or nobody accepted in time.
    pub async fn connect(socket: &Path, deadline: Instant, budget: Duration) -> Result<Self, Error> {
        let line = Line {
            socket: socket.to_owned(),
            deadline,
            budget,
        };
        let (sender, connection) = timeout_at(deadline, line.open())
            .await
            .map_err(|_| line.late("accept the connection"))??;
        let origin = http::Uri::from_static("http://localhost");
        let client = IpamClient::with_origin(Http2(sender), origin).max_decoding_message_size(ANSWER_MAX);
        Ok(Self {
            client,
            connection,
            line,
        })
    }

    /// # Errors
    /// As of every call: the agent's refusal, a broken connection, or the deadline.
    pub async fn add(mut self, message: AddRequest) -> Result<AddResponse, Error> {
        let call = self.client.add(self.line.request(message));
        self.line.answer(call).await
    }

    /// # Errors
    /// See [`Agent::add`].
    pub async fn del(mut self, message: DelRequest) -> Result<DelResponse, Error> {
        let call = self.client.del(self.line.request(message));
        self.line.answer(call).await
    }

    /// # Errors
    /// See [`Agent::add`].
    pub async fn check(mut self, message: CheckRequest) -> Result<CheckResponse, Error> {
        let call = self.client.check(self.line.request(message));
        self.line.answer(call).await
    }

    /// # Errors
    /// See [`Agent::add`].
    pub async fn status(mut self, message: StatusRequest) -> Result<StatusResponse, Error> {
        let call = self.client.status(self.line.request(message));
        self.line.answer(call).await
    }

    /// # Errors
    /// See [`Agent::add`].
    pub async fn gc(mut self, message: GcRequest) -> Result<GcResponse, Error> {
        let call = self.client.gc(self.line.request(message));
        self.line.answer(call).await
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Line {
    async fn open(&self) -> Result<(SendRequest<Body>, JoinHandle<()>), Error> {
        let stream = self.dial().await?;
        let handshake = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| self.broken(&error))?;
        // An error of the connection reaches the caller through the request that it ends.
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok((sender, connection))
    }

    async fn dial(&self) -> Result<UnixStream, Error> {
        loop {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => return Ok(stream),
                // Not an error: a unix socket says so when its accept queue is full, as it is when a whole
                // node's pods start at once.
                Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(QUEUE_FULL_PAUSE).await,
                Err(cause) => {
                    return Err(Error::Unreachable {
                        socket: self.socket.clone(),
                        cause,
                    });
                }
            }
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let left = self.deadline.saturating_duration_since(Instant::now());
        request.set_timeout(left.saturating_sub(ANSWER_RESERVE.min(left / 4)));
        request
    }

    async fn answer<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Error> {
        match timeout_at(self.deadline, call).await {
            Err(_) => Err(self.late("answer")),
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.failed(&status)),
        }
    }

    fn failed(&self, status: &Status) -> Error {
        // A status that the agent sent has no source; one that was made here tells of the connection.
        if let Some(source) = std::error::Error::source(status) {
            return self.broken(source);
        }
        let refusal = Refusal::from(status);
        // tonic's server ends a call by itself at the time it was given, and has nothing to say about why.
        if refusal.is_an_unexplained_timeout() {
            self.late("answer")
        } else {
            Error::Refused(refusal)
        }
    }

    fn late(&self, stage: &'static str) -> Error {
        Error::Deadline {
            socket: self.socket.clone(),
            stage,
            budget: self.budget,
        }
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let mut cause = error.to_string();
        let mut next = error.source();
        while let Some(error) = next {
            cause = format!("{cause}: {error}");
            next = error.source();
        }
        Error::Broken {
            socket: self.socket.clone(),
            cause,
        }
    }
}

/// What tonic needs of a transport, without its buffers, balancer and reconnects.
#[derive(Debug, Clone)]
struct Http2(SendRequest<Body>);

impl Service<http::Request<Body>> for Http2 {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
