//! Sources that are left somewhere and opened again at their position: what they give then is what
//! they would have given, and everything is counted once.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use nilometer_connectors::flow_files::{FlowFiles, FlowFilesSettings, FlowFormat};
use nilometer_connectors::flow_intake::{FlowContext, FlowIntake};
use nilometer_connectors::generator::{GeneratorSettings, GeneratorSource};
use nilometer_connectors::netflow::DecoderSettings;
use nilometer_connectors::source::{Polled, Source, SourceError, State};
use nilometer_connectors::text::{
    RecordField, RecordSchema, TextFiles, TextFormat, TextSettings, TimeUnit,
};
use nilometer_model::invariant::POS_1;
use nilometer_model::row::{Field, Position, RowLayout};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::Type;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/flows/");

type Opener<'a> = &'a dyn Fn() -> Box<dyn Source>;

/// A record: its time, its position, and its row.
type Seen = (EventTime, Position, Box<[u64]>);

fn records(out: &Polled) -> Vec<Seen> {
    let one =
        |index| (out.batch.time(index), out.batch.position(index), Box::from(out.batch.row(index)));
    (0..out.batch.len()).map(one).collect()
}

/// Polls once; how many records it may give changes from poll to poll.
fn poll(source: &mut dyn Source, polls: usize, out: &mut Polled) -> State {
    source.poll([1, 7, 2, 5][polls % 4], out).unwrap()
}

/// Leaves the source behind every poll, in turn, and reads the rest of its input by another.
fn check(open: Opener<'_>, layout: &Arc<RowLayout>, places: usize) {
    let polled = || Polled::new(layout.clone(), true);
    let (mut source, mut whole) = (open(), polled());
    let mut polls = 0;
    while poll(&mut *source, polls, &mut whole) == State::More {
        polls += 1;
    }
    let all = records(&whole);
    assert!(all.len() > 20 && polls > 10, "{} records, {polls} polls", all.len());
    for cut in (0..=polls + 1).step_by((polls / places).max(1)) {
        let (mut source, mut out) = (open(), polled());
        for polls in 0..cut {
            poll(&mut *source, polls, &mut out);
        }
        let position = source.position();
        assert!(position.is_exact);
        let (mut other, given) = (open(), records(&out));
        other.resume(&position.bytes).unwrap();
        let mut rest = polled();
        // What an actor stores beside the position.
        rest.account = out.account.clone();
        let mut polls = cut;
        while poll(&mut *other, polls, &mut rest) == State::More {
            polls += 1;
        }
        let seen = [given, records(&rest)].concat();
        assert!(seen == all, "{POS_1} behind poll {cut}: {} of {}", seen.len(), all.len());
        assert_eq!(rest.account, whole.account, "behind poll {cut}");
        assert_eq!(other.progress(), source_end(open), "behind poll {cut}");
        let letters = out.letters.len() + rest.letters.len();
        assert_eq!(letters, whole.letters.len(), "behind poll {cut}");
    }
}

fn source_end(open: Opener<'_>) -> Option<nilometer_connectors::source::Progress> {
    open()
        .progress()
        .map(|progress| nilometer_connectors::source::Progress { done: progress.total, ..progress })
}

fn layout() -> Arc<RowLayout> {
    Arc::new(RowLayout::new([Field::new("k", Type::Text), Field::new("v", Type::I64)]))
}

fn schema() -> RecordSchema {
    let field = |name: &str, ty| RecordField { name: name.into(), from: name.into(), ty };
    RecordSchema {
        time: "t".into(),
        time_unit: TimeUnit::Millis,
        fields: vec![field("k", Type::Text), field("v", Type::I64)],
    }
}

fn text_files(
    paths: &[PathBuf],
    format: TextFormat,
    layout: &Arc<RowLayout>,
    symbols: &Arc<Symbols>,
) -> Result<Box<dyn Source>, SourceError> {
    let settings =
        TextSettings { paths: paths.to_vec(), format, line_bytes_max: 5_000, partition: 3 };
    Ok(Box::new(TextFiles::open(settings, layout, symbols.clone())?))
}

fn pack(name: &str, text: &str) -> Vec<u8> {
    if name.ends_with("gz") {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        return packer.finish().unwrap();
    }
    if name.ends_with("zst") { zstd::encode_all(text.as_bytes(), 3).unwrap() } else { text.into() }
}

#[test]
fn lines_of_json() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (file, name) in ["a.ndjson", "b.ndjson.gz", "empty", "c.ndjson.zst"].iter().enumerate() {
        let mut text = "\u{feff}".to_owned();
        for line in 0..if *name == "empty" { 0 } else { 40 } {
            text += &match line % 10 {
                3 => "\n \r\n".to_owned(),
                7 => "{\"t\":1,\"k\":5}\r\n".to_owned(),
                8 => format!("{{\"t\":1,\"k\":\"{}\"}}\n", "x".repeat(6_000)),
                _ => format!("{{\"t\":{line},\"k\":\"k{}\",\"v\":{file}}}\n", line % 5),
            };
        }
        text += "{\"t\":99,\"k\":\"the end\",\"v\":1}";
        paths.push(directory.path().join(name));
        fs::write(&paths[file], pack(name, &text)).unwrap();
    }
    let (layout, symbols) = (layout(), Arc::new(Symbols::default()));
    let open = || text_files(&paths, TextFormat::Ndjson(schema()), &layout, &symbols).unwrap();
    check(&open, &layout, 100);
}

#[test]
fn rows_of_csv_under_their_headers() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (file, name) in ["a.csv", "useless.csv", "b.csv.gz"].iter().enumerate() {
        let mut text = match file {
            0 => "\u{feff}t,k,v\r\n",
            1 => "t,k\n",
            _ => "\n\nv,\"k\",t\n",
        }
        .to_owned();
        for line in 0..40 {
            text += &match line % 8 {
                2 => "\r\n\n".to_owned(),
                4 => format!("{line},\"a \"\"quoted\"\"\r\ntext\nof lines\",{line}\r\n"),
                6 => "1,2,3,4\n".to_owned(),
                _ => format!("{line},k{},{line}\r\n", line % 5),
            };
        }
        paths.push(directory.path().join(name));
        fs::write(&paths[file], pack(name, &text)).unwrap();
    }
    let (layout, symbols) = (layout(), Arc::new(Symbols::default()));
    let format = TextFormat::Csv { schema: schema(), delimiter: b',' };
    let open = || text_files(&paths, format.clone(), &layout, &symbols).unwrap();
    check(&open, &layout, 100);
}

fn flow_layout() -> Arc<RowLayout> {
    let fields = [
        Field::new("num_bytes", Type::U64),
        Field::new("exporter_address", Type::Ip),
        Field::new("application", Type::Text),
    ];
    Arc::new(RowLayout::new(fields))
}

#[test]
fn captures_with_what_their_exporters_have_told() {
    let (layout, symbols) = (flow_layout(), Arc::new(Symbols::default()));
    // Templates, samplers that are described late, and sequence numbers, over several files.
    let paths: Vec<_> = [
        "softflowd-exports/ndpi-1kxun.v9-sampled10.pcap",
        "python-netflow/PACKET_V9_TEMPLATE-0.bin",
        "python-netflow/PACKETS_V9-0.bin",
        "graylog/nprobe-netflow9-3.pcap",
        "softflowd-exports/ndpi-1kxun.ipfix-biflow.pcap",
        "softflowd-exports/ndpi-1kxun.v9.pcap",
        "tcpdump/sflow-print-v6.pcap",
    ]
    .iter()
    .map(|name| Path::new(DATA).join(name))
    .collect();
    for decoder in [DecoderSettings::BOUNDED, DecoderSettings::LIVE] {
        let open = || -> Box<dyn Source> {
            let settings = FlowFilesSettings {
                paths: paths.clone(),
                format: FlowFormat::Either,
                exporter: FlowFilesSettings::EXPORTER,
                decoder,
                context: FlowContext::default(),
                partition: 0,
            };
            Box::new(FlowFiles::open(settings, &layout, symbols.clone()).unwrap())
        };
        check(&open, &layout, 40);
    }
}

#[test]
fn generated_flows() {
    let (layout, symbols) = (flow_layout(), Arc::new(Symbols::default()));
    let open = || -> Box<dyn Source> {
        let settings = GeneratorSettings { records: Some(2_000), ..GeneratorSettings::default() };
        let intake = FlowIntake::new(FlowContext::default(), &layout, symbols.clone(), 0);
        Box::new(GeneratorSource::new(settings, intake))
    };
    check(&open, &layout, 20);
}

#[test]
fn a_file_that_has_become_shorter_is_an_error_with_a_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.ndjson");
    fs::write(&path, "{\"t\":1,\"k\":\"a\",\"v\":1}\n".repeat(10)).unwrap();
    let (layout, symbols) = (layout(), Arc::new(Symbols::default()));
    let open = || {
        let paths = std::slice::from_ref(&path);
        text_files(paths, TextFormat::Ndjson(schema()), &layout, &symbols).unwrap()
    };
    let (mut source, mut out) = (open(), Polled::new(layout.clone(), true));
    source.poll(5, &mut out).unwrap();
    let position = source.position();
    fs::write(&path, "{\"t\":1,\"k\":\"a\",\"v\":1}\n").unwrap();
    let error = open().resume(&position.bytes).unwrap_err().to_string();
    assert!(error.contains("a.ndjson`: it ends before byte 110, up to which"), "{error}");
    assert!(error.ends_with("or delete the state directory to start anew"), "{error}");
    let error = open().resume(b"\xff").unwrap_err().to_string();
    assert!(error.contains("its position is not one of this source"), "{error}");
}
