//! Several calls at the same time, with values of different types.

use crate::fiber::ScopedJoinHandle;

/// Takes the value of a strand of [`join!`](crate::join), or resumes its panic.
#[doc(hidden)]
#[track_caller]
pub fn finish<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join_or_raise()
}

/// Evaluates expressions at the same time, each except the last on a fiber of its own, and returns
/// a tuple of their values when all have ended. The expressions may borrow. If one panics, the
/// panic is resumed when all have ended.
///
/// The captures and values of all expressions except the last must be `Send`, because any worker
/// may run them. An expression cannot leave the function around it by `?` or `return`, because it
/// runs in a closure.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let name = String::from("borrowed");
///     let (length, upper) = ramie::join!(name.len(), name.to_uppercase());
///     assert_eq!((length, upper.as_str()), (8, "BORROWED"));
/// });
/// ```
#[macro_export]
macro_rules! join {
    ($($call:expr),+ $(,)?) => {
        $crate::fiber::scope(|scope| $crate::join!(@spawn scope () $($call,)+))
    };
    (@spawn $scope:ident ($($handle:ident)*) $last:expr,) => {{
        let last = $last;
        ($($crate::structured::finish($handle),)* last,)
    }};
    (@spawn $scope:ident ($($handle:ident)*) $call:expr, $($rest:expr,)+) => {{
        let handle = $scope.spawn(|| $call);
        $crate::join!(@spawn $scope ($($handle)* handle) $($rest,)+)
    }};
}

/// Evaluates expressions of type `Result` at the same time, and returns a tuple of their values;
/// the first error cancels the others, and the result is
/// [`Err(Failures)`](struct@crate::structured::Failures) when all have ended. Each expression is
/// evaluated on a fiber of its own, and all have the same type of error.
///
/// # Examples
/// ```
/// use std::io;
///
/// ramie::run(|| {
///     let both = ramie::try_join!(io::Result::Ok(1), Ok("two"));
///     assert_eq!(both.unwrap(), (1, "two"));
///     let failed = ramie::try_join!(io::Result::Ok(1), Err::<(), _>(io::Error::other("no")));
///     assert_eq!(failed.unwrap_err().to_string(), "no");
/// });
/// ```
#[macro_export]
macro_rules! try_join {
    ($($call:expr),+ $(,)?) => {
        $crate::structured::try_calls(|scope| $crate::try_join!(@spawn scope () $($call,)+))
    };
    (@spawn $scope:ident ($($handle:ident)*)) => {
        Some(($($handle.join().ok()?,)*))
    };
    (@spawn $scope:ident ($($handle:ident)*) $call:expr, $($rest:expr,)*) => {{
        let handle = $scope.spawn(|| $call);
        $crate::try_join!(@spawn $scope ($($handle)* handle) $($rest,)*)
    }};
}
