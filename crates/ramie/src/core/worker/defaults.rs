//! Defaults of a worker, and the environment variables that set them.

use std::{env, fmt, io};

use ramie_coro::StackSize;
use ramie_driver::{Choice, invalid_value};

const STACK: &str = "RAMIE_STACK";

/// An error about an option that is out of range.
pub(crate) fn invalid(error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

/// The size that a stack of at least `bytes` gets.
pub(crate) fn checked_stack_size(name: &str, bytes: usize) -> io::Result<usize> {
    let (least, most) = (StackSize::MIN_BYTES, StackSize::MAX_BYTES);
    let size = StackSize::new(bytes).map_err(|_| {
        invalid(format!(
            "{name} is {bytes}, but must be between {least} (32 KiB) and {most} (1 GiB) bytes"
        ))
    })?;
    Ok(size.usable_bytes())
}

/// The value of `RAMIE_STACK`, if it is set.
pub(crate) fn stack_size_from_env() -> io::Result<Option<usize>> {
    const EXPECTED: &str = "a number of bytes from 32768 (32 KiB) to 1073741824 (1 GiB)";
    let Some(value) = env::var_os(STACK) else { return Ok(None) };
    let text = value.to_string_lossy();
    if text.trim().is_empty() {
        return Ok(None);
    }
    let size = text.trim().parse().ok().and_then(|bytes| StackSize::new(bytes).ok());
    let size = size.ok_or_else(|| invalid(invalid_value(STACK, &value, EXPECTED)))?;
    Ok(Some(size.usable_bytes()))
}

/// The stack size of fibers on threads outside `run`.
pub(super) fn default_stack_size() -> usize {
    stack_size_from_env().ok().flatten().unwrap_or(ramie_coro::DEFAULT_USABLE_BYTES)
}

/// The driver of threads outside `run`.
pub(super) fn default_driver_choice() -> Choice {
    Choice::from_env().unwrap_or(Choice::Auto)
}
