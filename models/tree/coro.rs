//! Stand-in for the context of a strand: the thread's own, because each thread has one strand.

pub(crate) mod context {
    use std::cell::RefCell;

    pub(crate) struct Key {
        // Of non-zero size, so that two keys have two addresses.
        _address: u8,
    }

    impl Key {
        pub(crate) const fn new() -> Key {
            Key { _address: 0 }
        }
    }

    type Frames = Vec<(&'static Key, *const ())>;

    loom::thread_local! {
        static FRAMES: RefCell<Frames> = RefCell::default();
    }

    pub(crate) fn is_empty() -> bool {
        FRAMES.with(|frames| frames.borrow().is_empty())
    }

    struct Pop;

    impl Drop for Pop {
        fn drop(&mut self) {
            FRAMES.with(|frames| frames.borrow_mut().pop());
        }
    }

    pub(crate) fn with<T, R>(key: &'static Key, value: &T, f: impl FnOnce() -> R) -> R {
        let frame = (key, std::ptr::from_ref(value).cast());
        FRAMES.with(|frames| frames.borrow_mut().push(frame));
        let _pop = Pop;
        f()
    }

    /// Another strand than the running one, for dumps, which no model has.
    pub(crate) struct Strand;

    /// # Safety
    /// No condition here, as for [`visit`].
    pub(crate) unsafe fn visit_of(_: &Strand, _: impl FnMut(&'static Key, *const ()) -> bool) {}

    /// Shows all frames to `f`, the innermost first, until it returns false.
    ///
    /// # Safety
    /// No condition here. The shipped function requires a closure that does not suspend.
    pub(crate) unsafe fn visit(mut f: impl FnMut(&'static Key, *const ()) -> bool) {
        let frames = FRAMES.with(|frames| frames.borrow().clone());
        let _ = frames.into_iter().rev().all(|(key, value)| f(key, value));
    }
}
