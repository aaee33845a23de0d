//! Takes the finalizer off everything that a removed installation leaves behind, so that nothing is stuck when somebody
//! deletes it. Claims, ledgers and endpoints stay as they are: another installation goes on from them. What the
//! controllers made for themselves, their lease among it, is deleted.
//!
//! Made for the chart's post-delete hook. It waits for agents and controllers to be gone first, because those put the
//! finalizer on again, and looks until a whole list has none.

use std::error::Error;
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, NamespaceResourceScope, PartialObjectMeta};
use kube::{Api, Client, Config, Resource, ResourceExt};
use orbweaver_api::{FINALIZER, GROUP, VERSION};
use orbweaver_controller::admission::registrar::PLEDGES;
use orbweaver_controller::config::LEASE_NAME;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

/// What carries the finalizer.
const KINDS: [(&str, &str); 3] = [
    ("SpiderIPPool", "spiderippools"),
    ("SpiderEndpoint", "spiderendpoints"),
    ("SpiderSubnet", "spidersubnets"),
];
/// Objects per page of a list.
const PAGE: u32 = 500;
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
const USER_AGENT: &str = concat!("orbweaver-uninstall/", env!("CARGO_PKG_VERSION"));

type Failure = Box<dyn Error + Send + Sync>;

/// Takes Orbweaver's finalizer off all pools, endpoints and subnets.
#[derive(Debug, Parser)]
#[command(name = "orbweaver-uninstall", version)]
struct Args {
    /// Kubeconfig file; without it KUBECONFIG, then the pod's service account
    #[arg(long, env = "ORBWEAVER_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the installation's pods
    #[arg(long, env = "ORBWEAVER_NAMESPACE")]
    namespace: String,
    /// Label selector of agents and controllers; while one is there, for half of the time at most, nothing is done
    #[arg(long)]
    await_gone: Option<String>,
    /// Secret in which the controllers kept a certificate of their own making; it is deleted
    #[arg(long)]
    tls_secret: Option<String>,
    /// Seconds for everything
    #[arg(long, default_value = "240", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let end = Instant::now() + Duration::from_secs(args.within);
    match timeout_at(end, uninstall(&args, end)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("orbweaver-uninstall: {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            let seconds = args.within;
            eprintln!(
                "orbweaver-uninstall: not done after {seconds} s; the lines above say what is left, run it again"
            );
            ExitCode::FAILURE
        }
    }
}

async fn uninstall(args: &Args, end: Instant) -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = connect(args).await?;
    if let Some(selector) = &args.await_gone {
        let half = Instant::now() + end.duration_since(Instant::now()) / 2;
        if timeout_at(half, gone(&client, &args.namespace, selector))
            .await
            .is_err()
        {
            println!(
                "pods with the labels {selector:?} are still there; going on without waiting any longer"
            );
        }
    }
    loop {
        let mut left = 0;
        for (kind, plural) in KINDS {
            left += free(&client, kind, plural).await;
        }
        if left == 0 {
            println!("no finalizer {FINALIZER} is left");
            break;
        }
        sleep(PAUSE).await;
    }
    let namespace = args.namespace.as_str();
    if let Some(secret) = &args.tls_secret {
        delete::<Secret>(&client, namespace, secret).await?;
    }
    delete::<ConfigMap>(&client, namespace, PLEDGES).await?;
    delete::<Lease>(&client, namespace, LEASE_NAME).await?;
    Ok(())
}

async fn delete<K>(client: &Client, namespace: &str, name: &str) -> Result<(), Failure>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&());
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => println!("{kind} {name} is deleted"),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(format!("{kind} {name} cannot be deleted: {error}").into()),
    }
    Ok(())
}

async fn connect(args: &Args) -> Result<Client, Failure> {
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
        }
        None => Config::infer().await?,
    };
    let agent = http::HeaderValue::from_static(USER_AGENT);
    config.headers.push((http::header::USER_AGENT, agent));
    Ok(Client::try_from(config)?)
}

async fn gone(client: &Client, namespace: &str, selector: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    loop {
        match pods.list_metadata(&ListParams::default().labels(selector)).await {
            Ok(list) if list.items.is_empty() => return,
            Ok(list) => println!("waiting for {} pods to go", list.items.len()),
            Err(error) => eprintln!("pods of {namespace} cannot be listed: {error}"),
        }
        sleep(PAUSE).await;
    }
}

/// Frees all objects of one kind; how many had, or may have, a finalizer. A kind that is not served has none.
async fn free(client: &Client, kind: &str, plural: &str) -> usize {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: format!("{GROUP}/{VERSION}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let held = match holders(client, &resource).await {
        Ok(held) => held,
        Err(kube::Error::Api(status)) if status.code == 404 => return 0,
        Err(error) => {
            eprintln!("{plural} cannot be listed: {error}");
            return 1;
        }
    };
    for object in &held {
        let (namespace, name) = (object.namespace(), object.name_any());
        let api: Api<DynamicObject> = match &namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let patch = json!({ "metadata": {
            // Somebody may add another finalizer meanwhile.
            "resourceVersion": object.resource_version(),
            "finalizers": without_ours(object.finalizers()),
        }});
        let freed = api
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match freed {
            Ok(_) => println!("{kind} {name} is free"),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => eprintln!("{kind} {name} cannot be freed: {error}"),
        }
    }
    held.len()
}

async fn holders(
    client: &Client,
    resource: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    let mut held = Vec::new();
    loop {
        let page = api.list_metadata(&params).await?;
        let ours = |object: &PartialObjectMeta<DynamicObject>| {
            object.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
        };
        held.extend(page.items.into_iter().filter(ours));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(held),
        }
    }
}

fn without_ours(finalizers: &[String]) -> Vec<&String> {
    let others = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER);
    others.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_others_stay() {
        let finalizers = ["a".to_owned(), FINALIZER.to_owned(), "b".to_owned()];
        assert_eq!(without_ours(&finalizers), ["a", "b"]);
    }

    #[test]
    fn the_hooks_arguments_are_understood() {
        let args = Args::try_parse_from(["u", "--namespace=n", "--await-gone=a in (b,c)", "--within=240"]);
        assert_eq!(args.unwrap().await_gone.as_deref(), Some("a in (b,c)"));
        assert!(Args::try_parse_from(["u", "--namespace=n", "--within=0"]).is_err());
    }
}
