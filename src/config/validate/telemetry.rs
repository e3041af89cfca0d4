//! Where a run is watched from, and whom it tells of itself.
//!
//! Invariant: an admin port that others can reach has a token.

use crate::config::place::has_credentials;
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::telemetry::{RawOtlp, RawOtlpProtocol};
use crate::config::seen::{AdminConfig, ENCRYPTED, OtlpConfig, OtlpProtocol, TelemetryConfig};
use nilometer_connectors::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The admin port, if there is one; `None` if it is wrong, which has then been reported.
pub(crate) fn admin(raw: &RawConfig, problems: &mut Problems) -> Option<Option<AdminConfig>> {
    if raw.admin.is_absent() {
        return Some(None);
    }
    let admin = &raw.admin.get()?.value;
    let listen = address(admin.listen.get()?, problems)?;
    let token_file = match &admin.token_file {
        Given::Absent => None,
        Given::Wrong => return None,
        Given::Value(file) => Some(PathBuf::from(&file.value)),
    };
    if !listen.ip().is_loopback() && token_file.is_none() {
        problems.add_with_help(
            admin.listen.get()?.place,
            format!("others can reach `{listen}`, and `admin` has no `token_file`"),
            "listen on 127.0.0.1, or name a file with a token: token_file = \"admin.token\"",
        );
        return None;
    }
    Some(Some(AdminConfig { listen, token_file }))
}

fn address(listen: &Spanned<String>, problems: &mut Problems) -> Option<SocketAddr> {
    let address = listen.value.parse();
    if address.is_err() {
        problems.add_with_help(
            listen.place,
            format!("`{}` is not an address to listen on", listen.value),
            "an IP address and a port: \"127.0.0.1:9464\", \"[::1]:9464\"",
        );
    }
    address.ok()
}

/// What is told to a collector; `None` if that is wrong, which has then been reported.
pub(crate) fn telemetry(raw: &RawConfig, problems: &mut Problems) -> Option<TelemetryConfig> {
    let telemetry = raw.telemetry.value()?;
    let names = &telemetry.resource.value()?.names;
    let resource =
        names.iter().map(|(name, value)| (name.value.as_str().into(), value.value.as_str().into()));
    let otlp = match &telemetry.otlp {
        Given::Absent => None,
        Given::Wrong => return None,
        Given::Value(collector) => Some(otlp(&collector.value, problems)?),
    };
    Some(TelemetryConfig { otlp, resource: resource.collect() })
}

/// Headers that can be sent. Their values are secrets: no message shows them.
fn headers(raw: &RawOtlp, problems: &mut Problems) -> Option<Vec<(Box<str>, Secret)>> {
    let headers = raw.headers.value()?;
    let mut is_whole = headers.is_whole;
    let mut known = Vec::new();
    for (name, value) in &headers.names {
        let (place, (name, value)) = (name.place, Secret::of(&name.value, &value.value));
        let is_name = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
        if name.is_empty() || !name.bytes().all(is_name) {
            let message = format!("`{name}` is no name of a header");
            problems.add_with_help(place, message, "letters, digits, `-`, `_` and `.`");
            is_whole = false;
        }
        if let Secret::Text(text) = &value
            && !text.bytes().all(|letter| letter == b' ' || letter.is_ascii_graphic())
        {
            let message = format!("header `{name}` cannot be sent");
            problems.add_with_help(place, message, "visible ASCII characters and spaces");
            is_whole = false;
        }
        known.push((name.into(), value));
    }
    is_whole.then_some(known)
}

/// The file of the authorities of a collector, if there is one; `None` if that is wrong.
fn ca_file(raw: &RawOtlp, is_encrypted: bool, problems: &mut Problems) -> Option<Option<PathBuf>> {
    match &raw.ca_file {
        Given::Absent => Some(None),
        Given::Wrong => None,
        Given::Value(file) if is_encrypted => Some(Some(PathBuf::from(&file.value))),
        Given::Value(file) => {
            let message = "`ca_file` means nothing to a collector behind http://";
            problems.add_with_help(file.place, message, "let `endpoint` begin with https://");
            None
        }
    }
}

fn otlp(raw: &RawOtlp, problems: &mut Problems) -> Option<OtlpConfig> {
    let endpoint = raw.endpoint.get()?;
    let rest = endpoint.value.strip_prefix(ENCRYPTED);
    let is_encrypted = rest.is_some();
    let rest = rest.or_else(|| endpoint.value.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split('/').next());
    if authority.is_none_or(str::is_empty) {
        problems.add_with_help(
            endpoint.place,
            format!("`{}` is not the URL of a collector", endpoint.value),
            "a host and a port behind http:// or https://: \"http://127.0.0.1:4317\"",
        );
        return None;
    }
    if has_credentials(&endpoint.value) {
        // Which are not shown.
        problems.add_with_help(
            endpoint.place,
            "the URL of a collector holds credentials",
            "leave them out, and give them as `headers`",
        );
        return None;
    }
    let ca_file = ca_file(raw, is_encrypted, problems);
    let headers = headers(raw, problems);
    Some(OtlpConfig {
        endpoint: endpoint.value.as_str().into(),
        protocol: match raw.protocol.value()? {
            RawOtlpProtocol::Grpc => OtlpProtocol::Grpc,
            RawOtlpProtocol::Http => OtlpProtocol::Http,
        },
        metrics: raw.metrics.value()?.0,
        traces: raw.traces.value()?.0,
        parent_based: *raw.parent_based.value()?,
        timeout: raw.timeout.value()?.0,
        ca_file: ca_file?,
        headers: headers?,
    })
}
