//! Whatever is typed, it is a pipeline or a list of mistakes with places inside the text.

use crate::config::{Look, load_text};
use proptest::prelude::*;

const TEXTS: [&str; 3] = [
    include_str!("../../../config/flows.toml"),
    include_str!("../../../config/captures.toml"),
    include_str!("mistakes.txt"),
];

/// What is put into a text: what a slip of the hand makes, and what breaks careless code.
const INSERTS: [&str; 12] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "= ",
    "${",
    "}",
    "é\u{1f30a}",
    "\n[[group]]\n",
    "\0",
    "-9223372036854775808",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn spoilt_texts_give_errors_with_places(
        text in 0..TEXTS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, 0..INSERTS.len()), 1..6),
        set in prop::option::of("[a-z0-9.\"=\\[\\]]{0,12}"),
    ) {
        let mut letters: Vec<char> = TEXTS[text].chars().take(3_000).collect();
        for (at, removed, inserted) in edits {
            let at = at.index(letters.len());
            let end = (at + removed).min(letters.len());
            letters.splice(at..end, INSERTS[inserted].chars());
        }
        let text: String = letters.into_iter().collect();
        let sets: Vec<_> = set.into_iter().collect();
        if let Err(errors) = load_text(("p.toml", &text), &sets, &|_| None) {
            prop_assert!(!errors.problems().is_empty());
            for problem in errors.problems() {
                let length = if problem.place.text == 0 { text.len() } else { sets[0].len() };
                prop_assert!(problem.place.start <= problem.place.end);
                prop_assert!(problem.place.end <= length, "{:?}", problem);
            }
            for look in [Look::Plain, Look::Fancy] {
                prop_assert!(errors.render(look).contains("in the configuration"));
            }
        }
    }
}
