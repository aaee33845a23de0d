//! How long a request may take, from its headers.

use std::time::Duration;

use http::HeaderMap;
use orbweaver_actors::deadline::Deadline;

/// The gRPC header.
const GRPC_TIMEOUT: &str = "grpc-timeout";
/// The OpenAPI header: whole milliseconds.
const REQUEST_TIMEOUT_MS: &str = "x-request-timeout-ms";

/// A header that names no budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("header {header}: {value:?} is not {form}")]
pub struct BadBudget {
    header: &'static str,
    value: String,
    form: &'static str,
}

/// The shortest budget that the headers name, at most [`Deadline::CNI_BUDGET`], which is also what a
/// request without such a header gets.
pub fn of(headers: &HeaderMap) -> Result<Duration, BadBudget> {
    let mut budget = Deadline::CNI_BUDGET;
    if let Some(value) = headers.get(GRPC_TIMEOUT) {
        let text = value.to_str().unwrap_or("(not text)");
        let named = grpc_timeout(text).ok_or_else(|| BadBudget {
            header: GRPC_TIMEOUT,
            value: text.to_owned(),
            form: "1 to 8 digits and one of H, M, S, m, u, n",
        })?;
        budget = budget.min(named);
    }
    if let Some(value) = headers.get(REQUEST_TIMEOUT_MS) {
        let text = value.to_str().unwrap_or("(not text)");
        let named = milliseconds(text).ok_or_else(|| BadBudget {
            header: REQUEST_TIMEOUT_MS,
            value: text.to_owned(),
            form: "a positive whole number of milliseconds",
        })?;
        budget = budget.min(named);
    }
    Ok(budget)
}

/// `TimeoutValue TimeoutUnit` of the gRPC specification.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    // Eight digits of hours are 3.6e11 seconds: nothing overflows.
    Some(match unit {
        'H' => Duration::from_secs(count * 3600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

fn milliseconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    match text.parse::<u64>() {
        Ok(0) | Err(_) => None,
        Ok(count) => Some(Duration::from_millis(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(headers: &[(&'static str, &str)]) -> Result<Duration, BadBudget> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        of(&map)
    }

    #[test]
    fn the_shortest_named_budget_counts_and_none_exceeds_the_cni_budget() {
        for (headers, expected) in [
            (&[][..], Duration::from_secs(100)),
            (&[("grpc-timeout", "99999999H")], Duration::from_secs(100)),
            (&[("grpc-timeout", "1M")], Duration::from_secs(60)),
            (&[("grpc-timeout", "30S")], Duration::from_secs(30)),
            (&[("grpc-timeout", "1500m")], Duration::from_millis(1500)),
            (&[("grpc-timeout", "1500u")], Duration::from_micros(1500)),
            (&[("grpc-timeout", "9n")], Duration::from_nanos(9)),
            (&[("grpc-timeout", "0S")], Duration::ZERO),
            (&[("x-request-timeout-ms", "2500")], Duration::from_millis(2500)),
            (&[("x-request-timeout-ms", "100001")], Duration::from_secs(100)),
            (
                &[("grpc-timeout", "3S"), ("x-request-timeout-ms", "4000")],
                Duration::from_secs(3),
            ),
            (
                &[("grpc-timeout", "5S"), ("x-request-timeout-ms", "4000")],
                Duration::from_secs(4),
            ),
        ] {
            assert_eq!(budget(headers), Ok(expected), "{headers:?}");
        }
    }

    #[test]
    fn a_header_that_names_no_budget_is_refused_by_name() {
        for (header, value) in [
            ("grpc-timeout", "S"),
            ("grpc-timeout", "10"),
            ("grpc-timeout", "123456789S"),
            ("grpc-timeout", "-1S"),
            ("grpc-timeout", "1 S"),
            ("grpc-timeout", "1s"),
            ("x-request-timeout-ms", "0"),
            ("x-request-timeout-ms", "-5"),
            ("x-request-timeout-ms", "1.5"),
            ("x-request-timeout-ms", ""),
            ("x-request-timeout-ms", "99999999999999999999999"),
        ] {
            let error = budget(&[(header, value)]).unwrap_err();
            assert!(error.to_string().contains(header), "{header}: {value}");
        }
    }
}
