//! Whether the destructors of this thread's thread-locals run.
//!
//! A coroutine may be suspended inside `LocalKey::with`, and be kept in another thread-local. At
//! the end of the thread the value that it refers to may be destroyed first, so the coroutine must
//! then neither continue nor be unwound. std destroys thread-locals in the reverse of the order in
//! which they were first used (`__cxa_thread_atexit_impl` does so, and so does std's own list on
//! systems without it), and does not report when it begins. A thread-local of this module detects
//! it: all thread-locals that were first used before it are destroyed after it.
//!
//! | this thread | changed by |
//! |---|---|
//! | runs | the destructor of any of this module's keys, or [`begin`] |
//! | ends: [`has_begun`] | nothing |
//!
//! *The race to fear*: the program first uses a thread-local after this module's last key, keeps a
//! coroutine there, and std destroys that thread-local before the key. So there are several keys:
//! one is used at each of the first 16 starts, and then whenever their number has doubled. A key
//! for each suspension would be exact, but would leak about 50 bytes each time, because a key
//! cannot be freed. Rare calls can afford that leak: [`before_locals_end`]. For fibers outside of
//! `run` and those of guests, which a program can hardly keep from being left, it is afforded at
//! each of the first 1,024 waits and lendings ([`note_wait`], [`note_lending`]). The remaining gaps
//! are assumptions about the program, stated in the docs of [`Coroutine`](crate::Coroutine) and of
//! `ramie::fiber`.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
};

/// The hooks by their owners.
type Hooks = [Option<fn()>; 2];

thread_local! {
    // None of these has a destructor, so they are valid until the end of the thread.
    static STARTS: Cell<u64> = const { Cell::new(0) };
    static WAITS: Marked = const { Marked::new() };
    static LENDINGS: Marked = const { Marked::new() };
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
    static HOOKS: Cell<Hooks> = const { Cell::new([None; 2]) };
}

thread_local! {
    static KEPT: Kept = const { Kept(RefCell::new(Vec::new())) };
}

/// Its destructor records that the thread ends.
struct EndMarker;

impl Drop for EndMarker {
    fn drop(&mut self) {
        call_hooks();
        let _ = KEPT.try_with(Kept::call_all);
    }
}

fn call_hooks() {
    begin();
    HOOKS.get().into_iter().flatten().for_each(|hook| hook());
}

/// A key is used at each of this many first starts, and then at each power of two.
const FIRST_STARTS: u64 = 16;

macro_rules! end_markers {
    ($($name:ident)*) => {
        thread_local! {
            $(static $name: EndMarker = const { EndMarker };)*
        }
        /// The first use of a key makes std destroy it before all thread-locals used so far.
        const USES: &[fn()] = &[$(|| {
            // While the key is being destroyed, the end is already recorded.
            let _ = $name.try_with(|_| ());
        }),*];
    };
}

end_markers! {
    T00 T01 T02 T03 T04 T05 T06 T07 T08 T09 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23
    T24 T25 T26 T27 T28 T29 T30 T31 T32 T33 T34 T35 T36 T37 T38 T39 T40 T41 T42 T43 T44 T45 T46 T47
}

/// Records the start of a body that must not outlive the thread-locals in use now.
pub fn note_start() {
    let number = STARTS.get() + 1;
    STARTS.set(number);
    if number <= FIRST_STARTS || number.is_power_of_two() {
        use_next_key(number);
    }
}

#[cold]
fn use_next_key(number: u64) {
    if let Some(use_key) = USES.get(index_of(number)) {
        use_key();
    }
}

fn index_of(number: u64) -> usize {
    let index = match number {
        ..=FIRST_STARTS => number - 1,
        _ => FIRST_STARTS - 1 + u64::from(number.ilog2() - FIRST_STARTS.ilog2()),
    };
    index as usize
}

/// Each of this many first events is marked, and then whenever their number has grown by this share
/// of itself.
const FIRST_MARKED: u64 = 1024;
const SHARE_MARKED: u64 = 64;

/// Events, some of which are marked. The hooks are called before a thread-local that was in use at
/// a mark is destroyed. A mark leaks about 50 bytes until the end of the thread.
struct Marked {
    number: Cell<u64>,
    next: Cell<u64>,
}

impl Marked {
    const fn new() -> Self {
        Marked { number: Cell::new(0), next: Cell::new(1) }
    }

    #[inline]
    fn note(&self) {
        let number = self.number.get() + 1;
        self.number.set(number);
        if number >= self.next.get() {
            self.mark(number);
        }
    }

    #[cold]
    fn mark(&self, number: u64) {
        self.next.set(next_marked(number));
        if !crate::sys::at_thread_end(call_hooks_at_end, std::ptr::null_mut()) {
            note_start();
        }
    }
}

fn next_marked(number: u64) -> u64 {
    number + if number < FIRST_MARKED { 1 } else { number / SHARE_MARKED }
}

/// Records that bodies are suspended that must not outlive the thread-locals in use now, while the
/// thread goes on. Where the C library lacks `__cxa_thread_atexit_impl`, this is as exact as
/// [`note_start`].
#[inline]
pub fn note_wait() {
    WAITS.with(Marked::note);
}

/// Records, as [`note_wait`] does, that a body which may be left suspended when this thread ends is
/// about to lend values, maybe thread-locals, to other threads.
#[inline]
pub fn note_lending() {
    LENDINGS.with(Marked::note);
}

unsafe extern "C" fn call_hooks_at_end(_: *mut c_void) {
    call_hooks();
}

/// Returns whether the destructors of this thread's thread-locals are known to run.
#[must_use]
pub fn has_begun() -> bool {
    HAS_BEGUN.get()
}

/// Records that those destructors run. A destructor of a thread-local that may hold a coroutine
/// calls this before it drops its value.
pub fn begin() {
    HAS_BEGUN.set(true);
}

/// Whose hook it is. The hooks are called in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookOf {
    /// Of runtimes that another loop of the thread drives.
    Guests,
    /// Of the thread's own fibers.
    Fibers,
}

/// Sets a hook that those destructors call, once for each of this module's keys and marks.
pub fn set_hook(owner: HookOf, hook: fn()) {
    let mut hooks = HOOKS.get();
    hooks[owner as usize] = Some(hook);
    HOOKS.set(hooks);
}

/// Calls `f` when this thread ends, before any thread-local that has been used so far is destroyed.
/// Leaks about 50 bytes until then. Where the C library lacks `__cxa_thread_atexit_impl`, as musl
/// does, this is as exact as [`note_start`].
pub fn before_locals_end(f: impl FnOnce() + 'static) {
    let f: Box<dyn FnOnce()> = Box::new(f);
    let pointer = Box::into_raw(Box::new(f));
    if !crate::sys::at_thread_end(call_boxed, pointer.cast()) {
        // SAFETY: it was made above, and `call_boxed` will not be called.
        let f = unsafe { Box::from_raw(pointer) };
        let _ = KEPT.try_with(|kept| kept.0.borrow_mut().push(*f));
        note_start();
    }
}

/// # Safety
/// `f` is a pointer that [`before_locals_end`] has made, and is given to this function once.
unsafe extern "C" fn call_boxed(f: *mut c_void) {
    begin();
    // SAFETY: the caller's promise.
    let f = unsafe { Box::from_raw(f.cast::<Box<dyn FnOnce()>>()) };
    f();
}

/// Closures for the end of a thread whose C library does not keep them.
struct Kept(RefCell<Vec<Box<dyn FnOnce()>>>);

impl Kept {
    fn call_all(&self) {
        loop {
            // In a statement of its own, because `f` may add closures.
            let next = self.0.borrow_mut().pop();
            let Some(f) = next else { return };
            f();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        begin();
        self.call_all();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn each_key_is_used_once() {
        let numbers = (1..=FIRST_STARTS).chain((5..37).map(|power| 1 << power));
        assert!(numbers.map(index_of).eq(0..USES.len()));
    }

    #[test]
    fn a_closure_that_is_called_may_add_another() {
        let calls = Rc::new(Cell::new(0));
        let kept = Rc::new(Kept(RefCell::new(Vec::new())));
        let (theirs, second) = (Rc::clone(&kept), Rc::clone(&calls));
        let first = move || theirs.0.borrow_mut().push(Box::new(move || second.set(1)));
        kept.0.borrow_mut().push(Box::new(first));
        kept.call_all();
        assert_eq!(calls.get(), 1);
    }

    #[test]
    fn the_first_events_are_marked_and_then_few() {
        let mut marked = std::iter::successors(Some(1), |number| Some(next_marked(*number)));
        assert!(marked.by_ref().take(FIRST_MARKED as usize).eq(1..=FIRST_MARKED));
        assert!(marked.take_while(|number| *number < 1 << 32).count() < 1000);
    }
}
