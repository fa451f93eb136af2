//! Streams whose file has an index in a ring's file table, beside the descriptor.
//!
//! An op that names the index saves the kernel the lookup in the process's table and a count on the
//! file: a tenth of the cost of a message through a pipe. The descriptor stays valid: a program may
//! pass it on, duplicate or take it as usual, and if the index cannot be used, the op names the
//! descriptor. An index costs two system calls in a stream's life, so a stream takes one only after
//! [`OPS_BEFORE`] ops.
//!
//! # States of a [`FixedFile`]'s word
//!
//! | `ring:32 \| generation:16 \| index:16` | meaning | changed by |
//! |---|---|---|
//! | ring 0 | no index; the rest counts ops | each submit, by a compare-and-swap |
//! | ring `NONE` | no index, and the stream takes none | nobody |
//! | a ring's number | that index is this file's | the release, before the descriptor is closed |
//!
//! Rings are numbered, and no number is used twice. Only the ring's own thread takes and releases
//! its indices, and an op names an index only if the word has that ring's number and the index's
//! generation. So no op ever finds another file there, in this ring or in another.
//!
//! *The race to fear*: a file in the table stays open when its descriptor is closed, and its peer
//! waits for an end of file that does not come. So the index is released first. A thread other than
//! the ring's cannot do that: it leaves a note, wakes the ring's thread, and closes the descriptor;
//! the peer sees the end when the ring's thread has read the note. Rings of threads that may not
//! read their notes have no table ([`Config::small`](crate::Config::small)), and a ring that is
//! closed empties its table.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::registration::Registration;
use crate::wake::Waker;

/// The number of ops after which a stream takes an index.
const OPS_BEFORE: u64 = 64;

const NONE: u64 = (u32::MAX as u64) << 32;

/// A stream's index in a ring's file table, if it has one. The index is released before the
/// stream's descriptor is closed: by [`Driver::release_file`](crate::Driver::release_file), or else
/// [`release_elsewhere`](Self::release_elsewhere).
#[derive(Debug, Default)]
pub struct FixedFile {
    word: AtomicU64,
    /// The registration with a polling driver, which has no file table.
    pub(crate) registration: Registration,
}

impl FixedFile {
    /// The state of a stream that never takes an index.
    pub const fn never() -> Self {
        FixedFile { word: AtomicU64::new(NONE), registration: Registration::never() }
    }

    /// Returns whether there is an index to release.
    pub fn has_index(&self) -> bool {
        !matches!(self.ring(), 0 | u32::MAX)
    }

    pub(crate) fn ring(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32
    }

    /// The generation and the index.
    pub(crate) fn versioned_index(&self) -> u32 {
        self.word.load(Ordering::Relaxed) as u32
    }

    /// Counts an op; returns whether the caller, and nobody else, must now take an index.
    pub(crate) fn claims_index(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word >> 32 != 0 {
            return false;
        }
        let next = if word + 1 < OPS_BEFORE { word + 1 } else { NONE };
        // Not a plain store: another thread may have stored its ring's index meanwhile. Relaxed:
        // the strand that releases the index got the stream from its users.
        let swapped = self.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
        swapped.is_ok() && next == NONE
    }

    /// The stream has no index any more, and takes no other.
    pub(crate) fn set_none(&self) {
        self.word.store(NONE, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, ring: u32, versioned_index: u32) {
        self.word.store(u64::from(ring) << 32 | u64::from(versioned_index), Ordering::Relaxed);
    }

    /// Leaves the index to the thread of its ring, and wakes that thread.
    pub fn release_elsewhere(&self) {
        if self.has_index()
            && let Some(notes) = Notes::of(self.ring())
        {
            notes.leave(self.versioned_index());
        }
        self.set_none();
    }
}

/// The requests of other threads to release indices of a ring.
#[derive(Debug)]
pub(crate) struct Notes {
    to_release: Mutex<Vec<u32>>,
    has_any: AtomicBool,
    waker: Waker,
}

/// The rings that have tables, about one for each worker.
static RINGS: Mutex<Vec<(u32, Arc<Notes>)>> = Mutex::new(Vec::new());
static LAST_RING: AtomicU32 = AtomicU32::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    /// Gives a ring its number; None when all numbers have been used.
    pub(crate) fn open(waker: Waker) -> Option<(u32, Arc<Self>)> {
        let next = |last: u32| last.checked_add(1).filter(|next| *next != u32::MAX);
        let last = LAST_RING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let (to_release, has_any) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let notes = Arc::new(Notes { to_release, has_any, waker });
        lock(&RINGS).push((last + 1, Arc::clone(&notes)));
        Some((last + 1, notes))
    }

    pub(crate) fn close(ring: u32) {
        lock(&RINGS).retain(|(of, _)| *of != ring);
    }

    fn of(ring: u32) -> Option<Arc<Self>> {
        let rings = lock(&RINGS);
        rings.iter().find(|(of, _)| *of == ring).map(|(_, notes)| Arc::clone(notes))
    }

    fn leave(&self, versioned_index: u32) {
        lock(&self.to_release).push(versioned_index);
        // Release: the ring's thread, when it sees this, finds the note.
        self.has_any.store(true, Ordering::Release);
        self.waker.wake();
    }

    #[inline]
    pub(crate) fn take(&self) -> Vec<u32> {
        if !self.has_any.load(Ordering::Relaxed) || !self.has_any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.to_release))
    }
}

/// The `fixed_file_index` of an op whose file has none; other values are the table's index plus 1.
pub(crate) const NO_INDEX: u16 = 0;

/// The number that an op names instead of a descriptor: the index in the ring's file table.
pub(crate) const fn number_of(fixed_file_index: u16) -> RawFd {
    fixed_file_index as RawFd - 1
}
