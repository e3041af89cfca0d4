//! How the keys and values of one table lie in an image: numbers take few bytes, texts are written
//! as texts, and whatever depends on this process (numbers of cells, groups and symbols) is left
//! out.

use super::bytes::{Input, put_bytes, put_number, put_signed, put_wide, text_of};
use super::{ImageError, other_plan};
use crate::aggregate::{AggregateLayout, Values, ValuesRef};
use crate::key::KeyLayout;
use crate::pane::Timing;
use crate::symbol::{Symbol, Symbols};
use crate::time::{EventTime, Window};
use crate::value::{Datum, Type, Value};

/// Bits of an address that came as IPv4.
const IPV4: u128 = 0xffff << 32;

/// Kinds of a value: the byte before it.
mod kind {
    pub(crate) const NULL: u8 = 0;
    pub(crate) const FALSE: u8 = 1;
    pub(crate) const TRUE: u8 = 2;
    /// A number that is not negative.
    pub(crate) const INT: u8 = 3;
    /// The distance of a negative number from -1.
    pub(crate) const NEGATIVE: u8 = 4;
    pub(crate) const FLOAT: u8 = 5;
    pub(crate) const TEXT: u8 = 6;
    pub(crate) const OBJECT: u8 = 7;
    /// The four bytes of an address.
    pub(crate) const IPV4: u8 = 8;
    /// The sixteen bytes of an address.
    pub(crate) const IPV6: u8 = 9;
}

/// What the entries of a table are written with.
pub(crate) struct Form<'a> {
    /// Of the key that entries are kept by.
    pub(crate) key: &'a KeyLayout,
    /// Whether a window is part of an entry's name.
    pub(crate) has_window: bool,
    aggregates: &'a AggregateLayout,
    pub(crate) symbols: &'a Symbols,
    /// Words of the accumulators that name a text, ascending.
    text_words: Vec<usize>,
}

impl<'a> Form<'a> {
    pub(crate) fn new(
        (key, has_window): (&'a KeyLayout, bool),
        aggregates: &'a AggregateLayout,
        symbols: &'a Symbols,
    ) -> Self {
        let text_words = aggregates.symbol_words().collect();
        Self { key, has_window, aggregates, symbols, text_words }
    }

    pub(crate) fn aggregates(&self) -> &'a AggregateLayout {
        self.aggregates
    }

    /// Words of a name.
    pub(super) fn name_words(&self) -> usize {
        self.key.words() + if self.has_window { 2 } else { 0 }
    }

    /// Appends the name of an entry: its packed key and, where it is named by one, its window.
    pub(crate) fn put_name(&self, out: &mut Vec<u8>, name: &[u64]) {
        self.put_key(out, self.key, name);
        if let (true, [.., start, end]) = (self.has_window, name) {
            let bounds = [*start, *end].map(|bound| EventTime::from_millis(bound as i64));
            put_window(out, Window::new(bounds[0], bounds[1]));
        }
    }

    /// What [`Form::put_name`] has written: the packed key, and the window.
    pub(crate) fn name(
        &self,
        input: &mut Input<'_>,
    ) -> Result<(Vec<u64>, Option<Window>), ImageError> {
        let key = self.key(input, self.key)?;
        let window = if self.has_window { Some(window(input)?) } else { None };
        Ok((key, window))
    }

    /// Appends a packed key of `layout`.
    pub(crate) fn put_key(&self, out: &mut Vec<u8>, layout: &KeyLayout, key: &[u64]) {
        for field in 0..layout.fields().len() {
            self.put_datum(out, layout.read(key, field));
        }
    }

    /// A packed key of `layout`.
    pub(crate) fn key(
        &self,
        input: &mut Input<'_>,
        layout: &KeyLayout,
    ) -> Result<Vec<u64>, ImageError> {
        let fields = layout.fields().iter();
        let data = fields.map(|field| self.datum(input, (field.ty, &field.name)));
        let data = data.collect::<Result<Vec<_>, _>>()?;
        let mut key = vec![0; layout.words()];
        layout.write(&data, &mut key);
        Ok(key)
    }

    pub(crate) fn put_datum(&self, out: &mut Vec<u8>, datum: Datum) {
        match datum {
            Datum::Null => out.push(kind::NULL),
            Datum::Bool(truth) => out.push(if truth { kind::TRUE } else { kind::FALSE }),
            Datum::Int(number) if number < 0 => {
                out.push(kind::NEGATIVE);
                put_wide(out, !number as u128);
            }
            Datum::Int(number) => {
                out.push(kind::INT);
                match u64::try_from(number) {
                    Ok(number) => put_number(out, number),
                    Err(_) => put_wide(out, number as u128),
                }
            }
            Datum::Float(number) => {
                out.push(kind::FLOAT);
                out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Datum::Text(symbol) => {
                out.push(kind::TEXT);
                put_bytes(out, self.symbols.text(symbol).as_bytes());
            }
            Datum::Object(symbol) => {
                out.push(kind::OBJECT);
                put_bytes(out, self.symbols.text(symbol).as_bytes());
            }
            Datum::Ip(bits) if bits >> 32 << 32 == IPV4 => {
                out.push(kind::IPV4);
                out.extend_from_slice(&(bits as u32).to_be_bytes());
            }
            Datum::Ip(bits) => {
                out.push(kind::IPV6);
                out.extend_from_slice(&bits.to_be_bytes());
            }
        }
    }

    /// A value that must be of type `ty`; `name` is what it is of.
    pub(crate) fn datum(
        &self,
        input: &mut Input<'_>,
        (ty, name): (Type, &str),
    ) -> Result<Datum, ImageError> {
        let too_large = || ImageError::Damaged("a number is too large");
        let datum = match input.byte()? {
            kind::NULL => Datum::Null,
            kind::FALSE => Datum::Bool(false),
            kind::TRUE => Datum::Bool(true),
            kind::INT => Datum::Int(i128::try_from(input.wide()?).map_err(|_| too_large())?),
            kind::NEGATIVE => Datum::Int(!i128::try_from(input.wide()?).map_err(|_| too_large())?),
            kind::FLOAT => Datum::Float(f64::from_bits(u64::from_le_bytes(input.array()?))),
            kind::TEXT => Datum::Text(self.symbols.intern(input.text()?)?),
            kind::OBJECT => Datum::Object(self.symbols.intern(input.text()?)?),
            kind::IPV4 => Datum::Ip(IPV4 | u128::from(u32::from_be_bytes(input.array()?))),
            kind::IPV6 => Datum::Ip(u128::from_be_bytes(input.array()?)),
            _ => return Err(ImageError::Damaged("a value is of no known kind")),
        };
        if !crate::row::fits(datum, ty) {
            return Err(other_plan(&format!("the type of `{name}`")));
        }
        Ok(datum)
    }

    /// Appends accumulator words.
    pub(crate) fn put_words(&self, out: &mut Vec<u8>, words: &[u64]) {
        if self.text_words.is_empty() {
            words.iter().for_each(|word| put_number(out, *word));
            return;
        }
        for (at, word) in words.iter().enumerate() {
            match word.checked_sub(1) {
                Some(number) if self.text_words.contains(&at) => {
                    let text = self.symbols.text(Symbol::from_number(number as u32));
                    put_number(out, text.len() as u64 + 1);
                    out.extend_from_slice(text.as_bytes());
                }
                Some(_) | None => put_number(out, *word),
            }
        }
    }

    /// What [`Form::put_words`] has written, into words of the stage's layout.
    pub(crate) fn words(&self, input: &mut Input<'_>, words: &mut [u64]) -> Result<(), ImageError> {
        for (at, word) in words.iter_mut().enumerate() {
            *word = input.number()?;
            if let Some(length) = word.checked_sub(1)
                && self.text_words.contains(&at)
            {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let symbol = self.symbols.intern(text_of(input.take(length)?)?)?;
                *word = u64::from(symbol.number()) + 1;
            }
        }
        Ok(())
    }

    /// As [`Form::words`], into new ones.
    pub(crate) fn new_words(&self, input: &mut Input<'_>) -> Result<Vec<u64>, ImageError> {
        let mut words = vec![0; self.aggregates().words()];
        self.words(input, &mut words)?;
        Ok(words)
    }

    /// The results of values, with their names.
    pub(super) fn results(&self, values: ValuesRef<'_>) -> Vec<(Box<str>, Value)> {
        let names = self.aggregates.accumulators().iter().map(|known| known.name.clone());
        names
            .enumerate()
            .map(|(index, name)| (name, self.aggregates.result(values, index, self.symbols)))
            .collect()
    }

    /// The values of a packed key of `layout`, with their names.
    pub(super) fn named(&self, layout: &KeyLayout, key: &[u64]) -> Vec<(Box<str>, Value)> {
        let names = layout.fields().iter().map(|field| field.name.clone());
        names.zip(layout.values(key, self.symbols)).collect()
    }

    /// Appends values, or that there are none.
    pub(crate) fn put_values(&self, out: &mut Vec<u8>, values: &Values) -> Result<(), ImageError> {
        out.push(u8::from(!values.is_absent()));
        self.put_words(out, &values.words);
        if !values.sides.is_empty() {
            put_bytes(out, &postcard::to_stdvec(&values.sides)?);
        }
        Ok(())
    }

    /// What [`Form::put_values`] has written.
    pub(crate) fn values(&self, input: &mut Input<'_>) -> Result<Values, ImageError> {
        if input.byte()? == 0 {
            return Ok(Values::default());
        }
        let words = self.new_words(input)?;
        let mut sides = Vec::new();
        if self.aggregates().sides() > 0 {
            sides = postcard::from_bytes(input.bytes()?)?;
            if !self.aggregates().give_sides(&mut sides) {
                return Err(other_plan("an aggregate"));
            }
        }
        Ok(Values { words, sides })
    }
}

/// Appends a window.
pub(crate) fn put_window(out: &mut Vec<u8>, window: Window) {
    let (start, end) = (window.start().as_millis(), window.end().as_millis());
    put_signed(out, start);
    put_number(out, end.wrapping_sub(start) as u64);
}

/// What [`put_window`] has written.
pub(crate) fn window(input: &mut Input<'_>) -> Result<Window, ImageError> {
    let start = input.signed()?;
    let end = start.wrapping_add(input.number()? as i64);
    if end < start {
        return Err(ImageError::Damaged("a window ends before it starts"));
    }
    Ok(Window::new(EventTime::from_millis(start), EventTime::from_millis(end)))
}

/// Appends the timing of a pane that was sent, if one was.
pub(crate) fn put_sent(out: &mut Vec<u8>, sent: Option<Timing>) {
    out.push(Timing::code(sent));
}

/// What [`put_sent`] has written.
pub(crate) fn sent(input: &mut Input<'_>) -> Result<Option<Timing>, ImageError> {
    Timing::of_code(input.byte()?).ok_or(ImageError::Damaged("a timing is none"))
}
