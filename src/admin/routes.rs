//! What can be asked, and the answers.

use super::answers::{
    EpochAnswer, HealthAnswer, KeyAnswer, LevelAnswer, PartitionsAnswer, PipelineAnswer,
    SignalAnswer, StatusAnswer,
};
use super::figures;
use super::guard::{BODY_BYTES_MAX, guard};
use super::operations::operations;
use super::problem::{Problem, no_method, no_path};
use super::shared::{Phase, Shared};
use crate::logs;
use crate::metrics::prometheus;
use crate::state::tools::json::of_table;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware};
use nilometer_model::engine::Engine;
use nilometer_model::image::{LookError, WrittenKey};
use nilometer_model::trigger::signals;
use std::sync::Arc;

/// All that the port answers.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let routes = operations().into_iter();
    let router = routes
        .fold(Router::new(), |router, operation| router.route(operation.path, operation.route));
    router
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
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.status();
    let is_well = !matches!(text, "failed" | "stuck");
    let code = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let held_up = shared.plights.now().into_iter();
    let held_up = held_up.map(|(who, why)| (who.to_string(), why.to_string())).collect();
    (code, Json(HealthAnswer { status: text.into(), held_up })).into_response()
}

/// Whether it has begun, and goes on.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.status();
    let is_ready = text == Phase::Running.name();
    status(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// The page for Prometheus.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let page = prometheus::page(&*shared.account()?);
    Ok(([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], page).into_response())
}

pub(super) async fn pipeline(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<PipelineAnswer>, Problem> {
    let now_ms = shared.account()?.now;
    Ok(Json(figures::pipeline(&shared, shared.run()?, now_ms)))
}

pub(super) async fn partitions(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<PartitionsAnswer>, Problem> {
    Ok(Json(figures::partitions(shared.run()?)))
}

/// Gives a signal to the triggers that wait for it.
pub(super) async fn signal(
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
    tracing::info!(name, "a signal was given through the admin port");
    run.node.signal(name.as_str().into());
    Ok((StatusCode::ACCEPTED, Json(SignalAnswer { signal: name })))
}

/// Lets an epoch begin as soon as none is in flight.
pub(super) async fn epoch(
    State(shared): State<Arc<Shared>>,
) -> Result<(StatusCode, Json<EpochAnswer>), Problem> {
    let run = shared.run()?;
    if !run.has_state {
        return Err(Problem::conflict("no state is stored, so there are no epochs; see `[state]`"));
    }
    let durable = run.node.meters().durable().number();
    tracing::info!("an epoch was asked for through the admin port");
    run.node.begin_epoch();
    Ok((StatusCode::ACCEPTED, Json(EpochAnswer { durable })))
}

/// Lets the run end as SIGTERM does.
pub(super) async fn drain(
    State(shared): State<Arc<Shared>>,
) -> Result<(StatusCode, Json<StatusAnswer>), Problem> {
    shared.run()?;
    tracing::info!("a drain was asked for through the admin port");
    shared.ask_drain();
    let status = Phase::Draining.name().into();
    Ok((StatusCode::ACCEPTED, Json(StatusAnswer { status })))
}

/// What is kept of a key, in the shard that has it.
pub(super) async fn key(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<KeyAnswer>, Problem> {
    let Path((name, key)) = path.map_err(|_| Problem::bad("stage and key are texts in UTF-8"))?;
    let run = shared.run()?;
    let stage = run.plan.stages.iter().find(|stage| *stage.name == *name);
    let stage = stage.ok_or_else(|| Problem::not_found("there is no stage of this name"))?;
    let key = written(&key).ok_or_else(|| {
        Problem::bad("a key is `field=value`, joined by commas, or a JSON object")
    })?;
    let (node, id) = (run.node.clone(), stage.id);
    let look = shared.in_turn(async move { node.look(id, key).await }).await?;
    let look = look.map_err(|error| match error {
        LookError::Key { .. } => Problem::bad(error.to_string()),
        LookError::Function(_) | LookError::Image(_) | LookError::Page(_) => {
            Problem::internal(error.to_string())
        }
    })?;
    let entries = look.entries.iter().filter_map(|seen| {
        match of_table((&stage.name, seen.kind), seen.is_cold, &seen.view) {
            serde_json::Value::Object(entry) => Some(entry),
            _ => None,
        }
    });
    let entries = entries.collect();
    Ok(Json(KeyAnswer { stage: name, entries, unseen_keys: look.unseen as u64 }))
}

/// The fields and values of a key, as they are written in a path.
fn written(key: &str) -> Option<WrittenKey> {
    if key.starts_with('{') {
        let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(key).ok()?;
        let member = |(name, value): (String, serde_json::Value)| {
            let value = match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.into()),
                other => Some(other.to_string().into()),
            };
            (name.into(), value)
        };
        return Some(members.into_iter().map(member).collect());
    }
    let part = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.into(), Some(value.into())))
    };
    key.split(',').map(part).collect()
}

/// How much is logged.
pub(super) async fn level() -> Json<LevelAnswer> {
    Json(LevelAnswer { level: logs::level() })
}

/// Changes how much is logged.
pub(super) async fn set_level(
    wanted: Result<Json<LevelAnswer>, JsonRejection>,
) -> Result<Json<LevelAnswer>, Problem> {
    let Json(wanted) = wanted.map_err(|rejection| {
        let error = match rejection {
            JsonRejection::MissingJsonContentType(_) => {
                "the body is not said to be JSON: send it with `content-type: application/json`"
            }
            _ => "the body is JSON: {\"level\": \"off\"}, or error, warn, info, debug, trace",
        };
        Problem::refused(rejection.status(), error)
    })?;
    if !logs::set_level(wanted.level) {
        return Err(Problem::conflict("something else logs for this process"));
    }
    Ok(Json(wanted))
}
