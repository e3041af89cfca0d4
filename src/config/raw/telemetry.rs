//! Raw types of `[admin]` and `[telemetry]`: how a run is seen from outside.

use super::lists::Names;
use super::quantity::{Limit, Period};
use super::reader::Presence::{Default, Optional, Required};
use super::scalar::{Ratio, raw_names};
use super::table::raw_table;

raw_table! {
    /// The admin port: how a run is watched and told what to do over HTTP.
    pub(crate) struct RawAdmin {
        /// IP address and port; an address that others can reach takes a `token_file`, port 0 takes any that is free.
        listen: String = Required,
        /// File with the token that requests carry as `authorization: Bearer TOKEN`: those that change anything, and all where others can reach the port. Without it nothing can be changed.
        token_file: String = Optional,
    }
}

raw_table! {
    /// What is sent to a collector of OpenTelemetry.
    pub(crate) struct RawTelemetry {
        /// Where the collector is; without it nothing is sent.
        otlp: RawOtlp = Optional,
        /// What is said of this process beside the name of its pipeline, by name, such as `"deployment.environment"`.
        resource: Names<String> = Default("{}"),
    }
}

raw_table! {
    /// A collector that takes OTLP.
    pub(crate) struct RawOtlp {
        /// Its URL, `http://` or `https://`: of gRPC, or the base URL of HTTP, to which `/v1/metrics` and `/v1/traces` are added.
        endpoint: String = Required,
        /// What it speaks: `grpc`, or `http` (protocol buffers).
        protocol: RawOtlpProtocol = Default("\"grpc\""),
        /// How often metrics are sent, or `"off"`.
        metrics: Limit = Default("\"10s\""),
        /// Share of the traces that begin here which are sent, from 0, for none, to 1, for all.
        traces: Ratio<1> = Default("1"),
        /// Whether traces that begin elsewhere and go on here are sent if their beginning is; otherwise the share decides for them, too.
        parent_based: bool = Default("true"),
        /// File with the certificates, in PEM, of the authorities that a collector behind `https://` is known by; without it those of the system.
        ca_file: String = Optional,
        /// Headers of requests, by name, such as `authorization`; their values are shown nowhere, and may be variables of the environment: `"Bearer ${TOKEN}"`. A name with `.file` behind it takes the text of that file.
        headers: Names<String> = Default("{}"),
        /// How long a request to it may take; what it has not taken by then is given up and counted.
        timeout: Period = Default("\"5s\""),
    }
}

raw_names! {
    /// What a collector speaks.
    pub(crate) enum RawOtlpProtocol ("protocol") {
        /// Over gRPC.
        Grpc = "grpc",
        /// Over HTTP, in protocol buffers.
        Http = "http",
    }
}
