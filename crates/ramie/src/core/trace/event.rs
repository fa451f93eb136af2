//! The kinds of events, and the meaning of their words.
//!
//! | word | content |
//! |---|---|
//! | 0 | the time in ticks, modulo 2^56, and in the lowest byte the kind |
//! | 1 | the bits of the id of the strand that the event is about; 0: none |
//! | 2, 3 | see [`EventKind`] |
//!
//! An address of static data has 48 bits, so 16 bits of another number lie above it. (Linux gives
//! higher addresses only to programs that ask for them; such an address is left out.)

use ramie_driver::sys;

use super::{TraceBuffer, buffer::EventWords};

/// The bits of an address.
const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
/// The bytes of text in one event.
const TEXT: usize = 16;
/// The most events for one text; the rest is left out.
const MOST_TEXTS: usize = 4;

/// The kind of an event. The numbers are part of the format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// A strand was spawned: by the strand in word 2, at the location in word 3.
    Spawned = 1,
    /// 16 bytes of the name of a spawned strand, in words 2 and 3; the next one goes on.
    Named = 2,
    /// A strand has started: it was spawned at the location in word 2; word 3 is the address of its
    /// closure's name, with its length above.
    Started = 3,
    /// A strand begins to wait: for the kind of wait in word 2, at the location in word 3. Above
    /// the addresses lie the upper and the lower half of the detail: a descriptor plus 1, or 0.
    Waits = 4,
    /// A strand continues, because it was woken; the words are those of `Waits`.
    Woken = 5,
    /// The same, because the time of the wait was over.
    TimedOut = 6,
    /// The same, because the wait was cancelled.
    WaitCancelled = 7,
    /// A strand was made runnable by the strand in word 2; word 3 is the [`WakeCause`].
    Wakes = 8,
    /// A worker took a strand, which another thread had made runnable, out of its inbox.
    Received = 9,
    /// The op for which a strand waits is complete: the kind of op in word 2, its result in word 3.
    /// A fiber that waits for nothing else is runnable from now on.
    Completed = 10,
    /// An op was complete when it was submitted: word 2 is its kind, with the descriptor above;
    /// word 3 is the result.
    AtOnce = 11,
    /// A strand has ended; word 2 is 1 if its closure has panicked.
    Ended = 12,
    /// A strand panics.
    Panics = 13,
    /// 16 bytes of the text of a panic, as `Named`.
    PanicText = 14,
    /// A strand cancels a scope, whose address is in word 2.
    Cancels = 15,
    /// A worker took a closure from another worker.
    Stolen = 16,
    /// A worker falls asleep in the kernel.
    Sleeps = 17,
    /// A worker has left the kernel.
    Awakes = 18,
}

impl EventKind {
    const ALL: [EventKind; 18] = {
        use EventKind::*;
        [
            Spawned,
            Named,
            Started,
            Waits,
            Woken,
            TimedOut,
            WaitCancelled,
            Wakes,
            Received,
            Completed,
            AtOnce,
            Ended,
            Panics,
            PanicText,
            Cancels,
            Stolen,
            Sleeps,
            Awakes,
        ]
    };

    /// Whether the words of an event have addresses: a quick look, before those that take longer.
    #[inline]
    pub(crate) fn has_addresses(event: &EventWords) -> bool {
        (event[0] as u8) <= EventKind::WaitCancelled as u8
    }

    pub(crate) fn of(event: &EventWords) -> Option<EventKind> {
        let number = usize::from(event[0] as u8);
        EventKind::ALL.get(number.wrapping_sub(1)).copied()
    }
}

/// Why a strand was made runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum WakeCause {
    /// A strand did it, or the runtime.
    Call = 0,
    /// The driver, because an op is complete.
    Op = 1,
    /// A timer.
    Timer = 2,
    /// A cancellation.
    Cancel = 3,
}

impl WakeCause {
    pub(crate) fn from_word(word: u64) -> WakeCause {
        match word {
            1 => WakeCause::Op,
            2 => WakeCause::Timer,
            3 => WakeCause::Cancel,
            _ => WakeCause::Call,
        }
    }
}

/// Packs an address with 16 bits of another number.
#[inline]
fn pack(address: usize, bits: u16) -> u64 {
    let address = address as u64;
    let address = if address & !ADDRESS_MASK == 0 { address } else { 0 };
    address | u64::from(bits) << ADDRESS_BITS
}

/// The address in a word; none: 0.
pub(crate) fn unpack_address(word: u64) -> usize {
    (word & ADDRESS_MASK) as usize
}

/// The number above the address in a word.
pub(crate) fn unpack_bits(word: u64) -> u16 {
    (word >> ADDRESS_BITS) as u16
}

/// The detail of a wait.
pub(crate) fn unpack_detail(event: &EventWords) -> u32 {
    u32::from(unpack_bits(event[2])) << 16 | u32::from(unpack_bits(event[3]))
}

/// The text of an event of the kind `Named` or `PanicText`, or a part of it: 16 bytes at most.
pub(crate) fn text_of(event: &EventWords) -> Vec<u8> {
    let bytes = [event[2].to_le_bytes(), event[3].to_le_bytes()].concat();
    bytes.into_iter().take_while(|byte| *byte != 0).collect()
}

/// Writing events, by the worker that owns the buffer.
impl TraceBuffer {
    /// The time, for several events.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        sys::ticks(self.has_fast_ticks)
    }

    #[inline]
    fn push_at(&self, ticks: u64, kind: EventKind, words: [u64; 3]) {
        let [strand, second, third] = words;
        self.push([ticks << 8 | kind as u64, strand, second, third]);
    }

    #[inline]
    pub(crate) fn add(&self, kind: EventKind, strand: u64, second: u64, third: u64) {
        self.push_at(self.ticks(), kind, [strand, second, third]);
    }

    /// Adds an event about a wait, as its kind and its location, with a detail.
    #[inline]
    pub(crate) fn add_wait<K, L>(
        &self,
        kind: EventKind,
        strand: u64,
        purpose: &'static K,
        location: &'static L,
        detail: u32,
    ) {
        let second = pack(address_of(purpose), (detail >> 16) as u16);
        self.add(kind, strand, second, pack(address_of(location), detail as u16));
    }

    /// Adds the spawn of a strand, with its name.
    pub(crate) fn add_spawn<L>(
        &self,
        strand: u64,
        spawner: u64,
        location: Option<&'static L>,
        name: Option<&str>,
    ) {
        let location = location.map_or(0, address_of);
        self.add(EventKind::Spawned, strand, spawner, pack(location, 0));
        if let Some(name) = name {
            self.add_text(EventKind::Named, strand, name);
        }
    }

    pub(crate) fn add_start<L>(
        &self,
        strand: u64,
        spawned_at: Option<&'static L>,
        closure: &'static str,
    ) {
        let spawned_at = pack(spawned_at.map_or(0, address_of), 0);
        let closure = match u16::try_from(closure.len()) {
            Ok(length) => pack(closure.as_ptr().expose_provenance(), length),
            Err(_) => 0,
        };
        self.add(EventKind::Started, strand, spawned_at, closure);
    }

    /// Adds the completion of an op, which a turn of the driver found at that time.
    #[inline]
    pub(crate) fn add_completion(&self, ticks: u64, strand: u64, op: u64, result: i32) {
        let result = i64::from(result).cast_unsigned();
        self.push_at(ticks, EventKind::Completed, [strand, op, result]);
    }

    pub(crate) fn add_wake(&self, strand: u64, waker: u64, cause: WakeCause) {
        self.add(EventKind::Wakes, strand, waker, cause as u64);
    }

    /// Adds a text, or its beginning.
    pub(crate) fn add_text(&self, kind: EventKind, strand: u64, text: &str) {
        let ticks = self.ticks();
        for part in text.as_bytes().chunks(TEXT).take(MOST_TEXTS) {
            let mut bytes = [0; TEXT];
            bytes[..part.len()].copy_from_slice(part);
            let text = u128::from_le_bytes(bytes);
            self.push_at(ticks, kind, [strand, text as u64, (text >> 64) as u64]);
        }
    }
}

/// The address of static data, which readers follow.
#[inline]
fn address_of<T>(data: &'static T) -> usize {
    std::ptr::from_ref(data).expose_provenance()
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;

    fn written(buffer: &TraceBuffer) -> Vec<EventWords> {
        let mut events = Vec::new();
        buffer.copy(0, usize::MAX, &mut events);
        events
    }

    #[test]
    fn addresses_and_details_come_back() {
        static PURPOSE: &str = "a sleep";
        let buffer = TraceBuffer::new(16, false);
        let location = Location::caller();
        buffer.add_wait(EventKind::Waits, 7, &PURPOSE, location, 0x1234_5678);
        let event = written(&buffer)[0];
        assert_eq!(EventKind::of(&event), Some(EventKind::Waits));
        assert_eq!(event[1], 7);
        assert_eq!(unpack_address(event[2]), (&raw const PURPOSE).addr());
        assert_eq!(unpack_address(event[3]), std::ptr::from_ref(location).addr());
        assert_eq!(unpack_detail(&event), 0x1234_5678);
        // An address that does not fit is left out, and the bits above it stay.
        let packed = pack(1 << ADDRESS_BITS | 5, 9);
        assert_eq!((unpack_address(packed), unpack_bits(packed)), (0, 9));
    }

    #[test]
    fn a_long_text_takes_several_events_and_is_cut_in_the_end() {
        let buffer = TraceBuffer::new(16, false);
        let text = "0123456789abcdefghijklmnopqrstuvwxyz".repeat(3);
        buffer.add_text(EventKind::Named, 1, &text);
        buffer.add_text(EventKind::PanicText, 2, "short");
        let events = written(&buffer);
        assert_eq!(events.len(), MOST_TEXTS + 1);
        let name: Vec<u8> = events[..MOST_TEXTS].iter().flat_map(text_of).collect();
        assert_eq!(name, text.as_bytes()[..MOST_TEXTS * TEXT]);
        assert_eq!(text_of(&events[MOST_TEXTS]), b"short");
    }

    #[test]
    fn each_kind_has_its_number() {
        for (index, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(EventKind::of(&[kind as u64, 0, 0, 0]), Some(kind));
        }
        for number in [0, 19, 255] {
            assert_eq!(EventKind::of(&[number, 0, 0, 0]), None);
        }
    }
}
