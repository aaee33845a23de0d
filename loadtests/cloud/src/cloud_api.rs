//! The cloud behind the provider: it outlives any provider, takes its time, and finishes what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::faults::Faults;
use crate::options::CloudOptions;
use crate::sub_eni::{Inventory, SubEni};
use crate::truth::{CloudError, Operation, Truth, Work};

/// The simulated cloud's API.
#[derive(Debug)]
pub(crate) struct CloudApi {
    truth: Mutex<Truth>,
    faults: Faults,
    options: Arc<CloudOptions>,
    requests: AtomicU64,
    tasks: TaskTracker,
}

/// What one call did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// How to undo it, last first.
    pub(crate) undo: Vec<Operation>,
    /// Why it stopped before its end.
    pub(crate) error: Option<CloudError>,
}

impl CloudApi {
    pub(crate) fn new(options: Arc<CloudOptions>, faults: Faults, tasks: TaskTracker) -> Self {
        Self {
            truth: Mutex::new(Truth::new(options.sub_enis_per_nic)),
            faults,
            options,
            requests: AtomicU64::new(0),
            tasks,
        }
    }

    /// The time that the cloud will need for the next request.
    pub(crate) fn next_time(&self) -> Duration {
        let index = self.requests.fetch_add(1, Ordering::Relaxed);
        let time = self.options.call_time.sample(self.options.seed, index);
        self.options.scaled(time.min(self.options.call_max))
    }

    /// Does operations one after the other, `time` after the call. Goes on when the caller goes away.
    pub(crate) async fn call(self: &Arc<Self>, operations: Vec<Operation>, time: Duration) -> Done {
        self.truth.lock().work.calls += 1;
        let cloud = self.clone();
        let work = self.tasks.spawn(async move {
            tokio::time::sleep(time).await;
            cloud.perform(&operations)
        });
        work.await.unwrap_or_else(|_| Done {
            undo: Vec::new(),
            error: Some(CloudError::Broken),
        })
    }

    fn perform(&self, operations: &[Operation]) -> Done {
        let mut truth = self.truth.lock();
        let mut done = Done::default();
        for operation in operations {
            let result = if self.faults.hit_cloud() {
                Err(CloudError::Broken)
            } else {
                truth.perform(operation)
            };
            match result {
                Ok(undo) => done.undo.extend(undo),
                Err(error) => {
                    done.error = Some(error);
                    break;
                }
            }
        }
        done.undo.reverse();
        done
    }

    /// Everything there is.
    pub(crate) fn list(&self) -> Inventory {
        self.truth.lock().sub_enis().clone()
    }

    /// The sub-ENI of an address, primary or paired.
    pub(crate) fn describe(&self, address: std::net::IpAddr) -> Option<SubEni> {
        self.truth.lock().sub_enis().holder(address).cloned()
    }

    pub(crate) fn work(&self) -> Work {
        self.truth.lock().work
    }
}
