//! Blocks of addresses, and what an address is good for.
//!
//! Addresses are in their 128-bit form, IPv4 mapped into `::ffff:0:0/96`; the two families stay
//! apart all the same: no IPv6 block contains an IPv4 address, not even `::/0`.

use crate::value::{ip_address, ip_bits};
use std::net::IpAddr;

/// Bits in front of an IPv4 address in its 128-bit form.
const MAPPED_PREFIX: u32 = 96;

/// A block of addresses: those that share a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The prefix, zeros behind it.
    bits: u128,
    /// Ones where the prefix is.
    mask: u128,
    is_v4: bool,
}

/// What is not a block of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address block: write it like \"10.0.0.0/8\" or \"2001:db8::/32\"")]
pub struct CidrError {
    /// What was written.
    pub text: Box<str>,
}

impl Cidr {
    /// The block written as address and length of the prefix; bits behind the prefix are ignored.
    ///
    /// # Errors
    /// `text` is not of that form, or the prefix is longer than the address.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError { text: text.into() };
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        // `u32::from_str` takes a sign, a prefix has none.
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let length: u32 = length.parse().map_err(|_| wrong())?;
        let length = match address {
            IpAddr::V4(_) => length.checked_add(MAPPED_PREFIX).ok_or_else(wrong)?,
            IpAddr::V6(_) => length,
        };
        let mask = match length {
            0 => 0,
            1..=128 => u128::MAX << (128 - length),
            129.. => return Err(wrong()),
        };
        let bits = ip_bits(address) & mask;
        Ok(Self { bits, mask, is_v4: length >= MAPPED_PREFIX && is_v4(bits) })
    }

    /// Whether the address with these 128 bits lies in the block.
    pub const fn contains(self, bits: u128) -> bool {
        bits & self.mask == self.bits && is_v4(bits) == self.is_v4
    }
}

/// Whether the 128 bits are those of an IPv4 address.
pub(super) const fn is_v4(bits: u128) -> bool {
    bits >> 32 == 0xffff
}

pub(super) fn is_loopback(bits: u128) -> bool {
    ip_address(bits).is_loopback()
}

pub(super) fn is_unspecified(bits: u128) -> bool {
    ip_address(bits).is_unspecified()
}

pub(super) fn is_link_local_unicast(bits: u128) -> bool {
    match ip_address(bits) {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Neither unspecified, loopback, link-local, multicast nor the IPv4 broadcast address; private
/// ranges are global in this sense.
pub(super) fn is_global_unicast(bits: u128) -> bool {
    let address = ip_address(bits);
    let is_broadcast = match address {
        IpAddr::V4(v4) => v4.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_broadcast
        || is_link_local_unicast(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> u128 {
        ip_bits(text.parse().unwrap())
    }

    #[test]
    fn blocks_contain_the_addresses_of_their_family_and_prefix() {
        for (block, address, expected) in [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "10.0.0.1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("192.0.2.7/32", "192.0.2.7", true),
            ("192.0.2.7/32", "192.0.2.6", false),
            ("::1/128", "::1", true),
            ("::ffff:10.0.0.0/104", "10.2.3.4", true),
        ] {
            let cidr = Cidr::parse(block).unwrap();
            assert_eq!(cidr.contains(bits(address)), expected, "{address} in {block}");
        }
    }

    #[test]
    fn what_is_not_a_block_is_refused() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0/8",
            "::/129",
            "::/4294967296",
            "10.0.0.0/4294967295",
            "a/8",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(Cidr::parse(text), Err(CidrError { text: text.into() }));
        }
    }

    #[test]
    fn addresses_have_the_scope_of_their_registry() {
        // RFC 6890 and RFC 4291; columns: loopback, unspecified, link-local, global.
        for (address, expected) in [
            ("127.0.0.1", [true, false, false, false]),
            ("::1", [true, false, false, false]),
            ("0.0.0.0", [false, true, false, false]),
            ("::", [false, true, false, false]),
            ("169.254.1.1", [false, false, true, false]),
            ("fe80::1", [false, false, true, false]),
            ("224.0.0.1", [false; 4]),
            ("255.255.255.255", [false; 4]),
            ("ff02::1", [false; 4]),
            ("10.0.0.1", [false, false, false, true]),
            ("2001:db8::1", [false, false, false, true]),
        ] {
            let bits = bits(address);
            let scope = [
                is_loopback(bits),
                is_unspecified(bits),
                is_link_local_unicast(bits),
                is_global_unicast(bits),
            ];
            assert_eq!(scope, expected, "{address}");
        }
    }
}
