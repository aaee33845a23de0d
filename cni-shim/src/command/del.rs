//! DEL. Late and repeated ones come without netns, without `prevResult` and for pods long gone.

use orbweaver_api::grpc::DelRequest;

use super::{Request, Success, agent};
use crate::error::Error;

pub(super) async fn del(request: &Request) -> Result<Success, Error> {
    let message = DelRequest {
        attachment: Some(request.attachment()),
        request_id: request.id.clone(),
    };
    agent(request).await?.del(message).await?;
    Ok(Success::silent("released"))
}
