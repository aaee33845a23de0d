//! ADD.

use orbweaver_api::grpc::AddRequest;

use super::{Request, Success, agent};
use crate::error::Error;
use crate::result::AddResult;

pub(super) async fn add(request: &Request) -> Result<Success, Error> {
    let config = &request.config;
    let message = AddRequest {
        attachment: Some(request.attachment()),
        default_ipv4_pools: config.default_ipv4_pools.clone(),
        default_ipv6_pools: config.default_ipv6_pools.clone(),
        clean_gateway: config.clean_gateway,
        match_master_subnet: config.match_master_subnet,
        request_id: request.id.clone(),
    };
    let answer = agent(request).await?.add(message).await?;
    let result = AddResult::new(&answer, &request.args.nic, &request.args.netns)?;
    Ok(Success {
        summary: result.summary(),
        answer: result.print(config.version),
    })
}
