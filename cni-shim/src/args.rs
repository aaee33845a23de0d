//! What the runtime says through `CNI_*` variables. Pure: the environment is a function.

mod pod;

use std::ffi::OsString;

pub use pod::Pod;

use crate::command::Command;
use crate::error::{Error, shown};

/// Longest container id that is accepted, in bytes. Runtimes use 64; the CNI specification has no bound.
pub const CONTAINER_ID_MAX: usize = 256;
/// Longest interface name, in bytes (the kernel's `IFNAMSIZ` less its end mark).
pub const NIC_MAX: usize = 15;
/// Longest path of a network namespace, in bytes (`PATH_MAX`).
pub const NETNS_MAX: usize = 4096;
/// Longest `CNI_ARGS`, in bytes. The five keys of a kubelet with the longest legal values take less than 1 KiB.
pub const CNI_ARGS_MAX: usize = 16 * 1024;

/// Looks a variable up.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The validated `CNI_*` variables of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// `CNI_CONTAINERID`: the sandbox. Empty for GC and STATUS.
    pub container_id: String,
    /// `CNI_IFNAME`. Empty for GC and STATUS.
    pub nic: String,
    /// `CNI_NETNS`. Empty in the late DELs of a kubelet.
    pub netns: String,
    /// The pod named in `CNI_ARGS`. May be empty for anything but ADD and CHECK.
    pub pod: Pod,
}

impl Args {
    /// Reads and checks what `command` needs.
    ///
    /// # Errors
    /// Code 4, naming the variable: one is missing, too long, not UTF-8 or malformed.
    pub fn read(command: Command, env: Environment<'_>) -> Result<Self, Error> {
        let container_id = bounded(env, "CNI_CONTAINERID", CONTAINER_ID_MAX)?;
        let nic = bounded(env, "CNI_IFNAME", 4 * NIC_MAX)?;
        let netns = bounded(env, "CNI_NETNS", NETNS_MAX)?;
        let given = [
            ("CNI_CONTAINERID", &container_id),
            ("CNI_IFNAME", &nic),
            ("CNI_NETNS", &netns),
        ];
        let missing = given
            .iter()
            .filter(|(name, value)| value.is_empty() && command.needs(name));
        let missing: Vec<&'static str> = missing.map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            return Err(Error::VariablesMissing {
                command,
                names: missing.join(", "),
            });
        }
        if !container_id.is_empty() {
            check_container_id(&container_id).map_err(|problem| invalid("CNI_CONTAINERID", problem))?;
        }
        if !nic.is_empty() {
            check_nic(&nic).map_err(|problem| invalid("CNI_IFNAME", problem))?;
        }
        let pod = Pod::parse(&bounded(env, "CNI_ARGS", CNI_ARGS_MAX)?)?;
        if command.needs("CNI_ARGS") {
            pod.require_name()?;
        }
        Ok(Self {
            container_id,
            nic,
            netns,
            pod,
        })
    }
}

/// The verb in `CNI_COMMAND`.
///
/// # Errors
/// Code 4: not set, or not a verb.
pub fn command(env: Environment<'_>) -> Result<Command, Error> {
    let name = bounded(env, "CNI_COMMAND", 64)?;
    if name.is_empty() {
        let problem = "is not set: this program is a CNI plugin, a container runtime runs it".to_owned();
        return Err(invalid("CNI_COMMAND", problem));
    }
    Command::parse(&name).ok_or_else(|| {
        let known = Command::ALL.map(Command::name).join(", ");
        invalid("CNI_COMMAND", format!("{} is not one of {known}", shown(&name)))
    })
}

fn invalid(variable: &'static str, problem: String) -> Error {
    Error::Variable { variable, problem }
}

fn bounded(env: Environment<'_>, variable: &'static str, max: usize) -> Result<String, Error> {
    let value = env(variable).unwrap_or_default();
    if value.len() > max {
        return Err(invalid(
            variable,
            format!("has {} bytes, at most {max} are accepted", value.len()),
        ));
    }
    value
        .into_string()
        .map_err(|_| invalid(variable, "is not UTF-8".to_owned()))
}

/// The CNI specification's rule: begins with a letter or digit, then also `_`, `.` and `-`.
pub(crate) fn check_container_id(id: &str) -> Result<(), String> {
    let first = id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if first && rest && id.len() <= CONTAINER_ID_MAX {
        return Ok(());
    }
    Err(format!(
        "{} is not a container id: up to {CONTAINER_ID_MAX} letters, digits, '_', '.' and '-', beginning with a letter or digit",
        shown(id)
    ))
}

/// The CNI specification's rule, which is the kernel's.
pub(crate) fn check_nic(nic: &str) -> Result<(), String> {
    let fits = (1..=NIC_MAX).contains(&nic.len()) && nic != "." && nic != "..";
    let clean = !nic
        .chars()
        .any(|c| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if fits && clean {
        return Ok(());
    }
    Err(format!(
        "{} is not an interface name: 1 to {NIC_MAX} bytes, no '/', ':' or white space, not '.' or '..'",
        shown(nic)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0";

    fn read(command: Command, variables: &[(&str, &str)]) -> Result<Args, Error> {
        Args::read(command, &|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn each_verb_names_exactly_the_variables_it_lacks() {
        let table = [
            (Command::Add, Some("CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS")),
            (Command::Check, Some("CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS")),
            (Command::Del, Some("CNI_CONTAINERID, CNI_IFNAME")),
            (Command::Gc, None),
            (Command::Status, None),
        ];
        for (command, names) in table {
            match (read(command, &[]), names) {
                (Ok(_), None) => {}
                (Err(Error::VariablesMissing { names: found, .. }), Some(names)) => assert_eq!(found, names),
                (other, _) => panic!("{command:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_del_needs_neither_netns_nor_pod() {
        let args = read(Command::Del, &[("CNI_CONTAINERID", "c1"), ("CNI_IFNAME", "eth0")]).unwrap();
        assert_eq!((args.netns.as_str(), args.pod), ("", Pod::default()));
    }

    #[test]
    fn a_value_that_breaks_a_rule_is_refused_with_its_variable() {
        let long = "c".repeat(CONTAINER_ID_MAX + 1);
        let table = [
            ("CNI_CONTAINERID", "-c1"),
            ("CNI_CONTAINERID", "../etc"),
            ("CNI_CONTAINERID", "c 1"),
            ("CNI_CONTAINERID", long.as_str()),
            ("CNI_IFNAME", "sixteen-bytes-xx"),
            ("CNI_IFNAME", ".."),
            ("CNI_IFNAME", "et/h0"),
            ("CNI_IFNAME", "eth:0"),
            ("CNI_IFNAME", "eth 0"),
            ("CNI_ARGS", "K8S_POD_NAME"),
        ];
        let good = [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/n"),
            ("CNI_ARGS", POD),
        ];
        read(Command::Add, &good).unwrap();
        for (variable, value) in table {
            let mut variables = good.to_vec();
            variables.retain(|(name, _)| *name != variable);
            variables.push((variable, value));
            match read(Command::Add, &variables) {
                Err(Error::Variable { variable: found, .. }) => assert_eq!(found, variable, "{value}"),
                other => panic!("{variable}={value}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_add_without_a_pod_name_is_refused() {
        let bare = [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/n"),
        ];
        let error = read(Command::Add, &bare).unwrap_err().to_string();
        assert!(
            error.contains("CNI_ARGS") && error.contains("K8S_POD_NAME"),
            "{error}"
        );
    }
}
