//! CHECK: the addresses of `prevResult` against what the agent knows.

use orbweaver_api::grpc::CheckRequest;
use serde_json::Value;

use super::{Request, Success, agent};
use crate::error::{Error, shown};

pub(super) async fn check(request: &Request) -> Result<Success, Error> {
    let addresses = addresses(request.config.network.get("prevResult"), &request.args.nic)?;
    let message = CheckRequest {
        attachment: Some(request.attachment()),
        addresses,
        request_id: request.id.clone(),
    };
    agent(request).await?.check(message).await?;
    Ok(Success::silent("addresses are held"))
}

/// The addresses that `prevResult` gives to `nic`. One without an `interface` index belongs to the only NIC there is.
fn addresses(prev_result: Option<&Value>, nic: &str) -> Result<Vec<String>, Error> {
    let wrong = |value: String, remedy: &str| Error::Config {
        field: "prevResult",
        value,
        remedy: remedy.to_owned(),
    };
    let prev_result = prev_result
        .filter(|value| !value.is_null())
        .ok_or_else(|| wrong("absent".to_owned(), "CHECK needs the result of the ADD"))?;
    let list = |key| {
        prev_result
            .get(key)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let interfaces = list("interfaces");
    let mut found = Vec::new();
    for ip in list("ips") {
        let owner = ip
            .get("interface")
            .and_then(Value::as_u64)
            .and_then(|index| usize::try_from(index).ok());
        let owner = owner
            .and_then(|index| interfaces.get(index))
            .and_then(|interface| interface.get("name"));
        if owner.is_some_and(|name| name != nic) {
            continue;
        }
        let address = ip.get("address").and_then(Value::as_str).unwrap_or_default();
        if address.parse::<ipnet::IpNet>().is_err() {
            return Err(wrong(
                shown(address),
                "every address in ips must have the form 10.6.0.3/16",
            ));
        }
        found.push(address.to_owned());
    }
    if found.is_empty() {
        return Err(wrong(
            format!("without an address for {nic}"),
            "CHECK needs the result of the ADD",
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_addresses_of_the_nic_are_checked() {
        let result = json!({
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/n"}],
            "ips": [
                {"interface": 0, "address": "192.0.2.1/24"},
                {"interface": 1, "address": "10.6.0.3/16"},
                {"address": "fd00::3/64"},
            ],
        });
        assert_eq!(
            addresses(Some(&result), "eth0").unwrap(),
            ["10.6.0.3/16", "fd00::3/64"]
        );
    }

    #[test]
    fn a_check_with_nothing_to_check_is_refused() {
        let without = [
            None,
            Some(Value::Null),
            Some(json!({})),
            Some(json!({"ips": 7})),
            Some(json!([])),
        ];
        for result in without {
            let error = addresses(result.as_ref(), "eth0").unwrap_err().to_string();
            assert!(error.starts_with("prevResult"), "{error}");
        }
        let bad = json!({"ips": [{"address": "10.6.0.3"}]});
        assert!(
            addresses(Some(&bad), "eth0")
                .unwrap_err()
                .to_string()
                .contains("10.6.0.3")
        );
    }
}
