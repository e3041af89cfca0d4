//! Golden tests of configuration errors: `mistakes.txt` holds texts and what is said about them.
//!
//! A case is `--- name | parts`, lines that start with `$` (a `--set` argument or a variable), the
//! text, `===`, and the errors expected as `line:column \`offending text\` message; help`. The parts
//! named are appended to the text to make a whole of it; where no error is expected the text must
//! be valid. `BLESS=1 cargo test mistakes` rewrites the file.

mod documentation;
mod groups;
mod property;
mod schema;
mod settings;

use super::{ConfigErrors, Look, Pipeline, load_text};
use std::fmt::Write as _;

/// What completes the text of a case, by name.
const PARTS: [(&str, &str); 7] = [
    ("pipeline", "[pipeline]\nname = \"p\"\n"),
    (
        "record",
        "[record]\ntime = \"t\"\nfields = { k = \"text\", v = \"i64\", f = \"f64\", u = \"u8\" }\n",
    ),
    (
        "steps",
        "[record]\ntime = \"t\"\nfields = { k = \"text\", step = \"text\", st = \"text\", v = \"i64\", w = \"u32\" }\n",
    ),
    ("udp", "[[source]]\nkind = \"udp\"\nlisten = \"127.0.0.1:2055\"\n"),
    ("watermark", "[watermark]\nout_of_orderness = \"2m\"\n"),
    (
        "group",
        "[[group]]\nname = \"g\"\nkey = [\"k\"]\nwindow = { fixed = \"60s\" }\n\
         aggregates = { n = \"count()\" }\n",
    ),
    (
        "flow_group",
        "[[group]]\nname = \"g\"\nkey = [\"exporter\"]\nwindow = { fixed = \"60s\" }\n\
         aggregates = { n = \"count()\" }\n",
    ),
];

struct Case<'a> {
    head: &'a str,
    changes: Vec<&'a str>,
    text: String,
}

impl Case<'_> {
    fn load(&self) -> Result<Pipeline, ConfigErrors> {
        let (_, parts) = self.head.split_once('|').unwrap_or((self.head, ""));
        let mut text = self.text.clone();
        for part in parts.split_whitespace() {
            let (_, part) = PARTS.iter().find(|(name, _)| *name == part).unwrap();
            text.push_str(part);
        }
        let sets = self.changes.iter().filter_map(|change| change.strip_prefix("--set "));
        let sets: Vec<_> = sets.map(str::to_owned).collect();
        let lookup = |name: &str| {
            let variables = self.changes.iter().filter_map(|change| change.split_once('='));
            variables.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        load_text(("p.toml", &text), &sets, &lookup)
    }

    /// The case and what is said about it, in the form of the file.
    fn print(&self) -> String {
        let mut out = format!("---{}\n", self.head);
        for change in &self.changes {
            writeln!(out, "$ {change}").unwrap();
        }
        writeln!(out, "{}===", self.text).unwrap();
        if let Err(errors) = self.load() {
            for problem in errors.problems() {
                let (line, column) = errors.line_and_column(problem);
                let text = if problem.place.text == 0 { "" } else { "--set " };
                let quote = errors.quote(problem);
                write!(out, "{text}{line}:{column} {quote:?} {}", problem.message).unwrap();
                if let Some(help) = &problem.help {
                    write!(out, "; {help}").unwrap();
                }
                out.push('\n');
            }
        }
        out
    }
}

#[test]
fn every_mistake_is_said_where_it_was_made() {
    let expected = include_str!("mistakes.txt");
    let (title, cases) = expected.split_once("\n---").unwrap();
    let mut printed = format!("{title}\n");
    for case in cases.split("\n---") {
        let (input, _) = case.split_once("\n===").unwrap();
        let (head, body) = input.split_once('\n').unwrap_or((input, ""));
        let changes = body.lines().map_while(|line| line.strip_prefix("$ ")).collect::<Vec<_>>();
        let text = body.lines().skip(changes.len()).map(|line| format!("{line}\n")).collect();
        printed.push_str(&Case { head, changes, text }.print());
    }
    crate::golden::golden(&[("src/config/tests/mistakes.txt", &printed)]);
}

#[test]
fn errors_are_drawn_with_their_places() {
    let text = "[pipeline]\nname = \"p\"\nkey_groops = 3\n[[group]]\nname = \"g\"\n";
    let sets = ["record.tim=x".to_owned()];
    let errors = load_text(("p.toml", text), &sets, &|_| None).unwrap_err();
    let lines = errors.to_string();
    assert_eq!(
        lines.lines().next().unwrap(),
        "p.toml:3:1: `pipeline` has no setting `key_groops`; did you mean `key_groups`?"
    );
    assert!(lines.contains("--set:1:1: `record` has no setting `tim`; did you mean `time`?\n"));
    let plain = errors.render(Look::Plain);
    assert!(plain.is_ascii(), "{plain}");
    assert!(plain.contains(" 3 | key_groops = 3\n   : ^^^^^|^^^^"), "{plain}");
    assert!(!errors.render(Look::Colourless).contains('\u{1b}'));
    assert!(errors.render(Look::Fancy).contains('\u{1b}'));
}

#[test]
fn secrets_are_shown_nowhere() {
    for text in [
        "[pipeline]\nname = \"p\"\npassword = \"hunter2\"\n",
        "[pipeline]\nuser = 1\nname = { token = \"hunter2\" }\n",
        "[pipeline]\nclient_secret = \"hunter2\"\nname = \n",
        "[[sink]]\nname = \"s\"\npassword = \"hunter2\"\nkind = \"fil\"\n",
        "[[source]]\n[source.options]\nssl.key.pem = [\"hunter2\"]\n",
        "[[source]]\n[source.options.sasl]\noauthbearer.config = { x = \"hunter2\" }\n",
        "[source.options]\nssl.key.pem = \"\"\"\nhunter2\nhunter2",
    ] {
        for sets in [
            vec!["sink.s.api_token=hunter2"],
            // What is replaced is as secret as what replaces it.
            vec!["pipeline.password=x", "pipeline.name=\"q\"", "sink.s.password=x"],
            vec!["pipeline={password=\"hunter2\"}", "pipeline.password=x"],
            vec!["pipeline.password.deep=hunter2", "a..password=hunter2"],
            vec!["source.0.options={\"sasl.password\"=\"hunter2\""],
        ] {
            let sets: Vec<_> = sets.into_iter().map(str::to_owned).collect();
            let errors = load_text(("p.toml", text), &sets, &|_| None).unwrap_err();
            for shown in [errors.render(Look::Plain), errors.to_string(), format!("{errors:?}")] {
                assert!(!shown.contains("hunter2"), "{sets:?}: {shown}");
            }
        }
    }
}
