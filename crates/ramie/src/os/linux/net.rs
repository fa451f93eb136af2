//! Twins of `std::os::linux::net`.

use std::io;

use ramie_driver::sys::sockopt;

use crate::net::TcpStream;

#[doc(no_inline)]
pub use std::os::linux::net::SocketAddrExt;

/// Linux's own options of TCP streams; twin of [`std::os::linux::net::TcpStreamExt`].
pub trait TcpStreamExt: sealed::Sealed {
    /// Chooses whether acknowledgements are sent at once (`TCP_QUICKACK`). The kernel may change
    /// this later.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a TCP socket.
    fn set_quickack(&self, quickack: bool) -> io::Result<()>;

    /// Returns whether acknowledgements are sent at once.
    ///
    /// # Errors
    /// As for [`TcpStreamExt::set_quickack`].
    fn quickack(&self) -> io::Result<bool>;
}

impl TcpStreamExt for TcpStream {
    fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_quickack(self, quickack)?)
    }

    fn quickack(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_quickack(self)?)
    }
}

mod sealed {
    // Same name as `io::Sealed`: the usual name of a private supertrait.
    pub trait Sealed {}

    impl Sealed for crate::net::TcpStream {}
}
