//! The watermark estimate of one partition: it sits in the reader and watches every event time.
//!
//! What it promises is a function of the records that came, in their order, and of the instants
//! that it was told: how records were cut into batches does not matter. Invariant WM-1: what it
//! promises only rises.

use super::percentile::{Lateness, Percentile};
use super::renumbering::Renumbering;
use super::settings::{FutureSkew, WatermarkSettings, WatermarkSpec};
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use serde::{Deserialize, Serialize};

/// What an event time is seen against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The last tick; `None` before the first.
    pub now: Option<ProcessingTime>,
    /// How far the furthest of the other partitions has come; `None` if there is none, or nobody
    /// asks.
    pub others: Option<EventTime>,
}

/// What one event time did to the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It was the largest so far.
    InOrder,
    /// A larger one had come before.
    Reordered,
    /// It lies too far in the future: it moved the estimate at most to the clock, and not at all
    /// where it is held against other partitions.
    Clamped,
}

/// What a watermark that a record carried did to the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Punctuated {
    /// It promises more than was promised, or as much.
    Taken,
    /// It promises less than was promised already: it changed nothing.
    WentBack,
    /// It lies too far in the future: it counts at most up to the clock, and not at all where it is
    /// held against other partitions.
    Clamped,
}

/// The watermark estimate of one source partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Generator {
    settings: WatermarkSettings,
    /// Largest event time that counts. Grows only; part of a checkpoint.
    head: EventTime,
    /// What is promised, where that is more than the head tells. Grows only.
    promised: Watermark,
    /// Second watermarks: what is promised of the share of records that somebody asks for, in the
    /// order of the pipeline. Grow only.
    shares: Vec<Watermark>,
    /// How late the last records were; `None` where nobody asks.
    lateness: Option<Lateness>,
}

impl Generator {
    /// An estimate that has seen nothing, and second ones for these shares of the records.
    pub fn new(settings: WatermarkSettings, shares: &[Percentile]) -> Self {
        let own = match settings.spec {
            WatermarkSpec::Percentile { percentile, .. } => Some(percentile),
            WatermarkSpec::EndOfInput
            | WatermarkSpec::Bounded { .. }
            | WatermarkSpec::Punctuated
            | WatermarkSpec::Ingestion => None,
        };
        // The quantile of the estimate itself comes behind those of the shares.
        let asked: Vec<_> = shares.iter().copied().chain(own).collect();
        let lateness = Lateness::new(settings.lateness_records, &asked);
        Self {
            settings,
            head: EventTime::MIN,
            promised: Watermark::MIN,
            shares: vec![Watermark::MIN; shares.len()],
            lateness: (!asked.is_empty()).then_some(lateness),
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &WatermarkSettings {
        &self.settings
    }

    /// Goes on where `image` was stored, under the settings of this one; `renumbering` says which
    /// shares of the image they are. What was promised stays so; how late records are is measured
    /// anew where something else is asked of it.
    pub fn restore(&mut self, image: Self, renumbering: &Renumbering) {
        let asks_the_same = renumbering.has_same_shares(image.shares.len())
            && image.settings.spec == self.settings.spec
            && image.settings.lateness_records == self.settings.lateness_records;
        // Also where another kind of estimate takes over, which tells by something else.
        let promised = image.watermark().max(image.promised);
        *self = Self {
            settings: self.settings,
            head: image.head,
            promised,
            shares: renumbering.shares_of(&image.shares, promised),
            lateness: if asks_the_same { image.lateness } else { self.lateness.take() },
        };
    }

    /// Takes notice of the event time of the next record.
    pub fn observe(&mut self, time: EventTime, around: Surroundings) -> Observed {
        if let Some(most) = self.too_far(time, around) {
            // What lies that far is no time to measure lateness by.
            self.head = self.head.max(most);
            self.take_quantiles();
            return Observed::Clamped;
        }
        let observed = if time < self.head { Observed::Reordered } else { Observed::InOrder };
        self.head = self.head.max(time);
        if let Some(lateness) = &mut self.lateness {
            lateness.push(self.head.since(time));
            self.take_quantiles();
        }
        observed
    }

    /// Takes a watermark that a record carried, behind its event time. It means nothing to an
    /// estimate that is not [`WatermarkSpec::Punctuated`].
    pub fn punctuate(&mut self, mark: EventTime, around: Surroundings) -> Punctuated {
        let clamped = self.too_far(mark, around);
        let mark = Watermark(clamped.unwrap_or(mark).min(EventTime::LAST));
        let went_back = mark < self.promised;
        self.promised = self.promised.max(mark);
        match (clamped, went_back) {
            (Some(_), _) => Punctuated::Clamped,
            (None, true) => Punctuated::WentBack,
            (None, false) => Punctuated::Taken,
        }
    }

    /// The time has come to `now`: where records take the time of their arrival, nothing earlier
    /// can come any more.
    pub fn tick(&mut self, now: ProcessingTime) {
        match self.settings.spec {
            WatermarkSpec::Ingestion => {
                let arrival = now.as_event_time();
                self.promised = self.promised.max(Watermark(arrival));
                self.head = self.head.max(arrival);
                for share in &mut self.shares {
                    *share = self.promised.max(*share);
                }
            }
            WatermarkSpec::EndOfInput
            | WatermarkSpec::Bounded { .. }
            | WatermarkSpec::Percentile { .. }
            | WatermarkSpec::Punctuated => {}
        }
    }

    /// The event time of a record that arrives now, where records take the time of their arrival.
    /// Never earlier than what is promised, should the clock go back.
    pub fn arrival(&self) -> Option<EventTime> {
        match self.settings.spec {
            WatermarkSpec::Ingestion => Some(self.promised.0),
            WatermarkSpec::EndOfInput
            | WatermarkSpec::Bounded { .. }
            | WatermarkSpec::Percentile { .. }
            | WatermarkSpec::Punctuated => None,
        }
    }

    /// What may be promised now.
    pub fn watermark(&self) -> Watermark {
        match self.settings.spec {
            WatermarkSpec::EndOfInput => Watermark::MIN,
            WatermarkSpec::Bounded { out_of_orderness } => {
                Watermark(self.head.min(EventTime::LAST).saturating_sub(out_of_orderness))
            }
            WatermarkSpec::Percentile { .. }
            | WatermarkSpec::Punctuated
            | WatermarkSpec::Ingestion => self.promised,
        }
    }

    /// What may be promised while records wait that have been read and not observed yet, the
    /// earliest of them at `earliest`: nothing that they are earlier than, and no more than will
    /// be promised behind them.
    pub fn watermark_before(&self, earliest: EventTime, around: Surroundings) -> Watermark {
        let earliest = match self.settings.future_skew {
            // What the others have come to is not known before it is these records' turn.
            FutureSkew::Others(_) => return self.watermark(),
            FutureSkew::Off | FutureSkew::Clock(_) => {
                self.too_far(earliest, around).unwrap_or(earliest).min(EventTime::LAST)
            }
        };
        let behind = match self.settings.spec {
            WatermarkSpec::EndOfInput | WatermarkSpec::Punctuated | WatermarkSpec::Ingestion => {
                return self.watermark();
            }
            WatermarkSpec::Bounded { out_of_orderness } => out_of_orderness,
            WatermarkSpec::Percentile { out_of_orderness, .. } => {
                out_of_orderness.max(self.quantile(self.shares.len()))
            }
        };
        self.watermark().max(Watermark(earliest.saturating_sub(behind)))
    }

    /// The second watermarks, in the order of the shares.
    pub fn shares(&self) -> &[Watermark] {
        &self.shares
    }

    /// The largest event time that counts.
    pub const fn head(&self) -> EventTime {
        self.head
    }

    /// Up to where a time that lies too far in the future counts; `None` if it does not.
    ///
    /// The clock goes on by itself, so a partition whose times all lie ahead follows it. What the
    /// others have come to says nothing of this one: it waits for its end, rather than to take for
    /// late what comes behind one wrong time.
    fn too_far(&self, time: EventTime, around: Surroundings) -> Option<EventTime> {
        let (against, skew, counts_to) = match self.settings.future_skew {
            FutureSkew::Off => return None,
            FutureSkew::Clock(skew) => {
                let clock = around.now?.as_event_time();
                (clock, skew, clock)
            }
            FutureSkew::Others(skew) => (around.others?, skew, EventTime::MIN),
        };
        (time > against.saturating_add(skew)).then_some(counts_to)
    }

    fn quantile(&self, number: usize) -> Span {
        self.lateness.as_ref().map_or(Span::ZERO, |lateness| lateness.quantile(number))
    }

    /// What the quantiles now allow to be promised; asked behind every record, so that the largest
    /// promise does not depend on when anybody asks.
    fn take_quantiles(&mut self) {
        let head = self.head.min(EventTime::LAST);
        for number in 0..self.shares.len() {
            let share = Watermark(head.saturating_sub(self.quantile(number)));
            if let Some(known) = self.shares.get_mut(number) {
                *known = share.max(*known);
            }
        }
        if let WatermarkSpec::Percentile { out_of_orderness, .. } = self.settings.spec {
            let behind = out_of_orderness.max(self.quantile(self.shares.len()));
            self.promised = self.promised.max(Watermark(head.saturating_sub(behind)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::WM_1;
    use proptest::prelude::*;

    const BOUNDED: WatermarkSpec =
        WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(10) };

    fn settings(spec: WatermarkSpec, future_skew: FutureSkew) -> WatermarkSettings {
        WatermarkSettings { future_skew, lateness_records: 4, ..WatermarkSettings::new(spec) }
    }

    fn generator(spec: WatermarkSpec) -> Generator {
        Generator::new(settings(spec, FutureSkew::Clock(Span::from_millis(50))), &[])
    }

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn mark(millis: i64) -> Watermark {
        Watermark(at(millis))
    }

    fn now(millis: Option<i64>) -> Surroundings {
        Surroundings { now: millis.map(ProcessingTime::from_millis), others: None }
    }

    fn percent(percent: f64) -> Percentile {
        Percentile::from_percent(percent).unwrap()
    }

    #[test]
    fn the_estimate_follows_the_largest_time_and_never_falls() {
        let mut generator = generator(BOUNDED);
        for (time, clock, observed, watermark) in [
            (100, None, Observed::InOrder, 90),
            (95, None, Observed::Reordered, 90),
            (100, None, Observed::InOrder, 90),
            (1_000, Some(200), Observed::Clamped, 190),
            (250, Some(200), Observed::InOrder, 240),
            (1_000, Some(100), Observed::Clamped, 240),
            (i64::MAX, None, Observed::InOrder, i64::MAX - 11),
        ] {
            assert_eq!(generator.observe(at(time), now(clock)), observed, "{time}");
            assert_eq!(generator.watermark(), mark(watermark), "{time}");
        }
        let mut generator = self::generator(WatermarkSpec::EndOfInput);
        generator.observe(at(5), now(None));
        assert_eq!(generator.watermark(), Watermark::MIN);
    }

    #[test]
    fn another_estimate_takes_over_what_was_promised() {
        let percentile = percent(50.0);
        let spec = WatermarkSpec::Percentile { percentile, out_of_orderness: Span::ZERO };
        let wider = WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(30) };
        for (spec, after_110) in
            [(BOUNDED, 100), (wider, 80), (spec, 110), (WatermarkSpec::Punctuated, 90)]
        {
            let mut stored = generator(BOUNDED);
            stored.observe(at(100), now(None));
            let settings = settings(spec, FutureSkew::Clock(Span::from_millis(50)));
            let mut restored = Generator::new(settings, &[percentile]);
            restored.restore(stored, &Renumbering { shares: vec![None], partitions: Vec::new() });
            assert_eq!(restored.shares, [mark(90)], "{spec:?}");
            restored.observe(at(110), now(None));
            assert_eq!(restored.watermark(), mark(after_110), "{spec:?}");
        }
    }

    #[test]
    fn a_percentile_lets_stragglers_go_and_gives_way_when_many_are_late() {
        // Of the last 4 records, half are in time: the lateness of rank 2.
        let (percentile, out_of_orderness) = (percent(50.0), Span::from_millis(2));
        let spec = WatermarkSpec::Percentile { percentile, out_of_orderness };
        let mut generator = generator(spec);
        for (time, watermark) in [
            (100, 98),  // lateness 0: at least 2 are subtracted
            (110, 108), // 0 0
            (50, 108),  // 0 0 60: a straggler
            (112, 110), // 0 0 60 0
            (60, 110),  // 0 60 0 52
            (65, 110),  // 60 0 52 47: rank 2 is 47, and 65 is no progress
            (170, 168), // 0 52 47 0: rank 2 is 0
            (100, 168), // 52 47 0 70: rank 2 is 47
            (176, 174), // 47 0 70 0: rank 2 is 0
        ] {
            generator.observe(at(time), now(None));
            assert_eq!(generator.watermark(), mark(watermark), "{time}");
        }
    }

    #[test]
    fn shares_are_watermarks_of_their_own_beside_the_estimate() {
        let shares = [percent(50.0), percent(100.0)];
        let mut generator = Generator::new(settings(BOUNDED, FutureSkew::Off), &shares);
        for (time, watermark, half, all) in
            [(100, 90, 100, 100), (97, 90, 100, 100), (95, 90, 100, 100), (105, 95, 105, 100)]
        {
            generator.observe(at(time), now(None));
            assert_eq!(generator.watermark(), mark(watermark), "{time}");
            assert_eq!(generator.shares(), [mark(half), mark(all)], "{time}");
        }
    }

    #[test]
    fn records_carry_the_watermark_and_cannot_take_it_back() {
        let mut generator = generator(WatermarkSpec::Punctuated);
        generator.observe(at(500), now(Some(1_000)));
        assert_eq!(generator.watermark(), Watermark::MIN, "an event time is no promise");
        for (carried, punctuated, watermark) in [
            (400, Punctuated::Taken, 400),
            (300, Punctuated::WentBack, 400),
            (400, Punctuated::Taken, 400),
            (1_050, Punctuated::Taken, 1_050),
            (1_051, Punctuated::Clamped, 1_050),
            (i64::MAX, Punctuated::Clamped, 1_050),
            (i64::MIN, Punctuated::WentBack, 1_050),
        ] {
            let got = generator.punctuate(at(carried), now(Some(1_000)));
            assert_eq!((got, generator.watermark()), (punctuated, mark(watermark)), "{carried}");
        }
        // Without a limit ten years ahead are believed, but the end of time is no end of input.
        let mut generator =
            Generator::new(settings(WatermarkSpec::Punctuated, FutureSkew::Off), &[]);
        generator.punctuate(at(i64::MAX), now(Some(0)));
        assert_eq!(generator.watermark(), mark(i64::MAX - 1));
    }

    #[test]
    fn the_time_of_arrival_is_a_watermark_without_any_record() {
        let mut generator = generator(WatermarkSpec::Ingestion);
        assert_eq!(generator.watermark(), Watermark::MIN);
        for (clock, watermark) in [(1_000, 1_000), (900, 1_000), (1_200, 1_200)] {
            generator.tick(ProcessingTime::from_millis(clock));
            assert_eq!(generator.watermark(), mark(watermark), "{clock}");
            assert_eq!(generator.arrival(), Some(at(watermark)), "{clock}");
        }
        assert_eq!(self::generator(BOUNDED).arrival(), None);
    }

    #[test]
    fn replayed_input_is_held_against_the_other_partitions() {
        let skew = FutureSkew::Others(Span::from_millis(50));
        let mut generator = Generator::new(settings(BOUNDED, skew), &[]);
        let decade = 315_360_000_000;
        for (time, others, observed, watermark) in [
            (100, None, Observed::InOrder, 90),
            (decade, Some(120), Observed::Clamped, 90),
            (171, Some(120), Observed::Clamped, 90),
            (170, Some(120), Observed::InOrder, 160),
            (decade, Some(40), Observed::Clamped, 160),
        ] {
            let around = Surroundings { now: None, others: others.map(at) };
            assert_eq!(generator.observe(at(time), around), observed, "{time}");
            assert_eq!(generator.watermark(), mark(watermark), "{time}");
        }
        let mut carried = Generator::new(settings(WatermarkSpec::Punctuated, skew), &[]);
        let around = Surroundings { now: None, others: Some(at(200)) };
        for (time, punctuated, watermark) in [
            (80, Punctuated::Taken, 80),
            (251, Punctuated::Clamped, 80),
            (250, Punctuated::Taken, 250),
        ] {
            assert_eq!(carried.punctuate(at(time), around), punctuated, "{time}");
            assert_eq!(carried.watermark(), mark(watermark), "{time}");
        }
        // What waits is not believed before it is known what the others have come to.
        assert_eq!(generator.watermark_before(at(decade), around), mark(160));
    }

    #[test]
    fn what_waits_does_not_hold_back_more_than_it_must() {
        let (percentile, out_of_orderness) = (percent(100.0), Span::from_millis(2));
        let late = WatermarkSpec::Percentile { percentile, out_of_orderness };
        for (spec, earliest, expected) in [
            (BOUNDED, 500, 490),
            (BOUNDED, 80, 90),
            (BOUNDED, 9_000, 990),
            (BOUNDED, i64::MAX, 990),
            // The second record was 7 late.
            (late, 500, 493),
            (WatermarkSpec::EndOfInput, 500, i64::MIN),
            (WatermarkSpec::Punctuated, 500, i64::MIN),
        ] {
            let mut generator = generator(spec);
            generator.observe(at(100), now(None));
            generator.observe(at(93), now(None));
            let before = generator.watermark_before(at(earliest), now(Some(1_000)));
            assert_eq!(before, mark(expected), "{spec:?} {earliest}");
        }
    }

    fn specs() -> impl Strategy<Value = WatermarkSpec> {
        let out_of_orderness = (0_i64..30).prop_map(Span::from_millis);
        prop_oneof![
            Just(WatermarkSpec::EndOfInput),
            out_of_orderness
                .clone()
                .prop_map(|out_of_orderness| WatermarkSpec::Bounded { out_of_orderness }),
            (1_u32..=100_000, out_of_orderness).prop_map(|(share, out_of_orderness)| {
                let percentile = Percentile::from_thousandths(share).unwrap();
                WatermarkSpec::Percentile { percentile, out_of_orderness }
            }),
            Just(WatermarkSpec::Punctuated),
            Just(WatermarkSpec::Ingestion),
        ]
    }

    fn skews() -> impl Strategy<Value = FutureSkew> {
        prop_oneof![
            Just(FutureSkew::Off),
            (0_i64..100).prop_map(|skew| FutureSkew::Clock(Span::from_millis(skew))),
            (0_i64..100).prop_map(|skew| FutureSkew::Others(Span::from_millis(skew))),
        ]
    }

    fn times() -> impl Strategy<Value = i64> {
        prop_oneof![8 => -200_i64..200, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()]
    }

    proptest! {
        #[test]
        fn promises_only_rise_and_a_checkpoint_changes_nothing(
            spec in specs(),
            skew in skews(),
            share in 1_u32..=100_000,
            steps in prop::collection::vec((0_u8..4, times(), times()), 1..120),
        ) {
            let shares = [Percentile::from_thousandths(share).unwrap()];
            let mut generator = Generator::new(settings(spec, skew), &shares);
            for (step, time, other) in steps {
                let around = Surroundings {
                    now: Some(ProcessingTime::from_millis(other)),
                    others: Some(at(other)),
                };
                let before = (generator.watermark(), generator.shares().to_vec());
                let waiting = generator.watermark_before(at(time), around);
                match step {
                    0 => {
                        generator.observe(at(time), around);
                        prop_assert!(
                            waiting <= generator.watermark().max(before.0),
                            "{waiting} was promised before a record at {time}, behind it {}",
                            generator.watermark(),
                        );
                    }
                    1 => { generator.punctuate(at(time), around); }
                    2 => generator.tick(ProcessingTime::from_millis(time)),
                    _ => {
                        let bytes = postcard::to_allocvec(&generator).unwrap();
                        generator = postcard::from_bytes(&bytes).unwrap();
                    }
                }
                prop_assert!(waiting >= before.0);
                prop_assert!(generator.watermark() >= before.0, "{WM_1}");
                prop_assert!(generator.shares()[0] >= before.1[0], "{WM_1}");
                prop_assert!(generator.watermark() < Watermark::MAX, "no end of input");
            }
        }
    }
}
