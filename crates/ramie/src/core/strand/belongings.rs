//! What few strands have, behind one word of the header: a scope, a name, a stack size.
//!
//! | word | means |
//! |---|---|
//! | 0 | nothing |
//! | an even address | the scope |
//! | an odd address | one count of a shared [`Extra`], which also knows the scope |
#![allow(unsafe_code)]

use std::{mem::ManuallyDrop, ptr, sync::Arc};

use crate::core::{
    primitive::{AtomicPtr, Ordering},
    strand::ScopeData,
};

/// What a spawner may ask for.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) name: Option<String>,
    /// Usable bytes of the stack; 0: the runtime's default.
    pub(crate) stack_size: usize,
    /// What a run-queue policy may go by.
    pub(crate) priority: i8,
    /// It counts as load of a worker that has not started it yet.
    pub(crate) is_placed: bool,
}

impl Wishes {
    #[inline]
    fn are_none(&self) -> bool {
        self.name.is_none() && self.stack_size == 0 && self.priority == 0 && !self.is_placed
    }
}

/// What the spawner said about a strand, kept out of the header and shared with its handles.
pub(crate) struct Extra {
    pub(crate) wishes: Wishes,
    scope: AtomicPtr<ScopeData>,
}

const EXTRA: usize = 1;

/// INVARIANT: as in the table above; the count of an [`Extra`] is held until [`Self::drop_all`].
#[derive(Default)]
pub(crate) struct Belongings {
    /// Atomic, because the holder of a handle may look at it while the strand leaves its scope.
    word: AtomicPtr<()>,
}

impl Belongings {
    #[inline]
    fn get(&self) -> *const () {
        self.word.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, word: *const ()) {
        self.word.store(word.cast_mut(), Ordering::Relaxed);
    }

    /// Says what a new strand has.
    #[inline]
    pub(crate) fn install(&self, scope: *const ScopeData, wishes: Wishes) {
        self.set(scope.cast());
        if !wishes.are_none() {
            let scope = AtomicPtr::new(scope.cast_mut());
            let extra: *const Extra = Arc::into_raw(Arc::new(Extra { wishes, scope }));
            self.set(extra.cast::<()>().map_addr(|address| address | EXTRA));
        }
    }

    #[inline]
    fn extra_address(&self) -> *const Extra {
        let word = self.get();
        match word.addr() & EXTRA {
            0 => ptr::null(),
            _ => word.map_addr(|address| address & !EXTRA).cast(),
        }
    }

    #[inline]
    pub(crate) fn extra(&self) -> Option<&Extra> {
        // SAFETY: the invariant: the count is held as long as the strand's header is in use, and
        // the callers hold the header.
        unsafe { self.extra_address().as_ref() }
    }

    /// The extras for a handle, which may outlive the header.
    #[inline]
    pub(crate) fn share_extra(&self) -> Option<Arc<Extra>> {
        let extra = self.extra_address();
        if extra.is_null() {
            return None;
        }
        // SAFETY: the address came from `Arc::into_raw`, and its count stays with the header.
        let held = ManuallyDrop::new(unsafe { Arc::from_raw(extra) });
        Some(Arc::clone(&held))
    }

    #[inline]
    pub(crate) fn scope(&self) -> *const ScopeData {
        match self.extra() {
            None => self.get().cast(),
            Some(extra) => extra.scope.load(Ordering::Relaxed),
        }
    }

    /// The strand leaves its scope without telling it.
    pub(crate) fn forget_scope(&self) {
        match self.extra() {
            None => self.set(ptr::null()),
            Some(extra) => extra.scope.store(ptr::null_mut(), Ordering::Relaxed),
        }
    }

    /// Empties the word of a strand that has ended.
    #[inline]
    pub(super) fn drop_all(&self) {
        let extra = self.extra_address();
        self.set(ptr::null());
        if !extra.is_null() {
            // SAFETY: the address came from `Arc::into_raw`; the word, which held the count, has
            // just given it up.
            drop(unsafe { Arc::from_raw(extra) });
        }
    }
}
