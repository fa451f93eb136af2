//! The one way to the program's logger, which is user code: it may panic, wait, and call Ramie
//! again.
//!
//! [`say!`](crate::say) calls the logger at once, where nothing is borrowed or half done. A panic
//! of the logger ends there, and its line goes to stderr, so that it is not lost. Where something
//! is borrowed, [`later`] keeps a line; the caller that has let go of everything calls [`deliver`].

use std::fmt::{self, Write};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub use log::Level;
use log::Record;

/// Logs a line of the runtime's: `say!(Warn, "the pool cannot grow: {error}")`.
#[doc(hidden)]
#[macro_export]
macro_rules! say {
    ($level:ident, $($line:tt)+) => {
        $crate::logging::say(
            $crate::logging::Level::$level,
            module_path!(),
            format_args!($($line)+),
        )
    };
}

/// What [`say!`](crate::say) does, with the module that says it.
pub fn say(level: Level, target: &str, line: fmt::Arguments<'_>) {
    if level > log::STATIC_MAX_LEVEL || level > log::max_level() {
        return;
    }
    let call_logger = || {
        let mut record = Record::builder();
        record.level(level).target(target).module_path(Some(target));
        log::logger().log(&record.args(line).build());
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call_logger)) {
        // Forgotten, because the destructor of a panic's payload is user code and may panic.
        mem::forget(payload);
        print(format_args!("ramie: the logger panicked at this line: {line}"));
    }
}

/// Writes a line to stderr, without std's lock of it, which a fiber may hold.
#[cold]
pub fn print(line: fmt::Arguments<'_>) {
    let mut text = String::new();
    // A part that fails to format itself is left out.
    let _ = writeln!(text, "{line}");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

struct Line {
    level: Level,
    target: &'static str,
    text: String,
}

/// The most lines that are kept, because a program that uses a driver without Ramie's loop may
/// never deliver them.
const MOST: usize = 64;

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());
static HAS_LINES: AtomicBool = AtomicBool::new(false);

/// Keeps a line for [`deliver`]; if 64 lines are kept already, it is dropped.
#[cold]
pub fn later(level: Level, target: &'static str, text: String) {
    if level > log::max_level() {
        return;
    }
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() < MOST {
        lines.push(Line { level, target, text });
    }
    // Relaxed: whoever sees it takes the lock.
    HAS_LINES.store(true, Ordering::Relaxed);
}

/// Whether lines are kept.
#[inline]
pub fn has_lines() -> bool {
    HAS_LINES.load(Ordering::Relaxed)
}

/// Gives the lines that were kept to the logger. To be called where nothing is borrowed.
#[cold]
pub fn deliver() {
    HAS_LINES.store(false, Ordering::Relaxed);
    let lines = mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner));
    for Line { level, target, text } in lines {
        say(level, target, format_args!("{text}"));
    }
}
