//! Fiber-locals: one value for each strand, as `std::thread_local!` has one for each thread.
//!
//! On a fiber a value belongs to the fiber; on an OS thread, also on one that is a strand, to the
//! thread. A coroutine sees those of the strand that resumes it. Rooms: [`key`] (what a program
//! sees), [`table`] (where a strand keeps its values, and how they end).
//!
//! # What must not happen
//! A reference must not outlive its value. A value dies at its strand's end, and a call of `with`
//! has returned by then, unless it stands on the stack of a coroutine that suspended inside it: of
//! ours or of any library's, which another strand may resume later. So each value counts the calls
//! of `with` that have not returned, and one that is still in use at its strand's end is leaked.

mod key;
mod table;

pub use self::key::{AccessError, LocalKey};
pub(crate) use self::table::Locals;

/// Declares values of which each strand has its own; twin of [`std::thread_local!`].
///
/// On a fiber the value belongs to the fiber, on an OS thread to the thread. The initializer runs
/// at the first use, under [`no_switch`](crate::no_switch): it cannot wait. The destructors run
/// when the fiber ends, on its own stack and before anybody who joins it goes on, the value
/// initialized last first; they may wait, and may use other fiber-locals. A fiber that is given up
/// at the end of its runtime leaks its values. A result for which nobody joins is dropped after
/// them. What runs in [`blocking`](crate::blocking()) is on another thread and has that one's
/// values. `ramie::thread_local!` is this macro, too.
///
/// # Examples
/// ```
/// use std::cell::{Cell, RefCell};
///
/// ramie::fiber_local! {
///     static COUNT: Cell<u32> = const { Cell::new(1) };
///     static NAMES: RefCell<Vec<String>> = RefCell::new(vec!["first".to_owned()]);
/// }
///
/// ramie::run(|| {
///     COUNT.set(2);
///     NAMES.with_borrow_mut(|names| names.push("second".to_owned()));
///     let theirs = ramie::fiber::spawn(|| COUNT.get() + NAMES.with_borrow(Vec::len) as u32);
///     assert_eq!(theirs.join().unwrap(), 2);
///     assert_eq!(COUNT.get() + NAMES.with_borrow(Vec::len) as u32, 4);
/// });
/// ```
#[macro_export]
macro_rules! fiber_local {
    () => {};
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = const $init:block
        $(; $($rest:tt)*)?
    ) => {
        $(#[$attribute])*
        $vis static $name: $crate::fiber::LocalKey<$type> =
            $crate::fiber::LocalKey::new(|| const $init);
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr
        $(; $($rest:tt)*)?
    ) => {
        $(#[$attribute])*
        $vis static $name: $crate::fiber::LocalKey<$type> =
            $crate::fiber::LocalKey::new(|| $init);
        $($crate::fiber_local! { $($rest)* })?
    };
}
