//! Defaults of a worker, and the environment variables that set them.

use std::{env, fmt, io};

use ramie_coro::StackSize;
use ramie_driver::Choice;

/// An error about an option that is out of range.
pub(crate) fn invalid(error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

/// The size that a stack of at least `bytes` gets.
pub(crate) fn checked_stack_size(name: &str, bytes: usize) -> io::Result<usize> {
    let (least, most) = (StackSize::MIN_BYTES, StackSize::MAX_BYTES);
    let size = StackSize::new(bytes).map_err(|_| {
        invalid(format!(
            "{name} is {bytes} bytes, but must be between {least} (32 KiB) and {most} (1 GiB)"
        ))
    })?;
    Ok(size.usable_bytes())
}

/// The value of `RAMIE_STACK`, if it is set.
pub(crate) fn stack_size_from_env() -> io::Result<Option<usize>> {
    let Ok(text) = env::var("RAMIE_STACK") else { return Ok(None) };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let bytes = text.trim().parse().map_err(|_| {
        invalid(format!("RAMIE_STACK is '{text}', but must be a number of bytes, such as 262144"))
    })?;
    checked_stack_size("RAMIE_STACK", bytes).map(Some)
}

/// The stack size of fibers on threads outside `run`.
pub(super) fn default_stack_size() -> usize {
    stack_size_from_env().ok().flatten().unwrap_or(ramie_coro::DEFAULT_USABLE_BYTES)
}

/// The driver of threads outside `run`.
pub(super) fn default_driver_choice() -> Choice {
    Choice::from_env().unwrap_or(Choice::Auto)
}
