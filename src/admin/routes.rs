//! What can be asked, and the answers.

use super::answers::{EpochAnswer, PartitionsAnswer, PipelineAnswer, SignalAnswer, StatusAnswer};
use super::figures;
use super::guard::guard;
use super::problem::{Problem, no_method, no_path};
use super::shared::{Phase, Shared};
use crate::metrics::prometheus;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use nilometer_model::engine::Engine;
use nilometer_model::trigger::signals;
use std::sync::Arc;

/// Bytes of the body of a request: none has much to say.
const BODY_BYTES_MAX: usize = 4 << 10;

/// All that the port answers.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/pipeline", get(pipeline))
        .route("/api/v1/partitions", get(partitions))
        .route("/api/v1/signals/{name}", post(signal))
        .route("/api/v1/epoch", post(epoch))
        .route("/api/v1/drain", post(drain))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

fn status(code: StatusCode, status: &str) -> Response {
    (code, Json(StatusAnswer { status: status.into() })).into_response()
}

/// Whether the process does its work: if not, it should be replaced.
async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.status();
    let is_well = !matches!(text, "failed" | "stuck");
    status(if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// Whether it has begun, and goes on.
async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.status();
    let is_ready = text == Phase::Running.name();
    status(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// The page for Prometheus.
async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let page = prometheus::page(&*shared.account()?);
    Ok(([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], page).into_response())
}

async fn pipeline(State(shared): State<Arc<Shared>>) -> Result<Json<PipelineAnswer>, Problem> {
    let now_ms = shared.account()?.now;
    Ok(Json(figures::pipeline(&shared, shared.run()?, now_ms)))
}

async fn partitions(State(shared): State<Arc<Shared>>) -> Result<Json<PartitionsAnswer>, Problem> {
    Ok(Json(figures::partitions(shared.run()?)))
}

/// Gives a signal to the triggers that wait for it.
async fn signal(
    State(shared): State<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<(StatusCode, Json<SignalAnswer>), Problem> {
    let Path(name) = name.map_err(|_| Problem::bad("the name of a signal is a text in UTF-8"))?;
    let run = shared.run()?;
    if run.plan.engine != Engine::Streaming {
        return Err(Problem::conflict(
            "only `engine = \"streaming\"` heeds triggers, so a signal would change nothing",
        ));
    }
    if !signals(&run.plan).contains(&name.as_str()) {
        return Err(Problem::not_found(
            "no trigger of the pipeline waits for a signal of this name",
        ));
    }
    run.node.signal(name.as_str().into());
    Ok((StatusCode::ACCEPTED, Json(SignalAnswer { signal: name })))
}

/// Lets an epoch begin as soon as none is in flight.
async fn epoch(
    State(shared): State<Arc<Shared>>,
) -> Result<(StatusCode, Json<EpochAnswer>), Problem> {
    let run = shared.run()?;
    if !run.has_state {
        return Err(Problem::conflict("no state is stored, so there are no epochs; see `[state]`"));
    }
    let durable = run.node.meters().durable().number();
    run.node.begin_epoch();
    Ok((StatusCode::ACCEPTED, Json(EpochAnswer { durable })))
}

/// Lets the run end as SIGTERM does.
async fn drain(
    State(shared): State<Arc<Shared>>,
) -> Result<(StatusCode, Json<StatusAnswer>), Problem> {
    shared.run()?;
    shared.ask_drain();
    let status = Phase::Draining.name().into();
    Ok((StatusCode::ACCEPTED, Json(StatusAnswer { status })))
}
