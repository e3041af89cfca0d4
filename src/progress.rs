//! The progress bar of a run, on stderr: how far bounded inputs have been read, how fast, and how
//! long the rest will take. Only on a terminal; elsewhere nothing is drawn.

use crate::failure::tell;
use crate::logs::{self, Level};
use crate::summary_state::StateSummary;
use crate::summary_table::{counted, grouped};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nilometer_actors::meter::Meters;
use nilometer_connectors::plight::Plights;
use nilometer_connectors::sink::{Held, Receipt, Sink, SinkError};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often the bar is redrawn.
pub const PERIOD: Duration = Duration::from_millis(200);

/// The bar of a run, and what else people are told of it while it goes on.
#[derive(Debug, Clone)]
pub struct Bar {
    bar: ProgressBar,
    begun: Instant,
    plights: Plights,
}

impl Bar {
    /// A bar, hidden unless stderr is a terminal and `is_bounded`, that is, there is an end to
    /// measure by.
    pub fn new(is_bounded: bool) -> Self {
        let is_shown = is_bounded && io::stderr().is_terminal() && !logs::is_json();
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template = "{bar:30.cyan/blue} {percent:>3}%  {msg}  {eta} left";
        // The template is fixed and right; were it not, the default style would do.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, begun: Instant::now(), plights: Plights::default() }
    }

    /// Shows what the meters say.
    pub fn update(&self, meters: &Meters) {
        let (mut records, mut done, mut total) = (0_u64, 0_u64, 0_u64);
        for source in meters.sources() {
            let progress = source.progress();
            records = records.saturating_add(source.records());
            // Sources measure in units of their own: each counts the same.
            let share = u128::from(progress.done) * u128::from(SHARE);
            let share = share.checked_div(u128::from(progress.total)).unwrap_or(0);
            done = done.saturating_add(share.min(u128::from(SHARE)) as u64);
            total = total.saturating_add(SHARE);
        }
        let rate = records as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        self.bar.set_length(total);
        self.bar.set_position(done);
        let mut message =
            format!("{}, {}/s", counted(records, "record", "records"), grouped(rate as u64));
        if let Some(state) = StateSummary::now(meters) {
            message.push_str(", ");
            message.push_str(&state.describe_shortly());
        }
        self.bar.set_message(message);
    }

    /// What holds the run up, which is told to whoever asks.
    pub(crate) const fn plights(&self) -> &Plights {
        &self.plights
    }

    /// Tells a line, above the bar.
    pub fn say(&self, line: &str) {
        self.say_at(Level::Info, line);
    }

    /// Tells a line of something that may go wrong.
    pub fn warn(&self, line: &str) {
        self.say_at(Level::Warn, line);
    }

    fn say_at(&self, level: Level, line: &str) {
        if logs::is_started() {
            logs::say(level, line, None);
        } else {
            self.above(|| tell(&format!("{line}\n")));
        }
    }

    /// Lets `print` write above the bar.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Lets `sink`, which writes to the terminal, write without drawing into the bar.
    pub fn before<B: 'static>(&self, sink: Box<dyn Sink<B>>) -> Box<dyn Sink<B>> {
        if self.bar.is_hidden() { sink } else { Box::new(Behind { bar: self.bar.clone(), sink }) }
    }
}

/// Progress of a source that has been read to its end.
const SHARE: u64 = 10_000;

/// A sink on the terminal that the bar is drawn on.
struct Behind<B> {
    bar: ProgressBar,
    sink: Box<dyn Sink<B>>,
}

impl<B> Sink<B> for Behind<B> {
    fn write(&mut self, batch: &B) -> Result<(), SinkError> {
        self.bar.suspend(|| self.sink.write(batch))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.bar.suspend(|| self.sink.flush())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        // The last thing of a run: no bar is drawn below it.
        self.bar.finish_and_clear();
        self.sink.close()
    }

    fn take(&mut self, least: usize) -> Option<Held> {
        self.sink.take(least)
    }

    fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        self.bar.suspend(|| self.sink.publish(block, is_last))
    }
}
