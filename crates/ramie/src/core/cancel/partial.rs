//! The progress of a call that was cancelled half-way.

use std::{error::Error, fmt, io};

use super::{Cancelled, find};

/// The data in the I/O error of a call that moves many bytes and was cancelled half-way.
#[derive(Debug)]
struct Partial {
    cancelled: Cancelled,
    moved: usize,
    unsent: Box<[u8]>,
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, after {} bytes", self.cancelled, self.moved)
    }
}

impl Error for Partial {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cancelled)
    }
}

fn partial(error: &io::Error) -> Option<&Partial> {
    error.get_ref()?.downcast_ref()
}

impl Cancelled {
    /// Returns the reason why an I/O call was cancelled; `None` if it failed for another reason.
    /// An error inside of this one counts as well, such as that of a channel, which becomes an
    /// I/O error by `?`. The errors of channels have no room for the reason, which
    /// [`check_cancelled`](super::check_cancelled) returns.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Cancelled> {
        find(error)
    }
}

/// Returns whether an I/O call failed because it was cancelled, or an error inside of this one says
/// so.
#[must_use]
pub fn is_cancelled(error: &io::Error) -> bool {
    Cancelled::of(error).is_some()
}

/// Returns how many bytes a `write_all`, a `read_exact` or an [`io::copy`](crate::io::copy) had
/// moved when it was cancelled; `None`: another call failed, or for another reason.
///
/// They are the first bytes of the buffer, so the rest begins after them. This crate's sockets,
/// pipes, files, standard streams and ends of children count; a wrapper counts if it hands the
/// whole call on. std's `BufWriter` does if the data is as large as its buffer. If the data is
/// smaller, it has taken all or nothing, and keeps the data that it took: its `flush` continues
/// where it was cancelled.
///
/// `write!` writes in pieces, and the count is that of the last piece alone.
///
/// # Examples
/// ```
/// use std::{io::{Read, Write}, time::Duration};
/// use ramie::{cancel, io};
///
/// ramie::run(|| {
///     let (mut reader, mut writer) = io::pipe()?;
///     let data = vec![7; 1 << 20];
///     let limit = Duration::from_millis(1);
///     let late = cancel::with_timeout(limit, || writer.write_all(&data)).unwrap_err();
///     let sent = cancel::bytes_moved(&late.into_value().unwrap_err()).unwrap();
///     drop(writer);
///     assert_eq!(reader.read_to_end(&mut Vec::new())?, sent);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn bytes_moved(error: &io::Error) -> Option<usize> {
    partial(error).map(|partial| partial.moved)
}

/// Returns the bytes that an [`io::copy`](crate::io::copy) had read and not yet written when it was
/// cancelled; empty for all other errors.
#[must_use]
pub fn unsent_bytes(error: &io::Error) -> &[u8] {
    partial(error).map_or(&[], |partial| &partial.unsent)
}

/// Adds the progress of a cancelled call to its error. Other errors stay as they are, even if a
/// cancellation lies inside of them, because their own types would be lost.
#[cold]
pub(crate) fn after(error: io::Error, moved: usize, unsent: &[u8]) -> io::Error {
    let itself = || error.get_ref()?.downcast_ref::<Cancelled>();
    match partial(&error).map(|partial| &partial.cancelled).or_else(itself).cloned() {
        None => error,
        Some(cancelled) => {
            io::Error::new(error.kind(), Partial { cancelled, moved, unsent: unsent.into() })
        }
    }
}
