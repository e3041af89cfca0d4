//! Times of flows as exporters give them, as milliseconds since the Unix epoch.
//!
//! Exporters count uptime in 32 bits of milliseconds, which wrap every 49.7 days; what is near in
//! the circle is taken as near in time.

/// The instant at which the uptime was `switched`, given that it was `uptime` at `header_ms`: the
/// one within 24.8 days of the header.
pub fn from_uptime(header_ms: i64, uptime: u32, switched: u32) -> i64 {
    let ago = uptime.wrapping_sub(switched) as i32;
    header_ms.saturating_sub(i64::from(ago))
}

/// The instant at which the uptime was `switched` for an exporter that booted at `boot_ms`: of all
/// turns of the 32-bit counter, the one that is nearest to `near_ms`.
pub fn from_boot(boot_ms: i64, switched: u32, near_ms: i64) -> i64 {
    // What the counter shows at `near_ms`.
    let now = near_ms.wrapping_sub(boot_ms) as u32;
    from_uptime(near_ms, now, switched)
}

/// Milliseconds of an NTP timestamp (RFC 5905: seconds since 1900, and their 32-bit fraction), as
/// IPFIX uses it for microseconds and nanoseconds; rounded down.
pub fn from_ntp(seconds: u32, fraction: u32) -> i64 {
    const SECONDS_1900_TO_1970: i64 = 2_208_988_800;
    let millis = (u64::from(fraction) * 1_000) >> 32;
    (i64::from(seconds) - SECONDS_1900_TO_1970) * 1_000 + millis as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes_are_near_their_header() {
        const DAY: i64 = 86_400_000;
        for (header, uptime, switched, expected) in [
            (1_000_000, 5_000, 4_000, 999_000),
            (1_000_000, 5_000, 5_000, 1_000_000),
            // A flow that ended after the header was stamped.
            (1_000_000, 5_000, 6_000, 1_001_000),
            // The counter wrapped between the flow and its header.
            (1_000_000, 500, u32::MAX - 499, 999_000),
            (0, 0, 1 << 31, i64::from(i32::MIN).abs()),
            (30 * DAY, 0, 0, 30 * DAY),
        ] {
            assert_eq!(from_uptime(header, uptime, switched), expected, "{uptime} {switched}");
        }
    }

    #[test]
    fn uptimes_of_old_boots_find_their_turn() {
        const TURN: i64 = 1 << 32;
        for turns in [0, 1, 5] {
            let near = 1_000 + turns * TURN + 700_000;
            assert_eq!(from_boot(1_000, 600_000, near), near - 100_000, "{turns} turns");
        }
        // Just before a turn, seen just after it.
        assert_eq!(from_boot(0, u32::MAX, TURN + 10), TURN - 1);
    }

    #[test]
    fn ntp_times_begin_in_1900() {
        assert_eq!(from_ntp(2_208_988_800, 0), 0);
        assert_eq!(from_ntp(2_208_988_801, 1 << 31), 1_500);
        assert_eq!(from_ntp(2_208_988_800, u32::MAX), 999);
        assert_eq!(from_ntp(0, 0), -2_208_988_800_000);
    }
}
