//! The threads that actors live on: one actix System and its arbiters, on a tokio runtime that they share
//! with the server and the watches (the "io" runtime).
//!
//! One host serves one agent in the daemon, and any number of agents in a load test.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use actix_rt::{Arbiter, ArbiterHandle, System};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Running actor threads; [`ActorHost::stop`] ends them.
#[derive(Debug)]
pub struct ActorHost {
    arbiters: Vec<ArbiterHandle>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The runtime that everything runs on.
pub fn io_runtime() -> io::Result<Arc<Runtime>> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("io")
        .build()
        .map(Arc::new)
}

impl ActorHost {
    /// Starts a System with `arbiters` threads for actors (at least one). One thread serves close to a
    /// million messages a second, so a node needs no more.
    pub fn start(runtime: Arc<Runtime>, arbiters: usize) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (started, start) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("actors".to_owned())
            .spawn(move || run_system(&runtime, arbiters.max(1), &started, stopped))?;
        let arbiters = start
            .recv()
            .map_err(|_| io::Error::other("the actor system ended while it started"))??;
        Ok(Self {
            arbiters,
            stop,
            thread,
        })
    }

    /// Where actors are started.
    pub fn arbiters(&self) -> &[ArbiterHandle] {
        &self.arbiters
    }

    /// Runs `make` on the first arbiter, inside the System, and gives what it made; `None` when the host
    /// is gone.
    pub async fn inside<T, F>(&self, make: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (made, made_here) = oneshot::channel();
        self.arbiters.first()?.spawn_fn(move || {
            let _ = made.send(make());
        });
        made_here.await.ok()
    }

    /// Ends every actor thread. Actors that still run are dropped: drain them first. Blocks until the
    /// threads have ended.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run_system(
    runtime: &Arc<Runtime>,
    count: usize,
    started: &std::sync::mpsc::Sender<io::Result<Vec<ArbiterHandle>>>,
    stopped: oneshot::Receiver<()>,
) {
    let shared = runtime.clone();
    let system = System::with_tokio_rt(move || shared);
    let arbiters: io::Result<Vec<Arbiter>> = (0..count)
        .map(|_| {
            let shared = runtime.clone();
            Arbiter::try_with_tokio_rt(move || Ok(shared))
        })
        .collect();
    let arbiters = match arbiters {
        Ok(arbiters) => arbiters,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let handles = arbiters.iter().map(Arbiter::handle).collect();
    if started.send(Ok(handles)).is_err() {
        return;
    }
    system.block_on(async {
        // An error means that the host was dropped: stop all the same.
        let _ = stopped.await;
    });
    for arbiter in arbiters {
        arbiter.stop();
        let _ = arbiter.join();
    }
    System::current().stop();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_inside_lives_in_the_system() {
        let runtime = io_runtime().unwrap();
        let host = ActorHost::start(runtime.clone(), 2).unwrap();
        assert_eq!(host.arbiters().len(), 2);
        let inside = runtime.block_on(host.inside(System::is_registered));
        assert_eq!(inside, Some(true));
        host.stop();
    }
}
