//! Streams whose descriptor has a place in a ring's table of files, beside the descriptor.
//!
//! An op that names the place saves the kernel the look at the process's table and a count on the
//! file: a tenth of what a message through a pipe costs. The descriptor stays in force: a program
//! may pass it on, duplicate or take it as usual, and if the place cannot be used, the op names the
//! descriptor. To take a place costs two system calls in a stream's life, so only a stream that has
//! done [`OPS_BEFORE`] ops takes one.
//!
//! # States of a [`FixedFile`]'s word
//!
//! | `ring:32 \| generation:16 \| slot:16` | meaning | left by |
//! |---|---|---|
//! | ring 0 | no place; the rest counts ops | each submit, by a compare-and-swap |
//! | ring `NONE` | no place, and none to come | nobody |
//! | a ring's number | that place is this file's | the release, before the descriptor is closed |
//!
//! Rings are numbered, and no number is used twice. Only the ring's own thread takes and gives back
//! its places, and an op names one only if the word has that very ring's number and the place's
//! generation. So no op ever finds another file there, in this ring or in another.
//!
//! *The race to fear*: a file in the table stays open when its descriptor is closed, and its peer
//! waits for an end that does not come. So the place is given back first. A thread other than the
//! ring's cannot do that: it leaves a note, wakes the ring's thread, and closes; the peer then sees
//! the end when that thread comes round. Rings of threads that may not come round have no table
//! ([`Config::small`](crate::Config::small)), and one that goes empties its own.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::registration::Registration;
use crate::wake::Waker;

/// After so many ops a stream takes a place.
const OPS_BEFORE: u64 = 64;

const NONE: u64 = (u32::MAX as u64) << 32;

/// A stream's place in a ring's table, if it has one. It goes before the stream's descriptor does:
/// by [`Driver::release_file`](crate::Driver::release_file), or else
/// [`release_elsewhere`](Self::release_elsewhere).
#[derive(Debug, Default)]
pub struct FixedFile {
    word: AtomicU64,
    /// With a polling driver, which has no places.
    pub(crate) registration: Registration,
}

impl FixedFile {
    /// That of a stream which never takes a place.
    pub const fn never() -> Self {
        FixedFile { word: AtomicU64::new(NONE), registration: Registration::never() }
    }

    /// Returns whether there is a place to give back.
    pub fn has_place(&self) -> bool {
        !matches!(self.ring(), 0 | u32::MAX)
    }

    pub(crate) fn ring(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> 32) as u32
    }

    /// The generation and the slot.
    pub(crate) fn place(&self) -> u32 {
        self.word.load(Ordering::Relaxed) as u32
    }

    /// Counts an op; returns whether the caller, and nobody else, is to look for a place now.
    pub(crate) fn claims_place(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word >> 32 != 0 {
            return false;
        }
        let next = if word + 1 < OPS_BEFORE { word + 1 } else { NONE };
        // Not a plain store: another thread may have stored its ring's place meanwhile. Relaxed:
        // the strand that gives the place back got the stream from its users.
        let swapped = self.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
        swapped.is_ok() && next == NONE
    }

    /// It has no place any more, and takes no other.
    pub(crate) fn set_none(&self) {
        self.word.store(NONE, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, ring: u32, place: u32) {
        self.word.store(u64::from(ring) << 32 | u64::from(place), Ordering::Relaxed);
    }

    /// Leaves the place to the thread whose ring it is in, and wakes that.
    pub fn release_elsewhere(&self) {
        if self.has_place()
            && let Some(notes) = Notes::of(self.ring())
        {
            notes.leave(self.place());
        }
        self.set_none();
    }
}

/// The requests of threads to another thread's ring.
#[derive(Debug)]
pub(crate) struct Notes {
    places: Mutex<Vec<u32>>,
    has_any: AtomicBool,
    waker: Waker,
}

/// The rings that have tables.
static RINGS: Mutex<BTreeMap<u32, Arc<Notes>>> = Mutex::new(BTreeMap::new());
static LAST_RING: AtomicU32 = AtomicU32::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    /// Gives a ring its number; none when all have been used.
    pub(crate) fn open(waker: Waker) -> Option<(u32, Arc<Self>)> {
        let next = |last: u32| last.checked_add(1).filter(|next| *next != u32::MAX);
        let last = LAST_RING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let (places, has_any) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let notes = Arc::new(Notes { places, has_any, waker });
        lock(&RINGS).insert(last + 1, Arc::clone(&notes));
        Some((last + 1, notes))
    }

    pub(crate) fn close(ring: u32) {
        lock(&RINGS).remove(&ring);
    }

    fn of(ring: u32) -> Option<Arc<Self>> {
        lock(&RINGS).get(&ring).cloned()
    }

    fn leave(&self, place: u32) {
        lock(&self.places).push(place);
        // Release: the ring's thread, when it sees this, finds the note.
        self.has_any.store(true, Ordering::Release);
        self.waker.wake();
    }

    #[inline]
    pub(crate) fn take(&self) -> Vec<u32> {
        if !self.has_any.load(Ordering::Relaxed) || !self.has_any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.places))
    }
}

/// Where a descriptor lies that has no place.
pub(crate) const NO_SLOT: u16 = 0;

/// The descriptor that an op with a slot names: its number in the ring's table.
pub(crate) const fn index_of(slot: u16) -> RawFd {
    slot as RawFd - 1
}
