//! What garbage collection is told: flags, the reference's variables (§5.1) and `conf.yml`.

use std::time::Duration;

use clap::Args;
use orbweaver_api::config::ConfFile;

use crate::collection::Policy;
use crate::config::ConfigError;

/// Longest time that a flag takes, seconds.
const MOST: u64 = 86_400;

/// Flags of garbage collection; those that are not given are the reference's variables, then defaults.
#[derive(Clone, Debug, Default, Args)]
pub struct GcArgs {
    /// Collect what pods left behind: true or false; also `SPIDERPOOL_GC_IP_ENABLED` [default: true]
    #[arg(long, env = "ORBWEAVER_GC_ENABLED")]
    pub gc_enabled: Option<String>,
    /// Seconds between looks at the cluster; also `SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION` [default: 600]
    #[arg(long, env = "ORBWEAVER_GC_INTERVAL")]
    pub gc_interval: Option<String>,
    /// Least seconds between two looks at a suspect; also `SPIDERPOOL_GC_TRACE_POD_GAP_DURATION` [default: 5]
    #[arg(long, env = "ORBWEAVER_GC_GAP")]
    pub gc_gap: Option<String>,
    /// Seconds for which a claim must look abandoned; also `SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY` [default: 30]
    #[arg(long, env = "ORBWEAVER_GC_GRACE")]
    pub gc_grace: Option<String>,
    /// Collect from pods on ready nodes that do not end: true or false; also
    /// `SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED` [default: true]
    #[arg(long, env = "ORBWEAVER_GC_TERMINATING_ON_READY_NODE")]
    pub gc_terminating_on_ready_node: Option<String>,
    /// The same on nodes that are not ready; also
    /// `SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED` [default: true]
    #[arg(long, env = "ORBWEAVER_GC_TERMINATING_ON_NOT_READY_NODE")]
    pub gc_terminating_on_not_ready_node: Option<String>,
}

/// One setting: as given, under the name that it was given by.
struct Setting {
    name: &'static str,
    value: Option<String>,
}

impl Setting {
    fn of(
        flag: &'static str,
        given: Option<&String>,
        variable: &'static str,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        // A chart that renders an empty value means none.
        let set = |value: &String| !value.is_empty();
        match given.cloned().filter(set) {
            Some(value) => Self {
                name: flag,
                value: Some(value),
            },
            None => Self {
                name: variable,
                value: lookup(variable).filter(set),
            },
        }
    }

    fn wrong(self, why: &'static str) -> ConfigError {
        ConfigError::Wrong {
            name: self.name,
            value: self.value.unwrap_or_default(),
            why,
        }
    }

    fn seconds(self, least: u64, default: Duration) -> Result<Duration, ConfigError> {
        let Some(text) = &self.value else {
            return Ok(default);
        };
        match text.parse::<u64>() {
            Ok(seconds) if (least..=MOST).contains(&seconds) => Ok(Duration::from_secs(seconds)),
            _ if least == 0 => Err(self.wrong("write 0 to 86400 seconds")),
            _ => Err(self.wrong("write 1 to 86400 seconds")),
        }
    }

    fn switch(self, default: bool) -> Result<bool, ConfigError> {
        match self.value.as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.wrong("write true or false")),
        }
    }
}

impl GcArgs {
    /// The policy.
    pub fn resolve(
        &self,
        conf: &ConfFile,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Policy, ConfigError> {
        let of = |flag, given, variable| Setting::of(flag, given, variable, lookup);
        let default = Policy::default();
        Ok(Policy {
            enabled: of(
                "--gc-enabled",
                self.gc_enabled.as_ref(),
                "SPIDERPOOL_GC_IP_ENABLED",
            )
            .switch(default.enabled)?,
            interval: of(
                "--gc-interval",
                self.gc_interval.as_ref(),
                "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION",
            )
            .seconds(1, default.interval)?,
            gap: of(
                "--gc-gap",
                self.gc_gap.as_ref(),
                "SPIDERPOOL_GC_TRACE_POD_GAP_DURATION",
            )
            .seconds(1, default.gap)?,
            grace: of(
                "--gc-grace",
                self.gc_grace.as_ref(),
                "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY",
            )
            .seconds(0, default.grace)?,
            terminating_on_ready: of(
                "--gc-terminating-on-ready-node",
                self.gc_terminating_on_ready_node.as_ref(),
                "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED",
            )
            .switch(default.terminating_on_ready)?,
            terminating_on_not_ready: of(
                "--gc-terminating-on-not-ready-node",
                self.gc_terminating_on_not_ready_node.as_ref(),
                "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED",
            )
            .switch(default.terminating_on_not_ready)?,
            stateful_sets: conf.enable_stateful_set,
            virtual_machines: conf.enable_kubevirt_static_ip,
            outdated_endpoints: conf.enable_clean_outdated_endpoint,
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_references_variables_are_understood_and_flags_beat_them() {
        let lookup = |name: &str| match name {
            "SPIDERPOOL_GC_IP_ENABLED" => Some("false".to_owned()),
            "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION" => Some("60".to_owned()),
            "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY" => Some(String::new()),
            _ => None,
        };
        let args = GcArgs {
            gc_interval: Some("120".to_owned()),
            ..GcArgs::default()
        };
        let conf = ConfFile {
            enable_stateful_set: false,
            ..ConfFile::default()
        };
        let policy = args.resolve(&conf, &lookup).unwrap();
        let expected = Policy {
            enabled: false,
            interval: Duration::from_secs(120),
            stateful_sets: false,
            ..Policy::default()
        };
        assert_eq!(policy, expected);
    }

    #[test]
    fn what_is_wrong_is_named_by_where_it_came_from() {
        let none = |_: &str| None;
        let flag = GcArgs {
            gc_gap: Some("0".to_owned()),
            ..GcArgs::default()
        };
        let text = flag.resolve(&ConfFile::default(), &none).unwrap_err().to_string();
        assert!(
            text.contains("--gc-gap \"0\"") && text.contains("1 to 86400"),
            "{text}"
        );
        let variable = |name: &str| (name == "SPIDERPOOL_GC_IP_ENABLED").then(|| "maybe".to_owned());
        let text = GcArgs::default()
            .resolve(&ConfFile::default(), &variable)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("SPIDERPOOL_GC_IP_ENABLED") && text.contains("maybe"),
            "{text}"
        );
    }
}
