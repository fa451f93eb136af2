//! `ramie top`: a live view of a process in the terminal.
//!
//! Modules, all behind the feature `top`: [`screen`] (what is selected and shown), [`draw`] (the
//! screen as text), [`asker`] (the thread that asks the process), [`terminal`] (raw mode, and the
//! way back), [`run`] (the loop).

#[cfg(feature = "top")]
mod asker;
#[cfg(feature = "top")]
mod draw;
#[cfg(feature = "top")]
mod run;
#[cfg(feature = "top")]
mod screen;
#[cfg(feature = "top")]
mod terminal;
#[cfg(all(test, feature = "top"))]
mod tests;

#[cfg(feature = "top")]
pub(crate) use self::run::top;

#[cfg(not(feature = "top"))]
pub(crate) fn top(arguments: &crate::arguments::TopArguments) -> Result<(), crate::Failure> {
    let pid = arguments.pid;
    Err(crate::Failure::other(format!(
        "this program was built without the feature `top`; in Ramie's sources, use `cargo run \
         --release -p ramie-cli --features top -- top {pid}`, or once `cargo install --path \
         crates/ramie-cli --features top`; `ramie inspect {pid}` prints the same once"
    )))
}
