//! Why a request was not answered, in JSON like every answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why a request was not answered.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProblemAnswer {
    /// What is wrong, and what to do.
    pub(crate) error: Cow<'static, str>,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: Cow<'static, str>,
}

impl Problem {
    const fn new(status: StatusCode, error: Cow<'static, str>) -> Self {
        Self { status, error }
    }

    /// It is not a request that can be understood.
    pub(super) fn bad(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.into())
    }

    /// It does not carry the token.
    pub(super) const fn unauthorized() -> Self {
        let error = "this takes the token of `admin.token_file`: `authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, Cow::Borrowed(error))
    }

    /// It is not allowed to anybody.
    pub(super) fn forbidden(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error.into())
    }

    /// There is nothing of that name.
    pub(super) fn not_found(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error.into())
    }

    /// It does not fit how the pipeline is run.
    pub(super) fn conflict(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, error.into())
    }

    /// Its body is refused.
    pub(super) const fn refused(status: StatusCode, error: &'static str) -> Self {
        Self::new(status, Cow::Borrowed(error))
    }

    /// It cannot be answered.
    pub(super) fn internal(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.into())
    }

    /// No run is watched yet.
    pub(super) const fn starting() -> Self {
        let error = "the run has not begun: inputs, outputs and state are being opened; ask again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Cow::Borrowed(error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(ProblemAnswer { error: self.error })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

/// No such path.
pub(super) async fn no_path() -> Problem {
    Problem::not_found("there is nothing at this path; `/openapi.json` says what there is")
}

/// No such method at this path.
pub(super) async fn no_method() -> Problem {
    let error = "this path does not take this method; `/openapi.json` says which it takes";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, Cow::Borrowed(error))
}
