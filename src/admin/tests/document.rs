//! The port answers what its document says: every operation is asked, with parameters that are right and
//! wrong, and every answer is held against the schema of its status.

use super::kit::{Answer, Run, TOKEN, get, in_system};
use super::telling::GUARDED;
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Asks and waits for the answer; the port has a thread of its own.
fn ask_now(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).ok();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok();
    let text = String::from_utf8_lossy(request);
    Answer::read(&bytes).unwrap_or_else(|| panic!("no answer to {text}"))
}

/// An operation of the document, and what its answers must be.
struct Described {
    method: String,
    path: String,
    parameters: Vec<String>,
    has_body: bool,
    /// By status; none where the answer is text.
    answers: BTreeMap<u16, Option<Validator>>,
}

fn described(document: &Json) -> Vec<Described> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().iter();
            let answers = answers.map(|(status, answer)| {
                let schema = answer["content"].get("application/json").map(|media| {
                    let mut schema = media["schema"].clone();
                    // What the references of the schema lead to.
                    schema["components"] = document["components"].clone();
                    jsonschema::validator_for(&schema).unwrap()
                });
                (status.parse().unwrap(), schema)
            });
            let parameters = operation["parameters"].as_array().unwrap().iter();
            all.push(Described {
                method: method.to_uppercase(),
                path: path.clone(),
                parameters: parameters
                    .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                    .collect(),
                has_body: operation.get("requestBody").is_some(),
                answers: answers.collect(),
            });
        }
    }
    all
}

/// Every byte that might mean something, as `%XX`.
fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// A value of a parameter: one that is right as often as one that is not.
fn parameter(name: &str) -> BoxedStrategy<Vec<u8>> {
    let right: Vec<&[u8]> = match name {
        "stage" => vec![b"sums"],
        "key" => vec![b"k=a", b"{\"k\":\"b\"}", b"{\"k\":\"nobody\"}", b"{}", b"k=a,k=b", b"k"],
        "name" => vec![b"flush"],
        other => panic!("a parameter that nobody has thought of: {other}"),
    };
    let right = select(right).prop_map(<[u8]>::to_vec);
    let wrong = prop_oneof![
        select(vec![
            &b"../../etc/passwd"[..],
            b"..",
            b"%00",
            b"\0",
            b"\xff\xfe",
            b"{",
            b"[]",
            b"="
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 1..40),
        "[a-z=,{}\":]{1,200}".prop_map(String::into_bytes),
    ];
    prop_oneof![right, wrong].boxed()
}

fn body() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let kind = select(vec!["application/json", "application/json", "text/plain", ""]);
    let bodies = [
        "{\"level\":\"warn\"}",
        "{\"level\":\"loud\"}",
        "{}",
        "",
        "[",
        "{\"level\":\"off\",\"x\":1}",
    ];
    let body = prop_oneof![
        select(bodies.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..64),
        (4_000_usize..6_000).prop_map(|length| vec![b' '; length]),
    ];
    (kind, body)
}

/// A request of `operation`.
fn request(operation: &Described) -> impl Strategy<Value = Vec<u8>> + use<> {
    let parameters: Vec<_> = operation.parameters.iter().map(|name| parameter(name)).collect();
    let (method, path) = (operation.method.clone(), operation.path.clone());
    let (names, has_body) = (operation.parameters.clone(), operation.has_body);
    let token = select(vec![TOKEN, TOKEN, TOKEN, "", "not-the-token-but-long"]);
    (parameters, token, body()).prop_map(move |(values, token, (kind, body))| {
        let path = names.iter().zip(&values).fold(path.clone(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), &encoded(value))
        });
        let body = if has_body { body } else { Vec::new() };
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend(body);
        request
    })
}

#[test]
fn every_answer_is_what_the_document_says() {
    in_system(async {
        let run = Run::start(GUARDED);
        run.until_read().await;
        let document = get(run.address(), "/openapi.json").await.json();
        let operations = described(&document);
        let paths: BTreeSet<_> = operations.iter().map(|known| known.path.as_str()).collect();
        assert_eq!((operations.len(), paths.len()), (12, 11));
        let seen: RefCell<BTreeSet<(String, u16)>> = RefCell::default();
        for operation in &operations {
            let cases = if operation.has_body { 256 } else { 48 };
            let config = Config {
                cases,
                rng_seed: RngSeed::Fixed(7),
                failure_persistence: None,
                ..Config::default()
            };
            let mut runner = TestRunner::new(config);
            let address = run.address();
            let tried = runner.run(&request(operation), |request| {
                let answer = ask_now(address, &request);
                let known = operation.answers.get(&answer.status);
                prop_assert!(known.is_some(), "{answer:?} of {} is not described", operation.path);
                if let Some(Some(schema)) = known {
                    let json: Json = serde_json::from_str(&answer.body).unwrap();
                    let found: Vec<_> = schema.iter_errors(&json).map(|e| e.to_string()).collect();
                    prop_assert!(found.is_empty(), "{found:?}: {answer:?}");
                }
                prop_assert!(!answer.body.contains(TOKEN));
                seen.borrow_mut().insert((operation.path.clone(), answer.status));
                Ok(())
            });
            if let Err(error) = tried {
                panic!("{} {}: {error}", operation.method, operation.path);
            }
        }
        for (path, status) in [
            ("/api/v1/keys/{stage}/{key}", 200),
            ("/api/v1/keys/{stage}/{key}", 400),
            ("/api/v1/keys/{stage}/{key}", 404),
            ("/api/v1/signals/{name}", 202),
            ("/api/v1/signals/{name}", 401),
            ("/api/v1/signals/{name}", 404),
            ("/api/v1/log-level", 200),
            ("/api/v1/log-level", 413),
            ("/api/v1/log-level", 415),
            ("/api/v1/log-level", 422),
        ] {
            assert!(seen.borrow().contains(&(path.into(), status)), "{path} {status}: {seen:?}");
        }
        let (outcome, _directory) = run.end().await;
        assert_eq!((outcome.records().read, outcome.failures.len()), (7, 0));
    });
}

#[test]
fn before_the_run_begins_the_port_says_so() {
    in_system(async {
        let run = Run::unwatched(GUARDED);
        let ready = get(run.address(), "/ready").await;
        assert_eq!((ready.status, ready.json()), (503, json!({"status": "starting"})));
        assert_eq!(get(run.address(), "/health").await.status, 200);
        for path in ["/metrics", "/api/v1/pipeline", "/api/v1/partitions", "/api/v1/keys/sums/k=a"]
        {
            assert_eq!(get(run.address(), path).await.status, 503, "{path}");
        }
        run.end().await;
    });
}
