//! Text files from bytes on the disk to rows: what is a record, what is rejected and why.

use super::*;
use nilometer_model::row::{Field, RowBatch, read};
use nilometer_model::value::Type;
use proptest::prelude::*;
use std::io::Write;

/// What came out of a source: rows as (line of) JSON values, and the account.
pub(super) struct Outcome {
    pub(super) rows: Vec<String>,
    pub(super) out: Polled,
    polls: usize,
}

pub(super) fn layout(fields: &[(&str, Type)]) -> Arc<RowLayout> {
    Arc::new(RowLayout::new(fields.iter().map(|(name, ty)| Field::new(name, *ty))))
}

fn schema(fields: &[(&str, Type, &str)]) -> RecordSchema {
    let field = |(name, ty, from): &(&str, Type, &str)| RecordField {
        name: (*name).into(),
        ty: *ty,
        from: (*from).into(),
    };
    RecordSchema {
        time: "ts".into(),
        time_unit: TimeUnit::Millis,
        fields: fields.iter().map(field).collect(),
    }
}

/// Reads `files` to their end, `records_max` records a poll.
pub(super) fn run(
    files: &[&[u8]],
    format: TextFormat,
    layout: &Arc<RowLayout>,
    (records_max, keeps_letters): (usize, bool),
) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (number, content) in files.iter().enumerate() {
        let path = directory.path().join(format!("{number}.txt"));
        std::fs::write(&path, content).unwrap();
        paths.push(path);
    }
    let symbols = Arc::new(Symbols::default());
    let settings = TextSettings { paths, format, line_bytes_max: 2000, partition: 2 };
    let mut source = TextFiles::open(settings, layout, symbols.clone()).unwrap();
    let mut out = Polled::new(layout.clone(), keeps_letters);
    let mut polls = 1;
    while source.poll(records_max, &mut out).unwrap() != State::End {
        polls += 1;
    }
    let total: usize = files.iter().map(|content| content.len()).sum();
    let progress = source.progress().unwrap();
    assert_eq!(progress.total, total as u64);
    assert!(progress.done <= progress.total);
    let rows = (0..out.batch.len()).map(|index| row_text(&out.batch, index, &symbols)).collect();
    assert_eq!(out.account.in_flight(), Some(out.batch.len() as u64), "{:?}", out.account);
    Outcome { rows, out, polls }
}

/// The time and the values of a row.
pub(super) fn row_text(batch: &RowBatch, index: usize, symbols: &Symbols) -> String {
    let mut text = batch.time(index).to_string();
    for slot in batch.layout().slots() {
        text.push(' ');
        read(batch.row(index), *slot).value(symbols).write_json(&mut text);
    }
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn ndjson() -> (TextFormat, Arc<RowLayout>) {
    let fields = [
        ("k", Type::Text, "k"),
        ("v", Type::U8, "v"),
        ("host", Type::Ip, "src.host"),
        ("unread", Type::Bool, "unread"),
    ];
    let layout = layout(&[("k", Type::Text), ("v", Type::U8), ("host", Type::Ip)]);
    (TextFormat::Ndjson(schema(&fields)), layout)
}

#[test]
fn lines_of_json_become_rows_or_are_rejected_with_the_reason() {
    let (format, layout) = ndjson();
    let long = format!("{{\"ts\":1,\"k\":\"{}\"}}", "x".repeat(10 << 20));
    for (line, row, reason, detail) in [
        (
            r#"{"ts":5,"k":"a","v":7,"src":{"host":"10.0.0.1","x":[{}]},"other":null}"#,
            Some("5 \"a\" 7 \"10.0.0.1\""),
            "",
            "",
        ),
        (r#"{"ts":-5,"src.host":"::1","unread":17}"#, Some("-5 null null \"::1\""), "", ""),
        (r#"{"ts":5,"k":null,"v":null,"src":null}"#, Some("5 null null null"), "", ""),
        (r#"{"ts":5,"src":"10.0.0.1"}"#, Some("5 null null null"), "", ""),
        (r#"{"ts":5,"v":1,"v":2}"#, Some("5 null 2 null"), "", ""),
        (r#"{"k":"a"}"#, None, "missing_time", "`ts` is missing or null"),
        (r#"{"ts":null}"#, None, "missing_time", "`ts` is missing or null"),
        (r#"{"ts":"5"}"#, None, "wrong_type", "`ts` is no time: \"5\""),
        (r#"{"ts":9e99}"#, None, "out_of_range", "`ts` is no time: 9e99"),
        (r#"{"ts":5,"v":256}"#, None, "out_of_range", "`v` is no u8: 256"),
        (r#"{"ts":5,"v":-1}"#, None, "out_of_range", "`v` is no u8: -1"),
        (r#"{"ts":5,"v":"7"}"#, None, "wrong_type", "`v` is no u8: \"7\""),
        (r#"{"ts":5,"v":1.5}"#, None, "wrong_type", "`v` is no u8: 1.5"),
        (r#"{"ts":5,"k":{"a":1}}"#, None, "wrong_type", "`k` is no text: {\"a\":1}"),
        (r#"{"ts":5,"k":"\udc00"}"#, None, "not_json", "`k` is no text: \"\\udc00\""),
        (r#"{"v":256,"k":1}"#, None, "out_of_range", "`v` is no u8: 256"),
        (r#"{"ts":5,"src":{"host":"h"}}"#, None, "wrong_type", "`src.host` is no ip: \"h\""),
        ("hello", None, "not_json", "expected value at line 1 column 1"),
        (r#"{"ts":5} {"ts":6}"#, None, "not_json", "trailing characters at line 1 column 10"),
        (r#"{"ts":5,"v":256"#, None, "not_json", "EOF while parsing an object at line 1 column 15"),
        ("[5]", None, "not_json", "invalid type: sequence, expected an object at line 1 column 0"),
        (&long, None, "too_long", "beyond `line_max`"),
    ] {
        // Between two good lines, so that a bad one is seen to harm nobody.
        let content = format!("{{\"ts\":1}}\n{line}\n{{\"ts\":2}}\n");
        let outcome = run(&[content.as_bytes()], format.clone(), &layout, (100, true));
        let mut expected = vec!["1 null null null", "2 null null null"];
        if let Some(row) = row {
            expected.insert(1, row);
        }
        assert_eq!(outcome.rows, expected, "{line:.100}");
        let letters = format!("{:?}", outcome.out.letters);
        let reasons = outcome.out.account.dead_lettered.sorted();
        match row {
            Some(_) => assert_eq!((reasons, letters), (vec![], "[]".to_owned())),
            None => {
                assert_eq!(reasons, [(reason, 1)], "{line:.100}");
                let mut json = String::new();
                outcome.out.letters[0].write_json(&mut json);
                let letter: serde_json::Value = serde_json::from_str(&json).unwrap();
                assert_eq!((&letter["line"], &letter["detail"]), (&2.into(), &detail.into()));
                assert_eq!(letter["bytes"], line.len());
                assert!(line.starts_with(letter["raw"].as_str().unwrap()));
            }
        }
    }
}

#[test]
fn the_end_of_a_file_may_cut_a_line() {
    let (format, layout) = ndjson();
    for (content, rows, reasons) in [
        (&b"{\"ts\":1}\n{\"ts\":2}"[..], 2, vec![]),
        (b"{\"ts\":1}\r\n\r\n  \n{\"ts\":2}\r\n", 2, vec![]),
        (b"{\"ts\":1}\n{\"ts\":2,\"k\":\"a", 1, vec![("cut_short", 1)]),
        (b"{\"ts\":1}\n{\"ts\":2,\"k\":\"\xC3", 1, vec![("cut_short", 1)]),
        (b"{\"ts\":1}\n{\"ts\":2,\"k\":\"a\n", 1, vec![("not_json", 1)]),
        (b"{\"ts\":1,\"k\":\"\xff\"}\n{\"ts\":2}", 1, vec![("not_utf8", 1)]),
        (b"{\"ts\":1,\"k\":\"\xC3\n{\"ts\":2}", 1, vec![("not_utf8", 1)]),
        (b"\xEF\xBB\xBF{\"ts\":1}", 1, vec![]),
        (b"", 0, vec![]),
    ] {
        let outcome = run(&[content], format.clone(), &layout, (100, false));
        assert_eq!(outcome.rows.len(), rows, "{}", String::from_utf8_lossy(content));
        assert_eq!(outcome.out.account.malformed.sorted(), reasons);
        assert!(outcome.out.letters.is_empty() && outcome.out.notices.is_empty());
    }
}

#[test]
fn packed_files_are_read_and_the_beginning_of_a_damaged_one() {
    let (format, layout) = ndjson();
    let text: String =
        (0..20_000).map(|ts| format!("{{\"ts\":{ts},\"k\":\"{}\"}}\n", ts % 997)).collect();
    let packed = gzip(text.as_bytes());
    let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let whole = run(&[&packed, &zstd, text.as_bytes()], format.clone(), &layout, (999, false));
    assert_eq!(whole.rows.len(), 60_000);
    assert!(whole.polls > 60, "{} polls", whole.polls);
    assert!(whole.out.notices.is_empty());
    for half in [&packed[..packed.len() / 2], &zstd[..zstd.len() / 2]] {
        // The file after a damaged one is read.
        let outcome = run(&[half, b"{\"ts\":7}"], format.clone(), &layout, (999, false));
        let account = &outcome.out.account;
        assert!(outcome.rows.len() > 1_000, "{} rows", outcome.rows.len());
        let rows = outcome.rows.len() - 1;
        assert_eq!(outcome.rows[rows], "7 null null null");
        assert_eq!(outcome.rows[..rows], whole.rows[..rows]);
        assert_eq!(account.marks.sorted(), [("truncated_input", 1)]);
        assert!(account.malformed.total() <= 1, "{account:?}");
        let notice = &outcome.out.notices[0];
        assert!(notice.contains("0.txt` is not whole: it ends early"), "{notice}");
    }
}

#[test]
fn how_polls_are_cut_changes_nothing() {
    let (format, layout) = ndjson();
    let content = "{\"ts\":1}\nx\n{\"ts\":2,\"v\":3}\n\n{\"ts\":4,\"v\":300}\n{\"ts\":5}";
    let whole = run(&[content.as_bytes()], format.clone(), &layout, (100, true));
    let single = run(&[content.as_bytes()], format, &layout, (1, true));
    assert_eq!(whole.rows, single.rows);
    assert_eq!(whole.out.letters.len(), single.out.letters.len());
    assert_eq!(whole.out.account, single.out.account);
    assert_eq!((whole.polls, single.polls), (1, 6));
    let offsets: Vec<_> = (0..3).map(|index| single.out.batch.position(index).offset).collect();
    assert_eq!(offsets, [0, 2, 4]);
    assert_eq!(single.out.batch.position(0).partition, 2);
}

#[test]
fn rows_of_csv_become_rows_or_are_rejected_with_the_reason() {
    let fields = [("k", Type::Text, "name"), ("v", Type::U16, "count")];
    let layout = layout(&[("v", Type::U16), ("k", Type::Text)]);
    let format = |delimiter| TextFormat::Csv { schema: schema(&fields), delimiter };
    for (content, rows, reasons) in [
        (&b"name,ts,count,x\na,1,2,\nb,3,,z"[..], vec!["1 2 \"a\"", "3 null \"b\""], vec![]),
        (
            b"\xEF\xBB\xBFts,name,count\r\n1,\"a,\"\"b\"\"\r\nc\",2\r\n\r\n3,\"\",4\r\n",
            vec!["1 2 \"a,\\\"b\\\"\\r\\nc\"", "3 4 null"],
            vec![],
        ),
        (b"ts,name,count\n1,a\n2,b,3\n4,c,5,6\n", vec!["2 3 \"b\""], vec![("wrong_columns", 2)]),
        (
            b"ts,name,count\n,a,1\nx,b,2\n3,c,-1\n4,d,70000\n5,e,f\n6,g,7\n",
            vec!["6 7 \"g\""],
            vec![("missing_time", 1), ("out_of_range", 2), ("wrong_type", 2)],
        ),
        (b"ts,name,count\n1,\xff,2\n3,a,4\n", vec!["3 4 \"a\""], vec![("not_utf8", 1)]),
        (b"ts,name\n1,a\n2,b\n", vec![], vec![("missing_column", 2)]),
        (b"ts,\xff,count\n1,a,2\n", vec![], vec![("not_utf8", 1)]),
        (b"ts,name,count\n", vec![], vec![]),
        (b"", vec![], vec![]),
        (b"ts;name;count\n1;a;2\n", vec![], vec![("missing_column", 1)]),
        // Behind a blank line it is no mark of the file, however the bytes come.
        (b"\n\xEF\xBB\xBFts,name,count\n1,a,2\n", vec![], vec![("missing_column", 1)]),
    ] {
        let shown = String::from_utf8_lossy(content);
        for (file, records_max) in
            [(content.to_vec(), 1), (content.to_vec(), 100), (gzip(content), 100)]
        {
            let outcome = run(&[&file], format(b','), &layout, (records_max, false));
            assert_eq!(outcome.rows, rows, "{shown}");
            assert_eq!(outcome.out.account.malformed.sorted(), reasons, "{shown}");
        }
    }
    let outcome = run(&[b"ts;name;count\n1;a;2\n"], format(b';'), &layout, (9, false));
    assert_eq!(outcome.rows, ["1 2 \"a\""]);
}

#[test]
fn a_csv_quote_that_is_not_closed_fills_no_memory() {
    let layout = layout(&[("k", Type::Text)]);
    let schema = schema(&[("k", Type::Text, "k")]);
    let format = TextFormat::Csv { schema, delimiter: b',' };
    let mut content = b"ts,k\n1,a\n2,\"b\n".to_vec();
    content.extend_from_slice("3,c\n".repeat(1_300_000).as_bytes());
    let outcome = run(&[&content, b"k,ts\nd,4\n"], format.clone(), &layout, (100, true));
    assert_eq!(outcome.rows, ["1 \"a\"", "4 \"d\""]);
    assert_eq!(outcome.out.account.dead_lettered.sorted(), [("too_long", 1)]);
    assert!(outcome.polls > 2, "a poll is bounded: {}", outcome.polls);
    let mut letter = String::new();
    outcome.out.letters[0].write_json(&mut letter);
    assert!(letter.contains("\"line\":3,") && letter.len() < 4_000, "{letter}");

    let wide = format!("ts,k\n{}\n5,e\n", ",".repeat(100_000));
    let outcome = run(&[wide.as_bytes()], format, &layout, (100, false));
    assert_eq!(outcome.rows, ["5 \"e\""]);
    assert_eq!(outcome.out.account.malformed.sorted(), [("too_long", 1)]);
}

#[test]
fn the_last_row_of_a_damaged_csv_file_is_not_believed() {
    let layout = layout(&[("v", Type::U64)]);
    let schema = schema(&[("v", Type::U64, "v")]);
    let text: String = (0..20_000u32).map(|v| format!("{v},{}\n", v * 7919)).collect();
    let packed = gzip(format!("ts,v\n{text}").as_bytes());
    let mut cut = 0;
    for bytes in (packed.len() / 2)..(packed.len() / 2 + 10) {
        let format = TextFormat::Csv { schema: schema.clone(), delimiter: b',' };
        let outcome = run(&[&packed[..bytes]], format, &layout, (usize::MAX, false));
        for (number, row) in outcome.rows.iter().enumerate() {
            assert_eq!(*row, format!("{number} {}", number * 7919));
        }
        cut += outcome.out.account.malformed.get("cut_short");
        assert_eq!(outcome.out.account.marks.get(TRUNCATED_INPUT), 1);
    }
    assert!(cut > 0, "no cut fell within a row");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (format, layout) = ndjson();
    for path in [directory.path().join("none.ndjson"), directory.path().to_path_buf()] {
        let settings = TextSettings {
            paths: vec![path.clone()],
            format: format.clone(),
            line_bytes_max: TextSettings::LINE_BYTES_MAX,
            partition: 0,
        };
        let error = TextFiles::open(settings, &layout, Arc::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read `{}`: ", path.display())), "{error}");
        assert!(error.ends_with("check that it exists and that you may read it"), "{error}");
    }
}

/// Bytes that look like text of the formats, with faults.
fn content() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 15] = [
        b"{\"ts\":1,\"k\":\"a\",\"v\":2}",
        b"{\"ts\":",
        b"\"exporter_node\":{\"node_id\":1},\"last_switched\":7}",
        b"}",
        b"\n",
        b"\r\n",
        b"\"",
        b"ts,name,count\n",
        b"1,a,2\n",
        b",",
        b"\\u",
        b"\xEF\xBB\xBF",
        b"\xff",
        b"-9e999999999",
        b" ",
    ];
    let piece = prop::sample::select(&PIECES[..]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_file_holds_every_line_has_one_outcome(content in content(), cut in 1usize..5) {
        let (ndjson, ndjson_layout) = ndjson();
        let fields = [("k", Type::Text, "name"), ("v", Type::U16, "count")];
        let csv = TextFormat::Csv { schema: schema(&fields), delimiter: b',' };
        let csv_layout = layout(&[("k", Type::Text), ("v", Type::U16)]);
        let opennms = TextFormat::Flows(FlowLayout::Opennms, FlowContext::default());
        let flow_layout = layout(&[("bytes", Type::Big), ("exporter", Type::Object)]);
        for (format, layout) in
            [(ndjson, ndjson_layout), (csv.clone(), csv_layout), (opennms, flow_layout)]
        {
            // That every record has one outcome is checked for every run.
            let whole = run(&[&content], format.clone(), &layout, (1_000, false));
            let single = run(&[&content], format.clone(), &layout, (cut, false));
            prop_assert_eq!(&whole.rows, &single.rows);
            prop_assert_eq!(&whole.out.account, &single.out.account);
            if !matches!(format, TextFormat::Csv { .. }) {
                let text = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&content);
                let lines = text.split(|byte| *byte == b'\n');
                let lines = lines.filter(|line| !line.trim_ascii().is_empty()).count();
                prop_assert_eq!(whole.out.account.read, lines as u64);
            }
            // Packed and cut, it gives no row that the whole does not give.
            let packed = gzip(&content);
            let half = run(&[&packed[..packed.len() - 6]], format, &layout, (cut, false));
            prop_assert!(whole.rows.starts_with(&half.rows));
        }
    }
}
