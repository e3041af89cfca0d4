//! NetFlow version 5: records of one fixed layout, read by netflow_parser.
//!
//! netflow_parser refuses a whole datagram whose count is off; here its whole records are kept,
//! handed over in pieces that it takes.

use super::message::half;
use netflow_parser::static_versions::v5::{FlowSet, Header, V5};
use nilometer_model::flow::{Flow, FlowVersion, times};
use std::net::IpAddr;

const HEADER: usize = 24;
const RECORD: usize = 48;
/// Most records that netflow_parser takes in one piece.
const PIECE_RECORDS: usize = 30;

/// What a version 5 datagram holds.
#[derive(Debug, Default)]
pub(super) struct Datagram5 {
    /// Domain, sequence number and number of records, for the gap check.
    pub(super) domain: u32,
    pub(super) sequence: u32,
    pub(super) records: u32,
    /// Whether records are missing at its end.
    pub(super) is_damaged: bool,
}

/// Appends the flows of a version 5 datagram to `out`; `None` if its header is cut.
pub(super) fn decode(
    bytes: &[u8],
    exporter: IpAddr,
    arrival_ms: Option<i64>,
    out: &mut Vec<Flow>,
) -> Option<Datagram5> {
    let header = bytes.get(2..HEADER)?;
    let announced = usize::from(half(bytes, 2)?);
    let records = bytes.get(HEADER..)?;
    let whole = announced.min(records.len() / RECORD);
    let mut datagram = Datagram5 { is_damaged: whole < announced, ..Datagram5::default() };
    let mut piece = Vec::with_capacity(HEADER + PIECE_RECORDS * RECORD);
    for chunk in records.get(..whole * RECORD)?.chunks(PIECE_RECORDS * RECORD) {
        piece.clear();
        piece.extend_from_slice(header);
        piece.extend_from_slice(chunk);
        let count = (chunk.len() / RECORD) as u16;
        piece.get_mut(..2)?.copy_from_slice(&count.to_be_bytes());
        let (_, parsed) = V5::parse_direct(&piece).ok()?;
        datagram.domain = domain(&parsed.header);
        datagram.sequence = parsed.header.flow_sequence;
        datagram.records += u32::from(count);
        out.extend(parsed.flowsets.iter().map(|record| {
            let flow = flow(&parsed.header, record);
            Flow { exporter_address: Some(exporter), arrival_ms, ..flow }
        }));
    }
    Some(datagram)
}

fn domain(header: &Header) -> u32 {
    u32::from(header.engine_type) << 8 | u32::from(header.engine_id)
}

fn flow(header: &Header, record: &FlowSet) -> Flow {
    let header_ms = i64::from(header.unix_secs) * 1_000 + i64::from(header.unix_nsecs / 1_000_000);
    let instant = |uptime| Some(times::from_uptime(header_ms, header.sys_up_time, uptime));
    // The two upper bits are the mode. No interval is no sampling.
    let interval = header.sampling_interval & 0x3FFF;
    Flow {
        domain: Some(domain(header)),
        version: Some(FlowVersion::V5),
        input: Some(record.input.into()),
        output: Some(record.output.into()),
        src_address: Some(record.src_addr.into()),
        dst_address: Some(record.dst_addr.into()),
        src_port: Some(record.src_port),
        dst_port: Some(record.dst_port),
        protocol: Some(record.protocol_number),
        tos: Some(record.tos),
        tcp_flags: Some(record.tcp_flags.into()),
        src_as: Some(record.src_as.into()),
        dst_as: Some(record.dst_as.into()),
        next_hop: Some(record.next_hop.into()),
        bytes: Some(record.d_octets.into()),
        packets: Some(record.d_pkts.into()),
        first_ms: instant(record.first),
        last_ms: instant(record.last),
        header_ms: Some(header_ms),
        sampling_interval: (interval > 0).then(|| interval.into()),
        ..Flow::default()
    }
}
