//! When a process is killed: at any poll, or at the first sight of something that it does to its
//! files. No clock is asked: what differs from run to run is how long each step takes.

use crate::place::Place;
use nilometer_connectors::generator::Dice;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// What is waited for.
#[derive(Debug, Clone, Copy)]
enum Sight {
    /// Nothing.
    Birth,
    /// It has the state directory for itself, and opens what is there.
    Locked,
    /// The database is written to, so many times.
    Flush(u64),
    /// The epoch is noted beside the database, so many times.
    Promise(u64),
    /// Results come out, so many times.
    Output(u64),
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

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// It was told to drain, and did.
    Drained,
    Finished,
}

impl Instant {
    /// Half of them fall into the start of a process or into a flush.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let sight = match dice.below(8) {
            0..2 => Sight::Locked,
            2 => Sight::Flush(1 + dice.below(10)),
            3 => Sight::Promise(1 + dice.below(2)),
            4 => Sight::Output(1 + dice.below(2)),
            _ => Sight::Birth,
        };
        let polls = match sight {
            Sight::Birth => dice.below(100_000),
            Sight::Locked => dice.below(10_000),
            Sight::Flush(_) | Sight::Promise(_) | Sight::Output(_) => dice.below(200),
        };
        Self { sight, polls, is_gentle: dice.below(10) == 0 }
    }

    /// Waits for the instant, and ends the process; or for its end, if that comes before.
    pub(crate) fn end(&self, place: &Place, child: &mut Child) -> (ExitStatus, bool) {
        let (mut seen, mut polls) = (Seen::new(self.sight, place, child.id()), self.polls);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status, false);
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
        (child.wait().unwrap(), true)
    }
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
            Sight::Birth => (Vec::new(), 0),
            Sight::Locked => (vec!["state/lock"], 1),
            Sight::Flush(count) => (vec!["state/epochs/db"], count),
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
