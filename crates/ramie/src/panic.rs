//! `std::panic`, as it is: what unwinds does so on the stack of the fiber.

#[allow(deprecated)]
#[doc(no_inline)]
pub use std::panic::PanicInfo;
#[doc(no_inline)]
pub use std::panic::{
    AssertUnwindSafe, Location, PanicHookInfo, RefUnwindSafe, UnwindSafe, catch_unwind, panic_any,
    resume_unwind, set_hook, take_hook,
};
