//! The functions of the subset: names, forms of call, and what they become.

use nilometer_model::expr::{Binary, Search, Unary};

/// Every function, as it is called. Order: as in the documentation.
pub(super) const FORMS: [(&str, &str); 15] = [
    ("has", "has(field)"),
    ("size", "size(text)"),
    ("contains", "text.contains(part)"),
    ("startsWith", "text.startsWith(part)"),
    ("endsWith", "text.endsWith(part)"),
    ("int", "int(number)"),
    ("double", "double(number)"),
    ("ip", "ip(\"192.0.2.1\")"),
    ("cidr", "cidr(\"10.0.0.0/8\").containsIP(address)"),
    ("containsIP", "cidr(\"10.0.0.0/8\").containsIP(address)"),
    ("family", "address.family()"),
    ("isLoopback", "address.isLoopback()"),
    ("isUnspecified", "address.isUnspecified()"),
    ("isLinkLocalUnicast", "address.isLinkLocalUnicast()"),
    ("isGlobalUnicast", "address.isGlobalUnicast()"),
];

/// The function `name(operand)`.
pub(super) fn global(name: &str) -> Option<Unary> {
    match name {
        "size" => Some(Unary::Size),
        "int" => Some(Unary::Int),
        "double" => Some(Unary::Double),
        _ => None,
    }
}

/// The function `operand.name()`.
pub(super) fn method(name: &str) -> Option<Unary> {
    match name {
        "size" => Some(Unary::Size),
        "family" => Some(Unary::Family),
        "isLoopback" => Some(Unary::IsLoopback),
        "isUnspecified" => Some(Unary::IsUnspecified),
        "isLinkLocalUnicast" => Some(Unary::IsLinkLocalUnicast),
        "isGlobalUnicast" => Some(Unary::IsGlobalUnicast),
        _ => None,
    }
}

/// The function `operand.name(operand)`.
pub(super) fn search(name: &str) -> Option<Binary> {
    match name {
        "contains" => Some(Binary::Search(Search::Contains)),
        "startsWith" => Some(Binary::Search(Search::StartsWith)),
        "endsWith" => Some(Binary::Search(Search::EndsWith)),
        _ => None,
    }
}
