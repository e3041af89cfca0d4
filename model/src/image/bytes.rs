//! Numbers and texts of an image as bytes and back. What is read is never trusted: bytes that end
//! early, or are no number or no text, are an error.

use super::ImageError;

/// Appends a number, seven bits a byte, the low ones first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number with a sign: small ones of either sign take few bytes.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63) as u64);
}

/// Appends a wide number, as [`put_number`] does.
pub(crate) fn put_wide(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a wide number with a sign.
pub(crate) fn put_wide_signed(out: &mut Vec<u8>, number: i128) {
    put_wide(out, (number << 1 ^ number >> 127) as u128);
}

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a byte of those flags that are set.
pub(crate) fn put_flags(out: &mut Vec<u8>, flags: &[(bool, u8)]) {
    out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
}

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

const CUT_OFF: ImageError = ImageError::Damaged("it is cut off");

impl<'a> Input<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ImageError> {
        let (first, rest) = self.0.split_first().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next so many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], ImageError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// What [`put_number`] has written.
    pub(crate) fn number(&mut self) -> Result<u64, ImageError> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Ok(u64::from(byte));
        }
        let rest = self.wide_behind(u128::from(byte & 0x7f))?;
        u64::try_from(rest).map_err(|_| ImageError::Damaged("a number is too large"))
    }

    /// What [`put_number`] has written of a number of 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, ImageError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| ImageError::Damaged("a number is too large"))
    }

    /// What [`put_signed`] has written.
    pub(crate) fn signed(&mut self) -> Result<i64, ImageError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// What [`put_wide`] has written.
    pub(crate) fn wide(&mut self) -> Result<u128, ImageError> {
        let byte = self.byte()?;
        if byte < 0x80 { Ok(u128::from(byte)) } else { self.wide_behind(u128::from(byte & 0x7f)) }
    }

    fn wide_behind(&mut self, mut number: u128) -> Result<u128, ImageError> {
        for shift in (7..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ImageError::Damaged("a number is too large"))
    }

    /// What [`put_wide_signed`] has written.
    pub(crate) fn wide_signed(&mut self) -> Result<i128, ImageError> {
        let number = self.wide()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }

    /// What [`put_bytes`] has written.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], ImageError> {
        let length = usize::try_from(self.number()?).map_err(|_| CUT_OFF)?;
        self.take(length)
    }

    /// As [`Input::bytes`], of a text.
    pub(crate) fn text(&mut self) -> Result<&'a str, ImageError> {
        text_of(self.bytes()?)
    }
}

pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, ImageError> {
    std::str::from_utf8(bytes).map_err(|_| ImageError::Damaged("a text is none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(
            number in any::<u64>(), shift in 0..64_u32, signed in any::<i64>(),
            wide in any::<u128>(), narrow in 0..128_u32, wide_signed in any::<i128>(),
        ) {
            let (number, wide) = (number >> shift, wide >> narrow);
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_signed(&mut out, signed >> shift);
            put_wide(&mut out, wide);
            put_wide_signed(&mut out, wide_signed >> narrow);
            put_wide(&mut out, u128::from(number));
            let mut input = Input(&out);
            prop_assert_eq!(input.number().unwrap(), number);
            prop_assert_eq!(input.signed().unwrap(), signed >> shift);
            prop_assert_eq!(input.wide().unwrap(), wide);
            prop_assert_eq!(input.wide_signed().unwrap(), wide_signed >> narrow);
            prop_assert_eq!(input.number().unwrap(), number);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn nothing_is_read_behind_the_end(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut input = Input(&bytes);
            let mut reads = 0;
            while input.bytes().is_ok() && input.wide().is_ok() && input.array::<3>().is_ok() {
                reads += 1;
            }
            prop_assert!(reads <= bytes.len());
        }
    }

    #[test]
    fn numbers_beyond_the_type_are_refused() {
        let mut out = Vec::new();
        put_wide(&mut out, u128::from(u64::MAX) + 1);
        assert!(Input(&out).number().is_err());
        assert!(Input(&[0xff; 30]).wide().is_err());
        assert!(Input(&[0x80; 30]).wide().is_err());
        put_number(&mut out, 1 << 40);
        assert!(Input(&out).small().is_err());
    }
}
