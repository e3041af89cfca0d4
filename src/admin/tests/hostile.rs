//! Peers who mean no good: the port answers those who do, and the run notices nothing.

use super::kit::{Answer, Run, TOKEN, ask, get, in_system, raw};
use super::telling::GUARDED;
use crate::admin::THREAD;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The priority that a thread says it has.
fn niceness(stat: &str) -> i32 {
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(16).unwrap().parse().unwrap()
}

/// The threads of this process: the name and the priority of each.
fn threads() -> Vec<(String, i32)> {
    let read = |thread: std::fs::DirEntry| {
        // One that has just ended is none any more.
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let name = stat.rsplit_once(')')?.0.split_once('(')?.1;
        Some((name.to_owned(), niceness(&stat)))
    };
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads.filter_map(|thread| read(thread.unwrap())).collect()
}

#[test]
fn a_thousand_connections_keep_nobody_out() {
    in_system(async {
        let run = Run::start(GUARDED);
        run.until_read().await;
        let mut held = Vec::new();
        for number in 0..1_000 {
            let mut stream = TcpStream::connect(run.address()).await.unwrap();
            // Some say nothing, some begin and do not go on.
            if number % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nx-slow: ").await.ok();
            }
            held.push(stream);
        }
        assert_eq!(get(run.address(), "/health").await.status, 200);
        assert_eq!(get(run.address(), "/api/v1/pipeline").await.json()["sources"][0]["read"], 7);
        // All of it is done by one thread, which gives way to those of the engine.
        let nice = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let nice = niceness(&nice);
        let nicest = 19.min(nice + 10);
        let threads = threads();
        assert!(threads.contains(&(THREAD.into(), nicest)), "{threads:?}");
        assert!(threads.iter().all(|(name, found)| *found == nice || name == THREAD));
        drop(held);
        let (outcome, _directory) = run.end().await;
        assert_eq!((outcome.records().read, outcome.failures.len()), (7, 0));
    });
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for() {
    in_system(async {
        let run = Run::start(GUARDED);
        let answer = raw(run.address(), b"GET /health HTTP/1.1\r\nhost: x\r\n").await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
        run.end().await;
    });
}

#[test]
fn what_is_too_much_or_no_request_is_refused() {
    let token = format!("authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n");
    let long = "x".repeat(100_000);
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let requests = [
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"),
        format!("GET /health HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        "\0\u{1}\u{2}\r\n\r\n".into(),
        "GET\r\n\r\n".into(),
        "GET /health HTTP/9.9\r\n\r\n".into(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
        "GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n".into(),
        "PUT /api/v1/log-level HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            .into(),
    ];
    in_system(async {
        let run = Run::start(GUARDED);
        run.until_read().await;
        for request in &requests {
            let bytes = raw(run.address(), request.as_bytes()).await;
            if let Some(answer) = Answer::read(&bytes) {
                let begin: String = request.chars().take(40).collect();
                assert!((400..=505).contains(&answer.status), "{begin:?}: {answer:?}");
                assert!(answer.json()["error"].is_string(), "{begin:?}: {answer:?}");
            }
        }
        // One that fits into what is read before it is refused: the answer cannot be lost.
        let bytes = raw(run.address(), format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()).await;
        let answer = Answer::read(&bytes).unwrap();
        assert_eq!(answer.status, 431);
        let error = "the head of the request is too long: at most 64 lines and 16 KiB";
        assert_eq!(answer.json()["error"], error);
        // A body that is said to be huge is refused before it has come, one without end as it comes.
        let huge = format!(
            "PUT /api/v1/log-level HTTP/1.1\r\nhost: x\r\n{token}content-length: 9999999999\r\n\r\n{{"
        );
        let answer = Answer::read(&raw(run.address(), huge.as_bytes()).await).unwrap();
        assert_eq!(answer.status, 413);
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(64);
        let endless = format!(
            "PUT /api/v1/log-level HTTP/1.1\r\nhost: x\r\n{token}transfer-encoding: chunked\r\n\r\n{chunk}"
        );
        let answer = Answer::read(&raw(run.address(), endless.as_bytes()).await);
        assert!(answer.is_none_or(|answer| answer.status == 413));
        assert_eq!(get(run.address(), "/health").await.status, 200);
        run.end().await;
    });
}

#[test]
fn paths_lead_nowhere_but_where_they_say() {
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    in_system(async {
        let run = Run::start(GUARDED);
        for path in [
            "/",
            "//health",
            "/health/",
            "/../health",
            "/%2e%2e/health",
            "/api/v1/../v1/pipeline",
            "/api/v1/signals/",
            "/api/v1/signals/flush/more",
            "/api/v1/signals/..%2fdrain",
            "/api/v1/keys/sums",
            "/etc/passwd",
            "/metrics%00",
            "/METRICS",
        ] {
            for method in ["GET", "POST"] {
                let answer = ask(run.address(), (method, path), &bearer, "").await;
                assert!(matches!(answer.status, 400 | 404 | 405), "{method} {path}: {answer:?}");
                assert!(answer.json()["error"].is_string(), "{answer:?}");
            }
        }
        for (method, path) in
            [("POST", "/health"), ("GET", "/api/v1/drain"), ("DELETE", "/metrics")]
        {
            let answer = ask(run.address(), (method, path), &bearer, "").await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert!(answer.head.contains("allow: "), "{}", answer.head);
        }
        run.end().await;
    });
}
