//! Why a transaction comes to nothing, and what an error of the client leaves to do.
//!
//! Invariant: a call that is to go on is called again; everything else ends the transaction, so that
//! none is left open.

use crate::kafka::client::KafkaError;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode;

/// Why a transaction comes to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A record is not taken.
    Record(RDKafkaErrorCode),
    /// The offsets of a source are not taken.
    Offsets(ClientError),
    /// Anything else.
    Client(ClientError),
    /// There is no client.
    Gone(KafkaError),
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Gone(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Whether the same call again goes on with what it has begun.
pub(crate) fn is_to_go_on(error: &ClientError) -> bool {
    match error {
        ClientError::Transaction(error) => {
            error.is_retriable() && !error.txn_requires_abort() && !error.is_fatal()
        }
        other => {
            matches!(other.rdkafka_error_code(), Some(RDKafkaErrorCode::OperationTimedOut))
        }
    }
}

/// Whether the client is of no use any more.
pub(crate) fn is_fatal(error: &ClientError) -> bool {
    match error {
        ClientError::Transaction(error) => error.is_fatal(),
        other => matches!(
            other.rdkafka_error_code(),
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::Fenced)
        ),
    }
}
