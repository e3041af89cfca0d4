//! Cold keys against a plain list of them.

use super::*;
use crate::invariant::COLD_1;
use crate::memory::shelves;
use crate::pane::AccumulationMode;
use crate::shard_tests::{Run, grouping};
use proptest::prelude::*;

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

/// Key `number` with what it waits for. Several keys share a print.
fn entry(number: u8, deadline: i64, open: u32) -> Entry {
    let wants = Wants {
        deadline: (deadline > 0).then(|| at(deadline)),
        tick: (deadline % 3 == 0).then(|| ProcessingTime::from_millis(deadline / 3)),
        shares: vec![None, (deadline % 2 == 0).then(|| at(deadline / 2))],
        hold: None,
        open,
    };
    // A few make a page.
    let image = vec![number; 700];
    Entry { print: u32::from(number % 16), group: KeyGroup(u16::from(number % 3)), wants, image }
}

#[derive(Debug, Clone)]
enum Step {
    Shelve(Vec<(u8, i64, u32)>),
    Take(u8),
    Due(i64),
    Tick(i64),
    Share(i64),
    All,
    Sparse,
    Join(u8),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = prop::collection::vec((any::<u8>(), 0_i64..40, 0_u32..3), 0..30);
    let step = prop_oneof![
        3 => keys.prop_map(Step::Shelve),
        4 => any::<u8>().prop_map(Step::Take),
        1 => (0_i64..40).prop_map(Step::Due),
        1 => (0_i64..20).prop_map(Step::Tick),
        1 => (0_i64..20).prop_map(Step::Share),
        1 => Just(Step::All),
        1 => Just(Step::Sparse),
        1 => any::<u8>().prop_map(Step::Join),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

/// What a restart knows again.
fn restarted(cold: &Cold, pages: &Arc<MemoryPages>) -> (Cold, Vec<Wants>) {
    let mut again = Cold::new(pages.clone(), 2);
    let mut seen = Vec::new();
    for known in cold.known() {
        again
            .restore((known.clone(), Epoch::from_number(1)), |wants| seen.push(wants.clone()))
            .unwrap();
    }
    (again, seen)
}

fn take_all_due(
    first: impl Fn(&Cold) -> bool,
    take: impl Fn(&mut Cold) -> Vec<Entry>,
    cold: &mut Cold,
) -> Vec<Entry> {
    let mut taken = Vec::new();
    while first(cold) {
        taken.append(&mut take(cold));
    }
    taken
}

proptest! {
    #[test]
    fn every_key_comes_back_once_as_it_went(steps in steps()) {
        let pages = Arc::new(MemoryPages::default());
        let mut cold = Cold::new(pages.clone(), 2);
        let mut all: Vec<Entry> = Vec::new();
        for step in steps {
            let taken = match step {
                Step::Shelve(keys) => {
                    let mut entries: Vec<_> =
                        keys.into_iter().map(|(key, due, open)| entry(key, due, open)).collect();
                    entries.sort_by_key(|entry| entry.image[0]);
                    entries.dedup_by_key(|entry| entry.image[0]);
                    entries.retain(|new| all.iter().all(|known| known.image != new.image));
                    all.extend(entries.iter().cloned());
                    cold.shelve(entries);
                    continue;
                }
                Step::Take(key) => {
                    let image = vec![key; 700];
                    cold.take(u32::from(key % 16), |known| *known == image).into_iter().collect()
                }
                Step::Due(until) => take_all_due(
                    |cold| cold.next_deadline().is_some_and(|due| due <= at(until)),
                    Cold::take_due,
                    &mut cold,
                ),
                Step::Tick(until) => {
                    let until = ProcessingTime::from_millis(until);
                    take_all_due(
                        |cold| cold.next_tick().is_some_and(|due| due <= until),
                        Cold::take_ticking,
                        &mut cold,
                    )
                }
                Step::Share(until) => take_all_due(
                    |cold| cold.next_share(1).is_some_and(|due| due <= at(until)),
                    |cold| cold.take_shared(1),
                    &mut cold,
                ),
                Step::All => {
                    cold.slots().into_iter().flat_map(|slot| cold.take_all(slot)).collect()
                }
                Step::Sparse => {
                    let entries = cold.take_sparse();
                    cold.shelve(entries);
                    continue;
                }
                Step::Join(key) => {
                    let mut entries: Vec<_> = cold
                        .take(u32::from(key % 16), |_| true)
                        .into_iter()
                        .collect();
                    cold.join(&mut entries);
                    cold.shelve(entries);
                    continue;
                }
                Step::Restart => {
                    let (again, mut seen) = restarted(&cold, &pages);
                    let mut wanted: Vec<_> = all.iter().map(|entry| entry.wants.clone()).collect();
                    let by_all = |wants: &Wants| (wants.deadline, wants.open);
                    seen.sort_by_key(by_all);
                    wanted.sort_by_key(by_all);
                    prop_assert_eq!(seen, wanted);
                    cold = again;
                    continue;
                }
            };
            // Others may come with those that are due.
            let is_due = |entry: &Entry| match &step {
                Step::Shelve(_) | Step::Sparse | Step::Join(_) | Step::Restart => false,
                Step::Take(key) => entry.image[0] == *key,
                Step::Due(until) => entry.wants.deadline.is_some_and(|due| due <= at(*until)),
                Step::Tick(until) => {
                    entry.wants.tick.is_some_and(|due| due.as_millis() <= *until)
                }
                Step::Share(until) => entry.wants.shares[1].is_some_and(|due| due <= at(*until)),
                Step::All => true,
            };
            let known = all.len();
            for entry in &taken {
                let place = all.iter().position(|known| known == entry);
                prop_assert!(place.is_some(), "{} {:?}", COLD_1, step);
                all.remove(place.unwrap());
            }
            prop_assert!(!all.iter().any(is_due), "{:?} leaves {:?}", step, all);
            let is_alone = matches!(step, Step::Take(_));
            prop_assert!(!is_alone || known <= all.len() + 1);
            prop_assert_eq!(cold.failure(), None);
        }
        prop_assert_eq!(cold.keys(), all.len());
        // Each is seen where it lies, by its print and in its group, and stays there.
        for key in 0..=u8::MAX {
            let entry = entry(key, 0, 0);
            let known = usize::from(all.iter().any(|known| known.image == entry.image));
            let by_print = cold.look(entry.print, |image| *image == entry.image).unwrap();
            let in_group = cold.look_through(entry.group, |image| *image == entry.image).unwrap();
            prop_assert_eq!((by_print.len(), in_group.0.len(), in_group.1), (known, known, 0));
        }
        prop_assert_eq!(cold.keys(), all.len());
        let open: u32 = all.iter().map(|entry| entry.wants.open).sum();
        prop_assert_eq!(cold.open_windows(), open as usize);
        // What is not needed any more is told, and the rest is there.
        for page in cold.known() {
            pages.read(page.number).unwrap();
        }
        for slot in cold.slots() {
            cold.take_all(slot);
        }
        prop_assert!(cold.is_empty() && cold.page_bytes() == 0 && cold.known().next().is_none());
        prop_assert_eq!((cold.next_deadline(), cold.next_tick(), cold.next_share(1)), (None, None, None));
    }

    #[test]
    fn a_page_that_was_cut_short_is_never_taken(keys in 1_u8..9, cut in any::<prop::sample::Index>()) {
        let mut draft = Draft::default();
        for key in 0..keys {
            draft.push(&entry(key, i64::from(key), 1));
        }
        let bytes = draft.finish().bytes().to_vec();
        let cut = bytes[..cut.index(bytes.len())].to_vec();
        let found = Content::of(PageNumber(7), cut);
        prop_assert_eq!(found.err(), Some(PageError::Damaged { page: PageNumber(7) }));
        let live = vec![(1 << keys) - 1];
        let known = KnownPage { number: PageNumber(7), group: KeyGroup(1), live };
        prop_assert!(Content::of(PageNumber(7), bytes).unwrap().check(&known).is_ok());
    }
}

#[test]
fn pages_hold_keys_of_one_group_that_are_due_together_and_go_with_their_last_key() {
    let pages = Arc::new(MemoryPages::default());
    let mut cold = Cold::new(pages.clone(), 2);
    let keys = (0..30).map(|key| entry(key, 1 + 40 * i64::from(key % 2), 1)).collect();
    cold.shelve(keys);
    // Five of 700 bytes fill a page: ten keys of each group, five of them early.
    assert_eq!((pages.count(), cold.keys(), cold.open_windows()), (6, 30, 30));
    assert!(cold.page_bytes() > 21_000 && cold.memory() < 4_000, "{}", cold.memory());
    assert_eq!(cold.next_deadline(), Some(at(1)));
    for _ in 0..3 {
        assert_eq!(cold.take_due().len(), 5);
    }
    assert_eq!(cold.next_deadline(), Some(at(41)));
    let gone = cold.take_gone();
    assert_eq!((gone.len(), cold.known().count(), cold.take_gone().len()), (3, 3, 0));
    for page in gone {
        pages.delete(page).unwrap();
    }
    // A page that the store has lost.
    pages.retain(&BTreeSet::new()).unwrap();
    assert_eq!(cold.take_due(), []);
    assert!(cold.failure().is_some_and(|error| error.to_string().contains("is damaged")));
    assert_eq!(cold.take(3, |_| true), None, "nothing is found in a state that is none");
}

/// A page whose first key has come back is due when the next one of it is, and comes in its turn.
#[test]
fn pages_come_in_the_order_of_what_is_left_in_them() {
    let mut cold = Cold::new(Arc::new(MemoryPages::default()), 2);
    cold.shelve(vec![entry(3, 3, 0), entry(6, 80, 0)]);
    cold.shelve(vec![entry(1, 5, 0)]);
    assert!(cold.take(3, |_| true).is_some());
    let mut deadlines = Vec::new();
    while !cold.is_empty() {
        deadlines.extend(cold.take_due().into_iter().map(|entry| entry.wants.deadline));
    }
    assert_eq!(deadlines, [5, 80].map(|deadline| Some(at(deadline))));
}

/// A key of a group, small enough that a page takes a hundred.
fn small(number: u32, group: u16, wants: Wants) -> Entry {
    Entry { print: number, group: KeyGroup(group), wants, image: number.to_le_bytes().repeat(8) }
}

#[test]
fn what_pages_wait_for_is_counted_as_memory() {
    let memory = |wants: &Wants| {
        let mut cold = Cold::new(Arc::new(MemoryPages::default()), wants.shares.len());
        cold.shelve((0..500).map(|key| small(key.into(), key, wants.clone())).collect());
        assert_eq!(cold.slots().len(), 500, "a page for each group");
        let taken = cold.memory();
        for slot in cold.slots() {
            cold.take_all(slot);
        }
        assert_eq!(cold.take_gone().len(), 500);
        assert!(cold.memory() < 100, "nothing is known any more: {}", cold.memory());
        taken
    };
    let nothing = memory(&Wants::default());
    // An instant and a page in an ordered set each, and the instant in the page.
    let deadline = Some(at(1));
    for wants in [
        Wants { deadline, ..Wants::default() },
        Wants { tick: Some(ProcessingTime::from_millis(1)), ..Wants::default() },
        Wants { shares: vec![deadline], ..Wants::default() },
        Wants { shares: vec![deadline; 3], ..Wants::default() },
    ] {
        let [single, shares] = [1, wants.shares.len().max(1)].map(|count| count * 500 * 16);
        let more = memory(&wants) - nothing;
        assert!(more >= shares + single / 2, "{more} bytes of {wants:?}");
    }
}

#[test]
fn keys_that_leave_a_few_at_a_time_come_to_lie_in_few_pages() {
    let pages = Arc::new(MemoryPages::default());
    let mut cold = Cold::new(pages.clone(), 0);
    let mut numbers = 0..;
    for _ in 0..100 {
        let leaving = (0..4).flat_map(|group| [group, group]);
        let mut leaving: Vec<_> = leaving
            .zip(numbers.by_ref())
            .map(|(group, number)| small(number, group, Wants::default()))
            .collect();
        cold.join(&mut leaving);
        cold.shelve(leaving);
    }
    // Of 200 keys of each group about 90 fill a page, and half of them end the joining.
    assert_eq!(cold.keys(), 800);
    assert!(cold.slots().len() <= 4 * 5, "{} pages", cold.slots().len());
    for page in cold.take_gone() {
        pages.delete(page).unwrap();
    }
    assert_eq!(pages.count(), cold.slots().len(), "what was joined is gone");
}

/// A shard of so many keys within a tenth of what they take, which is less than knowing of all of them
/// does, in rounds of a thousand records.
fn tight(keys: u32) -> Run {
    let mut sums = grouping("sums", &["a"], AccumulationMode::Discarding);
    sums.window = crate::window::WindowFn::Fixed {
        size: crate::time::Span::from_millis(1_000),
        offset: 0,
        phase: crate::window::Phase::Aligned,
    };
    let mut run = Run::new(vec![sums]);
    run.shard.keep_within(Some(keys as usize * 7), Arc::new(MemoryPages::default())).unwrap();
    ask(&mut run, 0..keys);
    run
}

/// A record for each of these keys.
fn ask(run: &mut Run, keys: std::ops::Range<u32>) {
    let records: Vec<_> = keys.map(|key| (1, [key, 0, 0], 1)).collect();
    records.chunks(1_000).for_each(|records| assert!(run.records(records).is_empty()));
}

#[test]
fn keys_leave_group_by_group_so_that_pages_are_full() {
    let mut run = tight(20_000);
    for _ in 0..2 {
        let memory = run.shard.memory().unwrap();
        assert!(memory.cold_keys > 19_000, "{memory:?}");
        let shelves = run.shard.machines.iter().flat_map(shelves);
        let pages: usize = shelves.map(|(_, shelf)| shelf.cold.slots().len()).sum();
        // Of each of 256 groups some 75 keys, of which some 70 fill a page.
        assert!(pages < 2 * 256 + 256 / 2, "{pages} pages of {memory:?}");
        ask(&mut run, 0..20_000);
    }
}

#[test]
fn keys_that_are_in_use_stay_however_many_are_not() {
    let mut run = tight(20_000);
    ask(&mut run, 0..200);
    let before = run.shard.memory().unwrap();
    assert!(before.bytes > before.budget.unwrap(), "knowing of the others takes more: {before:?}");
    for _ in 0..50 {
        ask(&mut run, 0..200);
    }
    assert_eq!(run.shard.memory().unwrap().came, before.came);
}
