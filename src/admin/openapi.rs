//! The document that says what the port answers, in OpenAPI 3.1, made of the table of operations and
//! the types of the answers.

use super::operations::{Content, Operation, operations};
use super::problem::ProblemAnswer;
use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// A document of OpenAPI.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it only says what the document looks like")]
pub(super) struct Document {
    /// Version of the language.
    openapi: String,
    /// What this is.
    info: Map<String, Value>,
    /// Operations by path and method.
    paths: Map<String, Value>,
}

/// The document, made when somebody first asks for it.
static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(super) async fn served() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(operation.method.into(), described(&operation, &mut generator));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nilometer, the admin port of a run",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn described(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let parameters = operation.parameters.iter().map(|(name, meaning)| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": meaning,
            "schema": { "type": "string" },
        })
    });
    let problem = Content::Json(|generator| generator.subschema_for::<ProblemAnswer>());
    let everywhere = [
        (401, "The token is missing or wrong.", problem),
        (403, "Nobody may: the port has no token.", problem),
    ];
    let answers = operation.answers.iter().copied().chain(everywhere);
    let answers = answers.map(|(status, meaning, content)| {
        let answer = json!({ "description": meaning, "content": media(content, generator) });
        (status.to_string(), answer)
    });
    let answers: Map<_, _> = answers.collect();
    let only_looks = operation.method == "get";
    // An empty requirement means that one may ask without.
    let security = if only_looks { json!([{}, { "token": [] }]) } else { json!([{ "token": [] }]) };
    let mut described = json!({
        "summary": operation.summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": answers,
        "security": security,
    });
    if let (Some(body), Some(members)) = (operation.body, described.as_object_mut()) {
        let body = json!({ "required": true, "content": media(body, generator) });
        members.insert("requestBody".into(), body);
    }
    described
}

fn media(content: Content, generator: &mut SchemaGenerator) -> Value {
    match content {
        Content::Json(schema) => json!({ "application/json": { "schema": schema(generator) } }),
        Content::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
    }
}
