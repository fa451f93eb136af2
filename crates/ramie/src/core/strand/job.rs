//! The closure of a strand and, later, its value: each lies in the header if it fits in 16 bytes,
//! otherwise in a box. The value, or the payload of a panic, replaces the closure.
//!
//! | phase | payload holds | changed by |
//! |---|---|---|
//! | installed | the closure | [`JobTable::run`] (moves it out) or [`JobTable::discard`] (drops it) |
//! | running | nothing | the end of the closure, which stores the outcome |
//! | ended | the value; or a payload, and then the table is one of [`WITHOUT_VALUE`] | [`take_outcome`] or [`JobTable::drop_outcome`] |
#![allow(unsafe_code)]

use std::any::{self, Any};

use super::header::{INLINE_WORDS, StrandHeader};
use crate::core::{
    panic,
    strand::{NoValue, Raised},
    worker::was_reported,
};

/// The payload of a panic, or the reason why there is no value.
type Payload = Box<dyn Any + Send>;

/// The operations on a payload whose types only the spawner and the joiner know.
pub(crate) struct JobTable {
    /// Runs the installed closure and stores its outcome. Returns whether the closure panicked.
    pub(super) run: unsafe fn(&StrandHeader) -> bool,
    /// Drops the installed closure.
    discard: unsafe fn(&StrandHeader),
    /// Drops the stored value or payload.
    drop_outcome: unsafe fn(&StrandHeader),
    /// Returns the closure's name, which the compiler derives from the function around it. A
    /// `Location` would be one more word in each strand, and a header has no room for it.
    name: fn() -> &'static str,
    /// The reason why there is no value; set only in the tables of [`WITHOUT_VALUE`]. The address
    /// of the table identifies these strands. Because the compiler may merge equal constants, this
    /// field makes each table differ from all others.
    end: Option<NoValue>,
}

struct TableOf<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> TableOf<F, T> {
    const TABLE: JobTable = JobTable {
        run: __rust_begin_short_backtrace::<F, T>,
        discard: drop_as::<F>,
        drop_outcome: drop_as::<T>,
        name: any::type_name::<F>,
        end: None,
    };
}

/// The tables of strands that have no value, one for each reason, in the order of [`NoValue`]. The
/// tables of other strands have other addresses.
static WITHOUT_VALUE: [JobTable; 3] = [
    without_value(NoValue::Panicked),
    without_value(NoValue::PanickedSilently),
    without_value(NoValue::NotRun),
];

const fn without_value(why: NoValue) -> JobTable {
    JobTable {
        run: never_runs,
        discard: drop_as::<Payload>,
        drop_outcome: drop_as::<Payload>,
        name: || "",
        end: Some(why),
    }
}

unsafe fn never_runs(_: &StrandHeader) -> bool {
    unreachable!("a strand that has ended does not run")
}

const fn is_inline<V>() -> bool {
    size_of::<V>() <= INLINE_WORDS * 8 && align_of::<V>() <= 8
}

/// Writes `value` into the payload.
///
/// # Safety
/// The caller owns the payload (see the phases) and it holds nothing.
#[inline]
unsafe fn write<V>(header: &StrandHeader, value: V) {
    let payload = header.payload.as_ptr();
    if is_inline::<V>() {
        // SAFETY: `is_inline` checked size and alignment; the caller owns the payload.
        unsafe { payload.cast::<V>().write(value) }
    } else {
        // SAFETY: a pointer fits into the payload, which the caller owns.
        unsafe { payload.cast::<*mut V>().write(Box::into_raw(Box::new(value))) }
    }
}

/// Moves a value out of the payload.
///
/// # Safety
/// The caller owns the payload and it holds a `V`, put there by [`write`].
#[inline]
unsafe fn read<V>(header: &StrandHeader) -> V {
    let payload = header.payload.as_ptr();
    if is_inline::<V>() {
        // SAFETY: the caller's promise: a `V` was written here by `write`, which chose the same.
        return unsafe { payload.cast::<V>().read() };
    }
    // SAFETY: as above; `write` put a pointer from `Box::into_raw` here.
    let boxed = unsafe { payload.cast::<*mut V>().read() };
    // SAFETY: the pointer came from `Box::into_raw` and is read out once.
    *unsafe { Box::from_raw(boxed) }
}

/// Runs a strand's closure. Because of this function's name, backtraces end here; below it are the
/// runtime's frames (`core/worker/panic_hook.rs`). A separate function with that name would be one
/// more return to predict at a fiber's end.
unsafe fn __rust_begin_short_backtrace<F: FnOnce() -> T, T>(header: &StrandHeader) -> bool {
    // SAFETY: `StrandHeader::run_job` is called once, in the phase "installed".
    let closure = unsafe { read::<F>(header) };
    match panic::catch(closure) {
        // SAFETY: phase "running": the payload was emptied above.
        Ok(value) => unsafe { write(header, value) },
        Err(payload) => {
            let is_reported = was_reported(&*payload);
            let why = if is_reported { NoValue::Panicked } else { NoValue::PanickedSilently };
            // SAFETY: as above.
            unsafe { header.store_payload(payload, why) };
            return true;
        }
    }
    false
}

unsafe fn drop_as<V>(header: &StrandHeader) {
    // SAFETY: the caller is in the phase in which the payload holds a `V`, and leaves it with this.
    let value = unsafe { read::<V>(header) };
    // Nobody asked for the value, so nobody would receive a panic of its destructor.
    panic::drop_quietly(value);
}

/// Puts `closure` into a fresh header.
///
/// # Safety
/// The header is fresh from its free list, and all that `closure` and its result borrow outlives
/// the strand's end and the taking or dropping of its outcome.
#[inline]
pub(crate) unsafe fn install<F: FnOnce() -> T, T>(header: &StrandHeader, closure: F) {
    // SAFETY: a fresh header's payload is empty and belongs to the spawner.
    unsafe { write(header, closure) };
    let table: &'static JobTable = &TableOf::<F, T>::TABLE;
    header.table.set(table);
}

/// Moves the outcome out of an ended strand's header.
///
/// # Safety
/// The caller saw that the header's `join` is done, holds the only handle, and `T` is the type
/// of the installed closure's value.
#[inline]
pub(crate) unsafe fn take_outcome<T>(header: &StrandHeader) -> Result<T, Raised> {
    if header.has_no_value() {
        // SAFETY: the caller's promise, and the strand has no value.
        return Err(unsafe { take_raised(header) });
    }
    // SAFETY: after the end the payload holds the value and belongs to the handle.
    Ok(unsafe { read::<T>(header) })
}

/// # Safety
/// As for [`take_outcome`], of a strand that has no value.
#[cold]
#[inline(never)]
unsafe fn take_raised(header: &StrandHeader) -> Raised {
    let why = header.no_value().expect("a strand without a value has a table of `WITHOUT_VALUE`");
    // SAFETY: a strand without a value has a payload, which belongs to the handle.
    Raised::new(why, unsafe { read::<Payload>(header) })
}

impl StrandHeader {
    fn table(&self) -> &'static JobTable {
        self.try_table().expect("a strand's header has a job from its spawn on")
    }

    fn try_table(&self) -> Option<&'static JobTable> {
        // SAFETY: null, or a constant of the program, which is never unmapped.
        unsafe { self.table.get().as_ref() }
    }

    /// The name of the closure of a strand that has not ended; empty if it has none of its own. Any
    /// thread may ask, and gets the name of the strand that has the header then.
    pub(crate) fn closure_name(&self) -> &'static str {
        self.try_table().map_or("", |table| (table.name)())
    }

    /// Whether the strand has, or had, a closure of its own.
    pub(crate) fn is_spawned(&self) -> bool {
        !self.table.get().is_null()
    }

    /// Runs the closure; returns whether it panicked.
    ///
    /// # Safety
    /// The header is in the phase "installed" and the caller owns its start.
    #[inline]
    pub(crate) unsafe fn run_job(&self) -> bool {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().run)(self) }
    }

    /// Drops the closure of a strand that never started, and stores the reason.
    ///
    /// # Safety
    /// The header is in the phase "installed" and the caller owns its start.
    pub(crate) unsafe fn discard_job(&self, why: Payload) {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().discard)(self) };
        // SAFETY: the payload was emptied just now.
        unsafe { self.store_error(why) };
    }

    /// Stores an error as the outcome of a strand that has no value.
    ///
    /// # Safety
    /// The header is in the phase "running", and its closure never runs again.
    pub(crate) unsafe fn store_error(&self, why: Payload) {
        // SAFETY: the caller's promise.
        unsafe { self.store_payload(why, NoValue::NotRun) };
    }

    /// # Safety
    /// As for [`store_error`](Self::store_error).
    unsafe fn store_payload(&self, payload: Payload, why: NoValue) {
        // SAFETY: the caller's promise: the payload is empty.
        unsafe { write(self, payload) };
        let table = &WITHOUT_VALUE[why as usize];
        debug_assert_eq!(table.end, Some(why));
        self.table.set(table);
    }

    /// Whether the payload holds a panic, or the reason why there is no value.
    #[inline]
    fn has_no_value(&self) -> bool {
        WITHOUT_VALUE.as_ptr_range().contains(&self.table.get())
    }

    /// Returns the reason why there is no value, with the payload's text, if it is a text.
    ///
    /// # Safety
    /// The header is in the phase "ended" and belongs to the caller.
    pub(crate) unsafe fn why_no_value(&self) -> Option<(NoValue, Option<String>)> {
        let why = self.no_value()?;
        // SAFETY: a strand with this table has a payload, which belongs to the caller.
        let payload = unsafe { read::<Payload>(self) };
        let text = panic::message(&*payload).map(str::to_owned);
        // SAFETY: it was read just now.
        unsafe { write(self, payload) };
        Some((why, text))
    }

    /// Returns the reason why an ended strand has no value; None if it has one.
    pub(crate) fn no_value(&self) -> Option<NoValue> {
        if self.has_no_value() { self.table().end } else { None }
    }

    /// Drops the outcome.
    ///
    /// # Safety
    /// The header is in the phase "ended" and belongs to the caller.
    pub(crate) unsafe fn drop_outcome(&self) {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().drop_outcome)(self) };
    }
}
