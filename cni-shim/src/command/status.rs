//! STATUS.

use orbweaver_api::grpc::StatusRequest;

use super::{Request, Success, agent};
use crate::error::Error;

pub(super) async fn status(request: &Request) -> Result<Success, Error> {
    agent(request)
        .await?
        .status(StatusRequest {
            request_id: request.id.clone(),
        })
        .await?;
    Ok(Success::silent("ready"))
}
