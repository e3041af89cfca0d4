//! `docs/configuration.md` lists every setting, and the tables are those of the schema.
//!
//! A table stands between `<!-- table: NAME -->` and `<!-- end -->`; `BLESS=1` writes them anew.
//! What the pages on windows and triggers show is read, too.

use super::schema::violations;
use crate::config::{load, load_text, schema};
use nilometer_model::flow::FLOW_FIELDS;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");

/// The table of the settings of one raw type.
fn table(schema: &Json, name: &str) -> String {
    let raw = if name == "Config" { schema } else { &schema["$defs"][name] };
    let required = raw["required"].as_array().unwrap();
    let mut out = "| setting | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for (setting, rule) in raw["properties"].as_object().unwrap() {
        let default = match rule.get("default") {
            Some(default) if *default == serde_json::json!({}) => String::new(),
            Some(default) => format!("`{default}`"),
            None if required.contains(&Json::from(setting.as_str())) => "required".into(),
            None => String::new(),
        };
        let meaning = rule["description"].as_str().unwrap();
        // The kind decides which table this is.
        let is_kind = setting == "kind" && !name.ends_with("Watermark");
        let value = if is_kind && rule.get("$ref").is_some() {
            meaning.trim_end_matches('.').to_owned()
        } else {
            value(schema, rule)
        };
        let cells = [&format!("`{setting}`"), &value, &default, meaning];
        writeln!(out, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")).unwrap();
    }
    out
}

/// What a setting takes, in words.
fn value(schema: &Json, rule: &Json) -> String {
    if let Some(target) = rule["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap();
        return match name {
            "Length" | "Period" => "span of time".into(),
            "Limit" => "span of time or `\"off\"`".into(),
            "Shift" => "span of time, any sign".into(),
            "Size" => "size".into(),
            "Pace" => "span of time or number of records".into(),
            _ => value(schema, &schema["$defs"][name]),
        };
    }
    if let Some(choices) = rule["enum"].as_array() {
        let names = choices.iter().map(|choice| format!("`{choice}`"));
        return names.collect::<Vec<_>>().join(", ");
    }
    if let Some(forms) = rule["anyOf"].as_array() {
        let is_variable = |form: &&Json| form["pattern"].as_str() == Some(r"\$\{");
        let forms = forms.iter().filter(|form| !is_variable(form));
        let mut forms: Vec<_> = forms.map(|form| value(schema, form)).collect();
        forms.dedup();
        return forms.join(" or ");
    }
    if rule.get("oneOf").is_some() {
        return "table".into();
    }
    if let Some(only) = rule.get("const") {
        return format!("`{only}`");
    }
    match rule["type"].as_str().unwrap() {
        "array" => format!("array: {}", value(schema, &rule["items"])),
        "object" if rule["additionalProperties"].is_object() => {
            format!("table: {}", value(schema, &rule["additionalProperties"]))
        }
        "object" => "table".into(),
        "string" => "text".into(),
        "boolean" => "`true`, `false`".into(),
        "number" => format!("number, {} to {}", rule["minimum"], rule["maximum"]),
        "integer" => "whole number".into(),
        other => panic!("type {other}"),
    }
}

/// The table of the fields of flows.
fn fields() -> String {
    let mut out = "| field | type | meaning |\n|---|---|---|\n".to_owned();
    for field in FLOW_FIELDS {
        writeln!(out, "| `{}` | `{}` | {} |", field.name, field.ty, field.meaning).unwrap();
    }
    out
}

#[test]
fn the_documentation_lists_every_setting() {
    let schema = schema();
    let page = std::fs::read_to_string(PATH).unwrap();
    let mut written = String::new();
    let mut seen = BTreeSet::from(["TopKDefaults".to_owned()]);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        writeln!(written, "{line}").unwrap();
        let mark = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        let Some(mark) = mark else { continue };
        match mark.strip_prefix("table: ") {
            Some(name) => {
                seen.insert(name.to_owned());
                written.push_str(&table(&schema, name));
            }
            None => written.push_str(&fields()),
        }
        let end = lines.find(|line| *line == "<!-- end -->").unwrap();
        writeln!(written, "{end}").unwrap();
    }
    for (name, raw) in schema["$defs"].as_object().unwrap() {
        assert!(raw.get("properties").is_none() || seen.contains(name), "{name} is not documented");
    }
    crate::golden::golden(&[("docs/configuration.md", &written)]);
}

/// What makes a pipeline of the settings of a group.
const AROUND: &str = r#"
[pipeline]
name = "p"
[record]
time = "t"
fields = { k = "text", v = "i64" }
[defaults]
window = { fixed = "1h" }
aggregates = { sum = "sum(v)" }
[[group]]
name = "g"
key = ["k"]
"#;

#[test]
fn what_the_documentation_shows_of_groups_is_valid() {
    for page in ["windows", "triggers"] {
        let path = format!("{}/docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let blocks: Vec<_> = text.split("```toml\n").skip(1).collect();
        assert!(blocks.len() >= 10, "{page}");
        for block in blocks {
            let (block, _) = block.split_once("```").unwrap();
            let text = format!("{AROUND}{block}");
            if let Err(errors) = load_text((page, &text), &[], &|_| None) {
                panic!("{block}\n{errors}");
            }
            assert_eq!(violations(&text), Vec::<String>::new(), "{block}");
        }
    }
}

#[test]
fn what_the_documentation_shows_of_aggregates_is_valid() {
    const RECORD: &str = "[pipeline]\nname = \"p\"\n[record]\ntime = \"t\"\nfields = { \
        service = \"text\", user = \"text\", latency_ms = \"i64\", path = \"text\", error = \"text\" }\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/aggregates.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, block) = text.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let text = format!("{RECORD}{block}");
    let pipeline = load_text(("aggregates", &text), &[], &|_| None).unwrap();
    assert_eq!(violations(&text), Vec::<String>::new());
    // The page says what each function is called.
    let page = std::fs::read_to_string(path).unwrap();
    let shown = pipeline.plan.stages[0].aggregates.accumulators().iter();
    for name in shown.map(|known| known.function.name()) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
    }
}

#[test]
fn the_pipelines_of_the_tests_are_valid() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipelines")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                load(&path, &[]).unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(violations(&text), Vec::<String>::new(), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 40);
}
