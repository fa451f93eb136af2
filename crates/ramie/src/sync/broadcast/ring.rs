//! A ring buffer of the values that at least one receiver has not seen yet, by position. No call
//! here waits.

use std::{collections::VecDeque, mem, sync::Arc};

use super::error::TryRecvError;

/// Values at consecutive positions.
///
/// INVARIANT: a slot's `unseen` is the number of receivers whose next position is not after it. So
/// `unseen` never decreases from one slot to the next, and it is never 0, because the front slot is
/// removed as soon as all receivers have seen it.
#[derive(Debug)]
pub(super) struct Ring<T> {
    slots: VecDeque<Slot<T>>,
    /// The position of the front slot, or of the next value if there is no slot.
    first: u64,
    capacity: usize,
    receivers: usize,
}

#[derive(Debug)]
struct Slot<T> {
    value: Arc<T>,
    unseen: usize,
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Ring { slots: VecDeque::new(), first: 0, capacity, receivers: 0 }
    }

    /// The position after the last value.
    pub(super) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn receivers(&self) -> usize {
        self.receivers
    }

    /// Adds a receiver, which starts with the next value; returns the position of that value.
    pub(super) fn subscribe(&mut self) -> u64 {
        self.receivers += 1;
        self.end()
    }

    /// Appends a value if there are receivers; returns the oldest value if it had to make room.
    pub(super) fn push(&mut self, value: Arc<T>) -> Result<Option<Arc<T>>, Arc<T>> {
        if self.receivers == 0 {
            return Err(value);
        }
        let is_full = self.slots.len() == self.capacity;
        let oldest = if is_full { self.pop_front() } else { None };
        self.slots.push_back(Slot { value, unseen: self.receivers });
        Ok(oldest)
    }

    /// Returns the value at a receiver's next position, and advances the position.
    pub(super) fn take(&mut self, next: &mut u64) -> Result<Arc<T>, TryRecvError> {
        if *next < self.first {
            let missed = self.first - mem::replace(next, self.first);
            return Err(TryRecvError::Lagged(missed));
        }
        let index = (*next - self.first) as usize;
        let slot = self.slots.get_mut(index).ok_or(TryRecvError::Empty)?;
        *next += 1;
        slot.unseen -= 1;
        if slot.unseen > 0 {
            return Ok(Arc::clone(&slot.value));
        }
        debug_assert_eq!(index, 0, "those before it were seen by as many");
        self.pop_front().ok_or(TryRecvError::Empty)
    }

    /// Removes a receiver; returns the values that only this receiver had not seen yet.
    pub(super) fn unsubscribe(&mut self, next: u64) -> Vec<Arc<T>> {
        self.receivers -= 1;
        let index = next.saturating_sub(self.first) as usize;
        self.slots.iter_mut().skip(index).for_each(|slot| slot.unseen -= 1);
        let seen = self.slots.iter().take_while(|slot| slot.unseen == 0).count();
        self.first += seen as u64;
        self.slots.drain(..seen).map(|slot| slot.value).collect()
    }

    fn pop_front(&mut self) -> Option<Arc<T>> {
        let slot = self.slots.pop_front()?;
        self.first += 1;
        Some(slot.value)
    }
}
