//! What every request leaves behind: a span around it, a line at its end, its counts.

use std::future::Future;

use orbweaver_actors::error::IpamError;
use orbweaver_actors::request::Attachment;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, info, info_span, warn};

use crate::metrics::{self, Transport, Verb};

/// The span of a request about a NIC.
pub fn span(verb: Verb, attachment: &Attachment, request_id: &str) -> Span {
    info_span!(
        "request",
        verb = verb.label(),
        pod = attachment.pod(),
        pod_uid = attachment.uid,
        nic = attachment.nic,
        container_id = attachment.container_id,
        request_id,
    )
}

/// Runs a request in its span, then logs and counts how it ended.
pub async fn observe<T>(
    verb: Verb,
    transport: Transport,
    span: Span,
    request: impl Future<Output = Result<T, IpamError>>,
) -> Result<T, IpamError> {
    let since = Instant::now();
    async {
        let answer = request.await;
        let took = since.elapsed();
        match &answer {
            // Probes come every few seconds and say nothing as long as all is well.
            Ok(_) if verb == Verb::Status => debug!(took_ms = took.as_millis(), "served"),
            Ok(_) => info!(took_ms = took.as_millis(), "served"),
            Err(error) => warn!(
                took_ms = took.as_millis(),
                stage = error.stage().label(),
                reason = error.reason(),
                temporary = error.temporary(),
                %error,
                "failed"
            ),
        }
        let result = answer.as_ref().err().map_or("ok", IpamError::reason);
        metrics::request_answered(verb, transport, result, took);
        answer
    }
    .instrument(span)
    .await
}
