//! Watermarks of random partitions: never back, and where nobody is idle the minimum of all.

use crate::config;
use nilometer_model::invariant::WM_1;
use nilometer_model::time::{EventTime, ProcessingTime, Span, Watermark};
use nilometer_model::watermark::{
    Coordinator, FutureSkew, Generator, PartitionState, Progress, ProgressRules, Reader,
    Surroundings, WatermarkSettings, WatermarkSpec,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Report {
    Progress(Progress),
    Tick(i64),
}

fn reports(partitions: u32) -> impl Strategy<Value = Vec<Report>> {
    let reader = prop_oneof![
        3 => Just(Reader::Behind),
        1 => Just(Reader::Unseen),
        1 => Just(Reader::Away),
        3 => Just(Reader::AtEnd),
        2 => Just(Reader::Blocked),
        1 => Just(Reader::Finished),
    ];
    let progress = (0..=partitions, -20_i64..200, reader, any::<bool>()).prop_map(
        |(partition, watermark, reader, has_records)| {
            Report::Progress(Progress {
                partition,
                watermark: Watermark(EventTime::from_millis(watermark)),
                shares: Vec::new(),
                head: EventTime::from_millis(watermark),
                reader,
                has_records,
            })
        },
    );
    let tick = (0_i64..500).prop_map(Report::Tick);
    prop::collection::vec(prop_oneof![4 => progress, 1 => tick], 0..60)
}

proptest! {
    #![proptest_config(config())]

    /// P6.
    #[test]
    fn the_watermark_never_goes_back(
        reports in reports(3), idle_after in prop::option::of(0_i64..300),
    ) {
        let patience = [idle_after.map(Span::from_millis); 3];
        let mut coordinator = Coordinator::new(ProgressRules::default(), &patience, 0);
        let mut given = Watermark::MIN;
        for report in reports {
            let rose = match report {
                Report::Progress(progress) => coordinator.progress(&progress),
                Report::Tick(now) => coordinator.tick(ProcessingTime::from_millis(now)),
            };
            if let Some(watermark) = rose {
                prop_assert!(given < watermark, "{}", WM_1);
                given = watermark;
            }
            prop_assert_eq!(coordinator.watermark(), given);
            let partitions = coordinator.standing().partitions;
            let active = partitions.iter().filter(|known| known.state == PartitionState::Active);
            let lowest = active.map(|known| known.watermark).min();
            let is_done = partitions.iter().all(|known| known.state == PartitionState::Finished);
            prop_assert!(is_done || lowest.is_none_or(|lowest| lowest <= given));
            if idle_after.is_none() && !is_done {
                // No one is ever idle: it is the minimum over those that have not ended.
                prop_assert!(lowest.is_some_and(|lowest| lowest == given));
            }
        }
    }

    #[test]
    fn an_estimate_never_goes_back(
        times in prop::collection::vec((any::<i64>(), prop::option::of(any::<i64>())), 0..50),
    ) {
        let spec = WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(10) };
        let future_skew = FutureSkew::Clock(Span::from_millis(50));
        let settings = WatermarkSettings { future_skew, ..WatermarkSettings::new(spec) };
        let mut generator = Generator::new(settings, &[]);
        let mut given = Watermark::MIN;
        for (time, now) in times {
            let now = now.map(ProcessingTime::from_millis);
            generator.observe(EventTime::from_millis(time), Surroundings { now, others: None });
            prop_assert!(given <= generator.watermark(), "{}", WM_1);
            prop_assert!(generator.watermark() < Watermark::MAX);
            given = generator.watermark();
        }
    }
}
