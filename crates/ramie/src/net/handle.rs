//! The parts that all socket types share.
#![allow(unsafe_code)]

/// Implements the conversions from and to descriptors and std's own type, for a type whose only
/// field is `socket: Socket`.
macro_rules! converts_like_std {
    ($ours:ident, $theirs:ty) => {
        impl From<$theirs> for $ours {
            fn from(theirs: $theirs) -> Self {
                $ours::from(std::os::fd::OwnedFd::from(theirs))
            }
        }

        impl From<$ours> for $theirs {
            fn from(ours: $ours) -> Self {
                <$theirs>::from(std::os::fd::OwnedFd::from(ours))
            }
        }

        impl From<std::os::fd::OwnedFd> for $ours {
            fn from(fd: std::os::fd::OwnedFd) -> Self {
                $ours { socket: $crate::net::socket::Socket::adopt(fd) }
            }
        }

        impl From<$ours> for std::os::fd::OwnedFd {
            fn from(ours: $ours) -> Self {
                ours.socket.into_fd()
            }
        }

        impl std::os::fd::AsFd for $ours {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.socket.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $ours {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.socket.as_fd().as_raw_fd()
            }
        }

        impl std::os::fd::FromRawFd for $ours {
            #[allow(unsafe_code)]
            unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
                // SAFETY: the caller's promise: the descriptor is open and nobody else owns it.
                $ours::from(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
            }
        }

        impl std::os::fd::IntoRawFd for $ours {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self).into_raw_fd()
            }
        }
    };
}

/// Adds the calls about timeouts, for a type as above.
macro_rules! bounded_like_std {
    ($ours:ident) => {
        impl $ours {
            /// Sets the timeout of each read; `None`: reads wait forever. Handles made by
            /// `try_clone` share it.
            ///
            /// # Errors
            /// `InvalidInput`: the timeout is zero.
            pub fn set_read_timeout(
                &self,
                timeout: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.socket.set_timeout($crate::net::socket::Half::Read, timeout)
            }

            /// Sets the timeout of each write; `None`: writes wait forever. Handles made by
            /// `try_clone` share it.
            ///
            /// # Errors
            /// `InvalidInput`: the timeout is zero.
            pub fn set_write_timeout(
                &self,
                timeout: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.socket.set_timeout($crate::net::socket::Half::Write, timeout)
            }

            /// Returns the timeout of each read.
            ///
            /// # Errors
            /// None; the signature is that of std.
            pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                Ok(self.socket.timeout($crate::net::socket::Half::Read))
            }

            /// Returns the timeout of each write.
            ///
            /// # Errors
            /// None; the signature is that of std.
            pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                Ok(self.socket.timeout($crate::net::socket::Half::Write))
            }
        }
    };
}

/// Adds the calls that every socket type has, for a type as above.
macro_rules! shared_like_std {
    ($ours:ident) => {
        impl $ours {
            /// Makes a second handle of the same socket, with the same timeouts.
            ///
            /// # Errors
            /// The process is out of descriptors.
            pub fn try_clone(&self) -> std::io::Result<$ours> {
                Ok($ours { socket: self.socket.try_clone()? })
            }

            /// Takes the error pending on the socket, if any.
            ///
            /// # Errors
            /// The descriptor, made elsewhere, is not a socket.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                let error = ramie_driver::sys::sockopt::socket_error(&self.socket)?;
                Ok(error.err().map(std::io::Error::from))
            }

            /// Chooses whether calls that would wait fail with `WouldBlock` instead. Handles made
            /// by `try_clone` share the choice.
            ///
            /// On io_uring such a call does not wait for the peer, but may suspend the fiber until
            /// the kernel has completed it, so do not hold a lock of std across it.
            ///
            /// # Errors
            /// None; the signature is that of std.
            pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
                self.socket.set_nonblocking(nonblocking);
                Ok(())
            }
        }
    };
}

pub(crate) use {bounded_like_std, converts_like_std, shared_like_std};
