//! `nilometer bench kafka` over a broker: small, so that nothing but its figures is asserted.

use crate::broker::Broker;
use crate::place::Place;
use serde_json::Value as Json;

#[test]
fn the_benchmark_reads_what_it_has_written_and_leaves_nothing() {
    let broker = Broker::shared();
    let place = Place::new("");
    let args = ["--records", "3000", "--keys", "200", "--partitions", "3", "--output", "json"];
    let mut command = place.command(&["bench", "kafka", "--brokers", &broker.address]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let formats = report["formats"].as_array().unwrap();
    let names: Vec<_> = formats.iter().map(|format| &format["format"]).collect();
    assert_eq!(names, ["protobuf", "json"]);
    for format in formats {
        for side in ["client", "source", "whole"] {
            assert!(format[side]["records_per_second"].as_f64() > Some(0.0), "{report}");
        }
        let results = &format["results"];
        assert!(results["panes"].as_u64() > Some(1_000), "{report}");
        assert!(results["bytes_per_pane"].as_f64() > Some(50.0), "{report}");
    }
    assert!(!broker.topics().iter().any(|topic| topic.contains("bench")), "{:?}", broker.topics());
}
