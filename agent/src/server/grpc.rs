//! `orbweaver.ipam.v1.Ipam`.

use std::sync::Arc;

use axum::Router;
use http::HeaderMap;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::IpamError;
use orbweaver_actors::request::{self, Allocated, Attachment};
use orbweaver_api::address_set::Family;
use orbweaver_api::grpc as wire;
use orbweaver_api::grpc::ipam_server::{Ipam, IpamServer};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tracing::info_span;

use crate::metrics::{Transport, Verb};
use crate::server::observed::{observe, span};
use crate::server::service::{IpamService, ready_by};
use crate::server::{BODY_LIMIT, budget, failure, request_id};

/// The service's routes.
pub fn routes(service: Arc<dyn IpamService>) -> Router {
    let ipam = IpamServer::new(Server { service })
        .max_decoding_message_size(BODY_LIMIT)
        .max_encoding_message_size(BODY_LIMIT);
    Routes::new(ipam).prepare().into_axum_router()
}

struct Server {
    service: Arc<dyn IpamService>,
}

/// What every request brings beside its message.
struct Call {
    headers: HeaderMap,
    request_id: Arc<str>,
}

impl Call {
    fn of<T>(request: &Request<T>, named_id: &str) -> Self {
        let headers: &HeaderMap = request.metadata().as_ref();
        Self {
            headers: headers.clone(),
            request_id: request_id::of(named_id, headers),
        }
    }

    fn deadline(&self) -> Result<Deadline, IpamError> {
        budget::of(&self.headers)
            .map(Deadline::after)
            .map_err(|error| IpamError::InvalidRequest(error.to_string().into()))
    }
}

#[tonic::async_trait]
impl Ipam for Server {
    async fn add(&self, request: Request<wire::AddRequest>) -> Result<Response<wire::AddResponse>, Status> {
        let call = Call::of(&request, &request.get_ref().request_id);
        let message = request.into_inner();
        let attachment = attachment(message.attachment);
        let span = span(Verb::Add, &attachment, &call.request_id);
        let serve = async {
            self.service
                .add(request::AddRequest {
                    attachment,
                    default_ipv4_pools: message.default_ipv4_pools,
                    default_ipv6_pools: message.default_ipv6_pools,
                    clean_gateway: message.clean_gateway,
                    deadline: call.deadline()?,
                    request_id: call.request_id.clone(),
                })
                .await
        };
        answer(
            observe(Verb::Add, Transport::Grpc, span, serve).await.map(added),
            &call,
        )
    }

    async fn del(&self, request: Request<wire::DelRequest>) -> Result<Response<wire::DelResponse>, Status> {
        let call = Call::of(&request, &request.get_ref().request_id);
        let attachment = attachment(request.into_inner().attachment);
        let span = span(Verb::Del, &attachment, &call.request_id);
        let serve = async {
            self.service
                .del(request::DelRequest {
                    attachment,
                    deadline: call.deadline()?,
                    request_id: call.request_id.clone(),
                })
                .await
        };
        let done = observe(Verb::Del, Transport::Grpc, span, serve).await;
        answer(done.map(|()| wire::DelResponse {}), &call)
    }

    async fn check(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Result<Response<wire::CheckResponse>, Status> {
        let call = Call::of(&request, &request.get_ref().request_id);
        let message = request.into_inner();
        let attachment = attachment(message.attachment);
        let span = span(Verb::Check, &attachment, &call.request_id);
        let serve = async {
            self.service
                .check(request::CheckRequest {
                    attachment,
                    addresses: message.addresses,
                    deadline: call.deadline()?,
                })
                .await
        };
        let done = observe(Verb::Check, Transport::Grpc, span, serve).await;
        answer(done.map(|()| wire::CheckResponse {}), &call)
    }

    async fn status(
        &self,
        request: Request<wire::StatusRequest>,
    ) -> Result<Response<wire::StatusResponse>, Status> {
        let call = Call::of(&request, &request.get_ref().request_id);
        let span = info_span!("request", verb = "status", request_id = &*call.request_id);
        let serve = async { ready_by(self.service.as_ref(), call.deadline()?).await };
        let done = observe(Verb::Status, Transport::Grpc, span, serve).await;
        answer(done.map(|()| wire::StatusResponse {}), &call)
    }

    /// The collector in the controller frees what no pod owns; a runtime's list of attachments says nothing
    /// about pods of other runtimes or of StatefulSets that will come back.
    async fn gc(&self, _: Request<wire::GcRequest>) -> Result<Response<wire::GcResponse>, Status> {
        Err(Status::unimplemented(
            "not supported: the controller frees addresses that no pod owns",
        ))
    }
}

fn answer<T>(result: Result<T, IpamError>, call: &Call) -> Result<Response<T>, Status> {
    result
        .map(Response::new)
        .map_err(|error| failure::status(&error, &call.request_id))
}

/// An absent attachment is an empty one: the Supervisor says which field it misses.
fn attachment(message: Option<wire::Attachment>) -> Attachment {
    let message = message.unwrap_or_default();
    Attachment {
        container_id: message.container_id,
        nic: message.nic,
        netns: message.netns,
        namespace: message.pod_namespace,
        name: message.pod_name,
        uid: message.pod_uid,
    }
}

fn added(allocated: Allocated) -> wire::AddResponse {
    let nic = allocated
        .addresses
        .first()
        .map(|address| address.nic.clone())
        .unwrap_or_default();
    let addresses = allocated
        .addresses
        .into_iter()
        .map(|address| wire::Address {
            version: Family::of(address.address.addr()).number().into(),
            address: address.address.to_string(),
            nic: address.nic,
            pool: address.pool,
            gateway: address.gateway.unwrap_or_default(),
            vlan: address.vlan.unwrap_or_default().into(),
            mac: address.mac.unwrap_or_default(),
        })
        .collect();
    let routes = allocated
        .routes
        .into_iter()
        .map(|route| wire::Route {
            nic: nic.clone(),
            dst: route.dst,
            gw: route.gw,
        })
        .collect();
    wire::AddResponse { addresses, routes }
}
