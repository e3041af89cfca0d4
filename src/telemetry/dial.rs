//! Connections to a collector: TCP, and TLS over it where its URL says `https`.
//!
//! OpenSSL, which the client of Kafka brings, so that both trust the same certificates. Invariant: what is
//! not trusted is not talked to.

use super::TelemetryError;
use crate::config::{OtlpConfig, OtlpProtocol};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509VerifyResult;
use openssl::x509::store::X509StoreBuilder;
use std::error::Error;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

type Failed = Box<dyn Error + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dial {
    tcp: HttpConnector,
    /// `None` where nothing is encrypted.
    tls: Option<SslConnector>,
}

impl Dial {
    /// To the collector of `config`.
    ///
    /// # Errors
    /// The certificates that it is to be known by cannot be read.
    pub(super) fn new(config: &OtlpConfig) -> Result<Self, TelemetryError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let ca_file = config.ca_file.as_deref();
        let tls = config.is_encrypted().then(|| connector(config.protocol, ca_file)).transpose();
        let tls = tls.map_err(|error| TelemetryError::Certificates {
            ca_file: ca_file.map(Path::to_path_buf),
            detail: error.to_string().into(),
        })?;
        Ok(Self { tcp, tls })
    }
}

/// Trusts what the authorities in `ca_file` have signed, or else those of the system.
fn connector(protocol: OtlpProtocol, ca_file: Option<&Path>) -> Result<SslConnector, ErrorStack> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    if let Some(ca_file) = ca_file {
        builder.set_cert_store(X509StoreBuilder::new()?.build());
        builder.set_ca_file(ca_file)?;
    }
    builder.set_alpn_protos(match protocol {
        OtlpProtocol::Grpc => b"\x02h2",
        OtlpProtocol::Http => b"\x08http/1.1",
    })?;
    Ok(builder.build())
}

async fn encrypt(
    tls: SslConnector,
    tcp: TcpStream,
    host: String,
) -> Result<SslStream<TcpStream>, Failed> {
    let mut stream = SslStream::new(tls.configure()?.into_ssl(&host)?, tcp)?;
    match Pin::new(&mut stream).connect().await {
        Ok(()) => Ok(stream),
        Err(error) => Err(match stream.ssl().verify_result() {
            X509VerifyResult::OK => format!("TLS: {error}").into(),
            untrusted => {
                format!("TLS: its certificate is not trusted: {}", untrusted.error_string()).into()
            }
        }),
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failed>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        // Addresses of version 6 stand in brackets in a URL only.
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (tls, connecting) = (self.tls.clone(), self.tcp.call(to));
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            let stream: Box<dyn Stream> = match tls {
                Some(tls) => Box::new(encrypt(tls, tcp, host).await?),
                None => Box::new(tcp),
            };
            Ok(TokioIo::new(stream))
        })
    }
}
