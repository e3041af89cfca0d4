//! A collector in this process, which takes OTLP over gRPC and over HTTP, and keeps what it was given.

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// What a collector does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It takes it.
    Takes,
    /// It says that it cannot.
    Refuses,
    /// It takes metrics, and says of spans that it cannot.
    TakesMetrics,
    /// It never answers.
    Hangs,
}

/// What it was sent.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) spans: Vec<ResourceSpans>,
    pub(crate) metrics: Vec<ResourceMetrics>,
    /// The `authorization` of each request.
    pub(crate) authorizations: Vec<String>,
}

#[derive(Debug, Clone)]
struct Intake {
    manner: Manner,
    got: Arc<(Mutex<Got>, Condvar)>,
}

impl Intake {
    /// That of spans.
    fn of_spans(&self) -> Self {
        let manner = match self.manner {
            Manner::TakesMetrics => Manner::Refuses,
            manner => manner,
        };
        Self { manner, got: self.got.clone() }
    }

    async fn take(
        &self,
        authorization: Option<&str>,
        keep: impl FnOnce(&mut Got) + Send,
    ) -> Result<(), Status> {
        match self.manner {
            Manner::Takes | Manner::TakesMetrics => {
                let mut got = self.got.0.lock().unwrap();
                got.authorizations.extend(authorization.map(str::to_owned));
                keep(&mut got);
                self.got.1.notify_all();
                Ok(())
            }
            Manner::Refuses => Err(Status::unavailable("has enough")),
            Manner::Hangs => std::future::pending().await,
        }
    }
}

fn authorization<T>(request: &Request<T>) -> Option<String> {
    let value = request.metadata().get("authorization");
    value.map(|value| value.to_str().unwrap().to_owned())
}

#[tonic::async_trait]
impl TraceService for Intake {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let authorization = authorization(&request);
        let spans = request.into_inner().resource_spans;
        self.of_spans().take(authorization.as_deref(), |got| got.spans.extend(spans)).await?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Intake {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let authorization = authorization(&request);
        let metrics = request.into_inner().resource_metrics;
        self.take(authorization.as_deref(), |got| got.metrics.extend(metrics)).await?;
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// A collector. It goes on until the process ends.
pub(crate) struct Collector {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    got: Arc<(Mutex<Got>, Condvar)>,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let got = Arc::<(Mutex<Got>, Condvar)>::default();
        let intake = Intake { manner, got: got.clone() };
        let listen = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            (listener.local_addr().unwrap(), listener)
        };
        let ((grpc, grpc_listener), (http, http_listener)) = (listen(), listen());
        let serve = async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(grpc_listener).unwrap());
            let services = tonic::transport::Server::builder()
                .add_service(TraceServiceServer::new(intake.clone()))
                .add_service(MetricsServiceServer::new(intake.clone()))
                .serve_with_incoming(incoming);
            let listener = TcpListener::from_std(http_listener).unwrap();
            let pages = axum::serve(listener, pages(&intake)).into_future();
            let (services, pages) = tokio::join!(services, pages);
            services.unwrap();
            pages.unwrap();
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        thread::spawn(move || runtime.block_on(serve));
        Self { grpc, http, got }
    }

    /// What it was sent so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Got) -> T) -> T {
        look(&self.got.0.lock().unwrap())
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.look(|got| {
            let scopes = got.spans.iter().flat_map(|resource| &resource.scope_spans);
            scopes.flat_map(|scope| scope.spans.clone()).collect()
        })
    }
}

/// What it takes over HTTP.
fn pages(intake: &Intake) -> axum::Router {
    let (of_spans, of_metrics) = (intake.of_spans(), intake.clone());
    let spans = post(async move |headers: HeaderMap, body: Bytes| {
        let sent = ExportTraceServiceRequest::decode(body).unwrap();
        answer(&of_spans, &headers, |got| got.spans.extend(sent.resource_spans)).await
    });
    let metrics = post(async move |headers: HeaderMap, body: Bytes| {
        let sent = ExportMetricsServiceRequest::decode(body).unwrap();
        answer(&of_metrics, &headers, |got| got.metrics.extend(sent.resource_metrics)).await
    });
    axum::Router::new().route("/v1/traces", spans).route("/v1/metrics", metrics)
}

async fn answer(
    intake: &Intake,
    headers: &HeaderMap,
    keep: impl FnOnce(&mut Got) + Send,
) -> Result<Vec<u8>, axum::http::StatusCode> {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap());
    let taken = intake.take(authorization, keep).await;
    // An empty answer is the answer that everything was taken.
    taken.map(|()| Vec::new()).map_err(|_| axum::http::StatusCode::SERVICE_UNAVAILABLE)
}
