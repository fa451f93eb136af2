//! Queues of pointers.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    sync::{Mutex, PoisonError},
};

use ramie::channel::{self, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};

use crate::outcome::{give, guard, required, store, take};

/// A pointer on its way.
struct Pointer(*mut c_void);

// SAFETY: what it points to is C's affair, as the header says.
unsafe impl Send for Pointer {}

/// `ramie_channel`.
pub(crate) struct CChannel {
    /// None: closed.
    sender: Mutex<Option<Sender<Pointer>>>,
    receiver: Receiver<Pointer>,
}

impl CChannel {
    /// A sender, if the channel is open. The lock is not held while the caller waits.
    fn sender(&self) -> Result<Sender<Pointer>, i32> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.clone().ok_or(-libc::EPIPE)
    }
}

/// Borrows a channel of C's.
///
/// # Safety
/// It is null or as the header says.
unsafe fn borrow<'a>(channel: *const CChannel) -> Result<&'a CChannel, i32> {
    // SAFETY: the caller's promise.
    unsafe { channel.as_ref() }.ok_or(-libc::EINVAL)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ramie_channel_new(
    capacity: usize,
    place: *mut *mut CChannel,
) -> c_int {
    guard(|| {
        required(place.cast_const())?;
        let (sender, receiver) = match capacity {
            usize::MAX => channel::unbounded(),
            capacity => channel::bounded(capacity),
        };
        let made = CChannel { sender: Mutex::new(Some(sender)), receiver };
        // SAFETY: as the header says.
        unsafe { store(place, give(made)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_send(channel: *mut CChannel, value: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let sender = unsafe { borrow(channel) }?.sender()?;
        match sender.send(Pointer(value)) {
            Ok(()) => Ok(0),
            Err(SendError::Disconnected(_)) => Err(-libc::EPIPE),
            Err(SendError::Cancelled(_)) => Err(-libc::ECANCELED),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_recv(channel: *mut CChannel, value: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        match unsafe { borrow(channel) }?.receiver.recv() {
            Ok(received) => {
                // SAFETY: as the header says.
                unsafe { store(value, received.0) };
                Ok(0)
            }
            Err(RecvError::Disconnected) => Err(-libc::EPIPE),
            Err(RecvError::Cancelled) => Err(-libc::ECANCELED),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_try_send(channel: *mut CChannel, value: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let sender = unsafe { borrow(channel) }?.sender()?;
        match sender.try_send(Pointer(value)) {
            Ok(()) => Ok(0),
            Err(TrySendError::Full(_)) => Err(-libc::EAGAIN),
            Err(TrySendError::Disconnected(_)) => Err(-libc::EPIPE),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_try_recv(channel: *mut CChannel, value: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        match unsafe { borrow(channel) }?.receiver.try_recv() {
            Ok(received) => {
                // SAFETY: as the header says.
                unsafe { store(value, received.0) };
                Ok(0)
            }
            Err(TryRecvError::Empty) => Err(-libc::EAGAIN),
            Err(TryRecvError::Disconnected) => Err(-libc::EPIPE),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_channel_close(channel: *mut CChannel) {
    guard(|| {
        // SAFETY: as the header says.
        let channel = unsafe { borrow(channel) }?;
        let sender = channel.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its drop wakes receivers, without the lock.
        drop(sender);
        Ok(0)
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_channel_free(channel: *mut CChannel) {
    guard(|| {
        // SAFETY: as the header says.
        drop(unsafe { take(channel) });
        Ok(0)
    });
}
