//! Certificates and who trusts them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, Patch, PatchParams, PostParams};
use orbweaver_controller::admission::Settings;
use orbweaver_controller::admission::certificate::{Identity, Source};
use orbweaver_controller::admission::keeper::{Keeper, Place};
use serde_json::json;

use crate::world::{World, until};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn an_api_server_asks_the_webhook_and_gives_its_answer() {
    let world = World::start(1).await;
    let pool = world.pool("p", "0.0/24", &["0.2", "0.1"]);
    let made = world.pools().create(&PostParams::default(), &pool).await.unwrap();
    assert_eq!(made.data["spec"]["ips"], json!([world.at("0.1-0.2")]));
    assert_eq!(made.data["spec"]["ipVersion"], 4);
    assert_eq!(made.metadata.finalizers.unwrap(), [orbweaver_api::FINALIZER]);
    let wrong = world.pool("q", "1.0/24", &["0.9", "0.8"]);
    let refused = world.pools().create(&PostParams::default(), &wrong).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    let causes = status.details.unwrap().causes;
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!((status.code, fields), (422, vec!["spec.ips[0]"]));
    world.end().await;
}

#[tokio::test]
async fn replicas_share_one_certificate() {
    let mut world = World::bare().await;
    for _ in 0..3 {
        world.add_server(Settings::default()).await;
    }
    let first = world.servers[0].identity.material();
    assert!(
        world
            .servers
            .iter()
            .all(|server| server.identity.material() == first)
    );
    world.end().await;
}

#[tokio::test]
async fn a_bundle_that_somebody_empties_is_written_again() {
    let world = World::start(1).await;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let name = world.named("0");
    let emptied = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let emptied = Patch::<()>::Json(serde_json::from_value(emptied).unwrap());
    api.patch(&name, &PatchParams::default(), &emptied).await.unwrap();
    let trusted = world.servers[0].identity.material().trust.unwrap();
    until("the bundle is written again", async || {
        let found = api.get(&name).await.unwrap();
        let bundles = found.webhooks.unwrap().into_iter();
        let bundles = bundles.map(|entry| entry.client_config.ca_bundle.map(|bundle| bundle.0));
        bundles
            .collect::<Vec<_>>()
            .iter()
            .all(|bundle| bundle.as_ref() == Some(&trusted))
            .then_some(())
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_new_authority_is_trusted_before_its_certificate_is_shown() {
    let mut world = World::bare().await;
    let keeper = Keeper::new(world.client.clone(), world.place(0));
    let identity = Identity::new(keeper.begin().await.unwrap()).unwrap();
    let first = identity.material();
    world.add_server(Settings::default()).await;
    world.register(0).await;
    world.is_asked(0).await;
    let later = SystemTime::now() + 3300 * DAY;
    keeper.look(&identity, later).await.unwrap();
    assert_eq!(identity.material(), first, "API servers do not know it yet");
    // The server's own keeper may have written the bundle, too: whoever saw it right may go on.
    until("the new certificate is shown", async || {
        keeper.look(&identity, later).await.unwrap();
        (identity.material() != first).then_some(())
    })
    .await;
    let (before, after) = (first.trust.unwrap(), identity.material().trust.unwrap());
    assert!(
        after.ends_with(&before),
        "certificates of the old one are still believed"
    );
    world.end().await;
}

#[tokio::test]
async fn a_serving_certificate_is_renewed_without_a_new_authority() {
    let world = World::bare().await;
    let place = Place {
        mutating: None,
        validating: None,
        ..world.place(0)
    };
    let keeper = Keeper::new(world.client.clone(), place);
    let identity = Identity::new(keeper.begin().await.unwrap()).unwrap();
    let first = identity.material();
    keeper
        .look(&identity, SystemTime::now() + 59 * DAY)
        .await
        .unwrap();
    assert_eq!(identity.material(), first);
    keeper
        .look(&identity, SystemTime::now() + 61 * DAY)
        .await
        .unwrap();
    let second = identity.material();
    assert_ne!(second.chain, first.chain);
    assert_eq!(second.trust, first.trust);
    world.end().await;
}

fn write_pair(directory: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
}

#[tokio::test]
async fn a_given_certificate_is_read_again_and_a_broken_one_is_not_taken() {
    let world = World::bare().await;
    let directory = tempfile::tempdir().unwrap();
    write_pair(directory.path());
    let chain = directory.path().join("tls.crt");
    let source = Source::Files {
        chain: chain.clone(),
        key: directory.path().join("tls.key"),
        trust: None,
    };
    let place = Place {
        source,
        ..world.place(0)
    };
    let keeper = Keeper::new(world.client.clone(), place);
    let identity = Identity::new(keeper.begin().await.unwrap()).unwrap();
    let first = identity.material();
    write_pair(directory.path());
    keeper.look(&identity, SystemTime::now()).await.unwrap();
    let second = identity.material();
    assert_ne!(second, first);
    std::fs::write(&chain, "nonsense").unwrap();
    keeper.look(&identity, SystemTime::now()).await.unwrap_err();
    assert_eq!(identity.material(), second);
    world.end().await;
}
