//! Bytes that were received and not used yet.

use ramie::io::Lease;

/// The unused bytes of a connection: in the runtime's buffer in which they arrived, or copied.
#[derive(Default)]
pub(crate) struct Input {
    held: Held,
    /// Where the search for the end of a head goes on, counted from the first unused byte.
    pub(crate) searched: usize,
}

/// It has a tag of its own (`repr`). Otherwise the compiler hides the tag in the capacity of the
/// vector, and each look at it takes more instructions.
#[derive(Default)]
#[repr(u8)]
enum Held {
    /// Without an allocation, because most connections are idle most of the time.
    #[default]
    Nothing,
    Lease(Lease),
    Copied {
        bytes: Vec<u8>,
        at: usize,
    },
}

impl Input {
    #[inline]
    pub(crate) fn unused(&self) -> &[u8] {
        match &self.held {
            Held::Nothing => &[],
            Held::Lease(lease) => lease,
            Held::Copied { bytes, at } => &bytes[*at..],
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unused().is_empty()
    }

    /// Forgets the first `count` unused bytes.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.searched = 0;
        let is_used = match &mut self.held {
            Held::Nothing => return,
            Held::Lease(lease) => {
                lease.advance(count);
                lease.is_empty()
            }
            Held::Copied { bytes, at } => {
                *at += count;
                *at >= bytes.len()
            }
        };
        if is_used {
            self.held = Held::Nothing;
        }
    }

    /// Adds bytes that have arrived.
    pub(crate) fn add(&mut self, lease: Lease) {
        match &mut self.held {
            Held::Nothing if lease.is_empty() => {}
            Held::Nothing => self.held = Held::Lease(lease),
            _ => self.add_copied(&lease),
        }
    }

    /// As [`add`](Self::add), for bytes in a buffer of the caller.
    pub(crate) fn add_copied(&mut self, more: &[u8]) {
        self.copy();
        match &mut self.held {
            Held::Copied { bytes, at } => {
                bytes.drain(..std::mem::take(at));
                bytes.extend_from_slice(more);
            }
            _ if more.is_empty() => {}
            held => *held = Held::Copied { bytes: more.to_vec(), at: 0 },
        }
    }

    /// Returns the runtime's buffer, if there is one, because other connections need it while this
    /// one waits.
    #[inline]
    pub(crate) fn copy(&mut self) {
        if let Held::Lease(_) = self.held {
            self.copy_lease();
        }
    }

    #[inline(never)]
    fn copy_lease(&mut self) {
        self.held = Held::Copied { bytes: self.unused().to_vec(), at: 0 };
    }
}
