//! Conversations: the two ends of a flow in one order, and the text that names a conversation.
//!
//! The order is that of the addresses as text (`"10.0.0.10" < "10.0.0.9"`), and the text is a JSON
//! array as Gson writes it. Consumers parse it back, so both are a contract.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

/// Whether the source is the higher end of its conversation: unless its address comes before the
/// destination's as text. An absent address is the empty text, before all others.
pub(crate) fn is_source_higher(source: Option<IpAddr>, destination: Option<IpAddr>) -> bool {
    match (source, destination) {
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => {
            source.octets().map(octet_order) >= destination.octets().map(octet_order)
        }
        (Some(source), Some(destination)) => {
            AddressText::new(source).as_bytes() >= AddressText::new(destination).as_bytes()
        }
        (Some(_), None) | (None, None) => true,
        (None, Some(_)) => false,
    }
}

/// Orders octets as their decimal texts: dotted addresses then order as text, octet by octet,
/// since the dot and the end of the text come before every digit.
fn octet_order(octet: u8) -> u16 {
    // Each digit plus one, left-aligned in three places of base 11; no digit is 0.
    let digit = |digit: u8| u16::from(digit) + 1;
    match octet {
        0..=9 => digit(octet) * 121,
        10..=99 => digit(octet / 10) * 121 + digit(octet % 10) * 11,
        100..=255 => digit(octet / 100) * 121 + digit(octet / 10 % 10) * 11 + digit(octet % 10),
    }
}

/// An address as text, without an allocation.
struct AddressText {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl AddressText {
    /// The longest text of an address.
    const LEN_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

    fn new(address: IpAddr) -> Self {
        let mut text = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        // It has room for every address, so writing cannot fail.
        write!(text, "{address}").unwrap_or_default();
        text
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The text of a conversation: `["Default",6,"10.0.0.10","10.0.0.9","http"]`.
///
/// An absent protocol is `null`, an absent address the empty text. Texts are escaped as Gson's
/// HTML-safe encoder does it.
pub fn conversation_text(
    location: &str,
    protocol: Option<u8>,
    lower: Option<IpAddr>,
    upper: Option<IpAddr>,
    application: &str,
) -> String {
    let mut out = String::with_capacity(64);
    out.push('[');
    write_gson_text(location, &mut out);
    // Writing to a String cannot fail.
    match protocol {
        Some(protocol) => write!(out, ",{protocol},").unwrap_or_default(),
        None => out.push_str(",null,"),
    }
    for address in [lower, upper] {
        match address {
            Some(address) => write!(out, "\"{address}\",").unwrap_or_default(),
            None => out.push_str("\"\","),
        }
    }
    write_gson_text(application, &mut out);
    out.push(']');
    out
}

fn write_gson_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '=' | '\'' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(letter)).unwrap_or_default();
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        (!text.is_empty()).then(|| text.parse().unwrap())
    }

    #[test]
    fn ends_are_ordered_as_text() {
        for (source, destination, higher) in [
            ("10.0.0.10", "10.0.0.9", false),
            ("10.0.0.9", "10.0.0.10", true),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.8", "", true),
            ("", "10.0.0.8", false),
            ("", "", true),
            ("2001:db8::a", "2001:db8::1:0", true),
            ("::1", "10.0.0.1", true),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::1", true),
        ] {
            let got = is_source_higher(address(source), address(destination));
            assert_eq!(got, higher, "{source} {destination}");
        }
    }

    #[test]
    fn octets_order_as_their_texts() {
        for a in 0..=u8::MAX {
            for b in 0..=u8::MAX {
                let texts = a.to_string().cmp(&b.to_string());
                assert_eq!(octet_order(a).cmp(&octet_order(b)), texts, "{a} {b}");
            }
        }
    }

    #[test]
    fn conversations_print_as_gson_prints_them() {
        for (location, protocol, lower, upper, application, expected) in [
            (
                "Default",
                Some(6),
                "10.0.0.10",
                "10.0.0.9",
                "http",
                r#"["Default",6,"10.0.0.10","10.0.0.9","http"]"#,
            ),
            ("", None, "", "10.0.0.8", "dns", r#"["",null,"","10.0.0.8","dns"]"#),
            (
                "<a&b='c'>",
                Some(17),
                "2001:db8::1",
                "::1",
                "q\"\\\t\n\r\u{8}\u{c}\u{1}\u{2028}é\u{7f}",
                "[\"\\u003ca\\u0026b\\u003d\\u0027c\\u0027\\u003e\",17,\"2001:db8::1\",\"::1\",\"q\\\"\\\\\\t\\n\\r\\b\\f\\u0001\\u2028é\u{7f}\"]",
            ),
        ] {
            let got =
                conversation_text(location, protocol, address(lower), address(upper), application);
            assert_eq!(got, expected);
        }
    }
}
