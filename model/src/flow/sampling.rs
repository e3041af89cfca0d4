//! Sampling: how much a sampled amount stands for.
//!
//! Exact: a double is taken as the rational number that it is, and the product is rounded down
//! once, in integers. Nothing here rounds twice or wraps.

/// The largest scaled amount; more than this is malformed.
pub const SCALED_MAX: u128 = 1 << 100;

/// Whether `interval` is a sampling interval: finite and above zero.
pub fn is_valid_interval(interval: f64) -> bool {
    interval.is_finite() && interval > 0.0
}

/// `floor(amount x interval)`, or `None` where that is over [`SCALED_MAX`].
///
/// An `interval` that is no interval (see [`is_valid_interval`]) counts as 1.
pub fn scale(amount: u64, interval: f64) -> Option<u128> {
    if interval == 1.0 || !is_valid_interval(interval) {
        return Some(u128::from(amount));
    }
    let (mantissa, exponent) = parts(interval);
    // At most 64 + 53 bits.
    let product = u128::from(amount) * u128::from(mantissa);
    let scaled = match u32::try_from(exponent) {
        // A left shift that pushes bits out shows in the leading zeros.
        Ok(left) if product == 0 || left < product.leading_zeros() => {
            product.checked_shl(left).unwrap_or(0)
        }
        Ok(_) => return None,
        // Shifted out entirely, the amount is below one.
        Err(_) => product.checked_shr(exponent.unsigned_abs()).unwrap_or(0),
    };
    (scaled <= SCALED_MAX).then_some(scaled)
}

/// `value = mantissa x 2^exponent`, for a finite positive double.
fn parts(value: f64) -> (u64, i32) {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    // The sign bit of a positive number is zero, so this is the exponent field alone.
    let biased = (bits >> FRACTION_BITS) as i32;
    if biased == 0 { (fraction, -1074) } else { (fraction | 1 << FRACTION_BITS, biased - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_scale_exactly() {
        const TWO_63: u64 = 1 << 63;
        for (amount, interval, expected) in [
            (0, 1e300, Some(0)),
            (7, 1.0, Some(7)),
            (100, 10.0, Some(1_000)),
            (3, 0.5, Some(1)),
            (1, 0.999_999_999, Some(0)),
            // 0.1 as a double is a little above one tenth, 0.3 a little below three tenths.
            (10, 0.1, Some(1)),
            (10, 0.3, Some(2)),
            (u64::MAX, 1.0, Some(u128::from(u64::MAX))),
            (TWO_63, 4_096.0, Some(1 << 75)),
            // 2^53 + 1 bytes: a double would lose the last one.
            ((1 << 53) + 1, 3.0, Some(3 * ((1 << 53) + 1))),
            (1 << 47, 9_007_199_254_740_992.0, Some(1 << 100)),
            ((1 << 47) + 1, 9_007_199_254_740_992.0, None),
            (1, f64::MAX, None),
            (u64::MAX, f64::MIN_POSITIVE, Some(0)),
            (u64::MAX, 5e-324, Some(0)),
        ] {
            assert_eq!(scale(amount, interval), expected, "{amount} x {interval}");
        }
    }

    #[test]
    fn what_is_no_interval_counts_as_one() {
        for interval in [0.0, -0.0, -3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!is_valid_interval(interval), "{interval}");
            assert_eq!(scale(5, interval), Some(5), "{interval}");
        }
    }

    proptest! {
        #[test]
        fn whole_intervals_multiply(amount in 0u64..1 << 40, interval in 1u32..) {
            let scaled = scale(amount, f64::from(interval));
            prop_assert_eq!(scaled, Some(u128::from(amount) * u128::from(interval)));
        }

        #[test]
        fn dyadic_fractions_round_down(amount: u64, numerator in 1u32.., shift in 0u32..32) {
            let interval = f64::from(numerator) / f64::from(shift).exp2();
            let expected = (u128::from(amount) * u128::from(numerator)) >> shift;
            prop_assert_eq!(scale(amount, interval), Some(expected));
        }
    }
}
