//! The clock: the only reader of the real time. Everybody else knows what the last tick said.

use crate::coordinator::CoordinatorActor;
use crate::deliver;
use crate::message::Tick;
use crate::shard::ShardActor;
use crate::sink::SinkActor;
use crate::source::SourceActor;
use actix::{Actor, Addr, AsyncContext, Context};
use nilometer_model::tick;
use nilometer_model::time::{ProcessingTime, Span};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Sends the time to everybody, at once and then at a fixed pace.
pub(crate) struct ClockActor {
    pub(crate) coordinator: Addr<CoordinatorActor>,
    pub(crate) sources: Vec<Addr<SourceActor>>,
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) sinks: Vec<Addr<SinkActor>>,
    /// What the last tick said, and when. `None` before the first.
    pub(crate) last: Option<(tick::Tick, Instant)>,
}

/// How often the clock ticks: the resolution of idleness, of triggers that wait for the clock, and
/// of flushing.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);

/// What `work` gives, and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (work(), begun.elapsed())
}

/// The time of the clock on the wall, for those outside who compare it with their own.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Since when something has been under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time on the wall; at the ends of the type where it is before 1970 or beyond it.
pub(crate) fn now() -> ProcessingTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ProcessingTime::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

impl ClockActor {
    /// What to tell now.
    fn go_on(&mut self) -> tick::Tick {
        let (wall, instant) = (now(), Instant::now());
        let now = self.last.map_or(wall, |(last, since)| {
            let elapsed = instant.saturating_duration_since(since).as_millis();
            let elapsed = Span::from_millis(i64::try_from(elapsed).unwrap_or(i64::MAX));
            last.now().next_tick(elapsed, wall)
        });
        let tick = tick::Tick::after(self.last.map(|(last, _)| last), now);
        self.last = Some((tick, instant));
        tick
    }

    fn tick(&mut self) {
        let tick = Tick(self.go_on());
        deliver::tick(std::slice::from_ref(&self.coordinator), tick);
        // Shards before sources, which wait for the first tick: no record is handled before its
        // shard knows the time.
        deliver::tick(&self.shards, tick);
        deliver::tick(&self.sources, tick);
        deliver::tick(&self.sinks, tick);
    }
}

impl Actor for ClockActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.tick();
        ctx.run_interval(PERIOD, |clock, _| clock.tick());
    }
}
