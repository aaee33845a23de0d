//! The self-made certificate authority of the webhook and the serving certificate that it signed: what replicas share
//! in a secret, and when which part of it is made anew. Pure but for the keys' randomness.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// For how long a serving certificate is valid.
const SERVING_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// Age at which a serving certificate is replaced.
const SERVING_RENEW: Duration = Duration::from_secs(60 * 24 * 3600);
/// For how long an authority is valid.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Age at which an authority is replaced.
const AUTHORITY_RENEW: Duration = Duration::from_secs(3285 * 24 * 3600);
/// Clocks of API servers may be behind by so much.
const SKEW: Duration = Duration::from_secs(3600);

/// Key of the secret: the serving certificate, PEM.
pub const CHAIN: &str = "tls.crt";
/// Key of the secret: its key, PEM.
pub const KEY: &str = "tls.key";
/// Key of the secret: the authorities to trust, PEM, the newest first.
pub const TRUST: &str = "ca.crt";
/// Key of the secret: the newest authority's key, PEM. Without it the secret is somebody else's and is only read.
pub const AUTHORITY_KEY: &str = "ca.key";
/// Key of the secret: when the authority was made, seconds since 1970.
const AUTHORITY_MADE: &str = "ca.made";
/// Key of the secret: when the serving certificate was made, seconds since 1970.
const SERVING_MADE: &str = "tls.made";
/// Key of the secret: the names that the serving certificate is for, one a line.
const NAMES: &str = "tls.names";

/// The data of a secret.
pub type Data = BTreeMap<String, Vec<u8>>;

/// Makes everything: an authority and a certificate for `names` (DNS names and addresses).
pub fn first(names: &[String], now: SystemTime) -> Result<Data, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let made = seconds(now);
    let authority = authority(made)?.self_signed(&authority_key)?;
    let mut data = Data::new();
    put(&mut data, TRUST, authority.pem());
    put(&mut data, AUTHORITY_KEY, authority_key.serialize_pem());
    put(&mut data, AUTHORITY_MADE, made.to_string());
    serve(&mut data, &authority_key, made, names, now)?;
    Ok(data)
}

/// What the secret is to hold from now on; `None`: it is right as it is, or it is somebody else's.
///
/// A new authority is put before the old one, so that whoever trusts the secret trusts certificates of both.
pub fn next(data: &Data, names: &[String], now: SystemTime) -> Result<Option<Data>, rcgen::Error> {
    let Some(authority_key) = text(data, AUTHORITY_KEY) else {
        return Ok(None);
    };
    let made = number(data, AUTHORITY_MADE);
    if is_older(made, AUTHORITY_RENEW, now) {
        let mut next = first(names, now)?;
        let old = text(data, TRUST).unwrap_or_default();
        let newest = end_of_first(old).map_or("", |end| &old[..end]);
        let trust = text(&next, TRUST).unwrap_or_default().to_owned() + newest;
        put(&mut next, TRUST, trust);
        return Ok(Some(next));
    }
    let mut all: Vec<String> = text(data, NAMES)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    // Replicas of two releases may differ: both kinds of names stay.
    let missing: Vec<String> = names.iter().filter(|name| !all.contains(name)).cloned().collect();
    if missing.is_empty() && !is_older(number(data, SERVING_MADE), SERVING_RENEW, now) {
        return Ok(None);
    }
    all.extend(missing);
    let mut next = data.clone();
    let authority_key = KeyPair::from_pem(authority_key)?;
    serve(&mut next, &authority_key, made.unwrap_or_default(), &all, now)?;
    Ok(Some(next))
}

fn serve(
    data: &mut Data,
    authority_key: &KeyPair,
    authority_made: u64,
    names: &[String],
    now: SystemTime,
) -> Result<(), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "orbweaver-webhook");
    params.not_before = (now - SKEW).into();
    params.not_after = (now + SERVING_LIFETIME).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let issuer = authority(authority_made)?;
    let certificate = params.signed_by(&key, &Issuer::from_params(&issuer, authority_key))?;
    put(data, CHAIN, certificate.pem());
    put(data, KEY, key.serialize_pem());
    put(data, SERVING_MADE, seconds(now).to_string());
    put(data, NAMES, names.join("\n"));
    Ok(())
}

/// The same parameters for the same time: what signs needs no copy of the certificate. The time is in the name, so
/// that two authorities are never taken for each other.
fn authority(made: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    let name = format!("orbweaver-webhook-authority-{made}");
    params.distinguished_name.push(DnType::CommonName, name);
    let at = UNIX_EPOCH + Duration::from_secs(made);
    params.not_before = at.checked_sub(SKEW).unwrap_or(UNIX_EPOCH).into();
    params.not_after = (at + AUTHORITY_LIFETIME).into();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Unknown ages are too old; a time ahead is a clock that runs ahead, and young.
fn is_older(made: Option<u64>, limit: Duration, now: SystemTime) -> bool {
    made.is_none_or(|made| seconds(now).saturating_sub(made) >= limit.as_secs())
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn end_of_first(pem: &str) -> Option<usize> {
    let end = "-----END CERTIFICATE-----\n";
    pem.find(end).map(|at| at + end.len())
}

fn text<'a>(data: &'a Data, key: &str) -> Option<&'a str> {
    std::str::from_utf8(data.get(key)?).ok()
}

fn number(data: &Data, key: &str) -> Option<u64> {
    text(data, key)?.parse().ok()
}

fn put(data: &mut Data, key: &str, value: String) {
    data.insert(key.to_owned(), value.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn authorities(data: &Data) -> usize {
        text(data, TRUST).unwrap().matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn a_serving_certificate_is_renewed_in_time_and_its_authority_stays() {
        let (names, now) = (names(&["localhost"]), SystemTime::now());
        let data = first(&names, now).unwrap();
        assert_eq!(next(&data, &names, now + 59 * DAY).unwrap(), None);
        let renewed = next(&data, &names, now + 61 * DAY).unwrap().unwrap();
        assert_eq!(renewed[TRUST], data[TRUST]);
        assert_ne!(renewed[CHAIN], data[CHAIN]);
        assert_eq!(next(&renewed, &names, now + 62 * DAY).unwrap(), None);
    }

    #[test]
    fn a_new_authority_comes_beside_the_old_one_and_two_are_kept_at_most() {
        let (names, now) = (names(&["localhost"]), SystemTime::now());
        let mut data = first(&names, now).unwrap();
        for turn in 1..4u32 {
            let before = data.clone();
            data = next(&data, &names, now + turn * AUTHORITY_RENEW)
                .unwrap()
                .unwrap();
            assert_eq!(authorities(&data), 2);
            let oldest = text(&before, TRUST).unwrap();
            let newest = &oldest[..end_of_first(oldest).unwrap()];
            assert!(text(&data, TRUST).unwrap().ends_with(newest));
        }
    }

    #[test]
    fn names_are_added_and_never_taken_away() {
        let now = SystemTime::now();
        let data = first(&names(&["a.svc"]), now).unwrap();
        let both = next(&data, &names(&["b.svc"]), now).unwrap().unwrap();
        assert_eq!(text(&both, NAMES), Some("a.svc\nb.svc"));
        assert_eq!(next(&both, &names(&["a.svc"]), now).unwrap(), None);
    }

    #[test]
    fn a_secret_of_somebody_else_is_never_written() {
        let now = SystemTime::now();
        let mut data = first(&names(&["a"]), now).unwrap();
        data.remove(AUTHORITY_KEY);
        assert_eq!(next(&data, &names(&["b"]), now + AUTHORITY_RENEW).unwrap(), None);
    }
}
