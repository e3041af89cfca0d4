//! Real exports of some forty devices and programs, decoded and summed, against the truth that an
//! independent decoder found (tests/data/flows/truth.json, cross-checked with tshark and nfdump).
//!
//! A session is a list of files, fed in order as one exporter. Records, bytes per group, packets
//! and scaled bytes are exact for all of them.

#![expect(clippy::unwrap_used, reason = "a test: what does not parse fails it")]

use nilometer_connectors::capture::pcap::{Capture, is_capture};
use nilometer_connectors::capture::single::DatagramFile;
use nilometer_connectors::input::Input;
use nilometer_connectors::netflow::{DecoderCounts, DecoderSettings, FlowDecoder};
use nilometer_model::flow::{Applications, Exporters, Flow, FlowSettings, FlowVersion, normalise};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where this decoder says something else than the truth file, and why.
const DEVIATIONS: &[(&str, &str, &str)] = &[
    (
        "telegraf/issue_14370",
        "times",
        "its start and end fields have length zero: they give no time, where the truth has 0",
    ),
    (
        "telegraf/sflow_issue_15918",
        "protocols",
        "one packet has an IPv6 hop-by-hop header: its protocol is the one behind (58), not 0",
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/flows")
}

fn truth() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("truth.json")).unwrap()).unwrap()
}

/// All flows of the files of a session, and what was counted.
fn decode(files: &Value, settings: DecoderSettings) -> (Vec<Flow>, DecoderCounts) {
    let mut decoder = FlowDecoder::new(settings);
    let mut flows = Vec::new();
    for file in files.as_array().unwrap() {
        let path = folder().join(file.as_str().unwrap());
        let mut head = Vec::new();
        Input::open(&path).unwrap().take(4).read_to_end(&mut head).unwrap();
        if is_capture(&head) {
            let mut capture = Capture::new(Input::open(&path).unwrap()).unwrap();
            while let Some(datagram) = capture.next_datagram().unwrap() {
                decoder.decode(datagram, &mut flows);
            }
        } else {
            let file = DatagramFile::read(&path).unwrap();
            decoder.decode(file.datagram("192.0.2.1:0".parse().unwrap()), &mut flows);
        }
    }
    decoder.finish(&mut flows);
    (flows, decoder.counts())
}

/// What the flows of a session sum to.
#[derive(Debug, Default)]
struct Sums {
    /// Records and bytes by exporter, domain and interfaces. Those of sFlow are scaled, as in the
    /// truth file.
    groups: BTreeMap<String, (u64, u128)>,
    packets: u64,
    bytes_scaled: u128,
    protocols: BTreeMap<String, u64>,
    directions: BTreeMap<String, u64>,
    rates: BTreeMap<String, u64>,
    times: BTreeMap<&'static str, i64>,
    notes: BTreeMap<&'static str, u64>,
}

fn text(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn sums(flows: &[Flow]) -> Sums {
    let (exporters, applications) = (Exporters::default(), Applications::default());
    let mut sums = Sums::default();
    for flow in flows {
        let normal = normalise(flow, &exporters, &applications, FlowSettings::default()).unwrap();
        let is_sflow = flow.version == Some(FlowVersion::Sflow);
        let group = format!(
            "{}|{}|in={}|out={}",
            flow.exporter_address.unwrap(),
            flow.domain.unwrap(),
            text(flow.input),
            text(flow.output)
        );
        let (records, bytes) = sums.groups.entry(group).or_default();
        *records += 1;
        *bytes += if is_sflow { normal.bytes } else { flow.bytes.unwrap_or(0).into() };
        sums.packets += flow.packets.unwrap_or(0);
        sums.bytes_scaled += normal.bytes;
        *sums.protocols.entry(text(flow.protocol)).or_default() += 1;
        *sums.rates.entry(normal.sampling_interval.to_string()).or_default() += 1;
        if let Some(direction) = flow.direction.filter(|_| !is_sflow) {
            *sums.directions.entry((direction as u8).to_string()).or_default() += 1;
        }
        for (names, millis) in
            [(["min_first", "max_first"], flow.first_ms), (["min_last", "max_last"], flow.last_ms)]
        {
            let Some(millis) = millis else { continue };
            let [least, most] = names;
            sums.times
                .entry(least)
                .and_modify(|known| *known = millis.min(*known))
                .or_insert(millis);
            sums.times
                .entry(most)
                .and_modify(|known| *known = millis.max(*known))
                .or_insert(millis);
        }
        for (name, is_noted) in normal.notes.named() {
            *sums.notes.entry(name).or_default() += u64::from(is_noted);
        }
    }
    sums
}

/// Each thing in which a session differs from the truth: its name, what is, what should be.
fn differences(
    session: &Value,
    flows: &[Flow],
    counts: DecoderCounts,
) -> Vec<(String, Value, Value)> {
    let sums = sums(flows);
    let groups: BTreeMap<_, _> = sums
        .groups
        .iter()
        .map(|(group, (records, bytes))| (group, json!([records, bytes])))
        .collect();
    let whole = |rates: &Value| {
        let rates = rates.as_object().unwrap().iter();
        let rates =
            rates.map(|(rate, count)| (rate.trim_end_matches(".0").to_owned(), count.clone()));
        Value::Object(rates.collect())
    };
    let mut compared = vec![
        ("records", json!(flows.len()), session["records"].clone()),
        ("options_records", json!(counts.options_records), session["options_records"].clone()),
        ("no_template", json!(counts.no_template), session["missing_sets"].clone()),
        ("groups", json!(groups), session["groups"].clone()),
        ("packets", json!(sums.packets), session["packets"].clone()),
        ("bytes_scaled", json!(sums.bytes_scaled), session["bytes_scaled"].clone()),
        ("rates", json!(sums.rates), whole(&session["rates"])),
        ("protocols", json!(sums.protocols), session["protocols"].clone()),
    ];
    if let Some(directions) = session.get("directions") {
        compared.push(("directions", json!(sums.directions), directions.clone()));
    }
    if let Some(times) = session.get("times") {
        // The truth has no times where it would have to guess when the exporter booted.
        let mine: BTreeMap<_, _> =
            sums.times.iter().filter(|(name, _)| times.get(**name).is_some()).collect();
        compared.push(("times", json!(mine), times.clone()));
    }
    compared.retain(|(_, is, should)| is != should);
    compared.into_iter().map(|(name, is, should)| (name.to_owned(), is, should)).collect()
}

#[test]
fn every_session_is_exact() {
    let truth = truth();
    let sessions = truth["sessions"].as_object().unwrap();
    assert_eq!(sessions.len(), 90);
    let mut excused = Vec::new();
    for (name, session) in sessions {
        let (flows, counts) = decode(&session["files"], DecoderSettings::BOUNDED);
        for (what, is, should) in differences(session, &flows, counts) {
            let deviation =
                DEVIATIONS.iter().find(|(known, thing, _)| *known == name && *thing == what);
            assert!(deviation.is_some(), "{name}: {what} are {is}, not {should}");
            excused.push((name.clone(), what));
        }
    }
    assert_eq!(excused.len(), DEVIATIONS.len(), "an excuse that is not needed: {excused:?}");
}

/// The marks of sessions that have something remarkable: notes about flows, and datagrams of which
/// a part makes no sense.
#[test]
fn what_is_doubtful_is_counted() {
    let truth = truth();
    for (name, expected, malformed) in [
        ("logstash/Netflow 5 invalid 02", vec![("reversed_times", 3)], 1),
        ("logstash/Netflow 9 H3C", vec![("bad_sampling", 16)], 0),
        ("logstash/Netflow 9 Cisco WLC", vec![("substituted_times", 19)], 0),
        ("logstash/Netflow 9 macaddress", vec![("substituted_times", 29)], 0),
        ("telegraf/issue_14370", vec![("substituted_times", 2)], 1),
        ("telegraf/sflow_issue_15918", vec![("substituted_times", 6)], 0),
        ("graylog/netflow-v9-1.dat", vec![], 1),
        ("vflow/ipfix-decoder_test-init-2.bin", vec![], 1),
        ("vflow/ipfix-decoder_test-init-3.bin", vec![], 1),
        ("tcpdump/sflow_print-segv.pcap", vec![], 1),
        ("python-netflow/v9 zeros", vec![], 0),
        ("logstash/Netflow 9 Cisco ACI", vec![], 0),
    ] {
        let (flows, counts) = decode(&truth["sessions"][name]["files"], DecoderSettings::BOUNDED);
        let mut notes = sums(&flows).notes;
        notes.retain(|_, count| *count > 0);
        assert_eq!(notes, expected.into_iter().collect(), "{name}");
        assert_eq!(counts.malformed, malformed, "{name}");
    }
}

/// One trace, exported five ways, gives the same totals.
#[test]
fn softflowd_five_ways() {
    let truth = truth();
    let trace = &truth["packet_truth"]["ndpi-1kxun"];
    let count = |name: &str| trace[name].as_u64().unwrap();
    let all_packets = count("ipv4_packets") + count("ipv6_packets");
    let total = |amount: fn(&Flow) -> Option<u64>, flows: &[Flow]| -> u64 {
        flows.iter().filter_map(amount).sum()
    };
    for (kind, records, packets, bytes) in [
        ("v9", 297, all_packets, 2_503_652),
        ("ipfix-abs", 297, all_packets, 2_503_652),
        ("ipfix-sysuptime", 297, all_packets, 2_503_652),
        ("v5", 272, count("ipv4_packets"), 2_489_835),
        ("ipfix-biflow", 197, all_packets, 2_503_652),
    ] {
        let file = format!("softflowd-exports/ndpi-1kxun.{kind}.pcap");
        let (flows, counts) = decode(&json!([file]), DecoderSettings::LIVE);
        assert_eq!(flows.len(), records, "{kind}");
        assert_eq!((counts.malformed, counts.sequence_gaps), (0, 0), "{kind}");
        let both_packets =
            total(|flow| flow.packets, &flows) + total(|flow| flow.reverse_packets, &flows);
        let both_bytes =
            total(|flow| flow.bytes, &flows) + total(|flow| flow.reverse_bytes, &flows);
        assert_eq!((both_packets, both_bytes), (packets, bytes), "{kind}");
    }
    let (flows, _) =
        decode(&json!(["softflowd-exports/ndpi-1kxun.ipfix-biflow.pcap"]), DecoderSettings::LIVE);
    assert_eq!(total(|flow| flow.bytes, &flows), 2_367_889);
    assert_eq!(total(|flow| flow.reverse_bytes, &flows), 135_763);
}

/// Three other traces: packets as they are in the trace.
#[test]
fn softflowd_counts_the_packets_of_its_trace() {
    let truth = truth();
    for (trace, bytes) in [
        ("zeek-wikipedia", 22_896),
        ("zeek-workshop_2011_browse", 16_255),
        ("ndpi-whatsapp_login_call", 175_592),
    ] {
        let counts = &truth["packet_truth"][trace];
        let packets = ["ipv4_packets", "ipv6_packets"]
            .map(|name| counts.get(name).and_then(Value::as_u64).unwrap_or(0))
            .iter()
            .sum::<u64>();
        let file = format!("softflowd-exports/{trace}.v9.pcap");
        let (flows, _) = decode(&json!([file]), DecoderSettings::LIVE);
        let sums = sums(&flows);
        assert_eq!((sums.packets, sums.bytes_scaled), (packets, bytes), "{trace}");
    }
}

/// The session feeds one datagram before and after its templates: all its sets are read in the
/// end, but for those whose template never comes.
#[test]
fn data_waits_for_its_template() {
    let truth = truth();
    let session = &truth["sessions"]["logstash/IPFIX Netscaler with variable length fields"];
    let (once, lost) = decode(&session["files"], DecoderSettings::BOUNDED);
    assert_eq!((once.len(), lost.no_template), (3, 5));
    let (twice, waited) = decode(&session["files"], DecoderSettings::LIVE);
    assert_eq!(twice.len(), 2 * once.len());
    // Two sets of template 280, which is not defined.
    assert_eq!(waited.no_template, 2);
    let [strict, live] = [&once, &twice].map(|flows| sums(flows));
    assert_eq!(live.bytes_scaled, 2 * strict.bytes_scaled);
}

/// Options data name applications and interfaces: records that came after them carry the names.
/// The numbers were found by an independent script.
#[test]
fn options_data_give_names() {
    let (flows, _) = decode(&json!(["netflow_parser/IPFIX.pcap.gz"]), DecoderSettings::BOUNDED);
    let mut applications: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &flows {
        *applications.entry(flow.application.as_deref().unwrap_or("-")).or_default() += 1;
    }
    assert_eq!(applications.len(), 92);
    for (name, count) in
        [("-", 9_887), ("unknown", 7_856), ("ssl", 6_889), ("ping", 4_062), ("sqlserver", 2_938)]
    {
        assert_eq!(applications.get(name), Some(&count), "{name}");
    }
    for (exporter, index, name) in [
        ("10.101.255.2", 1, "Gi0/0/0"),
        ("10.101.255.2", 4, "Gi0/0/3"),
        ("10.101.255.1", 20, "Gi0/1/1.290"),
    ] {
        let last = flows.iter().rev().find(|flow| {
            flow.exporter_address == Some(exporter.parse().unwrap()) && flow.input == Some(index)
        });
        assert_eq!(last.unwrap().input_interface.as_deref(), Some(name));
    }
    assert_eq!(sums(&flows).notes["reverse_direction"], 35_928);
}
