//! A run drawn from its own answers.

use super::client::{Client, Look};
use super::screen::View;
use super::{TopError, printed, screen};
use crate::admin::answers::PartitionAnswer;
use crate::admin::tests::kit::{Run, in_system};
use crate::admin::tests::telling::GUARDED;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// Looks at a run that has read its records.
fn look() -> Look {
    in_system(async {
        let run = Run::start("[admin]\nlisten = \"127.0.0.1:0\"\n");
        run.until_read().await;
        let look = Client::new(&run.address().to_string(), None).unwrap().look().unwrap();
        run.end().await;
        look
    })
}

/// The cells of the line of `text` that begins with `name`.
fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("{name}\n{text}")).split_whitespace().collect()
}

#[test]
fn a_look_shows_what_the_run_has_counted() {
    let mut first = look();
    first.pipeline.watermark.still_ms = Some(61_500);
    first.pipeline.uptime_ms = 900;
    let text = printed(&View::new(first.clone()));
    assert!(text.starts_with("seen: running, streaming, up 0s"), "{text}");
    assert!(text.contains(" behind the clock, held by `in`; has not moved for 61s\n"), "{text}");
    assert_eq!(line(&text, "in "), ["in", "7", "-", "1", "1", "0"]);
    let sums = line(&text, "sums");
    assert_eq!(sums[..6], ["sums", "records", "-", "0", "0", "-"]);
    assert_eq!(line(&text, "out"), ["out", "2", "-", "0", "well"]);
    first.pipeline.watermark.still_ms = Some(999);
    assert!(!printed(&View::new(first.clone())).contains("moved"));
    // Two seconds later, 4,000 records and 100 panes on.
    let mut second = first.clone();
    second.pipeline.now_ms += 2_000;
    second.pipeline.sources[0].read += 4_000;
    second.pipeline.sinks[0].panes += 100;
    second.pipeline.sinks[0].has_failed = true;
    let text = printed(&View::new(first).then(Ok(second)));
    assert_eq!(line(&text, "in ")[..3], ["in", "4,007", "2,000"]);
    assert_eq!(line(&text, "out"), ["out", "102", "50", "0", "failed"]);
}

#[test]
fn a_look_that_is_printed_is_whole_and_one_at_a_terminal_shows_what_matters_first() {
    let mut look = look();
    let partition = look.partitions.partitions[0].clone();
    let many = (0..300).map(|number| PartitionAnswer {
        partition: format!("topic/{number}"),
        ..partition.clone()
    });
    look.partitions.partitions = many.collect();
    let view = View::new(look);
    let text = printed(&view);
    assert_eq!(line(&text, "topic/299")[1], "active");
    let Ok(mut terminal) = Terminal::new(TestBackend::new(100, 20));
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, &view));
    let shown = terminal.backend().to_string();
    for expected in ["seen: running", "sums", "out ", "topic/0 "] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

#[test]
fn a_port_that_wants_a_token_says_so() {
    in_system(async {
        let run = Run::start(&GUARDED.replace("127.0.0.1", "0.0.0.0"));
        let address = format!("127.0.0.1:{}", run.address().port());
        let refused = Client::new(&address, None).unwrap().look().unwrap_err().to_string();
        let token = "this takes the token of `admin.token_file`: `authorization: Bearer TOKEN`";
        assert_eq!(
            refused,
            format!("`{address}` says: {token}; name its file with `--token-file`")
        );
        let token = run.directory.path().join("token");
        assert!(Client::new(&address, Some(&token)).unwrap().look().is_ok());
        run.end().await;
    });
}

#[test]
fn a_run_that_does_not_answer_is_shown_as_it_was() {
    let view = View::new(look());
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let next = Client::new(&closed, None).unwrap().look();
    assert!(matches!(next, Err(TopError::Ask { .. })), "{next:?}");
    let text = printed(&view.then(next));
    assert!(text.contains(&format!("cannot ask `{closed}`")), "{text}");
    assert_eq!(line(&text, "in ")[1], "7");
}
