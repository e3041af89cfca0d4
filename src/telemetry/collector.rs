//! A collector, and how requests get there: over gRPC, or as protocol buffers over HTTP.
//!
//! Invariant: a request ends within the time allowed, whatever the collector does; what it carries as
//! credentials is in no message.

use super::TelemetryError;
use super::dial::Dial;
use crate::config::{OtlpConfig, OtlpProtocol, Pipeline};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use nilometer_connectors::secret::Secret;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::codegen::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderName, HeaderValue, Request as HttpRequest, Uri};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What a collector is asked to take.
pub(crate) trait Signal: Message + Default + 'static {
    /// What it answers.
    type Answer: Message + Default + 'static;
    /// Where it takes it over gRPC.
    const METHOD: &'static str;
    /// Where it takes it over HTTP, below its URL.
    const PATH: &'static str;
    /// How much of it an answer says was not taken, and why.
    fn rejected(answer: Self::Answer) -> Option<(i64, String)>;
}

impl Signal for ExportTraceServiceRequest {
    type Answer = ExportTraceServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const PATH: &'static str = "/v1/traces";

    fn rejected(answer: Self::Answer) -> Option<(i64, String)> {
        answer.partial_success.map(|part| (part.rejected_spans, part.error_message))
    }
}

impl Signal for ExportMetricsServiceRequest {
    type Answer = ExportMetricsServiceResponse;
    const METHOD: &'static str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    const PATH: &'static str = "/v1/metrics";

    fn rejected(answer: Self::Answer) -> Option<(i64, String)> {
        answer.partial_success.map(|part| (part.rejected_data_points, part.error_message))
    }
}

/// A collector did not take something.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// It cannot be reached, or said no.
    #[error("the collector at {endpoint} takes nothing: {detail}")]
    Nothing {
        /// Its URL.
        endpoint: Box<str>,
        /// What it or the operating system says.
        detail: Box<str>,
    },
    /// It did not answer in time.
    #[error("the collector at {endpoint} has not answered within {} s", after.as_secs_f64())]
    Late {
        /// Its URL.
        endpoint: Box<str>,
        /// The time allowed.
        after: Duration,
    },
    /// It did not take all.
    #[error("the collector at {endpoint} has not taken {count}: {detail}")]
    Part {
        /// Its URL.
        endpoint: Box<str>,
        /// How many spans or data points.
        count: u64,
        /// What it says.
        detail: Box<str>,
    },
}

/// A collector. To be made and used inside one runtime of tokio.
pub(crate) struct Collector {
    endpoint: Box<str>,
    timeout: Duration,
    way: Way,
}

enum Way {
    Grpc { channel: Channel, headers: Vec<(AsciiMetadataKey, AsciiMetadataValue)> },
    Http { client: Box<Client<Dial, Full<Bytes>>>, headers: Vec<(HeaderName, HeaderValue)> },
}

impl Collector {
    /// Connects with nobody yet.
    ///
    /// # Errors
    /// See [`TelemetryError`].
    pub(crate) fn new(config: &OtlpConfig) -> Result<Self, TelemetryError> {
        let timeout = Duration::from_millis(config.timeout.as_millis().unsigned_abs());
        let dial = Dial::new(config)?;
        let way = match config.protocol {
            OtlpProtocol::Grpc => {
                let to = Endpoint::from_shared(config.endpoint.to_string());
                let to = to.map_err(|error| TelemetryError::Url {
                    endpoint: config.endpoint.clone(),
                    detail: error.to_string().into(),
                })?;
                let channel = to.connect_timeout(timeout).connect_with_connector_lazy(dial);
                Way::Grpc { channel, headers: headers(&config.headers)? }
            }
            OtlpProtocol::Http => {
                let client = Box::new(Client::builder(TokioExecutor::new()).build(dial));
                Way::Http { client, headers: headers(&config.headers)? }
            }
        };
        Ok(Self { endpoint: config.endpoint.clone(), timeout, way })
    }

    /// As [`Collector::new`], with a runtime of its own.
    ///
    /// # Errors
    /// See [`TelemetryError`].
    pub(crate) fn at_home(config: &OtlpConfig) -> Result<(Runtime, Self), TelemetryError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let collector = {
            // Channels want to know where they live.
            let _entered = runtime.enter();
            Self::new(config)
        };
        match collector {
            Ok(collector) => Ok((runtime, collector)),
            Err(error) => {
                // Inside of another runtime nobody may wait for the end of this one.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// That it has not answered within `after`.
    pub(crate) fn late(&self, after: Duration) -> Refusal {
        Refusal::Late { endpoint: self.endpoint.clone(), after }
    }

    /// Hands over `signal`.
    ///
    /// # Errors
    /// It was not taken, or not all of it.
    pub(crate) async fn take<S: Signal>(&self, signal: S) -> Result<(), Refusal> {
        let endpoint = || self.endpoint.clone();
        let answered = tokio::time::timeout(self.timeout, async {
            match &self.way {
                Way::Grpc { channel, headers } => over_grpc(channel, headers, signal).await,
                Way::Http { client, headers } => {
                    over_http(client, (&self.endpoint, headers), signal).await
                }
            }
        });
        match answered.await {
            Err(_) => Err(self.late(self.timeout)),
            Ok(Err(detail)) => {
                Err(Refusal::Nothing { endpoint: endpoint(), detail: detail.into() })
            }
            Ok(Ok(answer)) => match S::rejected(answer) {
                Some((count, detail)) if count > 0 => Err(Refusal::Part {
                    endpoint: endpoint(),
                    count: count.unsigned_abs(),
                    detail: detail.into(),
                }),
                Some(_) | None => Ok(()),
            },
        }
    }
}

/// Headers as a way of requests has them.
fn headers<N: FromStr, V: FromStr>(
    headers: &[(Box<str>, Secret)],
) -> Result<Vec<(N, V)>, TelemetryError> {
    let header = |(name, value): &(Box<str>, Secret)| {
        let value = value.read();
        let value =
            value.map_err(|error| TelemetryError::HeaderFile { name: name.clone(), error })?;
        let parsed = (name.to_ascii_lowercase().parse(), value.parse());
        let (Ok(known), Ok(value)) = parsed else {
            return Err(TelemetryError::Header { name: name.clone() });
        };
        Ok((known, value))
    };
    headers.iter().map(header).collect()
}

async fn over_grpc<S: Signal>(
    channel: &Channel,
    headers: &[(AsciiMetadataKey, AsciiMetadataValue)],
    signal: S,
) -> Result<S::Answer, String> {
    let mut request = tonic::Request::new(signal);
    for (name, value) in headers {
        request.metadata_mut().insert(name.clone(), value.clone());
    }
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| chain(&error))?;
    let codec = ProstCodec::<S, S::Answer>::default();
    let answered = client.unary(request, PathAndQuery::from_static(S::METHOD), codec).await;
    answered.map(tonic::Response::into_inner).map_err(|status| status_text(&status))
}

async fn over_http<S: Signal>(
    client: &Client<Dial, Full<Bytes>>,
    (endpoint, headers): (&str, &[(HeaderName, HeaderValue)]),
    signal: S,
) -> Result<S::Answer, String> {
    let url = format!("{}{}", endpoint.trim_end_matches('/'), S::PATH);
    let url: Uri = url.parse().map_err(|_| format!("`{url}` is no URL"))?;
    let mut request = HttpRequest::post(url).header("content-type", "application/x-protobuf");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(signal.encode_to_vec())));
    let request = request.map_err(|error| error.to_string())?;
    let answered = client.request(request).await.map_err(|error| chain(&error))?;
    let status = answered.status();
    if !status.is_success() {
        return Err(format!("HTTP status {status}"));
    }
    let body = Limited::new(answered.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    S::Answer::decode(body).map_err(|error| format!("its answer makes no sense: {error}"))
}

/// What a status says, which prints as code otherwise.
fn status_text(status: &tonic::Status) -> String {
    let mut text = status.code().description().to_owned();
    say(&mut text, status.message());
    led_by(text, status.source())
}

/// What an error says, and what led to it.
fn chain(error: &dyn Error) -> String {
    led_by(error.to_string(), error.source())
}

fn led_by(mut text: String, mut source: Option<&dyn Error>) -> String {
    while let Some(error) = source {
        say(&mut text, &error.to_string());
        source = error.source();
    }
    text
}

/// Adds `more`, unless that has been said.
fn say(text: &mut String, more: &str) {
    if !text.contains(more) {
        text.push_str(": ");
        text.push_str(more);
    }
}

/// What is said of this process, whatever it tells.
pub(crate) fn resource(pipeline: &Pipeline) -> Resource {
    let own = [
        ("service.name", "nilometer".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{}/{}", node(pipeline), std::process::id())),
        ("nilometer.pipeline", pipeline.job.name.to_string()),
        ("nilometer.node", node(pipeline)),
    ];
    let said = &pipeline.telemetry.resource;
    let is_said = |name: &str| said.iter().any(|(said, _)| &**said == name);
    let own = own.into_iter().filter(|(name, _)| !is_said(name));
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let said = said.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let attribute = |(key, value)| KeyValue {
        key,
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(value)) }),
        ..KeyValue::default()
    };
    Resource { attributes: own.chain(said).map(attribute).collect(), ..Resource::default() }
}

/// The name of this node: that in its group, where it has one, else that of its machine.
fn node(pipeline: &Pipeline) -> String {
    let instance = pipeline.sources.iter().find_map(|source| source.kind.instance());
    let machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = instance.map(str::to_owned).or_else(machine).unwrap_or_default();
    name.trim().to_owned()
}
