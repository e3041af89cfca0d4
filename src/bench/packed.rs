//! Packed keys and sums of the hand-written loop: a few machine words each.

use super::result::Values;
use nilometer_model::symbol::{Symbol, Symbols};
use nilometer_model::value::ip_address;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A flow record, decoded into what this job needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) place: Place,
    pub(super) what: What,
    pub(super) lower: u128,
    pub(super) upper: u128,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) is_ingress: bool,
    pub(super) is_congested: bool,
    pub(super) is_non_ect: bool,
}

/// Exporter and interface, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(exporter: Symbol, if_index: u32) -> Self {
        Self(u64::from(exporter.number()) << 32 | u64::from(if_index))
    }

    pub(super) fn if_index(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn exporter(self) -> Symbol {
        Symbol::from_number((self.0 >> 32) as u32)
    }
}

/// Application, location, protocol and code point, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct What(u128);

impl What {
    pub(super) fn new(application: Symbol, location: Symbol, protocol: u8, dscp: u8) -> Self {
        Self(
            u128::from(application.number()) << 64
                | u128::from(location.number()) << 32
                | u128::from(protocol) << 8
                | u128::from(dscp),
        )
    }

    pub(super) fn application(self) -> Symbol {
        Symbol::from_number((self.0 >> 64) as u32)
    }

    pub(super) fn location(self) -> Symbol {
        Symbol::from_number((self.0 >> 32) as u32)
    }

    pub(super) fn protocol(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(super) fn dscp(self) -> u8 {
        self.0 as u8
    }

    /// The same without the code point.
    pub(super) fn without_tos(self) -> Self {
        Self(self.0 & !0xff)
    }
}

/// Key of the finest grouping, and without code point of the conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConversationKey {
    pub(super) place: Place,
    pub(super) what: What,
    pub(super) lower: u128,
    pub(super) upper: u128,
}

impl Hash for ConversationKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Three folds: the place fills the upper half of `what`.
        state.write_u128(self.what.0 ^ u128::from(self.place.0).rotate_left(96));
        state.write_u128(self.lower);
        state.write_u128(self.upper);
    }
}

/// Place and code point; 256 stands for all code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) place: Place,
    pub(super) tos: u16,
}

impl Parent {
    pub(super) const ALL_TOS: u16 = 256;
}

/// What is listed below a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Listed<T> {
    pub(super) parent: Parent,
    pub(super) entity: T,
}

/// The sums of one key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) bytes_ingress: u64,
    pub(super) bytes_egress: u64,
    pub(super) packets_ingress: u64,
    pub(super) packets_egress: u64,
    pub(super) flows: u32,
    pub(super) is_congested: bool,
    pub(super) is_non_ect: bool,
}

impl Sums {
    pub(super) fn merge(&mut self, other: &Self) {
        self.bytes_ingress += other.bytes_ingress;
        self.bytes_egress += other.bytes_egress;
        self.packets_ingress += other.packets_ingress;
        self.packets_egress += other.packets_egress;
        self.flows += other.flows;
        self.is_congested |= other.is_congested;
        self.is_non_ect |= other.is_non_ect;
    }

    pub(super) fn rank(&self) -> u64 {
        self.bytes_ingress + self.bytes_egress
    }

    /// Takes the sums of `part` out; what is not a sum stays.
    pub(super) fn take_out(&mut self, part: &Self) {
        self.bytes_ingress -= part.bytes_ingress;
        self.bytes_egress -= part.bytes_egress;
        self.packets_ingress -= part.packets_ingress;
        self.packets_egress -= part.packets_egress;
        self.flows -= part.flows;
    }

    pub(super) fn values(&self) -> Values {
        [
            Some(self.bytes_ingress.into()),
            Some(self.bytes_egress.into()),
            Some(self.packets_ingress.into()),
            Some(self.packets_egress.into()),
            Some(self.flows.into()),
            Some(self.is_congested.into()),
            Some(self.is_non_ect.into()),
        ]
    }
}

/// Order of conversations: field by field, texts as texts.
pub(super) fn compare_conversations(
    symbols: &Symbols,
    a: &ConversationKey,
    b: &ConversationKey,
) -> Ordering {
    let text = |symbol| symbols.text(symbol);
    text(a.what.location())
        .cmp(text(b.what.location()))
        .then(a.what.protocol().cmp(&b.what.protocol()))
        .then(a.lower.cmp(&b.lower))
        .then(a.upper.cmp(&b.upper))
        .then_with(|| text(a.what.application()).cmp(text(b.what.application())))
}

/// The name of a conversation in results.
pub(super) fn conversation_text(symbols: &Symbols, key: &ConversationKey) -> String {
    let (location, application) =
        (symbols.text(key.what.location()), symbols.text(key.what.application()));
    let protocol = key.what.protocol();
    format!(
        "{location} {protocol} {} {} {application}",
        ip_address(key.lower),
        ip_address(key.upper)
    )
}
