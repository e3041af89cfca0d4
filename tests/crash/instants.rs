//! When a process is killed: at any poll, at the first sight of something that it does to its files,
//! or by itself in the middle of a flush. No clock is asked: what differs from run to run is how long
//! each step takes.

use crate::flush::Flush;
use crate::place::Place;
use nilometer_connectors::generator::Dice;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// What is waited for.
#[derive(Debug, Clone, Copy)]
enum Sight {
    /// Nothing.
    Birth,
    /// It has the state directory for itself, and opens what is there.
    Locked,
    /// It is in a flush, where it kills itself.
    Flush(Flush),
    /// The database is written to, so many times.
    Write(u64),
    /// The epoch is noted beside the database, so many times.
    Promise(u64),
    /// Results come out, so many times.
    Output(u64),
}

impl Sight {
    /// Early ones as often as late ones: how many there are depends on the machine.
    fn flush(call: &'static str, doublings: u64, dice: &mut Dice) -> Self {
        let most = 1 << dice.below(doublings);
        Self::Flush(Flush { call, after: dice.below(most) })
    }
}

/// When a process ends, and how.
#[derive(Debug)]
pub(crate) struct Instant {
    sight: Sight,
    /// Polls behind that.
    polls: u64,
    /// Whether it is told to drain.
    is_gentle: bool,
}

/// What a process was doing when it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It had not yet made what it goes on with of its state.
    Starting,
    /// It waited for the disk to keep what it wrote.
    Flushing,
    /// Either, or anything else.
    Anything,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed(Doing),
    /// It was told to drain, and did.
    Drained,
    Finished,
}

impl Instant {
    /// In a start or in a flush, if that is aimed at.
    pub(crate) fn draw(dice: &mut Dice, is_aimed: bool) -> Self {
        let sight = match (is_aimed, dice.below(5)) {
            (true, 0..2) => Sight::Locked,
            (true, 2) => Sight::flush("fsync", 4, dice),
            (true, _) => Sight::flush("sync_file_range", 8, dice),
            (false, 0) => Sight::Write(1 + dice.below(10)),
            (false, 1) => Sight::Promise(1 + dice.below(2)),
            (false, 2) => Sight::Output(1 + dice.below(2)),
            (false, _) => Sight::Birth,
        };
        let polls = match sight {
            Sight::Birth => dice.below(100_000),
            Sight::Locked => dice.below(10_000),
            Sight::Flush(_) => 0,
            Sight::Write(_) | Sight::Promise(_) | Sight::Output(_) => dice.below(200),
        };
        Self { sight, polls, is_gentle: dice.below(10) == 0 }
    }

    /// What the process needs for it.
    pub(crate) fn environment(&self, place: &Place) -> Vec<(&'static str, String)> {
        match self.sight {
            Sight::Flush(flush) => flush.environment(place, "kill").to_vec(),
            Sight::Birth
            | Sight::Locked
            | Sight::Write(_)
            | Sight::Promise(_)
            | Sight::Output(_) => Vec::new(),
        }
    }

    /// Waits for the instant, and ends the process; or for its end, if that comes before. What it was
    /// doing, if it was killed.
    pub(crate) fn end(&self, place: &Place, child: &mut Child) -> (ExitStatus, Option<Doing>) {
        if let Sight::Flush(_) = self.sight {
            let status = child.wait().unwrap();
            let is_killed = status.signal() == Some(SIGKILL);
            return (status, is_killed.then_some(Doing::Flushing));
        }
        let (mut seen, mut polls) = (Seen::new(self.sight, place, child.id()), self.polls);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status, None);
            }
            if seen.has_come() {
                if polls == 0 {
                    break;
                }
                polls -= 1;
            }
            std::thread::yield_now();
        }
        if self.is_gentle {
            let pid = child.id().to_string();
            // A process that has just ended is not there any more.
            Command::new("kill").args(["-TERM", &pid]).output().unwrap();
        } else {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        let doing = || if is_starting(place) { Doing::Starting } else { Doing::Anything };
        // One that cannot listen yet is killed by the gentle signal, too.
        let is_killed = matches!(status.signal(), Some(SIGKILL | SIGTERM));
        (status, is_killed.then(doing))
    }
}

/// The signal that no process can refuse, and the one that tells it to drain.
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Whether the process that ended last in `place` was in its start: a new state is not yet named, or
/// the copy in which an old one is read, or what is written anew of it, is still there.
fn is_starting(place: &Place) -> bool {
    let is_there = |name: &str| place.path(name).exists();
    is_there("state") && !is_there("state/pipeline")
        || is_there("state/copy")
        || is_there("state/fresh")
}

/// What has been seen so far.
struct Seen {
    paths: Vec<PathBuf>,
    /// What the file must hold; `None` where changes count.
    content: Option<String>,
    /// Size and number of the files when they were looked at last.
    before: Vec<(u64, u64)>,
    /// Changes to wait for. Falls only.
    left: u64,
}

impl Seen {
    fn new(sight: Sight, place: &Place, pid: u32) -> Self {
        let (paths, left) = match sight {
            Sight::Birth | Sight::Flush(_) => (Vec::new(), 0),
            Sight::Locked => (vec!["state/lock"], 1),
            Sight::Write(count) => (vec!["state/epochs/db"], count),
            Sight::Promise(count) => (vec!["state/last"], count),
            Sight::Output(count) => (vec!["killed.ndjson", "killed.csv"], count),
        };
        let content = matches!(sight, Sight::Locked).then(|| format!("{pid}\n"));
        let paths: Vec<_> = paths.into_iter().map(|path| place.path(path)).collect();
        let before = looked_at(&paths);
        Self { paths, content, before, left }
    }

    fn has_come(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        if let Some(content) = &self.content {
            let has_come = fs::read_to_string(&self.paths[0]).is_ok_and(|text| text == *content);
            self.left -= u64::from(has_come);
            return has_come;
        }
        let now = looked_at(&self.paths);
        if now != self.before {
            self.before = now;
            self.left -= 1;
        }
        self.left == 0
    }
}

/// What changes when a file is written to, or another one takes its place.
fn looked_at(paths: &[PathBuf]) -> Vec<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let look = |path: &PathBuf| {
        fs::metadata(path).map_or((0, 0), |metadata| {
            let written = metadata.mtime_nsec().unsigned_abs();
            (metadata.len() ^ written.rotate_left(32), metadata.ino())
        })
    };
    paths.iter().map(look).collect()
}
