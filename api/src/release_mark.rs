//! Who may tell the provider to release a dead pod's sub-ENIs (design §5 "DEL": never two releases of one address that
//! may still be executing).
//!
//! The node's agent and the controller's collector both may have to. Whoever wants to send writes this mark into the
//! pod's `SpiderEndpoint` by compare-and-swap first, and sends only if that write succeeded. Until the mark's time has
//! passed nobody else sends for the same life of the pod. A mark is never waited for and never taken away from its
//! writer: it ends by itself, so that a writer that died holds nobody up for longer than its call may take.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::endpoint::SpiderEndpoint;

/// Annotation on a `SpiderEndpoint`; its value is a [`ReleaseMark`] in JSON.
pub const RELEASE_MARK: &str = "ipam.spidernet.io/release-in-flight";

/// A release that may still be executing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseMark {
    /// The life of the pod whose sub-ENIs are released; marks of earlier lives mean nothing.
    pub pod_uid: String,
    /// Who sends, for people: `controller/<identity>` or `agent/<node>`.
    pub by: String,
    /// When the call is over whatever became of it, RFC 3339: the end of the budget sent with it, and something for
    /// clocks that differ.
    pub until: String,
}

impl ReleaseMark {
    /// The mark on an endpoint, if it is of the endpoint's current pod. One that cannot be read is an error: it may
    /// hold somebody off.
    pub fn on(endpoint: &SpiderEndpoint) -> Result<Option<Self>, serde_json::Error> {
        let annotations = endpoint.metadata.annotations.as_ref();
        let Some(text) = annotations.and_then(|keys| keys.get(RELEASE_MARK)) else {
            return Ok(None);
        };
        let mark: Self = serde_json::from_str(text)?;
        Ok(Some(mark).filter(|mark| mark.pod_uid == endpoint.status.current.uid))
    }

    /// True when the release that it announces cannot be executing any more. A time that cannot be read never comes.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.parse::<Timestamp>().is_ok_and(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(uid: &str, text: &str) -> SpiderEndpoint {
        let mut endpoint = SpiderEndpoint::default();
        uid.clone_into(&mut endpoint.status.current.uid);
        endpoint.metadata.annotations = Some([(RELEASE_MARK.to_owned(), text.to_owned())].into());
        endpoint
    }

    #[test]
    fn a_mark_holds_for_one_life_until_its_time() {
        let text = r#"{"podUid":"u","by":"agent/n","until":"2026-01-01T00:00:10Z"}"#;
        let mark = ReleaseMark::on(&endpoint("u", text)).unwrap().unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(!mark.is_over(at("2026-01-01T00:00:09Z")));
        assert!(mark.is_over(at("2026-01-01T00:00:10Z")));
        assert_eq!(ReleaseMark::on(&endpoint("next", text)).unwrap(), None);
        assert_eq!(ReleaseMark::on(&SpiderEndpoint::default()).unwrap(), None);
        assert!(ReleaseMark::on(&endpoint("u", "soon")).is_err());
        let never = r#"{"podUid":"u","by":"x","until":"soon"}"#;
        assert!(
            !ReleaseMark::on(&endpoint("u", never))
                .unwrap()
                .unwrap()
                .is_over(at("2030-01-01T00:00:00Z"))
        );
    }
}
