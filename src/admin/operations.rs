//! All that the port answers, as one table: the routes are made of it, and so is the document at
//! `/openapi.json`.

use super::answers::{
    EpochAnswer, HealthAnswer, KeyAnswer, LevelAnswer, PartitionsAnswer, PipelineAnswer,
    SignalAnswer, StatusAnswer,
};
use super::openapi;
use super::problem::ProblemAnswer;
use super::routes;
use super::shared::Shared;
use axum::routing::{MethodRouter, get, post, put};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::sync::Arc;

/// What an answer holds.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// JSON of this schema.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Text.
    Text,
}

/// What the port can be asked.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Names of the parameters in the path, and what they are.
    pub(super) parameters: Vec<(&'static str, &'static str)>,
    /// What the body of the request holds, if it has one.
    pub(super) body: Option<Content>,
    /// Status, meaning and content of each answer, but for those that every operation has.
    pub(super) answers: Vec<(u16, &'static str, Content)>,
    pub(super) route: MethodRouter<Arc<Shared>>,
}

impl Operation {
    fn new(
        (method, path): (&'static str, &'static str),
        summary: &'static str,
        route: MethodRouter<Arc<Shared>>,
    ) -> Self {
        let (parameters, answers) = (Vec::new(), Vec::new());
        Self { method, path, summary, parameters, body: None, answers, route }
    }

    fn parameter(mut self, name: &'static str, meaning: &'static str) -> Self {
        self.parameters.push((name, meaning));
        self
    }

    fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(json::<T>());
        self.problem(413, "The body is too long.")
            .problem(415, "The body is not said to be JSON.")
            .problem(422, "The body is not what is taken here.")
    }

    fn answer<T: JsonSchema>(mut self, status: u16, meaning: &'static str) -> Self {
        self.answers.push((status, meaning, json::<T>()));
        self
    }

    fn text(mut self, status: u16, meaning: &'static str) -> Self {
        self.answers.push((status, meaning, Content::Text));
        self
    }

    fn problem(self, status: u16, meaning: &'static str) -> Self {
        self.answer::<ProblemAnswer>(status, meaning)
    }

    fn starting(self) -> Self {
        self.problem(503, "The run has not begun.")
    }
}

fn json<T: JsonSchema>() -> Content {
    Content::Json(|generator| generator.subschema_for::<T>())
}

/// All operations.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = looking();
    all.extend(telling());
    all
}

fn looking() -> Vec<Operation> {
    vec![
        Operation::new(("get", "/health"), "Whether the process does its work.", get(routes::health))
            .answer::<HealthAnswer>(200, "It does, or has not begun.")
            .answer::<HealthAnswer>(503, "It has failed, or its clock stands still: replace it."),
        Operation::new(("get", "/ready"), "Whether the run takes records.", get(routes::ready))
            .answer::<StatusAnswer>(200, "It does.")
            .answer::<StatusAnswer>(503, "It has not begun, or it ends."),
        Operation::new(("get", "/metrics"), "The page for Prometheus.", get(routes::metrics))
            .text(200, "Metrics, in the exposition format of Prometheus.")
            .starting(),
        Operation::new(("get", "/openapi.json"), "This document.", get(openapi::served))
            .answer::<openapi::Document>(200, "A document of OpenAPI 3.1."),
        Operation::new(
            ("get", "/api/v1/pipeline"),
            "The plan, and what sources, stages, shards and sinks have counted.",
            get(routes::pipeline),
        )
        .answer::<PipelineAnswer>(200, "The pipeline.")
        .starting(),
        Operation::new(
            ("get", "/api/v1/partitions"),
            "Every partition: what it promises, how far it has come, what it lacks.",
            get(routes::partitions),
        )
        .answer::<PartitionsAnswer>(200, "Partitions, and who holds the watermark.")
        .starting(),
        Operation::new(
            ("get", "/api/v1/keys/{stage}/{key}"),
            "What is kept of a key: its live windows or sessions.",
            get(routes::key),
        )
        .parameter("stage", "Name of the stage.")
        .parameter(
            "key",
            "The key: `field=value`, joined by commas; or a JSON object, also where the key is empty or a value holds a comma.",
        )
        .answer::<KeyAnswer>(200, "What is kept; no entries where nothing is.")
        .problem(400, "It is no key of the stage.")
        .problem(404, "There is no such stage.")
        .problem(500, "The state of the stage cannot be told.")
        .starting(),
        Operation::new(("get", "/api/v1/log-level"), "How much is logged.", get(routes::level))
            .answer::<LevelAnswer>(200, "The level."),
    ]
}

fn telling() -> Vec<Operation> {
    vec![
        Operation::new(
            ("put", "/api/v1/log-level"),
            "Changes how much is logged, until the process ends.",
            put(routes::set_level),
        )
        .body::<LevelAnswer>()
        .answer::<LevelAnswer>(200, "The new level.")
        .problem(400, "The body is not JSON.")
        .problem(409, "Something else logs for this process."),
        Operation::new(
            ("post", "/api/v1/signals/{name}"),
            "Gives a signal to the triggers that wait for it.",
            post(routes::signal),
        )
        .parameter("name", "Name of the signal.")
        .answer::<SignalAnswer>(202, "It is given.")
        .problem(400, "It is no name.")
        .problem(404, "No trigger waits for a signal of this name.")
        .problem(409, "The engine heeds no triggers.")
        .starting(),
        Operation::new(
            ("post", "/api/v1/epoch"),
            "Lets an epoch begin as soon as none is in flight.",
            post(routes::epoch),
        )
        .answer::<EpochAnswer>(202, "One will begin.")
        .problem(409, "No state is stored.")
        .starting(),
        Operation::new(
            ("post", "/api/v1/drain"),
            "Lets the run end as SIGTERM does.",
            post(routes::drain),
        )
        .answer::<StatusAnswer>(202, "It will.")
        .starting(),
    ]
}
