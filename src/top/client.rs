//! Asks an admin port: one request, one connection.

use super::TopError;
use crate::admin::ProblemAnswer;
use crate::admin::answers::{PartitionsAnswer, PipelineAnswer};
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Letters of what is said of a strange answer.
const DETAIL_MAX: usize = 200;
/// How long to connect, to send, and between two pieces of an answer.
const WITHIN: Duration = Duration::from_secs(5);

/// What a run looks like at one instant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    pub(crate) pipeline: PipelineAnswer,
    pub(crate) partitions: PartitionsAnswer,
}

/// An admin port to ask.
pub(super) struct Client {
    address: Box<str>,
    /// A line of the head; empty without a token.
    token: String,
}

impl Client {
    pub(super) fn new(address: &str, token_file: Option<&Path>) -> Result<Self, TopError> {
        let token = token_file.map(std::fs::read_to_string).transpose().map_err(|source| {
            TopError::Token { path: token_file.unwrap_or(Path::new("")).into(), source }
        })?;
        let token = token.map(|token| format!("authorization: Bearer {}\r\n", token.trim()));
        Ok(Self { address: address.into(), token: token.unwrap_or_default() })
    }

    /// Looks at the run.
    pub(super) fn look(&self) -> Result<Look, TopError> {
        Ok(Look {
            pipeline: self.get("/api/v1/pipeline")?,
            partitions: self.get("/api/v1/partitions")?,
        })
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, TopError> {
        let text = self.ask(path);
        let text =
            text.map_err(|source| TopError::Ask { address: self.address.clone(), source })?;
        let address = || self.address.clone();
        // Whoever answers may be anybody: what it says goes to a terminal.
        let printable = |text: &str| {
            let text = text.chars().filter(|letter| !letter.is_control()).take(DETAIL_MAX);
            text.collect::<String>().into()
        };
        let wrong =
            |detail: &str| TopError::Answer { address: address(), detail: printable(detail) };
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| wrong("no answer"))?;
        let status = head.split(' ').nth(1);
        if status != Some("200") {
            let Ok(problem) = serde_json::from_str::<ProblemAnswer>(body) else {
                return Err(wrong(head));
            };
            let way =
                if status == Some("401") { "; name its file with `--token-file`" } else { "" };
            let error = printable(&format!("{}{way}", problem.error));
            return Err(TopError::Refused { address: address(), error });
        }
        serde_json::from_str(body).map_err(|error| wrong(&error.to_string()))
    }

    fn ask(&self, path: &str) -> io::Result<String> {
        let mut addresses = self.address.to_socket_addrs()?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "no such address");
        let mut stream = TcpStream::connect_timeout(&addresses.next().ok_or_else(none)?, WITHIN)?;
        stream.set_read_timeout(Some(WITHIN))?;
        stream.set_write_timeout(Some(WITHIN))?;
        let Self { address, token } = self;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{token}\r\n")?;
        let mut text = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    }
}
