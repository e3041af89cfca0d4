//! What holds a source or a sink up: told, from any thread, by whoever talks to the world outside, and
//! seen by whoever asks how a run is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who is held up in a run, and by what. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Plights(Arc<Mutex<BTreeMap<Arc<str>, Arc<str>>>>);

impl Plights {
    /// The part of `who`, such as a source with its name.
    pub fn of(&self, who: &str) -> Plight {
        Plight { who: who.into(), all: self.clone() }
    }

    /// Who is held up now, and by what.
    pub fn now(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether one is held up, and by what.
#[derive(Debug, Clone)]
pub struct Plight {
    who: Arc<str>,
    all: Plights,
}

impl Default for Plight {
    /// Of somebody whom nobody asks for.
    fn default() -> Self {
        Plights::default().of("")
    }
}

impl Plight {
    /// It is held up by this.
    pub fn is(&self, why: &str) {
        self.all.lock().insert(self.who.clone(), why.into());
    }

    /// It is not, or no more.
    pub fn is_over(&self) {
        self.all.lock().remove(&self.who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thing_said_of_each_counts_until_it_is_over() {
        let all = Plights::default();
        let (source, sink) = (all.of("source `in`"), all.clone().of("sink `out`"));
        source.is("away");
        sink.is("away");
        source.is("not allowed");
        let now = |who: &str| all.now().get(who).map(|why| why.to_string());
        assert_eq!(
            (now("source `in`"), now("sink `out`")),
            (Some("not allowed".into()), Some("away".into()))
        );
        source.is_over();
        source.is_over();
        assert_eq!((now("source `in`"), now("sink `out`")), (None, Some("away".into())));
    }
}
