//! Flow records from the network: a UDP socket that exporters send to.

use crate::capture::collector::Collector;
use crate::flow_feed::{FeedImage, FlowFeed};
use crate::flow_intake::{FlowContext, FlowIntake};
use crate::netflow::{DecoderSettings, FlowDecoder};
use crate::source::{
    Polled, Position, Progress, Source, SourceError, State, position_of, state_of,
};
use nilometer_model::row::RowLayout;
use nilometer_model::symbol::Symbols;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a collector of flows listens to.
#[derive(Debug, Clone)]
pub struct FlowCollectorSettings {
    /// Where to listen. A public address is an explicit decision of the user.
    pub address: SocketAddr,
    /// Bytes of datagrams that wait for the engine at most; beyond, they are dropped and counted.
    pub queue_bytes_max: usize,
    /// How datagrams are decoded.
    pub decoder: DecoderSettings,
    /// How flows are normalised.
    pub context: FlowContext,
    /// The source partition that the records belong to.
    pub partition: u32,
}

/// A source of flows from the network. It never ends.
#[derive(Debug)]
pub struct FlowCollector {
    collector: Collector,
    feed: FlowFeed,
    origin: Arc<str>,
    datagrams: u64,
    /// Datagrams that processes before this one have dropped.
    dropped_before: u64,
}

/// How long a poll waits for the first datagram.
const PATIENCE: Duration = Duration::from_millis(50);
/// Datagrams that one poll takes at most.
const POLL_DATAGRAMS: usize = 2_000;

impl FlowCollector {
    /// A source of records of `layout`; `now_ms` tells the time of arrival in milliseconds since
    /// the Unix epoch.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn listen(
        settings: FlowCollectorSettings,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
        now_ms: impl Fn() -> i64 + Send + 'static,
    ) -> Result<Self, SourceError> {
        let origin: Arc<str> = settings.address.to_string().into();
        let collector = Collector::listen(settings.address, settings.queue_bytes_max, now_ms)
            .map_err(|source| SourceError::Socket { address: (&*origin).into(), source })?;
        let intake = FlowIntake::new(settings.context, layout, symbols, settings.partition);
        let feed = FlowFeed::new(settings.decoder, intake);
        Ok(Self { collector, feed, origin, datagrams: 0, dropped_before: 0 })
    }

    /// Datagrams dropped so far.
    fn dropped(&self) -> u64 {
        self.collector.dropped().saturating_add(self.dropped_before)
    }

    /// Where it listens: the port that was found, if any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.collector.address()
    }
}

impl Source for FlowCollector {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let read_max = out.account.read.saturating_add(records_max as u64);
        let mut letter_bytes = 0;
        let mut patience = PATIENCE;
        let mut state = State::More;
        for _ in 0..POLL_DATAGRAMS {
            if out.account.read >= read_max || letter_bytes >= Polled::LETTER_BYTES_MAX {
                break;
            }
            let received = self.collector.next(patience).map_err(|source| SourceError::Socket {
                address: (&*self.origin).into(),
                source,
            })?;
            let Some(received) = received else {
                state = State::Pending;
                break;
            };
            patience = Duration::ZERO;
            self.datagrams += 1;
            letter_bytes += self.feed.take(received.datagram(), &self.origin, self.datagrams, out);
        }
        out.account.datagrams.dropped = self.dropped();
        Ok(state)
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    /// What exporters have told is kept; what they send while nobody listens is lost.
    fn position(&self) -> Position {
        let state = (self.datagrams, self.dropped(), self.feed.image());
        Position { bytes: position_of(&state), is_exact: false }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let (datagrams, dropped, feed) =
            state_of::<(u64, u64, FeedImage<FlowDecoder>)>(position, &self.origin)?;
        self.datagrams = datagrams;
        self.dropped_before = dropped;
        self.feed.resume(feed);
        Ok(())
    }

    fn stop(&mut self, out: &mut Polled) {
        self.collector.stop();
        out.account.datagrams.dropped = self.dropped();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::row::Field;
    use nilometer_model::value::Type;
    use std::net::UdpSocket;

    const V5: &[u8] = include_bytes!("../../tests/data/flows/goflow2/TestDecodeNetFlowV5-0.bin");

    fn listen(queue_bytes_max: usize) -> (FlowCollector, UdpSocket, Polled) {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let layout = Arc::new(RowLayout::new([Field::new("num_bytes", Type::U64)]));
        let settings = FlowCollectorSettings {
            address: loopback,
            queue_bytes_max,
            decoder: DecoderSettings::LIVE,
            context: FlowContext::default(),
            partition: 0,
        };
        let symbols = Arc::new(Symbols::default());
        let source = FlowCollector::listen(settings, &layout, symbols, || 1).unwrap();
        (source, UdpSocket::bind(loopback).unwrap(), Polled::new(layout, false))
    }

    #[test]
    fn datagrams_become_records() {
        let (mut source, sender, mut out) = listen(Collector::BYTES_MAX);
        for payload in [V5, b"no flows", V5] {
            sender.send_to(payload, source.address()).unwrap();
        }
        while out.account.datagrams.read < 3 {
            assert_ne!(source.poll(100, &mut out).unwrap(), State::End);
        }
        assert_eq!((out.batch.len(), out.account.read), (12, 12));
        assert_eq!((out.account.datagrams.malformed, out.account.datagrams.dropped), (1, 0));
        assert_eq!(source.poll(100, &mut out).unwrap(), State::Pending);
        assert_eq!(source.progress(), None);
    }

    /// A flood while nobody polls: bounded, and every datagram is read or counted as dropped.
    #[test]
    fn a_flood_is_dropped_and_counted() {
        const SENT: u64 = 3_000;
        let (mut source, sender, mut out) = listen(100_000);
        for _ in 0..SENT {
            sender.send_to(V5, source.address()).unwrap();
        }
        for _ in 0..400 {
            source.poll(10_000, &mut out).unwrap();
            if out.account.datagrams.read + out.account.datagrams.dropped >= SENT {
                break;
            }
        }
        let datagrams = out.account.datagrams;
        assert_eq!(datagrams.read + datagrams.dropped, SENT);
        assert!(datagrams.dropped > SENT / 2, "{datagrams:?}");
        assert_eq!(out.batch.len() as u64, datagrams.read * 6);
    }

    #[test]
    fn an_address_in_use_is_an_error_with_a_way_out() {
        let (source, _, out) = listen(1);
        let settings = FlowCollectorSettings {
            address: source.address(),
            queue_bytes_max: 1,
            decoder: DecoderSettings::LIVE,
            context: FlowContext::default(),
            partition: 0,
        };
        let symbols = Arc::new(Symbols::default());
        let error = FlowCollector::listen(settings, out.batch.layout(), symbols, || 1);
        let message = error.unwrap_err().to_string();
        let expected = format!("cannot listen on {}: ", source.address());
        assert!(message.starts_with(&expected) && message.ends_with("the port is free"));
    }
}
