//! GC: what is still valid, so that the agent can release the rest.

use orbweaver_api::grpc::{Attachment, GcRequest};
use serde_json::Value;

use super::{Request, Success, agent};
use crate::args::{check_container_id, check_nic};
use crate::error::Error;

const FIELD: &str = "cni.dev/valid-attachments";

pub(super) async fn gc(request: &Request) -> Result<Success, Error> {
    let valid = valid_attachments(request.config.network.get(FIELD))?;
    let message = GcRequest {
        valid,
        request_id: request.id.clone(),
    };
    agent(request).await?.gc(message).await?;
    Ok(Success::silent("collected"))
}

/// A list that is missing or broken must never be read as an empty one: the agent would release everything.
fn valid_attachments(list: Option<&Value>) -> Result<Vec<Attachment>, Error> {
    let wrong = |value: String| Error::Config {
        field: FIELD,
        value,
        remedy: "GC needs a list of {\"containerID\", \"ifname\"}, empty only if nothing is attached"
            .to_owned(),
    };
    let list = list.ok_or_else(|| wrong("absent".to_owned()))?;
    let list = list.as_array().ok_or_else(|| wrong("not a list".to_owned()))?;
    let attachments = list.iter().enumerate().map(|(index, entry)| {
        let text = |key| {
            entry
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let attachment = Attachment {
            container_id: text("containerID"),
            nic: text("ifname"),
            ..Attachment::default()
        };
        check_container_id(&attachment.container_id)
            .and_then(|()| check_nic(&attachment.nic))
            .map_err(|problem| wrong(format!("bad at index {index}, {problem}")))?;
        Ok(attachment)
    });
    attachments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_or_broken_list_is_not_an_empty_one() {
        let bad = [
            None,
            Some(json!(null)),
            Some(json!({})),
            Some(json!(["c1"])),
            Some(json!([{"containerID": "c1"}])),
            Some(json!([{"containerID": "c1", "ifname": "eth0"}, {"containerID": 7, "ifname": "eth0"}])),
        ];
        for list in bad {
            assert!(valid_attachments(list.as_ref()).is_err(), "{list:?}");
        }
        assert_eq!(valid_attachments(Some(&json!([]))).unwrap(), []);
        let one = valid_attachments(Some(&json!([{"containerID": "c1", "ifname": "eth0"}]))).unwrap();
        assert_eq!(
            (one[0].container_id.as_str(), one[0].nic.as_str()),
            ("c1", "eth0")
        );
    }
}
