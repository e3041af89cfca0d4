//! The planner on the eight groupings of flows: how often records are read, and what is said of
//! groupings that cannot be derived.

use nilometer::config;
use std::path::Path;

const EIGHT: [&str; 8] = [
    "EXPORTER_INTERFACE",
    "EXPORTER_INTERFACE_TOS",
    "EXPORTER_INTERFACE_TOS_CONVERSATION",
    "EXPORTER_INTERFACE_CONVERSATION",
    "EXPORTER_INTERFACE_TOS_APPLICATION",
    "EXPORTER_INTERFACE_APPLICATION",
    "EXPORTER_INTERFACE_TOS_HOST",
    "EXPORTER_INTERFACE_HOST",
];

#[test]
fn the_eight_groupings_read_records_at_most_three_times() {
    for file in ["config/flows.toml", "config/nephron.toml", "config/demo.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let pipeline = config::load(&path, &[]).unwrap();
        for grouping in EIGHT {
            assert!(pipeline.plan.stage(grouping).is_some(), "{file}: {grouping}");
        }
        let reads = pipeline.plan.record_reads();
        assert!((1..=3).contains(&reads), "{file} reads records {reads} times");
        // Every stage says why it reads what it reads.
        for stage in &pipeline.plan.stages {
            assert!(!stage.reason.is_empty(), "{file}: {}", stage.name);
            assert!(stage.rejected.iter().all(|other| !other.reason.is_empty()));
        }
    }
}

#[test]
fn without_the_cascade_every_grouping_reads_records() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/flows.toml");
    let pipeline = config::load(&path, &["pipeline.cascade=false".to_owned()]).unwrap();
    assert_eq!(pipeline.plan.record_reads(), pipeline.job.groupings.len());
}
