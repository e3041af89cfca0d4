//! How the watermark stands, in words: the first question in every outage is who holds it.

use jiff::Timestamp;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::watermark::{PartitionStanding, PartitionState, Standing};
use nilometer_model::window::display_span;
use std::sync::Arc;

/// The names that people give what stands.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Of the sources, in their order.
    pub sources: &'a [Arc<str>],
    /// Of the partition that holds the source that holds the watermark, where it reads several.
    pub holder: Option<&'a str>,
}

/// A few lines on who holds the watermark and by how much, and on every source if there are
/// several. Without a line end at the end.
pub fn describe(standing: &Standing, names: Names<'_>) -> String {
    let name = |partition: usize| names.sources.get(partition).map_or("?", |name| &**name);
    let mut text = format!("watermark: {}, ", instant(standing.watermark.0));
    match standing.holder {
        Some(holder) => {
            text.push_str(&format!("held by source `{}`", name(holder.partition as usize)));
            if let Some(partition) = names.holder {
                text.push_str(&format!(", by its partition `{partition}`"));
            }
            if let Some(by) = holder.by {
                text.push_str(&format!("; without it, it would be {} further", span(by)));
            }
        }
        None if standing.watermark == Watermark::MAX => text.push_str("all input has ended"),
        None => text.push_str("held by no source: none is active"),
    }
    if standing.partitions.len() > 1 {
        for (number, partition) in standing.partitions.iter().enumerate() {
            text.push_str(&format!("\n  {}: {}", name(number), source(partition)));
        }
    }
    text
}

/// That the watermark has stood still for long.
pub fn describe_standstill(standing: &Standing, names: Names<'_>) -> String {
    let still = display_span(whole_seconds(standing.still));
    format!("the watermark has not moved for {still}; {}", describe(standing, names))
}

fn source(standing: &PartitionStanding) -> String {
    let mut text = standing.state.name().to_owned();
    if standing.state == PartitionState::Finished {
        return text;
    }
    text.push_str(&format!(", promises {}", instant(standing.watermark.0)));
    if standing.head == EventTime::MIN {
        text.push_str(", has given no record");
    } else {
        let head = instant(standing.head);
        text.push_str(&format!(
            ", newest record {head}, {} behind the furthest",
            span(standing.lag)
        ));
    }
    if standing.is_waiting {
        text.push_str(", waits for those behind it");
    }
    if standing.silent > Span::ZERO {
        text.push_str(&format!(", silent for {}", span(standing.silent)));
    }
    text
}

/// A length of time that says no more than matters.
fn span(span: Span) -> String {
    // No two times that records carry are so far apart.
    if span == Span::from_millis(i64::MAX) {
        return "any length of time".to_owned();
    }
    display_span(if span.as_millis() < 10_000 { span } else { whole_seconds(span) })
}

fn whole_seconds(span: Span) -> Span {
    Span::from_millis(span.as_millis() / 1_000 * 1_000)
}

/// An event time for people; beyond the calendar, its milliseconds.
pub(crate) fn instant(time: EventTime) -> String {
    match time {
        EventTime::MIN => "nothing yet".to_owned(),
        EventTime::MAX => "the end of time".to_owned(),
        time => Timestamp::from_millisecond(time.as_millis())
            .map_or_else(|_| format!("{time} ms"), |at| format!("{at:.0}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::watermark::Holder;

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn partition(state: PartitionState, watermark: i64, head: i64) -> PartitionStanding {
        PartitionStanding {
            state,
            watermark: Watermark(at(watermark)),
            head: at(head),
            lag: at(1_700_000_120_000).since(at(head)),
            silent: Span::ZERO,
            is_waiting: false,
        }
    }

    #[test]
    fn who_holds_the_watermark_is_said_with_how_much() {
        let sources = ["a", "b", "c"].map(Arc::from);
        let names = Names { sources: &sources, holder: Some("flows/3") };
        let ahead = PartitionStanding {
            is_waiting: true,
            ..partition(PartitionState::Active, 1_700_000_000_000, 1_700_000_120_000)
        };
        let behind = PartitionStanding {
            silent: Span::from_millis(12_345),
            ..partition(PartitionState::Active, 1_699_999_000_000, 1_699_999_120_400)
        };
        let unheard = partition(PartitionState::Idle, i64::MIN, i64::MIN);
        let mut standing = Standing {
            watermark: Watermark(at(1_699_999_000_000)),
            still: Span::from_millis(61_234),
            holder: Some(Holder {
                partition: 1,
                watermark: behind.watermark,
                by: Some(Span::from_millis(1_000_000)),
            }),
            partitions: vec![ahead, behind, unheard],
        };
        assert_eq!(
            describe_standstill(&standing, names),
            "the watermark has not moved for 61s; watermark: 2023-11-14T21:56:40Z, held by source `b`, by its partition `flows/3`; without it, it would be 1000s further\n\
             \x20 a: active, promises 2023-11-14T22:13:20Z, newest record 2023-11-14T22:15:20Z, 0ms behind the furthest, waits for those behind it\n\
             \x20 b: active, promises 2023-11-14T21:56:40Z, newest record 2023-11-14T21:58:40Z, 999s behind the furthest, silent for 12s\n\
             \x20 c: idle, promises nothing yet, has given no record"
        );
        standing.partitions.truncate(1);
        standing.holder = None;
        assert_eq!(
            describe(&standing, names),
            "watermark: 2023-11-14T21:56:40Z, held by no source: none is active"
        );
        standing.watermark = Watermark::MAX;
        assert_eq!(describe(&standing, names), "watermark: the end of time, all input has ended");
    }
}
