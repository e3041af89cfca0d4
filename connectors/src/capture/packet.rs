//! From a captured packet to the datagram in it: link layer, VLAN tags, IP, UDP.

use super::Datagram;
use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::Linktype;
use std::net::{IpAddr, SocketAddr};

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A datagram.
    Datagram {
        /// The datagram; `arrival_ms` is not set.
        datagram: Datagram<'a>,
        /// Whether the capture kept only a part of it.
        is_shortened: bool,
    },
    /// A packet of another protocol.
    NotUdp,
    /// A fragment of a packet.
    Fragment,
    /// A packet that makes no sense, or is of a link type that is not known.
    Damaged,
}

/// Takes the packet `data` of link type `link` apart.
pub fn take_apart(link: Linktype, data: &[u8]) -> Packet<'_> {
    let Some(sliced) = slice(link, data) else { return Packet::Damaged };
    let (source, payload) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => (IpAddr::V4(ip.header().source_addr()), ip.payload()),
        Some(LaxNetSlice::Ipv6(ip)) => (IpAddr::V6(ip.header().source_addr()), ip.payload()),
        Some(LaxNetSlice::Arp(_)) => return Packet::NotUdp,
        None if sliced.stop_err.is_some() => return Packet::Damaged,
        None => return Packet::NotUdp,
    };
    if payload.fragmented {
        return Packet::Fragment;
    }
    match sliced.transport {
        Some(TransportSlice::Udp(udp)) => Packet::Datagram {
            datagram: Datagram {
                exporter: SocketAddr::new(source, udp.source_port()),
                arrival_ms: None,
                payload: udp.payload(),
            },
            is_shortened: payload.incomplete,
        },
        Some(
            TransportSlice::Tcp(_)
            | TransportSlice::Icmpv4(_)
            | TransportSlice::Icmpv6(_)
            | TransportSlice::Igmp(_),
        ) => Packet::NotUdp,
        None if payload.ip_number == IpNumber::UDP || sliced.stop_err.is_some() => Packet::Damaged,
        None => Packet::NotUdp,
    }
}

fn slice(link: Linktype, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | RAW_OF_BSD => {
            LaxSlicedPacket::from_ip(data).ok()
        }
        // Four bytes of address family, in either byte order.
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(data.get(4..)?).ok(),
        Linktype::LINUX_SLL => after_ether_type(data, 14, 16),
        Linktype::LINUX_SLL2 => after_ether_type(data, 0, 20),
        _ => None,
    }
}

/// The number that BSD systems give raw IP in files of their own.
const RAW_OF_BSD: Linktype = Linktype(12);

/// The packet behind a link header of `header` bytes that has its EtherType at `at`.
fn after_ether_type(data: &[u8], at: usize, header: usize) -> Option<LaxSlicedPacket<'_>> {
    let (ether_type, _) = data.get(at..)?.split_first_chunk()?;
    let ether_type = EtherType(u16::from_be_bytes(*ether_type));
    Some(LaxSlicedPacket::from_ether_type(ether_type, data.get(header..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};

    const PAYLOAD: &[u8] = b"twenty bytes of flow";

    fn udp(ip: PacketBuilderStep<IpHeaders>) -> Vec<u8> {
        let mut out = Vec::new();
        ip.udp(2055, 9995).write(&mut out, PAYLOAD).unwrap();
        out
    }

    const V4: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    const V6: [[u8; 16]; 2] =
        [[0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0x20; 16]];

    fn datagram(exporter: &str) -> Packet<'static> {
        Packet::Datagram {
            datagram: Datagram {
                exporter: exporter.parse().unwrap(),
                arrival_ms: None,
                payload: PAYLOAD,
            },
            is_shortened: false,
        }
    }

    #[test]
    fn datagrams_are_found_behind_every_link_header() {
        let v4 = "192.0.2.1:2055";
        let v6 = "[2001:db8::1]:2055";
        let ether = || PacketBuilder::ethernet2([1; 6], [2; 6]);
        let ip = udp(PacketBuilder::ipv4(V4[0], V4[1], 64));
        let six = udp(PacketBuilder::ipv6(V6[0], V6[1], 64));
        let with = |header: &[u8], packet: &[u8]| [header, packet].concat();
        let mut sll = [0; 16];
        sll[14..].copy_from_slice(&[0x08, 0x00]);
        let mut sll2 = [0; 20];
        sll2[..2].copy_from_slice(&[0x86, 0xDD]);
        // Ethernet pads short frames: what is behind the IP packet is not content.
        let padded = [udp(ether().ipv4(V4[0], V4[1], 64)), vec![0; 9]].concat();
        for (link, data, exporter) in [
            (Linktype::ETHERNET, padded, v4),
            (Linktype::ETHERNET, udp(ether().ipv6(V6[0], V6[1], 64)), v6),
            (
                Linktype::ETHERNET,
                udp(ether().single_vlan(7.try_into().unwrap()).ipv4(V4[0], V4[1], 64)),
                v4,
            ),
            (
                Linktype::ETHERNET,
                udp(ether()
                    .double_vlan(7.try_into().unwrap(), 8.try_into().unwrap())
                    .ipv4(V4[0], V4[1], 64)),
                v4,
            ),
            (Linktype::RAW, ip.clone(), v4),
            (Linktype::RAW, six.clone(), v6),
            (Linktype(12), ip.clone(), v4),
            (Linktype::IPV6, six.clone(), v6),
            (Linktype::NULL, with(&[2, 0, 0, 0], &ip), v4),
            (Linktype::LOOP, with(&[0, 0, 0, 24], &six), v6),
            (Linktype::LINUX_SLL, with(&sll, &ip), v4),
            (Linktype::LINUX_SLL2, with(&sll2, &six), v6),
        ] {
            assert_eq!(take_apart(link, &data), datagram(exporter), "{link:?}");
        }
    }

    #[test]
    fn what_is_no_datagram_is_told_apart() {
        let mut tcp = Vec::new();
        PacketBuilder::ipv4(V4[0], V4[1], 64).tcp(1, 2, 3, 4).write(&mut tcp, PAYLOAD).unwrap();
        let mut fragment = udp(PacketBuilder::ipv4(V4[0], V4[1], 64));
        fragment[6] = 0x20;
        let ip = udp(PacketBuilder::ipv4(V4[0], V4[1], 64));
        let arp = [vec![0; 12], vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1], vec![0; 20]].concat();
        let lldp = [vec![0; 12], vec![0x88, 0xCC], vec![0; 40]].concat();
        for (link, data, expected) in [
            (Linktype::RAW, &tcp[..], Packet::NotUdp),
            (Linktype::RAW, &fragment, Packet::Fragment),
            (Linktype::ETHERNET, &arp, Packet::NotUdp),
            (Linktype::ETHERNET, &lldp, Packet::NotUdp),
            (Linktype::RAW, &ip[..24], Packet::Damaged),
            (Linktype::RAW, &ip[..10], Packet::Damaged),
            (Linktype::RAW, &[], Packet::Damaged),
            (Linktype::ETHERNET, &ip[..5], Packet::Damaged),
            (Linktype::LINUX_SLL, &ip[..15], Packet::Damaged),
            (Linktype::NULL, &[0, 0], Packet::Damaged),
            (Linktype::FDDI, &ip, Packet::Damaged),
        ] {
            assert_eq!(take_apart(link, data), expected, "{link:?} {data:?}");
        }
    }

    #[test]
    fn a_shortened_datagram_keeps_what_is_there() {
        let ip = udp(PacketBuilder::ipv4(V4[0], V4[1], 64));
        let Packet::Datagram { datagram, is_shortened: true } =
            take_apart(Linktype::RAW, &ip[..ip.len() - 5])
        else {
            panic!("no shortened datagram")
        };
        assert_eq!(datagram.payload, &PAYLOAD[..PAYLOAD.len() - 5]);
    }
}
