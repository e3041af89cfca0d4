//! The admin port: a run is watched and told what to do over HTTP (`docs/admin.md`).
//!
//! It has a thread of its own, and reads what actors show (see `crate::metrics`): a request waits
//! for no actor, and no actor for a request. What it tells the node goes the way of all messages.
//!
//! Invariants: what one peer can take is bounded, in connections, bytes and time; nothing is changed
//! without the token; no answer holds a setting or the token.

pub(crate) mod answers;
mod figures;
mod guard;
mod openapi;
mod operations;
mod problem;
mod routes;
mod server;
mod shared;
#[cfg(test)]
pub(crate) mod tests;
mod worded;

use crate::config::Pipeline;
use crate::metrics::Watched;
use guard::Token;
use nilometer_connectors::plight::Plights;
pub(crate) use problem::ProblemAnswer;
pub(crate) use server::THREAD;
use shared::Shared;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// The admin port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be bound.
    #[error(
        "cannot listen on {address}: {source}; check that the address is of this machine and that the port is free"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file with the token cannot be read.
    #[error("cannot read the token `{}`: {source}; check that it exists and that you may read it", path.display())]
    TokenFile {
        /// Path as the user wrote it.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// There is no usable token in it.
    #[error(
        "`{}` holds no token: one line of 16 to 4096 visible ASCII characters; make one with `openssl rand -hex 32`",
        path.display()
    )]
    Token {
        /// Path as the user wrote it.
        path: PathBuf,
    },
    /// Its thread cannot be started.
    #[error("the admin port cannot start: {0}")]
    Thread(#[source] io::Error),
}

/// The admin port of a run. Closed when it is dropped.
pub(crate) struct Admin {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Opens the admin port of `pipeline`, if it has one. Until a run is [watched](Admin::watch) it
    /// says that it is not ready. What `plights` tells is seen at any time.
    pub(crate) fn open(pipeline: &Pipeline, plights: &Plights) -> Result<Option<Self>, AdminError> {
        let Some(config) = &pipeline.admin else { return Ok(None) };
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        let listen = |source| AdminError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let is_exposed = !address.ip().is_loopback();
        let shared = Arc::new(Shared::new(pipeline, token, is_exposed, plights.clone()));
        let stop = Arc::new(Notify::new());
        let thread = server::start(listener, shared.clone(), stop.clone());
        let thread = Some(thread.map_err(AdminError::Thread)?);
        Ok(Some(Self { shared, address, stop, thread }))
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it tells of this run.
    pub(crate) fn watch(&self, watched: Watched) {
        self.shared.watch(watched);
    }

    /// Waits until somebody asks for an end of the run. May be dropped while it waits.
    pub(crate) async fn drain_asked(&self) {
        self.shared.drain_asked().await;
    }

    /// The run drains.
    pub(crate) fn drains(&self) {
        self.shared.drains();
    }

    /// The run has failed, and drains.
    pub(crate) fn failed(&self) {
        self.shared.failed();
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked was heard of when it did.
            thread.join().ok();
        }
    }
}
