//! The form of a key that outlives the process, and where its hash places it.
//!
//! It orders as the values do, starts with a version, and is hashed by XXH64: none of this ever
//! changes, since it decides which shard, node or stored state a key belongs to.

use super::canonical;
use crate::symbol::Symbols;
use crate::value::{Datum, Value, ip_bits};

/// Version of the stable encoding; the first byte of every encoded key.
pub const KEY_VERSION: u8 = 1;

/// Appends the stable, order-preserving form of a key to `out`: two keys of one layout compare as
/// their bytes do.
///
/// Null is 0x00; a value is 0x01 and then: integers as 16 bytes big-endian with the sign turned;
/// floats as their total-order bits; text with 0x00 escaped as 0x00 0xff and closed by 0x00 0x00;
/// addresses as 16 bytes; truth values as one byte.
pub fn encode(values: &[Value], out: &mut Vec<u8>) {
    out.push(KEY_VERSION);
    for value in values {
        match value {
            Value::Null => out.push(0),
            Value::Bool(truth) => push_bool(*truth, out),
            Value::Int(number) => push_int(*number, out),
            Value::Float(number) => push_float(*number, out),
            Value::Text(text) | Value::Object(text) => push_text(text, out),
            Value::Ip(address) => push_ip(ip_bits(*address), out),
        }
    }
}

/// As [`encode`].
pub(crate) fn encode_data(
    data: impl IntoIterator<Item = Datum>,
    symbols: &Symbols,
    out: &mut Vec<u8>,
) {
    out.push(KEY_VERSION);
    for datum in data {
        match datum {
            Datum::Null => out.push(0),
            Datum::Bool(truth) => push_bool(truth, out),
            Datum::Int(number) => push_int(number, out),
            Datum::Float(number) => push_float(number, out),
            Datum::Text(symbol) | Datum::Object(symbol) => push_text(symbols.text(symbol), out),
            Datum::Ip(bits) => push_ip(bits, out),
        }
    }
}

fn push_bool(truth: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, u8::from(truth)]);
}

fn push_int(number: i128, out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(&((number as u128) ^ (1 << 127)).to_be_bytes());
}

fn push_float(number: f64, out: &mut Vec<u8>) {
    let [bits, _] = canonical(Datum::Float(number));
    let turned = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.push(1);
    out.extend_from_slice(&turned.to_be_bytes());
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.push(1);
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn push_ip(bits: u128, out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(&bits.to_be_bytes());
}

/// The hash that places keys, over the stable form: XXH64 with seed 0. Fixed for ever.
pub fn stable_hash(encoded: &[u8]) -> u64 {
    twox_hash::XxHash64::oneshot(0, encoded)
}

/// The hash of one value that is not null: XXH64 of its bytes, seeded by its kind. Fixed for ever.
pub(crate) fn stable_datum_hash(datum: Datum, symbols: &Symbols) -> u64 {
    let hash = |kind, bytes: &[u8]| twox_hash::XxHash64::oneshot(kind, bytes);
    match datum {
        Datum::Null => hash(0, &[]),
        Datum::Bool(truth) => hash(1, &[u8::from(truth)]),
        Datum::Int(number) => hash(2, &number.to_le_bytes()),
        Datum::Float(_) => hash(3, &canonical(datum)[0].to_le_bytes()),
        Datum::Text(symbol) => hash(4, symbols.text(symbol).as_bytes()),
        Datum::Object(symbol) => hash(5, symbols.text(symbol).as_bytes()),
        Datum::Ip(bits) => hash(6, &bits.to_le_bytes()),
    }
}

/// A fixed hash bucket of keys: the unit that moves between shards and nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct KeyGroup(pub u16);

/// How many key groups a deployment has, unless set otherwise; never changed afterwards.
pub const KEY_GROUPS: u16 = 256;

impl KeyGroup {
    /// The group of a stable hash among `groups` (at least one).
    pub fn of(hash: u64, groups: u16) -> Self {
        Self((hash % u64::from(groups.max(1))) as u16)
    }

    /// The shard that owns the group: contiguous runs, as even as can be, over `shards`.
    pub fn shard(self, groups: u16, shards: usize) -> usize {
        usize::from(self.0) * shards.max(1) / usize::from(groups.max(1))
    }
}
