//! Which session a record is of, and under which name it is told: when one that was told becomes two,
//! and at the ends of time.

use super::machine_tests::wifi;
use super::scene::Scene;
use super::spec::{Release, SequenceSpec};
use crate::time::Span;

#[test]
fn a_record_that_was_told_may_turn_out_to_be_of_the_next_session() {
    let mut scene = Scene::new(SequenceSpec { release: Release::Eager, ..wifi() }, 0);
    assert_eq!(
        scene.records("0 a assoc ok; 4 a dns ok").unwrap(),
        ["early a@0 #0 in_progress dns [0,4] 2+0late+0copies -"]
    );
    // It had ended in between.
    assert_eq!(
        scene.records("2 a bye").unwrap(),
        [
            "minus a@0 #0 in_progress dns [0,4] 2+0late+0copies -",
            "early a@0 #1 in_progress assoc [0,2] 2+0late+0copies -",
        ]
    );
    assert_eq!(
        scene.watermark(3),
        [
            "minus a@0 #1 in_progress assoc [0,2] 2+0late+0copies -",
            "final a@0 #2 abandoned assoc [0,2] 2+0late+0copies terminal",
            "early a@4 #0 in_progress dns [4,4] 1+0late+0copies -",
        ]
    );
    scene.end();
}

#[test]
fn the_name_goes_with_the_record_that_it_was_given_for() {
    let mut scene = Scene::new(SequenceSpec { release: Release::Eager, ..wifi() }, 0);
    scene.records("0 a assoc ok; 4 a auth ok").unwrap();
    // One in front: still the session that was told.
    let lines = scene.records("-5 a assoc bad").unwrap();
    assert_eq!(lines[1], "early a@0 #1 in_progress auth [-5,4] 3+0late+0copies -");
    // But it was one of its own.
    assert_eq!(
        scene.records("-2 a bye").unwrap(),
        [
            "minus a@0 #1 in_progress auth [-5,4] 3+0late+0copies -",
            "early a@0 #2 in_progress auth [0,4] 2+0late+0copies -",
        ]
    );
    assert_eq!(
        scene.watermark(-1),
        ["final a@-5 #0 failed assoc [-5,-2] 2+0late+0copies terminal"]
    );
    scene.end();
}

#[test]
fn a_session_at_the_first_instant_is_one_like_any_other() {
    let spec = SequenceSpec { release: Release::WatermarkPlus(Span::from_millis(14)), ..wifi() };
    let first = i64::MIN;
    let mut scene = Scene::new(spec, 500);
    scene.records(&format!("{first} a assoc ok; {first} b assoc ok; {first} b bye -")).unwrap();
    for behind in [11, 14] {
        assert!(scene.watermark(first + behind).is_empty(), "{behind}");
    }
    // It is over once the instant of its end is let in, the other one after a silence of 100 ms.
    let lines = scene.watermark(first + 15);
    assert!(lines[0].starts_with("final b@-inf #0 abandoned assoc"), "{lines:?}");
    assert!(scene.watermark(first + 113).is_empty());
    let lines = scene.watermark(first + 114);
    assert!(lines[0].starts_with("final a@-inf #0 abandoned assoc"), "{lines:?}");
    // Both may be corrected.
    let lines = scene.records(&format!("{first} b auth bad; {} a auth bad", first + 7)).unwrap();
    let begins = ["minus b@-inf", "correction b@-inf #1 failed auth", "minus a@-inf"];
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{lines:?}");
    assert!(lines[3].starts_with("correction a@-inf #1 failed auth"), "{lines:?}");
    scene.end();
}

#[test]
fn records_at_the_end_of_time_are_as_far_apart_as_they_are() {
    let last = i64::MAX;
    let mut scene = Scene::new(wifi(), 0);
    scene.records(&format!("{} a assoc ok; {last} a auth ok", last - 99)).unwrap();
    scene.records(&format!("{} b assoc ok; {last} b auth ok", last - 100)).unwrap();
    assert!(scene.watermark(last - 1).is_empty());
    let lines = scene.end();
    let of =
        |key: &str| lines.iter().filter(|line| line.contains(&format!("final {key}@"))).count();
    assert_eq!((of("a"), of("b")), (1, 2), "{lines:?}");
}
