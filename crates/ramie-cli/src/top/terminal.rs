//! The terminal in raw mode, and its way back: also after a panic.

use std::io;

use ratatui::DefaultTerminal;

use crate::failure::Failure;

/// The terminal, which is as it was before when this is dropped.
pub(super) struct TakenTerminal {
    /// `None`: dropped, because it shows the cursor then.
    terminal: Option<DefaultTerminal>,
}

impl TakenTerminal {
    /// Takes the terminal. If the program panics, the terminal is given back before the message is
    /// printed.
    pub(super) fn begin() -> Result<TakenTerminal, Failure> {
        let terminal = ratatui::try_init().map_err(|error| lost(&error))?;
        Ok(TakenTerminal { terminal: Some(terminal) })
    }

    pub(super) fn draw(
        &mut self,
        draw: impl FnOnce(&mut ratatui::Frame<'_>),
    ) -> Result<(), Failure> {
        match &mut self.terminal {
            Some(terminal) => terminal.draw(draw).map(drop).map_err(|error| lost(&error)),
            None => Ok(()),
        }
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        drop(self.terminal.take());
        // If it fails, the terminal has gone.
        let _ = ratatui::try_restore();
    }
}

/// The failure of a terminal that cannot be used any more.
pub(super) fn lost(error: &io::Error) -> Failure {
    Failure::other(format!(
        "the terminal cannot be used ({error}); use `ramie inspect PID` instead"
    ))
}
