//! A provider made of raw TCP: it says exactly what a test wants, however wrong.
// Each test program uses a part of it.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orbweaver_api::provider::{AllocateRequest, ReleaseRequest, SubEniRequest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// Far more than a working test needs.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the server does after it has read a whole request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Writes, keeps the connection.
    Keep(Vec<u8>),
    /// Writes, closes the connection.
    Close(Vec<u8>),
    /// Writes, then says nothing more and keeps the connection open.
    Hang(Vec<u8>),
    /// Writes the head, then body without end.
    Endless(Vec<u8>),
}

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

pub(crate) struct Server {
    pub(crate) authority: String,
    pub(crate) connections: Arc<AtomicUsize>,
    received: mpsc::UnboundedReceiver<Received>,
}

impl Server {
    pub(crate) async fn plain(reply: Reply) -> Self {
        Self::start(reply, || None).await
    }

    /// `acceptor` is asked at each connection, so that a test can change the certificate.
    pub(crate) async fn tls(reply: Reply, acceptor: impl Fn() -> TlsAcceptor + Send + 'static) -> Self {
        Self::start(reply, move || Some(acceptor())).await
    }

    async fn start(reply: Reply, acceptor: impl Fn() -> Option<TlsAcceptor> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let authority = listener.local_addr().expect("address").to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let (sender, received) = mpsc::unbounded_channel();
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (reply, sender, acceptor) = (reply.clone(), sender.clone(), acceptor());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, reply, sender).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => serve(stream, reply, sender).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self {
            authority,
            connections,
            received,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    pub(crate) async fn request(&mut self) -> Received {
        tokio::time::timeout(PATIENCE, self.received.recv())
            .await
            .expect("in time")
            .expect("a request")
    }

    pub(crate) fn saw_nothing_more(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}

async fn serve<S>(mut stream: S, reply: Reply, received: mpsc::UnboundedSender<Received>) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        received.send(read_request(&mut stream).await?).ok()?;
        match &reply {
            Reply::Keep(bytes) => {
                stream.write_all(bytes).await.ok()?;
                stream.flush().await.ok()?;
            }
            Reply::Close(bytes) => {
                stream.write_all(bytes).await.ok()?;
                return stream.shutdown().await.ok();
            }
            Reply::Hang(bytes) => {
                stream.write_all(bytes).await.ok()?;
                stream.flush().await.ok()?;
                std::future::pending::<()>().await;
            }
            Reply::Endless(head) => {
                stream.write_all(head).await.ok()?;
                loop {
                    stream.write_all(&[b' '; 4096]).await.ok()?;
                }
            }
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break bytes.drain(..end + 4).collect::<Vec<u8>>();
        }
        bytes.push(stream.read_u8().await.ok()?);
    };
    let mut received = Received {
        head: String::from_utf8(head).ok()?,
        body: bytes,
        at: Instant::now(),
    };
    let length = received.header("content-length")?.parse().ok()?;
    received.body.resize(length, 0);
    stream.read_exact(&mut received.body).await.ok()?;
    received.at = Instant::now();
    Some(received)
}

/// A whole HTTP answer.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn bound(ipv4: &str) -> Vec<u8> {
    answer(
        "200 OK",
        "",
        &format!(r#"{{"subEniResponses":[{{"ipv4Address":"{ipv4}","vlanId":100}}]}}"#),
    )
}

pub(crate) fn allocate_request(ipv4: &str) -> AllocateRequest {
    AllocateRequest {
        pod_name: "pod".into(),
        pod_namespace: "default".into(),
        node_name: "worker-1".into(),
        sub_eni_requests: vec![SubEniRequest {
            parent_nic_mac: "fa:16:3e:11:22:33".into(),
            subnet: "10.0.0.0/24".into(),
            ipv4_address: ipv4.into(),
            ..SubEniRequest::default()
        }],
        ..AllocateRequest::default()
    }
}

pub(crate) fn release_request(address: &str) -> ReleaseRequest {
    ReleaseRequest {
        pod_name: "pod".into(),
        pod_namespace: "default".into(),
        node_name: "worker-1".into(),
        subnet: "10.0.0.0/24".into(),
        ip_address: address.into(),
        ..ReleaseRequest::default()
    }
}
