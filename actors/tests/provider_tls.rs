//! Whom the provider's client believes, and how it follows files that change.
#![allow(missing_docs)]

#[path = "provider_support/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::{CallFailure, ProviderApi, ProviderHttp, ProviderHttpOptions};
use orbweaver_api::provider::AllocateResponse;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use server::{Reply, Server, allocate_request, bound};
use tokio_rustls::TlsAcceptor;

/// A certificate authority of one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("a CA"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A leaf for the loopback address: certificate and key.
    fn leaf(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("key");
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("a name");
        (params.signed_by(&key, &self.0).expect("signed"), key)
    }

    fn acceptor(&self, clients: Option<&Authority>) -> TlsAcceptor {
        let (certificate, key) = self.leaf();
        let crypto = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(crypto.clone())
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a server");
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A directory that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("orbweaver-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(server: &Server, ca_file: Option<&Path>) -> ProviderHttpOptions {
    ProviderHttpOptions {
        base_url: format!("https://{}", server.authority),
        request_timeout: Duration::from_secs(50),
        ca_file: ca_file.map(Path::to_owned),
        client_certificate: None,
        client_key: None,
        insecure_skip_verify: false,
    }
}

async fn allocate(http: &ProviderHttp) -> Result<AllocateResponse, CallFailure> {
    let deadline = Deadline::after(Deadline::CNI_BUDGET);
    http.allocate(&allocate_request("10.0.0.10"), deadline, "r-1")
        .await
}

fn is_distrust(outcome: &Result<AllocateResponse, CallFailure>) -> bool {
    matches!(outcome, Err(CallFailure { error: ProviderError::Rejected(text), .. }) if text.contains("certificate"))
}

async fn tls_server(authority: &Arc<Authority>) -> Server {
    let authority = authority.clone();
    Server::tls(Reply::Keep(bound("10.0.0.10")), move || authority.acceptor(None)).await
}

/// Certificate files are looked at once a second.
async fn a_second_passes() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1001)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_server_is_believed_when_the_ca_file_vouches_for_it_and_only_then() {
    let (ours, theirs) = (Arc::new(Authority::new()), Arc::new(Authority::new()));
    let folder = Folder::new("ca");
    let ca = folder.write("ca.crt", &ours.pem());

    let friend = tls_server(&ours).await;
    let http = ProviderHttp::new(options(&friend, Some(&ca)))
        .await
        .expect("a client");
    allocate(&http).await.expect("believed");

    let mut stranger = tls_server(&theirs).await;
    let http = ProviderHttp::new(options(&stranger, Some(&ca)))
        .await
        .expect("a client");
    let outcome = allocate(&http).await;
    assert!(is_distrust(&outcome), "{outcome:?}");
    assert!(stranger.saw_nothing_more(), "nothing is said to a stranger");
}

#[tokio::test]
async fn a_ca_file_that_changes_is_followed_and_a_broken_one_is_not() {
    let (old, new) = (Arc::new(Authority::new()), Arc::new(Authority::new()));
    let folder = Folder::new("rotate");
    let ca = folder.write("ca.crt", &old.pem());
    let now_served = Arc::new(Mutex::new(old.clone()));
    let serving = now_served.clone();
    let acceptor = move || serving.lock().expect("not poisoned").acceptor(None);
    let server = Server::tls(Reply::Close(bound("10.0.0.10")), acceptor).await;
    let http = ProviderHttp::new(options(&server, Some(&ca)))
        .await
        .expect("a client");
    allocate(&http).await.expect("believed");

    folder.write("ca.crt", "half a fi");
    a_second_passes().await;
    allocate(&http).await.expect("the old one stays in use");

    *now_served.lock().expect("not poisoned") = new.clone();
    a_second_passes().await;
    let outcome = allocate(&http).await;
    assert!(is_distrust(&outcome), "{outcome:?}");

    folder.write("ca.crt", &new.pem());
    a_second_passes().await;
    allocate(&http).await.expect("the new one is in use");
}

#[tokio::test]
async fn a_server_that_asks_who_calls_is_shown_the_client_certificate() {
    let authority = Arc::new(Authority::new());
    let folder = Folder::new("client");
    let ca = folder.write("ca.crt", &authority.pem());
    let (certificate, key) = authority.leaf();
    let (serving, reply) = (authority.clone(), Reply::Keep(bound("10.0.0.10")));
    let server = Server::tls(reply, move || serving.acceptor(Some(&serving))).await;

    let nameless = ProviderHttp::new(options(&server, Some(&ca)))
        .await
        .expect("a client");
    assert!(allocate(&nameless).await.is_err());

    let known = ProviderHttpOptions {
        client_certificate: Some(folder.write("tls.crt", &certificate.pem())),
        client_key: Some(folder.write("tls.key", &key.serialize_pem())),
        ..options(&server, Some(&ca))
    };
    let known = ProviderHttp::new(known).await.expect("a client");
    allocate(&known).await.expect("known");
}

#[tokio::test]
async fn an_unknown_certificate_is_believed_only_with_insecure_skip_verify() {
    let server = tls_server(&Arc::new(Authority::new())).await;
    let folder = Folder::new("insecure");
    let ca = folder.write("ca.crt", &Authority::new().pem());
    let strict = ProviderHttp::new(options(&server, Some(&ca)))
        .await
        .expect("a client");
    assert!(allocate(&strict).await.is_err());
    let lax = ProviderHttpOptions {
        insecure_skip_verify: true,
        ..options(&server, None)
    };
    allocate(&ProviderHttp::new(lax).await.expect("a client"))
        .await
        .expect("believed without proof");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_by_name() {
    let server = tls_server(&Arc::new(Authority::new())).await;
    let folder = Folder::new("wrong");
    let wrong = folder.write("wrong.crt", "this is no certificate");
    let refusal = async |options| {
        ProviderHttp::new(options)
            .await
            .expect_err("not usable")
            .to_string()
    };

    let missing = refusal(options(&server, Some(&folder.0.join("missing.crt")))).await;
    assert!(
        missing.starts_with("cannot read tls.caFile ") && missing.contains("missing.crt"),
        "{missing}"
    );
    let empty = refusal(options(&server, Some(&wrong))).await;
    assert!(
        empty.starts_with("tls.caFile is not usable: it holds no certificate"),
        "{empty}"
    );
    let half = ProviderHttpOptions {
        client_key: Some(wrong.clone()),
        ..options(&server, None)
    };
    assert!(refusal(half).await.starts_with("a client certificate needs both"));
}
