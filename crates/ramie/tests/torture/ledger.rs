//! The live values: each value that must be dropped once has a token.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
};

#[derive(Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: usize,
    alive: BTreeMap<usize, &'static str>,
}

/// Alive until it is dropped, which may happen once.
pub(crate) struct Token<'a> {
    ledger: &'a Ledger,
    pub(crate) number: usize,
}

impl Ledger {
    pub(crate) fn token(&self, what: &'static str) -> Token<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.made += 1;
        let number = state.made;
        state.alive.insert(number, what);
        Token { ledger: self, number }
    }

    /// Lists the values that have not been dropped, a line each.
    pub(crate) fn living(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.alive.iter().fold(String::new(), |mut list, (number, what)| {
            let _ = writeln!(list, "  {number}: {what}");
            list
        })
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        let mut state = self.ledger.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_there = state.alive.remove(&self.number).is_some();
        drop(state);
        if !was_there {
            eprintln!("value {} was dropped twice", self.number);
            std::process::abort();
        }
    }
}
