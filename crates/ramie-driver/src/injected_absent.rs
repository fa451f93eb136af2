//! Stands in for `injected.rs` in a build without the feature `faults`: the kernel's answers count.

// Same name as `injected::InjectedAnswer`: stands in for it in builds without the feature.
/// No answer: it takes no room in a frame, and its methods return constants.
#[derive(Debug)]
pub(crate) struct InjectedAnswer;

impl InjectedAnswer {
    pub(crate) const fn none() -> Self {
        InjectedAnswer
    }

    pub(crate) const fn is_due(&self) -> bool {
        false
    }

    pub(crate) const fn is_again(&self) -> bool {
        false
    }

    pub(crate) const fn take(&self, _is_poll: bool) -> Option<i32> {
        None
    }
}
