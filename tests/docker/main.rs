//! What the image is made of: its build steps and what its containers run are scripts, which run here;
//! its compose file is checked against the schema of compose files. No image is built.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

use jsonschema::Validator;
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// The tree that goes into the image, by its build steps from the program of this build.
static IMAGE: LazyLock<TempDir> = LazyLock::new(|| {
    let tree = tempfile::tempdir().unwrap();
    let built = Command::new(root().join("docker/build.sh"))
        .args(["--program", env!("CARGO_BIN_EXE_nilometer")])
        .arg(tree.path())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    tree
});

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a container runs with these arguments, in a directory that it may write to.
fn container(folder: &Path, args: &[&str]) -> Command {
    let etc = IMAGE.path().join("etc/nilometer");
    let path = format!("{}:/usr/bin:/bin", IMAGE.path().join("usr/local/bin").display());
    let mut command = Command::new(IMAGE.path().join("usr/local/bin/entrypoint.sh"));
    command.args(args).current_dir(folder).env_clear().env("PATH", path);
    command.env("NILOMETER_PIPELINE", etc.join("flows-kafka.toml"));
    command.env("NILOMETER_STATE", folder.join("state"));
    command.env("EXPORTERS", etc.join("exporters.csv"));
    command.env("APPLICATIONS", etc.join("applications.csv"));
    command.env("SUMMARIES", folder.join("flow-summaries.ndjson"));
    // Nobody listens there.
    command.env("KAFKA", "127.0.0.1:1");
    command
}

#[test]
fn the_tree_of_the_image_holds_a_program_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let version = container(folder.path(), &["--version"]).output().unwrap();
    assert!(version.status.success(), "{}", said(&version));
    let expected = format!("nilometer {}", env!("CARGO_PKG_VERSION"));
    assert!(String::from_utf8_lossy(&version.stdout).starts_with(&expected), "{version:?}");
    let pipeline = IMAGE.path().join("etc/nilometer/flows-kafka.toml");
    let check = container(folder.path(), &["check", pipeline.to_str().unwrap()]).output().unwrap();
    assert!(check.status.success(), "{}", said(&check));
    assert!(IMAGE.path().join("usr/share/doc/nilometer/LICENSE").exists());
}

#[test]
fn a_container_runs_its_pipeline_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = container(folder.path(), &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut heard = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    for line in lines.by_ref() {
        heard += &(line + "\n");
        if heard.contains("cannot reach Kafka at 127.0.0.1:1") {
            break;
        }
    }
    // The signal of the container reaches the program, whose number is that of the script.
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    heard.extend(lines.map(|line| line + "\n"));
    assert_eq!(child.wait().unwrap().code(), Some(0), "{heard}");
    assert!(folder.path().join("state").exists(), "{heard}");
}

#[test]
fn what_a_container_lacks_is_said_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value, expected) in [
        ("NILOMETER_PIPELINE", "/no/such.toml", "cannot read the pipeline /no/such.toml"),
        ("NILOMETER_STATE", "/no/such/state", "cannot write to /no/such as user"),
    ] {
        let output = container(folder.path(), &[]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
}

#[test]
fn the_build_takes_no_program_that_is_not_there() {
    let tree = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["--program", "/no/such"][..], "there is no program /no/such"),
        (&["--colour", "red"], "unknown option --colour"),
    ] {
        let script = root().join("docker/build.sh");
        let output = Command::new(script).args(args).arg(tree.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    // Asked for help it builds nothing, and where it is to build it must be told.
    for (args, code) in [(&["--help"][..], 0), (&[], 2), (&["a", "b"], 2)] {
        let script = root().join("docker/build.sh");
        let output = Command::new(script).args(args).current_dir(tree.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let text = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&text).contains("usage: docker/build.sh"), "{args:?}");
    }
    assert!(std::fs::read_dir(tree.path()).unwrap().next().is_none());
}

fn json(yaml: &Yaml<'_>) -> Json {
    match yaml {
        Yaml::Value(Scalar::Null) => Json::Null,
        Yaml::Value(Scalar::Boolean(truth)) => Json::Bool(*truth),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
        Yaml::Value(Scalar::String(text)) => Json::String(text.to_string()),
        Yaml::Sequence(items) => items.iter().map(json).collect(),
        Yaml::Mapping(members) => {
            let members = members.iter();
            members.map(|(name, value)| (name.as_str().unwrap().to_owned(), json(value))).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn compose() -> Json {
    json(&Yaml::load_from_str(&text("docker/compose.yaml")).unwrap()[0])
}

fn schema() -> Validator {
    let schema = serde_json::from_str(&text("tests/data/compose/compose-spec.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn the_compose_file_is_one() {
    let (schema, compose) = (schema(), compose());
    let faults: Vec<_> = schema.iter_errors(&compose).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new());
    // The schema refuses what is none.
    for (path, value) in [
        ("/services/nilometer/depends_on/kafka/condition", Json::from("service_ready")),
        ("/services/kafka/ports", Json::from(29_092)),
        ("/services/nilometer/build/context", Json::Bool(true)),
        ("/volumes", Json::Array(Vec::new())),
    ] {
        let mut spoilt = compose.clone();
        *spoilt.pointer_mut(path).unwrap() = value;
        assert!(!schema.is_valid(&spoilt), "{path}");
    }
    let mut spoilt = compose.clone();
    spoilt["services"]["kafka"]["imgae"] = Json::from("kafka");
    assert!(!schema.is_valid(&spoilt));
}

#[test]
fn compose_file_image_and_pipeline_speak_of_the_same() {
    let (compose, dockerfile) = (compose(), text("docker/Dockerfile"));
    let services = &compose["services"];
    assert_eq!(services.as_object().unwrap().len(), 3, "broker, collector, nilometer");
    // What compose file and image set is what the pipeline asks for, or the script.
    let asked = text("config/flows-kafka.toml") + &text("docker/entrypoint.sh");
    let set = services["nilometer"]["environment"].as_object().unwrap().keys().cloned();
    let image =
        dockerfile.lines().filter_map(|line| line.trim_start_matches("ENV").split_once('='));
    let image = image.map(|(name, _)| name.trim().to_owned());
    let image = image.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    let names: Vec<String> = set.chain(image).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        assert!(asked.contains(&format!("${{{name}:-")), "nobody asks for {name}");
    }
    // Files that are mounted or copied are there.
    for volume in services["collector"]["volumes"].as_array().unwrap() {
        let from = volume.as_str().unwrap().split(':').next().unwrap();
        if let Some(path) = from.strip_prefix("./") {
            assert!(root().join("docker").join(path).exists(), "{path}");
        }
    }
    for service in ["nilometer", "collector"] {
        assert_eq!(services[service]["read_only"], true, "{service}");
        assert_eq!(services[service]["cap_drop"], Json::from(vec!["ALL"]), "{service}");
    }
    // The broker writes to its volume.
    let kafka = &services["kafka"];
    let place = format!("broker:{}", kafka["environment"]["KAFKA_LOG_DIRS"].as_str().unwrap());
    assert_eq!(kafka["volumes"], Json::from(vec![place]));
    // Nothing is open beyond this machine, and nothing runs as root.
    for port in services["kafka"]["ports"].as_array().unwrap() {
        assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{port}");
    }
    assert!(dockerfile.lines().any(|line| line == "USER 65532:65532"), "{dockerfile}");
    let begins = dockerfile.lines().find(|line| line.starts_with("ENTRYPOINT")).unwrap();
    let script: PathBuf = begins.split('"').nth(1).unwrap().trim_start_matches('/').into();
    assert!(IMAGE.path().join(script).exists(), "{begins}");
}

#[test]
fn the_collector_watches_the_group_of_the_compose_file() {
    let collector = json(&Yaml::load_from_str(&text("docker/collector.yaml")).unwrap()[0]);
    let nilometer = compose()["services"]["nilometer"]["environment"].clone();
    let watched =
        collector["receivers"]["kafkametrics"]["group_match"].as_str().unwrap().to_owned();
    let group = nilometer["GROUP"].as_str().unwrap().to_owned();
    assert!(group.starts_with(watched.trim_start_matches('^')), "{group} {watched}");
    assert_eq!(collector["receivers"]["kafkametrics"]["brokers"][0], nilometer["KAFKA"]);
    for pipeline in collector["service"]["pipelines"].as_object().unwrap().values() {
        for part in ["receivers", "processors", "exporters"] {
            for name in pipeline[part].as_array().unwrap() {
                assert!(collector[part].get(name.as_str().unwrap()).is_some(), "{part} {name}");
            }
        }
    }
}
