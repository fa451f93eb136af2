//! Context: values that a caller sets for all the code that it calls, without parameters. Cancel
//! scopes, deadlines and scoped values are frames of the context.
//!
//! ```text
//! Strand.head -> frame -> frame -> segment of a coroutine -> frame of its resumer -> ... -> null
//!                \_ in the coroutine's body _/               \_ in the resumer's frames _/
//! ```
//!
//! A strand (a fiber or an OS thread) has a list of frames, each in the stack frame of a [`with`].
//! A coroutine has a segment of its own, linked in front of its resumer's list when it is resumed
//! and unlinked when it suspends; otherwise the resumer would see the coroutine's values.
//!
//! | state of a segment | changed by |
//! |---|---|
//! | unlinked, empty | a resume, on any strand |
//! | linked | a suspension, the end of the body |
//! | unlinked, with segments of other coroutines | a resume, on any strand |
//! | unlinked, with frames | a resume, on the strand where it was linked before |
//!
//! A coroutine may suspend on the stack of another coroutine that it is resuming. The segment of
//! the other one is then unlinked with its own and linked again with it, possibly on another
//! strand. A segment may have a tag, by which effects and named scopes find the coroutine to
//! suspend: if a segment is in the list, its coroutine is running the code that searches for it.
//!
//! There is no race, because only its own thread touches a strand's list. The danger is a frame
//! that outlives its place in the list, or the other way round. Only [`with`] creates frames, and
//! it removes its frame on every way out, so all frames in a list are alive. If the frame is not
//! the head of the list at that time, a coroutine without a segment has suspended inside [`with`]:
//! a bare one whose scheduler has set no strand for it, or one of another library. The process
//! aborts then. It also aborts if a segment to be unlinked is not in the list.
//!
//! A coroutine without a segment may also suspend inside another coroutine's body. The segment of
//! that body then stays in the list, where the resumer can find it although the body does not run.
//! So a search by tag starts at the caller's stack pointer and checks each segment: the stack of
//! the first must contain the stack pointer, and the stack of each further one must contain the
//! point from which the previous one was resumed. The search ends at a stack that has no segment.
//! has no segment.
#![allow(unsafe_code)]

use std::{
    any::TypeId,
    cell::Cell,
    ops::Range,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
};

use crate::{abort::abort_with, sys::stack_pointer};

/// Identifies one kind of frames, by its address: make it a `static`.
///
/// A constant has no address of its own, because the compiler may merge equal constants. So a key
/// contains memory that could change, which makes a constant a compile error:
/// ```compile_fail,E0716
/// use ramie_coro::context::{self, Key};
/// const KEY: Key = Key::new();
/// context::with(&KEY, &1, || {});
/// ```
#[derive(Debug)]
pub struct Key {
    /// Has a size, so that two keys have two addresses. Has interior mutability, so that keys are
    /// never merged and `&Key::new()` is never a `&'static Key`. It is never read or written.
    _identity: AtomicU8,
}

impl Key {
    /// Creates a key.
    #[must_use]
    pub const fn new() -> Key {
        Key { _identity: AtomicU8::new(0) }
    }
}

impl Default for Key {
    fn default() -> Self {
        Key::new()
    }
}

/// The key of each segment's root. Private, so no other code can search for it.
static SEGMENT: Key = Key::new();

/// The key of a frame at which the search for coroutines ends.
static BARRIER: Key = Key::new();

struct Frame {
    key: &'static Key,
    value: *const (),
    /// INVARIANT: null, or a frame that stays alive and in the list longer than this one.
    parent: Cell<*const Frame>,
}

/// The context of a strand.
#[derive(Debug)]
pub struct Strand {
    head: Cell<*const Frame>,
    id: Cell<u64>,
}

/// The ids of OS threads have this bit, so that they differ from a runtime's ids.
const THREAD_BIT: u64 = 1 << 63;

impl Strand {
    /// Creates an empty context. The id must be unique among the strands with coroutines suspended
    /// inside [`with`]. Its highest bit is reserved, and 0 means "none yet".
    #[must_use]
    pub const fn new(id: u64) -> Strand {
        Strand { head: Cell::new(ptr::null()), id: Cell::new(id) }
    }

    /// Returns the id.
    #[must_use]
    #[inline]
    pub fn id(&self) -> u64 {
        self.id.get()
    }

    /// Returns whether no value is set for the strand.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Gives the strand a new id, when its memory is used for another strand.
    #[inline]
    pub fn set_id(&self, id: u64) {
        self.id.set(id);
    }
}

thread_local! {
    static CURRENT: Cell<*const Strand> = const { Cell::new(ptr::null()) };
    static THREAD: Strand = const { Strand::new(0) };
}

/// Sets the strand that runs on this thread from now on; null means the thread itself.
///
/// # Safety
/// The strand does not move until another one is set on this thread, and it is not current on
/// another thread. It was current when its code last suspended, and is again when the code resumes.
#[inline]
pub unsafe fn set_current(strand: *const Strand) {
    CURRENT.set(strand);
}

/// Returns the strand that runs on this thread: the one set last, else the thread itself.
#[must_use]
#[inline]
pub fn current() -> *const Strand {
    let current = CURRENT.get();
    if current.is_null() { thread_strand() } else { current }
}

#[cold]
fn thread_strand() -> *const Strand {
    static THREADS: AtomicU64 = AtomicU64::new(THREAD_BIT);
    THREAD.with(|strand| {
        if strand.id() == 0 {
            strand.set_id(THREADS.fetch_add(1, Relaxed) + 1);
        }
        ptr::from_ref(strand)
    })
}

#[inline]
fn with_strand<R>(f: impl FnOnce(&Strand) -> R) -> R {
    // SAFETY: either `set_current` set it, whose caller keeps it alive while it is current; or it
    // is this thread's own, which has no destructor and lives as long as the thread.
    f(unsafe { &*current() })
}

/// Returns whether no value is set for the running strand.
#[must_use]
#[inline]
pub fn is_empty() -> bool {
    with_strand(Strand::is_empty)
}

/// Removes a frame, also when `f` panics.
struct Pop<'a>(&'a Frame);

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        with_strand(|strand| {
            if !ptr::eq(strand.head.get(), self.0) {
                abort_out_of_order();
            }
            strand.head.set(self.0.parent.get());
        });
    }
}

#[cold]
fn abort_out_of_order() -> ! {
    abort_with(
        "a scope (a cancel scope, a deadline or a scoped value) was left out of order: a coroutine \
         without a context of its own, such as a bare one, suspended inside it; use Coroutine, or \
         let the scheduler set a strand for each coroutine",
    )
}

/// Calls `f`; in `f` and in all its callees on this strand, [`find`] returns `value` for `key`.
pub fn with<T, R>(key: &'static Key, value: &T, f: impl FnOnce() -> R) -> R {
    let parent = Cell::new(with_strand(|strand| strand.head.get()));
    let frame = Frame { key, value: ptr::from_ref(value).cast(), parent };
    with_strand(|strand| strand.head.set(&frame));
    let _pop = Pop(&frame);
    f()
}

/// Calls `f`; inside of it, effects and named scopes find none of the coroutines that run now.
///
/// For code of the program, such as a waker or the destructor of an unwanted value, that a runtime
/// calls in the middle of its own work, and whose panics it catches: if a coroutine suspended there
/// and were dropped, the runtime would catch its unwinding. The values of the context are found.
pub fn without_coroutines<R>(f: impl FnOnce() -> R) -> R {
    with(&BARRIER, &(), f)
}

/// Finds the innermost value under `key`.
///
/// The pointer has the type that was passed to [`with`]. It is valid until the caller returns or
/// suspends, because a coroutine that is resumed elsewhere finds another value, or none.
#[must_use]
pub fn find(key: &'static Key) -> Option<NonNull<()>> {
    let mut found = None;
    // SAFETY: the closure does not suspend.
    unsafe {
        visit(|at, value| {
            if ptr::eq(at, key) {
                found = NonNull::new(value.cast_mut());
            }
            found.is_none()
        });
    }
    found
}

/// Passes all frames to `f`, innermost first, until it returns false.
///
/// # Safety
/// `f` does not suspend, because the frames of a resumer may be gone afterwards.
pub unsafe fn visit(f: impl FnMut(&'static Key, *const ()) -> bool) {
    let head = with_strand(|strand| strand.head.get());
    // SAFETY: the caller's promise; the frames of the running strand are alive.
    unsafe { visit_from(head, f) };
}

/// Passes all frames of `strand` to `f`, innermost first, until it returns false.
///
/// # Safety
/// The strand belongs to this thread, and `f` does not suspend. So the strand is suspended or runs
/// this call, and its frames stay where they are.
pub unsafe fn visit_of(strand: &Strand, f: impl FnMut(&'static Key, *const ()) -> bool) {
    // SAFETY: the caller's promise.
    unsafe { visit_from(strand.head.get(), f) };
}

/// # Safety
/// `at` is null or the head of a list whose frames stay alive while this runs.
unsafe fn visit_from(mut at: *const Frame, mut f: impl FnMut(&'static Key, *const ()) -> bool) {
    // SAFETY: the head and each parent are null or frames in the list, which are alive
    // (`Frame::parent`), and stay so by the caller's promise.
    while let Some(frame) = unsafe { at.as_ref() } {
        if !ptr::eq(frame.key, &SEGMENT) && !f(frame.key, frame.value) {
            return;
        }
        at = frame.parent.get();
    }
}

/// Finds the innermost segment in the list with this tag, and returns its owner.
#[inline(always)]
pub(crate) fn find_owner(tag: TypeId) -> Option<NonNull<()>> {
    let mut here = stack_pointer();
    let mut at = with_strand(|strand| strand.head.get());
    // SAFETY: the head and each parent are null or frames in the list, which are alive.
    while let Some(frame) = unsafe { at.as_ref() } {
        if ptr::eq(frame.key, &SEGMENT) {
            // SAFETY: only roots have this key, and `link` put pointers to segments there.
            let segment = unsafe { &*at.cast::<Segment>() };
            if !segment.stack.contains(&here) {
                return None;
            }
            if segment.tag == Some(tag) {
                return NonNull::new(segment.owner.get().cast_mut());
            }
            here = segment.resumed_at.get();
        } else if ptr::eq(frame.key, &BARRIER) {
            return None;
        }
        at = frame.parent.get();
    }
    None
}

/// The part of the context that belongs to a coroutine. It must not move once linked.
#[repr(C)]
pub(crate) struct Segment {
    /// The first field, so that a pointer to the root is also a pointer to the segment.
    root: Frame,
    tag: Option<TypeId>,
    owner: Cell<*const ()>,
    /// The addresses of the coroutine's stack.
    stack: Range<usize>,
    /// The stack pointer of the code that linked it.
    resumed_at: Cell<usize>,
    /// The innermost frame; null if there is none but the root. Meaningful while unlinked.
    top: Cell<*const Frame>,
    /// The strand on which it was linked last.
    strand: Cell<u64>,
}

impl Segment {
    pub(crate) fn new(tag: Option<TypeId>, stack: Range<usize>) -> Segment {
        let root = Frame { key: &SEGMENT, value: ptr::null(), parent: Cell::new(ptr::null()) };
        Segment {
            root,
            tag,
            owner: Cell::new(ptr::null()),
            stack,
            resumed_at: Cell::new(0),
            top: Cell::new(ptr::null()),
            strand: Cell::new(0),
        }
    }

    pub(crate) fn tag(&self) -> Option<TypeId> {
        self.tag
    }

    /// Sets the owner that [`find_owner`] returns for the tag.
    pub(crate) fn set_owner(&self, owner: *const ()) {
        self.owner.set(owner);
    }

    /// Whether the coroutine is suspended inside a [`with`] on another strand than the current one.
    #[inline]
    pub(crate) fn is_bound_elsewhere(&self) -> bool {
        !self.top.get().is_null()
            && !self.was_linked_here()
            && self.any(|_, frame| !ptr::eq(frame.key, &SEGMENT))
    }

    /// Whether `f` holds for a frame above the root, innermost first. Only while unlinked.
    fn any(&self, mut f: impl FnMut(*const Frame, &Frame) -> bool) -> bool {
        let mut at = self.top.get();
        // SAFETY: while unlinked, these are frames on suspended stacks, so they do not change.
        while let Some(frame) = unsafe { at.as_ref() }.filter(|_| !ptr::eq(at, &self.root)) {
            if f(at, frame) {
                return true;
            }
            at = frame.parent.get();
        }
        false
    }

    /// Stores the strand in the segments above the root, which are linked with this one.
    #[cold]
    fn carry_along(&self, strand: u64) {
        self.any(|at, frame| {
            if ptr::eq(frame.key, &SEGMENT) {
                // SAFETY: only roots have this key, and `link` put pointers to segments there.
                unsafe { &*at.cast::<Segment>() }.strand.set(strand);
            }
            false
        });
    }

    /// Whether the current strand is the one on which it was linked last.
    #[inline]
    pub(crate) fn was_linked_here(&self) -> bool {
        with_strand(Strand::id) == self.strand.get()
    }

    /// Links the segment in front of the current strand's list, for as long as `self` lives and
    /// until [`unlink`](Self::unlink).
    #[inline]
    pub(crate) fn link(&self) {
        with_strand(|strand| {
            let top = self.top.get();
            if self.strand.replace(strand.id()) != strand.id() && !top.is_null() {
                self.carry_along(strand.id());
            }
            self.resumed_at.set(stack_pointer());
            self.root.parent.set(strand.head.get());
            strand.head.set(if top.is_null() { ptr::from_ref(self).cast() } else { top });
        });
    }

    fn is_below(&self, mut at: *const Frame) -> bool {
        // SAFETY: called with the head of the list, whose frames are alive.
        while let Some(frame) = unsafe { at.as_ref() } {
            at = frame.parent.get();
            if ptr::eq(at, &self.root) {
                return true;
            }
        }
        false
    }

    /// Unlinks the segment from the current strand's list.
    #[inline]
    pub(crate) fn unlink(&self) {
        with_strand(|strand| {
            let top = strand.head.get();
            let is_empty = ptr::eq(top, &self.root);
            if !is_empty && !self.is_below(top) {
                abort_out_of_order();
            }
            strand.head.set(self.root.parent.get());
            self.top.set(if is_empty { ptr::null() } else { top });
        });
    }
}
