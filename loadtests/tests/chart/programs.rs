//! What the chart tells the programs is what they understand.

use clap::Parser;
use serde_json::Value;

use crate::helm::renderings;

fn container(workload: &Value) -> Value {
    workload["spec"]["template"]["spec"]["containers"][0].clone()
}

/// The container's arguments, as the program gets them.
fn arguments(container: &Value) -> Vec<String> {
    let texts = |field: &str| -> Vec<String> {
        let items = container[field].as_array().into_iter().flatten();
        items.map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    [texts("command"), texts("args")].concat()
}

#[test]
fn the_programs_understand_their_arguments() {
    for (file, rendering) in renderings() {
        let agent = arguments(&container(&rendering.object("DaemonSet", "spiderpool-agent")));
        assert_eq!(agent[0], "/usr/bin/orbweaver-agent");
        let read =
            orbweaver_agent::config::Args::try_parse_from(agent).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(read.admin_listen.port(), 5711, "{file}");
        let controller = arguments(&container(
            &rendering.object("Deployment", "spiderpool-controller"),
        ));
        assert_eq!(controller[0], "/usr/bin/orbweaver-controller");
        let read = orbweaver_controller::config::Args::try_parse_from(controller)
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(read.admin_listen.port(), 5721, "{file}");
    }
}

#[test]
fn every_variable_of_orbweaver_is_one_that_a_program_reads() {
    use clap::CommandFactory;
    let known = |command: clap::Command| -> Vec<String> {
        command
            .get_arguments()
            .filter_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()))
            .collect()
    };
    let agent = known(orbweaver_agent::config::Args::command());
    let controller = known(orbweaver_controller::config::Args::command());
    for (file, rendering) in renderings() {
        for (kind, name, known) in [
            ("DaemonSet", "spiderpool-agent", &agent),
            ("Deployment", "spiderpool-controller", &controller),
        ] {
            let container = container(&rendering.object(kind, name));
            for variable in container["env"].as_array().unwrap() {
                let variable = variable["name"].as_str().unwrap().to_owned();
                assert!(known.contains(&variable), "{file}: {name} has no {variable}");
            }
        }
    }
}

#[test]
fn the_socket_of_conf_yml_is_in_a_folder_that_the_agent_shares_with_the_node() {
    for (file, rendering) in renderings() {
        let conf = rendering.object("ConfigMap", "spiderpool-conf");
        let conf: Value = serde_yaml::from_str(conf["data"]["conf.yml"].as_str().unwrap()).unwrap();
        let socket = std::path::Path::new(conf["ipamUnixSocketPath"].as_str().unwrap());
        let folder = socket.parent().unwrap().to_str().unwrap();
        let agent = rendering.object("DaemonSet", "spiderpool-agent");
        let spec = &agent["spec"]["template"]["spec"];
        let volumes = spec["volumes"].as_array().unwrap().iter();
        let mut shared = volumes.filter(|volume| volume["hostPath"]["path"] == folder);
        let volume = shared.next().unwrap_or_else(|| panic!("{file}"));
        let mounts = container(&agent)["volumeMounts"].as_array().unwrap().clone();
        assert!(
            mounts
                .iter()
                .any(|mount| mount["name"] == volume["name"] && mount["mountPath"] == folder)
        );
    }
}

#[test]
fn an_agent_that_stops_gets_the_time_that_it_may_need() {
    let rendering = crate::helm::render("{}");
    let agent = rendering.object("DaemonSet", "spiderpool-agent");
    let spec = &agent["spec"]["template"]["spec"];
    // docs/agent-flags.md: twice --graceful-period and ten seconds.
    let defaults = orbweaver_agent::config::Args::parse_from(["a"]);
    let needed = 2 * defaults.graceful_period + 10;
    assert!(spec["terminationGracePeriodSeconds"].as_u64().unwrap() >= needed);
}

#[test]
fn whatever_a_container_starts_is_in_its_image() {
    let dockerfile = std::fs::read_to_string(crate::helm::chart().join("../../Dockerfile")).unwrap();
    let stage = |name: &str| -> String {
        let start = dockerfile.find(&format!(" AS {name}\n")).unwrap();
        let rest = &dockerfile[start + 1..];
        rest[..rest.find("\nFROM ").unwrap_or(rest.len())].to_owned()
    };
    for (file, rendering) in renderings() {
        for (kind, image) in [
            ("DaemonSet", "agent"),
            ("Deployment", "controller"),
            ("Job", "controller"),
        ] {
            for workload in rendering.of_kind(kind) {
                let spec = &workload["spec"]["template"]["spec"];
                let lists = [&spec["initContainers"], &spec["containers"]];
                for container in lists.into_iter().filter_map(Value::as_array).flatten() {
                    let all = arguments(container).join(" ");
                    let paths = all
                        .split_whitespace()
                        .filter(|word| word.starts_with("/usr/") || word.starts_with("/bin/"));
                    for path in paths {
                        assert!(
                            stage(image).contains(&format!(" {path}\n")),
                            "{file}: {path} is not in {image}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_images_are_built_of_programs_that_there_are() {
    let dockerfile = std::fs::read_to_string(crate::helm::chart().join("../../Dockerfile")).unwrap();
    let words: Vec<&str> = dockerfile.split_whitespace().collect();
    let programs: Vec<&str> = words
        .windows(2)
        .filter(|pair| pair[0] == "--bin")
        .map(|pair| pair[1])
        .collect();
    assert_eq!(programs.len(), 4);
    for program in programs {
        orbweaver_loadtests::programs::find(program).unwrap();
    }
}
