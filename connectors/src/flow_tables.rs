//! The two tables that the user keeps about flows, as CSV files with a header: who exporters are,
//! and which ports belong to which application.
//!
//! They are configuration, not input: the first mistake is an error that names the file and line.

use nilometer_model::flow::{
    ApplicationRule, Applications, ApplicationsError, ExporterEntry, Exporters, ExportersError,
    Node,
};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlowTableError {
    /// The file cannot be read.
    #[error("cannot read `{path}`: {source}; check that it exists and that you may read it")]
    File {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is no CSV, or its header names other columns.
    #[error("`{path}`: {detail}; the header is `{header}`")]
    Layout {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What is wrong, with the line.
        detail: Box<str>,
        /// The columns that the table has.
        header: &'static str,
    },
    /// A cell that is not what its column holds.
    #[error("`{path}`, line {line}: `{cell}` is no {expected}")]
    Cell {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Line, from 1.
        line: u64,
        /// What stands there.
        cell: Box<str>,
        /// What should stand there.
        expected: &'static str,
    },
    /// The table of exporters contradicts itself.
    #[error("`{path}`: {source}")]
    Exporters {
        /// Path as the user wrote it.
        path: Box<str>,
        /// How.
        source: ExportersError,
    },
    /// The table of applications cannot be used.
    #[error("`{path}`: {source}")]
    Applications {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Why.
        source: ApplicationsError,
    },
}

const EXPORTERS: &str = "address,node_id,foreign_source,foreign_id,sampling";
const APPLICATIONS: &str = "protocol,ports,name";

/// Reads the table of exporters at `path`: `address,node_id,foreign_source,foreign_id,sampling`.
/// Everything but the address may be empty; lines that begin with `#` are comments.
///
/// # Errors
/// The file cannot be read, or a line makes no sense, or lines contradict each other.
pub fn read_exporters(path: &Path) -> Result<Exporters, FlowTableError> {
    let mut entries = Vec::new();
    each_row(path, EXPORTERS, |row| {
        let given = |cell| Some(cell).filter(|cell: &&str| !cell.is_empty());
        entries.push(ExporterEntry {
            address: row.parse(0, "IP address")?,
            node: Node::new(
                row.optional(1, "node number")?.unwrap_or(0),
                given(row.cell(2)),
                given(row.cell(3)),
            ),
            sampling: row.optional(4, "sampling interval")?,
        });
        Ok(())
    })?;
    Exporters::new(entries).map_err(|source| FlowTableError::Exporters { path: name(path), source })
}

/// Reads the rules of applications at `path`: `protocol,ports,name`. The protocol is a number or
/// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`; ports are `80` or `8000-8100`; both may be empty, for
/// any. Lines that begin with `#` are comments.
///
/// # Errors
/// The file cannot be read, or a line makes no sense.
pub fn read_applications(path: &Path) -> Result<Applications, FlowTableError> {
    let mut rules = Vec::new();
    each_row(path, APPLICATIONS, |row| {
        let name = row.cell(2);
        if name.is_empty() {
            return Err(row.misfit(2, "name of an application"));
        }
        let protocol: Option<Protocol> = row.optional(0, "protocol")?;
        let ports: Option<Ports> = row.optional(1, "port or range of ports")?;
        rules.push(ApplicationRule {
            protocol: protocol.map(|protocol| protocol.0),
            ports: ports.map(|ports| ports.0),
            name: name.into(),
        });
        Ok(())
    })?;
    Applications::new(rules)
        .map_err(|source| FlowTableError::Applications { path: name(path), source })
}

fn name(path: &Path) -> Box<str> {
    path.to_string_lossy().into()
}

/// Calls `take` for each row of the table at `path`, whose header must be `header`.
fn each_row(
    path: &Path,
    header: &'static str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), FlowTableError>,
) -> Result<(), FlowTableError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| FlowTableError::File { path: name(path), source })?;
    let layout =
        |detail: String| FlowTableError::Layout { path: name(path), detail: detail.into(), header };
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let found = reader.headers().map_err(|error| layout(error.to_string()))?;
    let found = found.iter().collect::<Vec<_>>().join(",");
    if found != header {
        return Err(layout(format!("its first line is `{found}`")));
    }
    for record in reader.records() {
        let record = record.map_err(|error| layout(error.to_string()))?;
        take(&Row { path, text: &text, record: &record })?;
    }
    Ok(())
}

/// One row of a table.
struct Row<'a> {
    path: &'a Path,
    text: &'a str,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn cell(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("")
    }

    fn parse<T: FromStr>(
        &self,
        column: usize,
        expected: &'static str,
    ) -> Result<T, FlowTableError> {
        self.cell(column).parse().map_err(|_| self.misfit(column, expected))
    }

    fn optional<T: FromStr>(
        &self,
        column: usize,
        expected: &'static str,
    ) -> Result<Option<T>, FlowTableError> {
        if self.cell(column).is_empty() { Ok(None) } else { self.parse(column, expected).map(Some) }
    }

    /// The line of the row. Its position is that of the blank lines and comments before it.
    fn line(&self) -> u64 {
        let Some(position) = self.record.position() else { return 0 };
        let start = usize::try_from(position.byte()).unwrap_or(usize::MAX);
        let rest = self.text.get(start..).unwrap_or("");
        let is_skipped = |line: &&str| line.trim().is_empty() || line.starts_with('#');
        position.line() + rest.lines().take_while(is_skipped).count() as u64
    }

    fn misfit(&self, column: usize, expected: &'static str) -> FlowTableError {
        FlowTableError::Cell {
            path: name(self.path),
            line: self.line(),
            cell: self.cell(column).into(),
            expected,
        }
    }
}

/// An IP protocol by number or name.
pub(crate) struct Protocol(pub(crate) u8);

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = match text.to_ascii_lowercase().as_str() {
            "icmp" => 1,
            "igmp" => 2,
            "ipencap" | "ipip" => 4,
            "tcp" => 6,
            "udp" => 17,
            "ipv6" => 41,
            "gre" => 47,
            "esp" => 50,
            "ah" => 51,
            "icmpv6" | "ipv6-icmp" => 58,
            "ospf" => 89,
            "pim" => 103,
            "vrrp" => 112,
            "sctp" => 132,
            number => number.parse().map_err(drop)?,
        };
        Ok(Self(number))
    }
}

/// One port or a range of them.
struct Ports(RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let port = |text: &str| text.trim().parse::<u16>().map_err(drop);
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        };
        if first <= last { Ok(Self(first..=last)) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file<T>(content: &str, read: impl Fn(&Path) -> T) -> T {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.csv");
        std::fs::write(&path, content).unwrap();
        read(&path)
    }

    #[test]
    fn exporters_are_read() {
        let table = "\
            # who is who\n\
            address,node_id,foreign_source,foreign_id,sampling\n\
            192.0.2.1, 7, FS,\"R,7\", 100\n\
            2001:db8::1,,,,\n";
        let exporters = with_file(table, read_exporters).unwrap();
        let known = exporters.get("192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(known.node, Node::new(7, Some("FS"), Some("R,7")));
        assert_eq!(known.sampling, Some(100.0));
        let bare = exporters.get("2001:db8::1".parse().unwrap()).unwrap();
        assert_eq!((&bare.node, bare.sampling), (&Node::default(), None));
    }

    #[test]
    fn applications_are_read() {
        let table = "protocol,ports,name\ntcp,80,http\n17,5000-5010,game\n,53,dns\nICMP,,ping\n";
        let table = with_file(table, read_applications).unwrap();
        for (protocol, port, name) in [
            (6, 80, Some("http")),
            (17, 5010, Some("game")),
            (132, 53, Some("dns")),
            (1, 9, Some("ping")),
            (17, 80, None),
        ] {
            let found = table.find(Some(protocol), Some(port), None).map(|name| &**name);
            assert_eq!(found, name, "{protocol} {port}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let exporters = |content: &str| with_file(content, read_exporters).unwrap_err().to_string();
        let rules = |content: &str| with_file(content, read_applications).unwrap_err().to_string();
        for (error, expected) in [
            (exporters(&format!("{EXPORTERS}\nhere,1,,,\n")), "line 2: `here` is no IP address"),
            (exporters(&format!("{EXPORTERS}\n\n::1,-1,,,\n")), "line 3: `-1` is no node number"),
            (exporters(&format!("{EXPORTERS}\n::1,1,,,x\n")), "`x` is no sampling interval"),
            (exporters(&format!("{EXPORTERS}\n::1,1\n")), "found record with 2 fields"),
            (exporters("address,node\n"), "its first line is `address,node`; the header is"),
            (exporters(&format!("{EXPORTERS}\n::1,1,,,0\n")), "not a finite number above zero"),
            (rules(&format!("{APPLICATIONS}\nxyz,80,a\n")), "line 2: `xyz` is no protocol"),
            (rules(&format!("{APPLICATIONS}\n6,9-8,a\n")), "`9-8` is no port or range of ports"),
            (rules(&format!("{APPLICATIONS}\n6,65536,a\n")), "`65536` is no port"),
            (rules(&format!("{APPLICATIONS}\n6,80,\n")), "`` is no name of an application"),
            (
                read_exporters(Path::new("no/such.csv")).unwrap_err().to_string(),
                "cannot read `no/such.csv`",
            ),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }
}
