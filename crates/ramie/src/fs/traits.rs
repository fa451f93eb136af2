//! The traits of [`File`]: reading, writing, seeking, and its descriptor.
#![allow(unsafe_code)]

use std::{
    fmt, fs,
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
        unix::fs::FileExt,
    },
    process::Stdio,
};

use super::{File, transfer::PART};
use crate::{
    core::cancel,
    op::{
        forward::{read_by_reference, write_by_reference},
        route::{route, uninterrupted},
        whole::{counted_read_exact, counted_write_all, read_exact_by, write_all_by},
    },
};

/// The bytes reserved first for a file whose size is not known.
const UNKNOWN: usize = 8 * 1024;

impl Read for &File {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.transfer.read(buf, None)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.transfer.read_vectored(bufs)
    }

    #[track_caller]
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        cancel::check_io()?;
        if self.transfer.is_made_here(route()) {
            return uninterrupted(|| self.as_std().read_to_end(buf));
        }
        let start = buf.len();
        buf.try_reserve(self.rest())?;
        if buf.capacity() == start {
            buf.try_reserve(UNKNOWN)?;
        }
        loop {
            if buf.len() == buf.capacity() {
                // Usually this is the end of the file. So the read that finds the end uses a small
                // buffer, and `buf` need not grow.
                let mut more = [0; 32];
                match self.transfer.read(&mut more, None)? {
                    0 => return Ok(buf.len() - start),
                    count => buf.extend_from_slice(&more[..count]),
                }
            }
            // In parts, with other fibers in between, because zeroing new memory takes as long as
            // reading.
            let filled = buf.len();
            buf.resize(filled + PART.min(buf.capacity() - filled), 0);
            let read = self.transfer.read(&mut buf[filled..], None);
            buf.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read? == 0 && buf.len() < buf.capacity() {
                return Ok(filled - start);
            }
        }
    }

    #[track_caller]
    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        cancel::check_io()?;
        if self.transfer.is_made_here(route()) {
            return uninterrupted(|| self.as_std().read_to_string(buf));
        }
        let mut bytes = std::mem::take(buf).into_bytes();
        let start = bytes.len();
        let read = self.read_to_end(&mut bytes);
        let is_text = str::from_utf8(&bytes[start..]).is_ok();
        if !is_text {
            bytes.truncate(start);
        }
        *buf = String::from_utf8(bytes).expect("checked, after what was a string before");
        match read {
            Ok(_) if !is_text => Err(not_utf8()),
            read => read,
        }
    }

    counted_read_exact!();
}

impl Write for &File {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.transfer.write(buf, None)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.transfer.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    counted_write_all!();
}

impl Seek for &File {
    #[track_caller]
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.transfer.seek(pos)
    }
}

read_by_reference!(File);
write_by_reference!(File);

impl Seek for File {
    #[track_caller]
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        (&*self).seek(pos)
    }
}

fn not_utf8() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
}

impl FileExt for File {
    #[track_caller]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.transfer.read(buf, Some(offset))
    }

    #[track_caller]
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.transfer.write(buf, Some(offset))
    }

    #[track_caller]
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        read_exact_by!(buf, |rest| {
            let moved = self.read_at(rest, at);
            at += *moved.as_ref().unwrap_or(&0) as u64;
            moved
        })
    }

    #[track_caller]
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        write_all_by!(buf, |rest| {
            let moved = self.write_at(rest, at);
            at += *moved.as_ref().unwrap_or(&0) as u64;
            moved
        })
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_std().fmt(f)
    }
}

impl From<fs::File> for File {
    fn from(file: fs::File) -> Self {
        File { transfer: file.into() }
    }
}

impl From<File> for fs::File {
    fn from(file: File) -> Self {
        file.transfer.file
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        fs::File::from(fd).into()
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.transfer.file.into()
    }
}

impl From<File> for Stdio {
    fn from(file: File) -> Self {
        file.transfer.file.into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_std().as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.as_std().as_raw_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller's promise: the descriptor is open and nobody else owns it.
        File::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.transfer.file.into_raw_fd()
    }
}
