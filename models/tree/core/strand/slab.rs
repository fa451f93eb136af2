//! Memory of headers. As in the runtime it is never freed, but each run of a model reuses it from
//! the start.

use std::{cell::RefCell, mem::MaybeUninit, ptr};

use super::header::StrandHeader;
use crate::core::{
    primitive::{AtomicPtr, AtomicU64, Cell},
    wait::completion::Completion,
};

#[derive(Default)]
struct StrandHeaders {
    places: Vec<*mut StrandHeader>,
    in_use: usize,
}

// This belongs to the OS thread that runs the model; the model's own threads are coroutines on it.
thread_local! {
    static HEADERS: RefCell<StrandHeaders> = RefCell::default();
}

/// Begins a run of a model.
pub(crate) fn reset() {
    HEADERS.with_borrow_mut(|headers| headers.in_use = 0);
}

/// Makes the header of a thread.
pub(crate) fn take() -> &'static StrandHeader {
    let fresh = StrandHeader {
        word: AtomicU64::new(0),
        link: AtomicPtr::new(ptr::null_mut()),
        join: Completion::new(),
        stack: Cell::new(ptr::null()),
        table: Cell::new(ptr::null()),
        attributes: Default::default(),
        payload: Cell::new([MaybeUninit::uninit(); _]),
    };
    let place = HEADERS.with_borrow_mut(|headers| {
        if headers.in_use == headers.places.len() {
            headers.places.push(Box::into_raw(Box::<StrandHeader>::new_uninit()).cast());
        }
        headers.in_use += 1;
        headers.places[headers.in_use - 1]
    });
    // SAFETY: the memory was allocated for a header, and the run that used it before is over.
    unsafe { place.write(fresh) };
    // SAFETY: written above; never freed.
    let header = unsafe { &*place };
    header.open(true);
    header
}

pub(crate) fn header_at(index: u32) -> &'static StrandHeader {
    let place = HEADERS.with_borrow(|headers| headers.places[index as usize]);
    // SAFETY: the index comes from a header that `take` made.
    unsafe { &*place }
}

pub(super) fn index_of(header: &StrandHeader) -> u32 {
    let found = HEADERS.with_borrow(|headers| {
        headers.places.iter().position(|place| ptr::eq(*place, header))
    });
    found.expect("headers come from `take`") as u32
}
