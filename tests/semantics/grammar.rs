//! The expressions of the transcripts: `Name`, `Name(argument, ...)`, `key=expression`, whole
//! numbers and lists of them; and the windows and triggers that they stand for.
//!
//! Beam's own parser cannot read `Name()`; this one can, since some transcripts need it.

use crate::kit::{after_watermark, fixed, repeat, sessions, sliding, span};
use nilometer_model::custom::{Custom, CustomWindow};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::Value;
use nilometer_model::window::{Phase, Touching, WindowFn};

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    Number(i64),
    List(Vec<i64>),
    Call { name: String, arguments: Vec<(Option<String>, Expression)> },
}

/// Name, numbers, and other arguments with their names.
type Parts<'a> = (&'a str, Vec<i64>, Vec<(Option<&'a str>, &'a Expression)>);

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// Parses a whole text.
pub(crate) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { text, at: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        None => Ok(expression),
        Some(other) => Err(format!("`{other}` at {} of `{text}` is too much", parser.at)),
    }
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.text[self.at..].starts_with(' ') {
            self.at += 1;
        }
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self) -> String {
        self.peek();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let word: String = self.text[self.at..].chars().take_while(|c| is_part(*c)).collect();
        self.at += word.len();
        word
    }

    fn expression(&mut self) -> Result<Expression, String> {
        if self.take('[') {
            let mut numbers = Vec::new();
            while !self.take(']') {
                let word = self.word();
                numbers.push(word.parse().map_err(|_| format!("`{word}` is no number"))?);
                self.take(',');
            }
            return Ok(Expression::List(numbers));
        }
        let word = self.word();
        if let Ok(number) = word.parse() {
            return Ok(Expression::Number(number));
        }
        if word.is_empty() {
            return Err(format!("nothing to read at {} of `{}`", self.at, self.text));
        }
        self.call(word)
    }

    fn call(&mut self, name: String) -> Result<Expression, String> {
        let mut arguments = Vec::new();
        if self.take('(') {
            while !self.take(')') {
                let value = self.expression()?;
                let argument = match value {
                    Expression::Call { name, arguments }
                        if arguments.is_empty() && self.take('=') =>
                    {
                        (Some(name), self.expression()?)
                    }
                    Expression::Number(_) | Expression::List(_) | Expression::Call { .. } => {
                        (None, value)
                    }
                };
                arguments.push(argument);
                if !self.take(',') && self.peek() != Some(')') {
                    return Err(format!("`{}` lacks a bracket at {}", self.text, self.at));
                }
            }
        }
        Ok(Expression::Call { name, arguments })
    }
}

impl Expression {
    fn number(&self) -> Result<i64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::List(_) | Self::Call { .. } => Err(format!("{self:?} is no number")),
        }
    }

    /// The name, the numbers among the arguments, and the other arguments.
    fn parts(&self) -> Result<Parts<'_>, String> {
        let Self::Call { name, arguments } = self else {
            return Err(format!("{self:?} is neither a window function nor a trigger"));
        };
        let numbers = arguments.iter().filter_map(|(_, argument)| argument.number().ok());
        let others = arguments.iter().filter(|(_, argument)| argument.number().is_err());
        let others = others.map(|(key, argument)| (key.as_deref(), argument));
        Ok((name, numbers.collect(), others.collect()))
    }

    /// The window function that the expression stands for.
    pub(crate) fn window(&self) -> Result<WindowFn, String> {
        let (name, numbers, _) = self.parts()?;
        Ok(match (name, numbers.as_slice()) {
            ("GlobalWindows", []) => WindowFn::Global,
            ("FixedWindows", [size]) => fixed(*size),
            ("FixedWindows", [size, offset]) => {
                WindowFn::Fixed { size: span(*size), offset: *offset, phase: Phase::Aligned }
            }
            ("SlidingWindows", [size, period]) => sliding(*size, *period),
            ("Sessions", [gap]) => sessions(*gap, Touching::Separate),
            ("CustomTimestampingFixedWindowsWindowFn", [size]) => {
                // Plans hold custom functions for as long as the program runs.
                WindowFn::Custom(Custom(Box::leak(Box::new(Shifted { size: *size }))))
            }
            _ => return Err(format!("{self:?} is no window function")),
        })
    }

    /// The trigger that the expression stands for.
    pub(crate) fn trigger(&self) -> Result<Trigger, String> {
        let (name, numbers, others) = self.parts()?;
        let all = || others.iter().map(|(_, inner)| inner.trigger()).collect::<Result<Vec<_>, _>>();
        let named = |wanted: &str| {
            let found = others.iter().find(|(key, _)| *key == Some(wanted));
            found.map(|(_, inner)| inner.trigger()).transpose()
        };
        Ok(match (name, numbers.as_slice()) {
            ("Default", []) => Trigger::default_trigger(),
            ("AfterWatermark", []) => after_watermark(named("early")?, named("late")?),
            ("AfterCount", [count]) => {
                Trigger::AfterCount(u64::try_from(*count).map_err(|error| error.to_string())?)
            }
            ("AfterAny", []) => Trigger::Any(all()?),
            ("AfterAll", []) => Trigger::All(all()?),
            ("AfterEach", []) => Trigger::Sequence(all()?),
            ("Repeatedly", []) => match all()?.as_slice() {
                [inner] => repeat(inner.clone()),
                _ => return Err("Repeatedly takes one trigger".to_owned()),
            },
            ("OrFinally", []) => match all()?.as_slice() {
                [first, second] => {
                    Trigger::OrFinally(Box::new(first.clone()), Box::new(second.clone()))
                }
                _ => return Err("OrFinally takes two triggers".to_owned()),
            },
            _ => return Err(format!("{self:?} is no trigger")),
        })
    }
}

/// Fixed windows whose records count 100 later than they are.
#[derive(Debug)]
struct Shifted {
    size: i64,
}

impl CustomWindow for Shifted {
    fn name(&self) -> &str {
        "CustomTimestampingFixedWindowsWindowFn"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        windows.push(Window::fixed(time, span(self.size), 0));
    }

    fn output_time(&self, time: EventTime, _: Window) -> EventTime {
        time.saturating_add(span(100))
    }
}

#[test]
fn expressions_are_read_or_refused() {
    let call = |name: &str, arguments| Expression::Call { name: name.to_owned(), arguments };
    let two = Expression::Number(2);
    for (text, expected) in [
        ("Default", call("Default", vec![])),
        ("AfterWatermark()", call("AfterWatermark", vec![])),
        ("AfterCount(2)", call("AfterCount", vec![(None, two.clone())])),
        (
            "F(-3, [1, 2])",
            call("F", vec![(None, Expression::Number(-3)), (None, Expression::List(vec![1, 2]))]),
        ),
        (
            "A(early=B(2), late = C)",
            call(
                "A",
                vec![
                    (Some("early".to_owned()), call("B", vec![(None, two)])),
                    (Some("late".to_owned()), call("C", vec![])),
                ],
            ),
        ),
    ] {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
    for text in ["", "A(", "A(1", "A)", "A(1 2)", "[1, x]", "A(B=)"] {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in ["FixedWindows", "Fixed(2)", "3"] {
        assert!(parse(text).unwrap().window().is_err(), "{text}");
    }
    for text in ["AfterCount", "AfterCount(-1)", "Repeatedly", "OrFinally(Default)", "Sometimes"] {
        assert!(parse(text).unwrap().trigger().is_err(), "{text}");
    }
}
