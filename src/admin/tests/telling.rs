//! What a run is told, and by whom.

use super::kit::{Run, TOKEN, ask, get, in_system, post};
use std::future::Future;
use std::time::Duration;

pub(crate) const GUARDED: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"DIR/token\"\n";
const STORED: &str = "[state]\ndir = \"DIR/state\"\nepoch = \"1h\"\n";

#[test]
fn a_signal_fires_the_windows_that_wait_for_it() {
    in_system(async {
        let run = Run::start(GUARDED);
        run.until_read().await;
        let answer = post(run.address(), "/api/v1/signals/flush").await;
        assert_eq!((answer.status, &answer.json()["signal"]), (202, &"flush".into()));
        // The window that is not complete, of the one key in it.
        let page = run.until("/metrics", |page| page.body.contains("timing=\"early\"} 1")).await;
        assert!(page.body.contains("nilometer_panes_total{stage=\"sums\",timing=\"early\"} 1"));
        let answer = post(run.address(), "/api/v1/signals/flash").await;
        assert_eq!(answer.status, 404);
        run.end().await;
    });
}

#[test]
fn an_epoch_is_stored_when_asked_for() {
    in_system(async {
        let run = Run::start(&format!("{GUARDED}{STORED}"));
        run.until("/api/v1/pipeline", |answer| answer.json()["sources"][0]["read"] == 7).await;
        let answer = post(run.address(), "/api/v1/epoch").await;
        assert_eq!((answer.status, &answer.json()["durable"]), (202, &0.into()));
        run.until("/api/v1/pipeline", |answer| answer.json()["epoch"] == 1).await;
        let page = run.until("/metrics", |page| page.body.contains("nilometer_epoch 1")).await;
        assert!(page.body.contains("nilometer_epoch_seconds_count 1"), "{}", page.body);
        for name in ["nilometer_state_disk_bytes ", "nilometer_state_open_seconds "] {
            let mut values = page.body.lines().filter_map(|line| line.strip_prefix(name));
            let is_told = values.any(|value| value.parse::<f64>().unwrap() > 0.0);
            assert!(is_told, "{name}: {}", page.body);
        }
        run.end().await;
    });
    in_system(async {
        let run = Run::start(GUARDED);
        assert_eq!(post(run.address(), "/api/v1/epoch").await.status, 409);
        run.end().await;
    });
}

/// Whether `future` is done as soon as it is asked.
async fn is_done(future: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::ZERO, future).await.is_ok()
}

#[test]
fn a_drain_is_asked_for() {
    in_system(async {
        let run = Run::start(GUARDED);
        run.until_read().await;
        assert!(!is_done(run.admin.drain_asked()).await);
        assert_eq!(post(run.address(), "/api/v1/drain").await.status, 202);
        run.admin.drain_asked().await;
        run.end().await;
    });
}

#[test]
fn only_who_has_the_token_changes_anything() {
    let long = format!("{TOKEN}{}", "x".repeat(5_000));
    let bearers = [
        String::new(),
        "authorization: Bearer\r\n".into(),
        "authorization: Bearer \r\n".into(),
        format!("authorization: bearer{TOKEN}\r\n"),
        format!("authorization: Basic {TOKEN}\r\n"),
        format!("authorization: Bearer {TOKEN}x\r\n"),
        format!("authorization: Bearer {}\r\n", &TOKEN[1..]),
        format!("authorization: Bearer {long}\r\n"),
        format!("x-token: {TOKEN}\r\n"),
    ];
    in_system(async {
        let run = Run::start(GUARDED);
        for head in &bearers {
            let answer = ask(run.address(), ("POST", "/api/v1/drain"), head, "").await;
            assert_eq!(answer.status, 401, "{head}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
            assert!(!answer.body.contains(TOKEN));
            // Whoever is not let in learns nothing of what there is.
            let answer = ask(run.address(), ("POST", "/no/such/path"), head, "").await;
            assert_eq!(answer.status, 401, "{head}");
        }
        // Nobody needs one to look, on this machine.
        assert_eq!(get(run.address(), "/api/v1/pipeline").await.status, 200);
        run.end().await;
    });
    in_system(async {
        let run = Run::start("[admin]\nlisten = \"127.0.0.1:0\"\n");
        assert_eq!(post(run.address(), "/api/v1/drain").await.status, 403);
        run.end().await;
    });
    in_system(async {
        let run = Run::start(&GUARDED.replace("127.0.0.1", "0.0.0.0"));
        let address = ([127, 0, 0, 1], run.address().port()).into();
        for path in ["/health", "/metrics", "/api/v1/pipeline"] {
            assert_eq!(get(address, path).await.status, 401, "{path}");
            let head = format!("authorization: Bearer {TOKEN}\r\n");
            assert_eq!(ask(address, ("GET", path), &head, "").await.status, 200, "{path}");
            let head = head.replace("Bearer", "bEARER");
            assert_eq!(ask(address, ("GET", path), &head, "").await.status, 200, "{path}");
        }
        run.end().await;
    });
}
