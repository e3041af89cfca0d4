//! Tables for people: a header, a line below it, columns in line.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// A table of `rows` below `header`; the columns `numbers` are set to the right. It ends without a
/// line end.
pub(crate) fn text_table<R: IntoIterator<Item = String>>(
    header: &[&str],
    numbers: &[usize],
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for line in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(line, '─');
    }
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter());
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        if numbers.contains(&number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
