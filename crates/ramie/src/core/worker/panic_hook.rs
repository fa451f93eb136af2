//! The report of a panic on a fiber: once, under the fiber's name, with a short backtrace.
//!
//! A hook that the program or a test harness has set is called as usual; it can ask
//! [`fiber::current`](crate::fiber::current) which fiber has panicked. Ramie's hook replaces only
//! std's own hook, which knows only threads. It writes the same report, with "fiber 'name'" in
//! place of the thread.
//!
//! The hook also marks the strand that panics with a fingerprint of the payload. `resume_unwind`
//! calls no hook. So if a strand ends with a payload that its mark does not match, no hook has
//! reported that panic yet, and the strand's scope reports it. This happens, for example, if the
//! strand caught the panic that the hook reported, and then raised another payload.
//!
//! A short backtrace ends above `__rust_begin_short_backtrace`. Two functions have that name: in
//! `core/strand/job.rs` the one that runs a strand's closure, and in `core/panic.rs` the one that
//! runs the closure of `run`. std's frames for catching panics, directly above it, are left out,
//! too. (std's hook cuts at the same name, but shows those frames.)

use std::{
    any::Any,
    backtrace::Backtrace,
    cell::Cell,
    env,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    panic::{PanicHookInfo, set_hook, take_hook},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{recorder, with_existing};
use crate::core::{panic, strand};

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// Installs the hook, once for the process: it reports a panic on a fiber under the fiber's name,
/// and marks each strand that panics.
pub(crate) fn install_hook() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = take_hook();
        let is_default = is_default(&previous);
        set_hook(Box::new(move |info| {
            note_reported(info.payload());
            recorder::note_panic(panic::message(info.payload()).unwrap_or_default());
            // To look up the symbols of a first backtrace takes long enough for a stall, whose
            // report says so.
            set_in_hook(true);
            match current_fiber_label() {
                Some(label) if is_default => report(&label, info),
                _ => previous(info),
            }
            // A panic of the hook itself aborts the process.
            set_in_hook(false);
        }));
    });
}

/// Notes for the watchdog whether this thread is in the hook.
fn set_in_hook(is_in_hook: bool) {
    with_existing(|worker| worker.watched.set_in_panic_hook(is_in_hook));
}

/// Names the fiber that runs on this thread, for messages.
fn current_fiber_label() -> Option<String> {
    with_existing(|worker| {
        worker.running.is_fiber().then(|| strand::label(worker.current_header()))
    })
    .flatten()
}

/// Installs the hook, unless this thread is panicking, because then std refuses to change the hook.
#[inline]
pub(crate) fn try_install_hook() {
    if !std::thread::panicking() {
        install_hook();
    }
}

thread_local! {
    /// The mark of a thread without a worker, such as one of the blocking pool.
    static MARK_OF_THREAD: Cell<u32> = const { Cell::new(UNREPORTED) };
}

/// The mark of a strand for which the panic hook was not called.
pub(crate) const UNREPORTED: u32 = 0;

/// Calls `f` with the mark of the strand that runs: the [`fingerprint`] of the panic for which the
/// panic hook was called last.
fn with_mark<R>(f: impl Fn(&Cell<u32>) -> R) -> R {
    let of_strand = with_existing(|worker| f(&worker.running_stack().panic_reported));
    of_strand.unwrap_or_else(|| MARK_OF_THREAD.with(f))
}

/// A number for the payload of a panic. It is made of the type and the text rather than of the
/// address, because the hook gets the payload at another address than the code that catches it.
fn fingerprint(payload: &(dyn Any + Send)) -> u32 {
    let mut hasher = DefaultHasher::new();
    (*payload).type_id().hash(&mut hasher);
    panic::message(payload).hash(&mut hasher);
    // An odd number is never `UNREPORTED`.
    hasher.finish() as u32 | 1
}

/// Marks the strand that runs: the panic hook was called for a panic with this payload.
pub(crate) fn note_reported(payload: &(dyn Any + Send)) {
    set_reported(fingerprint(payload));
}

/// Sets the mark of the strand that runs, and returns the earlier one.
pub(crate) fn set_reported(mark: u32) -> u32 {
    with_mark(|cell| cell.replace(mark))
}

/// Returns whether the panic hook was called for a panic of the strand that runs with this payload,
/// or with an equal one.
pub(crate) fn was_reported(payload: &(dyn Any + Send)) -> bool {
    with_mark(Cell::get) == fingerprint(payload)
}

/// Whether a hook that was just taken is std's own. The hook taken after it certainly is, so the
/// two are compared.
fn is_default(hook: &Hook) -> bool {
    let default = take_hook();
    // std's hook is a function item, which has no size, so the addresses of two boxes of it do not
    // identify it. Their vtables do: std makes that box at one place, so both have the same vtable.
    #[allow(ambiguous_wide_pointer_comparisons)]
    std::ptr::eq(&raw const **hook, &raw const *default)
}

fn report(label: &str, info: &PanicHookInfo<'_>) {
    let mut text = String::new();
    let message = panic::message(info.payload()).unwrap_or("Box<dyn Any>");
    let _ = match info.location() {
        Some(location) => write!(text, "\n{label} panicked at {location}:\n{message}\n"),
        None => write!(text, "\n{label} panicked:\n{message}\n"),
    };
    match env::var("RUST_BACKTRACE").as_deref() {
        Err(_) | Ok("0") => {
            static IS_NOTE_WRITTEN: AtomicBool = AtomicBool::new(false);
            if !IS_NOTE_WRITTEN.swap(true, Relaxed) {
                text.push_str(
                    "note: run with `RUST_BACKTRACE=1` environment variable to display a \
                     backtrace\n",
                );
            }
        }
        Ok("full") => {
            let _ = write!(text, "stack backtrace:\n{:#}", Backtrace::force_capture());
        }
        Ok(_) => {
            text.push_str("stack backtrace:\n");
            push_short(&mut text, &Backtrace::force_capture().to_string());
            text.push_str(
                "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose \
                 backtrace.\n",
            );
        }
    }
    // A failed write must not panic within a panic.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Adds the frames of a backtrace between the two functions at which std cuts its own backtraces.
/// If those functions are missing, adds all frames.
fn push_short(text: &mut String, backtrace: &str) {
    let mut frames: Vec<TraceFrame<'_>> = frames_of(backtrace);
    if let Some(end) = frames.iter().rposition(|frame| frame.is("__rust_end_short_backtrace")) {
        frames.drain(..=end);
    }
    if let Some(begin) = frames.iter().position(|frame| frame.is("__rust_begin_short_backtrace")) {
        frames.truncate(begin);
        while frames.last().is_some_and(TraceFrame::catches) {
            frames.pop();
        }
    }
    for (index, frame) in frames.iter().enumerate() {
        let _ = writeln!(text, "{index:4}: {}", frame.name);
        for line in &frame.places {
            let _ = writeln!(text, "{line}");
        }
    }
}

/// One frame: a line such as "  12: name", and the lines after it, which give the place.
struct TraceFrame<'a> {
    name: &'a str,
    places: Vec<&'a str>,
}

impl TraceFrame<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.contains(name)
    }

    /// Whether this is a frame for catching a panic, of std or of `core/panic.rs`.
    fn catches(&self) -> bool {
        let names =
            ["catch_unwind", "do_call", "__rust_try", "unwind_safe", "ramie::core::panic::catch"];
        names.iter().any(|name| self.is(name))
    }
}

fn frames_of(backtrace: &str) -> Vec<TraceFrame<'_>> {
    let mut frames: Vec<TraceFrame<'_>> = Vec::new();
    for line in backtrace.lines() {
        let numbered = line.trim_start().split_once(": ");
        match (numbered, frames.last_mut()) {
            (Some((number, name)), _) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                frames.push(TraceFrame { name, places: Vec::new() });
            }
            (_, Some(frame)) => frame.places.push(line),
            (_, None) => {}
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::push_short;

    #[test]
    fn a_short_backtrace_ends_where_the_closure_begins() {
        let whole = "   0: std::backtrace::Backtrace::capture\n             at /std.rs:1:2\n   \
                     1: std::sys::backtrace::__rust_end_short_backtrace\n   2: core::panic_fmt\n   \
                     3: mine::run\n             at ./a.rs:4:5\n   4: \
                     std::panicking::catch_unwind::do_call\n   5: __rust_try\n   6: \
                     ramie::strand::job::__rust_begin_short_backtrace\n   7: main\n";
        let mut short = String::new();
        push_short(&mut short, whole);
        let expected = "   0: core::panic_fmt\n   1: mine::run\n             at ./a.rs:4:5\n";
        assert_eq!(short, expected);

        let mut unknown = String::new();
        push_short(&mut unknown, "   0: a\n   1: b\n");
        assert_eq!(unknown, "   0: a\n   1: b\n");
    }
}
