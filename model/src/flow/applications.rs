//! The name of a flow's application from its protocol and ports, by a table of rules.
//!
//! The longest match wins: the rule with the narrowest port range; of two as narrow, the one that
//! names the protocol; then the one that stands first. Both ports are looked at and neither goes
//! before the other, so that the two directions of a conversation have one name.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name of an application that nothing names.
pub const UNKNOWN_APPLICATION: &str = "__unknown";

const PORTS: usize = 1 << 16;

/// A table of rules that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationsError {
    /// More rules than the table can number.
    #[error("the table of applications has more than {limit} rules")]
    TooManyRules {
        /// Most rules that it may have.
        limit: usize,
    },
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRule {
    /// IP protocol number; any protocol if absent.
    pub protocol: Option<u8>,
    /// Ports; any, or none at all, if absent.
    pub ports: Option<RangeInclusive<u16>>,
    /// Name of the application.
    pub name: Arc<str>,
}

impl ApplicationRule {
    /// What decides between rules: less wins.
    fn rank(&self) -> (usize, bool) {
        let width = self.ports.as_ref().map_or(PORTS + 1, |ports| {
            usize::from(*ports.end()).saturating_sub(usize::from(*ports.start()))
        });
        (width, self.protocol.is_none())
    }
}

/// The compiled table: one look-up per port.
#[derive(Debug, Clone, Default)]
pub struct Applications {
    /// Names by rank: the best rule first.
    names: Vec<Arc<str>>,
    /// The rules of each protocol that has rules of its own, those of any protocol merged in.
    by_protocol: BTreeMap<u8, ProtocolRules>,
    /// The rules of every other protocol.
    any_protocol: ProtocolRules,
}

/// For each port the place of its best rule in `names`, plus one; 0 is no rule.
#[derive(Debug, Clone, Default)]
struct ProtocolRules {
    by_port: Vec<u16>,
    without_port: u16,
}

impl Applications {
    /// Most rules of a table.
    pub const RULES_MAX: usize = u16::MAX as usize - 1;

    /// The table with these rules, in their order.
    ///
    /// # Errors
    /// There are more than [`Self::RULES_MAX`].
    pub fn new(
        rules: impl IntoIterator<Item = ApplicationRule>,
    ) -> Result<Self, ApplicationsError> {
        let mut rules: Vec<_> = rules.into_iter().take(Self::RULES_MAX + 1).collect();
        if rules.len() > Self::RULES_MAX {
            return Err(ApplicationsError::TooManyRules { limit: Self::RULES_MAX });
        }
        rules.sort_by_key(ApplicationRule::rank);
        let mut table = Self::default();
        for protocol in rules.iter().filter_map(|rule| rule.protocol) {
            table.by_protocol.entry(protocol).or_default();
        }
        for (place, rule) in (1..).zip(&rules) {
            match rule.protocol {
                Some(protocol) => {
                    table.by_protocol.entry(protocol).or_default().add(place, rule);
                }
                None => {
                    table.any_protocol.add(place, rule);
                    table.by_protocol.values_mut().for_each(|own| own.add(place, rule));
                }
            }
        }
        table.names = rules.into_iter().map(|rule| rule.name).collect();
        Ok(table)
    }

    /// The application of a flow with this protocol and these ports, if a rule names it.
    pub fn find(
        &self,
        protocol: Option<u8>,
        src_port: Option<u16>,
        dst_port: Option<u16>,
    ) -> Option<&Arc<str>> {
        let rules =
            protocol.and_then(|own| self.by_protocol.get(&own)).unwrap_or(&self.any_protocol);
        let best = [Some(rules.without_port), rules.at(src_port), rules.at(dst_port)]
            .into_iter()
            .flatten()
            .filter(|place| *place > 0)
            .min()?;
        self.names.get(usize::from(best) - 1)
    }
}

impl ProtocolRules {
    /// Enters a rule behind those already there, which are better.
    fn add(&mut self, place: u16, rule: &ApplicationRule) {
        let Some(ports) = &rule.ports else {
            if self.without_port == 0 {
                self.without_port = place;
            }
            return;
        };
        self.by_port.resize(PORTS, 0);
        let range = usize::from(*ports.start())..=usize::from(*ports.end());
        for slot in self.by_port.get_mut(range).into_iter().flatten() {
            if *slot == 0 {
                *slot = place;
            }
        }
    }

    fn at(&self, port: Option<u16>) -> Option<u16> {
        self.by_port.get(usize::from(port?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(
        protocol: Option<u8>,
        ports: Option<RangeInclusive<u16>>,
        name: &str,
    ) -> ApplicationRule {
        ApplicationRule { protocol, ports, name: name.into() }
    }

    #[test]
    fn the_longest_match_wins() {
        let table = Applications::new([
            rule(None, None, "any"),
            rule(Some(6), Some(0..=1023), "system"),
            rule(None, Some(53..=53), "dns"),
            rule(Some(6), Some(80..=80), "http"),
            rule(Some(6), Some(80..=80), "http again"),
            rule(Some(6), Some(8000..=8100), "web"),
            rule(Some(17), Some(53..=53), "dns over udp"),
            rule(Some(1), None, "icmp"),
        ])
        .unwrap();
        for (protocol, src, dst, expected) in [
            (Some(6), Some(40_000), Some(80), "http"),
            (Some(6), Some(80), Some(40_000), "http"),
            (Some(6), Some(8000), Some(80), "http"),
            (Some(6), Some(8100), Some(9), "web"),
            (Some(6), Some(53), Some(1000), "dns"),
            (Some(6), Some(8101), Some(9), "system"),
            (Some(17), Some(53), None, "dns over udp"),
            (Some(132), Some(53), Some(80), "dns"),
            (None, None, Some(53), "dns"),
            (Some(1), None, None, "icmp"),
            (Some(1), Some(0), Some(2048), "icmp"),
            (Some(6), Some(50_000), Some(50_001), "any"),
            (None, None, None, "any"),
        ] {
            let got = table.find(protocol, src, dst).map(|name| &**name);
            assert_eq!(got, Some(expected), "{protocol:?} {src:?} {dst:?}");
        }
    }

    #[test]
    fn a_table_may_name_nothing() {
        let empty = Applications::default();
        assert_eq!(empty.find(Some(6), Some(80), Some(80)), None);
        let backwards = Applications::new([rule(Some(6), Some(RangeInclusive::new(9, 3)), "x")]);
        assert_eq!(backwards.unwrap().find(Some(6), Some(5), None), None);
    }

    #[test]
    fn a_table_has_a_limit() {
        let rules = (0..=Applications::RULES_MAX).map(|_| rule(Some(6), Some(1..=1), "x"));
        assert_eq!(
            Applications::new(rules).unwrap_err().to_string(),
            "the table of applications has more than 65534 rules"
        );
    }
}
