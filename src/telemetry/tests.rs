//! What a collector is told, over real connections, and that one which does not listen costs nothing.

use super::Pushing;
use super::collector::Collector;
use crate::admin::tests::kit::{Run, in_system};
use crate::config::{OtlpConfig, OtlpProtocol};
use nilometer_actors::node::Outcome;
use nilometer_model::time::Span;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest as Request, ExportMetricsServiceResponse as Reply,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use tonic::transport::server::TcpIncoming;

/// Of a run that tells a collector which tests have made.
const TOLD: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n\
    [telemetry]\nresource = { \"service.name\" = \"mine\", zone = \"z1\" }\n";

#[test]
fn nobody_who_listens_is_told_of_in_words() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let config = config(nobody, protocol, 5_000);
        let (runtime, collector) = Collector::at_home(&config).unwrap();
        let refusal = runtime.block_on(collector.take(Request::default())).unwrap_err();
        let text = refusal.to_string();
        assert!(text.starts_with(&format!("the collector at http://{nobody} takes nothing: ")));
        assert!(text.ends_with("Connection refused (os error 111)"), "{text}");
        // As programmers print errors.
        assert!(!text.contains(['"', '{', '\'']), "{text}");
        assert_eq!(text.matches("tcp connect error").count(), 1, "{text}");
    }
}

/// What a collector was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Request>>>);

#[tonic::async_trait]
impl MetricsService for Told {
    async fn export(
        &self,
        request: tonic::Request<Request>,
    ) -> Result<tonic::Response<Reply>, tonic::Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(tonic::Response::new(Reply::default()))
    }
}

/// Takes what is told on a thread of its own, which goes with the process.
fn listen(protocol: OtlpProtocol, told: Told) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            match protocol {
                OtlpProtocol::Grpc => tonic::transport::Server::builder()
                    .add_service(MetricsServiceServer::new(told))
                    .serve_with_incoming(TcpIncoming::from(listener))
                    .await
                    .unwrap(),
                OtlpProtocol::Http => {
                    let take = move |body: axum::body::Bytes| async move {
                        told.0.lock().unwrap().push(Request::decode(body).unwrap());
                    };
                    let router = axum::Router::new();
                    let router = router.route("/v1/metrics", axum::routing::post(take));
                    let service = hyper_util::service::TowerToHyperService::new(router);
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        let stream = hyper_util::rt::TokioIo::new(stream);
                        let connection = hyper::server::conn::http1::Builder::new();
                        tokio::spawn(connection.serve_connection(stream, service.clone()));
                    }
                }
            }
        });
    });
    address
}

fn config(address: SocketAddr, protocol: OtlpProtocol, timeout: i64) -> OtlpConfig {
    OtlpConfig {
        endpoint: format!("http://{address}").into(),
        protocol,
        metrics: Some(Span::from_millis(20)),
        timeout: Span::from_millis(timeout),
        traces: 0.0,
        parent_based: true,
        ca_file: None,
        headers: Vec::new(),
    }
}

fn text(attributes: &[KeyValue]) -> String {
    let one = |attribute: &KeyValue| {
        let value = attribute.value.as_ref().and_then(|value| value.value.clone());
        let Some(any_value::Value::StringValue(value)) = value else { panic!("{attribute:?}") };
        format!("{}={value}", attribute.key)
    };
    attributes.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The counters and the counts of histograms of a request.
fn totals(request: &Request) -> BTreeMap<(String, String), u64> {
    let mut totals = BTreeMap::new();
    for known in &request.resource_metrics[0].scope_metrics[0].metrics {
        match known.data.as_ref().unwrap() {
            metric::Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{known:?}");
                for point in &sum.data_points {
                    let Some(number_data_point::Value::AsInt(value)) = point.value else {
                        panic!("{point:?}")
                    };
                    assert!(point.start_time_unix_nano <= point.time_unix_nano);
                    totals.insert((known.name.clone(), text(&point.attributes)), value as u64);
                }
            }
            metric::Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    totals.insert((known.name.clone(), text(&point.attributes)), point.count);
                }
            }
            _ => {}
        }
    }
    totals
}

/// What the account of the run says that its totals are.
fn counted(outcome: &Outcome) -> Vec<(&'static str, String, u64)> {
    let (records, stage) = (outcome.records(), &outcome.stages()[0]);
    let of_source = |outcome: &str| format!("source=in,outcome={outcome}");
    let of_stage = |outcome: &str| format!("stage=sums,outcome={outcome}");
    vec![
        ("nilometer_records_read_total", "source=in".into(), records.read),
        ("nilometer_records_total", of_source("accepted"), records.accepted),
        ("nilometer_records_total", of_source("filtered"), records.filtered),
        ("nilometer_records_total", of_source("malformed"), records.malformed.total()),
        ("nilometer_records_total", of_source("dead_lettered"), records.dead_lettered.total()),
        (
            "nilometer_record_marks_total",
            "source=in,mark=reordered".into(),
            records.marks.get("reordered"),
        ),
        (
            "nilometer_records_rejected_total",
            "source=in,reason=not_json".into(),
            records.malformed.get("not_json"),
        ),
        ("nilometer_stage_records_total", of_stage("on_time"), stage.on_time),
        ("nilometer_stage_records_total", of_stage("late"), stage.late),
        ("nilometer_stage_records_total", of_stage("expired"), stage.expired),
        ("nilometer_stage_records_total", of_stage("closed"), stage.closed),
        ("nilometer_panes_emitted_total", "stage=sums,kind=insert".into(), stage.panes),
        ("nilometer_panes_emitted_total", "stage=sums,kind=retract".into(), stage.retracts),
        ("nilometer_sink_panes_total", "sink=out,kind=insert".into(), outcome.sinks[0].panes),
        ("nilometer_sink_panes_total", "sink=out,kind=retract".into(), outcome.sinks[0].retracts),
        ("nilometer_sink_late_total", "sink=out".into(), outcome.sinks[0].late),
        ("nilometer_latency_event_time_seconds", "sink=out".into(), outcome.sinks[0].panes),
        ("nilometer_latency_processing_time_seconds", "sink=out".into(), outcome.sinks[0].panes),
    ]
}

#[test]
fn a_collector_is_told_in_the_end_what_the_account_says() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let told = Told::default();
        let address = listen(protocol, told.clone());
        in_system(async {
            let run = Run::start(TOLD);
            let watched = run.watched.clone();
            let pushing =
                Pushing::start(&config(address, protocol, 10_000), run.resource.clone(), watched);
            let pushing = pushing.unwrap().unwrap();
            run.until_read().await;
            run.until("/metrics", |page| page.body.contains("pushes_total{outcome=\"taken\"}"))
                .await;
            let (outcome, _directory) = run.end().await;
            drop(pushing);
            let told = told.0.lock().unwrap();
            assert!(told.len() >= 2, "while it ran, and in the end");
            let last = told.last().unwrap();
            let totals = totals(last);
            let counted = counted(&outcome);
            assert_eq!(counted[0].2, 7);
            for (name, labels, count) in counted {
                assert_eq!(totals.get(&(name.into(), labels)), Some(&count), "{name}");
            }
            let resource = text(&last.resource_metrics[0].resource.as_ref().unwrap().attributes);
            assert!(resource.contains("nilometer.pipeline=seen,"), "{resource}");
            assert!(resource.ends_with(",service.name=mine,zone=z1"), "{resource}");
        });
    }
}

#[test]
fn a_collector_that_is_away_or_slow_costs_a_counter() {
    // It takes the connection and says nothing.
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        for address in [slow.local_addr().unwrap(), away] {
            in_system(async {
                let run = Run::start(TOLD);
                let watched = run.watched.clone();
                let config = config(address, protocol, 200);
                let pushing =
                    Pushing::start(&config, run.resource.clone(), watched.clone()).unwrap();
                run.until_read().await;
                let failed = "nilometer_telemetry_pushes_total{outcome=\"failed\"}";
                run.until("/metrics", |page| page.body.contains(failed)).await;
                let (outcome, _directory) = run.end().await;
                assert_eq!((outcome.records().read, outcome.failures.len()), (7, 0));
                drop(pushing);
                let (taken, failed) = watched.pushes.counts();
                assert!(taken == 0 && failed >= 2, "{taken} {failed}");
            });
        }
    }
}
