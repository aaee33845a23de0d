//! Keeps certificate and trust right while the port is served: the secret made, shared and renewed; files read again;
//! `caBundle` of the webhook configurations written. A new certificate is shown only after it is trusted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource};
use serde_json::json;
use tokio::time::{interval, timeout};
use tracing::{info, warn};

use super::authority::{self, Data};
use super::certificate::{CertificateError, Identity, Material, Source};
use super::trust;
use crate::{chain, metrics};

/// How often everything is looked at, beside every change that a watch tells.
const LOOK: Duration = Duration::from_secs(10);
/// What one look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// How the API server names our writes.
const FIELD_MANAGER: &str = "orbweaver-controller";

/// Where certificate and trust are.
#[derive(Clone, Debug)]
pub struct Place {
    /// The certificate.
    pub source: Source,
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of our `MutatingWebhookConfiguration`; `None`: not ours to keep.
    pub mutating: Option<String>,
    /// Name of our `ValidatingWebhookConfiguration`; `None`: not ours to keep.
    pub validating: Option<String>,
}

/// Looks after one place.
#[derive(Clone)]
pub struct Keeper {
    client: Client,
    place: Place,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// Nothing is done yet.
    pub fn new(client: Client, place: Place) -> Self {
        Self { client, place }
    }

    /// The certificate to begin with. A secret that is not there is made.
    pub async fn begin(&self) -> Result<Material, CertificateError> {
        match timeout(LOOK_WITHIN, self.read(SystemTime::now())).await {
            Ok(read) => read,
            Err(elapsed) => Err(self.secret_failed(kube::Error::Service(elapsed.into()))),
        }
    }

    /// Works until dropped.
    pub async fn run(self, identity: Arc<Identity>) {
        let mut looks = interval(LOOK);
        let mut changes = self.changes();
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                Some(()) = changes.next() => {}
            }
            match timeout(LOOK_WITHIN, self.look(&identity, SystemTime::now())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failed(&chain(&error)),
                Err(_) => failed("the API server did not answer"),
            }
        }
    }

    /// One look at everything.
    pub async fn look(&self, identity: &Identity, now: SystemTime) -> Result<(), CertificateError> {
        let material = self.read(now).await?;
        let was_right = self.trust(material.trust.as_deref()).await;
        let current = identity.material();
        // API servers learn of a bundle by a watch. What was right before this look is known to them by now, and so is
        // an authority that stays.
        if current != material && (was_right || current.trust == material.trust) {
            identity.replace(material)?;
            info!("the webhook shows another certificate");
        }
        Ok(())
    }

    async fn read(&self, now: SystemTime) -> Result<Material, CertificateError> {
        match &self.place.source {
            Source::Files { chain, key, trust } => Material::from_files(chain, key, trust.as_deref()),
            Source::Secret { name, names } => {
                let data = self.shared(name, names, now).await?;
                let part = |key: &'static str| {
                    let name = name.clone();
                    data.get(key)
                        .cloned()
                        .ok_or(CertificateError::Incomplete { name, key })
                };
                Ok(Material {
                    chain: part(authority::CHAIN)?,
                    key: part(authority::KEY)?,
                    trust: data.get(authority::TRUST).cloned(),
                })
            }
        }
    }

    /// What the secret holds, after it was made or renewed if that is due. Whoever loses a race takes the winner's.
    async fn shared(&self, name: &str, names: &[String], now: SystemTime) -> Result<Data, CertificateError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let wrong = |error| self.secret_failed(error);
        let mut secret = api.get_opt(name).await.map_err(wrong)?;
        if secret.is_none() {
            let made = new_secret(name, authority::first(names, now)?);
            match api.create(&params, &made).await {
                Ok(_) => info!(secret = name, "made a certificate authority for the webhook"),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(wrong(error)),
            }
            secret = api.get_opt(name).await.map_err(wrong)?;
        }
        let Some(mut secret) = secret else {
            return Err(CertificateError::Incomplete {
                name: name.to_owned(),
                key: authority::CHAIN,
            });
        };
        let data = data(&secret);
        let Some(next) = authority::next(&data, names, now)? else {
            return Ok(data);
        };
        secret.data = Some(bytes(next.clone()));
        match api.replace(name, &params, &secret).await {
            Ok(_) => {
                info!(secret = name, "renewed the webhook's certificate");
                Ok(next)
            }
            // Another replica renews: its work is taken at the next look.
            Err(error) if is_conflict(&error) => Ok(data),
            Err(error) => Err(wrong(error)),
        }
    }

    fn secret_failed(&self, source: kube::Error) -> CertificateError {
        let name = match &self.place.source {
            Source::Secret { name, .. } => name.clone(),
            Source::Files { .. } => String::new(),
        };
        CertificateError::Secret {
            name,
            source: Box::new(source),
        }
    }

    /// Writes what must be trusted; true when there was nothing to write.
    async fn trust(&self, bundle: Option<&[u8]>) -> bool {
        let Some(bundle) = bundle else { return true };
        let mutating = self.trust_in::<MutatingWebhookConfiguration>(self.place.mutating.as_deref(), bundle);
        let validating =
            self.trust_in::<ValidatingWebhookConfiguration>(self.place.validating.as_deref(), bundle);
        let (mutating, validating) = tokio::join!(mutating, validating);
        mutating && validating
    }

    async fn trust_in<K: Resource<DynamicType = ()>>(&self, name: Option<&str>, bundle: &[u8]) -> bool {
        let Some(name) = name else { return true };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let written = async {
            let Some(found) = api.get_opt(name).await? else {
                return Ok(true);
            };
            let operations = trust::patch(&json!(found), bundle);
            if operations.is_empty() {
                return Ok(true);
            }
            let patch = serde_json::from_value(json!(operations)).map_err(kube::Error::SerdeError)?;
            api.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch))
                .await?;
            Ok::<_, kube::Error>(false)
        };
        match written.await {
            Ok(true) => true,
            Ok(false) => {
                metrics::bundle_written("ok");
                info!(configuration = name, kind = %K::kind(&()), "wrote caBundle");
                false
            }
            // Another replica was first: its change is looked at next.
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => false,
            Err(error) => {
                metrics::bundle_written("failed");
                let error = chain(&error);
                warn!(configuration = name, kind = %K::kind(&()), error, "caBundle cannot be kept right; tried again");
                false
            }
        }
    }

    /// Something of ours changed.
    fn changes(&self) -> SelectAll<BoxStream<'static, ()>> {
        let place = &self.place;
        let client = || self.client.clone();
        let mut all = SelectAll::new();
        if let Some(name) = &place.mutating {
            all.push(watch::<MutatingWebhookConfiguration>(Api::all(client()), name));
        }
        if let Some(name) = &place.validating {
            all.push(watch::<ValidatingWebhookConfiguration>(Api::all(client()), name));
        }
        if let Source::Secret { name, .. } = &place.source {
            all.push(watch::<Secret>(Api::namespaced(client(), &place.namespace), name));
        }
        all
    }
}

fn watch<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .default_backoff()
        .filter_map(|event| async move {
            match event {
                // One that a list tells may be newer than the last look.
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Ok(_) => Some(()),
                Err(_) => {
                    metrics::watch_failed("webhook");
                    None
                }
            }
        })
        .boxed()
}

fn failed(error: &str) {
    metrics::certificate_failed();
    warn!(
        error,
        "the webhook's certificate cannot be renewed; the old one stays"
    );
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn new_secret(name: &str, data: Data) -> Secret {
    let mut secret = Secret {
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(bytes(data)),
        ..Secret::default()
    };
    secret.metadata.name = Some(name.to_owned());
    secret
}

fn bytes(data: Data) -> std::collections::BTreeMap<String, ByteString> {
    data.into_iter()
        .map(|(key, value)| (key, ByteString(value)))
        .collect()
}

fn data(secret: &Secret) -> Data {
    let all = secret.data.iter().flatten();
    all.map(|(key, value)| (key.clone(), value.0.clone())).collect()
}
