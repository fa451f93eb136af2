//! Stand-ins for the driver's clock, which stands still, so no grace period ends; and for its
//! abort.

pub(crate) mod sys {
    pub(crate) fn monotonic_ns() -> u64 {
        0
    }

    pub(crate) trait Lent {
        #[allow(dead_code)]
        const WHAT: &'static str;
    }

    /// Panics instead of aborting, because a failing model unwinds.
    pub(crate) struct HandedOut<L>(std::marker::PhantomData<L>);

    impl<L: Lent> HandedOut<L> {
        pub(crate) const fn new() -> Self {
            HandedOut(std::marker::PhantomData)
        }

        pub(crate) fn settle(self) {}
    }

    pub(crate) fn fatal(sentence: &str) -> ! {
        panic!("{sentence}")
    }
}
