//! One id that follows a request from this plugin's log to the provider's.

use std::hash::{BuildHasher, RandomState};
use std::io::Read;

/// 16 random hexadecimal digits.
///
/// Without `/dev/urandom` the process's own hash seed stands in: the id only has to tell log lines
/// apart, nothing is protected by it.
pub(crate) fn generate() -> String {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    let number = match read {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => RandomState::new().hash_one(std::process::id()),
    };
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_sixteen_hex_digits_and_differ() {
        let ids = [super::generate(), super::generate()];
        assert!(
            ids.iter()
                .all(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit())),
            "{ids:?}"
        );
        assert_ne!(ids[0], ids[1]);
    }
}
