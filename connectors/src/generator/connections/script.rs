//! The story of one session: what the client did, in order, and how it ended.
//!
//! The end is decided first, and the records are written so that it comes: nothing here judges
//! records. Two records of a session are never at the same instant.

use super::truth::{StepResult, Truth, Verdict};
use super::{Dice, Place, Step};
use nilometer_model::time::EventTime;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// When, in ms, by a clock that is right.
    pub(super) at: i64,
    /// At which access point.
    pub(super) ap: u32,
    pub(super) step: Step,
    pub(super) status: &'static str,
    pub(super) reason: Option<&'static str>,
}

/// How a step is spoken of.
struct Words {
    start: &'static str,
    /// What is said in between.
    between: &'static [&'static str],
    success: &'static str,
    failure: &'static str,
    reasons: [&'static str; 3],
}

const fn words(step: Step) -> Words {
    match step {
        Step::Assoc | Step::Disassoc => Words {
            start: "request",
            between: &[],
            success: "ok",
            failure: "refused",
            reasons: ["ap_full", "denied", "unsupported_rates"],
        },
        Step::Auth => Words {
            start: "request",
            between: &["challenge"],
            success: "accept",
            failure: "reject",
            reasons: ["bad_password", "unknown_user", "certificate_expired"],
        },
        Step::Dhcp => Words {
            start: "discover",
            between: &["offer", "request"],
            success: "ack",
            failure: "nak",
            reasons: ["no_free_address", "wrong_network", "not_authorised"],
        },
        Step::Dns => Words {
            start: "query",
            between: &[],
            success: "answer",
            failure: "error",
            reasons: ["servfail", "refused", "unreachable"],
        },
    }
}

/// How a session ends that does not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Fails,
    Hangs,
    Leaves,
}

/// A session as it is written.
pub(super) struct Script<'a> {
    dice: &'a mut Dice,
    lines: Vec<Line>,
    truth: Truth,
    now: i64,
    ap: u32,
}

impl<'a> Script<'a> {
    /// Writes a session of a client that begins at `begin`, in ms, at its place in a network of
    /// `aps` access points: what happened, and what is true of it.
    pub(super) fn write(
        dice: &'a mut Dice,
        (place, aps): (Place, u32),
        begin: i64,
    ) -> (Vec<Line>, Truth) {
        let truth = Truth::new(place, EventTime::from_millis(begin));
        let mut script = Self { dice, lines: Vec::new(), truth, now: begin, ap: place.ap };
        match script.dice.below(100) {
            0..=2 => script.has_begun_elsewhere(),
            3..=69 => script.connects(aps),
            70..=83 => script.ends_with(Ending::Fails),
            84..=90 => script.ends_with(Ending::Hangs),
            _ => script.ends_with(Ending::Leaves),
        }
        (script.lines, script.truth)
    }

    /// Time passes: at least 1 ms.
    fn wait(&mut self, (least, most): (u64, u64)) {
        let wait = self.dice.log_uniform(least, most);
        self.now = self.now.saturating_add_unsigned(wait);
    }

    /// The time until an answer: seldom long.
    fn answer_time(&mut self) {
        let range = if self.dice.chance(0.05) { (320, 2_500) } else { (2, 90) };
        self.wait(range);
    }

    fn say(&mut self, step: Step, status: &'static str, reason: Option<&'static str>) {
        self.lines.push(Line { at: self.now, ap: self.ap, step, status, reason });
    }

    /// The client asks for a step, and hears what comes before the answer.
    fn ask(&mut self, step: Step) {
        self.say(step, words(step).start, None);
        let now = self.now;
        if let Some(known) = self.truth.step(step) {
            known.attempts += 1;
            known.start = known.start.or(Some(now));
            (known.result, known.duration) = (Some(StepResult::Open), None);
        }
        for status in words(step).between {
            self.wait((1, 20));
            self.say(step, status, None);
        }
    }

    fn answer(&mut self, step: Step, result: StepResult, reason: Option<&'static str>) {
        self.answer_time();
        let words = words(step);
        let status = if reason.is_some() { words.failure } else { words.success };
        self.say(step, status, reason);
        let now = self.now;
        if let Some(known) = self.truth.step(step) {
            known.result = Some(result);
            known.duration = known.start.map(|start| now.saturating_sub(start));
        }
    }

    fn reason(&mut self, step: Step) -> &'static str {
        let reasons = words(step).reasons;
        reasons.get(self.dice.below(3) as usize).copied().unwrap_or(reasons[0])
    }

    fn refuse(&mut self, step: Step) -> &'static str {
        let reason = self.reason(step);
        self.answer(step, StepResult::Failure, Some(reason));
        reason
    }

    /// The client asks until it goes well.
    fn pass(&mut self, step: Step) {
        while self.dice.chance(0.1) {
            self.ask(step);
            if self.dice.chance(0.5) {
                self.refuse(step);
                self.wait((150, 1_500));
            } else {
                self.wait((1_000, 3_000));
            }
        }
        self.ask(step);
        self.answer(step, StepResult::Success, None);
    }

    /// The steps that this client needs: some know each other already, some have an address.
    fn chain(&mut self) -> Vec<Step> {
        let (no_auth, no_dhcp) = (self.dice.chance(0.1), self.dice.chance(0.05));
        let is_needed = |step: &Step| match step {
            Step::Auth => !no_auth,
            Step::Dhcp => !no_dhcp,
            Step::Assoc | Step::Dns | Step::Disassoc => true,
        };
        Step::CHAIN.into_iter().filter(is_needed).collect()
    }

    fn pass_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.pass(*step);
            self.wait((1, 60));
        }
    }

    /// The client begins anew: what it had reached is gone.
    fn begin_anew(&mut self) {
        self.truth.restarts += 1;
        for step in &mut self.truth.steps {
            (step.result, step.start, step.duration) = (None, None, None);
        }
    }

    /// What comes before the chain, if anything does; returns when its first step was asked for
    /// first.
    fn prelude(&mut self, chain: &[Step]) -> i64 {
        match self.dice.below(20) {
            // The end of what an earlier connection carried: it shows nothing of this one.
            0..=2 => {
                self.pass(Step::Dns);
                self.wait((100, 1_200));
                self.begin_anew();
                self.now
            }
            // A try that ends behind the first step.
            3 => {
                let begun = self.now;
                let last = 1 + self.dice.below(chain.len() as u64 - 1) as usize;
                let (passed, failed) = chain.split_at(last);
                self.pass_all(passed);
                if let Some(step) = failed.first() {
                    self.ask(*step);
                    self.refuse(*step);
                }
                self.wait((300, 2_000));
                self.begin_anew();
                begun
            }
            _ => self.now,
        }
    }

    fn connects(&mut self, aps: u32) {
        let chain = self.chain();
        let begun = self.prelude(&chain);
        for (number, step) in chain.iter().enumerate() {
            if number > 0 {
                self.wait((1, 60));
            }
            self.pass(*step);
        }
        self.truth.time_to_connect = Some(self.now.saturating_sub(begun));
        self.truth.verdict = Verdict::Connected;
        let until = if self.dice.chance(0.04) {
            let minutes = 10 + self.dice.below(30);
            self.now.saturating_add_unsigned(minutes * 60_000)
        } else {
            let seconds = self.dice.below(200);
            self.now.saturating_add_unsigned(seconds * 1_000)
        };
        loop {
            // Silence that no single late record makes too long.
            self.wait((20_000, 80_000));
            if self.now >= until {
                break;
            }
            if aps > 1 && self.dice.chance(0.2) {
                self.roams(aps, &chain);
            } else {
                self.uses_data();
            }
        }
        if self.dice.chance(0.6) {
            self.say(Step::Disassoc, "left", None);
        }
    }

    /// A name is asked for; this is part of the chain as long as the client has not moved.
    fn uses_data(&mut self) {
        let words = words(Step::Dns);
        self.say(Step::Dns, words.start, None);
        self.answer_time();
        self.say(Step::Dns, words.success, None);
        if self.truth.roams == 0
            && let Some(known) = self.truth.step(Step::Dns)
        {
            known.attempts += 1;
        }
    }

    /// The client moves to another access point, and stays connected.
    fn roams(&mut self, aps: u32, chain: &[Step]) {
        self.truth.roams += 1;
        let others = u64::from(aps.saturating_sub(1));
        self.ap = (self.ap + 1 + self.dice.below(others) as u32) % aps;
        let is_refused = self.dice.chance(0.15);
        for step in chain.iter().filter(|step| matches!(step, Step::Assoc | Step::Auth)) {
            let words = words(*step);
            self.say(*step, words.start, None);
            self.answer_time();
            if is_refused && *step == Step::Assoc {
                let reason = self.reason(*step);
                self.say(*step, words.failure, Some(reason));
                self.truth.roam_failures += 1;
                self.wait((150, 1_500));
                self.say(*step, words.start, None);
                self.answer_time();
            }
            self.say(*step, words.success, None);
            self.wait((1, 60));
        }
        self.uses_data();
    }

    fn ends_with(&mut self, ending: Ending) {
        let chain = self.chain();
        self.prelude(&chain);
        let last = self.dice.below(chain.len() as u64) as usize;
        let (passed, rest) = chain.split_at(last);
        let Some(step) = rest.first().copied() else { return };
        self.pass_all(passed);
        match ending {
            Ending::Fails => {
                self.ask(step);
                let mut reason = self.refuse(step);
                while self.dice.chance(0.4) {
                    self.wait((150, 1_500));
                    self.ask(step);
                    reason = self.refuse(step);
                }
                self.truth.verdict = Verdict::Failed(step, reason);
                self.may_leave((200, 60_000));
            }
            Ending::Hangs => {
                self.ask(step);
                while self.dice.chance(0.5) {
                    self.wait((1_000, 5_000));
                    self.ask(step);
                }
                self.truth.verdict = Verdict::Stuck(step);
                self.may_leave((10_000, 60_000));
            }
            Ending::Leaves => match passed.last() {
                Some(reached) if self.dice.chance(0.5) => {
                    self.truth.verdict = Verdict::Abandoned(*reached);
                    self.may_leave((200, 60_000));
                }
                _ => {
                    self.ask(step);
                    self.truth.verdict = Verdict::Abandoned(step);
                    self.wait((20, 900));
                    self.say(Step::Disassoc, "left", None);
                }
            },
        }
    }

    /// The client says that it goes, or it does not.
    fn may_leave(&mut self, after: (u64, u64)) {
        if self.dice.chance(0.5) {
            self.wait(after);
            self.say(Step::Disassoc, "left", None);
        }
    }

    /// A session whose beginning was seen elsewhere.
    fn has_begun_elsewhere(&mut self) {
        self.pass_all(&[Step::Dhcp, Step::Dns]);
        self.may_leave((200, 60_000));
        self.truth.verdict = Verdict::IncompleteStart;
    }
}
