//! Pages beside epochs, on disk and in memory: what an epoch knows of is there after a crash.

#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use nilometer_connectors::store::Store;
use nilometer_connectors::store::memory::Disk;
use nilometer_connectors::store::{Directory, database::Database};
use nilometer_model::cold::{PageError, PageNumber};
use nilometer_model::epoch::Epoch;
use std::collections::BTreeSet;

fn commit(store: &mut dyn Store, number: u64) {
    let epoch = Epoch::from_number(number);
    store.put(epoch, "part", b"x").unwrap();
    store.commit(epoch, epoch).unwrap();
}

#[test]
fn pages_are_read_at_once_and_deleted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let open = || Database::open(Directory::open(&path, "p").unwrap(), "p").unwrap();
    let mut store = open();
    let pages = store.pages();
    let contents: Vec<_> =
        (0..5_u8).map(|number| vec![number; 1_000 * usize::from(number)]).collect();
    let numbers: Vec<_> = contents.iter().map(|content| pages.write(content).unwrap()).collect();
    for (number, content) in numbers.iter().zip(&contents) {
        assert_eq!(pages.read(*number).as_ref(), Ok(content));
    }
    commit(&mut store, 1);
    drop((store, pages));

    let store = open();
    let pages = store.pages();
    assert_eq!(pages.read(numbers[4]).as_ref(), Ok(&contents[4]));
    pages.delete(numbers[0]).unwrap();
    pages.retain(&BTreeSet::from([numbers[4]])).unwrap();
    for number in &numbers[..4] {
        assert_eq!(pages.read(*number), Err(PageError::Damaged { page: *number }));
    }
    let next = pages.write(b"y").unwrap();
    assert!(next > numbers[4], "a number is not used again");
    assert_eq!(pages.read(PageNumber(99)), Err(PageError::Damaged { page: PageNumber(99) }));
}

/// Of what was not flushed any write may be lost, also under a commit row that is there: the pages
/// of an epoch that is found are there all the same.
#[test]
fn an_epoch_that_is_found_has_its_pages() {
    for lost in 0..64_u64 {
        let disk = Disk::default();
        let mut store = disk.open().unwrap();
        commit(&mut store, 1);
        let page = store.pages().write(&[7; 3_000]).unwrap();
        // The disk fails in the middle of the commit; then of what is left each write reaches it or
        // not.
        disk.fail_after(Some(lost % 8));
        let epoch = Epoch::from_number(2);
        let written = store.put(epoch, "part", b"x").and_then(|()| store.commit(epoch, epoch));
        disk.fail_after(None);
        let mut number = 0;
        disk.tear(|| {
            number += 1;
            ((lost / 8) >> (number % 3)) & 1 == 1
        });
        drop(store);
        let store = disk.open().unwrap();
        let is_there = store.pages().read(page).is_ok();
        assert!(store.last() < epoch || is_there, "{lost}: {written:?}");
    }
}
