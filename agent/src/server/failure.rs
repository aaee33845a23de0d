//! How an error of the actors looks on the wire: one table.

use bytes::Bytes;
use orbweaver_actors::error::{IpamError, PoolError, ProviderError};
use orbweaver_api::grpc::Failure;
use prost::Message;
use tonic::{Code, Status};

/// The gRPC code of an error. The plugin maps codes to CNI error codes.
pub fn code(error: &IpamError) -> Code {
    match error {
        IpamError::InvalidRequest(_) => Code::InvalidArgument,
        IpamError::PodUnknown { .. } => Code::NotFound,
        IpamError::Annotation(_)
        | IpamError::PodDead { .. }
        | IpamError::NoPool(_)
        | IpamError::ParentNic { .. } => Code::FailedPrecondition,
        IpamError::NoAddress { cause, .. } => pool_code(cause),
        IpamError::Provider(ProviderError::Rejected(_)) | IpamError::Release { .. } => Code::Aborted,
        IpamError::Provider(ProviderError::Unknown { .. } | ProviderError::NotSent(_))
        | IpamError::Endpoint { .. }
        | IpamError::Unavailable(_)
        | IpamError::Busy { .. } => Code::Unavailable,
        IpamError::DeadlineExceeded { .. } => Code::DeadlineExceeded,
    }
}

fn pool_code(cause: &PoolError) -> Code {
    match cause {
        PoolError::Exhausted | PoolError::Full { .. } | PoolError::Lost { .. } => Code::ResourceExhausted,
        PoolError::Unusable(_) | PoolError::Gone => Code::FailedPrecondition,
        PoolError::DeadlineExceeded { .. } => Code::DeadlineExceeded,
        PoolError::MetadataNotReady(_)
        | PoolError::Busy { .. }
        | PoolError::Restarting
        | PoolError::Store(_) => Code::Unavailable,
    }
}

/// How many bytes of an error travel. The message is a trailer, three times as long when every byte must be
/// escaped, and clients take 16 KiB of trailers: an error that names a thousand pools would arrive as a broken
/// connection.
const MESSAGE: usize = 4096;

/// Both ends of a long text: what it is about, and what it comes to.
fn travelling(text: String) -> String {
    const GAP: &str = " [... the agent's log has all of it ...] ";
    if text.len() <= MESSAGE {
        return text;
    }
    let half = (MESSAGE - GAP.len()) / 2;
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at));
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at));
    let (head, tail) = (head.unwrap_or(0), tail.unwrap_or(text.len()));
    format!("{}{GAP}{}", &text[..head], &text[tail..])
}

/// The gRPC status of an error, with a [`Failure`] in its details.
pub fn status(error: &IpamError, request_id: &str) -> Status {
    let failure = Failure {
        stage: error.stage().label().to_owned(),
        reason: error.reason().to_owned(),
        temporary: error.temporary(),
        remedy: error.remedy().to_owned(),
        request_id: request_id.to_owned(),
    };
    Status::with_details(
        code(error),
        travelling(error.to_string()),
        Bytes::from(failure.encode_to_vec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use orbweaver_actors::error::Stage;
    use orbweaver_actors::store::StoreError;
    use orbweaver_api::address_set::Family;
    use std::time::Duration;

    fn no_address(cause: PoolError) -> IpamError {
        IpamError::NoAddress {
            family: Family::V4,
            nic: "eth0".to_owned(),
            pools: vec!["p".to_owned()],
            reasons: "p: full".to_owned(),
            cause: Box::new(cause),
        }
    }

    #[test]
    fn an_error_about_a_thousand_pools_keeps_both_its_ends_and_fits_into_a_trailer() {
        let middle = "\u{1f577}".repeat(10_000);
        let long = IpamError::NoPool(format!("first{middle}last").into());
        let said = status(&long, "r").message().to_owned();
        assert!(said.len() <= MESSAGE, "{} bytes", said.len());
        assert!(said.starts_with("no IPPool available, first") && said.ends_with("last"));
        let short = IpamError::NoPool("p is disabled".into());
        assert_eq!(status(&short, "r").message(), short.to_string());
    }

    #[test]
    fn each_error_has_its_code() {
        let text = || "x".into();
        for (error, expected) in [
            (IpamError::InvalidRequest(text()), Code::InvalidArgument),
            (
                IpamError::PodUnknown {
                    pod: "a/b".to_owned(),
                    why: String::new(),
                },
                Code::NotFound,
            ),
            (
                IpamError::PodDead {
                    pod: "a/b".to_owned(),
                },
                Code::FailedPrecondition,
            ),
            (IpamError::NoPool(text()), Code::FailedPrecondition),
            (no_address(PoolError::Exhausted), Code::ResourceExhausted),
            (no_address(PoolError::Gone), Code::FailedPrecondition),
            (no_address(PoolError::Restarting), Code::Unavailable),
            (
                no_address(PoolError::DeadlineExceeded { attempts: 1 }),
                Code::DeadlineExceeded,
            ),
            (
                no_address(PoolError::Store(StoreError::Conflict)),
                Code::Unavailable,
            ),
            (
                IpamError::ParentNic {
                    pool: "p".to_owned(),
                    why: String::new(),
                },
                Code::FailedPrecondition,
            ),
            (
                IpamError::Provider(ProviderError::Rejected(text())),
                Code::Aborted,
            ),
            (
                IpamError::Provider(ProviderError::NotSent(text())),
                Code::Unavailable,
            ),
            (
                IpamError::Provider(ProviderError::Unknown {
                    message: text(),
                    may_run_for: Duration::ZERO,
                }),
                Code::Unavailable,
            ),
            (
                IpamError::DeadlineExceeded { stage: Stage::Claim },
                Code::DeadlineExceeded,
            ),
            (IpamError::Busy { limit: 1 }, Code::Unavailable),
            (IpamError::Unavailable(text()), Code::Unavailable),
        ] {
            assert_eq!(code(&error), expected, "{error}");
        }
    }

    #[test]
    fn the_status_explains_itself() {
        let status = status(&no_address(PoolError::Exhausted), "id-1");
        let failure = Failure::decode(status.details()).unwrap();
        assert_eq!(failure.stage, "claim");
        assert_eq!(failure.reason, "exhausted");
        assert!(failure.temporary);
        assert!(failure.remedy.contains("add addresses"));
        assert_eq!(failure.request_id, "id-1");
    }
}
