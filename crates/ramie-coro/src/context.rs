//! Context: what the code above a call has set for the code below it, without parameters. Cancel
//! scopes, deadlines and scoped values are frames of it.
//!
//! ```text
//! Strand.head -> frame -> frame -> segment of a coroutine -> frame of its resumer -> ... -> null
//!                \_ in the coroutine's body _/               \_ in the resumer's frames _/
//! ```
//!
//! A strand (a fiber or an OS thread) has a list of frames, each in the stack frame of a [`with`].
//! A coroutine has a segment of its own, linked in front of its resumer's list when it is resumed
//! and taken off when it suspends; else what it set would be seen by its resumer.
//!
//! | state of a segment | left by |
//! |---|---|
//! | off, empty | a resume, on any strand |
//! | linked | a suspension, the end of the body |
//! | off, with other coroutines' segments | a resume, on any strand |
//! | off, with frames | a resume, on the strand where it was linked before |
//!
//! A coroutine may suspend from the stack of another that it is in the middle of resuming. Then the
//! other's segment is taken off with its own and linked again with it, on another strand maybe. A
//! segment may have a tag, by which effects and named scopes find the coroutine to suspend: one
//! whose segment is in the list is in the middle of running the code that looks for it.
//!
//! There is no race: a strand's list is touched by its own thread only. What to fear is a frame
//! that outlives its place in the list, or the other way round. [`with`] alone makes frames, and
//! takes each off on every way out, but only if it is the head: so all frames in a list are alive.
//! It is not the head if a coroutine without a segment suspended inside [`with`]: a bare one whose
//! scheduler has set no strand for it, or another library's. That aborts; so does a segment that is
//! to be taken off and is not in the list.
//!
//! Such a coroutine may also suspend inside another's body, and leave that one's segment in the
//! list for its own resumer to find. So a search by tag looks whether it stands on the segment's
//! stack, and whether that was resumed from the next one's. It does not see through a stack that
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

/// Tells one sort of frames from others, by its address: make it a `static`.
///
/// A constant has no address of its own, because the compiler may merge equal constants. So a key
/// has memory that could change, which no constant has:
/// ```compile_fail,E0716
/// use ramie_coro::context::{self, Key};
/// const KEY: Key = Key::new();
/// context::with(&KEY, &1, || {});
/// ```
#[derive(Debug)]
pub struct Key {
    /// Not of size zero, so that two keys have two addresses; interior mutability, so that they are
    /// never merged and `&Key::new()` is never a `&'static Key`. Nobody reads or writes it.
    _identity: AtomicU8,
}

impl Key {
    /// Makes a key.
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

/// The root of each segment; nobody outside can ask for it.
static SEGMENT: Key = Key::new();

struct Frame {
    key: &'static Key,
    value: *const (),
    /// INVARIANT: null, or a frame that stays alive and in the list longer than this one.
    parent: Cell<*const Frame>,
}

/// Holds the context of a strand.
#[derive(Debug)]
pub struct Strand {
    head: Cell<*const Frame>,
    id: Cell<u64>,
}

/// Ids of OS threads have this bit, so that they differ from those that a runtime gives out.
const THREAD_BIT: u64 = 1 << 63;

impl Strand {
    /// Makes an empty context. The id must be unique among strands with coroutines suspended inside
    /// [`with`]; its highest bit is reserved; 0 is taken for "none as yet".
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

    /// Tells whether nothing at all is set for the strand.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Gives the strand a new id, when its place is used for another one.
    #[inline]
    pub fn set_id(&self, id: u64) {
        self.id.set(id);
    }
}

thread_local! {
    static CURRENT: Cell<*const Strand> = const { Cell::new(ptr::null()) };
    static THREAD: Strand = const { Strand::new(0) };
}

/// Says which strand runs on this thread from now on; null means the thread itself.
///
/// # Safety
/// The strand stays where it is until another one is set on this thread, and it is not current on
/// another thread. It was current when its code last suspended, and is again when that goes on.
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
    // SAFETY: set by `set_current`, whose caller keeps it alive while it is current; or this
    // thread's own, which has no destructor and lives as long as the thread.
    f(unsafe { &*current() })
}

/// Tells whether nothing at all is set for the strand that runs.
#[must_use]
#[inline]
pub fn is_empty() -> bool {
    with_strand(Strand::is_empty)
}

/// Takes a frame off again, also when `f` panics.
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
         that has no context of its own, such as a bare one, suspended inside it; use Coroutine, \
         or let the scheduler set a strand for each coroutine",
    )
}

/// Calls `f` with `value` found under `key`, by `f` and by all that it calls on this strand.
pub fn with<T, R>(key: &'static Key, value: &T, f: impl FnOnce() -> R) -> R {
    let parent = Cell::new(with_strand(|strand| strand.head.get()));
    let frame = Frame { key, value: ptr::from_ref(value).cast(), parent };
    with_strand(|strand| strand.head.set(&frame));
    let _pop = Pop(&frame);
    f()
}

/// Finds the innermost value under `key`.
///
/// The pointer is of the type that was given to [`with`]. It may be followed until the caller
/// returns or suspends: a coroutine that is resumed elsewhere finds another value, or none.
#[must_use]
pub fn find(key: &'static Key) -> Option<NonNull<()>> {
    let mut found = None;
    // SAFETY: the closure compares and stores.
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

/// Shows all frames to `f`, the innermost first, until it returns false.
///
/// # Safety
/// `f` does not suspend: the frames of a resumer may be gone afterwards.
pub unsafe fn visit(mut f: impl FnMut(&'static Key, *const ()) -> bool) {
    let mut at = with_strand(|strand| strand.head.get());
    // SAFETY: the head and each parent are null or frames in the list, which are alive
    // (`Frame::parent`), and stay so because `f` does not suspend.
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
            // SAFETY: of this key are roots alone, and `link` put pointers to segments there.
            let segment = unsafe { &*at.cast::<Segment>() };
            if !segment.stack.contains(&here) {
                return None;
            }
            if segment.tag == Some(tag) {
                return NonNull::new(segment.owner.get().cast_mut());
            }
            here = segment.resumed_at.get();
        }
        at = frame.parent.get();
    }
    None
}

/// The part of the context that belongs to a coroutine. It must not move once linked.
#[repr(C)]
pub(crate) struct Segment {
    /// The first field, so that a pointer to the segment is one to its root.
    root: Frame,
    tag: Option<TypeId>,
    owner: Cell<*const ()>,
    /// The addresses of the coroutine's stack.
    stack: Range<usize>,
    /// The stack pointer of whoever linked it.
    resumed_at: Cell<usize>,
    /// The innermost frame; null: none but the root. Meaningful while off.
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

    /// Says what [`find_owner`] is to find under the tag.
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

    /// Asks about the frames above the root, the innermost first. Only while off.
    fn any(&self, mut f: impl FnMut(*const Frame, &Frame) -> bool) -> bool {
        let mut at = self.top.get();
        // SAFETY: while off, these are frames on the suspended stacks: they stay as they are.
        while let Some(frame) = unsafe { at.as_ref() }.filter(|_| !ptr::eq(at, &self.root)) {
            if f(at, frame) {
                return true;
            }
            at = frame.parent.get();
        }
        false
    }

    /// Says in the segments above the root where they are linked.
    #[cold]
    fn carry_along(&self, strand: u64) {
        self.any(|at, frame| {
            if ptr::eq(frame.key, &SEGMENT) {
                // SAFETY: of this key are roots alone, and `link` put pointers to segments there.
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

    /// Takes the segment off the current strand's list.
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
