//! The protocol of pledges under any interleaving of replicas, the API server's writes and deletions: pools that are
//! there never overlap. The steps are those of `admission::registrar`, one read or write each.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::pool::SpiderIPPool;
use orbweaver_controller::admission::pledge::{self, Pledge};
use orbweaver_controller::admission::pool_fields::effective;
use orbweaver_controller::admission::{Settings, pool_rules};
use proptest::prelude::*;
use serde_json::json;

const NOW: Duration = Duration::from_secs(1_000_000);

#[derive(Debug, Default)]
struct Cluster {
    version: u64,
    pools: Vec<Arc<SpiderIPPool>>,
    pledges: (u64, Option<String>),
    gone: BTreeSet<String>,
}

impl Cluster {
    fn find(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        let mut pools = self.pools.iter();
        pools
            .find(|pool| pool.metadata.name.as_deref() == Some(name))
            .cloned()
    }

    fn put(&mut self, mut pool: SpiderIPPool) {
        self.version += 1;
        pool.metadata.resource_version = Some(self.version.to_string());
        self.pools
            .retain(|other| other.metadata.name != pool.metadata.name);
        self.pools.push(Arc::new(pool));
    }

    /// Two pools that share an address.
    fn overlap(&self) -> Option<(&SpiderIPPool, &SpiderIPPool)> {
        let mut pairs = self
            .pools
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.pools[at + 1..].iter().map(move |other| (one, other)));
        pairs
            .find(|(one, other)| effective(one).unwrap().overlaps(&effective(other).unwrap()))
            .map(|(one, other)| (one.as_ref(), other.as_ref()))
    }
}

/// Somebody who wants a pool to have a range, and perhaps to delete it afterwards.
#[derive(Clone, Debug)]
struct Wish {
    name: u8,
    first: u8,
    length: u8,
    deletes: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    (0u8..4, 1u8..8, 0u8..3, any::<bool>()).prop_map(|(name, first, length, deletes)| Wish {
        name,
        first,
        length,
        deletes,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    ReadPledges,
    ListPools,
    Judge,
    Write,
    Delete,
    Done,
}

#[derive(Debug)]
struct Asking {
    id: usize,
    wish: Wish,
    stage: Stage,
    attempt: usize,
    old: Option<Arc<SpiderIPPool>>,
    new: SpiderIPPool,
    pledges: (u64, Option<String>),
    pools: Vec<Arc<SpiderIPPool>>,
}

impl Asking {
    fn new(id: usize, wish: Wish) -> Self {
        Self {
            id,
            wish,
            stage: Stage::Begin,
            attempt: 0,
            old: None,
            new: SpiderIPPool::default(),
            pledges: (0, None),
            pools: Vec::new(),
        }
    }

    fn step(&mut self, cluster: &mut Cluster) {
        self.stage = match self.stage {
            Stage::Begin => self.begin(cluster),
            Stage::ReadPledges => {
                self.pledges = cluster.pledges.clone();
                Stage::ListPools
            }
            Stage::ListPools => {
                self.pools.clone_from(&cluster.pools);
                Stage::Judge
            }
            Stage::Judge => self.judge(cluster),
            Stage::Write => self.write(cluster),
            Stage::Delete => {
                let uid = self.new.metadata.uid.clone().unwrap();
                cluster
                    .pools
                    .retain(|pool| pool.metadata.uid.as_ref() != Some(&uid));
                cluster.gone.insert(uid);
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
    }

    /// The API server reads what is there, and chooses a UID for what is not.
    fn begin(&mut self, cluster: &Cluster) -> Stage {
        let name = format!("p{}", self.wish.name);
        let range = format!(
            "10.0.0.{}-10.0.0.{}",
            self.wish.first,
            self.wish.first + self.wish.length
        );
        self.attempt += 1;
        self.old = cluster.find(&name);
        self.new = match &self.old {
            Some(old) => {
                let mut new = old.as_ref().clone();
                new.spec.ips = vec![range];
                new
            }
            None => serde_json::from_value(json!({
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
                "metadata": { "name": name, "uid": format!("u{}-{}", self.id, self.attempt) },
                "spec": { "ipVersion": 4, "subnet": "10.0.0.0/24", "ips": [range] },
            }))
            .unwrap(),
        };
        Stage::ReadPledges
    }

    fn judge(&mut self, cluster: &mut Cluster) -> Stage {
        let is_gone = |uid: &str| cluster.gone.contains(uid);
        let text = self.pledges.1.as_deref();
        let mut pledges = pledge::pending(text, &self.pools, is_gone, NOW).unwrap();
        let promised: Vec<_> = pledges.iter().map(Pledge::pool).collect();
        let others = self.pools.iter().map(AsRef::as_ref).chain(&promised);
        let settings = Settings::default();
        let findings = match &self.old {
            Some(old) => pool_rules::update(old, &self.new, others, settings),
            None => pool_rules::create(&self.new, others, settings),
        };
        if !findings.is_empty() {
            return Stage::Done;
        }
        let Some(pledge) = Pledge::of(self.old.as_deref(), &self.new, NOW) else {
            return Stage::Write;
        };
        if cluster.pledges.0 != self.pledges.0 {
            return Stage::ReadPledges;
        }
        pledges.push(pledge);
        cluster.pledges = (self.pledges.0 + 1, Some(pledge::encode(&pledges).unwrap()));
        Stage::Write
    }

    /// The API server writes over what it has read, and begins anew when that has changed.
    fn write(&mut self, cluster: &mut Cluster) -> Stage {
        let now = cluster.find(self.new.metadata.name.as_deref().unwrap());
        match (&self.old, now) {
            (None, None) => cluster.put(self.new.clone()),
            (Some(old), Some(now)) if old.metadata.resource_version == now.metadata.resource_version => {
                cluster.put(self.new.clone());
            }
            (None, Some(_)) | (Some(_), None) => return Stage::Done,
            (Some(_), Some(_)) => return Stage::Begin,
        }
        if self.wish.deletes {
            Stage::Delete
        } else {
            Stage::Done
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn pools_never_overlap_whatever_the_order_of_reads_and_writes(
        wishes in prop::collection::vec(wish(), 2..7),
        turns in prop::collection::vec(any::<prop::sample::Index>(), 10..120),
    ) {
        let mut cluster = Cluster::default();
        let mut all: Vec<_> = wishes.into_iter().enumerate().map(|(id, wish)| Asking::new(id, wish)).collect();
        for turn in turns {
            let asking = turn.get(&all).id;
            all[asking].step(&mut cluster);
            prop_assert!(cluster.overlap().is_none(), "{:#?}", cluster.overlap());
        }
    }

    #[test]
    fn who_asks_alone_for_addresses_that_nobody_has_gets_them(
        before in prop::collection::vec(wish(), 0..5),
        wish in wish(),
    ) {
        let mut cluster = Cluster::default();
        for (id, wish) in before.into_iter().enumerate() {
            let mut asking = Asking::new(id, wish);
            while asking.stage != Stage::Done {
                asking.step(&mut cluster);
            }
        }
        let mut asking = Asking::new(99, Wish { name: 9, deletes: false, ..wish });
        asking.begin(&cluster);
        let wanted = effective(&asking.new).unwrap();
        let is_free = cluster.pools.iter().all(|pool| !effective(pool).unwrap().overlaps(&wanted));
        while asking.stage != Stage::Done {
            asking.step(&mut cluster);
        }
        prop_assert_eq!(cluster.find("p9").is_some(), is_free);
    }
}
