//! The place of TLS in programs without the feature `tls`: a stream that cannot exist, so that the
//! code around it needs no conditions.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    time::Duration,
};

use super::{Input, Receiver, Socket};

// Same name as `io::tls::TlsStream`: only one of them is compiled.
#[derive(Clone, Copy)]
pub(crate) enum TlsStream {}

impl TlsStream {
    pub(crate) fn socket(&self) -> &Socket {
        match *self {}
    }

    pub(crate) fn receive(&self, _: &mut Receiver<'_>, _: &mut Input) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write(&self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write_all(&self, _: &[&[u8]], _: &mut dyn FnMut()) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn say_goodbye(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        match *self {}
    }
}
