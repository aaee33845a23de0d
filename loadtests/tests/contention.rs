//! Many pods on one pool at once, undisturbed and with agents that are killed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::kubelet::{Answer, Kubelet, Sandbox};
use orbweaver_loadtests::node::Agent;
use orbweaver_loadtests::simulation::Simulation;
use tokio::sync::Mutex;

const POOL: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: shared
  annotations: {ipam.spidernet.io/iaas-provider: simulated, ipam.spidernet.io/parent-nic: eth1}
spec:
  subnet: 10.40.0.0/16
  ips: ['10.40.0.10-10.40.3.250']
  gateway: 10.40.0.1
";

const NODES: usize = 8;
const PODS: usize = 400;
const AT_ONCE: usize = 8;

struct Crowd {
    simulation: Simulation,
    agents: Vec<Agent>,
    kubelets: Vec<Kubelet>,
    sandboxes: Vec<Vec<Sandbox>>,
}

impl Crowd {
    async fn gather() -> Self {
        let cloud = CloudOptions {
            time_scale: 0.0005,
            rate: 1000.0,
            burst: 10_000,
            sub_enis_per_nic: 4094,
            ..CloudOptions::default()
        };
        let mut simulation = Simulation::start(cloud).await.unwrap();
        let pool = simulation.apply_pool(POOL).await.unwrap();
        simulation
            .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
            .await
            .unwrap();
        let (mut agents, mut kubelets, mut sandboxes) = (Vec::new(), Vec::new(), Vec::new());
        for node in 0..NODES {
            let agent = simulation.add_node(&format!("n{node}"), "").await.unwrap();
            kubelets.push(simulation.kubelet(&agent).unwrap());
            let mut of_node = Vec::new();
            for pod in 0..PODS / NODES {
                of_node.push(
                    simulation
                        .create_pod(&format!("p{node}-{pod}"), agent.node(), &[&pool])
                        .await
                        .unwrap(),
                );
            }
            agents.push(agent);
            sandboxes.push(of_node);
        }
        Self {
            simulation,
            agents,
            kubelets,
            sandboxes,
        }
    }

    async fn requests(&self) -> f64 {
        let mut requests = 0.0;
        for agent in &self.agents {
            let metrics = agent.metrics().await.unwrap();
            let name = "orbweaver_api_requests_total";
            requests += metrics.sum(name, &[]) - metrics.sum(name, &["verb=\"watch\""]);
        }
        requests
    }

    async fn check_everybody_has_one_address(&self) {
        let picture = self.simulation.picture().await.unwrap();
        assert_eq!(picture.audit().unwrap(), Vec::<String>::new());
        let claims = picture.claims().unwrap();
        let holders: BTreeSet<&String> = claims.values().collect();
        assert_eq!((claims.len(), holders.len()), (PODS, PODS));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hundred_adds_from_eight_agents_on_one_pool_fail_nowhere() {
    let crowd = Crowd::gather().await;
    let before = crowd.requests().await;
    let all = crowd
        .kubelets
        .iter()
        .zip(&crowd.sandboxes)
        .map(|(kubelet, sandboxes)| async move {
            let adds = sandboxes.iter().map(|sandbox| kubelet.add(sandbox, "eth0"));
            stream::iter(adds)
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>()
                .await
        });
    let answers: Vec<_> = futures::future::join_all(all)
        .await
        .into_iter()
        .flatten()
        .map(Result::unwrap)
        .collect();
    let failed: Vec<String> = answers
        .iter()
        .filter(|answer| !answer.success)
        .map(Answer::text)
        .collect();
    assert_eq!(failed.first(), None, "of {} failed", failed.len());
    let addresses: BTreeSet<String> = answers.iter().filter_map(Answer::address).collect();
    assert_eq!(addresses.len(), PODS, "no address twice");
    let per_add = (crowd.requests().await - before) / 400.0;
    println!("API requests per ADD: {per_add:.2}");
    assert!(per_add <= 3.0, "API requests per ADD: {per_add:.2}");
    crowd.check_everybody_has_one_address().await;
    crowd.simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_killed_at_random_leave_one_claim_per_pod() {
    let mut crowd = Crowd::gather().await;
    let agents: Vec<Arc<Mutex<Agent>>> = crowd
        .agents
        .drain(..)
        .map(|agent| Arc::new(Mutex::new(agent)))
        .collect();
    let all = crowd.kubelets.iter().zip(&crowd.sandboxes).zip(&agents).map(
        |((kubelet, sandboxes), agent)| async move {
            let adds = sandboxes
                .iter()
                .enumerate()
                .map(|(index, sandbox)| retried(kubelet, sandbox, index, agent));
            stream::iter(adds)
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<()>>()
                .await;
        },
    );
    futures::future::join_all(all).await;
    crowd.check_everybody_has_one_address().await;
    crowd.simulation.finish().await.unwrap();
}

/// As kubelet: a failed ADD is followed by a DEL of its sandbox and an ADD of a new one. Every tenth ADD of a
/// node is the moment at which its agent is killed.
async fn retried(kubelet: &Kubelet, sandbox: &Sandbox, index: usize, agent: &Arc<Mutex<Agent>>) {
    let mut sandbox = sandbox.clone();
    let killer = (index % 10 == 5).then(|| {
        let agent = agent.clone();
        tokio::spawn(async move {
            let mut agent = agent.lock().await;
            agent.kill().await.unwrap();
            agent.restart().await.unwrap();
        })
    });
    for _ in 0..50 {
        if kubelet.add(&sandbox, "eth0").await.unwrap().success {
            if let Some(killer) = killer {
                killer.await.unwrap();
            }
            return;
        }
        // Between tries kubelet waits; here the restart is waited for.
        drop(agent.lock().await);
        let _ = kubelet.del(&sandbox, "eth0").await.unwrap();
        sandbox = Sandbox::of(&sandbox.namespace, &sandbox.name, &sandbox.uid);
    }
    panic!("{} never got an address", sandbox.name);
}
