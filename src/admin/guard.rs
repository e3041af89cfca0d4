//! Who may ask what.
//!
//! Invariant: whatever changes something needs the token, and so does everything where others can
//! reach the port; without a token nothing can be changed. How long a comparison takes says nothing
//! of the token but its length.

use super::AdminError;
use super::problem::Problem;
use super::shared::Shared;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// What requests have to carry.
pub(super) struct Token(Box<[u8]>);

/// What the token stands behind.
const BEARER: &[u8] = b"Bearer ";
/// Bytes of a token.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4_096;

impl Token {
    /// Reads the token in the file at `path`: its only line.
    pub(super) fn read(path: &Path) -> Result<Self, AdminError> {
        let text = std::fs::read(path)
            .map_err(|source| AdminError::TokenFile { path: path.into(), source })?;
        let token = text.trim_ascii();
        let is_usable = LENGTHS.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        if is_usable {
            Ok(Self(token.into()))
        } else {
            Err(AdminError::Token { path: path.into() })
        }
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Bytes of the body of a request: none has much to say.
pub(super) const BODY_BYTES_MAX: usize = 4 << 10;

/// Lets pass what may pass.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    // Before any of it has come.
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        let error = "the body is too long: no request has much to say";
        return Problem::refused(StatusCode::PAYLOAD_TOO_LARGE, error).into_response();
    }
    let only_looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if only_looks && !shared.is_exposed {
        return next.run(request).await;
    }
    let Some(token) = &shared.token else {
        return Problem::forbidden(
            "nothing can be changed through this port: it has no token; name one with `admin.token_file`",
        )
        .into_response();
    };
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|given| given.as_bytes().split_at_checked(BEARER.len()));
    // The case of a scheme does not matter (RFC 9110, 11.1).
    let given =
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER)).map(|(_, token)| token);
    if given.is_some_and(|given| token.is(given)) {
        next.run(request).await
    } else {
        Problem::unauthorized().into_response()
    }
}
