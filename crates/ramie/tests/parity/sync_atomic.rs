//! The items of `std::sync::atomic`, in use.

use super::std;

left_to_std! {
    std::sync::atomic {
        types: AtomicBool, AtomicI16, AtomicI32, AtomicI64, AtomicI8, AtomicIsize, AtomicPtr[()],
            AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering;
        functions: ATOMIC_BOOL_INIT, ATOMIC_ISIZE_INIT, ATOMIC_USIZE_INIT, compiler_fence, fence,
            spin_loop_hint;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    Vec::new()
}
