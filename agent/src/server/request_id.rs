//! One id per request, from the plugin's log to the provider's.

use std::sync::Arc;

use http::HeaderMap;

/// Header that clients without a field for it may set.
const HEADER: &str = "x-request-id";
/// Longest id that is taken over; ids end up in logs and headers.
const LIMIT: usize = 64;

/// The id that the message names, else the header's, else a new one. What would be unreadable in a log is
/// not taken over.
pub fn of(named: &str, headers: &HeaderMap) -> Arc<str> {
    let header = headers.get(HEADER).and_then(|value| value.to_str().ok());
    [Some(named), header]
        .into_iter()
        .flatten()
        .find(|id| usable(id))
        .map_or_else(fresh, Arc::from)
}

fn usable(id: &str) -> bool {
    !id.is_empty() && id.len() <= LIMIT && id.bytes().all(|byte| byte.is_ascii_graphic())
}

fn fresh() -> Arc<str> {
    format!("{:016x}", rand::random::<u64>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_beats_the_header_beats_a_new_id() {
        let mut headers = HeaderMap::new();
        assert_eq!(of("", &headers).len(), 16);
        headers.insert(HEADER, "from-header".parse().unwrap());
        assert_eq!(&*of("from-message", &headers), "from-message");
        assert_eq!(&*of("", &headers), "from-header");
        assert_eq!(&*of("two\nlines", &headers), "from-header");
        assert_eq!(&*of(&"x".repeat(65), &headers), "from-header");
    }
}
