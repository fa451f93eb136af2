//! Of the driver, the clock, which stands still, so no grace period ends; and the end of all.

pub(crate) mod sys {
    pub(crate) fn monotonic_ns() -> u64 {
        0
    }

    pub(crate) trait Lent {
        #[allow(dead_code)]
        const WHAT: &'static str;
    }

    /// Without its end: a model that fails unwinds.
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
