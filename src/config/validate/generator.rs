//! Sources of invented flows.

use crate::config::pipeline::SourceKind;
use crate::config::raw::source::RawGenerator;
use crate::config::raw::text_or_table::RawStart;
use nilometer_connectors::generator::{GeneratorSettings, Start};
use nilometer_model::time::EventTime;

/// The source; `None` if a setting is wrong, which has been reported.
pub(crate) fn source(raw: &RawGenerator) -> Option<SourceKind> {
    // Bounds of the raw types are those of the settings: no conversion fails.
    let narrow = |number: i64| u32::try_from(number).ok();
    let wide = |number: i64| u64::try_from(number).ok();
    let sampling = raw.sampling.value()?.iter().filter_map(|interval| narrow(interval.value.0));
    Some(SourceKind::Generator(GeneratorSettings {
        seed: wide(raw.seed.value()?.0)?,
        records: raw.records.value().and_then(|records| wide(records.0)),
        rate: wide(raw.rate.value()?.0)?,
        start: match *raw.start.value()? {
            RawStart::Now => Start::Now,
            RawStart::At(millis) => Start::At(EventTime::from_millis(millis)),
        },
        exporters: narrow(raw.exporters.value()?.0)?,
        interfaces: narrow(raw.interfaces.value()?.0)?,
        hosts: narrow(raw.hosts.value()?.0)?,
        applications: narrow(raw.applications.value()?.0)?,
        dscps: u8::try_from(raw.dscps.value()?.0).ok()?,
        conversations: wide(raw.conversations.value()?.0)?,
        skew: raw.skew.value()?.0,
        disorder: raw.disorder.value()?.0,
        late_share: raw.late_share.value()?.0,
        late_by: raw.late_by.value()?.0,
        duration: raw.duration.value()?.0,
        long_share: raw.long_share.value()?.0,
        long_duration: raw.long_duration.value()?.0,
        sampling: sampling.collect(),
        ipv6_share: raw.ipv6_share.value()?.0,
    }))
}
