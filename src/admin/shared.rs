//! What the requests of an admin port share.

use super::guard::Token;
use super::problem::Problem;
use crate::config::Pipeline;
use crate::metrics::{Account, Watched};
use crate::plan::PlanDocument;
use nilometer_connectors::plight::Plights;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What the requests share.
pub(super) struct Shared {
    pub(super) token: Option<Token>,
    /// Whether others than this machine can reach the port.
    pub(super) is_exposed: bool,
    /// What holds the run up.
    pub(super) plights: Plights,
    pub(super) plan: PlanDocument,
    /// Set once, when the run has begun.
    run: OnceLock<Watched>,
    is_draining: AtomicBool,
    has_failed: AtomicBool,
    drain: Notify,
    /// When the next may ask what shards hold. Locked from the question to the answer.
    next_look: Arc<tokio::sync::Mutex<Option<tokio::time::Instant>>>,
    /// The account that was made last, and when.
    account: Mutex<Option<(Instant, Arc<Account>)>>,
}

/// Actors show new figures about as often: a page that is asked for more often shows the same.
const FRESH: Duration = Duration::from_millis(100);

/// Finding a key may take a walk over many keys of a stage.
const LOOK_SHARE: u32 = 20;

/// The node takes the time five times a second; one that has not for so long does nothing else
/// either.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not begun.
    Starting,
    /// It runs.
    Running,
    /// It reads no more, and ends.
    Draining,
    /// It has failed, and ends.
    Failed,
}

impl Phase {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Failed => "failed",
        }
    }
}

impl Shared {
    pub(super) fn new(
        pipeline: &Pipeline,
        token: Option<Token>,
        is_exposed: bool,
        plights: Plights,
    ) -> Self {
        Self {
            token,
            is_exposed,
            plights,
            plan: PlanDocument::new(pipeline),
            run: OnceLock::new(),
            is_draining: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            drain: Notify::new(),
            next_look: Arc::default(),
            account: Mutex::default(),
        }
    }

    pub(super) fn watch(&self, watched: Watched) {
        // There is one run.
        self.run.set(watched).ok();
    }

    pub(super) fn drains(&self) {
        self.is_draining.store(true, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.has_failed.store(true, Relaxed);
    }

    /// The run is to end.
    pub(super) fn ask_drain(&self) {
        self.drain.notify_one();
    }

    pub(super) async fn drain_asked(&self) {
        self.drain.notified().await;
    }

    pub(super) fn phase(&self) -> Phase {
        match (self.run.get(), self.has_failed.load(Relaxed), self.is_draining.load(Relaxed)) {
            (None, _, _) => Phase::Starting,
            (Some(_), true, _) => Phase::Failed,
            (Some(_), false, true) => Phase::Draining,
            (Some(_), false, false) => Phase::Running,
        }
    }

    /// What the run is doing; `stuck` if the node has stopped taking the time.
    pub(super) fn status(&self) -> &'static str {
        let phase = self.phase();
        let silent = self.run.get().and_then(|run| run.node.meters().since_tick());
        let is_stuck = silent.is_some_and(|silent| silent > STUCK_AFTER);
        if is_stuck && phase == Phase::Running { "stuck" } else { phase.name() }
    }

    /// The run.
    ///
    /// # Errors
    /// It has not begun.
    pub(super) fn run(&self) -> Result<&Watched, Problem> {
        self.run.get().ok_or(Problem::starting())
    }

    /// What `look` gives, which takes the time of shards: one at a time, and never more than one
    /// part in [`LOOK_SHARE`] of it. One that has begun goes on to its end though whoever asked has
    /// gone, so that a shard never has more than one question to answer.
    ///
    /// # Errors
    /// It has panicked.
    pub(super) async fn in_turn<T: Send + 'static>(
        &self,
        look: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut next = self.next_look.clone().lock_owned().await;
        if let Some(next) = *next {
            tokio::time::sleep_until(next).await;
        }
        let look = tokio::spawn(async move {
            let begun = tokio::time::Instant::now();
            let given = look.await;
            *next =
                begun.elapsed().checked_mul(LOOK_SHARE).and_then(|rest| begun.checked_add(rest));
            given
        });
        look.await
            .map_err(|_| Problem::internal("the look has failed; this is a fault of nilometer"))
    }

    /// What the run has counted, just now.
    ///
    /// # Errors
    /// It has not begun.
    pub(super) fn account(&self) -> Result<Arc<Account>, Problem> {
        let run = self.run()?;
        let mut known = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((made, account)) if made.elapsed() < FRESH => Ok(account.clone()),
            Some(_) | None => {
                let account = Arc::new(Account::of(run));
                *known = Some((Instant::now(), account.clone()));
                Ok(account)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;
    use tokio::sync::oneshot;

    #[test]
    fn a_look_that_nobody_waits_for_any_more_keeps_the_next_one_waiting() {
        let text = include_str!("../../config/flows.toml");
        let pipeline = load_text(("flows.toml", text), &[], &|_| None).unwrap();
        let shared = Shared::new(&pipeline, None, false, Plights::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let asked = Arc::new(AtomicUsize::new(0));
            let (answer, answered) = oneshot::channel::<()>();
            let mut answered = Some(answered);
            for _ in 0..1_000 {
                let (count, answered) = (asked.clone(), answered.take());
                let mut look = pin!(shared.in_turn(async move {
                    count.fetch_add(1, Relaxed);
                    if let Some(answered) = answered {
                        answered.await.ok();
                    }
                }));
                // Whoever asks goes away before there is an answer.
                let is_open =
                    poll_fn(|context| Poll::Ready(look.as_mut().poll(context).is_pending()));
                assert!(is_open.await);
                tokio::task::yield_now().await;
            }
            assert_eq!(asked.load(Relaxed), 1);
            // That is the answer.
            drop(answer);
            let count = asked.clone();
            shared.in_turn(async move { count.fetch_add(1, Relaxed) }).await.ok().unwrap();
            assert_eq!(asked.load(Relaxed), 2);
        });
    }
}
