//! From a trace to its value.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt, io,
    sync::Arc,
    time::Duration,
};

use ramie_driver::OpKind;

use super::{
    chunk::{self, NO_INDEX, Unread, VERSION},
    pack::unpack,
    value::{
        EndOfWait, Trace, TraceEvent, TraceEventKind, TracedStrand, TracedWait, TracedWorker,
        WakeSource,
    },
};
use crate::core::{
    strand::FiberId,
    trace::{EventKind, EventWords, WakeCause, text_of, unpack_address, unpack_detail},
};

/// The bits of the time in an event; those above are cut off.
const TICK_BITS: u32 = 56;

/// The reason why bytes are no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError(String);

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TraceError {}

impl From<TraceError> for io::Error {
    fn from(error: TraceError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl Trace {
    /// Reads a trace. One that was cut off is read up to that place ([`Trace::is_complete`]).
    ///
    /// # Blocking
    /// Never, but it takes about a second for ten million events.
    ///
    /// # Errors
    /// The bytes are no trace, or one of another version.
    ///
    /// # Examples
    /// ```
    /// let error = ramie::inspect::Trace::read(b"GIF89a").unwrap_err();
    /// assert_eq!(error.to_string(), "not a trace of Ramie");
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
        let no_trace = || TraceError("not a trace of Ramie".to_owned());
        let mut rest = Unread(bytes);
        let Some((tag, mut head)) = rest.chunk().filter(|(tag, _)| *tag == chunk::HEAD) else {
            return Err(no_trace());
        };
        debug_assert_eq!(tag, chunk::HEAD);
        let version = head.u32().ok_or_else(no_trace)?;
        if version != VERSION {
            return Err(TraceError(format!(
                "the trace has the version {version}, and this program reads version {VERSION}; \
                 use the program `ramie` of the version that wrote it"
            )));
        }
        let mut reader = TraceReader::default();
        reader.head(&mut head).ok_or_else(no_trace)?;
        while let Some((tag, content)) = rest.chunk() {
            // Incomplete content is that of a damaged chunk, of which the rest is skipped.
            let _ = reader.chunk(tag, content);
        }
        Ok(reader.finish())
    }
}

#[derive(Default)]
struct TraceReader {
    trace: Trace,
    /// The first and the last moment by both clocks: ticks and ns.
    first: Option<[u64; 2]>,
    last: [u64; 2],
    texts: HashMap<u64, Arc<str>>,
    /// The waits by the last words of their events.
    waits: HashMap<[u64; 2], Arc<TracedWait>>,
    /// The place in `trace.workers`, and the number of the next event, of each buffer.
    buffers: HashMap<u32, (usize, u64)>,
    strands: BTreeMap<FiberId, TracedStrand>,
    /// The names of spawned strands, as far as they have come.
    names: HashMap<FiberId, Vec<u8>>,
    /// The messages of panics, with the places of their events; and the last one of each strand.
    messages: Vec<(usize, Vec<u8>)>,
    last_messages: HashMap<u64, usize>,
    /// The events with their times in ticks.
    events: Vec<(u64, TraceEvent)>,
}

impl TraceReader {
    fn head(&mut self, head: &mut Unread<'_>) -> Option<()> {
        self.trace.process = head.u32()?;
        self.trace.begun_at = Duration::from_nanos(head.u64()?);
        self.trace.why = head.text()?;
        Some(())
    }

    fn chunk(&mut self, tag: &[u8], mut content: Unread<'_>) -> Option<()> {
        let tag: &[u8; 4] = tag.try_into().ok()?;
        match tag {
            chunk::TIME => {
                self.last = [content.u64()?, content.u64()?];
                self.first.get_or_insert(self.last);
            }
            chunk::BUFFER => self.buffer(content)?,
            chunk::TEXTS => {
                while let (Some(address), Some(text)) = (content.u64(), content.text()) {
                    self.texts.insert(address, text.into());
                }
            }
            chunk::EVENTS => self.events_of(content)?,
            chunk::STRAND => self.strand(content)?,
            chunk::DONE => {
                self.trace.workers_left_out = content.u64()?;
                self.trace.is_full = content.u32()? != 0;
                self.trace.is_complete = true;
            }
            _ => {}
        }
        Some(())
    }

    fn buffer(&mut self, mut content: Unread<'_>) -> Option<()> {
        let number = content.u32()?;
        let index = Some(content.u32()?).filter(|index| *index != NO_INDEX);
        let thread_id = content.u32()?.cast_signed();
        let next = content.u64()?;
        let thread_name = content.text().filter(|name| !name.is_empty());
        let index = index.map(|index| index as usize);
        self.buffers.insert(number, (self.trace.workers.len(), next));
        let worker = TracedWorker { index, thread_name, thread_id, overwritten: 0 };
        self.trace.workers.push(worker);
        Some(())
    }

    fn strand(&mut self, mut content: Unread<'_>) -> Option<()> {
        let id = FiberId::from_u64(content.u64()?)?;
        let since_ns = content.u64()?;
        let fd = content.u32()?;
        let mut text = || content.text().filter(|text| !text.is_empty()).map(Arc::<str>::from);
        let (name, closure, spawned_at) = (text(), text(), text());
        let (purpose, location) = (text(), text());
        let wait = (since_ns != 0).then(|| TracedWait {
            purpose,
            location,
            fd: fd.checked_sub(1).map(u32::cast_signed),
            since: Some(Duration::from_nanos(since_ns)),
        });
        let strand = self.strand_of(id);
        strand.name = name.map(|name| name.to_string()).or(strand.name.take());
        strand.closure = closure.or(strand.closure.take());
        strand.spawned_at = spawned_at.or(strand.spawned_at.take());
        strand.wait = wait;
        Some(())
    }

    fn strand_of(&mut self, id: FiberId) -> &mut TracedStrand {
        let unknown =
            || TracedStrand { id, name: None, closure: None, spawned_at: None, wait: None };
        self.strands.entry(id).or_insert_with(unknown)
    }

    fn events_of(&mut self, mut content: Unread<'_>) -> Option<()> {
        let number = content.u32()?;
        let first = content.u64()?;
        let (worker, next) = *self.buffers.get(&number)?;
        let lost = first.saturating_sub(next);
        let overwritten = &mut self.trace.workers[worker].overwritten;
        *overwritten = overwritten.saturating_add(lost);
        let mut count = 0;
        unpack(content, |words| {
            if lost > 0 && count == 0 {
                let kind = TraceEventKind::Overwritten { count: lost };
                let event = TraceEvent { time: Duration::ZERO, worker, strand: None, kind };
                self.events.push((words[0] >> 8, event));
            }
            self.event(worker, words);
            count += 1;
        });
        self.buffers.insert(number, (worker, first.saturating_add(count)));
        Some(())
    }

    fn event(&mut self, worker: usize, words: &EventWords) {
        let strand = FiberId::from_u64(words[1]);
        if let Some(kind) = self.kind_of(words, strand) {
            let event = TraceEvent { time: Duration::ZERO, worker, strand, kind };
            self.events.push((words[0] >> 8, event));
        }
    }

    /// The kind of an event; none: it goes on with another one, or is of a kind that is unknown.
    fn kind_of(&mut self, words: &EventWords, strand: Option<FiberId>) -> Option<TraceEventKind> {
        let [_, _, second, third] = *words;
        let result = third as u32 as i32;
        let by = FiberId::from_u64(second);
        Some(match EventKind::of(words)? {
            EventKind::Spawned => {
                let spawned_at = self.text_at(third);
                let strand = self.strand_of(strand?);
                strand.spawned_at = spawned_at.or(strand.spawned_at.take());
                TraceEventKind::Spawned { by }
            }
            EventKind::Named => {
                self.names.entry(strand?).or_default().extend(text_of(words));
                return None;
            }
            EventKind::Started => {
                let (spawned_at, closure) = (self.text_at(second), self.text_at(third));
                let strand = self.strand_of(strand?);
                strand.spawned_at = spawned_at.or(strand.spawned_at.take());
                strand.closure = closure.or(strand.closure.take());
                TraceEventKind::Started
            }
            EventKind::Waits => TraceEventKind::Waits(self.wait_of(words)),
            EventKind::Woken => self.continues(words, EndOfWait::Woken),
            EventKind::TimedOut => self.continues(words, EndOfWait::TimedOut),
            EventKind::WaitCancelled => self.continues(words, EndOfWait::Cancelled),
            EventKind::Wakes => {
                let source = match WakeCause::from_word(third) {
                    WakeCause::Call => WakeSource::Strand,
                    WakeCause::Op => WakeSource::Op,
                    WakeCause::Timer => WakeSource::Timer,
                    WakeCause::Cancel => WakeSource::Cancellation,
                };
                TraceEventKind::Wakes { by, source }
            }
            EventKind::Received => TraceEventKind::Received,
            EventKind::Completed => TraceEventKind::Completed { op: op_name(second), result },
            EventKind::AtOnce => {
                let fd = Some((second >> 32) as u32 as i32).filter(|fd| *fd >= 0);
                TraceEventKind::CompletedAtOnce { op: op_name(second), fd, result }
            }
            EventKind::Ended => TraceEventKind::Ended { has_panicked: second != 0 },
            EventKind::Panics => {
                self.last_messages.insert(words[1], self.messages.len());
                self.messages.push((self.events.len(), Vec::new()));
                TraceEventKind::Panics { message: String::new() }
            }
            EventKind::PanicText => {
                let (_, message) = &mut self.messages[*self.last_messages.get(&words[1])?];
                message.extend(text_of(words));
                return None;
            }
            EventKind::Cancels => TraceEventKind::Cancels { scope: second as usize },
            EventKind::Stolen => TraceEventKind::Stolen,
            EventKind::Sleeps => TraceEventKind::Sleeps,
            EventKind::Awakes => TraceEventKind::Awakes,
        })
    }

    fn continues(&mut self, words: &EventWords, end: EndOfWait) -> TraceEventKind {
        TraceEventKind::Continues { wait: self.wait_of(words), end }
    }

    fn wait_of(&mut self, words: &EventWords) -> Arc<TracedWait> {
        let key = [words[2], words[3]];
        if let Some(wait) = self.waits.get(&key) {
            return Arc::clone(wait);
        }
        let fd = unpack_detail(words).checked_sub(1).map(u32::cast_signed);
        let (purpose, location) = (self.text_at(words[2]), self.text_at(words[3]));
        let wait = Arc::new(TracedWait { purpose, location, fd, since: None });
        self.waits.insert(key, Arc::clone(&wait));
        wait
    }

    fn text_at(&self, word: u64) -> Option<Arc<str>> {
        self.texts.get(&(unpack_address(word) as u64)).cloned()
    }

    fn finish(mut self) -> Trace {
        let first = self.first.unwrap_or_default();
        for (ticks, event) in &mut self.events {
            event.time = time_of(*ticks, first, self.last);
        }
        for (at, message) in std::mem::take(&mut self.messages) {
            let text = String::from_utf8_lossy(&message).into_owned();
            self.events[at].1.kind = TraceEventKind::Panics { message: text };
        }
        self.trace.span = [Duration::from_nanos(first[1]), Duration::from_nanos(self.last[1])];
        for (id, name) in std::mem::take(&mut self.names) {
            let strand = self.strand_of(id);
            strand.name.get_or_insert_with(|| String::from_utf8_lossy(&name).into_owned());
        }
        let ids: Vec<_> = self.events.iter().filter_map(|(_, event)| event.strand).collect();
        ids.into_iter().for_each(|id| _ = self.strand_of(id));
        self.trace.strands = self.strands.into_values().collect();
        self.trace.events = self.events.into_iter().map(|(_, event)| event).collect();
        // Stable, so that the events of a worker keep their order.
        self.trace.events.sort_by_key(|event| event.time);
        self.trace
    }
}

/// The time of an event, of which the upper bits are cut off. The last moment gives them, because
/// the first one may be a year earlier.
fn time_of(ticks: u64, first: [u64; 2], last: [u64; 2]) -> Duration {
    let cut = 64 - TICK_BITS;
    let since_last = (ticks.wrapping_sub(last[0]) << cut).cast_signed() >> cut;
    let ticks = last[0].saturating_add_signed(since_last).saturating_sub(first[0]);
    let all_ticks = u128::from(last[0].saturating_sub(first[0]).max(1));
    let all_ns = u128::from(last[1].saturating_sub(first[1]).max(1));
    let ns = u128::from(ticks) * all_ns / all_ticks;
    Duration::from_nanos(first[1].saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)))
}

fn op_name(word: u64) -> &'static str {
    OpKind::ALL.get(word as u32 as usize).map_or("multishot", |kind| kind.name())
}
