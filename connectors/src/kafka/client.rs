//! How a client of Kafka is set up: what source and sink share. Values of options may be secrets,
//! and none is ever printed: not by `Debug`, not in an error.

use crate::secret::{Secret, SecretError, secret_in};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode;
use std::fmt;
use std::sync::Arc;

/// How a cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// Addresses of brokers, `host:port` with commas between them.
    pub brokers: Box<str>,
    /// Options of librdkafka, in the order given.
    pub options: Vec<ClientOption>,
}

/// One option of librdkafka.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOption {
    /// Its name, such as `sasl.password`.
    pub name: Box<str>,
    /// Its value.
    pub value: Secret,
}

impl fmt::Debug for ClientOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=***", self.name)
    }
}

/// Something about Kafka that only the operator can change.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// An option that librdkafka does not know, or whose value it does not take.
    #[error("option `{name}`: librdkafka does not take it{detail}; see its CONFIGURATION.md")]
    Option {
        /// Name of the option.
        name: Box<str>,
        /// Why, if that can be said without its value.
        detail: Box<str>,
    },
    /// The file of an option cannot be read.
    #[error("option `{name}`: {error}")]
    OptionFile {
        /// Name of the option.
        name: Box<str>,
        /// Why.
        error: SecretError,
    },
    /// The client cannot be made.
    #[error("cannot make a client: {0}; check the options")]
    Client(Box<str>),
    /// The brokers do not let this client in, or it does not trust them.
    #[error("Kafka at {brokers} refuses: {detail}; check user, password and certificates")]
    Refused {
        /// The brokers.
        brokers: Box<str>,
        /// What was said.
        detail: Box<str>,
    },
    /// The user may not read.
    #[error("not allowed by Kafka: {detail}; let the user read topic and group")]
    Forbidden {
        /// What was said.
        detail: Box<str>,
    },
    /// A topic that is to be read to its end does not exist.
    #[error("{detail}; check the name, or make the topic first")]
    NoTopic {
        /// What was said.
        detail: Box<str>,
    },
    /// Another process reads under the same name.
    #[error(
        "{detail}; another process reads as `{instance}` in this group: stop it, or give this one another `instance`"
    )]
    Fenced {
        /// What was said.
        detail: Box<str>,
        /// The name of this reader.
        instance: Box<str>,
    },
    /// The user may not write.
    #[error("not allowed by Kafka: {detail}; let the user write topic `{topic}`{also}")]
    MayNotWrite {
        /// What was said.
        detail: Box<str>,
        /// The topic.
        topic: Box<str>,
        /// What else it has to be allowed.
        also: Box<str>,
    },
    /// A topic cannot be made.
    #[error(
        "cannot make topic `{topic}`: {detail}; make it by hand; of the topic of a sink, `create` says how it is to be made"
    )]
    NotMade {
        /// The topic.
        topic: Box<str>,
        /// What was said.
        detail: Box<str>,
    },
    /// A record is not taken.
    #[error("topic `{topic}` does not take a record: {detail}")]
    NotTaken {
        /// The topic.
        topic: Box<str>,
        /// What was said.
        detail: Box<str>,
    },
    /// Another process writes under the same name.
    #[error(
        "another process writes as `{id}`: stop it, or give this one another `instance` and another state directory"
    )]
    Superseded {
        /// The name.
        id: Box<str>,
    },
    /// What has come out is not what the state knows of.
    #[error(
        "topic `{changelog}` says that {stamped} epochs of `{id}` have come out, and the state goes on with number {number}, or with other results: it is not the state that wrote them; put that one back, or give the sink another `name` to begin anew beside them"
    )]
    StrangeStamp {
        /// The topic of the stamps.
        changelog: Box<str>,
        /// The name that the sink writes under.
        id: Box<str>,
        /// How many are known to have come out.
        stamped: u64,
        /// Which is to come out.
        number: u64,
    },
    /// What stands beside offsets is not what the changelog knows of.
    #[error(
        "group `{group}` says that {noted} epochs of `{id}` have come out, and topic `{changelog}` does not know of the last one: that topic was made anew, or has lost records; put it back, or begin anew: another `group`, another `name` of the sink, and another `state.dir`"
    )]
    StrangeOffsets {
        /// The group.
        group: Box<str>,
        /// The name that the sink writes under.
        id: Box<str>,
        /// The topic of the stamps.
        changelog: Box<str>,
        /// How many have come out, by the stamp beside the offsets.
        noted: u64,
    },
    /// The group gives a partition whose state another node has.
    #[error(
        "group `{group}` gives partition {partition} to `{instance}`, and its state is where `{owner}` runs: start `{owner}` in place of this one; or read it all anew, as another group and from a new state"
    )]
    Elsewhere {
        /// Name of the partition.
        partition: Arc<str>,
        /// The node that has its state.
        owner: Box<str>,
        /// The group.
        group: Box<str>,
        /// This node.
        instance: Box<str>,
    },
    /// There are more nodes than there are to be.
    #[error(
        "group `{group}` already has its {nodes} nodes, and `{instance}` has no state of it: stop this one; to read with more nodes, raise `nodes` and read it all anew, as another group and from a new state"
    )]
    NoRoom {
        /// The group.
        group: Box<str>,
        /// This node.
        instance: Box<str>,
        /// How many there are to be.
        nodes: usize,
    },
    /// Partitions whose state is here are given to other nodes.
    #[error(
        "group `{group}` gives partitions {partitions} to other nodes, and their state is where `{instance}` runs: let the nodes run that ran before, each with its `instance`, and leave topics and numbers of partitions as they were"
    )]
    NotGiven {
        /// Names of the partitions.
        partitions: Box<str>,
        /// The group.
        group: Box<str>,
        /// This node.
        instance: Box<str>,
    },
    /// Several nodes read topics that do not have the same number of partitions.
    #[error(
        "group `{group}` is read by several nodes, and its topics have different numbers of partitions ({topics}): the records of one key would be at different nodes; give each topic the same number, and read it all anew, as another group and from a new state; or let one node read them (`nodes = 1`)"
    )]
    Uneven {
        /// The topics, and how many each has.
        topics: Box<str>,
        /// The group.
        group: Box<str>,
    },
    /// Partitions were given to another reader of the group.
    #[error(
        "partitions {partitions} were taken away: another reader has joined group `{group}`, or the topic is gone; one process reads a group"
    )]
    TakenAway {
        /// Names of the partitions.
        partitions: Box<str>,
        /// The group.
        group: Box<str>,
    },
}

impl KafkaError {
    /// Whether the stored state is not the one that goes with what has come out.
    pub const fn is_of_state(&self) -> bool {
        matches!(self, Self::StrangeStamp { .. } | Self::StrangeOffsets { .. })
    }
}

impl ClientSettings {
    /// The configuration of a client with these settings; `own` are options that are not the user's
    /// to set, and hold whatever was given.
    ///
    /// # Errors
    /// The file of an option cannot be read.
    pub(crate) fn config(&self, own: &[(&str, String)]) -> Result<ClientConfig, KafkaError> {
        let mut config = ClientConfig::new();
        config.set("client.id", "nilometer");
        for option in &self.options {
            config.set(&*option.name, option.text()?);
        }
        config.set("bootstrap.servers", &*self.brokers);
        for (name, value) in own {
            config.set(*name, value);
        }
        Ok(config)
    }

    /// Whether the user has set an option.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.options.iter().any(|option| &*option.name == name)
    }
}

impl ClientOption {
    fn text(&self) -> Result<String, KafkaError> {
        let file = |error| KafkaError::OptionFile { name: self.name.clone(), error };
        self.value.read().map_err(file)
    }
}

/// Why a client could not be made, without any value of an option.
pub(crate) fn not_made(error: ClientError) -> KafkaError {
    match error {
        // The description may quote the value.
        ClientError::ClientConfig(_, description, name, value) => {
            let has_value = value.is_empty() || description.contains(&value);
            let detail = if has_value { String::new() } else { format!(": {description}") };
            KafkaError::Option { name: name.into(), detail: detail.into() }
        }
        other => KafkaError::Client(without_secrets(&other.to_string()).into()),
    }
}

/// What librdkafka says, unless it speaks of a secret: then it may quote it, and only its name is told.
pub(crate) fn without_secrets(text: &str) -> String {
    match secret_in(text) {
        Some(name) => format!("librdkafka does not take option `{name}`, or what it leads to"),
        None => text.to_owned(),
    }
}

/// What an error of the client means for whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The end of a partition, which is none.
    None,
    /// The brokers cannot be reached now. The client goes on trying.
    Away,
    /// They do not let this client in, or it does not trust them.
    Refused,
    /// The user may not do it.
    Forbidden,
    /// A topic does not exist.
    NoTopic,
    /// An offset is no longer there.
    OutOfRange,
    /// Another process has taken the name of this one.
    Fenced,
    /// Anything else. The client goes on trying.
    Other,
}

impl Trouble {
    pub(crate) fn of(code: RDKafkaErrorCode) -> Self {
        use RDKafkaErrorCode as Code;
        match code {
            Code::PartitionEOF => Self::None,
            Code::AllBrokersDown
            | Code::BrokerTransportFailure
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::NetworkException
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition => Self::Away,
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::SSL => Self::Refused,
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::ClusterAuthorizationFailed => Self::Forbidden,
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
                Self::NoTopic
            }
            Code::OffsetOutOfRange | Code::AutoOffsetReset => Self::OutOfRange,
            Code::FencedInstanceId
            | Code::Fenced
            | Code::InvalidProducerEpoch
            | Code::ProducerFenced => Self::Fenced,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::consumer::BaseConsumer;

    fn settings(name: &str, value: Secret) -> ClientSettings {
        let option = ClientOption { name: name.into(), value };
        ClientSettings { brokers: "127.0.0.1:1".into(), options: vec![option] }
    }

    #[test]
    fn options_are_set_and_those_of_the_program_hold() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        std::fs::write(&path, "geheim\r\n").unwrap();
        let mut settings = settings("sasl.password", Secret::File(path));
        let text = Secret::Text("mine".into());
        settings.options.push(ClientOption { name: "group.id".into(), value: text });
        let config = settings.config(&[("group.id", "own".into())]).unwrap();
        for (name, expected) in
            [("sasl.password", "geheim"), ("group.id", "own"), ("bootstrap.servers", "127.0.0.1:1")]
        {
            assert_eq!(config.get(name), Some(expected), "{name}");
        }
        let printed = format!("{settings:?}");
        assert!(printed.contains("sasl.password=***") && !printed.contains("geheim"), "{printed}");
        assert!(settings.sets("group.id") && !settings.sets("client.id"));
    }

    #[test]
    fn an_option_that_is_not_taken_is_named_and_its_value_is_not() {
        for (name, value, expected) in [
            ("no.such", "geheim", "option `no.such`: librdkafka does not take it"),
            ("fetch.min.bytes", "geheim", "option `fetch.min.bytes`: librdkafka does not take it"),
        ] {
            let config = settings(name, Secret::Text(value.into())).config(&[]).unwrap();
            let made: Result<BaseConsumer, _> = config.create();
            let message = not_made(made.err().unwrap()).to_string();
            assert!(message.starts_with(expected) && !message.contains(value), "{message}");
        }
        let missing = settings("sasl.password", Secret::File("no/such".into()));
        let message = missing.config(&[]).unwrap_err().to_string();
        assert!(
            message.starts_with("option `sasl.password`: cannot read `no/such`: "),
            "{message}"
        );
    }
    #[test]
    fn what_speaks_of_a_secret_is_not_told() {
        let said = "Unrecognized sasl.oauthbearer.config beginning at: geheim";
        let expected =
            "librdkafka does not take option `sasl.oauthbearer.config`, or what it leads to";
        assert_eq!(without_secrets(said), expected);
        let said = "ssl.ca.location failed: No such file or directory";
        assert_eq!(without_secrets(said), said);
    }

    #[test]
    fn troubles_are_told_apart() {
        use RDKafkaErrorCode as Code;
        for (code, expected) in [
            (Code::PartitionEOF, Trouble::None),
            (Code::AllBrokersDown, Trouble::Away),
            (Code::SSL, Trouble::Refused),
            (Code::TopicAuthorizationFailed, Trouble::Forbidden),
            (Code::AutoOffsetReset, Trouble::OutOfRange),
            (Code::FencedInstanceId, Trouble::Fenced),
            (Code::PolicyViolation, Trouble::Other),
        ] {
            assert_eq!(Trouble::of(code), expected, "{code:?}");
        }
    }
}
