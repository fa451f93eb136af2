//! Backtraces of strands, from copies of their stacks.
//!
//! - [`StackCopy`]: the frames and registers of a strand, copied by its worker or by a watchdog;
//! - `objects`: the program and its libraries in memory, with their tables for unwinding;
//! - `walk`: from a copy to the addresses of its calls, by these tables;
//! - `symbols`: from an address to functions, files and lines;
//! - [`Backtrace`], [`BacktraceFrame`]: the result, and its text.
//!
//! Nothing here runs on the stack that is looked at, and no fiber is resumed. Symbols are looked up
//! only when a backtrace is printed, because the first look-up reads the debug information of the
//! program, which takes some hundred milliseconds.
//!
//! The tables are those that panics use (`.eh_frame`), so backtraces need neither frame pointers
//! nor debug information; names of functions need a program that is not stripped, and lines need
//! debug information (`debug = 1` in the profile, or `line-tables-only`).
//!
//! Only with the feature `backtrace`, which brings the crates framehop and backtrace, and only on
//! x86-64, because the switch saves its registers in another way on each processor. Otherwise there
//! is no backtrace.

#[cfg(all(feature = "backtrace", target_arch = "x86_64"))]
mod objects;
mod short;
#[cfg(all(feature = "backtrace", target_arch = "x86_64"))]
mod symbols;
#[cfg(all(feature = "backtrace", target_arch = "x86_64"))]
mod walk;

#[cfg(not(all(feature = "backtrace", target_arch = "x86_64")))]
mod absent;
use std::{fmt, sync::Arc};

#[cfg(not(all(feature = "backtrace", target_arch = "x86_64")))]
use self::absent as symbols;
#[cfg(not(all(feature = "backtrace", target_arch = "x86_64")))]
use self::absent as walk;
use crate::core::{panic, worker::StackCopy};

/// Whether this build can make backtraces.
pub(crate) const IS_AVAILABLE: bool = cfg!(all(feature = "backtrace", target_arch = "x86_64"));

/// The calls in which a strand is, from the innermost to the outermost.
///
/// Its `Display` has one line for each call, from the call of Ramie that waits to the function of
/// the strand; with `{:#}` also the calls inside of Ramie, and those below the strand's function.
///
/// # Costs
/// Looking up functions and lines (`Display` and [`frames`](Self::frames)) blocks the thread: for
/// some hundred milliseconds the first time, because the debug information of the program is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    addresses: Arc<[usize]>,
}

/// A call in a [`Backtrace`]. A function that was inlined has a frame of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BacktraceFrame {
    /// An address inside the call instruction.
    pub address: usize,
    /// The name of the function; none if the program is stripped.
    pub function: Option<String>,
    /// The path of the source file, as the compiler was given it; none without debug information.
    pub file: Option<String>,
    /// The line, from 1 on.
    pub line: Option<u32>,
}

impl Backtrace {
    /// Walks through a copy of a stack; `None` if this build cannot, or if a table is so wrong that
    /// the unwinder panics.
    pub(crate) fn of(copy: &StackCopy) -> Option<Backtrace> {
        let addresses = panic::catch(|| walk::walk(copy)).unwrap_or_default();
        (!addresses.is_empty()).then(|| Backtrace { addresses: addresses.into() })
    }

    /// The short text as a part of a report whose lines have that indentation.
    pub(crate) fn listed<'a>(&'a self, indent: &'a str) -> impl fmt::Display + use<'a> {
        Listed { backtrace: self, indent }
    }

    /// Returns an address inside each call instruction, the innermost first.
    #[must_use]
    pub fn addresses(&self) -> &[usize] {
        &self.addresses
    }

    /// Looks up the functions and lines of all calls, those of the runtime included.
    #[must_use]
    pub fn frames(&self) -> Vec<BacktraceFrame> {
        let frames = self.addresses.iter().map(|address| symbols::frames_at(*address));
        frames.flat_map(|frames| frames.to_vec()).collect()
    }
}

/// A backtrace as a part of a report, with a heading.
struct Listed<'a> {
    backtrace: &'a Backtrace,
    indent: &'a str,
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("calls, the innermost first:")?;
        let text = self.backtrace.to_string();
        text.lines().try_for_each(|line| write!(f, "\n{}    {line}", self.indent))
    }
}

impl fmt::Display for BacktraceFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => f.write_str(function)?,
            None => write!(f, "{:#x}", self.address)?,
        }
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " ({file}:{line})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.frames();
        let shown = if f.alternate() { &frames[..] } else { short::shortened(&frames) };
        for (at, frame) in shown.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{frame}")?;
        }
        Ok(())
    }
}

/// The frames, the innermost first.
#[cfg(feature = "serde")]
impl serde::Serialize for Backtrace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.frames())
    }
}
