//! The unix socket that the CNI plugin and other clients on this node talk to: gRPC and Spiderpool's
//! OpenAPI v1 side by side, told apart by what the client sends first.
//!
//! ```text
//! socket (who may connect) ─> connection (limits) ─> grpc ────┐
//!                                                    openapi ─┴─> service::IpamService
//! ```

pub mod budget;
pub mod connection;
pub mod failure;
pub mod grpc;
pub mod observed;
pub mod openapi;
pub mod request_id;
pub mod service;
pub mod socket;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::metrics;
use crate::server::connection::Ending;
use crate::server::service::IpamService;
use crate::server::socket::{Peers, Socket};

/// Largest request body. An ADD is a few hundred bytes; a batch release of a full node a few thousand.
pub const BODY_LIMIT: usize = 64 * 1024;
/// Wait after a failed accept (no file descriptors left), so that the failure does not become a busy loop.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much the server takes on.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Open connections; one more is closed at once, so that its client can try again instead of waiting
    /// unseen in the kernel's queue.
    pub connections: usize,
}

/// The routes of both APIs.
pub fn routes(service: Arc<dyn IpamService>) -> Router {
    grpc::routes(service.clone()).merge(openapi::routes(service))
}

/// A server that accepts connections until it is told to stop.
#[derive(Debug)]
pub struct Server {
    connections: TaskTracker,
    /// No new connection, no new request; what runs ends.
    stop: CancellationToken,
    /// What runs is cut off.
    kill: CancellationToken,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts accepting on `socket`.
    pub fn start(socket: Socket, peers: Peers, routes: Router, limits: ServerLimits) -> Self {
        let connections = TaskTracker::new();
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let acceptor = Acceptor {
            peers,
            routes,
            slots: Arc::new(Semaphore::new(limits.connections)),
            connections: connections.clone(),
            stop: stop.clone(),
            kill: kill.clone(),
        };
        let accepting = tokio::spawn(acceptor.run(socket));
        Self {
            connections,
            stop,
            kill,
            accepting,
        }
    }

    /// Ends with the accept loop, which should only happen after [`Server::stop`].
    pub async fn accepting_ended(&mut self) {
        let _ = (&mut self.accepting).await;
    }

    /// Closes the socket, waits up to `grace` for requests in flight, then cuts the rest off.
    pub async fn stop(mut self, grace: Duration) {
        self.stop.cancel();
        if !self.accepting.is_finished() {
            let _ = (&mut self.accepting).await;
        }
        self.connections.close();
        if timeout(grace, self.connections.wait()).await.is_err() {
            warn!(
                connections = self.connections.len(),
                "requests still run after the grace period and are cut off"
            );
            self.kill.cancel();
            self.connections.wait().await;
        }
    }
}

/// A server that is dropped without [`Server::stop`] cuts everything off.
impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.kill.cancel();
    }
}

struct Acceptor {
    peers: Peers,
    routes: Router,
    slots: Arc<Semaphore>,
    connections: TaskTracker,
    stop: CancellationToken,
    kill: CancellationToken,
}

impl Acceptor {
    async fn run(self, socket: Socket) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => break,
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok(stream) => self.take(stream),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        socket.close();
    }

    fn take(&self, stream: tokio::net::UnixStream) {
        if let Err(why) = self.peers.check(&stream) {
            warn!(why, "a connection was refused");
            metrics::connection_closed(Ending::Peer.label());
            return;
        }
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            warn!("a connection was refused: the limit of open connections is reached");
            metrics::connection_closed(Ending::Full.label());
            return;
        };
        let connection = connection::serve(stream, self.routes.clone(), self.stop.clone());
        self.connections
            .spawn(counted(slot, self.kill.clone(), connection));
    }
}

async fn counted(
    slot: OwnedSemaphorePermit,
    kill: CancellationToken,
    connection: impl Future<Output = Ending>,
) {
    metrics::connections(1.0);
    let ending = kill
        .run_until_cancelled(connection)
        .await
        .unwrap_or(Ending::Broken);
    metrics::connections(-1.0);
    metrics::connection_closed(ending.label());
    drop(slot);
}
