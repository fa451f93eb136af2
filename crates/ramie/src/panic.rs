//! `std::panic`, unchanged: a panic unwinds on the stack of its fiber.

#[allow(deprecated)]
#[doc(no_inline)]
pub use std::panic::PanicInfo;
#[doc(no_inline)]
pub use std::panic::{
    AssertUnwindSafe, Location, PanicHookInfo, RefUnwindSafe, UnwindSafe, catch_unwind, panic_any,
    resume_unwind, set_hook, take_hook,
};
