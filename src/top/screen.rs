//! What is drawn: who holds the watermark, and what sources, stages and sinks have counted, with rates
//! since the look before.

use super::TopError;
use super::client::Look;
use crate::admin::answers::{HolderAnswer, PartitionAnswer, PipelineAnswer};
use crate::summary_table::grouped;
use nilometer_model::time::Span;
use nilometer_model::window::display_span;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table};
use std::collections::BTreeMap;

/// What is looked at.
pub(crate) struct View {
    now: Look,
    before: Option<Look>,
    /// Why the last look failed.
    problem: Option<String>,
}

impl View {
    /// At the first look.
    pub(crate) const fn new(now: Look) -> Self {
        Self { now, before: None, problem: None }
    }

    /// At the next one; one that fails shows the run as it was.
    pub(crate) fn then(self, next: Result<Look, TopError>) -> Self {
        match next {
            Ok(now) => Self { now, before: Some(self.now), problem: None },
            Err(error) => Self { problem: Some(error.to_string()), ..self },
        }
    }

    /// By how much a number rises in a second.
    fn rate(&self, number: impl Fn(&PipelineAnswer) -> Option<u64>) -> String {
        let rate = self.before.as_ref().and_then(|before| {
            let rise = number(&self.now.pipeline)?.checked_sub(number(&before.pipeline)?)?;
            let millis = self.now.pipeline.now_ms.checked_sub(before.pipeline.now_ms)?;
            let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
            rise.saturating_mul(1_000).checked_div(millis)
        });
        rate.map_or_else(|| "-".into(), grouped)
    }
}

/// Lines of the parts of a look: what there may be very many of comes last, so that it takes the place of
/// nothing else.
fn heights(view: &View) -> [u16; 5] {
    let pipeline = &view.now.pipeline;
    let tables = [
        pipeline.sources.len(),
        pipeline.stages.len(),
        pipeline.sinks.len(),
        view.now.partitions.partitions.len(),
    ];
    let [sources, stages, sinks, partitions] = tables.map(|rows| rows.saturating_add(2));
    [head(view).height(), sources, stages, sinks, partitions]
        .map(|lines| u16::try_from(lines).unwrap_or(u16::MAX))
}

/// Lines of a look that shows everything.
pub(super) fn height(view: &View) -> u16 {
    heights(view).into_iter().fold(0, u16::saturating_add)
}

/// Draws a look.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View) {
    let heights = heights(view).map(Constraint::Length);
    let areas: [Rect; 5] = Layout::vertical(heights).flex(Flex::Start).areas(frame.area());
    let [top, sources, stages, sinks, partitions] = areas;
    frame.render_widget(Paragraph::new(head(view)), top);
    table(frame, sources, SOURCES, source_rows(view));
    table(frame, stages, STAGES, stage_rows(view));
    table(frame, sinks, SINKS, sink_rows(view));
    table(frame, partitions, PARTITIONS, partition_rows(view));
}

/// Columns of a table: names, those of texts with their share of the width.
type Columns = &'static [(&'static str, Option<u16>)];

const SOURCES: Columns = &[
    ("SOURCE", Some(3)),
    ("READ", None),
    ("READ/S", None),
    ("FILTERED", None),
    ("REJECTED", None),
    ("IN FLIGHT", None),
];
const PARTITIONS: Columns = &[
    ("PARTITION", Some(3)),
    ("STATE", Some(2)),
    ("BEHIND CLOCK", None),
    ("SKEW", None),
    ("SILENT", None),
    ("LAG", None),
];
const STAGES: Columns = &[
    ("STAGE", Some(3)),
    ("READS", Some(2)),
    ("ON TIME/S", None),
    ("LATE", None),
    ("EXPIRED", None),
    ("PANES/S", None),
    ("KEYS", None),
    ("STATE BYTES", None),
];
const SINKS: Columns =
    &[("SINK", Some(3)), ("PANES", None), ("PANES/S", None), ("LATE", None), ("STATE", None)];

fn table(frame: &mut Frame<'_>, area: Rect, columns: Columns, rows: Vec<Vec<String>>) {
    let row = |cells: Vec<String>| {
        let cells = cells.into_iter().zip(columns).map(|(cell, (_, share))| {
            let side = if share.is_some() { Alignment::Left } else { Alignment::Right };
            Text::from(cell).alignment(side)
        });
        Row::new(cells.collect::<Vec<_>>())
    };
    let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let header = row(names).style(Style::new().bold().fg(Color::Cyan));
    let widths = columns.iter().map(|(_, share)| match share {
        Some(share) => Constraint::Fill(*share),
        None => Constraint::Length(13),
    });
    let table = Table::new(rows.into_iter().map(row), widths.collect::<Vec<_>>()).header(header);
    frame.render_widget(table, area);
}

fn span(millis: i64) -> String {
    // Whole seconds: what is less changes at every look.
    match millis.max(0) / 1_000 {
        0 => "0s".to_owned(),
        seconds => display_span(Span::from_millis(seconds * 1_000)),
    }
}

fn head(view: &View) -> Text<'static> {
    let pipeline = &view.now.pipeline;
    let uptime = span(i64::try_from(pipeline.uptime_ms).unwrap_or(i64::MAX));
    let epoch = pipeline.epoch.map(|epoch| format!(", epoch {epoch} durable"));
    let first = format!(
        "{}: {}, {}, up {uptime}{}",
        pipeline.pipeline,
        pipeline.status,
        pipeline.engine,
        epoch.unwrap_or_default()
    );
    let mut lines = vec![Line::from(first).bold(), Line::from(watermark(pipeline))];
    lines.extend(view.problem.clone().map(|problem| Line::from(problem).fg(Color::Red)));
    lines.push(Line::default());
    Text::from(lines)
}

fn watermark(pipeline: &PipelineAnswer) -> String {
    let stands = &pipeline.watermark;
    let mut text = match stands.watermark_ms {
        Some(watermark) => {
            format!(
                "watermark {} behind the clock",
                span(pipeline.now_ms.saturating_sub(watermark))
            )
        }
        None => "no watermark".to_owned(),
    };
    match &stands.holder {
        Some(HolderAnswer { source, partition, by_ms }) => {
            text.push_str(&format!(", held by `{source}`"));
            if partition != source {
                text.push_str(&format!(", partition `{partition}`"));
            }
            if let Some(by) = by_ms {
                text.push_str(&format!(", by {}", span(*by)));
            }
        }
        None => text.push_str(", held by nobody"),
    }
    if let Some(still) = stands.still_ms.filter(|still| *still >= 1_000) {
        text.push_str(&format!("; has not moved for {}", span(still)));
    }
    text
}

fn source_rows(view: &View) -> Vec<Vec<String>> {
    let sources = view.now.pipeline.sources.iter().enumerate();
    let row = sources.map(|(number, source)| {
        vec![
            source.name.clone(),
            grouped(source.read),
            view.rate(|pipeline| Some(pipeline.sources.get(number)?.read)),
            grouped(source.filtered),
            grouped(source.malformed.saturating_add(source.dead_lettered)),
            grouped(source.in_flight_records),
        ]
    });
    row.collect()
}

fn partition_rows(view: &View) -> Vec<Vec<String>> {
    let now = view.now.pipeline.now_ms;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let row = view.now.partitions.partitions.iter().map(|partition: &PartitionAnswer| {
        let behind = partition.watermark_ms.map(|watermark| now.saturating_sub(watermark));
        vec![
            partition.partition.clone(),
            partition.state.clone(),
            or_none(behind.map(span)),
            or_none(partition.skew_ms.map(span)),
            span(partition.silent_ms),
            or_none(partition.lag.map(grouped)),
        ]
    });
    row.collect()
}

fn stage_rows(view: &View) -> Vec<Vec<String>> {
    let stages = view.now.pipeline.stages.iter().enumerate();
    let row = stages.map(|(number, stage)| {
        let outcome = |name: &str| grouped(stage.outcomes.get(name).copied().unwrap_or(0));
        let total =
            |panes: &BTreeMap<String, u64>| panes.values().copied().fold(0, u64::saturating_add);
        vec![
            stage.name.clone(),
            stage.reads.clone(),
            view.rate(|pipeline| pipeline.stages.get(number)?.outcomes.get("on_time").copied()),
            outcome("late"),
            outcome("expired"),
            view.rate(|pipeline| Some(total(&pipeline.stages.get(number)?.panes))),
            grouped(stage.keys),
            grouped(stage.state_bytes),
        ]
    });
    row.collect()
}

fn sink_rows(view: &View) -> Vec<Vec<String>> {
    let sinks = view.now.pipeline.sinks.iter().enumerate();
    let row = sinks.map(|(number, sink)| {
        vec![
            sink.name.clone(),
            grouped(sink.panes),
            view.rate(|pipeline| Some(pipeline.sinks.get(number)?.panes)),
            grouped(sink.late),
            if sink.has_failed { "failed".into() } else { "well".into() },
        ]
    });
    row.collect()
}
