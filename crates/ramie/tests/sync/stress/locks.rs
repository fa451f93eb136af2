//! Mutex, RwLock, Semaphore, and a buffer under a Mutex with two Condvars.

use std::{collections::VecDeque, sync::Arc};

use ramie::sync::{
    AcquireTimeoutError, Condvar, Mutex, RwLock, RwLockWriteGuard, Semaphore, TryAcquireError,
};

use super::{
    kinds::{Actor, Role, against_model, cancellable},
    model::Model,
};

const STEPS: usize = 6;

/// Four strands that each do `step` some times.
fn four<C: 'static, T: Send + Sync + 'static>(
    shared: T,
    step: impl Fn(&T, &mut Actor<C>) + Copy + Send + 'static,
) -> Vec<Role<C>> {
    let shared = Arc::new(shared);
    let role = |_| -> Role<C> {
        let shared = Arc::clone(&shared);
        Box::new(move |actor| (0..STEPS).for_each(|_| step(&shared, actor)))
    };
    (0..4).map(role).collect()
}

#[derive(Debug)]
pub(crate) enum Lock {
    Locked,
    Tried(bool),
    WaitedInTime(bool),
    Unlocked,
}

/// The holder of the lock.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Holder(Option<usize>);

impl Model for Holder {
    type Call = Lock;

    fn after(&self, strand: usize, call: &Lock) -> Option<Self> {
        match call {
            Lock::Locked | Lock::Tried(true) | Lock::WaitedInTime(true) => {
                self.0.is_none().then_some(Holder(Some(strand)))
            }
            Lock::Tried(false) => self.0.is_some().then(|| self.clone()),
            Lock::WaitedInTime(false) => Some(self.clone()),
            Lock::Unlocked => (self.0 == Some(strand)).then_some(Holder(None)),
        }
    }
}

#[test]
fn a_mutex() {
    let step = |mutex: &Mutex<u64>, actor: &mut Actor<Lock>| {
        let mut guard = None;
        let choice = actor.random.below(4);
        let moment = actor.moment();
        actor.call(|| match choice {
            0 => {
                guard = Some(mutex.lock().unwrap());
                Lock::Locked
            }
            1 => {
                guard = mutex.try_lock().ok();
                Lock::Tried(guard.is_some())
            }
            2 => {
                guard = cancellable(|| mutex.lock_or_cancelled()).ok().map(Result::unwrap);
                Lock::WaitedInTime(guard.is_some())
            }
            _ => {
                guard = mutex.lock_timeout(moment).ok();
                Lock::WaitedInTime(guard.is_some())
            }
        });
        actor.pause();
        if guard.is_some() {
            actor.call(|| {
                guard = None;
                Lock::Unlocked
            });
        }
    };
    against_model("Mutex", 60, |_| (Holder::default(), four(Mutex::new(0), step)));
}

#[derive(Debug)]
pub(crate) enum Share {
    Read,
    TriedToRead(bool),
    Written,
    TriedToWrite(bool),
    Cancelled,
    Downgraded,
    EndedReading,
    EndedWriting,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Sharers {
    readers: usize,
    writers: usize,
}

impl Model for Sharers {
    type Call = Share;

    fn after(&self, _: usize, call: &Share) -> Option<Self> {
        let Sharers { readers, writers } = *self;
        let after = |is_possible: bool, readers, writers| {
            is_possible.then_some(Sharers { readers, writers })
        };
        let is_held = readers + writers > 0;
        match call {
            Share::Read | Share::TriedToRead(true) => after(writers == 0, readers + 1, 0),
            Share::Written | Share::TriedToWrite(true) => after(!is_held, 0, 1),
            // Among readers, too: a writer may be waiting.
            Share::TriedToRead(false) | Share::TriedToWrite(false) => {
                after(is_held, readers, writers)
            }
            Share::Cancelled => after(true, readers, writers),
            Share::Downgraded => after(writers == 1, 1, 0),
            Share::EndedReading => after(readers > 0, readers.wrapping_sub(1), writers),
            Share::EndedWriting => after(writers == 1, readers, 0),
        }
    }
}

fn use_rwlock(lock: &RwLock<u64>, actor: &mut Actor<Share>) {
    let (mut read, mut write) = (None, None);
    let choice = actor.random.below(6);
    actor.call(|| match choice {
        4 => {
            read = cancellable(|| lock.read_or_cancelled()).ok().map(Result::unwrap);
            if read.is_some() { Share::Read } else { Share::Cancelled }
        }
        5 => {
            write = cancellable(|| lock.write_or_cancelled()).ok().map(Result::unwrap);
            if write.is_some() { Share::Written } else { Share::Cancelled }
        }
        0 => {
            read = Some(lock.read().unwrap());
            Share::Read
        }
        1 => {
            read = lock.try_read().ok();
            Share::TriedToRead(read.is_some())
        }
        2 => {
            write = Some(lock.write().unwrap());
            Share::Written
        }
        _ => {
            write = lock.try_write().ok();
            Share::TriedToWrite(write.is_some())
        }
    });
    actor.pause();
    if let Some(guard) = write {
        if actor.random.below(2) == 0 {
            actor.call(|| {
                drop(guard);
                Share::EndedWriting
            });
        } else {
            actor.call(|| {
                read = Some(RwLockWriteGuard::downgrade(guard));
                Share::Downgraded
            });
            actor.pause();
        }
    }
    if let Some(guard) = read {
        actor.call(|| {
            drop(guard);
            Share::EndedReading
        });
    }
}

#[test]
fn a_rwlock() {
    against_model("RwLock", 60, |_| (Sharers::default(), four(RwLock::new(0), use_rwlock)));
}

#[derive(Debug)]
pub(crate) enum Permit {
    Acquired(u32),
    Tried(u32, Result<(), TryAcquireError>),
    WaitedInTime(u32, Result<(), AcquireTimeoutError>),
    Refused,
    GaveBack(u32),
    Closed,
}

const PERMITS: u32 = 3;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Permits {
    free: u32,
    is_closed: bool,
}

impl Model for Permits {
    type Call = Permit;

    fn after(&self, _: usize, call: &Permit) -> Option<Self> {
        let stays = |is_possible: bool| is_possible.then(|| self.clone());
        match call {
            Permit::Acquired(count)
            | Permit::Tried(count, Ok(()))
            | Permit::WaitedInTime(count, Ok(())) => {
                let is_open = !self.is_closed;
                let free = self.free.checked_sub(*count)?;
                is_open.then_some(Permits { free, is_closed: false })
            }
            // Others may be waiting, for more than there is.
            Permit::Tried(_, Err(TryAcquireError::NoPermits)) => {
                stays(self.free < PERMITS && !self.is_closed)
            }
            Permit::WaitedInTime(
                _,
                Err(AcquireTimeoutError::Timeout | AcquireTimeoutError::Cancelled),
            ) => stays(true),
            Permit::Refused
            | Permit::Tried(_, Err(TryAcquireError::Closed))
            | Permit::WaitedInTime(_, Err(AcquireTimeoutError::Closed)) => stays(self.is_closed),
            Permit::GaveBack(count) => Some(Permits { free: self.free + count, ..*self }),
            Permit::Closed => Some(Permits { is_closed: true, ..*self }),
        }
    }
}

fn use_semaphore(semaphore: &Semaphore, actor: &mut Actor<Permit>) {
    let mut permit = None;
    let count = 1 + actor.random.below(u64::from(PERMITS)) as u32;
    let choice = actor.random.below(25);
    let moment = actor.moment();
    actor.call(|| match choice {
        0 => {
            semaphore.close();
            Permit::Closed
        }
        1..9 => {
            permit = semaphore.acquire_many(count).ok();
            if permit.is_some() { Permit::Acquired(count) } else { Permit::Refused }
        }
        9..17 => {
            let tried = semaphore.try_acquire_many(count);
            Permit::Tried(count, tried.map(|taken| permit = Some(taken)))
        }
        _ => {
            let waited = cancellable(|| semaphore.acquire_timeout(count, moment));
            Permit::WaitedInTime(count, waited.map(|taken| permit = Some(taken)))
        }
    });
    actor.pause();
    if permit.is_some() {
        actor.call(|| {
            permit = None;
            Permit::GaveBack(count)
        });
    }
}

#[test]
fn a_semaphore() {
    against_model("Semaphore", 60, |_| {
        let permits = Permits { free: PERMITS, is_closed: false };
        (permits, four(Semaphore::new(PERMITS as usize), use_semaphore))
    });
}

#[derive(Debug)]
pub(crate) enum Store {
    Put(u64),
    Taken(u64),
    TookNothing,
}

const PLACES: usize = 2;

impl Model for VecDeque<u64> {
    type Call = Store;

    fn after(&self, _: usize, call: &Store) -> Option<Self> {
        let mut values = self.clone();
        match call {
            Store::Put(value) if values.len() < PLACES => values.push_back(*value),
            Store::Put(_) => return None,
            Store::Taken(value) => (values.pop_front() == Some(*value)).then_some(())?,
            Store::TookNothing => {}
        }
        Some(values)
    }
}

#[derive(Default)]
struct Buffer {
    values: Mutex<VecDeque<u64>>,
    not_full: Condvar,
    not_empty: Condvar,
}

impl Buffer {
    fn put(&self, value: u64) -> Store {
        let values = self.values.lock().unwrap();
        let mut values = self.not_full.wait_while(values, |full| full.len() == PLACES).unwrap();
        values.push_back(value);
        drop(values);
        self.not_empty.notify_one();
        Store::Put(value)
    }

    /// A waiter that gives up must not take a notification along: the last value would stay.
    fn take(&self, actor: &mut Actor<Store>) {
        let (moment, is_patient) = (actor.moment(), actor.random.below(3) == 0);
        actor.call(|| {
            let mut values = self.values.lock().unwrap();
            while values.is_empty() {
                if is_patient {
                    values = self.not_empty.wait(values).unwrap();
                } else {
                    let (again, result) = self.not_empty.wait_timeout(values, moment).unwrap();
                    values = again;
                    if result.timed_out() && values.is_empty() {
                        return Store::TookNothing;
                    }
                }
            }
            let value = values.pop_front().unwrap();
            drop(values);
            self.not_full.notify_one();
            Store::Taken(value)
        });
    }
}

#[test]
fn a_buffer_on_condvars() {
    const VALUES: u64 = 8;
    against_model("Condvar", 60, |_| {
        let buffer = Arc::new(Buffer::default());
        let taken = Arc::new(Semaphore::new(2 * VALUES as usize));
        let role = |number: u64| -> Role<Store> {
            let (buffer, taken) = (Arc::clone(&buffer), Arc::clone(&taken));
            if number < 2 {
                return Box::new(move |actor| {
                    for value in 0..VALUES {
                        actor.call(|| buffer.put(number * VALUES + value));
                        actor.pause();
                    }
                });
            }
            // Each value has a permit to be waited for.
            Box::new(move |actor| {
                while let Ok(permit) = taken.try_acquire() {
                    let before = actor.count();
                    while actor.count() == before {
                        buffer.take(actor);
                        actor.forget_if(|call| matches!(call, Store::TookNothing));
                    }
                    permit.forget();
                }
            })
        };
        (VecDeque::new(), (0..4).map(role).collect())
    });
}
