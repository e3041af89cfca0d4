//! What the process has used: processor time and memory, as the operating system counts them.

use std::path::PathBuf;
use std::time::Duration;

/// Processor time of all threads of this process so far; `None` where the system does not say.
pub(super) fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // Fields 14 and 15 of the line, user and system time, in hundredths of a second.
    Some(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// Processor time so far of the thread of this process that is called `name`; `None` where there is none,
/// or the system does not say.
pub(super) fn thread_time(name: &str) -> Option<Duration> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let is_it = |thread: &PathBuf| {
        let known = std::fs::read_to_string(thread.join("comm"));
        known.is_ok_and(|known| known.trim_end() == name)
    };
    let thread = threads.filter_map(|thread| Some(thread.ok()?.path())).find(is_it)?;
    let used = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    used.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Bytes of memory that are resident; `None` where the system does not say.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1_024)
}
