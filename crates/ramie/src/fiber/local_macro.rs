//! The macro that declares fiber-locals.

/// Declares values that each strand has for itself; twin of [`std::thread_local!`].
///
/// On a fiber the value belongs to the fiber, on an OS thread to the thread. The initializer runs
/// at the first use, under [`no_switch`](crate::no_switch), so it cannot wait. The destructors run
/// when the fiber ends, on its own stack and before the strand that joins it continues, in the
/// reverse order of initialization; they may wait, and may use other fiber-locals. The result of a
/// fiber that is never joined is dropped after its fiber-locals. A fiber that is abandoned at the
/// end of its runtime leaks its values. Closures in [`blocking`](crate::blocking()) run on another
/// thread and use the values of that thread. `ramie::thread_local!` is this macro, too.
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
