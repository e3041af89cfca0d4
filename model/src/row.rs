//! Records as rows of machine words: only the fields that the plan reads, in fixed slots.
//!
//! A row is its null bits (one per slot), then the slots in order. A batch keeps rows, event times
//! and positions side by side, so that a batch of any size is three allocations. Nothing here
//! allocates per record.
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the row")]

use crate::symbol::Symbol;
use crate::time::EventTime;
use crate::value::{Datum, Type};
use std::sync::Arc;

/// A named, typed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name, unique in its layout.
    pub name: Box<str>,
    /// Type of its values.
    pub ty: Type,
}

impl Field {
    /// A field.
    pub fn new(name: &str, ty: Type) -> Self {
        Self { name: name.into(), ty }
    }
}

/// Where a field lies in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Number of the slot: its null bit.
    pub index: u16,
    /// First word.
    pub word: u16,
    /// Type.
    pub ty: Type,
}

/// The slots of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowLayout {
    fields: Vec<Field>,
    slots: Vec<Slot>,
    null_words: usize,
    words: usize,
}

impl RowLayout {
    /// Most fields that a row may have.
    pub const FIELDS_MAX: usize = 256;

    /// The layout of `fields`, in their order; fields beyond [`Self::FIELDS_MAX`] are left out.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Self {
        let fields: Vec<_> = fields.into_iter().take(Self::FIELDS_MAX).collect();
        let null_words = fields.len().div_ceil(64);
        let mut words = null_words;
        let mut slots = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            // At most 256 fields of two words: both numbers fit.
            slots.push(Slot { index: index as u16, word: words as u16, ty: field.ty });
            words += field.ty.words();
        }
        Self { fields, slots, null_words, words }
    }

    /// The slot of the field called `name`.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        let index = self.fields.iter().position(|field| &*field.name == name)?;
        self.slots.get(index).copied()
    }

    /// All slots, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// All fields, in the order of their slots.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Words of one row, null bits included.
    pub fn words(&self) -> usize {
        self.words
    }
}

/// Reads the value in `slot` of a row.
pub fn read(row: &[u64], slot: Slot) -> Datum {
    if is_null(row, slot.index) {
        return Datum::Null;
    }
    let at = usize::from(slot.word);
    let high = if slot.ty.words() == 2 { row[at + 1] } else { 0 };
    datum_of([row[at], high], slot.ty)
}

/// The value of type `ty` in two words, as [`words_of`] gives them for all but null.
pub fn datum_of([word, high]: [u64; 2], ty: Type) -> Datum {
    match ty {
        Type::Bool => Datum::Bool(word != 0),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Datum::Int(i128::from(word)),
        Type::I64 => Datum::Int(i128::from(word as i64)),
        Type::F64 => Datum::Float(f64::from_bits(word)),
        Type::Text => Datum::Text(Symbol::from_number(word as u32)),
        Type::Object => Datum::Object(Symbol::from_number(word as u32)),
        Type::Big => Datum::Int(wide(word, high) as i128),
        Type::Ip => Datum::Ip(wide(word, high)),
    }
}

/// Whether slot number `index` of the row holds no value.
pub fn is_null(row: &[u64], index: u16) -> bool {
    row[usize::from(index >> 6)] & (1 << (index & 63)) != 0
}

/// The 128 bits of two words, the low one first.
pub const fn wide(low: u64, high: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

/// The two words of 128 bits, the low one first.
pub const fn split(bits: u128) -> [u64; 2] {
    [bits as u64, (bits >> 64) as u64]
}

/// The words of one value; null and one-word types leave the second word zero. A number is cut to
/// the width of its slot by the caller's check, see [`fits`].
pub fn words_of(datum: Datum) -> [u64; 2] {
    match datum {
        Datum::Null => [0, 0],
        Datum::Bool(truth) => [u64::from(truth), 0],
        Datum::Int(number) => split(number as u128),
        Datum::Float(number) => [number.to_bits(), 0],
        Datum::Text(symbol) | Datum::Object(symbol) => [u64::from(symbol.number()), 0],
        Datum::Ip(bits) => split(bits),
    }
}

/// Whether `datum` may lie in a slot of type `ty`: null may, and a number that is in range.
pub fn fits(datum: Datum, ty: Type) -> bool {
    match datum {
        Datum::Null => true,
        Datum::Bool(_) => ty == Type::Bool,
        Datum::Int(number) => {
            ty.integer_range().is_some_and(|(low, high)| low <= number && number <= high)
        }
        Datum::Float(_) => ty == Type::F64,
        Datum::Text(_) => ty == Type::Text,
        Datum::Object(_) => ty == Type::Object,
        Datum::Ip(_) => ty == Type::Ip,
    }
}

/// Where a record stands in its input: what "resume after it" means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Source partition, counted over all sources of the pipeline.
    pub partition: u32,
    /// Number of the record in its partition.
    pub offset: u64,
}

/// Records of one layout, in arrival order.
#[derive(Debug, Clone)]
pub struct RowBatch {
    layout: Arc<RowLayout>,
    words: Vec<u64>,
    times: Vec<EventTime>,
    positions: Vec<Position>,
}

impl RowBatch {
    /// An empty batch.
    pub fn new(layout: Arc<RowLayout>) -> Self {
        Self { layout, words: Vec::new(), times: Vec::new(), positions: Vec::new() }
    }

    /// An empty batch with room for `records` records.
    pub fn with_capacity(layout: Arc<RowLayout>, records: usize) -> Self {
        Self {
            words: Vec::with_capacity(records.saturating_mul(layout.words)),
            times: Vec::with_capacity(records),
            positions: Vec::with_capacity(records),
            layout,
        }
    }

    /// The layout of its rows.
    pub fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Bytes that its records take.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8 + self.times.len() * 8 + self.positions.len() * 16
    }

    /// Removes all records, keeps the room.
    pub fn clear(&mut self) {
        self.words.clear();
        self.times.clear();
        self.positions.clear();
    }

    /// Appends a record whose slots are all null, and returns the writer of its slots.
    pub fn push(&mut self, time: EventTime, position: Position) -> RowWriter<'_> {
        let start = self.words.len();
        self.words.resize(start + self.layout.words, 0);
        self.times.push(time);
        self.positions.push(position);
        let mut row = RowWriter { row: &mut self.words[start..] };
        row.clear(self.layout.slots.len());
        row
    }

    /// Appends a copy of a row of the same layout.
    pub fn push_row(&mut self, row: &[u64], time: EventTime, position: Position) {
        debug_assert_eq!(row.len(), self.layout.words, "rows of one batch have one layout");
        self.words.extend_from_slice(row);
        self.times.push(time);
        self.positions.push(position);
    }

    /// Takes back the last record, if there is one.
    pub fn pop(&mut self) {
        if self.times.pop().is_some() {
            self.positions.pop();
            self.words.truncate(self.words.len().saturating_sub(self.layout.words));
        }
    }

    /// Keeps the records for whose index `keeps` is true, in their order; `keeps` is asked once
    /// for each, in ascending order.
    pub fn retain(&mut self, mut keeps: impl FnMut(usize) -> bool) {
        let words = self.layout.words;
        let mut kept = 0;
        for index in 0..self.len() {
            if !keeps(index) {
                continue;
            }
            if kept != index {
                self.words.copy_within(index * words..(index + 1) * words, kept * words);
                self.times[kept] = self.times[index];
                self.positions[kept] = self.positions[index];
            }
            kept += 1;
        }
        self.words.truncate(kept * words);
        self.times.truncate(kept);
        self.positions.truncate(kept);
    }

    /// The words of record `index`, which must be below [`Self::len`].
    pub fn row(&self, index: usize) -> &[u64] {
        &self.words[index * self.layout.words..(index + 1) * self.layout.words]
    }

    /// The writer of record `index`, which must be below [`Self::len`].
    pub fn row_mut(&mut self, index: usize) -> RowWriter<'_> {
        let words = self.layout.words;
        RowWriter { row: &mut self.words[index * words..(index + 1) * words] }
    }

    /// The event time of record `index`, which must be below [`Self::len`].
    pub fn time(&self, index: usize) -> EventTime {
        self.times[index]
    }

    /// Changes the event time of record `index`, which must be below [`Self::len`].
    pub fn set_time(&mut self, index: usize, time: EventTime) {
        self.times[index] = time;
    }

    /// The event times, in arrival order.
    pub fn times(&self) -> &[EventTime] {
        &self.times
    }

    /// The position of record `index`, which must be below [`Self::len`].
    pub fn position(&self, index: usize) -> Position {
        self.positions[index]
    }
}

/// Writes the slots of one row.
#[derive(Debug)]
pub struct RowWriter<'a> {
    row: &'a mut [u64],
}

impl RowWriter<'_> {
    fn clear(&mut self, slots: usize) {
        for word in 0..slots.div_ceil(64) {
            self.row[word] = u64::MAX;
        }
    }

    /// Writes `datum` into `slot`; null where it does not fit the slot's type (callers that owe
    /// the user a reason ask [`fits`] first).
    pub fn set(&mut self, slot: Slot, datum: Datum) {
        let null_word = usize::from(slot.index >> 6);
        let null_bit = 1 << (slot.index & 63);
        if datum == Datum::Null || !fits(datum, slot.ty) {
            self.row[null_word] |= null_bit;
            // A null slot is all zero: keys are packed without looking at it.
            let at = usize::from(slot.word);
            self.row[at..at + slot.ty.words()].fill(0);
            return;
        }
        self.row[null_word] &= !null_bit;
        let [low, high] = words_of(datum);
        self.row[usize::from(slot.word)] = low;
        if slot.ty.words() == 2 {
            self.row[usize::from(slot.word) + 1] = high;
        }
    }

    /// Writes a one-word value that is known to fit `slot` (an integer in range, a symbol's
    /// number, a truth value): the fast way of a decoder.
    pub fn set_word(&mut self, slot: Slot, word: u64) {
        self.row[usize::from(slot.index >> 6)] &= !(1 << (slot.index & 63));
        self.row[usize::from(slot.word)] = word;
    }

    /// The words written so far.
    pub fn words(&self) -> &[u64] {
        self.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_values_of_every_type_and_nulls() {
        let layout =
            Arc::new(RowLayout::new(Type::ALL.iter().map(|ty| Field::new(ty.name(), *ty))));
        let data = [
            Datum::Bool(true),
            Datum::Int(255),
            Datum::Int(65_535),
            Datum::Int(4_294_967_295),
            Datum::Int(i128::from(u64::MAX)),
            Datum::Int(i128::from(i64::MIN)),
            Datum::Int(i128::MIN),
            Datum::Float(-0.5),
            Datum::Text(Symbol::from_number(7)),
            Datum::Ip(u128::MAX - 1),
            Datum::Object(Symbol::from_number(9)),
        ];
        let mut batch = RowBatch::new(layout.clone());
        let position = Position { partition: 1, offset: 9 };
        let mut row = batch.push(EventTime::from_millis(-5), position);
        for (slot, datum) in layout.slots().iter().zip(data) {
            assert_eq!(read(row.words(), *slot), Datum::Null);
            row.set(*slot, datum);
        }
        batch.push(EventTime::MIN, position);
        for (slot, datum) in layout.slots().iter().zip(data) {
            assert_eq!(read(batch.row(0), *slot), datum);
            assert_eq!(read(batch.row(1), *slot), Datum::Null);
        }
        assert_eq!((batch.time(0).as_millis(), batch.position(0)), (-5, position));
        batch.pop();
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn numbers_out_of_range_do_not_fit() {
        for (number, ty, expected) in [
            (256, Type::U8, false),
            (-1, Type::U64, false),
            (i128::from(i64::MAX) + 1, Type::I64, false),
            (i128::from(u64::MAX), Type::U64, true),
            (0, Type::F64, false),
        ] {
            assert_eq!(fits(Datum::Int(number), ty), expected, "{number} {ty}");
        }
    }

    #[test]
    fn retaining_keeps_order_and_moves_all_parts() {
        let layout =
            Arc::new(RowLayout::new([Field::new("n", Type::U8), Field::new("b", Type::Big)]));
        let slots = layout.slots().to_vec();
        for keep in 0_u32..1 << 5 {
            let mut batch = RowBatch::new(layout.clone());
            for n in 0..5 {
                let position = Position { partition: 0, offset: n };
                let mut row = batch.push(EventTime::from_millis(n as i64), position);
                row.set(slots[0], Datum::Int(n.into()));
                row.set(slots[1], Datum::Int(-i128::from(n)));
            }
            batch.retain(|index| keep & 1 << index != 0);
            assert_eq!(batch.len(), keep.count_ones() as usize);
            for (index, n) in (0..5_u64).filter(|n| keep & 1 << n != 0).enumerate() {
                assert_eq!(read(batch.row(index), slots[0]), Datum::Int(n.into()));
                assert_eq!(read(batch.row(index), slots[1]), Datum::Int(-i128::from(n)));
                assert_eq!(batch.time(index).as_millis(), n as i64);
                assert_eq!(batch.position(index).offset, n);
            }
        }
    }

    #[test]
    fn layouts_of_many_fields_have_more_null_words() {
        let layout =
            Arc::new(RowLayout::new((0..70).map(|n| Field::new(&n.to_string(), Type::U8))));
        let mut batch = RowBatch::new(layout.clone());
        let last = layout.slot("69").unwrap();
        batch.push(EventTime::MIN, Position::default()).set(last, Datum::Int(3));
        assert_eq!(read(batch.row(0), last), Datum::Int(3));
        assert_eq!(read(batch.row(0), layout.slot("64").unwrap()), Datum::Null);
        assert_eq!(layout.words(), 72);
    }
}
