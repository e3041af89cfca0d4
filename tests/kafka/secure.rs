//! Kafka behind TLS and passwords: who gets in, what is said to those who do not, and that no
//! password is ever shown.

use crate::broker::Broker;
use crate::place::Place;
use crate::run::{Book, sums};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// A broker that asks who they are, which outlives every test.
pub(crate) static SECURE: LazyLock<Broker> =
    LazyLock::new(|| Broker::start_in(tempfile::tempdir().unwrap().keep(), &["--secure"]));

const SECRET: &str = "alice-secret";

fn options(ca: &str, user: &str, password: &str) -> String {
    format!(
        "until = \"now\"\n[source.options]\nsecurity.protocol = \"SASL_SSL\"\n{ca}\n\
         sasl.mechanism = \"SCRAM-SHA-512\"\nsasl.username = \"{user}\"\n{password}\n"
    )
}

/// The certificate of a CA that has signed nothing.
fn other_ca() -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=other",
    ]);
    command.arg("-keyout").arg(path("key")).arg("-out").arg(path("pem"));
    assert!(command.output().unwrap().status.success());
    std::fs::read_to_string(path("pem")).unwrap()
}

/// The content of every file in `folder` and below, but for those that hold the password themselves.
fn written(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            text += &written(&path);
        } else if name != "pipeline.toml" && name != "password" {
            text += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    text
}

#[test]
fn who_may_read_does_and_who_may_not_is_told_why() {
    let broker = &*SECURE;
    let ca_path = broker.path("ca.pem").display().to_string();
    let ca = format!("ssl.ca.location = \"{ca_path}\"");
    let access = [
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", &ca_path),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", SECRET),
    ];
    broker.topic_as("secure", 1, &access);
    let mut book = Book::default();
    book.fill(1, (0, 100));
    broker.produce_as("secure", &book.records(), &access);
    let plain = format!("sasl.password = \"{SECRET}\"");
    let wrong = "\"sasl.password\" = \"alice-wrong-secret\"";
    // Everything that the client can say of itself.
    let loud = "\ndebug = \"all\"";
    let cases = [
        (options(&ca, "alice", &(plain.clone() + loud)), 0, "100"),
        (options(&ca, "alice", "sasl.password = \"${ALICE}\"") + "debug = \"all\"\n", 0, "100"),
        (options(&ca, "alice", "sasl.password.file = \"password\""), 0, "100"),
        (options(&ca, "alice", &plain).replace("SCRAM-SHA-512", "PLAIN"), 0, "100"),
        (options(&ca, "alice", wrong), 3, "refuses"),
        // A CA that has not signed the broker, and those of the system.
        (options("ssl.ca.location = \"other.pem\"", "alice", &plain), 3, "certificate"),
        (options("", "alice", &plain), 3, "certificate"),
        (options(&ca, "bob", "sasl.password = \"bob-secret\""), 3, "not allowed by Kafka"),
        (options(&ca, "alice", &(plain.clone() + "\nno.such = 1")), 3, "option `no.such`"),
    ];
    let sinks = [
        (options(&ca, "alice", &plain), 0, "100"),
        (options(&ca, "alice", wrong), 4, "refuses"),
        (options(&ca, "bob", "sasl.password = \"bob-secret\""), 4, "not allowed by Kafka"),
    ];
    for (sink, code, expected) in sinks {
        writes(broker, &book, &sink, (code, expected));
    }
    let other = other_ca();
    for (source, code, expected) in cases {
        let place = Place::new(&sums(&broker.address, "secure", &source));
        place.write("password", &format!("{SECRET}\n"));
        place.write("other.pem", &other);
        let mut run = place.command(&["run", "pipeline.toml", "--summary", "summary.json"]);
        run.args(["--state", "state", "--log-level", "trace"]);
        let output = run.env("ALICE", SECRET).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{source}\n{said}");
        assert!(said.contains(expected), "{source}\n{said}");
        if code == 0 {
            assert_eq!(place.results(), book.results);
        }
        // What was said, and every file that was written: results, the summary, dead letters, the state.
        let mut shown = said + &String::from_utf8_lossy(&output.stdout) + &written(place.folder());
        for args in [&["plan"][..], &["plan", "--json"], &["check"]] {
            let mut command = place.command(args);
            let output = command.arg("pipeline.toml").env("ALICE", SECRET).output().unwrap();
            shown += &String::from_utf8_lossy(&output.stdout);
            shown += &String::from_utf8_lossy(&output.stderr);
        }
        for secret in [SECRET, "bob-secret", "wrong-secret"] {
            assert!(!shown.contains(secret), "{source}\n{shown}");
        }
    }
}

/// The same of who may write: into a topic that is made, from a file.
fn writes(broker: &Broker, book: &Book, options: &str, (code, expected): (i32, &str)) {
    let options = options.replace("until = \"now\"\n[source.options]", "[sink.options]");
    let place = Place::new(&format!(
        "[pipeline]\nname = \"secure\"\n[[source]]\nkind = \"files\"\nname = \"in\"\nformat = \"ndjson\"\n\
         paths = [\"in.ndjson\"]\n[record]\ntime = \"ts\"\nfields = {{ k = \"text\", v = \"i64\" }}\n\
         [[group]]\nname = \"sums\"\nkey = [\"k\"]\nwindow = {{ fixed = \"1s\" }}\naggregates = {{ n = \"count()\" }}\n\
         [state]\ndir = \"state\"\n[[sink]]\nname = \"out\"\nkind = \"kafka\"\nbrokers = \"{}\"\n\
         topic = \"secure-sums\"\ncreate = {{ partitions = 1, replication = 1 }}\n{options}",
        broker.address
    ));
    let lines: Vec<_> = book.values.iter().map(|(_, _, text)| text.as_str()).collect();
    place.write("in.ndjson", &lines.join("\n"));
    let said = place.run(&[], code);
    assert!(said.contains(expected), "{options}\n{said}");
    for secret in [SECRET, "bob-secret", "wrong-secret"] {
        assert!(!said.contains(secret), "{options}\n{said}");
    }
}
