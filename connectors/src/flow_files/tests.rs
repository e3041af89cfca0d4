//! Flow files as users have them: whole, cut, of the wrong kind.

use super::*;
use nilometer_model::row::{Field, read};
use nilometer_model::value::Type;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/flows/");

fn open(paths: &[&Path], format: FlowFormat) -> Result<(FlowFiles, Polled), SourceError> {
    let fields = [Field::new("num_bytes", Type::U64), Field::new("exporter_address", Type::Ip)];
    let layout = Arc::new(RowLayout::new(fields));
    let settings = FlowFilesSettings {
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        format,
        exporter: FlowFilesSettings::EXPORTER,
        decoder: DecoderSettings::BOUNDED,
        context: FlowContext::default(),
        partition: 0,
    };
    let source = FlowFiles::open(settings, &layout, Arc::new(Symbols::default()))?;
    Ok((source, Polled::new(layout, true)))
}

/// Polls to the end, some records at a time.
fn poll(source: &mut FlowFiles, out: &mut Polled) {
    while source.poll(10, out).unwrap() == State::More {
        let Progress { done, total } = source.progress().unwrap();
        assert!(done <= total);
    }
    let Progress { done, total } = source.progress().unwrap();
    assert_eq!(done, total);
}

fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}

#[test]
fn captures_and_datagrams_become_records() {
    let capture = data("softflowd-exports/ndpi-1kxun.v5.pcap");
    let single = data("goflow2/TestDecodeNetFlowV5-0.bin");
    let templates = data("python-netflow/PACKET_V9_TEMPLATE-0.bin");
    let records = data("python-netflow/PACKETS_V9-0.bin");
    for (paths, format, read, datagrams) in [
        (vec![&capture], FlowFormat::Capture, 272, 10),
        (vec![&single, &single], FlowFormat::Datagram, 12, 2),
        (vec![&capture, &single], FlowFormat::Either, 278, 11),
        // The templates of one file hold for the next.
        (vec![&templates, &records], FlowFormat::Datagram, 20, 2),
    ] {
        let paths: Vec<_> = paths.iter().map(|path| path.as_path()).collect();
        let (mut source, mut out) = open(&paths, format).unwrap();
        poll(&mut source, &mut out);
        assert_eq!((out.account.read, out.batch.len() as u64), (read, read), "{paths:?}");
        assert_eq!(out.account.datagrams.read, datagrams);
        assert_eq!(out.account.datagrams.no_template, 0);
        assert_eq!(out.notices, [""; 0]);
    }
    // Not the other way round: what came before its template is counted, not read.
    let (mut source, mut out) = open(&[&records, &templates], FlowFormat::Datagram).unwrap();
    poll(&mut source, &mut out);
    assert_eq!((out.account.read, out.account.datagrams.no_template), (8, 1));
}

#[test]
fn the_exporter_of_a_single_datagram_is_as_set() {
    let single = data("goflow2/TestDecodeNetFlowV5-0.bin");
    let (mut source, mut out) = open(&[&single], FlowFormat::Datagram).unwrap();
    poll(&mut source, &mut out);
    let slot = out.batch.layout().slot("exporter_address").unwrap();
    let symbols = Symbols::default();
    let mut text = String::new();
    read(out.batch.row(0), slot).value(&symbols).write_json(&mut text);
    assert_eq!(text, "\"192.0.2.1\"");
}

#[test]
fn a_file_that_is_not_whole_gives_what_it_holds_and_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    let whole = std::fs::read(data("softflowd-exports/ndpi-1kxun.v5.pcap")).unwrap();
    let packed = std::fs::read(data("netflow_parser/IPFIX.pcap.gz")).unwrap();
    let single = std::fs::read(data("goflow2/TestDecodeNetFlowV5-0.bin")).unwrap();
    for (content, least, most, notice) in [
        (&whole[..whole.len() - 1], 250, 271, Some("it ends within a packet; the 9 datagrams")),
        (&packed[..packed.len() / 2], 15_000, 45_000, Some("it ends within a packet")),
        (&single[..single.len() - 1], 5, 5, None),
    ] {
        let path = directory.path().join("file");
        std::fs::write(&path, content).unwrap();
        let (mut source, mut out) = open(&[&path], FlowFormat::Either).unwrap();
        while source.poll(1_000, &mut out).unwrap() == State::More {}
        assert!((least..=most).contains(&out.account.read), "{}", out.account.read);
        assert_eq!(out.notices.len(), usize::from(notice.is_some()));
        assert_eq!(out.account.marks.get(TRUNCATED_INPUT), out.notices.len() as u64);
        match notice {
            Some(notice) => assert!(out.notices[0].contains(notice), "{}", out.notices[0]),
            // A datagram that is cut is no damage of its file.
            None => assert_eq!(out.account.datagrams.malformed, 1),
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.pcap");
    let text = directory.path().join("text.pcap");
    std::fs::write(&text, "not a capture").unwrap();
    for (path, message) in [
        (
            &missing,
            "cannot read `{}`: No such file or directory (os error 2); check that it exists and that you may read it",
        ),
        (
            &text,
            "`{}` is no capture: it begins with 6e6f7420, and a capture (pcap or pcapng) does not; a file that is the content of one datagram has format = \"datagram\"",
        ),
    ] {
        let good = data("softflowd-exports/ndpi-1kxun.v5.pcap");
        let error = open(&[&good, path], FlowFormat::Capture).unwrap_err();
        assert_eq!(error.to_string(), message.replace("{}", &path.to_string_lossy()));
    }
    // As a datagram it is malformed, which is counted.
    let (mut source, mut out) = open(&[&text], FlowFormat::Either).unwrap();
    poll(&mut source, &mut out);
    assert_eq!((out.account.read, out.account.datagrams.malformed), (0, 1));
}

#[test]
fn flows_that_cannot_be_used_are_dead_letters() {
    let directory = tempfile::tempdir().unwrap();
    // Two flows of 2^63 bytes, sampled 1 : 2^40.
    let template = [0, 0, 0, 16, 1, 0, 0, 2, 0, 1, 0, 8, 0, 34, 0, 6];
    let mut record = (1u64 << 63).to_be_bytes().to_vec();
    record.extend([1, 0, 0, 0, 0, 0]);
    let data = [vec![1, 0, 0, 32], record.repeat(2)].concat();
    let header = [0, 9, 0, 3, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let path = directory.path().join("datagram");
    std::fs::write(&path, [&header[..], &template, &data].concat()).unwrap();
    let (mut source, mut out) = open(&[&path], FlowFormat::Datagram).unwrap();
    poll(&mut source, &mut out);
    assert_eq!((out.account.read, out.batch.len()), (2, 0));
    assert_eq!(out.account.dead_lettered.get("amount_too_large"), 2);
    let mut letters = String::new();
    out.letters.iter().for_each(|letter| letter.write_json(&mut letters));
    let detail = "9223372036854775808 bytes with sampling interval 1099511627776 are more than 2^100: check the sampling";
    assert_eq!(letters.matches(detail).count(), 2, "{letters}");
    assert!(letters.contains("\"packet\":1"), "{letters}");
}
