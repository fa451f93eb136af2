//! Whether this process adopts orphaned descendants.

use std::io;

use ramie_driver::sys;

/// Chooses whether this process, instead of init, becomes the parent of a descendant whose own
/// parent ends first.
///
/// A supervisor can thereby wait for programs that put themselves into the background. It must wait
/// for each of them, because otherwise they remain as zombies:
/// [`ring::waitid`](crate::ring::waitid) takes any process id, or `WaitId::All`. The choice applies
/// to the whole process; its children do not inherit it.
///
/// # Blocking
/// Never.
///
/// # Errors
/// The kernel is older than Linux 3.4.
///
/// # Examples
/// ```
/// use ramie::process;
///
/// process::set_subreaper(true)?;
/// assert!(process::is_subreaper()?);
/// # process::set_subreaper(false)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_subreaper(is_subreaper: bool) -> io::Result<()> {
    sys::set_subreaper(is_subreaper)
}

/// Returns whether orphaned descendants become children of this process.
///
/// # Errors
/// As [`set_subreaper`].
pub fn is_subreaper() -> io::Result<bool> {
    sys::is_subreaper()
}
