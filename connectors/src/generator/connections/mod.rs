//! Generated records of clients that connect to wireless networks, each session with its true
//! verdict: for a first look, for tests of sequences, for the benchmark.
//!
//! A session is written as a story whose end is known (`script`), not judged: so the truth owes
//! nothing to the rules that it is a test of. Its records are stamped by the clocks of its access
//! points, and then come out of order, twice, late, or not at all. A seed and the settings fix all.

mod script;
mod truth;

use self::script::{Line, Script};
use super::Dice;
use super::json::Object;
use nilometer_model::time::{EventTime, Span};
use std::collections::{BTreeMap, VecDeque};
pub use truth::{StepResult, StepTruth, Truth, Verdict, write_truth};

/// What to generate. Settings out of their range are taken as the nearest value in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionSettings {
    /// Fixes every random choice.
    pub seed: u64,
    /// Sessions, bots left out.
    pub sessions: u64,
    /// Sessions that begin per second of event time, at least 1.
    pub rate: u64,
    /// When the first session begins.
    pub start: EventTime,
    /// Networks, at least 1.
    pub networks: u32,
    /// Access points of each network, at least 1.
    pub aps: u32,
    /// Most that a record comes after it was written.
    pub disorder: Span,
    /// By how much the clock of an access point is wrong at most, either way; at most 4 s.
    pub clock_skew: Span,
    /// Part of the records that come later than `disorder`, 0 to 1; of two records of a session in
    /// a row at most one.
    pub late_share: f64,
    /// Most that those come after they were written.
    pub late_by: Span,
    /// Part of the records that never come, 0 to 1.
    pub lost_share: f64,
    /// Part of the records that come twice, 0 to 1.
    pub copy_share: f64,
    /// Clients that are refused, and try again without end.
    pub bots: u32,
}

impl ConnectionSettings {
    /// Most that a clock is wrong: less than half of what lies between a session and its roam, so
    /// that clocks do not change the order of a session.
    pub const CLOCK_SKEW_MAX: Span = Span::from_millis(4_000);
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            sessions: 1_000,
            rate: 2,
            // 2023-11-14T22:00:00Z, a whole hour.
            start: EventTime::from_millis(1_699_999_200_000),
            networks: 2,
            aps: 4,
            disorder: Span::from_millis(5_000),
            clock_skew: Span::from_millis(1_000),
            late_share: 0.005,
            late_by: Span::from_millis(300_000),
            lost_share: 0.002,
            copy_share: 0.02,
            bots: 2,
        }
    }
}

/// What a record of a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// To an access point.
    Assoc,
    /// Who the client is.
    Auth,
    /// An address.
    Dhcp,
    /// Names: what shows that data moves.
    Dns,
    /// The client goes.
    Disassoc,
}

impl Step {
    /// The chain, in its order.
    pub const CHAIN: [Self; 4] = [Self::Assoc, Self::Auth, Self::Dhcp, Self::Dns];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assoc => "assoc",
            Self::Auth => "auth",
            Self::Dhcp => "dhcp",
            Self::Dns => "dns",
            Self::Disassoc => "disassoc",
        }
    }
}

/// A client of a network, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the network.
    pub network: u32,
    /// Number of the access point in its network.
    pub ap: u32,
    /// Number of the client.
    pub client: u64,
}

/// One record of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// Event time, by the clock of the access point.
    pub time: EventTime,
    /// Whose it is, and where.
    pub place: Place,
    /// The step.
    pub step: Step,
    /// How it stands.
    pub status: &'static str,
    /// Why, if it went wrong.
    pub reason: Option<&'static str>,
}

/// Bands and kinds of devices, by what a client is.
const BANDS: [&str; 3] = ["5", "2.4", "6"];
const DEVICES: [&str; 5] = ["phone", "laptop", "phone", "tablet", "printer"];

impl Place {
    /// The name of the network.
    pub fn network(self) -> String {
        format!("net-{}", self.network + 1)
    }

    /// The name of the access point.
    pub fn ap(self) -> String {
        format!("net-{}-ap-{}", self.network + 1, self.ap + 1)
    }

    /// The address of the client: one that is administered locally.
    pub fn client(self) -> String {
        let bytes = self.client.to_be_bytes();
        let [.., a, b, c, d, e] = bytes;
        format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
    }
}

/// Appends `record` to `out` as one JSON object and a line feed.
pub fn write_connection(record: &ConnectionRecord, out: &mut String) {
    let place = record.place;
    let of = |names: &[&'static str]| {
        let number = place.client.checked_rem(names.len() as u64).unwrap_or(0);
        names.get(number as usize).copied()
    };
    let mut object = Object::open(out);
    object.number("time", Some(record.time.as_millis()));
    object.text("network", Some(&place.network()));
    object.text("ap", Some(&place.ap()));
    object.text("band", of(&BANDS));
    object.number("vlan", Some(10 + place.client % 4));
    object.text("client", Some(&place.client()));
    object.text("device", of(&DEVICES));
    object.text("step", Some(record.step.name()));
    object.text("status", Some(record.status));
    object.text("reason", record.reason);
    object.close();
    out.push('\n');
}

/// Generates records in the order in which they come; an iterator that ends with the sessions.
#[derive(Debug)]
pub struct ConnectionGenerator {
    settings: ConnectionSettings,
    /// Number of the next session.
    next: u64,
    /// Clients whose last session is over, each with the time from which it may have another.
    free: VecDeque<(i64, u64)>,
    clients: u64,
    /// By time of arrival: records on their way, each with its session.
    pending: BTreeMap<(i64, u64), (ConnectionRecord, u64)>,
    /// Records put on their way so far.
    sent: u64,
    /// By number: sessions of which records are on their way, and how many.
    open: BTreeMap<u64, (Truth, u32)>,
    finished: Vec<Truth>,
    bots: Vec<Bot>,
    /// Largest event time of what has come.
    newest: EventTime,
}

/// A client that is refused for ever.
#[derive(Debug)]
struct Bot {
    place: Place,
    dice: Dice,
    /// When it tries again.
    next: i64,
    truth: Truth,
}

/// For how long a client rests between two sessions: longer than a session that is silent lasts,
/// and than clocks and disorder can shift.
const REST_MS: i64 = 300_000;

/// The session that bots' records are counted under.
const NO_SESSION: u64 = u64::MAX;

impl ConnectionGenerator {
    /// A generator of what `settings` say.
    pub fn new(settings: ConnectionSettings) -> Self {
        let settings = ConnectionSettings {
            rate: settings.rate.max(1),
            networks: settings.networks.max(1),
            aps: settings.aps.max(1),
            clock_skew: settings.clock_skew.min(ConnectionSettings::CLOCK_SKEW_MAX),
            ..settings
        };
        let start = settings.start.as_millis();
        let bot = |number: u32| {
            let client = u64::from(number) | 1 << 32;
            let network = number % settings.networks;
            let place = Place { network, ap: number % settings.aps, client };
            let dice = Dice::of(!settings.seed, number.into());
            let truth = Truth::new(place, settings.start);
            Bot { place, dice, next: start, truth: Truth { verdict: Verdict::Endless, ..truth } }
        };
        let bots = (0..settings.bots).map(bot).collect();
        Self {
            next: 0,
            free: VecDeque::new(),
            clients: 0,
            pending: BTreeMap::new(),
            sent: 0,
            open: BTreeMap::new(),
            finished: Vec::new(),
            bots,
            newest: EventTime::MIN,
            settings,
        }
    }

    /// What is true of the sessions all of whose records have come since this was asked last. Bots
    /// come when everything has.
    pub fn take_finished(&mut self) -> Vec<Truth> {
        if self.is_over() {
            self.finished.extend(self.bots.drain(..).map(|bot| bot.truth));
        }
        std::mem::take(&mut self.finished)
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.next >= self.settings.sessions
    }

    /// When session `number` begins.
    fn begin(&self, number: u64) -> i64 {
        let elapsed = u128::from(number) * 1_000 / u128::from(self.settings.rate);
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        self.settings.start.as_millis().saturating_add(elapsed)
    }

    /// By how much the clock of an access point is wrong.
    fn skew(&self, place: Place) -> i64 {
        let most = self.settings.clock_skew.as_millis();
        let ap = u64::from(place.network) << 32 | u64::from(place.ap);
        let range = most.unsigned_abs().saturating_mul(2) + 1;
        let skew = Dice::of(self.settings.seed ^ 0x5eed, ap).below(range);
        i64::try_from(skew).unwrap_or(0) - most
    }

    /// How long after it was written a record comes.
    fn delay(&self, dice: &mut Dice, is_late: bool) -> i64 {
        let below = |dice: &mut Dice, span: Span| {
            let most = span.as_millis().unsigned_abs();
            i64::try_from(dice.below(most.saturating_add(1))).unwrap_or(0)
        };
        let usual = below(dice, self.settings.disorder);
        if is_late { usual.saturating_add(below(dice, self.settings.late_by)) } else { usual }
    }

    fn send(&mut self, arrival: i64, record: ConnectionRecord, session: u64) {
        self.pending.insert((arrival, self.sent), (record, session));
        self.sent += 1;
    }

    /// Writes the next session, and puts its records on their way.
    fn begin_session(&mut self) {
        let (number, begin) = (self.next, self.begin(self.next));
        self.next += 1;
        let mut dice = Dice::of(self.settings.seed, number);
        let rested = self.free.front().filter(|(from, _)| *from <= begin);
        let client = match rested.map(|(_, client)| *client) {
            Some(client) => {
                self.free.pop_front();
                client
            }
            None => {
                self.clients += 1;
                self.clients - 1
            }
        };
        let network = (client % u64::from(self.settings.networks)) as u32;
        let ap = dice.below(self.settings.aps.into()) as u32;
        let place = Place { network, ap, client };
        let (lines, mut truth) = Script::write(&mut dice, (place, self.settings.aps), begin);
        let over = lines.last().map_or(begin, |line| line.at);
        self.free.push_back((over.saturating_add(REST_MS), client));
        let stamp = |generator: &Self, line: &Line| {
            let place = Place { ap: line.ap, ..place };
            EventTime::from_millis(line.at.saturating_add(generator.skew(place)))
        };
        let ends = lines.first().zip(lines.last());
        if let Some((first, last)) = ends {
            (truth.first, truth.last) = (stamp(self, first), stamp(self, last));
        }
        let (mut coming, mut was_late) = (0, false);
        for line in &lines {
            let is_lost = dice.chance(self.settings.lost_share);
            let is_copied = dice.chance(self.settings.copy_share);
            let is_late = dice.chance(self.settings.late_share) && !was_late;
            was_late = is_late;
            let record = ConnectionRecord {
                time: stamp(self, line),
                place: Place { ap: line.ap, ..place },
                step: line.step,
                status: line.status,
                reason: line.reason,
            };
            if is_lost {
                truth.lost += 1;
                continue;
            }
            truth.records += 1;
            truth.copies += u32::from(is_copied);
            for _ in 0..1 + u32::from(is_copied) {
                let arrival = line.at.saturating_add(self.delay(&mut dice, is_late));
                self.send(arrival, record, number);
                coming += 1;
            }
        }
        if coming == 0 {
            self.finished.push(truth);
        } else {
            self.open.insert(number, (truth, coming));
        }
    }

    /// Lets bots go on until `until`.
    fn run_bots(&mut self, until: i64) {
        let mut bots = std::mem::take(&mut self.bots);
        for bot in &mut bots {
            while bot.next < until {
                let answered = bot.next + 1 + bot.dice.below(30) as i64;
                let skew = self.skew(bot.place);
                let refused = (answered, "refused", Some("denied"));
                for (at, status, reason) in [(bot.next, "request", None), refused] {
                    let time = EventTime::from_millis(at.saturating_add(skew));
                    let (place, step) = (bot.place, Step::Assoc);
                    let arrival = at.saturating_add(self.delay(&mut bot.dice, false));
                    let record = ConnectionRecord { time, place, step, status, reason };
                    self.send(arrival, record, NO_SESSION);
                    if bot.truth.records == 0 {
                        bot.truth.first = time;
                    }
                    bot.truth.records += 1;
                    bot.truth.last = time;
                }
                bot.next = answered + 200 + bot.dice.below(1_800) as i64;
            }
        }
        self.bots = bots;
    }

    /// Takes note that a record has come.
    fn arrive(&mut self, record: &ConnectionRecord, session: u64) {
        self.newest = self.newest.max(record.time);
        let Some((truth, coming)) = self.open.get_mut(&session) else { return };
        let behind = self.newest.since(record.time);
        truth.behind = truth.behind.max(behind);
        *coming -= 1;
        if *coming == 0
            && let Some((truth, _)) = self.open.remove(&session)
        {
            self.finished.push(truth);
        }
    }
}

impl Iterator for ConnectionGenerator {
    type Item = ConnectionRecord;

    fn next(&mut self) -> Option<ConnectionRecord> {
        // What begins later comes later.
        while self.next < self.settings.sessions {
            let begin = self.begin(self.next);
            self.run_bots(begin);
            if self.pending.first_key_value().is_some_and(|((arrival, _), _)| *arrival < begin) {
                break;
            }
            self.begin_session();
        }
        let (_, (record, session)) = self.pending.pop_first()?;
        self.arrive(&record, session);
        Some(record)
    }
}

#[cfg(test)]
mod tests;
