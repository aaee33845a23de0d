//! What the actors need of the cluster, over the API server: [`pools`], [`endpoints`] and the bounds and
//! error classes that both share.

pub mod book;
pub mod endpoints;
pub mod owners;
pub mod pools;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// What one request to the API server may take, whatever its caller's budget is.
const REQUEST_BUDGET: Duration = Duration::from_secs(10);
/// Requests in flight at once. The API server's own fairness bounds a client far lower; this keeps a burst
/// from opening connections without end.
const REQUESTS_IN_FLIGHT: usize = 128;

/// Bounds the requests of a store. Clones share the bound.
#[derive(Clone, Debug)]
pub struct Calls {
    slots: Arc<Semaphore>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT)),
        }
    }
}

impl Calls {
    /// Runs one request by `deadline` and by the budget of one request (10 s), whichever comes first. While it waits for
    /// a slot nothing is sent, so that running out of time there is [`StoreError::Unavailable`]; later it
    /// is [`StoreError::Unknown`].
    pub async fn run<T>(
        &self,
        deadline: Deadline,
        request: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, StoreError> {
        let limit = deadline.within(Instant::now(), REQUEST_BUDGET).instant();
        let _slot = match timeout_at(limit, self.slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) => return Err(StoreError::Unavailable("the agent is stopping".to_owned())),
            Err(_) => {
                return Err(StoreError::Unavailable(format!(
                    "{REQUESTS_IN_FLIGHT} requests were in flight for all of the time that was left"
                )));
            }
        };
        match timeout_at(limit, request).await {
            Ok(answer) => answer.map_err(|error| classify(&error)),
            Err(_) => Err(StoreError::Unknown("no answer in time".to_owned())),
        }
    }

    /// [`Calls::run`] for callers without a deadline of their own.
    pub async fn run_bounded<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, StoreError> {
        self.run(Deadline::after(REQUEST_BUDGET), request).await
    }
}

/// What an error of the client says about the request (design §5: a lost answer is never a failed request).
pub fn classify(error: &kube::Error) -> StoreError {
    match error {
        kube::Error::Api(status) => {
            let text = format!("{} ({})", status.message, status.code);
            match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") => StoreError::AlreadyExists,
                (409, _) => StoreError::Conflict,
                (404, _) => StoreError::NotFound,
                (429, _) => StoreError::Unavailable(text),
                (400..=499, _) => StoreError::Refused(text),
                _ => StoreError::Unknown(text),
            }
        }
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) | kube::Error::Auth(_) => {
            StoreError::Refused(chain(error))
        }
        other if never_connected(other) => StoreError::Unavailable(chain(other)),
        other => StoreError::Unknown(chain(other)),
    }
}

/// True when no connection stood, so that nothing was sent.
fn never_connected(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(client) = current.downcast_ref::<hyper_util::client::legacy::Error>() {
            return client.is_connect();
        }
        cause = current.source();
    }
    false
}

/// The error and everything behind it, each said once.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        let more = current.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = current.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn api(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("said so", reason).with_code(code)))
    }

    #[test]
    fn each_answer_of_the_api_server_has_its_class() {
        assert!(matches!(classify(&api(409, "Conflict")), StoreError::Conflict));
        assert!(matches!(
            classify(&api(409, "AlreadyExists")),
            StoreError::AlreadyExists
        ));
        assert!(matches!(classify(&api(404, "NotFound")), StoreError::NotFound));
        assert!(matches!(
            classify(&api(429, "TooManyRequests")),
            StoreError::Unavailable(_)
        ));
        assert!(
            matches!(classify(&api(422, "Invalid")), StoreError::Refused(text) if text.contains("said so"))
        );
        assert!(matches!(classify(&api(403, "Forbidden")), StoreError::Refused(_)));
        for code in [500, 502, 503, 504] {
            assert!(
                matches!(classify(&api(code, "")), StoreError::Unknown(_)),
                "{code}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_unknown_by_the_earlier_of_both_bounds() {
        let calls = Calls::default();
        for (budget, expected) in [(3, 3), (60, 10)] {
            let before = Instant::now();
            let hanging = std::future::pending::<Result<(), kube::Error>>();
            let deadline = Deadline::after(Duration::from_secs(budget));
            let answer = calls.run(deadline, hanging).await;
            assert!(matches!(answer, Err(StoreError::Unknown(_))));
            assert_eq!(before.elapsed().as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_never_got_a_slot_was_certainly_not_sent() {
        let calls = Calls {
            slots: Arc::new(Semaphore::new(0)),
        };
        let answer = calls.run_bounded(async { Ok(()) }).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))));
    }

    #[tokio::test]
    async fn a_refused_connection_is_unavailable() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = crate::cluster::connect(&crate::cluster::Cluster::Config(Box::new(config)))
            .await
            .unwrap();
        let answer = Calls::default().run_bounded(client.apiserver_version()).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
}
