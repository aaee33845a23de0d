//! The main job, shown: real agents, the real plugin, the simulated cluster and cloud.

mod report;
mod step;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::faults::{CallKind, Fault};
use serde_json::json;

use self::step::{Asked, Step};
use crate::kubelet::{Kubelet, Sandbox};
use crate::node::Agent;
use crate::process::Program;
use crate::simulation::{PATIENCE, Simulation};
use crate::wait::until;

const PLAIN: &str = include_str!("../../examples/plain.yaml");
const NODE_LEVEL: &str = include_str!("../../examples/node-level.yaml");
const GLOBAL: &str = include_str!("../../examples/global.yaml");
const SPARE: &str = include_str!("../../examples/spare.yaml");

/// What the demo is told.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DemoOptions {
    /// Write the facts of every step into this file, as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Leave everything running until Ctrl-C, and say where the kubeconfig is
    #[arg(long)]
    pub keep: bool,
}

/// Two nodes with the usual time budget, one with a provider timeout that no provider can keep.
struct Stage {
    simulation: Simulation,
    agents: Vec<Agent>,
    kubelets: Vec<Kubelet>,
    controller: Program,
}

/// Runs the demo; `Err` also when one of its claims is false.
pub async fn run(options: &DemoOptions) -> Result<()> {
    println!("Orbweaver demo: a cluster, a cloud, three nodes. Starting them ...\n");
    let mut stage = Stage::set().await?;
    let steps = stage.play().await?;
    println!("{}", report::table(&steps));
    if let Some(path) = &options.json {
        write_json(path, &steps)?;
    }
    let mut findings = stage.simulation.picture().await?.audit()?;
    findings.extend(
        stage
            .controller_has_counted()
            .await
            .err()
            .map(|error| format!("the controller: {error:#}")),
    );
    let broken: Vec<String> = steps.iter().flat_map(Step::broken).chain(findings).collect();
    if options.keep {
        stage.keep().await?;
    }
    stage.simulation.finish().await?;
    ensure!(
        broken.is_empty(),
        "the demo's claims do not hold:\n  {}",
        broken.join("\n  ")
    );
    println!("Every claim above was checked and holds; no address has two holders and none was left behind.");
    Ok(())
}

fn write_json(path: &Path, steps: &[Step]) -> Result<()> {
    let facts = json!({ "steps": steps });
    std::fs::write(path, serde_json::to_vec_pretty(&facts)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

impl Stage {
    async fn set() -> Result<Self> {
        // A cloud twenty times as fast as the real one; what it demands of budgets is the real 48 s.
        let cloud = CloudOptions {
            time_scale: 0.05,
            ..CloudOptions::default()
        };
        let mut simulation = Simulation::start(cloud).await?;
        let controller = simulation.start_controller().await?;
        let mut agents = Vec::new();
        let mut kubelets = Vec::new();
        let hasty = format!(
            "iaasNetworkProvider:\n  serverUrl: {}\n  httpRequestTimeout: 20s\n",
            simulation.cloud.url()
        );
        for (node, conf) in [("n1", ""), ("n2", ""), ("n3", hasty.as_str())] {
            let agent = simulation.add_node(node, conf).await?;
            kubelets.push(simulation.kubelet(&agent)?);
            agents.push(agent);
        }
        Ok(Self {
            simulation,
            agents,
            kubelets,
            controller,
        })
    }

    async fn play(&mut self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        steps.push(self.plain().await?);
        steps.push(self.prewarmed().await?);
        self.global(&mut steps).await?;
        self.failures(&mut steps).await?;
        Ok(steps)
    }

    async fn plain(&mut self) -> Result<Step> {
        let pool = self.simulation.apply_pool(PLAIN).await?;
        let mut step = self.add("a plain pod", 0, "plain", &pool).await?;
        step.claim("it gets the pool's lowest address", step.is("10.6.0.10"));
        step.claim("no provider was called", step.provider_calls == 0);
        Ok(step)
    }

    async fn prewarmed(&mut self) -> Result<Step> {
        let pool = self.simulation.apply_pool(NODE_LEVEL).await?;
        self.simulation
            .await_ledger(&pool, "a sub-ENI is ready", |text| text.contains("10.7.0.10\""))
            .await?;
        let mut step = self
            .add("a pod in a prewarmed node-level pool", 0, "prewarmed", &pool)
            .await?;
        step.claim(
            "it gets a sub-ENI with MAC and VLAN",
            step.is("10.7.0.10") && step.mac.is_some() && step.vlan.is_some(),
        );
        step.claim("no provider was called", step.provider_calls == 0);
        Ok(step)
    }

    async fn global(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        let pool = self.simulation.apply_pool(GLOBAL).await?;
        self.simulation
            .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
            .await?;
        let mut cold = self
            .add("global pool: no sub-ENI yet (cold path)", 0, "cold", &pool)
            .await?;
        cold.claim("the provider was called once", cold.provider_calls == 1);
        cold.claim(
            "the sub-ENI's MAC and VLAN are known",
            cold.mac.is_some() && cold.vlan.is_some(),
        );
        let (address, mac) = (cold.address.clone(), cold.mac.clone());
        self.end(0, &cold).await?;
        self.bound(&pool, 0).await?;
        let mut hit = self
            .add("the next pod on the same node (hit)", 0, "hit", &pool)
            .await?;
        hit.claim(
            "it gets the same address and MAC",
            hit.address == address && hit.mac == mac,
        );
        hit.claim("no provider was called", hit.provider_calls == 0);
        self.end(0, &hit).await?;
        let mut steal = self
            .add(
                "a pod on another node, nothing else left (steal)",
                1,
                "steal",
                &pool,
            )
            .await?;
        steal.claim(
            "it gets the idle address of the first node",
            steal.address == address,
        );
        steal.claim("the provider was called once", steal.provider_calls == 1);
        steps.extend([cold, hit, steal]);
        Ok(())
    }

    async fn bound(&self, pool: &str, node: usize) -> Result<()> {
        let wanted = format!("\"node\":\"{}\"", self.agents[node].node());
        let is_bound = move |text: &str| text.replace(' ', "").contains(&wanted);
        self.simulation
            .await_ledger(pool, "the sub-ENI is bound to the first node", is_bound)
            .await
    }

    async fn failures(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        let pool = self.simulation.apply_pool(SPARE).await?;
        self.simulation
            .await_ledger(&pool, "it is initialised", |text| !text.is_empty())
            .await?;
        self.simulation
            .cloud
            .faults()
            .add(CallKind::Allocate, 1, Fault::Refuse(500));
        let sandbox = self
            .simulation
            .create_pod("unlucky", self.agents[0].node(), &[&pool])
            .await?;
        let mut failed = self.ask("the provider fails", 0, &sandbox, &pool).await?;
        failed.claim("the ADD fails", !failed.success);
        failed.claim(
            "the claim was rolled back",
            self.claims_of(&pool, &sandbox).await? == 0,
        );
        let retry = Sandbox::of(&sandbox.namespace, &sandbox.name, &sandbox.uid);
        let mut again = self.ask("kubelet tries again", 0, &retry, &pool).await?;
        again.claim(
            "the retry succeeds with one claim",
            again.success && self.claims_of(&pool, &sandbox).await? == 1,
        );
        let tokens = self.simulation.cloud.counters().tokens;
        let sandbox = self
            .simulation
            .create_pod("hasty", self.agents[2].node(), &[&pool])
            .await?;
        let mut small = self
            .ask("a budget of 20 s, too small for the provider", 2, &sandbox, &pool)
            .await?;
        small.claim(
            "the provider rejects it",
            !small.success && small.text.contains("503"),
        );
        small.claim(
            "no token was spent",
            self.simulation.cloud.counters().tokens == tokens,
        );
        small.claim(
            "the claim was rolled back",
            self.claims_of(&pool, &sandbox).await? == 0,
        );
        steps.extend([failed, again, small]);
        Ok(())
    }

    async fn claims_of(&self, pool: &str, sandbox: &Sandbox) -> Result<usize> {
        let status = self.simulation.pool(pool).await?.status.unwrap_or_default();
        let claims = orbweaver_api::claims::decode(status.allocated_ips.as_deref())?;
        Ok(claims
            .values()
            .filter(|claim| claim.pod_uid == sandbox.uid)
            .count())
    }

    async fn add(&mut self, title: &str, node: usize, pod: &str, pool: &str) -> Result<Step> {
        let sandbox = self
            .simulation
            .create_pod(pod, self.agents[node].node(), &[pool])
            .await?;
        let mut step = self.ask(title, node, &sandbox, pool).await?;
        step.claim("the ADD succeeds", step.success);
        Ok(step)
    }

    async fn ask(&mut self, title: &str, node: usize, sandbox: &Sandbox, pool: &str) -> Result<Step> {
        let before = self.agents[node].metrics().await?;
        let calls = self.simulation.cloud.calls().recorded().len();
        let answer = self.kubelets[node].add(sandbox, "eth0").await?;
        let after = self.agents[node].metrics().await?;
        let asked = Asked {
            title,
            node: self.agents[node].node(),
            pool,
            sandbox,
        };
        let provider_calls = self.simulation.cloud.calls().recorded().len() - calls;
        let step = Step::new(&asked, &answer, &before, &after, provider_calls);
        let step = step.with_endpoint(&self.simulation, sandbox).await?;
        println!("{}", report::narrate(&step));
        Ok(step)
    }

    async fn end(&self, node: usize, step: &Step) -> Result<()> {
        println!("   ... and the pod is deleted; its sub-ENI stays where it is.\n");
        self.simulation.end_pod(&self.kubelets[node], &step.sandbox).await
    }

    /// The controller writes `totalIPCount` of every pool; 90 addresses are in the plain one.
    async fn controller_has_counted(&self) -> Result<()> {
        let name = self.simulation.name("plain");
        let counted = until("totalIPCount of the plain pool is 90", PATIENCE, || async {
            let pool = self
                .simulation
                .pool(&name)
                .await
                .map_err(|error| error.to_string())?;
            let total = pool.status.and_then(|status| status.total_ip_count);
            if total == Some(90) {
                Ok(())
            } else {
                Err(format!("{total:?}"))
            }
        });
        counted.await?;
        println!("The controller has counted every pool's addresses.");
        Ok(())
    }

    async fn keep(&mut self) -> Result<()> {
        let folder = self.simulation.keep_folder();
        println!("Everything is left running. Look round with:\n");
        println!("  export KUBECONFIG={}", self.simulation.kubeconfig().display());
        println!("  kubectl get spiderippools; kubectl get spiderendpoints -A; kubectl get pods -A -o wide");
        for agent in &self.agents {
            println!(
                "  curl http://{}/metrics      # agent of {}",
                agent.program().admin(),
                agent.node()
            );
        }
        println!(
            "  curl http://{}/metrics      # controller",
            self.controller.admin()
        );
        println!("\nLogs are in {}. Ctrl-C ends it.", folder.display());
        tokio::signal::ctrl_c().await?;
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }
}
