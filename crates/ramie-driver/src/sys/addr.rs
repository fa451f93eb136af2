//! `sockaddr_storage` and its conversions to and from std's addresses.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net as unix;

const FAMILY_UNIX: u16 = 1;
const FAMILY_INET: u16 = 2;
const FAMILY_INET6: u16 = 10;
const LEN_INET: u32 = 16;
const LEN_INET6: u32 = 28;
/// Bytes of a `sockaddr_un` before its path, and of the path at most.
const LEN_FAMILY: u32 = 2;
const LEN_PATH: usize = 108;

/// Room for any socket address, laid out as the kernel's `sockaddr_storage`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct SockAddrStorage {
    family: u16,
    data: [u8; 126],
}

impl Default for SockAddrStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl SockAddrStorage {
    /// The size of the room in bytes: the initial value of `addr_len` when the kernel fills it.
    pub const LEN: u32 = size_of::<SockAddrStorage>() as u32;

    /// Makes an empty room (family 0) for the kernel to fill.
    pub const fn new() -> Self {
        SockAddrStorage { family: 0, data: [0; 126] }
    }

    /// Makes the address of a Unix socket that has no name; returns the number of bytes that count.
    pub const fn unnamed_unix() -> (Self, u32) {
        (SockAddrStorage { family: FAMILY_UNIX, data: [0; 126] }, LEN_FAMILY)
    }

    /// Takes an address as the kernel has written it; None if there are more bytes than room.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (family, data) = bytes.split_first_chunk::<2>()?;
        let data = *data.first_chunk()?;
        Some(SockAddrStorage { family: u16::from_ne_bytes(*family), data })
    }

    /// Stores `addr`; returns the room and the number of bytes that count.
    pub fn from_std(addr: &SocketAddr) -> (Self, u32) {
        let mut room = Self::new();
        room.data[..2].copy_from_slice(&addr.port().to_be_bytes());
        match addr {
            SocketAddr::V4(v4) => {
                room.family = FAMILY_INET;
                room.data[2..6].copy_from_slice(&v4.ip().octets());
                (room, LEN_INET)
            }
            SocketAddr::V6(v6) => {
                room.family = FAMILY_INET6;
                // std hands flowinfo through unchanged, so it is in native order here as well.
                room.data[2..6].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                room.data[6..22].copy_from_slice(&v6.ip().octets());
                room.data[22..26].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (room, LEN_INET6)
            }
        }
    }

    /// Reads an IP address of which the kernel wrote `len` bytes; None if it is of another family.
    pub fn to_std(&self, len: u32) -> Option<SocketAddr> {
        let port = u16::from_be_bytes([self.data[0], self.data[1]]);
        match self.family {
            FAMILY_INET if len >= LEN_INET => {
                let ip = Ipv4Addr::from(self.bytes::<4>(2));
                Some(SocketAddrV4::new(ip, port).into())
            }
            FAMILY_INET6 if len >= LEN_INET6 => {
                let flowinfo = u32::from_ne_bytes(self.bytes(2));
                let ip = Ipv6Addr::from(self.bytes::<16>(6));
                let scope = u32::from_ne_bytes(self.bytes(22));
                Some(SocketAddrV6::new(ip, port, flowinfo, scope).into())
            }
            _ => None,
        }
    }

    /// Stores a Unix address; returns the room and the number of bytes that count.
    pub fn from_unix(addr: &unix::SocketAddr) -> (Self, u32) {
        let mut room = Self::new();
        room.family = FAMILY_UNIX;
        let path = addr.as_pathname().map(|path| path.as_os_str().as_bytes());
        let len = match (path, addr.as_abstract_name()) {
            // The zero after the path counts, if there is room for it.
            (Some(path), _) => (room.put(0, path) + 1).min(LEN_PATH),
            // The name begins after a zero and may hold more of them.
            (None, Some(name)) => 1 + room.put(1, name),
            (None, None) => 0,
        };
        (room, LEN_FAMILY + len as u32)
    }

    /// Reads a Unix address of which the kernel wrote `len` bytes; None if it is of another family.
    pub fn to_unix(&self, len: u32) -> Option<unix::SocketAddr> {
        let len = (len.saturating_sub(LEN_FAMILY) as usize).min(LEN_PATH);
        let read = match &self.data[..len] {
            // The sender had no address of its own; some kernels leave the family out, too.
            [] => unix::SocketAddr::from_pathname(""),
            _ if self.family != FAMILY_UNIX => return None,
            [0, name @ ..] => unix::SocketAddr::from_abstract_name(name),
            path => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(len);
                unix::SocketAddr::from_pathname(OsStr::from_bytes(&path[..end]))
            }
        };
        read.ok()
    }

    /// Copies as many of `bytes` as there is room for, and returns their number.
    fn put(&mut self, at: usize, bytes: &[u8]) -> usize {
        let len = bytes.len().min(LEN_PATH - at);
        self.data[at..at + len].copy_from_slice(&bytes[..len]);
        len
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.data[at..at + N]);
        out
    }
}
