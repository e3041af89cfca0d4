//! `nilometer top`: a run as it goes on, on the terminal, from its admin port.

mod client;
mod screen;
#[cfg(test)]
mod tests;

use crate::failure::{Failure, print};
use clap::Args;
use client::Client;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use screen::View;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer top
  nilometer top 127.0.0.1:9464 --every 5
  nilometer top 10.0.0.7:9464 --token-file admin.token
  nilometer top --once

Keys: q ends it. The run must have an admin port: `[admin] listen = \"127.0.0.1:9464\"`.";

/// What to look at.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Address and port of the admin port of the run
    #[arg(default_value = "127.0.0.1:9464")]
    address: String,
    /// File with the token of the port, where others can reach it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between two looks, 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: u64,
    /// Print one look to stdout, and end
    #[arg(long)]
    once: bool,
}

/// A run cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// It cannot be asked.
    #[error(
        "cannot ask `{address}`: {source}; check that the run goes on and has `[admin] listen`"
    )]
    Ask {
        /// The address, as the user wrote it.
        address: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// It does not let itself be looked at.
    #[error("`{address}` says: {error}")]
    Refused {
        /// The address.
        address: Box<str>,
        /// What it says.
        error: Box<str>,
    },
    /// It answers something else.
    #[error("`{address}` does not answer as a run does: {detail}")]
    Answer {
        /// The address.
        address: Box<str>,
        /// What it answers.
        detail: Box<str>,
    },
    /// The token cannot be read.
    #[error("cannot read the token `{}`: {source}", path.display())]
    Token {
        /// Path as the user wrote it.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The terminal cannot be used.
    #[error("cannot draw on the terminal: {0}; `--once` prints one look")]
    Terminal(#[source] io::Error),
}

/// Columns of a look that is printed.
const COLUMNS: u16 = 120;
/// Lines of one, at most.
const LINES_MAX: u16 = 2_000;

/// Looks at a run until somebody has seen enough.
///
/// # Errors
/// It cannot be looked at.
pub fn execute(args: &TopArgs) -> Result<(), Failure> {
    let client = Client::new(&args.address, args.token_file.as_deref())?;
    let first = client.look()?;
    if args.once {
        return print(&printed(&View::new(first)));
    }
    let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
    let watched = watch(&mut terminal, &client, View::new(first), Duration::from_secs(args.every));
    ratatui::restore();
    Ok(watched?)
}

/// Draws until it is told to end; a run that does not answer is shown as it was last.
fn watch(
    terminal: &mut DefaultTerminal,
    client: &Client,
    mut view: View,
    every: Duration,
) -> Result<(), TopError> {
    loop {
        terminal.draw(|frame| screen::draw(frame, &view)).map_err(TopError::Terminal)?;
        let begun = Instant::now();
        // A key or a new size of the terminal draws anew, and looks no earlier.
        while let Some(left) = every.checked_sub(begun.elapsed()) {
            if !event::poll(left).map_err(TopError::Terminal)? {
                break;
            }
            match event::read().map_err(TopError::Terminal)? {
                Event::Key(key) if ends(key) => return Ok(()),
                _ => {
                    terminal
                        .draw(|frame| screen::draw(frame, &view))
                        .map_err(TopError::Terminal)?;
                }
            }
        }
        view = view.then(client.look());
    }
}

fn ends(key: KeyEvent) -> bool {
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (is_interrupt || is_quit)
}

/// A look as text, without the lines that are empty at its end.
fn printed(view: &View) -> String {
    let lines = screen::height(view).min(LINES_MAX);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(COLUMNS, lines));
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, view));
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(COLUMNS));
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    let text: String = cells.map(line).collect();
    text.trim_end().to_owned() + "\n"
}
