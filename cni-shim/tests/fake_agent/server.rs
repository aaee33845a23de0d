//! An agent that answers what it is told to, on a unix socket of its own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use orbweaver_api::grpc::ipam_server::{Ipam, IpamServer};
use orbweaver_api::grpc::{
    AddRequest, AddResponse, CheckRequest, CheckResponse, DelRequest, DelResponse, GcRequest, GcResponse,
    StatusRequest, StatusResponse,
};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// What the agent was asked.
#[derive(Debug, Clone, PartialEq)]
#[allow(dead_code, reason = "each test reads the calls that it is about")]
pub(crate) enum Call {
    Add(AddRequest),
    Del(DelRequest),
    Check(CheckRequest),
    Status(StatusRequest),
    Gc(GcRequest),
}

/// How the agent answers.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "each test uses the answers that it is about")]
pub(crate) enum Mood {
    /// Yes to everything; these addresses to an ADD.
    Serves(AddResponse),
    /// No to everything.
    Refuses(Status),
    /// Nothing, ever.
    Hangs,
}

/// Runs until it is dropped.
pub(crate) struct FakeAgent {
    folder: tempfile::TempDir,
    calls: Arc<Mutex<Vec<(Call, String)>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[allow(dead_code, reason = "each test uses what it is about")]
impl FakeAgent {
    pub(crate) fn start(mood: Mood) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(folder.path().join("agent.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let service = Service {
            mood,
            calls: calls.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || serve(listener, service, stopped));
        Self {
            folder,
            calls,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// A place for the plugin's files, removed with the agent.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .map(|(call, _)| call.clone())
            .collect()
    }

    /// The `grpc-timeout` header of each call.
    pub(crate) fn timeouts(&self) -> Vec<String> {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .map(|(_, timeout)| timeout.clone())
            .collect()
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn serve(listener: std::os::unix::net::UnixListener, service: Service, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
        let server = tonic::transport::Server::builder().add_service(IpamServer::new(service));
        tokio::select! {
            ended = server.serve_with_incoming(incoming) => ended.unwrap(),
            // Its sender is dropped, not used.
            _ = stopped => {}
        }
    });
}

struct Service {
    mood: Mood,
    calls: Arc<Mutex<Vec<(Call, String)>>>,
}

impl Service {
    async fn take<T>(&self, request: Request<T>, call: fn(T) -> Call) -> Result<AddResponse, Status> {
        let timeout = request.metadata().get("grpc-timeout");
        let timeout = timeout.map_or("none", |value| value.to_str().unwrap()).to_owned();
        self.calls
            .lock()
            .unwrap()
            .push((call(request.into_inner()), timeout));
        match &self.mood {
            Mood::Serves(answer) => Ok(answer.clone()),
            Mood::Refuses(status) => Err(status.clone()),
            Mood::Hangs => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl Ipam for Service {
    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddResponse>, Status> {
        self.take(request, Call::Add).await.map(Response::new)
    }

    async fn del(&self, request: Request<DelRequest>) -> Result<Response<DelResponse>, Status> {
        self.take(request, Call::Del)
            .await
            .map(|_| Response::new(DelResponse {}))
    }

    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        self.take(request, Call::Check)
            .await
            .map(|_| Response::new(CheckResponse {}))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.take(request, Call::Status)
            .await
            .map(|_| Response::new(StatusResponse {}))
    }

    async fn gc(&self, request: Request<GcRequest>) -> Result<Response<GcResponse>, Status> {
        self.take(request, Call::Gc)
            .await
            .map(|_| Response::new(GcResponse {}))
    }
}
