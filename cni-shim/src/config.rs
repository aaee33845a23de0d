//! The network configuration on standard input (reference §3.1). Pure.

mod section;

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::command::Command;
use crate::error::{Error, shown, shown_json};
use crate::log::{DEFAULT_PATH, Level, Settings};
use crate::result::Version;
use section::Section;

/// Where the agent listens by default (reference §3.1).
pub const DEFAULT_SOCKET: &str = "/var/run/spidernet/spiderpool.sock";
/// Longest path of a unix socket, in bytes: the kernel's `sun_path` less its end mark.
pub const SOCKET_PATH_MAX: usize = 107;

/// What this plugin reads of a network configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `cniVersion`.
    pub version: Version,
    /// `ipam.ipam_unix_socket_path`.
    pub socket: PathBuf,
    /// `ipam.default_ipv4_ippool`: pools for pods that name none.
    pub default_ipv4_pools: Vec<String>,
    /// `ipam.default_ipv6_ippool`.
    pub default_ipv6_pools: Vec<String>,
    /// `ipam.clean_gateway`: no default route from the pool's gateway.
    pub clean_gateway: bool,
    /// `ipam.match_master_subnet`.
    pub match_master_subnet: bool,
    /// `ipam.log_*`.
    pub log: Settings,
    /// Keys of `ipam` that nobody knows; worth a warning, since a misspelt key is a silent default.
    pub unknown: Vec<String>,
    /// The whole object, for what only some verbs read.
    pub network: Map<String, Value>,
}

/// The JSON object on standard input.
///
/// # Errors
/// Code 6: no JSON, or no object.
pub fn decode(stdin: &[u8]) -> Result<Map<String, Value>, Error> {
    if stdin.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::Decode("is empty".to_owned()));
    }
    match serde_json::from_slice(stdin) {
        Ok(Value::Object(network)) => Ok(network),
        Ok(_) => Err(Error::Decode("is not a JSON object".to_owned())),
        Err(error) => Err(Error::Decode(format!("is not valid JSON: {error}"))),
    }
}

/// `cniVersion`, if `command` exists in it.
///
/// # Errors
/// Code 1: not supported, absent (which means 0.1.0 to CNI's library), or older than the verb.
pub fn version(network: &Map<String, Value>, command: Command) -> Result<Version, Error> {
    let version = match network.get("cniVersion") {
        // DEL prints no result, so a version changes nothing and must not keep an address from being released.
        None | Some(Value::Null) if command == Command::Del => Version::LATEST,
        None | Some(Value::Null) => {
            return Err(Error::VersionUnsupported {
                found: "0.1.0 (not given)".to_owned(),
            });
        }
        Some(Value::String(name)) => {
            Version::parse(name).ok_or_else(|| Error::VersionUnsupported { found: shown(name) })?
        }
        Some(other) => {
            return Err(Error::VersionUnsupported {
                found: shown_json(Some(other)),
            });
        }
    };
    if version < command.since() {
        return Err(Error::VerbNotOffered {
            command,
            found: version,
            since: command.since(),
        });
    }
    Ok(version)
}

impl Config {
    /// Reads the fields of `network`, with their defaults.
    ///
    /// # Errors
    /// Code 7 with field, value and remedy.
    pub fn read(network: Map<String, Value>, version: Version, command: Command) -> Result<Self, Error> {
        let mut ipam = match network.get("ipam") {
            Some(Value::Object(ipam)) => Section::new(ipam),
            // Some callers of a DEL leave it out. For an ADD it would mean that the network was wired by mistake.
            None | Some(Value::Null) if command != Command::Add => Section::empty(),
            other => {
                return Err(Error::Config {
                    field: "ipam",
                    value: shown_json(other),
                    remedy: "it must be an object such as {\"type\": \"spiderpool\"}".to_owned(),
                });
            }
        };
        ipam.skip("type");
        let socket = ipam.path("ipam.ipam_unix_socket_path", DEFAULT_SOCKET, SOCKET_PATH_MAX)?;
        let default_ipv4_pools = ipam.names("ipam.default_ipv4_ippool")?;
        let default_ipv6_pools = ipam.names("ipam.default_ipv6_ippool")?;
        let clean_gateway = ipam.boolean("ipam.clean_gateway")?;
        let match_master_subnet = ipam.boolean("ipam.match_master_subnet")?;
        let log = log_settings(&mut ipam)?;
        let unknown = ipam.unread();
        Ok(Self {
            version,
            socket,
            default_ipv4_pools,
            default_ipv6_pools,
            clean_gateway,
            match_master_subnet,
            log,
            unknown,
            network,
        })
    }
}

/// Absent and negative mean the documented default, zero "no limit" (for the size, which must have one, the default).
/// The reference lets an absent key mean zero too, so that its documented defaults are never in force.
fn log_settings(ipam: &mut Section<'_>) -> Result<Settings, Error> {
    let defaults = Settings::default();
    let level = match ipam.text("ipam.log_level")? {
        None => defaults.level,
        Some(name) => Level::parse(name).ok_or_else(|| Error::Config {
            field: "ipam.log_level",
            value: shown(name),
            remedy: format!("use one of {}", Level::ALL.map(Level::name).join(", ")),
        })?,
    };
    let path = ipam.path("ipam.log_file_path", DEFAULT_PATH, crate::args::NETNS_MAX)?;
    let max_megabytes = ipam.limit("ipam.log_file_max_size")?.filter(|size| *size != 0);
    let max_days = ipam.limit("ipam.log_file_max_age")?;
    let max_count = ipam.limit("ipam.log_file_max_count")?;
    Ok(Settings {
        level,
        path,
        max_megabytes: max_megabytes.unwrap_or(defaults.max_megabytes),
        max_days: max_days.unwrap_or(defaults.max_days),
        max_count: max_count.unwrap_or(defaults.max_count),
    })
}

#[cfg(test)]
mod tests;
