//! A service that answers what the test says, behind a real server on a socket of its own.

// clippy knows the insides of test functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::{IpamError, PoolError};
use orbweaver_actors::request::{AddRequest, Allocated, AllocatedAddress, CheckRequest, DelRequest};
use orbweaver_actors::store::StoreError;
use orbweaver_actors::supervisor::explain::Explanation;
use orbweaver_agent::server::service::IpamService;
use orbweaver_agent::server::socket::{Peers, Socket};
use orbweaver_agent::server::{self, Server, ServerLimits};
use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::grpc::ipam_client::IpamClient;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

/// What a pod's name asks the scripted service to do.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) adds: Mutex<Vec<AddRequest>>,
    pub(crate) dels: Mutex<Vec<DelRequest>>,
    /// An ADD of the pod `slow` has begun.
    pub(crate) slow_began: Notify,
    /// One permit lets one `slow` ADD end.
    pub(crate) slow_may_end: Option<Arc<Semaphore>>,
}

#[async_trait]
impl IpamService for Scripted {
    async fn add(&self, request: AddRequest) -> Result<Allocated, IpamError> {
        let attachment = request.attachment.clone();
        self.adds.lock().push(request);
        match attachment.name.as_str() {
            "full" => Err(IpamError::NoAddress {
                family: Family::V4,
                nic: attachment.nic,
                pools: vec!["p4".to_owned()],
                reasons: "p4: all IP addresses used out".to_owned(),
                cause: Box::new(PoolError::Exhausted),
            }),
            "slow" => {
                self.slow_began.notify_one();
                if let Some(gate) = &self.slow_may_end {
                    gate.acquire().await.unwrap().forget();
                }
                Ok(allocated(&attachment.nic))
            }
            _ => Ok(allocated(&attachment.nic)),
        }
    }

    fn explain(&self, request: &AddRequest) -> Result<Explanation, IpamError> {
        Err(IpamError::PodUnknown {
            pod: request.attachment.pod(),
            why: "the script knows none".to_owned(),
        })
    }

    async fn del(&self, request: DelRequest) -> Result<(), IpamError> {
        self.dels.lock().push(request);
        Ok(())
    }

    async fn check(&self, request: CheckRequest) -> Result<(), IpamError> {
        if request.addresses == ["10.6.0.3/16"] {
            return Ok(());
        }
        Err(IpamError::InvalidRequest("not what the pod has".into()))
    }

    async fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    async fn endpoint(
        &self,
        namespace: &str,
        name: &str,
        _: Deadline,
    ) -> Result<Option<Arc<SpiderEndpoint>>, StoreError> {
        match name {
            "absent" => Ok(None),
            "unreachable" => Err(StoreError::Unavailable("no connection".to_owned())),
            _ => Ok(Some(Arc::new(endpoint(namespace, name)))),
        }
    }
}

fn allocated(nic: &str) -> Allocated {
    Allocated {
        addresses: vec![AllocatedAddress {
            address: "10.6.0.3/16".parse().unwrap(),
            nic: nic.to_owned(),
            pool: "p4".to_owned(),
            gateway: Some("10.6.0.1".to_owned()),
            vlan: Some(100),
            mac: Some("fa:16:3e:aa:bb:cc".to_owned()),
        }],
        routes: vec![orbweaver_api::pool::Route {
            dst: "10.7.0.0/16".to_owned(),
            gw: "10.6.0.2".to_owned(),
        }],
    }
}

fn endpoint(namespace: &str, name: &str) -> SpiderEndpoint {
    serde_json::from_value(json!({
        "metadata": { "namespace": namespace, "name": name },
        "status": {
            "current": { "uid": "u-1", "node": "n", "ips": [{
                "interface": "eth0",
                "ipv4": "10.6.0.3/16",
                "ipv4Pool": "p4",
                "ipv4Gateway": "10.6.0.1",
                "mac": "fa:16:3e:aa:bb:cc",
                "vlan": 100,
                "routes": [{ "dst": "10.7.0.0/16", "gw": "10.6.0.2" }],
            }]},
            "ownerControllerType": "Pod",
            "ownerControllerName": name,
        },
    }))
    .unwrap()
}

/// A server in a folder of its own.
pub(crate) struct Fixture {
    pub(crate) path: PathBuf,
    pub(crate) service: Arc<Scripted>,
    pub(crate) server: Server,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(Scripted::default(), 16).await
    }

    pub(crate) async fn with(service: Scripted, connections: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let service = Arc::new(service);
        let socket = Socket::bind(&path, None).await.unwrap();
        let routes = server::routes(service.clone());
        let server = Server::start(
            socket,
            Peers::new(None).unwrap(),
            routes,
            ServerLimits { connections },
        );
        Self {
            path,
            service,
            server,
            _folder: folder,
        }
    }

    pub(crate) async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.unwrap()
    }

    /// One HTTP/1.1 request on a connection of its own; the body is JSON or nothing.
    pub(crate) async fn http(&self, request: Request<Full<Bytes>>) -> (u16, Value) {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await))
                .await
                .unwrap();
        let driver = tokio::spawn(connection);
        let response: Response<_> = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        driver.abort();
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).unwrap()
        };
        (status, body)
    }

    pub(crate) async fn post(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.http(request(method, path, body.to_string())).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.http(request("GET", path, String::new())).await
    }

    pub(crate) async fn grpc(&self) -> IpamClient<Channel> {
        let path = self.path.clone();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://agent")
            .connect_with_connector(connector)
            .await
            .unwrap();
        IpamClient::new(channel)
    }
}

pub(crate) fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "agent")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub(crate) fn add_arguments(pod: &str) -> Value {
    json!({
        "containerID": "c-1", "ifName": "eth0", "netNamespace": "/var/run/netns/x",
        "podNamespace": "ns", "podName": pod, "podUID": "u-1",
    })
}

/// Budget of a request, give or take what the test itself took.
pub(crate) fn near(deadline: Deadline, budget: Duration) -> bool {
    let left = deadline.remaining(Instant::now());
    left <= budget && left + Duration::from_secs(5) > budget
}
