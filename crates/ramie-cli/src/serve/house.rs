//! The connections of a server, and how they are asked to leave.
//!
//! | a guest is | left by | to |
//! |---|---|---|
//! | resting (waits for a request, has no part of one) | bytes arrive | busy |
//! | busy (has a part of a request, or answers one) | the last answer is written | resting, or gone |
//! | gone | | |
//!
//! To stop is to set the flag, to cancel those who accept, to shut the listeners down unless other
//! processes share them, and to end the reading side of each resting guest, whose read then gives
//! "end of stream". Busy guests see the flag when they have answered. A guest who has not asked for
//! anything yet has a second to do so: its request may be under way.
//!
//! The race to fear: a guest goes to rest just when the house is told to stop. The guest first
//! says that it rests, then looks at the flag; the stopper first sets the flag, then looks who
//! rests. All four are SeqCst, so at least one sees the other. If a request comes in just before
//! its reading side is ended, the kernel still hands it out, and it is answered.
//!
//! A descriptor is never ended by number: whoever ends a reading side holds the stream, so it
//! cannot have been closed and given to somebody else.

use std::{
    collections::HashMap,
    io,
    net::Shutdown,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ramie::{
    cancel::{self, CancelHandle},
    net::{TcpListener, TcpStream},
};

pub(super) struct House {
    listeners: Vec<TcpListener>,
    /// Other processes accept from the listener, too.
    is_shared: bool,
    is_stopping: AtomicBool,
    accepting: Mutex<Vec<CancelHandle>>,
    /// Held for a few instructions only, and never across a park: std's lock will do on fibers.
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    next_key: u64,
    present: HashMap<u64, Arc<Seat>>,
}

struct Seat {
    stream: TcpStream,
    is_resting: AtomicBool,
    /// No request has begun yet.
    is_new: AtomicBool,
}

/// One connection; dropping it closes the connection.
pub(super) struct Guest {
    house: Arc<House>,
    key: u64,
    seat: Arc<Seat>,
}

impl House {
    pub(super) fn new(listeners: Vec<TcpListener>, is_shared: bool) -> Self {
        House {
            listeners,
            is_shared,
            is_stopping: AtomicBool::new(false),
            accepting: Mutex::default(),
            guests: Mutex::default(),
        }
    }

    /// Runs `f`, whose accepts fail once the house is told to stop.
    pub(super) fn keep_accepting<T>(&self, f: impl FnOnce() -> T) -> T {
        cancel::scope(|scope| {
            lock(&self.accepting).push(scope.handle());
            // `stop` sets the flag before it looks at the handles.
            if self.is_stopping() {
                scope.cancel();
            }
            f()
        })
    }

    /// Waits for the next connection at one of its doors, which all workers may use if it is the
    /// only one.
    pub(super) fn accept(self: &Arc<Self>, door: usize) -> io::Result<Guest> {
        let (stream, _) = self.listeners[door % self.listeners.len()].accept()?;
        // Answers are written whole; waiting for more to send would only delay them. Where it
        // cannot be set, the connection is about to fail anyway.
        let _ = stream.set_nodelay(true);
        let seat = Arc::new(Seat {
            stream,
            is_resting: AtomicBool::new(false),
            is_new: AtomicBool::new(true),
        });
        let mut guests = self.guests();
        let key = guests.next_key;
        guests.next_key += 1;
        guests.present.insert(key, Arc::clone(&seat));
        drop(guests);
        Ok(Guest { house: Arc::clone(self), key, seat })
    }

    pub(super) fn guests_present(&self) -> usize {
        self.guests().present.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Accepts no more and lets resting guests go; called on any thread.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for accepting in lock(&self.accepting).iter() {
            accepting.cancel();
        }
        for listener in self.listeners.iter().filter(|_| !self.is_shared) {
            // A socket that has failed already needs no ending.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        self.dismiss(|seat| !seat.is_new.load(Ordering::SeqCst));
    }

    /// Lets go of those who have rested all the time since the stop.
    pub(super) fn dismiss_all(&self) {
        self.dismiss(|_| true);
    }

    fn dismiss(&self, is_to_leave: impl Fn(&Seat) -> bool) {
        let present: Vec<_> = self.guests().present.values().cloned().collect();
        for seat in present {
            if seat.is_resting.load(Ordering::SeqCst) && is_to_leave(&seat) {
                let _ = seat.stream.shutdown(Shutdown::Read);
            }
        }
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        lock(&self.guests)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guest {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.seat.stream
    }

    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.house.is_stopping()
    }

    /// Goes to rest; false if it is time to leave instead.
    pub(super) fn rest(&self) -> bool {
        self.seat.is_resting.store(true, Ordering::SeqCst);
        !self.house.is_stopping() || self.seat.is_new.load(Ordering::Relaxed)
    }

    /// A request has begun.
    pub(super) fn be_busy(&self) {
        self.seat.is_resting.store(false, Ordering::Relaxed);
        self.seat.is_new.store(false, Ordering::Relaxed);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let seat = self.house.guests().present.remove(&self.key);
        // Closed here, after the lock is free, unless `stop` is just looking at it.
        drop(seat);
    }
}
