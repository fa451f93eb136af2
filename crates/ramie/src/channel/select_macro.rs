//! The macro `select!`.

/// Waits until one of several channel operations can be carried out, carries it out, and runs the
/// expression of its arm.
///
/// - `recv(receiver) -> result => expression`
/// - `send(sender, value) -> result => expression`: `value` is evaluated before the wait, and
///   dropped if another arm runs, also the `default` arm after a timeout.
/// - `send(sender, mut slot) -> result => expression`: sends the value in `slot`, an `Option`,
///   which is taken out only if this arm is chosen. An arm with an empty slot is never chosen.
/// - `default => expression`: runs if no operation can be carried out at once.
/// - `default(timeout) => expression`: runs if no operation could be carried out within `timeout`.
///
/// Exactly one arm runs. If several can, one of them is chosen at random. An arm whose channel is
/// disconnected can run at once; its result is an error.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until an operation can be carried out. With a
/// `default` arm without a timeout it never parks.
///
/// # Cancellation
/// A cancel point, unless there is a `default` arm without a timeout. In a cancelled scope the
/// first arm (but not a `send` with an empty slot) runs, and its result is `Cancelled`, with the
/// value that was to be sent. If all arms are sends with empty slots, a `default` arm with a
/// timeout ends the wait, and a cancellation does not.
///
/// # Panics
/// If it would wait for ever, because all arms are sends with empty slots and there is no
/// `default` arm. Inside [`no_switch`](crate::no_switch()), if the call would have to wait. If it
/// would have to wait on a fiber in a destructor that runs during a panic, the process ends with a
/// message.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie::{channel, fiber, select};
/// ramie::run(|| {
///     let (sender, receiver) = channel::bounded(0);
///     let (stop, stopped) = channel::bounded::<()>(0);
///     fiber::spawn(move || {
///         sender.send(7).unwrap();
///         drop(stop);
///     });
///     let mut sum = 0;
///     loop {
///         select! {
///             recv(receiver) -> value => sum += value.unwrap_or(0),
///             recv(stopped) -> _ => break,
///             default(Duration::from_secs(5)) => panic!("nothing came"),
///         }
///     }
///     assert_eq!(sum, 7);
/// });
/// ```
#[macro_export]
macro_rules! select {
    (@parse $arms:tt $default:tt , $($rest:tt)*) => {
        $crate::select!(@parse $arms $default $($rest)*)
    };
    (@parse [$($arms:tt)*] $default:tt
        recv($receiver:expr) -> $result:pat => $body:block $($rest:tt)*
    ) => {
        $crate::select!(@parse
            [$($arms)* (arm $crate::channel::__private::RecvArm::new(&$receiver), $result, $body)]
            $default $($rest)*)
    };
    (@parse [$($arms:tt)*] $default:tt
        recv($receiver:expr) -> $result:pat => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::select!(@parse
            [$($arms)* (arm $crate::channel::__private::RecvArm::new(&$receiver), $result, $body)]
            $default $($($rest)*)?)
    };
    (@parse $arms:tt $default:tt send($sender:expr, mut $slot:expr) $($rest:tt)*) => {
        $crate::select!(@send $arms $default
            ($crate::channel::__private::SendArm::from_slot(&$sender, &mut $slot)) $($rest)*)
    };
    (@parse $arms:tt $default:tt send($sender:expr, $value:expr) $($rest:tt)*) => {
        $crate::select!(@send $arms $default
            ($crate::channel::__private::SendArm::new(&$sender, $value)) $($rest)*)
    };
    (@send [$($arms:tt)*] $default:tt ($new:expr) -> $result:pat => $body:block $($rest:tt)*) => {
        $crate::select!(@parse [$($arms)* (arm $new, $result, $body)] $default $($rest)*)
    };
    (@send [$($arms:tt)*] $default:tt
        ($new:expr) -> $result:pat => $body:expr $(, $($rest:tt)*)?
    ) => {
        $crate::select!(@parse [$($arms)* (arm $new, $result, $body)] $default $($($rest)*)?)
    };
    (@parse $arms:tt [] default => $body:block $($rest:tt)*) => {
        $crate::select!(@parse $arms [select_now () $body] $($rest)*)
    };
    (@parse $arms:tt [] default => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@parse $arms [select_now () $body] $($($rest)*)?)
    };
    (@parse $arms:tt [] default($timeout:expr) => $body:block $($rest:tt)*) => {
        $crate::select!(@parse $arms [select_within ($timeout) $body] $($rest)*)
    };
    (@parse $arms:tt [] default($timeout:expr) => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@parse $arms [select_within ($timeout) $body] $($($rest)*)?)
    };
    (@parse $arms:tt []) => {
        $crate::select!(@run $arms select_by () (::std::unreachable!("no arm was chosen")))
    };
    (@parse $arms:tt [$wait:ident $timeout:tt $body:expr]) => {
        $crate::select!(@run $arms $wait $timeout ($body))
    };
    (@run [$(($arm:ident $new:expr, $result:pat, $body:expr))*]
        $wait:ident ($($timeout:expr)?) ($default:expr)
    ) => {
        match ($($new,)*) {
            ($(mut $arm,)*) => {
                $crate::channel::__private::$wait(&mut [$($arm.arm()),*] $(, $timeout)?);
                $(if $arm.is_chosen() {
                    let $result = $arm.result();
                    $body
                } else)* {
                    $default
                }
            }
        }
    };
    (@ $($rest:tt)*) => {
        ::std::compile_error!(
            "select! takes `recv(receiver) -> result => expression`, \
             `send(sender, value) -> result => expression`, and at most one \
             `default => expression` or `default(timeout) => expression`"
        )
    };
    ($($arms:tt)+) => {
        $crate::select!(@parse [] [] $($arms)+)
    };
}
