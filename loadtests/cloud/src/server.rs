//! The listener: one address for the life of the cloud, connections only while a provider runs.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::Shared;
use crate::provider::Provider;
use crate::routes;

/// How long a client may take for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Most connections at a time.
const MOST_CONNECTIONS: usize = 4096;

/// Serves until the cloud is shut down.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let stream = tokio::select! {
            () = shared.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = stream else {
            // Out of descriptors: others have to end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Without a provider the connection is closed, as nobody listens.
        let Some(provider) = shared.provider() else {
            continue;
        };
        let (tls, shared) = (tls.clone(), shared.clone());
        shared.clone().tasks.spawn(async move {
            let stopping = provider.stopping().clone();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = connection(shared, provider, stream, tls) => {}
            }
            drop(permit);
        });
    }
}

async fn connection(
    shared: Arc<Shared>,
    provider: Arc<Provider>,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
) {
    // Small answers should not wait for more.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(shared, provider, stream).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve(shared, provider, stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn serve<S>(shared: Arc<Shared>, provider: Arc<Provider>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| routes::serve(shared.clone(), provider.clone(), request));
    let server = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}
