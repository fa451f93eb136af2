//! A part of a file, which the kernel sends without copying it through the program.
//!
//! sendfile(2) waits in two cases: for the disk, if the file is not in the page cache, and for the
//! client, if the socket is full. Both would block the worker, so
//! - the beginning, the end and some bytes in between are looked for in the cache
//!   ([`is_cached`]); if one is missing, or the file system cannot answer without waiting, as
//!   overlayfs and tmpfs, the part is sent on the blocking pool;
//! - a part is sent only when the socket has room for it: nearly nothing is queued in its send
//!   buffer, or it is ready to be written, so that a third of the buffer is free.
//!
//! The kernel may take pages away after the look, and may refuse room when all sockets of the
//! machine have used up their memory. The first costs a wait for the disk. The second is limited by
//! a time-out of the socket ([`LONGEST_BLOCK`]). It is taken back behind the file, because a thread
//! that gets the stream by an upgrade writes with calls that wait in the kernel.

use std::{
    io::{self, IoSliceMut},
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    time::Duration,
};

use ramie::{cancel, fiber, fs::File, ring};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::{Errno, ReadWriteFlags},
    net::{
        SendFlags,
        sockopt::{self, Timeout},
    },
};

use super::{Socket, Stream, send_queue::bytes_to_send};

/// The most that one call sends, so that other fibers of the worker run in between.
const LARGEST_PART: usize = 1 << 20;
/// Such a send buffer has the head of the response only.
const NEARLY_NOTHING: usize = 4 << 10;
/// The distance of the bytes that are looked for in the page cache.
const PROBE_DISTANCE: usize = 256 << 10;
/// The size of reads for streams to which the kernel cannot send files.
const PIECE: usize = 64 << 10;
/// How long a call of sendfile may wait for room that was there before.
const LONGEST_BLOCK: Duration = Duration::from_millis(1);
/// The pause after a call that has found no room, though there was some.
const PAUSE: Duration = Duration::from_millis(5);

/// A part of a file.
pub(crate) struct FileRange {
    file: File,
    at: u64,
    left: u64,
}

impl FileRange {
    pub(crate) fn new(file: File, range: Range<u64>) -> Self {
        FileRange { file, at: range.start, left: range.end.saturating_sub(range.start) }
    }

    /// The number of bytes that were not read or sent yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = self.file.read_at(&mut buf[..most], self.at)?;
        self.advance(read)?;
        Ok(read)
    }

    /// Reads the whole part.
    pub(crate) fn append_to(mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let start = bytes.len();
        bytes.resize(start + usize::try_from(self.left).unwrap_or(usize::MAX), 0);
        let mut end = start;
        while self.left > 0 {
            match self.read(&mut bytes[end..]) {
                Ok(read) => end += read,
                Err(error) => {
                    // Otherwise the room would be sent as if it were the rest of the file.
                    bytes.truncate(end);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file of a response has fewer bytes than were announced",
            ));
        }
        self.at += count as u64;
        self.left -= count as u64;
        Ok(())
    }

    /// Sends `head`, then the whole part, and calls `progressed` whenever the client has taken some
    /// of it.
    pub(crate) fn send(
        mut self,
        stream: &Stream,
        head: &[u8],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        let Some(socket) = stream.as_plain().map(Socket::as_fd) else {
            stream.write_pieces(head, progressed)?;
            return self.send_by_reads(stream, progressed);
        };
        send_head(stream, socket, head)?;
        sockopt::set_socket_timeout(socket, Timeout::Send, Some(LONGEST_BLOCK))?;
        let is_whole = self.send_by_kernel(socket, progressed)?;
        sockopt::set_socket_timeout(socket, Timeout::Send, None)?;
        if is_whole { Ok(()) } else { self.send_by_reads(stream, progressed) }
    }

    /// Returns false if the kernel cannot send this file.
    fn send_by_kernel(
        &mut self,
        socket: BorrowedFd<'_>,
        progressed: &mut dyn FnMut(),
    ) -> io::Result<bool> {
        while self.left > 0 {
            let room = wait_for_room(socket)?;
            match self.send_part(socket, room.clamp(1, LARGEST_PART)) {
                Ok(sent) => {
                    self.advance(sent)?;
                    progressed();
                }
                Err(Errno::AGAIN) => fiber::sleep(PAUSE),
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
            if self.left > 0 {
                fiber::yield_now();
            }
        }
        Ok(true)
    }

    /// Sends up to `most` bytes, for which there is room.
    fn send_part(&self, socket: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        let length = most.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let send = || {
            let mut at = self.at;
            rustix::io::retry_on_intr(|| {
                rustix::fs::sendfile(socket, &self.file, Some(&mut at), length)
            })
        };
        if is_cached(self.file.as_fd(), self.at, length) { send() } else { ramie::blocking(send) }
    }

    #[inline(never)]
    fn send_by_reads(mut self, stream: &Stream, progressed: &mut dyn FnMut()) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        while self.left > 0 {
            let read = self.read(&mut piece)?;
            stream.write_pieces(&piece[..read], progressed)?;
            progressed();
        }
        Ok(())
    }
}

/// Sends the head, which the kernel is to put into one packet with the bytes that follow.
fn send_head(stream: &Stream, socket: BorrowedFd<'_>, head: &[u8]) -> io::Result<()> {
    let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match rustix::net::send(socket, head, flags) {
        Ok(sent) => stream.write_all(&head[sent..]),
        Err(Errno::AGAIN | Errno::INTR) => stream.write_all(head),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits until the socket has room, and returns for how many bytes. The buffer counts the memory of
/// packets, which is more than their bytes, so not all of the free part can be filled.
fn wait_for_room(socket: BorrowedFd<'_>) -> io::Result<usize> {
    cancel::check_cancelled()?;
    let buffer = sockopt::socket_send_buffer_size(socket)?;
    if bytes_to_send(socket).is_some_and(|queued| queued <= NEARLY_NOTHING) {
        return Ok(buffer / 2);
    }
    let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    if rustix::event::poll(&mut asked, Some(&Timespec::default())) != Ok(1) {
        ring::poll(socket, PollFlags::OUT)?;
    }
    Ok(buffer / 4)
}

/// Whether the part is in the page cache, judged by a byte of each [`PROBE_DISTANCE`] and the last.
/// Also if the file ends inside of the part, because then nothing has to be read from a disk.
fn is_cached(file: BorrowedFd<'_>, at: u64, length: usize) -> bool {
    let places = (0..length).step_by(PROBE_DISTANCE).chain([length.saturating_sub(1)]);
    places.into_iter().all(|place| {
        let mut byte = [0];
        let mut bufs = [IoSliceMut::new(&mut byte)];
        let flags = ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(file, &mut bufs, at + place as u64, flags).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream as StdStream, path::PathBuf, thread};

    use ramie::os::unix::net::UnixStream;

    use super::*;

    fn file_of(name: &str, bytes: &[u8]) -> (PathBuf, File) {
        let path = std::env::temp_dir().join(format!("ramie-http-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn a_file_that_shrinks_leaves_no_zeros_behind() {
        let (path, file) = file_of("shrunk", b"hello");
        let range = FileRange::new(file, 0..5);
        std::fs::write(&path, b"he").unwrap();
        let mut bytes = b"head ".to_vec();
        let error = ramie::run(|| range.append_to(&mut bytes).map(|()| 0)).unwrap_err();
        assert_eq!((error.kind(), &bytes[..]), (io::ErrorKind::UnexpectedEof, &b"head he"[..]));
        std::fs::remove_file(path).unwrap();
    }

    /// Sends a file to a thread, and returns what the thread has read, with the number of times
    /// that progress was reported.
    fn sent(
        range: FileRange,
        send: impl FnOnce(FileRange, &Stream, &mut dyn FnMut()) -> io::Result<()> + Send + 'static,
    ) -> (Vec<u8>, usize) {
        ramie::run(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut theirs = StdStream::from(theirs);
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                theirs.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let sender = fiber::spawn(move || {
                let stream = Stream::plain(Socket::Unix(ours));
                let mut count = 0;
                send(range, &stream, &mut || count += 1).unwrap();
                let socket = stream.socket();
                assert_eq!(sockopt::socket_timeout(socket, Timeout::Send), Ok(None));
                count
            });
            let count = sender.join().unwrap();
            (reader.join().unwrap(), count)
        })
    }

    #[test]
    fn a_range_is_sent_behind_its_head_and_reports_progress() {
        let bytes: Vec<u8> = (0..1_u32 << 20).flat_map(u32::to_be_bytes).collect();
        let (path, file) = file_of("range", &bytes);
        let range = 7..bytes.len() as u64 - 1;
        let by_kernel = FileRange::new(file.try_clone().unwrap(), range.clone());
        let (received, count) =
            sent(by_kernel, |range, stream, progressed| range.send(stream, b"head", progressed));
        assert!(received == [b"head", &bytes[7..bytes.len() - 1]].concat());
        assert!(count > 4, "a send buffer has no room for 4 MiB, but the parts were {count}");
        let by_reads = FileRange::new(file, range);
        let (received, count) = sent(by_reads, FileRange::send_by_reads);
        assert!(received == bytes[7..bytes.len() - 1]);
        // Once for each piece, and for each part of a piece that the kernel has taken.
        assert!(count >= bytes.len().div_ceil(PIECE), "{count}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_part_that_is_not_cached_is_sent_on_the_pool() {
        let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_be_bytes).collect();
        let (path, file) = file_of("uncached", &bytes);
        file.sync_all().unwrap();
        // The kernel keeps pages that a CPU has not put into its lists yet. File systems that
        // cannot tell count as if nothing was cached.
        let began = std::time::Instant::now();
        while is_cached(file.as_fd(), 0, bytes.len()) {
            assert!(began.elapsed() < Duration::from_secs(10), "the file stays in the cache");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            std::thread::yield_now();
        }
        let range = FileRange::new(file, 0..bytes.len() as u64);
        let (received, _) =
            sent(range, |range, stream, progressed| range.send(stream, b"", progressed));
        assert!(received == bytes);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_part_without_room_blocks_for_a_moment_only() {
        let (path, file) = file_of("full", &[1; 8 << 20]);
        let (ours, _theirs) = StdStream::pair().unwrap();
        sockopt::set_socket_timeout(&ours, Timeout::Send, Some(LONGEST_BLOCK)).unwrap();
        let range = FileRange::new(file, 0..8 << 20);
        let mut sent = 0;
        // Nobody reads, so the buffer is full in the end, and the next part is refused.
        let refusal = loop {
            match range.send_part(ours.as_fd(), 8 << 20) {
                Ok(count) => sent += count,
                Err(errno) => break errno,
            }
        };
        assert_eq!(refusal, Errno::AGAIN);
        assert!(sent > 0 && sent < 8 << 20);
        std::fs::remove_file(path).unwrap();
    }
}
