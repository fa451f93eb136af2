//! Attributes that only few strands have, behind one word of the header: a scope, a name, a stack
//! size.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | no attributes |
//! | an even address | the scope |
//! | an odd address | one count of a shared [`SpawnAttributes`], which also knows the scope |
#![allow(unsafe_code)]

use std::{mem::ManuallyDrop, ptr, sync::Arc};

use crate::core::{
    primitive::{AtomicPtr, Ordering, fence},
    strand::ScopeData,
};

/// The options that a spawner may choose.
#[derive(Debug, Default)]
pub(crate) struct SpawnOptions {
    pub(crate) name: Option<String>,
    /// Usable bytes of the stack; 0: the runtime's default.
    pub(crate) stack_size: usize,
    /// For run-queue policies.
    pub(crate) priority: i8,
    /// The strand counts as load of a worker that has not started it yet.
    pub(crate) is_placed: bool,
}

impl SpawnOptions {
    #[inline]
    fn are_default(&self) -> bool {
        self.name.is_none() && self.stack_size == 0 && self.priority == 0 && !self.is_placed
    }
}

/// The options and the scope of a strand, kept out of the header and shared with its handles.
pub(crate) struct SpawnAttributes {
    pub(crate) options: SpawnOptions,
    scope: AtomicPtr<ScopeData>,
}

/// The bit of an odd address.
const IS_SHARED: usize = 1;

/// INVARIANT: as in the table above; the count of a [`SpawnAttributes`] is held until
/// [`Self::drop_all`].
#[derive(Default)]
pub(crate) struct AttributesWord {
    /// Atomic, because the holder of a handle may look at it while the strand leaves its scope.
    word: AtomicPtr<()>,
}

impl AttributesWord {
    #[inline]
    fn get(&self) -> *const () {
        self.word.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, word: *const ()) {
        self.word.store(word.cast_mut(), Ordering::Relaxed);
    }

    /// Stores the attributes of a new strand.
    #[inline]
    pub(crate) fn install(&self, scope: *const ScopeData, options: SpawnOptions) {
        self.set(scope.cast());
        if !options.are_default() {
            let scope = AtomicPtr::new(scope.cast_mut());
            let shared = Arc::into_raw(Arc::new(SpawnAttributes { options, scope }));
            let word = shared.cast::<()>().map_addr(|address| address | IS_SHARED);
            // Release: a strand elsewhere that copies the name (`core/worker/view.rs`) sees it.
            self.word.store(word.cast_mut(), Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn shared_address(&self) -> *const SpawnAttributes {
        let word = self.get();
        match word.addr() & IS_SHARED {
            0 => ptr::null(),
            _ => word.map_addr(|address| address & !IS_SHARED).cast(),
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> Option<&SpawnAttributes> {
        // SAFETY: the invariant: the count is held as long as the strand's header is in use, and
        // the callers hold the header.
        unsafe { self.shared_address().as_ref() }
    }

    /// The attributes for a handle, which may outlive the header.
    #[inline]
    pub(crate) fn share(&self) -> Option<Arc<SpawnAttributes>> {
        let shared = self.shared_address();
        if shared.is_null() {
            return None;
        }
        // SAFETY: the address came from `Arc::into_raw`, and its count stays with the header.
        let held = ManuallyDrop::new(unsafe { Arc::from_raw(shared) });
        Some(Arc::clone(&held))
    }

    #[inline]
    pub(crate) fn scope(&self) -> *const ScopeData {
        match self.shared() {
            None => self.get().cast(),
            Some(shared) => shared.scope.load(Ordering::Relaxed),
        }
    }

    /// The strand leaves its scope, which is not notified.
    pub(crate) fn forget_scope(&self) {
        match self.shared() {
            None => self.set(ptr::null()),
            Some(shared) => shared.scope.store(ptr::null_mut(), Ordering::Relaxed),
        }
    }

    /// Empties the word of a strand that has ended.
    #[inline]
    pub(super) fn drop_all(&self) {
        let shared = self.shared_address();
        self.set(ptr::null());
        if !shared.is_null() {
            // A watchdog that still finds the address has copied the attributes before their end
            // (`core/worker/view.rs`).
            fence(Ordering::Release);
            // SAFETY: the address came from `Arc::into_raw`; the word, which held the count, has
            // just given it up.
            drop(unsafe { Arc::from_raw(shared) });
        }
    }
}
