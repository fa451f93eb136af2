//! The items of `std::os::linux::net`, in use.

use super::std;
use std::{io, os::linux::net::TcpStreamExt};

traits! { TcpStreamExt }

methods! {
    TcpStreamExt {
        fn set_quickack[X: TcpStreamExt](this: &X, quickack: bool) -> io::Result<()>;
        fn quickack[X: TcpStreamExt](this: &X) -> io::Result<bool>;
    }
}

left_to_std! {
    std::os::linux::net {
        traits: SocketAddrExt;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [traits(), methods()].concat()
}
