//! The structure of the tree, checked: what is absent stays absent.
//!
//! Only what would break the structure is checked here; the rest of the style is judgement. Every
//! check is a function from a text to its findings, so that a test can show that it finds.

#![expect(clippy::unwrap_used, reason = "a tree that cannot be read fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` with one of `endings`, as (path from the root, text).
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            if matches!(name.as_deref(), Some("target" | ".git" | "proptest-regressions")) {
                continue;
            }
            let entries = fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<(String, String)> {
    ["src", "actors", "connectors", "model", "tests"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs"]))
        .collect()
}

/// Lines of code that hold one of `words`, as `file:line: word`; comments do not count.
fn lines_with(file: &str, text: &str, words: &[&str]) -> Vec<String> {
    let code = |line: &str| !line.trim_start().starts_with("//");
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| code(line)) {
        for word in words.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{file}:{}: {word}", number + 1));
        }
    }
    found
}

/// The part of a source file that is test code: all of a file in `tests/`, else from `cfg(test)`.
fn test_code<'a>(file: &str, text: &'a str) -> &'a str {
    if file.starts_with("tests/") || file.contains("/tests/") {
        return text;
    }
    text.find("#[cfg(test)]").map_or("", |start| &text[start..])
}

/// Packages of this workspace that the manifest of one depends on, tests included.
fn own_dependencies(manifest: &str) -> BTreeSet<&str> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if matches!(section, "[dependencies]" | "[dev-dependencies]") {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if name.starts_with("nilometer") || name.starts_with("actix") || name == "tokio" {
                found.insert(name);
            }
        }
    }
    found
}

/// A `matches!` whose answer nobody reads: it stands as a statement.
fn unread_matches(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = ';';
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let is_statement = line.starts_with("matches!(") && line.ends_with(';');
        if is_statement && matches!(before, ';' | '{' | '}') {
            found.push(format!("{file}:{}: an unread matches!", number + 1));
        }
        before = line.chars().last().unwrap_or(';');
    }
    found
}

/// Targets of the links in a Markdown text, code blocks left out.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            found.extend(part.split([')', ' ']).next());
        }
    }
    found
}

/// Anchors that the headings of a Markdown text give.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let title = heading.trim_start_matches('#').trim();
        title.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Links of the page `file` that lead nowhere.
fn dead_links(file: &str, text: &str) -> Vec<String> {
    let folder = root().join(file).parent().map(PathBuf::from).unwrap_or_default();
    let is_dead = |target: &str| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { root().join(file) } else { folder.join(path) };
        if !path.exists() {
            return true;
        }
        let page =
            if anchor.is_empty() { String::new() } else { fs::read_to_string(&path).unwrap() };
        !anchor.is_empty() && !anchors(&page).contains(anchor)
    };
    links(text)
        .into_iter()
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .filter(|target| is_dead(target))
        .map(|target| format!("{file}: {target}"))
        .collect()
}

fn nothing(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn arrows_between_packages_only_point_down() {
    for (manifest, allowed) in [
        ("model/Cargo.toml", &[][..]),
        ("connectors/Cargo.toml", &["nilometer-model"]),
        (
            "actors/Cargo.toml",
            &["nilometer-model", "nilometer-connectors", "actix", "actix-rt", "tokio"],
        ),
    ] {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let allowed: BTreeSet<_> = allowed.iter().copied().collect();
        let found = own_dependencies(&text);
        assert!(found.is_subset(&allowed), "{manifest} may not depend on all of {found:?}");
    }
}

#[test]
fn the_model_names_no_clock_file_socket_thread_or_actor() {
    let words = [
        "Instant::now",
        "SystemTime",
        "std::thread",
        "std::fs",
        "std::env",
        "std::process",
        "TcpStream",
        "UdpSocket",
        "async fn",
        ".await",
        "println!",
    ];
    for (file, text) in files("model/src", &[".rs"]) {
        let code = text.find("#[cfg(test)]").map_or(text.as_str(), |end| &text[..end]);
        nothing(&lines_with(&file, code, &words), "the model takes facts as arguments");
    }
}

#[test]
fn only_one_file_sends() {
    // What the benchmark sends are records to a broker, and spans go to a thread and to a collector: they
    // are no messages to an actor.
    const SENDERS: [&str; 3] =
        ["actors/src/deliver.rs", "src/bench/kafka/broker.rs", "src/telemetry/spans.rs"];
    let words = ["do_send(", "try_send(", ".send("];
    for (file, text) in files("actors/src", &[".rs"]).into_iter().chain(files("src", &[".rs"])) {
        if !SENDERS.contains(&&*file) {
            nothing(&lines_with(&file, &text, &words), "only actors/src/deliver.rs sends");
        }
    }
}

#[test]
fn nothing_unfinished_lands() {
    let words = [
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("TO", "DO"),
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("db", "g!("),
        concat!("#[ig", "nore"),
    ];
    for (file, text) in sources().into_iter().chain(files("docs", &[".md"])) {
        let found = text.lines().enumerate().flat_map(|(number, line)| {
            let word = words.iter().find(|word| line.contains(**word));
            word.map(|word| format!("{file}:{}: {word}", number + 1))
        });
        nothing(&found.collect::<Vec<_>>(), "open an issue instead");
    }
}

#[test]
fn tests_neither_sleep_nor_roll_unseeded_dice() {
    let words = [concat!("sle", "ep("), concat!("rand::", "rng("), concat!("thread", "_rng(")];
    for (file, text) in sources() {
        let found = lines_with(&file, test_code(&file, &text), &words);
        nothing(&found, "wait for a fact, print the seed");
    }
}

#[test]
fn every_matches_is_read() {
    for (file, text) in sources() {
        nothing(&unread_matches(&file, &text), "assert what you match");
    }
}

#[test]
fn every_file_opens_with_what_it_is() {
    let has_none = |text: &str| !text.trim_start().starts_with("//!");
    let found = sources().into_iter().filter(|(_, text)| has_none(text)).map(|(file, _)| file);
    nothing(&found.collect::<Vec<_>>(), "say what the file is, and the invariant it keeps");
}

#[test]
fn every_invariant_is_named_in_a_test() {
    let named = fs::read_to_string(root().join("model/src/invariant.rs")).unwrap();
    let constants = named.lines().filter_map(|line| line.strip_prefix("pub const "));
    let names: Vec<_> = constants.filter_map(|line| line.split_once(": &str")).collect();
    assert!(names.len() >= 8);
    let tests = sources();
    let found = names.iter().map(|(name, _)| name).filter(|name| {
        // An import alone checks nothing.
        let uses = |(file, text): &(String, String)| {
            let code = test_code(file, text).lines();
            code.filter(|line| line.contains(**name) && !line.starts_with("use ")).count()
        };
        file_uses(&tests, uses) == 0
    });
    let found: Vec<_> = found.map(|name| (*name).to_owned()).collect();
    nothing(&found, "a test says which invariant it checks");
}

fn file_uses(files: &[(String, String)], uses: impl Fn(&(String, String)) -> usize) -> usize {
    files.iter().map(uses).sum()
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let pages = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|page| files(page, &[".md"]));
    let mut found = Vec::new();
    for (file, text) in pages.into_iter().flatten().chain(files("docs", &[".md"])) {
        found.extend(dead_links(&file, &text));
    }
    nothing(&found, "links that lead nowhere");
}

#[test]
fn the_files_where_everything_is_wired_stay_small() {
    for (file, lines_max) in [("src/main.rs", 120), ("src/lib.rs", 80), ("src/topology.rs", 300)] {
        for (file, text) in files("src", &[".rs"]).into_iter().filter(|(name, _)| name == file) {
            let lines = text.lines().count();
            assert!(
                lines <= lines_max,
                "{file} has {lines} lines; at most {lines_max}: move logic"
            );
        }
    }
}

#[test]
fn the_checks_find_what_they_look_for() {
    let manifest =
        "[dependencies]\nserde = \"1\"\nactix.workspace = true\n[lints]\nnilometer-x = 1";
    assert_eq!(own_dependencies(manifest), BTreeSet::from(["actix"]));
    let code = "fn f() {\n    // a.send(1)\n    a.send(1);\n}\n";
    assert_eq!(lines_with("f.rs", code, &[".send("]), ["f.rs:3: .send("]);
    let code = "fn f() {\n    matches!(a, B);\n    let c =\n        matches!(a, B);\n}\n";
    assert_eq!(unread_matches("f.rs", code), ["f.rs:2: an unread matches!"]);
    assert_eq!(test_code("src/a.rs", "a\n#[cfg(test)]\nb"), "#[cfg(test)]\nb");
    let page = "[a](no/such.md) [b](tests/tidy.rs) [c](https://x.org) [d](#no-such)\n# Head, one\n";
    assert_eq!(dead_links("README.md", page).first().unwrap(), "README.md: no/such.md");
    assert!(anchors(page).contains("head-one"));
}
