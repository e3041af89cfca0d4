//! A collector behind TLS, whose certificate an authority of its own has signed: it is told by those who
//! trust that, and nobody else tells it anything.

use super::collector::{Collector, Manner};
use super::{TOKEN, check_spans, place, run, told};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{AlpnError, Ssl, SslAcceptor, SslMethod, select_next_proto};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use std::net::SocketAddr;
use std::pin::Pin;
use std::thread;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_openssl::SslStream;

/// A certificate, and the key in it.
type Known = (X509, PKey<Private>);

/// A certificate of `name`, signed by `by`, or else by itself as an authority.
fn certificate(name: &str, by: Option<&Known>) -> Result<Known, ErrorStack> {
    let key = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&key)?)?;
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_text("CN", name)?;
    let subject = subject.build();
    let mut builder = X509Builder::new()?;
    builder.set_version(2)?;
    builder
        .set_serial_number(&*BigNum::from_u32(1 + u32::from(by.is_some()))?.to_asn1_integer()?)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(by.map_or(&subject, |(known, _)| known.subject_name()))?;
    builder.set_pubkey(&key)?;
    builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    builder.set_not_after(&*Asn1Time::days_from_now(2)?)?;
    if let Some((known, _)) = by {
        let context = builder.x509v3_context(Some(known), None);
        let names = SubjectAlternativeName::new().ip(name).build(&context)?;
        builder.append_extension(names)?;
    } else {
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
    }
    builder.sign(by.map_or(&key, |(_, key)| key), MessageDigest::sha256())?;
    Ok((builder.build(), key))
}

/// Listens with a certificate of 127.0.0.1 by `authority`, and hands what comes on to `to`.
fn front(authority: &Known, to: SocketAddr) -> SocketAddr {
    let (certificate, key) = certificate("127.0.0.1", Some(authority)).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    acceptor.set_private_key(&key).unwrap();
    acceptor.set_alpn_select_callback(|_, offered| {
        select_next_proto(b"\x02h2\x08http/1.1", offered).ok_or(AlpnError::ALERT_FATAL)
    });
    let acceptor = acceptor.build();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serve = async move {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let ssl = Ssl::new(acceptor.context()).unwrap();
            tokio::spawn(async move {
                let mut stream = SslStream::new(ssl, tcp).unwrap();
                // A client that does not trust the certificate goes away.
                if Pin::new(&mut stream).accept().await.is_ok() {
                    let mut inside = TcpStream::connect(to).await.unwrap();
                    copy_bidirectional(&mut stream, &mut inside).await.ok();
                }
            });
        }
    };
    thread::spawn(move || runtime.block_on(serve));
    address
}

#[test]
fn a_collector_behind_tls_is_told_by_those_who_trust_it() {
    let authority = certificate("nilometer test CA", None).unwrap();
    let pem = String::from_utf8(authority.0.to_pem().unwrap()).unwrap();
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(Manner::Takes);
        let inside = if protocol == "grpc" { collector.grpc } else { collector.http };
        let address = front(&authority, inside);
        let encrypted = |address: &str| told(protocol, address).replace("http://", "https://");
        let trusts = |address: &str| {
            let headers = "headers = { authorization = \"Bearer ${TOKEN}\" }";
            let settings = encrypted(address).replace(headers, "");
            let file = "headers = { \"authorization.file\" = \"token\" }";
            let place = place(&format!("{settings}ca_file = \"ca.pem\"\n{file}\n"));
            place.write("ca.pem", &pem);
            place.write("token", "Bearer hunter2-hunter2\n");
            place
        };
        // By its name on the network it is not known to anybody.
        let other = format!("localhost:{}", address.port());
        for (place, reason) in [
            (place(&encrypted(&address.to_string())), "certificate is not trusted"),
            (trusts(&other), "certificate is not trusted: hostname mismatch"),
        ] {
            let (output, said) = run(&place, &[TOKEN]);
            assert!(output.status.success() && said.contains(reason), "{protocol}: {said}");
            assert!(said.contains("were dropped") && !said.contains("hunter2"), "{said}");
        }
        collector.look(|got| assert!(got.spans.is_empty() && got.authorizations.is_empty()));
        let place = trusts(&address.to_string());
        let (_, said) = run(&place, &[]);
        assert!(!said.contains("dropped") && !said.contains("hunter2"), "{said}");
        check_spans(&collector);
        collector.look(|got| {
            assert!(!got.authorizations.is_empty());
            assert!(got.authorizations.iter().all(|sent| sent == "Bearer hunter2-hunter2"));
        });
    }
}

#[test]
fn what_cannot_be_read_ends_a_run_before_it_begins() {
    let otlp = "[telemetry.otlp]\nendpoint = \"https://127.0.0.1:1\"\n";
    for (setting, file, expected) in [
        ("ca_file = \"ca.pem\"", None, "telemetry: cannot read `ca.pem`: "),
        ("ca_file = \"ca.pem\"", Some("hunter2"), "a `ca_file` holds certificates in PEM"),
        (
            "headers = { \"authorization.file\" = \"token\" }",
            None,
            "telemetry: header `authorization`: cannot read `token`: ",
        ),
        (
            "headers = { \"authorization.file\" = \"token\" }",
            Some("hunter2\nhunter2"),
            "telemetry: header `authorization` cannot be sent: ",
        ),
    ] {
        for only in ["metrics = \"off\"", "traces = 0"] {
            let place = place(&format!("{otlp}{only}\n{setting}\n"));
            for name in ["ca.pem", "token"] {
                if let Some(content) = file {
                    place.write(name, content);
                }
            }
            let output = place.command(&["run", "pipeline.toml"]).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
        }
    }
}
