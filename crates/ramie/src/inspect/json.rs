//! The JSON of dumps and summaries, the same as that of `serde_json` with the feature `serde`. A
//! program that does not have this feature can be asked for JSON from outside, too.

use std::{
    fmt::{Display, Write},
    time::Duration,
};

use super::{
    BacktraceFrame, StallSummary, StateCounts, Summary, WaitPlace, WorkerSummary,
    dump::{
        CancelDump, Dump, SourceLocation, StackDump, StrandDump, StrandName, StrandState, WaitDump,
        WaitTarget, WorkerDump, WorkerStatus,
    },
};

/// The bytes of a waiting strand without a name.
const BYTES_PER_STRAND: usize = 600;

impl Dump {
    /// Writes the dump as JSON: one object, whose members are the fields of [`Dump`]. Times are in
    /// milliseconds, and the id of a strand is a string such as `"12.1"`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(self.strands.len() * BYTES_PER_STRAND);
        object(&mut out, |object| {
            object.list("workers", &self.workers, worker);
            object.list("strands", &self.strands, strand);
            object.number("backtraces_left_out", Some(self.backtraces_left_out));
            object.number("left_out", Some(self.left_out));
            object.list("awaited", &self.awaited, awaited);
            object.ms("took_ms", Some(self.took));
        });
        out
    }
}

impl Summary {
    /// Writes the summary as JSON: one object, whose members are the fields of [`Summary`]. The
    /// times `at_us` and `cpu_us` are in microseconds, others in milliseconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        object(&mut out, |object| {
            object.number("process", Some(self.process));
            object.us("at_us", Some(self.at));
            object.list("workers", &self.workers, worker_summary);
            object.object("states", Some(&self.states), states);
            object.list("places", &self.places, place);
            object.number("waiting_elsewhere", Some(self.waiting_elsewhere));
            object.list("slowest", &self.slowest, strand);
            object.list("awaited", &self.awaited, awaited);
            object.list("stalls", &self.stalls, stall);
            object.number("spawned", Some(self.spawned));
            object.number("ended", Some(self.ended));
            object.number("resumed", Some(self.resumed));
            object.ms("took_ms", Some(self.took));
        });
        out
    }
}

/// An object whose members are being written.
struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

fn object(out: &mut String, write: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    let mut object = Object { out, is_empty: true };
    write(&mut object);
    out.push('}');
}

impl Object<'_> {
    #[inline(always)]
    fn key(&mut self, key: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        // A name of a field, in which nothing has to be escaped.
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
        self.out
    }

    fn number<N>(&mut self, key: &str, value: Option<N>)
    where
        N: Copy + Display + TryInto<u64>,
    {
        let out = self.key(key);
        let Some(value) = value else { return out.push_str("null") };
        match value.try_into() {
            Ok(number) => digits(out, number),
            // Writing to a string does not fail.
            Err(_) => _ = write!(out, "{value}"),
        }
    }

    fn boolean(&mut self, key: &str, value: bool) {
        self.key(key).push_str(if value { "true" } else { "false" });
    }

    fn ms(&mut self, key: &str, value: Option<Duration>) {
        let ms = |value: Duration| value.as_secs() * 1000 + u64::from(value.subsec_millis());
        self.number(key, value.map(ms));
    }

    fn us(&mut self, key: &str, value: Option<Duration>) {
        self.number(key, value.map(|value| value.as_micros() as u64));
    }

    fn text(&mut self, key: &str, value: Option<&str>) {
        let out = self.key(key);
        match value {
            Some(value) => text(out, value),
            None => out.push_str("null"),
        }
    }

    fn id(&mut self, key: &str, id: Option<crate::fiber::FiberId>) {
        let out = self.key(key);
        let Some(id) = id else { return out.push_str("null") };
        let (index, use_of_it) = id.parts();
        out.push('"');
        digits(out, index.into());
        out.push('.');
        digits(out, use_of_it.into());
        out.push('"');
    }

    fn object<T>(&mut self, key: &str, value: Option<&T>, write: impl Fn(&mut Object<'_>, &T)) {
        let out = self.key(key);
        match value {
            Some(value) => object(out, |object| write(object, value)),
            None => out.push_str("null"),
        }
    }

    fn list<T>(&mut self, key: &str, values: &[T], write: impl Fn(&mut Object<'_>, &T)) {
        let out = self.key(key);
        out.push('[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            object(out, |object| write(object, value));
        }
        out.push(']');
    }
}

/// The decimal digits of 0 to 99.
const PAIRS: &str = "\
    00010203040506070809101112131415161718192021222324252627282930313233343536373839\
    40414243444546474849505152535455565758596061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Writes a number. A dump of a million strands has 20 million numbers, for which the formatter of
/// std takes half of the time.
fn digits(out: &mut String, number: u64) {
    if number < 10 {
        return out.push(char::from(b'0' + number as u8));
    }
    if number >= 100 {
        digits(out, number / 100);
    }
    let pair = 2 * (number % 100) as usize;
    out.push_str(&PAIRS[pair..pair + 2]);
}

/// Whether a byte has to be escaped. All such bytes are characters of their own.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Writes a string in quotes.
fn text(out: &mut String, text: &str) {
    out.push('"');
    // Without an early end, so that the compiler looks at 16 or more bytes at a time.
    if text.bytes().fold(false, |any, byte| any | is_special(byte)) {
        escaped(out, text);
    } else {
        out.push_str(text);
    }
    out.push('"');
}

#[cold]
fn escaped(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        out.push_str(&rest[..at]);
        let _ = match rest.as_bytes()[at] {
            special @ (b'"' | b'\\') => write!(out, "\\{}", char::from(special)),
            b'\n' => out.write_str("\\n"),
            b'\r' => out.write_str("\\r"),
            b'\t' => out.write_str("\\t"),
            control => write!(out, "\\u{control:04x}"),
        };
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

fn worker(object: &mut Object<'_>, worker: &WorkerDump) {
    object.number("index", worker.index);
    object.text("thread_name", worker.thread_name.as_deref());
    object.number("thread_id", Some(worker.thread_id));
    object.number("fibers", Some(worker.fibers));
    object.text("status", Some(status(worker.status)));
}

fn status(status: WorkerStatus) -> &'static str {
    match status {
        WorkerStatus::Complete => "complete",
        WorkerStatus::OutsideLoop => "outside_loop",
        WorkerStatus::Silent => "silent",
    }
}

fn worker_summary(object: &mut Object<'_>, worker: &WorkerSummary) {
    object.number("index", worker.index);
    object.text("thread_name", worker.thread_name.as_deref());
    object.number("thread_id", Some(worker.thread_id));
    object.text("status", Some(status(worker.status)));
    object.number("fibers", Some(worker.fibers));
    object.number("runnable", Some(worker.runnable));
    object.number("waiting", Some(worker.waiting));
    object.number("run_queue", worker.run_queue);
    object.us("cpu_us", worker.cpu);
}

fn states(object: &mut Object<'_>, states: &StateCounts) {
    object.number("not_started", Some(states.not_started));
    object.number("running", Some(states.running));
    object.number("runnable", Some(states.runnable));
    object.number("waiting", Some(states.waiting));
}

fn place(object: &mut Object<'_>, place: &WaitPlace) {
    object.text("purpose", Some(place.purpose));
    object.object("location", Some(&place.location), location);
    object.number("strands", Some(place.strands));
    object.ms("longest_ms", Some(place.longest));
}

fn stall(object: &mut Object<'_>, stall: &StallSummary) {
    object.ms("ago_ms", Some(stall.ago));
    object.text("fiber", Some(&stall.fiber));
    object.number("worker", Some(stall.worker));
    object.ms("lasted_ms", Some(stall.lasted));
    object.boolean("has_ended", stall.has_ended);
    object.text("cause", Some(&stall.cause));
    object.text("closure", Some(stall.closure));
}

fn strand(object: &mut Object<'_>, strand: &StrandDump) {
    object.id("id", Some(strand.id));
    object.text("name", strand.name.as_deref());
    let state = match strand.state {
        StrandState::NotStarted => "not_started",
        StrandState::Running => "running",
        StrandState::Runnable => "runnable",
        StrandState::Waiting => "waiting",
    };
    object.text("state", Some(state));
    object.number("worker", strand.worker);
    object.number("waits", Some(strand.waits));
    object.ms("age_ms", strand.age);
    object.id("parent", strand.parent);
    object.object("spawned_at", strand.spawned_at.as_ref(), location);
    object.text("closure", strand.closure);
    object.object("wait", strand.wait.as_ref(), wait);
    object.object("cancel", strand.cancel.as_ref(), cancel);
    object.object("stack", strand.stack.as_ref(), stack);
    match &strand.backtrace {
        Some(backtrace) => object.list("backtrace", &backtrace.frames(), frame),
        None => object.number("backtrace", None::<u8>),
    }
}

fn awaited(object: &mut Object<'_>, strand: &StrandName) {
    object.id("id", Some(strand.id));
    object.text("name", Some(&strand.name));
}

fn frame(object: &mut Object<'_>, frame: &BacktraceFrame) {
    object.number("address", Some(frame.address));
    object.text("function", frame.function.as_deref());
    object.text("file", frame.file.as_deref());
    object.number("line", frame.line);
}

fn location(object: &mut Object<'_>, location: &SourceLocation) {
    object.text("file", Some(location.file));
    object.number("line", Some(location.line));
    object.number("column", Some(location.column));
}

fn wait(object: &mut Object<'_>, wait: &WaitDump) {
    object.text("purpose", Some(wait.purpose));
    object.object("target", Some(&wait.target), target);
    object.object("location", Some(&wait.location), location);
    object.ms("since_ms", Some(wait.since));
    object.ms("left_ms", wait.left);
}

fn target(object: &mut Object<'_>, target: &WaitTarget) {
    let mut address = |kind, address: usize| {
        object.text("kind", Some(kind));
        object.number("address", Some(address));
    };
    match target {
        WaitTarget::None => object.text("kind", Some("none")),
        WaitTarget::Descriptor { fd, offset, name } => {
            object.text("kind", Some("descriptor"));
            object.number("fd", Some(*fd));
            object.number("offset", *offset);
            object.text("name", name.as_deref());
        }
        WaitTarget::Mutex { address: at, owner } => {
            address("mutex", *at);
            object.id("owner", *owner);
        }
        WaitTarget::RwLock { address: at, writer, readers } => {
            address("rw_lock", *at);
            object.id("writer", *writer);
            object.number("readers", Some(*readers));
        }
        WaitTarget::Channel { address: at } => address("channel", *at),
        WaitTarget::Object { address: at } => address("object", *at),
        WaitTarget::Scope { address: at } => address("scope", *at),
        WaitTarget::Select { arms } => {
            object.text("kind", Some("select"));
            object.number("arms", Some(*arms));
        }
        WaitTarget::Strand { id } => {
            object.text("kind", Some("strand"));
            object.id("id", Some(*id));
        }
    }
}

fn cancel(object: &mut Object<'_>, cancel: &CancelDump) {
    object.ms("left_ms", cancel.left);
    object.number("scope", cancel.scope);
    object.text("cancelled", cancel.cancelled.as_deref());
}

fn stack(object: &mut Object<'_>, stack: &StackDump) {
    object.number("size", Some(stack.size));
    object.number("base", Some(stack.base));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_those_of_serde_json() {
        let written = |write: &dyn Fn(&mut String)| {
            let mut out = String::new();
            write(&mut out);
            out
        };
        let round = (0..20).map(|zeros| 10_u64.pow(zeros));
        for number in round.flat_map(|round| [round - 1, round, round + 1]).chain([u64::MAX]) {
            assert_eq!(written(&|out| digits(out, number)), number.to_string());
        }
        for example in ["", "plain", "\"\\", "a\nb\r\t\u{0}\u{1f} é", "é\u{7f}"] {
            let expected = serde_json::to_string(example).unwrap();
            assert_eq!(written(&|out| text(out, example)), expected);
        }
    }
}
