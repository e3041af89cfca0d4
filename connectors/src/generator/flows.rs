//! The records themselves: a sequence of [`Flow`]s.
//!
//! Record number n is a function of the settings and n. Event times rise with n at the rate of the
//! settings, less the disorder; a record stands where it arrives, so what comes late is late.

use super::GeneratorSettings;
use super::dice::{Dice, PowerLaw, Sweep};
use nilometer_model::flow::{Direction, Flow, FlowVersion, Node};
use nilometer_model::time::EventTime;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Names, protocols and ports of the applications that come first; those after them are numbered.
const APPLICATIONS: [(&str, u8, u16); 16] = [
    ("https", 6, 443),
    ("quic", 17, 443),
    ("dns", 17, 53),
    ("http", 6, 80),
    ("ssh", 6, 22),
    ("smb", 6, 445),
    ("imaps", 6, 993),
    ("ntp", 17, 123),
    ("rdp", 6, 3389),
    ("sip", 17, 5060),
    ("ldaps", 6, 636),
    ("syslog", 17, 514),
    ("postgresql", 6, 5432),
    ("snmp", 17, 161),
    ("smtp", 6, 25),
    ("mqtt", 6, 1883),
];

/// Code points as routers use them, the most frequent first; those after them are numbered.
const DSCPS: [u8; 8] = [0, 46, 34, 26, 18, 10, 8, 48];

/// Hosts that have a name.
const NAMED_HOSTS: u64 = 256;

/// Generates flows; an iterator that ends after `records`, if that is set.
#[derive(Debug, Clone)]
pub struct FlowGenerator {
    settings: GeneratorSettings,
    start: EventTime,
    conversations: PowerLaw,
    sweep: Sweep,
    hosts: PowerLaw,
    applications: PowerLaw,
    dice: Dice,
    /// Number of the next record.
    next: u64,
    exporters: Vec<Node>,
    application_names: Vec<Arc<str>>,
    host_names: Vec<Arc<str>>,
    location: Arc<str>,
}

/// What all records of a conversation share.
struct Conversation {
    exporter: usize,
    interface: u32,
    dscp: u8,
    application: usize,
    client: (IpAddr, u64),
    server: (IpAddr, u64),
    client_port: u16,
}

impl FlowGenerator {
    /// A generator whose first record is at `start`. Settings out of their range are taken as the
    /// nearest value in it.
    pub fn new(settings: GeneratorSettings, start: EventTime) -> Self {
        let hosts = settings.hosts.clamp(1, GeneratorSettings::HOSTS_MAX);
        let applications = settings.applications.max(1);
        let node = |number: u32| Node::new(number, Some("generator"), Some(&format!("R{number}")));
        let application = |number: u32| match APPLICATIONS.get(number as usize) {
            Some((name, ..)) => Arc::from(*name),
            None => Arc::from(format!("app-{number}")),
        };
        Self {
            start,
            conversations: PowerLaw::new(settings.conversations, settings.skew),
            sweep: Sweep::new(settings.conversations),
            hosts: PowerLaw::new(hosts.into(), settings.skew),
            applications: PowerLaw::new(applications.into(), settings.skew),
            dice: Dice::new(settings.seed),
            next: 0,
            exporters: (1..=settings.exporters.max(1)).map(node).collect(),
            application_names: (0..applications).map(application).collect(),
            host_names: (0..NAMED_HOSTS).map(|host| Arc::from(format!("host-{host}"))).collect(),
            location: Arc::from("Default"),
            settings,
        }
    }

    /// What fixes the next record, and all after it: see [`FlowGenerator::resume`].
    pub(crate) fn image(&self) -> (u64, Dice) {
        (self.next, self.dice.clone())
    }

    /// Goes on where a generator of the same settings and start was.
    pub(crate) fn resume(&mut self, (next, dice): (u64, Dice)) {
        self.next = next;
        self.dice = dice;
    }

    /// How many records it has given.
    pub fn position(&self) -> u64 {
        self.next
    }

    fn conversation(&self, number: u64) -> Conversation {
        let mut dice = Dice::of(self.settings.seed, number);
        let is_v6 = dice.chance(self.settings.ipv6_share);
        let application = self.applications.rank(&mut dice) as usize;
        let dscp = PowerLaw::new(self.settings.dscps.clamp(1, 64).into(), 1.0).rank(&mut dice);
        Conversation {
            exporter: dice.below(self.exporters.len() as u64) as usize,
            interface: 1 + dice.below(self.settings.interfaces.max(1).into()) as u32,
            dscp: DSCPS.get(dscp as usize).copied().unwrap_or(dscp as u8),
            application,
            client: host(self.hosts.rank(&mut dice), is_v6),
            server: host(self.hosts.rank(&mut dice), is_v6),
            client_port: 1_024 + dice.below(64_000) as u16,
        }
    }

    /// When the flow of the next record was: its first and last instant.
    fn times(&mut self) -> (i64, i64) {
        let settings = &self.settings;
        let elapsed = u128::from(self.next) * 1_000 / u128::from(settings.rate.max(1));
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let millis = |span: i64| u64::try_from(span).unwrap_or(0);
        let behind = if self.dice.chance(settings.late_share) {
            self.dice.below(millis(settings.late_by.as_millis()) + 1)
        } else {
            self.dice.below(millis(settings.disorder.as_millis()) + 1)
        };
        let longest = if self.dice.chance(settings.long_share) {
            settings.long_duration
        } else {
            settings.duration
        };
        let length = self.dice.log_uniform(1, millis(longest.as_millis()).max(1));
        let last = self.start.as_millis().saturating_add(elapsed).saturating_sub_unsigned(behind);
        (last.saturating_sub_unsigned(length - 1), last)
    }

    fn flow(&mut self) -> Flow {
        let number = if self.settings.skew == 0.0 {
            self.sweep.at(self.next)
        } else {
            self.conversations.rank(&mut self.dice)
        };
        let conversation = self.conversation(number);
        let (first, last) = self.times();
        let packets = self.dice.log_uniform(1, 1_000);
        let bytes = packets * self.dice.log_uniform(40, 1_500);
        // Requests go one way and answers the other; both are seen on the same interface.
        let is_request = self.dice.chance(0.5);
        let other_interface = 1 + self.dice.below(self.settings.interfaces.max(1).into()) as u32;
        // Mostly no congestion notification, sometimes capable, seldom congested.
        let ecn = [0, 0, 0, 0, 0, 0, 1, 2, 2, 3].get(self.dice.below(10) as usize).copied();
        let tos = conversation.dscp << 2 | ecn.unwrap_or(0);
        let (name, protocol, port) = self.application(conversation.application);
        let (client, server) = (conversation.client, conversation.server);
        let mut ends = [(client, conversation.client_port), (server, port)];
        let mut interfaces = [conversation.interface, other_interface];
        if !is_request {
            ends.reverse();
            interfaces.reverse();
        }
        let [(source, src_port), (destination, dst_port)] = ends;
        let name_of = |host: u64| self.host_names.get(host as usize).cloned();
        let sampling = &self.settings.sampling;
        let interval = sampling.get(conversation.exporter % sampling.len().max(1)).copied();
        Flow {
            exporter_address: Some(exporter_address(conversation.exporter)),
            node: self.exporters.get(conversation.exporter).cloned(),
            domain: Some(0),
            version: Some(FlowVersion::Ipfix),
            input: Some(interfaces[0]),
            output: Some(interfaces[1]),
            direction: Some(if is_request { Direction::Ingress } else { Direction::Egress }),
            src_address: Some(source.0),
            dst_address: Some(destination.0),
            src_port: Some(src_port),
            dst_port: Some(dst_port),
            protocol: Some(protocol),
            tos: Some(tos),
            application: name,
            bytes: Some(bytes),
            packets: Some(packets),
            first_ms: Some(first),
            last_ms: Some(last),
            sampling_interval: interval.map(f64::from),
            location: Some(self.location.clone()),
            src_hostname: name_of(source.1),
            dst_hostname: name_of(destination.1),
            ..Flow::default()
        }
    }

    /// Name, protocol and port of an application.
    fn application(&self, number: usize) -> (Option<Arc<str>>, u8, u16) {
        let name = self.application_names.get(number).cloned();
        match APPLICATIONS.get(number) {
            Some((_, protocol, port)) => (name, *protocol, *port),
            None => (
                name,
                if number.is_multiple_of(3) { 17 } else { 6 },
                10_000 + (number % 20_000) as u16,
            ),
        }
    }
}

impl Iterator for FlowGenerator {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        if self.settings.records.is_some_and(|records| self.next >= records) {
            return None;
        }
        let flow = self.flow();
        self.next += 1;
        Some(flow)
    }
}

/// The address of a host, and its number.
fn host(number: u64, is_v6: bool) -> (IpAddr, u64) {
    // Numbers are below `HOSTS_MAX`, so 10.0.0.0/8 holds them.
    let low = number as u32 + 1;
    let address = if is_v6 {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, (low >> 16) as u16, low as u16))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | low))
    };
    (address, number)
}

/// Documentation addresses, as many as there are; exporters beyond share them.
fn exporter_address(exporter: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1 + (exporter % 254) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{GeneratorSettings, Start};
    use nilometer_model::time::Span;
    use std::collections::BTreeSet;

    fn generate(settings: GeneratorSettings) -> Vec<Flow> {
        FlowGenerator::new(settings, EventTime::from_millis(1_000_000)).collect()
    }

    fn some(records: u64) -> GeneratorSettings {
        GeneratorSettings { records: Some(records), ..GeneratorSettings::default() }
    }

    #[test]
    fn a_seed_fixes_every_record_and_another_seed_gives_others() {
        let flows = generate(some(500));
        assert_eq!(flows, generate(some(500)));
        assert_eq!(flows.len(), 500);
        assert_ne!(flows, generate(GeneratorSettings { seed: 2, ..some(500) }));
        assert_eq!(
            GeneratorSettings::default().start,
            Start::At(EventTime::from_millis(1_699_999_200_000))
        );
    }

    #[test]
    fn both_directions_of_a_conversation_count_on_one_interface() {
        let settings = GeneratorSettings { conversations: 1, ..some(200) };
        let mut directions = BTreeSet::new();
        let mut interfaces = BTreeSet::new();
        let mut ends = BTreeSet::new();
        for flow in generate(settings) {
            let is_ingress = flow.direction == Some(Direction::Ingress);
            directions.insert(is_ingress);
            interfaces.insert(if is_ingress { flow.input } else { flow.output });
            ends.insert((flow.src_address, flow.dst_address));
        }
        assert_eq!((directions.len(), interfaces.len(), ends.len()), (2, 1, 2));
    }

    #[test]
    fn times_keep_to_the_disorder_and_only_the_late_come_later() {
        let settings = GeneratorSettings {
            rate: 100,
            disorder: Span::from_millis(50),
            late_share: 0.1,
            late_by: Span::from_millis(5_000),
            duration: Span::from_millis(10),
            long_share: 0.0,
            ..some(5_000)
        };
        let mut late = 0;
        for (number, flow) in generate(settings).into_iter().enumerate() {
            let (first, last) = (flow.first_ms.unwrap(), flow.last_ms.unwrap());
            let behind = 1_000_000 + number as i64 * 10 - last;
            assert!((0..=5_000).contains(&behind) && (0..10).contains(&(last - first)));
            late += u32::from(behind > 50);
        }
        assert!((350..650).contains(&late), "{late}");
    }

    #[test]
    fn without_skew_every_conversation_comes_equally_often() {
        let settings =
            GeneratorSettings { skew: 0.0, conversations: 300, hosts: 1_000_000, ..some(900) };
        let mut counts = std::collections::BTreeMap::new();
        for flow in generate(settings) {
            let (a, b) = (flow.src_address.unwrap(), flow.dst_address.unwrap());
            *counts.entry((a.min(b), a.max(b))).or_insert(0) += 1;
        }
        assert_eq!((counts.len(), counts.values().all(|count| *count == 3)), (300, true));
    }

    #[test]
    fn settings_out_of_range_do_no_harm() {
        let settings = GeneratorSettings {
            rate: 0,
            exporters: 0,
            interfaces: 0,
            hosts: 0,
            applications: 0,
            dscps: 0,
            conversations: 0,
            sampling: Vec::new(),
            disorder: Span::ZERO,
            late_by: Span::from_millis(i64::MAX),
            late_share: 0.5,
            long_share: 1.0,
            long_duration: Span::from_millis(i64::MAX),
            ..some(100)
        };
        assert_eq!(generate(settings).len(), 100);
    }
}
