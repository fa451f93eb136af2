//! `print!` and similar macros, which park the strand where std's would block the worker.

use std::{
    fmt,
    io::{self, Write},
    os::fd::RawFd,
    thread,
};

use super::{standard::write_here, stderr, stdout};

/// Prints to the standard output; twin of [`std::print`].
///
/// # Panics
/// When the write fails.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::io::_print(::std::format_args!($($argument)*)) };
}

/// Prints a line to the standard output; twin of [`std::println`].
///
/// # Panics
/// When the write fails.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => {
        $crate::io::_print(::std::format_args!("{}\n", ::std::format_args!($($argument)*)))
    };
}

/// Prints to the standard error; twin of [`std::eprint`].
///
/// # Panics
/// When the write fails.
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => { $crate::io::_eprint(::std::format_args!($($argument)*)) };
}

/// Prints a line to the standard error; twin of [`std::eprintln`].
///
/// # Panics
/// When the write fails.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($argument:tt)*) => {
        $crate::io::_eprint(::std::format_args!("{}\n", ::std::format_args!($($argument)*)))
    };
}

/// Prints expressions and their values to the standard error, and passes the values on; twin of
/// [`std::dbg`].
///
/// # Panics
/// When the write fails.
#[macro_export]
macro_rules! dbg {
    () => { $crate::eprintln!("[{}:{}:{}]", ::std::file!(), ::std::line!(), ::std::column!()) };
    ($value:expr $(,)?) => {
        match $value {
            value => {
                $crate::eprintln!(
                    "[{}:{}:{}] {} = {:#?}",
                    ::std::file!(), ::std::line!(), ::std::column!(), ::std::stringify!($value),
                    &value,
                );
                value
            }
        }
    };
    ($($value:expr),+ $(,)?) => { ($($crate::dbg! { $value }),+,) };
}

#[doc(hidden)]
#[track_caller]
pub fn _print(arguments: fmt::Arguments<'_>) {
    let stdout = stdout();
    let printed = match thread::panicking() {
        false => stdout.lock().write_fmt(arguments),
        true => match stdout.try_lock() {
            Some(mut lock) => lock.write_fmt(arguments),
            None => print_unlocked(1, arguments),
        },
    };
    check("stdout", printed);
}

#[doc(hidden)]
#[track_caller]
pub fn _eprint(arguments: fmt::Arguments<'_>) {
    let stderr = stderr();
    let printed = match thread::panicking() {
        false => stderr.lock().write_fmt(arguments),
        true => match stderr.try_lock() {
            Some(mut lock) => lock.write_fmt(arguments),
            None => print_unlocked(2, arguments),
        },
    };
    check("stderr", printed);
}

#[track_caller]
fn check(stream: &str, printed: io::Result<()>) {
    if let Err(error) = printed {
        panic!("failed printing to {stream}: {error}");
    }
}

/// A strand that unwinds cannot wait for the holder of the lock, so its text may land in the middle
/// of another line.
#[cold]
fn print_unlocked(fd: RawFd, arguments: fmt::Arguments<'_>) -> io::Result<()> {
    let text = arguments.to_string();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match write_here(fd, rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    Ok(())
}
