//! Decides when a reader pauses and when it goes on: with hysteresis, since a pause throws away what
//! the client had fetched ahead.

/// What to do with the partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Pause them.
    Close,
    /// Let them go on.
    Open,
}

/// Closes when the queue holds so many bytes, and opens when it holds half.
#[derive(Debug)]
pub(crate) struct Valve {
    bytes_max: usize,
    is_closed: bool,
}

impl Valve {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, is_closed: false }
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The queue holds `bytes` now.
    pub(crate) const fn turn(&mut self, bytes: usize) -> Option<Turn> {
        if !self.is_closed && bytes >= self.bytes_max {
            self.is_closed = true;
            Some(Turn::Close)
        } else if self.is_closed && bytes <= self.bytes_max / 2 {
            self.is_closed = false;
            Some(Turn::Open)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_at_the_limit_and_opens_at_half_of_it() {
        let mut valve = Valve::new(100);
        for (bytes, turn) in [
            (0, None),
            (99, None),
            (100, Some(Turn::Close)),
            (250, None),
            (99, None),
            (51, None),
            (50, Some(Turn::Open)),
            (99, None),
            (101, Some(Turn::Close)),
            (0, Some(Turn::Open)),
        ] {
            assert_eq!(valve.turn(bytes), turn, "{bytes}");
        }
    }
}
