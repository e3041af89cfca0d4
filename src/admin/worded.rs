//! What the server answers by itself, in words: to what is no request, or one that is too long, it
//! gives a status and an empty body, and the connection is over.
//!
//! Invariant: what the routes answer passes as it is. All of their answers have a body, or say that
//! all is well.

use super::problem::ProblemAnswer;
use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What an answer of the server that has a body of its own begins with, and why it is given.
const REASONS: [(&str, &str); 3] = [
    ("HTTP/1.1 431 ", "the head of the request is too long: at most 64 lines and 16 KiB"),
    ("HTTP/1.1 414 ", "the path is too long; `/openapi.json` says what there is"),
    ("HTTP/1.1 400 ", "this is no HTTP request that can be understood"),
];

/// A connection that adds words to answers without any.
pub(super) struct Worded<S> {
    stream: S,
    /// What is written in the place of such an answer, and has not been yet.
    left: Cow<'static, [u8]>,
    /// Whether an answer has begun.
    has_begun: bool,
}

impl<S> Worded<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, left: Cow::Borrowed(&[]), has_begun: false }
    }
}

/// The answer to give in the place of `answer`; `None` if that says what it has to say.
fn in_words(answer: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(answer).ok()?.strip_suffix("\r\n\r\n")?;
    let (_, why) = REASONS.iter().find(|(begins, _)| head.starts_with(begins))?;
    let is_empty = |line: &str| line.eq_ignore_ascii_case("content-length: 0");
    if !head.lines().any(is_empty) {
        return None;
    }
    let kept: Vec<_> = head.lines().filter(|line| !is_empty(line)).collect();
    let body = serde_json::to_string(&ProblemAnswer { error: Cow::Borrowed(why) }).ok()?;
    let (head, length) = (kept.join("\r\n"), body.len());
    Some(format!(
        "{head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}

impl<S: AsyncWrite + Unpin> Worded<S> {
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left = self.left.get(written..).unwrap_or_default().to_vec().into();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(context))?;
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(answer) = in_words(bytes)
        {
            self.left = answer.into_bytes().into();
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_words_gets_some_and_others_pass() {
        let told = in_words(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
              content-length: 0\r\n\r\n",
        );
        let body =
            r#"{"error":"the head of the request is too long: at most 64 lines and 16 KiB"}"#;
        let length = body.len();
        assert_eq!(
            told.unwrap(),
            format!(
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        );
        for passes in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "",
        ] {
            assert_eq!(in_words(passes.as_bytes()), None, "{passes}");
        }
    }
}
