//! A table for people: the largest rows of each stage.
//!
//! It shows results, not panes: panes of one key and window are put together as their mode says,
//! and what was retracted is gone. Bounded: of a stage with very many rows the smallest are let go,
//! and the title says so.

use crate::panes::human;
use crate::panes::output::Output;
use crate::panes::{PaneRef, panes};
use crate::sink::{Sink, SinkError};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use nilometer_model::aggregate::{Values, ValuesRef};
use nilometer_model::pane::{AccumulationMode, PaneBatch, PaneKind};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Window;
use nilometer_model::value::{Datum, Type};
use nilometer_model::window::WindowFn;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

/// What a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSettings {
    /// Most rows of a stage.
    pub rows: usize,
    /// Whether each flush prints what is new (live input), or only the end prints (bounded input).
    pub is_live: bool,
    /// Columns of the terminal; `None` does not wrap.
    pub width: Option<u16>,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self { rows: 10, is_live: false, width: Table::new().width().filter(|width| *width > 0) }
    }
}

/// A sink that prints tables.
#[derive(Debug)]
pub struct TableSink {
    settings: TableSettings,
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    /// By stage. Cleared by printing.
    results: Vec<Results>,
    output: Output,
}

/// What tells the results of a stage apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    window: Window,
    key: Box<[u64]>,
    is_other: bool,
}

/// The results of one stage.
#[derive(Debug, Default)]
struct Results {
    /// The values of each.
    rows: HashMap<Identity, Values>,
    /// How many were let go.
    left_out: usize,
}

impl TableSink {
    /// Results that a stage keeps; the smallest beyond it are let go.
    const KEPT_MAX: usize = 20_000;

    /// A table on standard output.
    pub fn stdout(settings: TableSettings, plan: Arc<Plan>, symbols: Arc<Symbols>) -> Self {
        Self::new(settings, plan, symbols, Output::stdout())
    }

    /// A table on `writer`.
    pub fn on(
        settings: TableSettings,
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        writer: Box<dyn Write + Send>,
    ) -> Self {
        Self::new(settings, plan, symbols, Output::over("table", writer))
    }

    fn new(
        settings: TableSettings,
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        output: Output,
    ) -> Self {
        let results = plan.stages.iter().map(|_| Results::default()).collect();
        Self { settings, plan, symbols, results, output }
    }

    fn print(&mut self) -> Result<(), SinkError> {
        for (stage, results) in self.plan.stages.iter().zip(&mut self.results) {
            let results = std::mem::take(results);
            if results.rows.is_empty() {
                continue;
            }
            let view = View { stage, rank: rank(&self.plan, stage), symbols: &self.symbols };
            let text = view.text(&results, self.settings);
            self.output.write(text.as_bytes())?;
        }
        self.output.flush()
    }
}

impl Sink for TableSink {
    fn write(&mut self, batch: &PaneBatch) -> Result<(), SinkError> {
        let at = batch.stage.index();
        let (Some(stage), Some(results)) = (self.plan.stages.get(at), self.results.get_mut(at))
        else {
            return Ok(());
        };
        for pane in panes(batch, stage) {
            results.take(stage, pane, &self.symbols);
        }
        if results.rows.len() > 2 * Self::KEPT_MAX {
            let view = View { stage, rank: rank(&self.plan, stage), symbols: &self.symbols };
            view.let_go(results, Self::KEPT_MAX);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.settings.is_live { self.print() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.print()
    }
}

impl Results {
    fn take(&mut self, stage: &Stage, pane: PaneRef<'_>, symbols: &Symbols) {
        let PaneRef { meta, key, values } = pane;
        let identity = Identity { window: meta.window, key: key.into(), is_other: meta.is_other };
        match (meta.kind, stage.mode) {
            (PaneKind::Retract, _) => {
                self.rows.remove(&identity);
            }
            (PaneKind::Insert, AccumulationMode::Discarding) => {
                let total = self.rows.entry(identity).or_insert_with(|| stage.aggregates.empty());
                // A sum beyond 128 bits would have stopped the engine before it came here.
                if stage.aggregates.merge_all(&mut *total, values, symbols).is_err() {
                    *total = values.into();
                }
            }
            (PaneKind::Insert, AccumulationMode::Accumulating | AccumulationMode::Retracting) => {
                self.rows.insert(identity, values.into());
            }
        }
    }
}

/// Numbers of the aggregates that rank the rows of `stage`: those that rank a top-K of the plan, if
/// it has them, else its first whole number.
fn rank(plan: &Plan, stage: &Stage) -> Vec<usize> {
    for other in std::iter::once(stage).chain(&plan.stages) {
        let Some(top_k) = &other.top_k else { continue };
        let names = top_k.rank.iter().map(|number| other.aggregates.accumulators().get(*number));
        let found: Option<Vec<_>> =
            names.map(|aggregate| stage.aggregates.find(&aggregate?.name)).collect();
        if let Some(found) = found {
            return found;
        }
    }
    let empty = stage.aggregates.empty();
    let is_whole =
        |number: &usize| matches!(stage.aggregates.finish(&empty, *number), Datum::Int(_));
    (0..stage.aggregates.accumulators().len()).find(is_whole).into_iter().collect()
}

/// One stage, as its table shows it.
struct View<'a> {
    stage: &'a Stage,
    rank: Vec<usize>,
    symbols: &'a Symbols,
}

type Row<'a> = (&'a Identity, ValuesRef<'a>);

impl View<'_> {
    fn rank(&self, values: ValuesRef<'_>) -> i128 {
        let parts = self.rank.iter().map(|number| self.stage.aggregates.finish(values, *number));
        parts.fold(0, |sum, part| match part {
            Datum::Int(number) => sum.saturating_add(number),
            Datum::Null
            | Datum::Bool(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Object(_)
            | Datum::Ip(_) => sum,
        })
    }

    /// The rows, largest first; of equal ones the earlier window, then the smaller key.
    fn sorted<'r>(&self, results: &'r Results) -> Vec<Row<'r>> {
        let mut rows: Vec<_> = results
            .rows
            .iter()
            .map(|(identity, values)| (self.rank(values.view()), (identity, values.view())))
            .collect();
        rows.sort_unstable_by(|(a_rank, (a, _)), (b_rank, (b, _))| {
            b_rank
                .cmp(a_rank)
                .then_with(|| a.is_other.cmp(&b.is_other))
                .then_with(|| a.window.start().cmp(&b.window.start()))
                .then_with(|| self.stage.key.compare(&a.key, &b.key, self.symbols))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn let_go(&self, results: &mut Results, kept_max: usize) {
        let kept: HashMap<_, _> = self
            .sorted(results)
            .into_iter()
            .take(kept_max)
            .map(|(identity, values)| (identity.clone(), values.into()))
            .collect();
        results.left_out += results.rows.len() - kept.len();
        results.rows = kept;
    }

    fn title(&self, results: &Results, shown: usize) -> String {
        let stage = self.stage;
        let rows = human::count((results.rows.len() + results.left_out) as i128);
        let mut title = format!("{}: ", stage.name);
        if shown == results.rows.len() {
            title.push_str(&format!("{rows} {}", if shown == 1 { "row" } else { "rows" }));
        } else {
            let accumulators = stage.aggregates.accumulators();
            let names: Vec<_> = self
                .rank
                .iter()
                .filter_map(|number| accumulators.get(*number))
                .map(|aggregate| &*aggregate.name)
                .collect();
            title.push_str(&format!("{shown} of {rows} rows"));
            if !names.is_empty() {
                title.push_str(&format!(", largest by {}", names.join(" + ")));
            }
        }
        if results.left_out > 0 {
            let left_out = human::count(results.left_out as i128);
            title.push_str(&format!(" ({left_out} small ones were let go and may be incomplete)"));
        }
        title.push_str(&format!("; window {}\n", stage.window));
        title
    }

    fn text(&self, results: &Results, settings: TableSettings) -> String {
        let sorted = self.sorted(results);
        let shown = sorted.get(..settings.rows).unwrap_or(&sorted);
        let mut columns = Vec::new();
        if self.stage.window != WindowFn::Global {
            let cells = shown.iter().map(|(identity, _)| human::time(identity.window.start()));
            columns.push(Column::new("from (UTC)", false, cells));
        }
        for (number, field) in self.stage.key.fields().iter().enumerate() {
            let cells = shown.iter().map(|row| self.key_cell(*row, number));
            columns.push(Column::new(&field.name, field.ty.is_numeric(), cells));
        }
        for (number, aggregate) in self.stage.aggregates.accumulators().iter().enumerate() {
            let is_bytes = aggregate.name.contains("bytes");
            let cells = shown.iter().map(|(_, values)| {
                match self.stage.aggregates.own_result(*values, number) {
                    Some(own) => human::own_result(&own),
                    None => {
                        let datum = self.stage.aggregates.finish(*values, number);
                        human::value(datum, is_bytes, self.symbols)
                    }
                }
            });
            let is_number = aggregate.result_type().is_numeric();
            columns.push(Column::new(&aggregate.name, is_number, cells));
        }
        // A column that says nothing takes room from those that do.
        columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
        format!("{}{}\n\n", self.title(results, shown.len()), draw(&columns, settings.width))
    }

    fn key_cell(&self, (identity, _): Row<'_>, number: usize) -> String {
        let Some(field) = self.stage.key.fields().get(number) else { return String::new() };
        let entity = self.stage.top_k.as_ref().map_or(&[][..], |top_k| &top_k.entity);
        if identity.is_other && entity.contains(&number) {
            return "(other)".to_owned();
        }
        match self.stage.key.read(&identity.key, number) {
            // Numbers in keys are names (ports, interfaces), not amounts.
            Datum::Int(name) if field.ty != Type::Big => name.to_string(),
            datum => human::value(datum, false, self.symbols),
        }
    }
}

/// One column of a table.
struct Column {
    name: String,
    is_number: bool,
    cells: Vec<String>,
}

impl Column {
    fn new(name: &str, is_number: bool, cells: impl Iterator<Item = String>) -> Self {
        Self { name: name.to_owned(), is_number, cells: cells.collect() }
    }

    fn alignment(&self) -> CellAlignment {
        if self.is_number { CellAlignment::Right } else { CellAlignment::Left }
    }
}

fn draw(columns: &[Column], width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).force_no_tty();
    if let Some(width) = width {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    let cell = |text: &str, column: &Column| Cell::new(text).set_alignment(column.alignment());
    table.set_header(columns.iter().map(|column| cell(&column.name, column)));
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        table.add_row(
            columns
                .iter()
                .map(|column| cell(column.cells.get(row).map_or("", |text| text), column)),
        );
    }
    table
}
