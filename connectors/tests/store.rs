//! The contract of stores, on every implementation; and what a directory can be instead of a state.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

use nilometer_connectors::store::database::Database;
use nilometer_connectors::store::memory::Disk;
use nilometer_connectors::store::{Directory, Look, PieceId, Store, StoreError};
use nilometer_model::epoch::Epoch;
use nilometer_model::invariant::EPOCH_2;
use std::fs;
use std::path::Path;

fn epoch(number: u64) -> Epoch {
    Epoch::from_number(number)
}

fn open(path: &Path) -> Result<Database, StoreError> {
    Database::open(Directory::open(path, "p")?, "p")
}

/// Something that holds a store: a way to open it, and to open it as it is after a crash.
trait World {
    fn open(&self) -> Box<dyn Store>;
    fn crash(&self, store: Box<dyn Store>) -> Box<dyn Store>;
}

struct OnDisk(tempfile::TempDir);

impl World for OnDisk {
    fn open(&self) -> Box<dyn Store> {
        Box::new(open(&self.0.path().join("state")).unwrap())
    }

    fn crash(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        // What another process would find now: the files as they are, without anything that
        // closing writes.
        let copy = self.0.path().join("copy");
        copy_all(&self.0.path().join("state"), &copy);
        drop(store);
        fs::remove_dir_all(self.0.path().join("state")).unwrap();
        fs::rename(copy, self.0.path().join("state")).unwrap();
        self.open()
    }
}

struct InMemory(Disk);

impl World for InMemory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.0.open().unwrap())
    }

    fn crash(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        self.0.crash();
        drop(store);
        self.open()
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn worlds() -> Vec<Box<dyn World>> {
    vec![Box::new(OnDisk(tempfile::tempdir().unwrap())), Box::new(InMemory(Disk::default()))]
}

/// Bytes that do not pack well, of any length.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn an_epoch_is_there_as_a_whole_or_not_at_all() {
    for world in worlds() {
        let mut store = world.open();
        assert_eq!((store.last(), store.read("a").unwrap()), (Epoch::NONE, None));
        // Nothing, a byte, a chunk and its neighbours, more rows than a batch takes.
        let parts: Vec<_> = [0, 1, 65_535, 65_536, 65_537, 8_000_000]
            .into_iter()
            .map(|length| (format!("part/{length}"), noise(length, length as u64)))
            .collect();
        for (name, bytes) in &parts {
            store.put(epoch(1), name, bytes).unwrap();
        }
        assert_eq!(store.last(), Epoch::NONE, "{EPOCH_2}");
        store.commit(epoch(1), epoch(1)).unwrap();
        store.put(epoch(2), "part/1", b"other").unwrap();
        let mut store = world.crash(store);
        assert_eq!(store.last(), epoch(1), "{EPOCH_2}");
        for (name, bytes) in &parts {
            assert!(store.read(name).unwrap().unwrap() == *bytes, "{name}");
        }
        assert_eq!(store.read("part").unwrap(), None);
        for number in 2..6 {
            store.put(epoch(number), "part/1", &number.to_le_bytes()).unwrap();
            store.commit(epoch(number), epoch(number)).unwrap();
            assert_eq!(store.last(), epoch(number));
        }
        let store = world.crash(store);
        assert_eq!(store.last(), epoch(5));
        assert_eq!(store.read("part/1").unwrap().unwrap(), 5_u64.to_le_bytes());
        assert_eq!(store.read("part/0").unwrap(), None, "an older epoch is gone");
    }
}

/// A page of one very large key is longer than what the database gives back: it lies in rows that are not.
#[test]
fn large_pages_that_are_deleted_leave_nothing_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("state")).unwrap();
    let pages = store.pages();
    let mut content = noise(400_000, 7);
    let mut live = Vec::new();
    // 48 MB in all, of which 1.2 MB are in use at a time.
    for number in 1..=40_u64 {
        let old = std::mem::take(&mut live);
        for page in 0..3_u8 {
            content[..8].copy_from_slice(&number.to_le_bytes());
            content[8] = page;
            live.push((pages.write(&content).unwrap(), page));
        }
        store.commit(epoch(number), epoch(number)).unwrap();
        for (page, _) in old {
            pages.delete(page).unwrap();
        }
    }
    assert!(store.bytes_on_disk().unwrap() < 16 << 20, "{:?}", store.bytes_on_disk());
    drop((store, pages));
    let pages = open(&directory.path().join("state")).unwrap().pages();
    for (page, number) in live {
        content[8] = number;
        assert!(pages.read(page).unwrap() == content, "{page}");
    }
}

/// Pieces of the log stay as long as one of the last two epochs builds on them.
#[test]
fn the_log_goes_back_to_where_the_last_epoch_begins() {
    let bytes = |of: Epoch, number: u32| noise(70_000, of.number() * 10 + u64::from(number));
    for world in worlds() {
        let mut store = world.open();
        let mut oldest = 1;
        for number in 1..=12 {
            for piece in 0..number as u32 % 3 {
                store.append(epoch(number), &bytes(epoch(number), piece)).unwrap();
            }
            let kept = oldest;
            oldest = if number % 4 == 0 { number - 2 } else { oldest };
            store.commit(epoch(number), epoch(oldest)).unwrap();
            if number % 3 == 0 {
                // Written ahead, and cut off.
                store.append(epoch(number + 1), b"lost").unwrap();
                store = world.crash(store);
            }
            let epochs = (oldest..=number).rev().map(epoch);
            let wanted = epochs.flat_map(|epoch| {
                (0..epoch.number() as u32 % 3).map(move |number| PieceId { epoch, number })
            });
            assert_eq!(store.log(), wanted.collect::<Vec<_>>(), "behind {number}");
            for piece in store.log() {
                assert!(store.piece(piece).unwrap() == bytes(piece.epoch, piece.number));
            }
            // The epoch before may be fallen back to; what is older than both is gone.
            let gone = PieceId { epoch: epoch(kept - 1), number: 0 };
            assert!(matches!(store.piece(gone), Err(StoreError::Damaged { .. })));
        }
    }
}

#[test]
fn notes_become_durable_with_a_commit_or_at_the_end() {
    for world in worlds() {
        let mut store = world.open();
        assert_eq!(store.noted("a").unwrap(), Epoch::NONE);
        store.note("a", epoch(3)).unwrap();
        store.commit(epoch(4), epoch(4)).unwrap();
        let mut store = world.crash(store);
        assert_eq!(store.noted("a").unwrap(), epoch(3));
        store.note("b", epoch(4)).unwrap();
        drop(store);
        let store = world.open();
        assert_eq!((store.noted("a").unwrap(), store.noted("b").unwrap()), (epoch(3), epoch(4)));
    }
}

#[test]
fn a_disk_that_is_full_keeps_what_was_committed() {
    for left in 0..3 {
        let disk = Disk::default();
        let mut store = disk.open().unwrap();
        store.put(epoch(1), "a", b"1").unwrap();
        store.commit(epoch(1), epoch(1)).unwrap();
        disk.fail_after(Some(left));
        let write = |store: &mut Database| {
            store.put(epoch(2), "a", b"2")?;
            store.put(epoch(2), "b", b"2")?;
            store.commit(epoch(2), epoch(2))
        };
        let error = write(&mut store).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        disk.fail_after(None);
        let store = disk.open().unwrap();
        assert_eq!((store.last(), store.read("a").unwrap().unwrap()), (epoch(1), b"1".into()));
    }
}

/// The power goes at any write, and each write that was not flushed has reached the disk or not.
#[test]
fn an_epoch_that_was_torn_is_none() {
    let (mut lost, mut found) = (0, 0);
    for case in 0..98_u64 {
        let disk = Disk::default();
        let bytes = |number: u64| noise(70_000, number);
        let mut store = disk.open().unwrap();
        store.put(epoch(1), "a", &bytes(1)).unwrap();
        store.append(epoch(1), &bytes(9)).unwrap();
        store.commit(epoch(1), epoch(1)).unwrap();
        let mut coins = noise(64, case + 1).into_iter().cycle();
        let mut reaches = || !coins.next().unwrap().is_multiple_of(8);
        let failing = case % 7;
        disk.fail_after(Some(failing));
        let write = |store: &mut Database, number: u64| {
            store.put(epoch(number), "a", &bytes(number))?;
            store.note("n", epoch(number))?;
            store.append(epoch(number), b"piece")?;
            store.commit(epoch(number), epoch(1))
        };
        let written = write(&mut store, 2);
        assert_eq!(written.is_err(), failing < 6);
        disk.tear(&mut reaches);
        drop(store);
        disk.fail_after(None);
        let mut store = disk.open().unwrap();
        // Once its flush has come back it is there, also where its end was not heard of.
        let last = store.last().number();
        assert!(last == 2 || last == 1 && failing < 5, "{EPOCH_2} case {case}");
        if failing == 4 {
            *(if last == 1 { &mut lost } else { &mut found }) += 1;
        }
        assert!(store.read("a").unwrap().unwrap() == bytes(last), "{EPOCH_2} case {case}");
        let first = store.log().pop().unwrap();
        assert_eq!(
            (first, store.log().len() as u64),
            (PieceId { epoch: epoch(1), number: 0 }, last)
        );
        assert!(store.piece(first).unwrap() == bytes(9), "{EPOCH_2} case {case}");
        // What is left of the torn epoch is not taken for one that comes later.
        if last == 1 {
            store.put(epoch(2), "b", b"b").unwrap();
        }
        disk.tear(&mut reaches);
        drop(store);
        let mut store = disk.open().unwrap();
        assert_eq!(store.last().number(), last, "{EPOCH_2} case {case}");
        write(&mut store, last + 1).unwrap();
        assert!(store.read("a").unwrap().unwrap() == bytes(last + 1), "{EPOCH_2} case {case}");
    }
    assert!(lost > 0 && found > 0, "{lost} lost, {found} found");
}

#[test]
fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let held = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    let pid = std::process::id();
    assert!(error.contains(&format!("in use by process {pid}")), "{error}");
    drop(held);
    open(directory.path()).unwrap();
}

/// A state with two epochs.
fn filled(path: &Path) {
    let mut store = open(path).unwrap();
    for number in 1..3 {
        store.put(epoch(number), "a", &noise(300_000, number)).unwrap();
        store.commit(epoch(number), epoch(number)).unwrap();
    }
}

#[test]
fn what_is_not_the_state_of_this_pipeline_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/state");
    filled(&path);
    let refused = |what: &str| {
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("new/state"), "{error}");
    };
    let error = Directory::open(&path, "q").unwrap_err().to_string();
    assert!(error.contains("belongs to pipeline `p`, this is `q`"), "{error}");

    fs::write(path.join("notes.txt"), "mine").unwrap();
    refused("holds `notes.txt` and no state");
    assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "mine");
    fs::remove_file(path.join("notes.txt")).unwrap();

    let owner = fs::read_to_string(path.join("pipeline")).unwrap();
    for (text, what) in [
        ("3\np\n", "has format version 3, this program reads 2"),
        ("", "`pipeline` makes no sense"),
        ("2", "`pipeline` makes no sense"),
    ] {
        fs::write(path.join("pipeline"), text).unwrap();
        refused(what);
    }
    fs::write(path.join("pipeline"), owner).unwrap();

    fs::rename(path.join("epochs"), directory.path().join("epochs")).unwrap();
    refused("`epochs` is missing");
    fs::rename(directory.path().join("epochs"), path.join("epochs")).unwrap();

    let error = open(&path.join("pipeline")).unwrap_err().to_string();
    assert!(error.contains("cannot use the state directory"), "{error}");
    assert_eq!(open(&path).unwrap().last(), epoch(2));
}

#[test]
fn a_state_that_lost_its_name_is_given_to_nobody() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    // Also where what it has promised is lost as well.
    for name in ["pipeline", "last"] {
        fs::remove_file(directory.path().join(name)).unwrap();
        let error = open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("is incomplete: `pipeline` is missing"), "{error}");
        assert!(!directory.path().join("pipeline").exists());
    }
}

#[test]
fn a_directory_that_nobody_came_to_claim_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    fs::remove_file(directory.path().join("pipeline")).unwrap();
    assert_eq!(open(directory.path()).unwrap().last(), Epoch::NONE);
    assert!(directory.path().join("pipeline").exists());
}

#[test]
fn a_summary_of_the_log_that_is_cut_short_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    // What a stopped machine has left of one.
    fs::write(directory.path().join("epochs/snap.0000000000000FFF"), "").unwrap();
    let store = open(directory.path()).unwrap();
    assert_eq!(store.last(), epoch(2));
    assert_eq!(store.read("a").unwrap().unwrap(), noise(300_000, 2));
}

/// Every file below `path`, with its name as it is written from there.
fn files(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            names.extend(files(&entry.path()).iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// sled takes the first damage for the end of its log; none of it may pass for an older state, or
/// for none, in whatever file it is.
#[test]
fn a_damaged_state_is_refused_or_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (sound, path) = (directory.path().join("sound"), directory.path().join("state"));
    filled(&sound);
    // Opening it once more leaves a summary of the log.
    drop(open(&sound).unwrap());
    let names = files(&sound);
    assert!(names.iter().any(|name| name.contains("snap.")), "{names:?}");
    let mut refused = 0;
    for name in &names {
        let bytes = fs::read(sound.join(name)).unwrap();
        let cases = if name == "epochs/db" { 45 } else { 9 };
        for case in 0..cases {
            fs::remove_dir_all(&path).ok();
            copy_all(&sound, &path);
            let mut damaged = bytes.clone();
            let at = case * bytes.len() / cases;
            match case % 3 {
                0 => damaged.truncate(at),
                1 => damaged[at] ^= 1 << (case % 8),
                _ => damaged.iter_mut().skip(at).take(4_096).for_each(|byte| *byte = 0),
            }
            fs::write(path.join(name), damaged).unwrap();
            let read = open(&path).and_then(|store| Ok((store.last(), store.read("a")?)));
            match read {
                Ok((last, content)) => {
                    assert_eq!(last, epoch(2), "{EPOCH_2} {name}, case {case}");
                    assert!(content.unwrap() == noise(300_000, 2), "{name}, case {case}");
                }
                Err(StoreError::Damaged { .. }) => refused += 1,
                Err(StoreError::Version { .. } | StoreError::OtherPipeline { .. })
                    if name == "pipeline" => {}
                Err(other) => panic!("{name}, case {case}: {other}"),
            }
        }
    }
    assert!(refused > 20, "{refused}");
    fs::remove_file(sound.join("last")).unwrap();
    let error = open(&sound).unwrap_err().to_string();
    assert!(error.contains("is incomplete: `last` is missing"), "{error}");
}

/// A start puts the database that it has written anew in the place of the old one by two renames.
#[test]
fn a_start_that_ended_between_two_renames_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut store = open(&state).unwrap();
    store.put(epoch(1), "part", b"content").unwrap();
    store.commit(epoch(1), epoch(1)).unwrap();
    drop(store);
    let (epochs, fresh) = (state.join("epochs"), state.join("fresh"));
    // Behind the first one: the new database is whole, and the old one has gone.
    fs::rename(&epochs, &fresh).unwrap();
    assert_eq!(Look::open(&state).unwrap().store().last(), epoch(1));
    assert!(!epochs.exists(), "a look changes nothing");
    let store = Database::open_proven(Directory::open(&state, "p").unwrap(), "p").unwrap();
    assert_eq!(store.read("part").unwrap().unwrap(), b"content");
    drop(store);
    // Before it: the new one may not be whole.
    fs::create_dir(&fresh).unwrap();
    fs::write(fresh.join("db"), "half").unwrap();
    assert_eq!(open(&state).unwrap().last(), epoch(1));
    assert!(!fresh.exists());
}
