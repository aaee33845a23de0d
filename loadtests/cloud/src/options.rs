//! How a simulated cloud and its provider are started.

use std::net::SocketAddr;
use std::time::Duration;

use crate::call_time::CallTime;

/// Everything that can be chosen. Times are given at real size and multiplied by [`CloudOptions::time_scale`],
/// all but [`CloudOptions::worst_case`].
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// Where the provider listens; port 0 chooses one.
    pub listen: SocketAddr,
    /// HTTPS with a certificate of its own CA, instead of HTTP.
    pub tls: bool,
    /// Factor of every time below: 1 is the seed's pace, 0.01 is a hundred times faster.
    pub time_scale: f64,
    /// Longest wait for a token (seed: 30 s).
    pub queue_wait: Duration,
    /// Longest cloud work of one request (seed: 16 s).
    pub call_max: Duration,
    /// The least budget that a request must bring (seed: about 48 s). Not scaled: callers send real budgets.
    pub worst_case: Duration,
    /// How long the cloud works on a request; never longer than [`CloudOptions::call_max`].
    pub call_time: CallTime,
    /// Start of everything that looks random.
    pub seed: u64,
    /// Tokens per second. Grows as times shrink, so that the pace of everything changes alike.
    pub rate: f64,
    /// Tokens that can be saved up.
    pub burst: u32,
    /// Sub-ENIs that one parent NIC can carry (reference §6.7: 256).
    pub sub_enis_per_nic: usize,
    /// Whether pools are watched: asks are checked against them, ledgers are written, node-level pools prewarmed.
    pub pools: bool,
    /// Only pools whose mark (`ipam.spidernet.io/iaas-provider`) has this value; `None` for every marked pool.
    pub vendor: Option<String>,
    /// Prewarming of node-level pools.
    pub prewarm: Prewarm,
    /// From the first change to the write of a ledger (reference §6.7: 0.5-1 s).
    pub flush_delay: Duration,
    /// Reclaim of idle sub-ENIs; `None` leaves them where they are for ever.
    pub reclaim: Option<Reclaim>,
    /// Requests that are kept for [`crate::calls::Calls::recorded`]; the oldest give way.
    pub recorded_calls: usize,
}

/// How many sub-ENIs a node-level pool gets before any pod asks.
#[derive(Clone, Debug)]
pub struct Prewarm {
    /// So many of a pool's addresses; `None` for all. Never more than a parent NIC can carry.
    pub count: Option<usize>,
    /// Sub-ENIs made by one cloud call.
    pub batch: usize,
    /// Start before `status.parentNic.mac` is known, on a parent NIC that is made up from the node's name.
    pub immediately: bool,
    /// Tokens that prewarming leaves for pods.
    pub spare_tokens: u32,
}

/// When and how idle sub-ENIs of a global pool are taken off their nodes (reference §6.7).
#[derive(Clone, Debug)]
pub struct Reclaim {
    /// Detach when more than this share of the pool's addresses is bound.
    pub detach_above: f64,
    /// Delete unbound ones when more than this share of the pool's addresses has a sub-ENI.
    pub delete_above: f64,
    /// At most so many at a time.
    pub batch: usize,
    /// Only those without a claim for so long.
    pub idle_for: Duration,
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("cloud option {name} is {value}; {remedy}")]
pub struct BadOption {
    /// The field of [`CloudOptions`].
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub remedy: &'static str,
}

impl Default for CloudOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: false,
            time_scale: 1.0,
            queue_wait: Duration::from_secs(30),
            call_max: Duration::from_secs(16),
            worst_case: Duration::from_secs(48),
            call_time: CallTime::default(),
            seed: 1,
            rate: 12.0,
            burst: 24,
            sub_enis_per_nic: 256,
            pools: true,
            vendor: None,
            prewarm: Prewarm::default(),
            flush_delay: Duration::from_millis(500),
            reclaim: None,
            recorded_calls: 10_000,
        }
    }
}

impl Default for Prewarm {
    fn default() -> Self {
        Self {
            count: None,
            batch: 10,
            immediately: false,
            spare_tokens: 4,
        }
    }
}

impl Default for Reclaim {
    fn default() -> Self {
        Self {
            detach_above: 0.6,
            delete_above: 0.9,
            batch: 10,
            idle_for: Duration::from_secs(60),
        }
    }
}

impl CloudOptions {
    /// The defaults, a hundred times faster.
    pub fn quick() -> Self {
        Self {
            time_scale: 0.01,
            ..Self::default()
        }
    }

    /// A time of these options as it really passes.
    pub fn scaled(&self, time: Duration) -> Duration {
        time.mul_f64(self.time_scale)
    }

    /// The least budget that a request must bring: [`CloudOptions::worst_case`] as it is.
    pub fn least_budget(&self) -> Duration {
        self.worst_case
    }

    /// Tokens per second as they really come.
    pub fn scaled_rate(&self) -> f64 {
        self.rate / self.time_scale
    }

    /// Refuses options that make no sense.
    pub fn check(&self) -> Result<(), BadOption> {
        positive("time_scale", self.time_scale)?;
        positive("rate", self.rate)?;
        at_least_one("burst", self.burst as usize)?;
        at_least_one("sub_enis_per_nic", self.sub_enis_per_nic)?;
        at_least_one("prewarm.batch", self.prewarm.batch)?;
        if let Some(reclaim) = &self.reclaim {
            at_least_one("reclaim.batch", reclaim.batch)?;
            share("reclaim.detach_above", reclaim.detach_above)?;
            share("reclaim.delete_above", reclaim.delete_above)?;
        }
        Ok(())
    }
}

fn positive(name: &'static str, value: f64) -> Result<(), BadOption> {
    if value.is_finite() && value > 0.0 && value < 1e6 {
        return Ok(());
    }
    let value = value.to_string();
    let remedy = "choose a number above 0 and below a million";
    Err(BadOption { name, value, remedy })
}

fn share(name: &'static str, value: f64) -> Result<(), BadOption> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    let value = value.to_string();
    let remedy = "choose a share between 0 and 1";
    Err(BadOption { name, value, remedy })
}

fn at_least_one(name: &'static str, value: usize) -> Result<(), BadOption> {
    if value > 0 {
        return Ok(());
    }
    let value = value.to_string();
    let remedy = "choose at least 1";
    Err(BadOption { name, value, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_seeds_numbers() {
        let options = CloudOptions::default();
        assert_eq!(options.least_budget(), Duration::from_secs(48));
        assert!(options.queue_wait + options.call_max <= options.least_budget());
        assert_eq!(options.sub_enis_per_nic, 256);
        assert!(options.check().is_ok());
    }

    #[test]
    fn one_factor_scales_every_time_and_the_rate() {
        let options = CloudOptions::quick();
        assert_eq!(options.scaled(options.queue_wait), Duration::from_millis(300));
        assert_eq!(
            options.least_budget(),
            Duration::from_secs(48),
            "budgets are not scaled"
        );
        assert!((options.scaled_rate() - 1200.0).abs() < 1e-6);
    }

    #[test]
    fn a_senseless_option_is_refused_by_name() {
        let options = CloudOptions {
            rate: f64::NAN,
            ..CloudOptions::default()
        };
        let text = options.check().unwrap_err().to_string();
        assert!(text.starts_with("cloud option rate is NaN"), "{text}");
    }
}
