//! Aggregates that the user writes: the public trait, and its form without types.
//!
//! A state lives as the user's own type while it is in use, and as its bytes in a snapshot. Bytes
//! become a state again only where the plan says whose they are.

use crate::time::EventTime;
use crate::value::{Type, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::fmt;

/// An aggregate that the user writes. `docs/custom.md` has an example.
///
/// All functions must be pure. [`CustomAggregate::merge`] must be associative and commutative, with
/// [`CustomAggregate::zero`] as its neutral element, and adding a value must be the same as merging
/// the state of that value alone: only then does a result not depend on batches, firings, rollups
/// and shards; nothing can check that. A state should be bounded: it is kept for each key and
/// window.
pub trait CustomAggregate: fmt::Debug + Send + Sync {
    /// What is kept for a key and window.
    type State: Clone + fmt::Debug + Send + Sync + 'static;

    /// The name in plans and messages; aggregates of one name are taken for the same.
    fn name(&self) -> &str;

    /// Whether it takes values of type `ty`.
    fn accepts(&self, ty: Type) -> bool;

    /// The type of its result over values of type `ty`. Triggers can look at results that are
    /// numbers, truth values or addresses.
    fn result_type(&self, ty: Type) -> Type;

    /// Whether its result is exact.
    fn is_exact(&self) -> bool {
        true
    }

    /// The state that nothing has come into.
    fn zero(&self) -> Self::State;

    /// Takes the value, which is not null, of a record at `time`.
    fn add(&self, state: &mut Self::State, value: &Value, time: EventTime);

    /// Takes all that `part` has taken.
    fn merge(&self, state: &mut Self::State, part: &Self::State);

    /// Whether [`CustomAggregate::subtract`] can take a part out again.
    fn is_subtractable(&self) -> bool {
        false
    }

    /// Takes out all that `part` has taken. Called only if it is subtractable.
    fn subtract(&self, state: &mut Self::State, part: &Self::State) {
        let _ = (state, part);
    }

    /// The result, of the type that it says, or null.
    fn finish(&self, state: &Self::State) -> Value;

    /// The state as bytes, the same for equal states.
    fn encode(&self, state: &Self::State) -> Vec<u8>;

    /// The state of such bytes; `None` if they are none.
    fn decode(&self, bytes: &[u8]) -> Option<Self::State>;
}

type AnyState = Box<dyn Any + Send + Sync>;

/// [`CustomAggregate`] without its type of state. A state of another aggregate is taken for zero:
/// the machines never mix them up.
trait Untyped: fmt::Debug + Send + Sync {
    fn name(&self) -> &str;
    fn accepts(&self, ty: Type) -> bool;
    fn result_type(&self, ty: Type) -> Type;
    fn is_exact(&self) -> bool;
    fn is_subtractable(&self) -> bool;
    fn zero(&self) -> AnyState;
    fn copy(&self, state: &AnyState) -> AnyState;
    fn add(&self, state: &mut AnyState, value: &Value, time: EventTime);
    fn merge(&self, state: &mut AnyState, part: &AnyState);
    fn subtract(&self, state: &mut AnyState, part: &AnyState);
    fn finish(&self, state: &AnyState) -> Value;
    fn encode(&self, state: &AnyState) -> Vec<u8>;
    fn decode(&self, bytes: &[u8]) -> Option<AnyState>;
}

impl<A: CustomAggregate> Untyped for A {
    fn name(&self) -> &str {
        CustomAggregate::name(self)
    }

    fn accepts(&self, ty: Type) -> bool {
        CustomAggregate::accepts(self, ty)
    }

    fn result_type(&self, ty: Type) -> Type {
        CustomAggregate::result_type(self, ty)
    }

    fn is_exact(&self) -> bool {
        CustomAggregate::is_exact(self)
    }

    fn is_subtractable(&self) -> bool {
        CustomAggregate::is_subtractable(self)
    }

    fn zero(&self) -> AnyState {
        Box::new(CustomAggregate::zero(self))
    }

    fn copy(&self, state: &AnyState) -> AnyState {
        let state = state.downcast_ref::<A::State>();
        Box::new(state.cloned().unwrap_or_else(|| CustomAggregate::zero(self)))
    }

    fn add(&self, state: &mut AnyState, value: &Value, time: EventTime) {
        if let Some(state) = state.downcast_mut() {
            CustomAggregate::add(self, state, value, time);
        }
    }

    fn merge(&self, state: &mut AnyState, part: &AnyState) {
        if let (Some(state), Some(part)) = (state.downcast_mut(), part.downcast_ref()) {
            CustomAggregate::merge(self, state, part);
        }
    }

    fn subtract(&self, state: &mut AnyState, part: &AnyState) {
        if let (Some(state), Some(part)) = (state.downcast_mut(), part.downcast_ref()) {
            CustomAggregate::subtract(self, state, part);
        }
    }

    fn finish(&self, state: &AnyState) -> Value {
        let state = state.downcast_ref();
        state.map_or(Value::Null, |state| CustomAggregate::finish(self, state))
    }

    fn encode(&self, state: &AnyState) -> Vec<u8> {
        let state = state.downcast_ref();
        state.map_or_else(Vec::new, |state| CustomAggregate::encode(self, state))
    }

    fn decode(&self, bytes: &[u8]) -> Option<AnyState> {
        Some(Box::new(CustomAggregate::decode(self, bytes)?))
    }
}

/// An aggregate of the user's as part of a plan.
#[derive(Debug, Clone, Copy)]
pub struct CustomFunction(&'static dyn Untyped);

impl CustomFunction {
    /// `aggregate` as part of a plan.
    pub const fn new(aggregate: &'static impl CustomAggregate) -> Self {
        Self(aggregate)
    }

    /// See [`CustomAggregate::name`].
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// See [`CustomAggregate::accepts`].
    pub fn accepts(self, ty: Type) -> bool {
        self.0.accepts(ty)
    }

    /// See [`CustomAggregate::result_type`].
    pub fn result_type(self, ty: Type) -> Type {
        self.0.result_type(ty)
    }

    /// See [`CustomAggregate::is_exact`].
    pub fn is_exact(self) -> bool {
        self.0.is_exact()
    }

    /// See [`CustomAggregate::is_subtractable`].
    pub fn is_subtractable(self) -> bool {
        self.0.is_subtractable()
    }

    /// The result of these values, one added after the other.
    pub(crate) fn finish_all(self, values: Vec<(EventTime, &Value)>) -> Value {
        let mut state = self.0.zero();
        for (time, value) in values {
            self.0.add(&mut state, value, time);
        }
        self.0.finish(&state)
    }
}

impl PartialEq for CustomFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for CustomFunction {}

impl std::hash::Hash for CustomFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// What an aggregate of the user's keeps.
pub struct CustomState(Kept);

enum Kept {
    /// In use.
    State(CustomFunction, AnyState),
    /// Read from a snapshot, and not yet given to its aggregate.
    Bytes(Vec<u8>),
}

impl CustomState {
    pub(super) fn zero(function: CustomFunction) -> Self {
        Self(Kept::State(function, function.0.zero()))
    }

    pub(super) fn add(&mut self, value: &Value, time: EventTime) {
        if let Kept::State(function, state) = &mut self.0 {
            function.0.add(state, value, time);
        }
    }

    pub(super) fn merge(&mut self, part: &Self) {
        if let (Kept::State(function, state), Kept::State(_, part)) = (&mut self.0, &part.0) {
            function.0.merge(state, part);
        }
    }

    /// Takes `part` out; says whether that could be done.
    pub(super) fn subtract(&mut self, part: &Self) -> bool {
        match (&mut self.0, &part.0) {
            (Kept::State(function, state), Kept::State(_, part)) if function.is_subtractable() => {
                function.0.subtract(state, part);
                true
            }
            (Kept::State(..) | Kept::Bytes(_), _) => false,
        }
    }

    /// What is left of nothing when this is taken out; `None` if that cannot be done.
    pub(super) fn negated(&self) -> Option<Self> {
        let Kept::State(function, _) = &self.0 else { return None };
        let mut zero = Self::zero(*function);
        zero.subtract(self).then_some(zero)
    }

    pub(super) fn finish(&self) -> Value {
        match &self.0 {
            Kept::State(function, state) => function.0.finish(state),
            Kept::Bytes(_) => Value::Null,
        }
    }

    /// Gives what was read to `function`; says whether it can use it.
    pub(super) fn give_to(&mut self, function: CustomFunction) -> bool {
        match &self.0 {
            Kept::State(own, _) => *own == function,
            Kept::Bytes(bytes) => match function.0.decode(bytes) {
                Some(state) => {
                    self.0 = Kept::State(function, state);
                    true
                }
                None => false,
            },
        }
    }

    fn encoded(&self) -> Vec<u8> {
        match &self.0 {
            Kept::State(function, state) => function.0.encode(state),
            Kept::Bytes(bytes) => bytes.clone(),
        }
    }

    /// Bytes that it takes: those of its encoding, which is as good a guess as any.
    pub(super) fn bytes(&self) -> usize {
        self.encoded().len()
    }
}

impl Clone for CustomState {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Kept::State(function, state) => Kept::State(*function, function.0.copy(state)),
            Kept::Bytes(bytes) => Kept::Bytes(bytes.clone()),
        })
    }
}

impl PartialEq for CustomState {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl Eq for CustomState {}

impl fmt::Debug for CustomState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kept::State(function, _) => {
                f.debug_tuple(function.name()).field(&self.finish()).finish()
            }
            Kept::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
        }
    }
}

impl Serialize for CustomState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.encoded().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CustomState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Kept::Bytes(Vec::deserialize(deserializer)?)))
    }
}
