//! The one way to the program's logger, which is user code: it may panic, wait, and call Ramie
//! again.
//!
//! [`say!`](crate::say) calls the logger at once, so it is used only where nothing is borrowed or
//! half done. A panic of the logger is caught, and its line goes to stderr, so that it is not lost.
//! Code that holds a borrow keeps a line by [`later`]; a caller that holds none calls [`deliver`].
//!
//! The logger may make a call that waits while it holds a lock. If Ramie logged in such a call, the
//! thread would enter the logger a second time, and wait for its own lock. So outside `run`, where
//! the first call that waits opens a driver, a thread of its own delivers the lines
//! ([`on_another_thread`]).

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::iter;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub use log::Level;
use log::Record;
use rustix::event::{PollFd, PollFlags, Timespec};

/// Logs a line of the runtime: `say!(Warn, "the pool cannot grow: {error}")`.
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

/// The function behind [`say!`](crate::say), with the module of the caller.
pub fn say(level: Level, target: &'static str, line: fmt::Arguments<'_>) {
    if level > log::STATIC_MAX_LEVEL || level > log::max_level() {
        return;
    }
    if IS_KEPT.get() {
        return keep(Line { level, target, text: line.to_string() });
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

/// Writes a line to stderr, without std's lock of it, which a fiber may hold. It is one call of
/// write(2), so nothing that others print gets into it, unless stderr is a pipe and the line has
/// more than 4096 bytes.
#[cold]
pub fn print(line: fmt::Arguments<'_>) {
    let mut text = String::new();
    // A part that fails to format itself is omitted.
    let _ = writeln!(text, "{line}");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

/// The most bytes that a pipe takes at once if poll(2) calls it writable, and the most that stay
/// together there.
const PIPE_BUF: usize = 4096;
/// How long [`print_unless_full`] waits for the reader of a pipe.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Writes a text to stderr as [`print`] does, but if stderr is a pipe that stays full, because
/// nobody reads from it, the rest of the text is lost. A text of more than 4096 bytes is written by
/// several calls, each of whole lines.
#[cold]
pub fn print_unless_full(line: fmt::Arguments<'_>) {
    let mut text = String::new();
    let _ = writeln!(text, "{line}");
    let stderr = rustix::stdio::stderr();
    for part in parts_of(text.as_bytes()) {
        let mut set = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
        if rustix::event::poll(&mut set, Some(&PATIENCE)) != Ok(1) {
            return;
        }
        let _ = rustix::io::write(stderr, part);
    }
}

/// The parts of a text that a pipe takes at once: whole lines, unless a line is longer.
fn parts_of(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let most = &text[..text.len().min(PIPE_BUF)];
        let lines = most.iter().rposition(|byte| *byte == b'\n').map_or(most.len(), |at| at + 1);
        let part = text.split_off(..lines)?;
        (!part.is_empty()).then_some(part)
    })
}

#[derive(Clone)]
struct Line {
    level: Level,
    target: &'static str,
    text: String,
}

impl Line {
    fn say(&self) {
        say(self.level, self.target, format_args!("{}", self.text));
    }
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
    // Relaxed: a thread that sees it takes the lock.
    HAS_LINES.store(true, Ordering::Relaxed);
}

/// Whether lines are kept.
#[inline]
pub fn has_lines() -> bool {
    HAS_LINES.load(Ordering::Relaxed)
}

/// Gives the kept lines to the logger. The caller must hold no borrow.
#[cold]
pub fn deliver() {
    take_lines().iter().for_each(Line::say);
}

fn take_lines() -> Vec<Line> {
    HAS_LINES.store(false, Ordering::Relaxed);
    mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner))
}

thread_local! {
    /// Whether lines of this thread are kept, because it may be inside the logger.
    static IS_KEPT: Cell<bool> = const { Cell::new(false) };
    static KEPT: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread delivers lines, its own included; otherwise each line would start
    /// another thread.
    static DELIVERS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f`; another thread gives the lines that `f` logs to the logger.
pub fn on_another_thread<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_KEPT.set(self.0);
        }
    }
    let restore = Restore(IS_KEPT.replace(true));
    let value = f();
    drop(restore);
    if !DELIVERS.get() {
        start_delivering(take_kept());
    }
    value
}

fn take_kept() -> Vec<Line> {
    // While the thread's destructors run, no line is kept.
    KEPT.try_with(RefCell::take).unwrap_or_default()
}

/// Keeps a line for the end of [`on_another_thread`].
fn keep(line: Line) {
    let mut line = Some(line);
    let _ = KEPT.try_with(|kept| kept.borrow_mut().extend(line.take()));
    if let Some(Line { level, target, text }) = line {
        later(level, target, text);
    }
}

/// As [`deliver`], where the logger may be waiting for this very thread.
#[cold]
pub fn deliver_on_another_thread() {
    let lines = take_lines();
    match DELIVERS.get() {
        true => lines.into_iter().for_each(keep),
        false => start_delivering(lines),
    }
}

/// Starts a thread that gives these lines to the logger.
fn start_delivering(lines: Vec<Line>) {
    if lines.is_empty() {
        return;
    }
    let lines = Arc::new(lines);
    let theirs = Arc::clone(&lines);
    let started = thread::Builder::new().name("ramie-log".to_owned()).spawn(move || {
        DELIVERS.set(true);
        theirs.iter().for_each(Line::say);
        loop {
            let own = take_kept();
            if own.is_empty() {
                return;
            }
            own.iter().for_each(Line::say);
        }
    });
    if started.is_err() {
        // A worker's loop delivers them.
        LINES.lock().unwrap_or_else(PoisonError::into_inner).extend(lines.iter().cloned());
        HAS_LINES.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{PIPE_BUF, parts_of};

    #[test]
    fn long_texts_are_written_in_parts_of_whole_lines() {
        let lens = |text: &str| parts_of(text.as_bytes()).map(<[u8]>::len).collect::<Vec<_>>();
        let line = |len: usize| "x".repeat(len - 1) + "\n";
        assert_eq!(lens(""), [0; 0]);
        assert_eq!(lens(&line(PIPE_BUF)), [PIPE_BUF]);
        assert_eq!(lens(&(line(3000) + &line(1000) + &line(97))), [4000, 97]);
        assert_eq!(lens(&(line(9000) + &line(10))), [4096, 4096, 818]);
    }
}
