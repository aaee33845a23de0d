//! What the API server asks the controller, and what happens when the controller is dead.

use orbweaver_controller::admission::injection::Injection;
use orbweaver_controller::admission::registration::entry;
use orbweaver_controller::admission::review::Hook;
use orbweaver_controller::config::file::check_text;
use serde_json::{Value, json};

use crate::helm::{NAMESPACE, Rendering, render, render_file, renderings};

fn hooks(rendering: &Rendering) -> Vec<Value> {
    ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
        .iter()
        .flat_map(|kind| rendering.of_kind(kind))
        .flat_map(|object| object["webhooks"].as_array().unwrap().clone())
        .collect()
}

fn resources(hook: &Value) -> Vec<String> {
    let rules = hook["rules"].as_array().unwrap().iter();
    rules
        .flat_map(|rule| {
            rule["resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn a_dead_controller_keeps_no_pod_and_nothing_of_others_from_being_made() {
    for (file, rendering) in renderings() {
        for hook in hooks(&rendering) {
            if hook["failurePolicy"] == "Ignore" {
                continue;
            }
            let rules = hook["rules"].as_array().unwrap();
            assert!(
                rules
                    .iter()
                    .all(|rule| rule["apiGroups"] == json!(["spiderpool.spidernet.io"])),
                "{file}: {hook}"
            );
        }
    }
}

#[test]
fn pods_are_only_asked_about_where_injection_is_wanted() {
    let pods = |rendering: &Rendering| -> Vec<Value> {
        let all = hooks(rendering).into_iter();
        all.filter(|hook| resources(hook).contains(&"pods".to_owned()))
            .collect()
    };
    assert!(pods(&render("{}")).is_empty());
    let hook = &pods(&render_file("everything.yaml"))[0];
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["rules"][0]["operations"], json!(["CREATE"]));
    let expressions = hook["namespaceSelector"]["matchExpressions"].as_array().unwrap();
    assert_eq!(expressions[0]["operator"], "NotIn");
    assert_eq!(expressions[1]["values"], json!(["jobs"]));
    let bare = render(
        "spiderpoolController: {podResourceInject: {enabled: true, namespacesExclude: [], namespacesInclude: []}}",
    );
    let hook = &pods(&bare)[0];
    let excluded = &hook["namespaceSelector"]["matchExpressions"][0]["values"];
    assert_eq!(
        *excluded,
        json!(["kube-node-lease", "kube-public", "kube-system", NAMESPACE]),
        "whatever the values say"
    );
}

#[test]
fn pools_and_reserved_addresses_are_completed_and_judged_but_their_status_is_not() {
    for (file, rendering) in renderings() {
        let strict: Vec<Value> = hooks(&rendering)
            .into_iter()
            .filter(|hook| hook["failurePolicy"] == "Fail")
            .collect();
        let asked: Vec<String> = strict.iter().flat_map(resources).collect();
        let once = ["spiderippools", "spiderreservedips"];
        assert_eq!(asked, [once, once].concat(), "{file}");
        for hook in strict {
            assert_eq!(hook["clientConfig"]["service"]["namespace"], NAMESPACE);
        }
    }
}

#[test]
fn deletions_are_judged_only_where_that_is_wanted() {
    let operations = |rendering: &Rendering| {
        let object = rendering.object("ValidatingWebhookConfiguration", "spiderpool-controller");
        object["webhooks"][0]["rules"][0]["operations"].clone()
    };
    assert_eq!(operations(&render("{}")), json!(["CREATE", "UPDATE"]));
    assert_eq!(
        operations(&render_file("everything.yaml")),
        json!(["CREATE", "UPDATE", "DELETE"])
    );
}

#[test]
fn every_webhook_reaches_a_port_of_the_service_which_reaches_the_controllers() {
    for (file, rendering) in renderings() {
        let service = rendering.object("Service", "spiderpool-controller");
        let controller = rendering.object("Deployment", "spiderpool-controller");
        let ports = service["spec"]["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == "webhook").unwrap();
        let template = &controller["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let opened = container["ports"].as_array().unwrap();
        assert!(
            opened.iter().any(|open| open["name"] == port["targetPort"]),
            "{file}"
        );
        for (key, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(template["metadata"]["labels"][key], *value, "{file}");
        }
        for hook in hooks(&rendering) {
            assert_eq!(
                hook["clientConfig"]["service"]["port"], port["port"],
                "{file}: {hook}"
            );
        }
    }
}

#[test]
fn who_trusts_the_certificate_is_said_once() {
    let bundle = |rendering: &Rendering| hooks(rendering)[0]["clientConfig"]["caBundle"].clone();
    assert_eq!(bundle(&render("{}")), Value::Null, "the controller writes it");
    assert_eq!(bundle(&render_file("provided.yaml")), json!("Y2E="));
    let managed = render_file("everything.yaml");
    assert_eq!(bundle(&managed), Value::Null, "cert-manager writes it");
    let object = managed.object("MutatingWebhookConfiguration", "spiderpool-controller");
    let from = &object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(*from, json!(format!("{NAMESPACE}/spiderpool-controller")));
    let names = &managed.object("Certificate", "spiderpool-controller")["spec"]["dnsNames"];
    let expected = format!("spiderpool-controller.{NAMESPACE}.svc");
    assert!(names.as_array().unwrap().contains(&json!(expected)));
}

#[test]
fn the_certificate_that_the_controller_makes_is_for_every_name_that_is_called() {
    let carried = render_file("spiderpool.yaml");
    let controller = carried.object("Deployment", "spiderpool-controller");
    let arguments = &controller["spec"]["template"]["spec"]["containers"][0]["args"];
    let expected = format!(
        "--webhook-name=spiderpool-controller.{NAMESPACE}.svc,spiderpool-controller.{NAMESPACE}.svc.cluster.local,webhook.example"
    );
    assert!(
        arguments.as_array().unwrap().contains(&json!(expected)),
        "{arguments}"
    );
}

#[test]
fn every_webhook_is_registered_as_the_controller_would_do_it() {
    let rendering = render_file("everything.yaml");
    let conf = rendering.object("ConfigMap", "spiderpool-conf");
    let conf = check_text(conf["data"]["conf.yml"].as_str().unwrap()).unwrap();
    let injection = Injection::new(&conf.file.pod_resource_inject, NAMESPACE);
    let registered = hooks(&rendering);
    assert_eq!(registered.len(), Hook::ALL.len());
    for hook in Hook::ALL {
        let found = registered
            .iter()
            .find(|entry| entry["clientConfig"]["service"]["path"] == hook.path());
        let found = found.unwrap_or_else(|| panic!("nobody is told of {}", hook.path()));
        let expected = entry(hook, &found["clientConfig"], &injection);
        for (field, value) in expected.as_object().unwrap() {
            // An empty selector is none.
            if *value != json!({}) {
                assert_eq!(found[field], *value, "{}: {field}", hook.path());
            }
        }
    }
}
