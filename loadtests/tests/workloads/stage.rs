//! One cluster with four agents, shared by the tests that run at the same time: the first starts it, the last
//! takes it away. Each test has namespaces and pools of its own, see [`Scene`].

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, LazyLock};

use futures::FutureExt;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::kubelet::Kubelet;
use orbweaver_loadtests::node::Agent;
use orbweaver_loadtests::simulation::Simulation;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::scene::Scene;

/// Outlives every test, as the agents' connections must.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

static CURRENT: Mutex<Option<Arc<Stage>>> = Mutex::const_new(None);

/// A node of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Dual stack, in zone `a`.
    A,
    /// Dual stack, in zone `b`.
    B,
}

impl Node {
    pub(crate) const ALL: [Self; 4] = [Self::V4, Self::V6, Self::A, Self::B];

    /// Families that are switched on: IPv4, IPv6.
    pub(crate) fn families(self) -> (bool, bool) {
        (self != Self::V6, self != Self::V4)
    }

    fn short(self) -> &'static str {
        match self {
            Self::V4 => "four",
            Self::V6 => "six",
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// The cluster with its agents.
pub(crate) struct Stage {
    pub(crate) simulation: Simulation,
    agents: Vec<(Agent, Kubelet)>,
}

impl Stage {
    async fn start() -> Self {
        let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
        let mut agents = Vec::new();
        for node in Node::ALL {
            let (four, six) = node.families();
            let conf = format!("enableIPv4: {four}\nenableIPv6: {six}\n");
            let zone = [("zone", node.short())];
            let agent = simulation
                .add_node_labelled(node.short(), &zone, &conf)
                .await
                .unwrap();
            simulation
                .create_pod(node.short(), agent.node(), &[])
                .await
                .unwrap();
            let kubelet = simulation.kubelet(&agent).unwrap();
            agents.push((agent, kubelet));
        }
        Self { simulation, agents }
    }

    async fn enter() -> Arc<Self> {
        let mut current = CURRENT.lock().await;
        if let Some(stage) = current.as_ref() {
            return stage.clone();
        }
        let stage = Arc::new(Self::start().await);
        *current = Some(stage.clone());
        stage
    }

    async fn leave(stage: Arc<Self>) {
        let mut current = CURRENT.lock().await;
        drop(stage);
        let last = current.take().map(Arc::try_unwrap);
        match last {
            Some(Ok(stage)) => stage.finish().await,
            Some(Err(stage)) => *current = Some(stage),
            None => {}
        }
    }

    async fn finish(self) {
        for (mut agent, _) in self.agents {
            agent.kill().await.unwrap();
        }
        self.simulation.finish().await.unwrap();
    }

    pub(crate) fn agent(&self, node: Node) -> &Agent {
        &self.agents[node as usize].0
    }

    pub(crate) fn kubelet(&self, node: Node) -> &Kubelet {
        &self.agents[node as usize].1
    }

    /// `namespace/name` of a pod of the node that asks for nothing.
    pub(crate) fn probe(&self, node: Node) -> String {
        format!("{}/{}", self.simulation.namespace, node.short())
    }
}

/// Plays a law on the stage. At its end the auditor finds nothing wrong with what is left.
pub(crate) fn law(play: impl AsyncFnOnce(&mut Scene)) {
    RUNTIME.block_on(async {
        let stage = Stage::enter().await;
        let mut scene = Scene::open(stage.clone()).await;
        let whole = async {
            play(&mut scene).await;
            scene.audit().await;
        };
        let outcome = AssertUnwindSafe(Box::pin(whole)).catch_unwind().await;
        scene.close().await;
        Stage::leave(stage).await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}
