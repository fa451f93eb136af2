//! The table of a strand's locals.
//!
//! | an entry of the table | means | changed by |
//! |---|---|---|
//! | null | not initialized | [`Locals::put`] |
//! | an address | the value | [`Locals::destroy`], for a value with a destructor |
//! | [`GONE`] | destroyed: the strand is ending | [`Locals::free`] |
//!
//! There is no race: a table is touched by its strand alone, from the strand's own thread. The
//! danger is code of the program, because initializers and destructors use the table while it is
//! being used. So no reference into a table is held while such code runs.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ptr::{self, NonNull},
};

use crate::core::panic;

/// The part of a value that is the same for all types.
pub(super) struct Header {
    /// Drops and frees the value, whose type only the key knows.
    free: unsafe fn(NonNull<Header>),
    /// The number of calls of `with` on the value that have not returned.
    uses: Cell<usize>,
}

/// A value of a strand, in a box of its own, so that it does not move when the table grows.
#[repr(C)]
pub(super) struct Stored<T> {
    header: Header,
    value: T,
}

impl<T> Stored<T> {
    /// Puts a value into memory that [`free_unless_used`] frees.
    pub(super) fn make(value: T) -> NonNull<Header> {
        let header = Header { free: free::<T>, uses: Cell::new(0) };
        NonNull::from(Box::leak(Box::new(Stored { header, value }))).cast()
    }
}

/// # Safety
/// `header` came from `Stored::<T>::make`, and nobody uses it any more.
unsafe fn free<T>(header: NonNull<Header>) {
    // SAFETY: the caller's promise; `make` leaked a box of this very type.
    drop(unsafe { Box::from_raw(header.cast::<Stored<T>>().as_ptr()) });
}

/// Keeps a value alive while it is used, on any stack.
pub(super) struct InUse<T>(NonNull<Stored<T>>);

impl<T> InUse<T> {
    /// # Safety
    /// `header` came from `Stored::<T>::make` and has not been freed.
    #[inline(always)]
    pub(super) unsafe fn new(header: NonNull<Header>) -> Self {
        let in_use = InUse(header.cast());
        let uses = &in_use.stored().header.uses;
        uses.set(uses.get() + 1);
        in_use
    }

    #[inline(always)]
    fn stored(&self) -> &Stored<T> {
        // SAFETY: a value in use is not freed (`free_unless_used`); only shared references exist.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(super) fn value(&self) -> &T {
        &self.stored().value
    }
}

impl<T> Drop for InUse<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let uses = &self.stored().header.uses;
        uses.set(uses.get() - 1);
    }
}

/// Frees a value that is no longer in the table. A value in use is leaked.
///
/// # Safety
/// `header` came from [`Stored::make`], and is in no table any more.
pub(super) unsafe fn free_unless_used(header: *mut Header) {
    let Some(header) = NonNull::new(header).filter(|_| is_value(header)) else { return };
    // SAFETY: an address other than null and `GONE` is that of a value (caller's promise).
    let Header { free, uses } = unsafe { header.as_ref() };
    let (free, is_used) = (*free, uses.get() != 0);
    if is_used {
        return;
    }
    // SAFETY: not in a table and not in use: this is the last reference.
    if !panic::call_quietly(|| unsafe { free(header) }) {
        ramie_driver::sys::fatal(
            "the destructor of a fiber-local value panicked; nobody is left to take the \
             panic. Aborting.",
        )
    }
}

const GONE: *mut Header = ptr::without_provenance_mut(1);

#[inline(always)]
fn is_value(entry: *mut Header) -> bool {
    entry > GONE
}

/// The value of a strand for a key.
pub(super) enum Entry {
    Empty,
    Value(NonNull<Header>),
    Gone,
}

#[derive(Default)]
struct LocalTable {
    /// By the keys' indexes.
    entries: Vec<*mut Header>,
    /// The indexes of values with a destructor, in the order in which they were initialized.
    order: Vec<usize>,
}

/// The locals of one strand.
///
/// INVARIANT: null, or a table from `Box::leak`; a value in it came from [`Stored::make`] for the
/// key with that index.
#[derive(Default)]
pub(crate) struct Locals {
    table: Cell<*mut LocalTable>,
}

impl Locals {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.get().is_null()
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> Entry {
        // SAFETY: the invariant; no method here keeps a reference to the table.
        let table = unsafe { self.table.get().as_ref() };
        let entry = table.and_then(|table| table.entries.get(index)).copied();
        match entry {
            Some(entry) if is_value(entry) => NonNull::new(entry).map_or(Entry::Gone, Entry::Value),
            Some(entry) if !entry.is_null() => Entry::Gone,
            _ => Entry::Empty,
        }
    }

    /// Runs `f`, which calls no code of the program, on the table.
    ///
    /// The exception is a global allocator that uses fiber-locals: it finds an empty table
    /// meanwhile, and a value that it puts there is leaked.
    fn with_table<R>(&self, f: impl FnOnce(&mut LocalTable) -> R) -> R {
        if self.is_empty() {
            self.table.set(Box::leak(Box::default()));
        }
        let place = self.table.get();
        // SAFETY: not null; the invariant, and no reference is held anywhere.
        let mut table = unsafe { place.replace(LocalTable::default()) };
        let result = f(&mut table);
        // SAFETY: as above; it is freed only at the strand's end.
        drop(unsafe { place.replace(table) });
        result
    }

    /// Stores a value; returns the earlier one, which is no longer in the table.
    pub(super) fn put(&self, index: usize, value: NonNull<Header>, drops: bool) -> *mut Header {
        self.with_table(|table| {
            if table.entries.len() <= index {
                table.entries.resize(index + 1, ptr::null_mut());
            }
            let old = std::mem::replace(&mut table.entries[index], value.as_ptr());
            if drops && old.is_null() {
                table.order.push(index);
            }
            old
        })
    }

    fn take_last(&self) -> Option<*mut Header> {
        self.with_table(|table| {
            let index = table.order.pop()?;
            Some(std::mem::replace(&mut table.entries[index], GONE))
        })
    }

    /// A context is attached to the strand: from now on, there is something to do at its end.
    pub(crate) fn note_context(&self) {
        if self.is_empty() {
            self.with_table(|_| ());
        }
    }

    /// Runs the destructors, in the reverse order of initialization, also of values that
    /// destructors initialize meanwhile. Values without a destructor stay usable.
    #[cold]
    pub(crate) fn destroy(&self) {
        while let Some(value) = self.take_last() {
            // SAFETY: the invariant; `take_last` took it out of the table.
            unsafe { free_unless_used(value) };
        }
    }

    /// Frees all values and the table.
    #[cold]
    pub(crate) fn free(&self) {
        self.destroy();
        // The remaining values have no destructor, so no code of the program runs below.
        let entries = self.with_table(|table| std::mem::take(&mut table.entries));
        for value in entries {
            // SAFETY: the invariant; the table is empty.
            unsafe { free_unless_used(value) };
        }
        // SAFETY: the invariant, and `with_table` made sure that there is one; it is used no more.
        drop(unsafe { Box::from_raw(self.table.replace(ptr::null_mut())) });
    }
}
