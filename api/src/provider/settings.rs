//! The rules for the provider's settings in `conf.yml`: a wrong value keeps agent and controller from
//! starting (seed "Validation rules").

use std::time::Duration;

use crate::duration::GoDuration;

/// `httpRequestTimeout` when it is empty or absent.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(50);
/// Static safety limit of `httpRequestTimeout`, exclusive.
pub const STATIC_LIMIT: Duration = Duration::from_secs(120);
/// What the CNI plugin waits for the agent, exclusive.
pub const CNI_LIMIT: Duration = Duration::from_secs(100);

/// A setting that keeps the program from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid iaasNetworkProvider.{key} {value:?}: {why}")]
pub struct InvalidSetting {
    /// Key below `iaasNetworkProvider`.
    pub key: &'static str,
    /// As given.
    pub value: String,
    /// What is wrong and what would be right.
    pub why: String,
}

/// Reads `httpRequestTimeout`: a Go duration above 0, below 2 minutes and below the plugin's 100 s.
pub fn request_timeout(text: &str) -> Result<Duration, InvalidSetting> {
    let wrong = |why: String| InvalidSetting {
        key: "httpRequestTimeout",
        value: text.to_owned(),
        why,
    };
    if text.trim().is_empty() {
        return Ok(DEFAULT_REQUEST_TIMEOUT);
    }
    let parsed: GoDuration = text.trim().parse().map_err(|error| wrong(format!("{error}")))?;
    let timeout = parsed
        .to_std()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| wrong("timeout must be positive".to_owned()))?;
    for (limit, name) in [(STATIC_LIMIT, "static limit"), (CNI_LIMIT, "CNI client timeout")] {
        if timeout >= limit {
            return Err(wrong(format!(
                "must be less than {name} {}",
                GoDuration::from(limit)
            )));
        }
    }
    Ok(timeout)
}

/// Checks `serverUrl`: a scheme, and a host behind it. Absence is not checked here.
pub fn server_url(url: &str) -> Result<(), InvalidSetting> {
    let wrong = |why: &str| InvalidSetting {
        key: "serverUrl",
        value: url.to_owned(),
        why: why.to_owned(),
    };
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
        .ok_or_else(|| wrong("must start with http:// or https://"))?;
    if rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) {
        return Err(wrong("host is empty"));
    }
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong("must not contain blanks"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_five_rules_hold_at_their_edges() {
        for (text, expected) in [
            ("", Some(50_000)),
            ("  ", Some(50_000)),
            ("50s", Some(50_000)),
            ("1m", Some(60_000)),
            ("1ms", Some(1)),
            ("99.999s", Some(99_999)),
            ("100s", None),
            ("1m40s", None),
            ("119s", None),
            ("2m", None),
            ("0", None),
            ("0s", None),
            ("-1s", None),
            ("50", None),
            ("fifty", None),
        ] {
            let read = request_timeout(text).ok().map(|timeout| timeout.as_millis());
            assert_eq!(read, expected, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_names_key_value_and_limit() {
        assert_eq!(
            request_timeout("2m").unwrap_err().to_string(),
            "invalid iaasNetworkProvider.httpRequestTimeout \"2m\": must be less than static limit 2m0s"
        );
        assert_eq!(
            request_timeout("100s").unwrap_err().to_string(),
            "invalid iaasNetworkProvider.httpRequestTimeout \"100s\": must be less than CNI client timeout 1m40s"
        );
    }

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        for good in [
            "http://p:8080",
            "https://p.ns.svc:8443/base",
            "https://[fd00::1]:8443",
        ] {
            assert_eq!(server_url(good), Ok(()), "{good}");
        }
        for bad in [
            "p:8080",
            "ftp://p",
            "http://",
            "https:///x",
            "http://:80",
            "http://a b",
        ] {
            assert!(server_url(bad).is_err(), "{bad}");
        }
    }
}
