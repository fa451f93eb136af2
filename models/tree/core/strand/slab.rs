//! Memory of slots. As in the runtime it is never freed, but each run of a model reuses it from the
//! start.

use std::{cell::RefCell, mem::MaybeUninit, ptr};

use super::slot::Slot;
use crate::core::{
    primitive::{AtomicPtr, AtomicU64, Cell},
    wait::completion::Completion,
};

#[derive(Default)]
struct Slots {
    places: Vec<*mut Slot>,
    in_use: usize,
}

// This belongs to the OS thread that runs the model; the model's own threads are coroutines on it.
thread_local! {
    static SLOTS: RefCell<Slots> = RefCell::default();
}

/// Begins a run of a model.
pub(crate) fn reset() {
    SLOTS.with_borrow_mut(|slots| slots.in_use = 0);
}

/// Makes the slot of a thread.
pub(crate) fn take() -> &'static Slot {
    let fresh = Slot {
        word: AtomicU64::new(0),
        link: AtomicPtr::new(ptr::null_mut()),
        join: Completion::new(),
        body: Cell::new(ptr::null()),
        table: Cell::new(None),
        belongings: Default::default(),
        payload: Cell::new([MaybeUninit::uninit(); _]),
    };
    let place = SLOTS.with_borrow_mut(|slots| {
        if slots.in_use == slots.places.len() {
            slots.places.push(Box::into_raw(Box::<Slot>::new_uninit()).cast());
        }
        slots.in_use += 1;
        slots.places[slots.in_use - 1]
    });
    // SAFETY: the memory was allocated for a slot, and the run that used it before is over.
    unsafe { place.write(fresh) };
    // SAFETY: written above; never freed.
    let slot = unsafe { &*place };
    slot.open(true);
    slot
}

pub(crate) fn slot_at(index: u32) -> &'static Slot {
    let place = SLOTS.with_borrow(|slots| slots.places[index as usize]);
    // SAFETY: the index comes from a slot that `take` made.
    unsafe { &*place }
}

pub(super) fn index_of(slot: &Slot) -> u32 {
    let found =
        SLOTS.with_borrow(|slots| slots.places.iter().position(|place| ptr::eq(*place, slot)));
    found.expect("slots come from `take`") as u32
}
