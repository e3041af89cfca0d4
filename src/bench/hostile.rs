//! What peers who mean no good cost who reach the admin port of a run: a thousand at a time, as long as the
//! run goes on, each of which comes again as soon as it is let go.
//!
//! They run in this process, on a thread of their own. What that takes, and what the port takes, is no
//! time of the engine, and is told beside it.

use super::BenchError;
use super::engine::{Beside, Run};
use super::measure::thread_time;
use super::turns::{self, Sides};
use crate::admin::{Admin, THREAD};
use crate::config;
use crate::metrics::Watched;
use nilometer_actors::node::Node;
use nilometer_connectors::plight::Plights;
use nilometer_model::plan::Plan;
use serde::Serialize;
use std::cell::Cell;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Connections at a time.
const PEERS: usize = 1_000;
/// What the token is, which none of them has.
const TOKEN: &str = "a-token-of-the-bench";
/// The name of the thread of the peers.
const PEERS_THREAD: &str = "peers";
/// What they want, in turn. Some begin and do not go on.
const REQUESTS: [&str; 8] = [
    "",
    "GET /metrics HTTP/1.1\r\nhost: x\r\nx-slow: ",
    "PUT /api/v1/log-level HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999999\r\n\r\n{",
    "POST /api/v1/drain HTTP/1.1\r\nhost: x\r\nauthorization: Bearer not-the-token-it-is\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /api/v1/pipeline HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /api/v1/keys/EXPORTER_INTERFACE/exporter=10.0.0.1,if_index=1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n",
];

/// What runs with and without such peers have shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct HostileAdmin {
    #[serde(flatten)]
    pub(super) sides: Sides,
    /// Connections that were closed by the port, answered or not.
    pub(super) connections: u64,
    /// Part of the processor time of a core that the port took while the runs lasted.
    pub(super) port_share: f64,
}

impl HostileAdmin {
    pub(super) fn text(&self) -> String {
        format!(
            "{}; {} connections, the port took {:.3} of a core",
            self.sides.text("hostile requests to the admin port"),
            super::report::grouped(self.connections as f64),
            self.port_share
        )
    }
}

/// Who comes, and what that took.
#[derive(Default)]
pub(super) struct Peers {
    connections: Arc<AtomicU64>,
    port: Cell<Duration>,
}

/// Peers at the port of a run.
pub(super) struct Visit<'a> {
    all: &'a Peers,
    admin: Admin,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Peers {
    /// Lets them come at a port of `node`.
    pub(super) fn begin(&self, node: &Node, plan: Arc<Plan>) -> Result<Visit<'_>, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Engine(error.to_string());
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let token = folder.path().join("token");
        fs::write(&token, TOKEN).map_err(|error| failed(&error))?;
        let token = serde_json::Value::from(token.to_string_lossy());
        let listen = "admin.listen=\"127.0.0.1:0\"".to_owned();
        let sets = [listen, format!("admin.token_file={token}")];
        let text = ("flows.toml", include_str!("../../config/flows.toml"));
        let pipeline = config::load_text(text, &sets, &|_| None).map_err(|error| failed(&error))?;
        let admin = Admin::open(&pipeline, &Plights::default()).map_err(|error| failed(&error))?;
        let admin = admin.ok_or_else(|| failed(&"there is no admin port"))?;
        admin.watch(Watched {
            node: node.handle(),
            plan,
            pipeline: "bench".into(),
            has_state: false,
            begun: Instant::now(),
            pushes: Arc::default(),
            spans: None,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (stop, stopped) = oneshot::channel();
        let (address, connections) = (admin.address(), self.connections.clone());
        let come = move || {
            let peers = LocalSet::new();
            for number in 0..PEERS {
                peers.spawn_local(come_again(address, number, connections.clone()));
            }
            runtime.block_on(peers.run_until(async { drop(stopped.await) }));
        };
        let thread = Builder::new().name(PEERS_THREAD.into()).spawn(come);
        let thread = thread.map_err(|error| failed(&error))?;
        Ok(Visit { all: self, admin, stop, thread })
    }
}

impl Visit<'_> {
    /// The run has ended; returns how much processor time was not that of the engine.
    pub(super) fn end(self) -> Duration {
        let port = thread_time(THREAD).unwrap_or_default();
        let peers = thread_time(PEERS_THREAD).unwrap_or_default();
        self.all.port.set(self.all.port.get() + port);
        drop(self.stop);
        // A thread that has panicked was heard of when it did.
        self.thread.join().ok();
        drop(self.admin);
        port + peers
    }
}

/// Comes, takes whatever is said until the port has enough, and comes again.
async fn come_again(address: SocketAddr, number: usize, connections: Arc<AtomicU64>) {
    let request = REQUESTS.get(number % REQUESTS.len()).copied().unwrap_or_default();
    let mut answer = vec![0; 4_096];
    while let Ok(mut stream) = TcpStream::connect(address).await {
        // The port may have closed it before all of it was sent.
        stream.write_all(request.as_bytes()).await.ok();
        while stream.read(&mut answer).await.is_ok_and(|count| count > 0) {}
        connections.fetch_add(1, Relaxed);
    }
}

/// Runs `run` over so many records in turns, with such peers and without.
pub(super) fn measure(
    records: u64,
    mut run: impl FnMut(Beside<'_>) -> Result<Run, BenchError>,
    check: impl FnMut(Run) -> Result<usize, BenchError>,
) -> Result<HostileAdmin, BenchError> {
    let peers = Peers::default();
    let visited = |come| run(if come { Beside::Peers(&peers) } else { Beside::Nothing });
    let sides = turns::measure(records, visited, check)?;
    let wall = sides.with.wall_seconds.max(0.001);
    Ok(HostileAdmin {
        sides,
        connections: peers.connections.load(Relaxed),
        port_share: peers.port.get().as_secs_f64() / wall,
    })
}
