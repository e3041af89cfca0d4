//! How far what is known of the end of a partition may be relied on: pure, facts in, decision out.
//!
//! The client tells of ends now and then, and goes on telling what it knew when nothing reaches it any
//! more. Invariant: a partition is at its end only if it has come to where its log ended when the brokers
//! were asked last, and they are asked whenever it is given, and when the process has stood still.

/// What is known of what there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Outlook {
    /// The partition has not been read by this process.
    #[default]
    Unread,
    /// What was known no longer holds: there may be anything, and the brokers are to be asked.
    Doubtful,
    /// The log ended at this offset when they were asked; it has not all been read yet.
    Owes(i64),
    /// That has been read.
    Clear,
    /// It was taken away, and has not been given back.
    Away,
}

impl Outlook {
    /// Nobody has looked for a while.
    pub(crate) fn doubt(&mut self) {
        if !matches!(self, Self::Unread | Self::Away) {
            *self = Self::Doubtful;
        }
    }

    /// It is read no more, if it was.
    pub(crate) fn leave(&mut self) {
        if *self != Self::Unread {
            *self = Self::Away;
        }
    }

    /// The client has read up to `end`, where it says that the log ends. Whether it may be believed:
    /// not what it knew before the brokers were asked.
    pub(crate) fn believes(&mut self, end: i64) -> bool {
        let is_news = match *self {
            Self::Unread | Self::Doubtful | Self::Away => false,
            Self::Owes(owed) => end >= owed,
            Self::Clear => true,
        };
        if is_news {
            *self = Self::Clear;
        }
        is_news
    }

    /// Whether there may be what has come while nobody looked.
    pub(crate) const fn is_unseen(self) -> bool {
        match self {
            Self::Unread | Self::Clear | Self::Away => false,
            Self::Doubtful | Self::Owes(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outlook::{Away, Clear, Doubtful, Owes, Unread};

    #[test]
    fn what_was_known_before_is_not_believed() {
        for (before, end, is_believed, after) in [
            (Unread, 100, false, Unread),
            (Doubtful, 100, false, Doubtful),
            (Away, 100, false, Away),
            // 100 have come while nobody looked, and the client does not know yet.
            (Owes(200), 100, false, Owes(200)),
            (Owes(200), 200, true, Clear),
            (Owes(200), 207, true, Clear),
            (Clear, 207, true, Clear),
            // Cut off since, as a log may be where brokers are lost.
            (Clear, 190, true, Clear),
        ] {
            let mut outlook = before;
            assert_eq!((outlook.believes(end), outlook), (is_believed, after), "{before:?} {end}");
            assert_eq!(outlook.is_unseen(), matches!(after, Doubtful | Owes(_)));
            outlook.doubt();
            let is_read = !matches!(before, Unread | Away);
            assert_eq!(outlook, if is_read { Doubtful } else { before });
            outlook.leave();
            assert_eq!(outlook, if before == Unread { Unread } else { Away });
        }
    }
}
