//! The thread of the admin port: it takes connections, and lets each ask once.
//!
//! Invariant: there are never more than [`CONNECTIONS_MAX`] connections, each for no longer than
//! [`LIFETIME`]. A new one ends the oldest, so that peers who hold theirs keep nobody out for longer
//! than it takes to connect. However many they are, they have one thread, which gives way to the engine.

use super::routes;
use super::shared::Shared;
use super::worded::Worded;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 128;
/// From its acceptance to its end, whatever the peer does.
const LIFETIME: Duration = Duration::from_secs(10);
/// Until the head of the request has come.
const HEAD_WITHIN: Duration = Duration::from_secs(3);
/// Bytes of the head of a request; what is longer is refused.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Lines of the head of a request.
const HEADERS_MAX: usize = 64;
/// How long to wait where the system has no more connections to give.
const REST: Duration = Duration::from_millis(100);

/// The name of its thread.
pub(crate) const THREAD: &str = "admin";
/// By how much it is nicer than other threads: where processors are scarce it gets a tenth of what a shard
/// does.
const NICER: i32 = 10;

/// Lets this thread give way to others. Where that cannot be, it is one of them.
fn give_way() {
    #[cfg(target_os = "linux")]
    rustix::process::nice(NICER).ok();
}

/// Starts the thread; it ends when `stop` is notified.
pub(super) fn start(
    listener: TcpListener,
    shared: Arc<Shared>,
    stop: Arc<Notify>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Builder::new().name(THREAD.into()).spawn(move || {
        give_way();
        runtime.block_on(async move {
            // The listener is ready for it; were it not, the port would only stay silent.
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            tokio::select! {
                () = serve(&listener, routes::router(shared)) => {}
                () = stop.notified() => {}
            }
        });
    })
}

async fn serve(listener: &tokio::net::TcpListener, router: Router) {
    let mut open = Open::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(REST).await;
            continue;
        };
        open.admit(tokio::spawn(answer(stream, router.clone())).abort_handle());
    }
}

/// Connections, the oldest first: never more than [`CONNECTIONS_MAX`].
#[derive(Default)]
struct Open(VecDeque<AbortHandle>);

impl Open {
    /// One more.
    fn admit(&mut self, connection: AbortHandle) {
        self.0.retain(|connection| !connection.is_finished());
        while self.0.len() >= CONNECTIONS_MAX {
            if let Some(oldest) = self.0.pop_front() {
                oldest.abort();
            }
        }
        self.0.push_back(connection);
    }
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Worded::new(stream)), TowerToHyperService::new(router));
    // A peer that goes away, or takes too long, has lost its answer and nothing else.
    timeout(LIFETIME, connection).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn one_more_connection_than_there_may_be_ends_the_oldest() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut open, mut all) = (Open::default(), Vec::new());
            for _ in 0..1_000 {
                let connection = tokio::spawn(pending::<()>());
                open.admit(connection.abort_handle());
                all.push(connection);
                assert!(open.0.len() <= CONNECTIONS_MAX);
            }
            let newest = all.split_off(1_000 - CONNECTIONS_MAX);
            for old in all {
                assert!(old.await.unwrap_err().is_cancelled());
            }
            assert!(newest.iter().all(|connection| !connection.is_finished()));
            // Those that end by themselves make room as well.
            for connection in newest {
                connection.abort();
                assert!(connection.await.unwrap_err().is_cancelled());
            }
            open.admit(tokio::spawn(pending::<()>()).abort_handle());
            assert_eq!(open.0.len(), 1);
        });
    }
}
