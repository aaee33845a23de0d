//! Judges creations and growths of pools so that no two that overlap pass, whichever replica is asked (see
//! [`super::pledge`]). One task a replica: what arrives while it reads and writes joins the next round.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::Settings;
use super::cache::PoolCache;
use super::finding::Finding;
use super::pledge::{self, Full, Pledge, Unreadable};
use super::review::{Request, judge_pool, pool_change};

/// The object that holds the pledges of all replicas.
pub const PLEDGES: &str = "orbweaver-admission-pledges";
/// Its one key.
const KEY: &str = "pledges";
/// Questions that wait at most; an API server asks again when it is told to.
const QUEUE: usize = 512;
/// Questions of one round.
const ROUND: usize = 64;
/// What a round may take: less than API servers wait.
const ROUND_WITHIN: Duration = Duration::from_secs(5);
/// Rounds lost to other replicas before a question is given up.
const ATTEMPTS: u32 = 20;
/// For how long a question waits for the fate of a pledge that stands against it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks without being told of a change.
const LOOK: Duration = Duration::from_millis(250);
/// How the API server names our writes.
const FIELD_MANAGER: &str = "orbweaver-controller";

/// No verdict; the API server is to ask again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistrarError {
    /// Too many questions at once.
    #[error("too many pools are being judged at once; try again")]
    Busy,
    /// No room for another pledge.
    #[error(transparent)]
    Full(#[from] Full),
    /// They are not what this release reads.
    #[error(
        "the config map {PLEDGES} cannot be read; delete it when no pool has been created for some minutes"
    )]
    Unreadable(#[from] Unreadable),
    /// The cluster did not answer, or refused.
    #[error("the pools or the config map {PLEDGES} cannot be read or written: {0}")]
    Cluster(String),
}

struct Verdict {
    findings: Vec<Finding>,
    /// Without the pledges nothing would be wrong: their fate decides.
    is_open: bool,
}

struct Question {
    request: Arc<Request>,
    reply: oneshot::Sender<Result<Verdict, RegistrarError>>,
}

/// The way to the task.
#[derive(Clone, Debug)]
pub struct Registrar {
    questions: mpsc::Sender<Question>,
    pools: PoolCache,
}

/// The task's state.
pub struct Desk {
    questions: mpsc::Receiver<Question>,
    pools: Api<DeserializeGuard<SpiderIPPool>>,
    pledges: Api<ConfigMap>,
    cache: PoolCache,
    settings: Settings,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

/// A registrar, and the desk that must [`run`](Desk::run). Pledges are kept in `namespace`.
pub fn open(client: Client, namespace: &str, cache: PoolCache, settings: Settings) -> (Registrar, Desk) {
    let (sender, questions) = mpsc::channel(QUEUE);
    let registrar = Registrar {
        questions: sender,
        pools: cache.clone(),
    };
    let desk = Desk {
        questions,
        pools: Api::all(client.clone()),
        pledges: Api::namespaced(client, namespace),
        cache,
        settings,
    };
    (registrar, desk)
}

impl Registrar {
    /// What is wrong with a pool that is created or changed; when nothing is, its addresses are pledged, unless it is
    /// a dry run.
    pub async fn judge(&self, request: Request) -> Result<Vec<Finding>, RegistrarError> {
        let request = Arc::new(request);
        let give_up = Instant::now() + PATIENCE;
        let mut changes = self.pools.changes();
        loop {
            let (reply, verdict) = oneshot::channel();
            let question = Question {
                request: request.clone(),
                reply,
            };
            self.questions
                .try_send(question)
                .map_err(|_| RegistrarError::Busy)?;
            let mut verdict = verdict.await.map_err(|_| RegistrarError::Busy)??;
            if !verdict.is_open {
                return Ok(verdict.findings);
            }
            if Instant::now() >= give_up {
                let most = pledge::EXPIRY.as_secs();
                for finding in &mut verdict.findings {
                    // Whoever looks for that pool may not find it.
                    let hint =
                        format!("; that pool is being created or changed: try again, in {most} s at most");
                    finding.detail.push_str(&hint);
                }
                return Ok(verdict.findings);
            }
            // Its pool is there soon, or it is not. Nobody tells of the latter.
            let _ = timeout(LOOK, changes.changed()).await;
        }
    }
}

impl Desk {
    /// Works until dropped.
    pub async fn run(mut self) {
        while let Some(first) = self.questions.recv().await {
            let mut round = vec![first];
            while round.len() < ROUND
                && let Ok(next) = self.questions.try_recv()
            {
                round.push(next);
            }
            let requests: Vec<_> = round.iter().map(|question| question.request.clone()).collect();
            let verdicts = match timeout(ROUND_WITHIN, self.judge_all(&requests)).await {
                Ok(verdicts) => verdicts,
                Err(_) => Err(RegistrarError::Cluster("no answer in time".to_owned())),
            };
            match verdicts {
                Ok(verdicts) => {
                    for (question, verdict) in round.into_iter().zip(verdicts) {
                        // Whoever asked may have gone away; a pledge without a pool expires.
                        let _ = question.reply.send(Ok(verdict));
                    }
                }
                Err(error) => {
                    for question in round {
                        let _ = question.reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    async fn judge_all(&self, requests: &[Arc<Request>]) -> Result<Vec<Verdict>, RegistrarError> {
        for _ in 0..ATTEMPTS {
            // Before the list: what was there by then is in it, unless it is deleted.
            let known = self.cache.known();
            let was_there = |uid: &str| known.contains(uid);
            // This order: a pledge that was dropped before the first read has its pool in the second.
            let object = self
                .pledges
                .get_opt(PLEDGES)
                .await
                .map_err(|error| told(&error))?;
            let pools = self.list().await?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let text = object.as_ref().and_then(|object| object.data.as_ref()?.get(KEY));
            let mut pledges = pledge::pending(text.map(String::as_str), &pools, was_there, now)?;
            let before = pledges.len();
            let verdicts = requests
                .iter()
                .map(|request| self.verdict(request, &pools, &mut pledges, now))
                .collect();
            // Nothing promised, nothing to write. Pledges that are settled go with the next one.
            if pledges.len() == before || self.keep(object, &pledges).await? {
                return Ok(verdicts);
            }
        }
        Err(RegistrarError::Cluster(
            "other replicas write it all the time".to_owned(),
        ))
    }

    fn verdict(
        &self,
        request: &Request,
        pools: &[Arc<SpiderIPPool>],
        pledges: &mut Vec<Pledge>,
        now: Duration,
    ) -> Verdict {
        let mut all = pools.to_vec();
        all.extend(pledges.iter().map(|one| Arc::new(one.pool())));
        let findings = judge_pool(request, &all, self.settings);
        let is_open = !findings.is_empty() && judge_pool(request, pools, self.settings).is_empty();
        if findings.is_empty() && !request.dry_run {
            let (old, new) = pool_change(request);
            pledges.extend(new.and_then(|new| Pledge::of(old.as_ref(), &new, now)));
        }
        Verdict { findings, is_open }
    }

    /// Every pool as it is now, not as a cache has it. One that cannot be read hands nothing out.
    async fn list(&self) -> Result<Vec<Arc<SpiderIPPool>>, RegistrarError> {
        let list = self
            .pools
            .list(&ListParams::default())
            .await
            .map_err(|error| told(&error))?;
        let readable = list.items.into_iter().filter_map(|guard| guard.0.ok());
        Ok(readable.map(Arc::new).collect())
    }

    /// Writes the pledges over what was read; false when somebody else wrote first.
    async fn keep(&self, object: Option<ConfigMap>, pledges: &[Pledge]) -> Result<bool, RegistrarError> {
        let data = [(KEY.to_owned(), pledge::encode(pledges)?)].into();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = if let Some(mut object) = object {
            object.data = Some(data);
            self.pledges.replace(&object.name_any(), &params, &object).await
        } else {
            let mut object = ConfigMap {
                data: Some(data),
                ..ConfigMap::default()
            };
            object.metadata.name = Some(PLEDGES.to_owned());
            self.pledges.create(&params, &object).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(told(&error)),
        }
    }
}

fn told(error: &kube::Error) -> RegistrarError {
    RegistrarError::Cluster(crate::chain(error))
}
