//! Pipes, copies and foreign descriptors on both drivers, on fibers and on plain threads.

use std::{
    fs,
    io::{ErrorKind, IoSlice, IoSliceMut, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{everywhere, tcp_pair};
use ramie::{
    fiber,
    fs::File,
    io::{self, Async},
    os::unix::net::UnixStream,
};
use ramie_driver::sys;

#[test]
fn a_pipe_carries_bytes_until_its_writers_are_gone() {
    everywhere(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let mut second = writer.try_clone().unwrap();
        let sender = fiber::spawn(move || {
            writer.write_all(b"one ").unwrap();
            drop(writer);
            fiber::yield_now();
            second.write_all(b"two").unwrap();
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        sender.join().unwrap();
    });
}

#[test]
fn a_full_pipe_makes_its_writer_wait_and_not_the_worker() {
    everywhere(|| {
        const BYTES: usize = 1 << 20;
        let (mut reader, mut writer) = io::pipe().unwrap();
        let sender = fiber::spawn(move || {
            let data: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
            writer.write_all(&data).unwrap();
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        sender.join().unwrap();
        assert_eq!(received.len(), BYTES);
        assert!(received.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
    });
}

#[test]
fn pipes_gather_and_scatter_and_break() {
    everywhere(|| {
        let (reader, writer) = io::pipe().unwrap();
        let parts = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"two")];
        assert_eq!((&writer).write_vectored(&parts).unwrap(), 6);
        let (mut left, mut right) = ([0; 4], [0; 2]);
        let mut buffers = [IoSliceMut::new(&mut left), IoSliceMut::new(&mut right)];
        assert_eq!((&reader).read_vectored(&mut buffers).unwrap(), 6);
        assert_eq!((&left, &right), (b"onet", b"wo"));
        drop(reader);
        assert_eq!((&writer).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn pipes_stay_blocking_for_others_and_nonblocking_ones_refuse() {
    everywhere(|| {
        let (reader, writer) = io::pipe().unwrap();
        let waiting = fiber::spawn(move || (&reader).read(&mut [0; 1]).map(|_| reader));
        fiber::yield_now();
        (&writer).write_all(b"x").unwrap();
        let reader = waiting.join().unwrap().unwrap();
        assert!(!sys::is_nonblocking(&reader).unwrap() && !sys::is_nonblocking(&writer).unwrap());

        sys::set_nonblocking(&reader, true).unwrap();
        let reader = io::PipeReader::from(OwnedFd::from(reader));
        assert_eq!((&reader).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        sys::set_nonblocking(&writer, true).unwrap();
        let writer = io::PipeWriter::from(OwnedFd::from(writer));
        let error = std::iter::repeat_with(|| (&writer).write(&[0; 4096])).find_map(Result::err);
        assert_eq!(error.unwrap().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn an_eventfd_is_waited_for() {
    everywhere(|| {
        let event = sys::eventfd().unwrap();
        let ours = Async::from_fd(event.try_clone().unwrap()).unwrap();
        ours.writable().unwrap();
        let waiter = fiber::spawn(move || {
            ours.readable().unwrap();
            ours.with_read(|fd| Ok(sys::eventfd_take(fd))).unwrap()
        });
        fiber::yield_now();
        sys::eventfd_signal(&event);
        sys::eventfd_signal(&event);
        let first = waiter.join().unwrap();
        assert!(first == 1 || first == 2);
    });
}

#[test]
fn a_foreign_nonblocking_socket_is_read_and_written() {
    everywhere(|| {
        const BYTES: usize = 1 << 20;
        let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        right.set_nonblocking(true).unwrap();
        let (left, right) = (Async::from_fd(left).unwrap(), Async::from_fd(right).unwrap());
        let writer = fiber::spawn(move || {
            let data = vec![7; BYTES];
            let mut sent = 0;
            while sent < BYTES {
                sent += left.with_write(|mut socket| socket.write(&data[sent..])).unwrap();
            }
        });
        let (mut buffer, mut received) = (vec![0; 4096], 0);
        loop {
            match right.with_read(|mut socket| socket.read(&mut buffer)).unwrap() {
                0 => break,
                count => received += count,
            }
        }
        assert_eq!(received, BYTES);
        writer.join().unwrap();
        assert!(right.into_inner().take_error().unwrap().is_none());
    });
}

static NAMES: AtomicUsize = AtomicUsize::new(0);

/// A file that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramie-test-io-{}-{number}", std::process::id());
        Place(std::env::temp_dir().join(name))
    }

    fn with(data: &[u8]) -> Self {
        let place = Place::new();
        fs::write(&place.0, data).unwrap();
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn data() -> Vec<u8> {
    (0..3_000_000_u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_file_is_copied_to_a_file_from_where_it_stands() {
    everywhere(|| {
        let data = data();
        let (from, to) = (Place::with(&data), Place::new());
        let mut source = File::open(&from.0).unwrap();
        source.read_exact(&mut [0; 10]).unwrap();
        let mut target = File::create(&to.0).unwrap();
        target.write_all(b"head").unwrap();
        let copied = io::copy(&mut source, &mut target).unwrap();
        assert_eq!(copied, data.len() as u64 - 10);
        target.write_all(b"tail").unwrap();
        let result = fs::read(&to.0).unwrap();
        assert_eq!(&result[..4], b"head");
        assert!(result[4..].starts_with(&data[10..]) && result.ends_with(b"tail"));
        // At its end there is nothing more, and a copy to a file that is open for appending works,
        // too.
        assert_eq!(io::copy(&mut source, &mut target).unwrap(), 0);
        let mut appending = File::options().append(true).open(&to.0).unwrap();
        assert_eq!(io::copy(&mut File::open(&from.0).unwrap(), &mut appending).unwrap(), 3_000_000);
        assert_eq!(fs::metadata(&to.0).unwrap().len(), result.len() as u64 + 3_000_000);
    });
}

#[test]
fn a_file_that_reports_no_size_is_copied_whole() {
    everywhere(|| {
        let to = Place::new();
        let mut target = File::create(&to.0).unwrap();
        let count = io::copy(&mut File::open("/proc/self/status").unwrap(), &mut target).unwrap();
        assert!(count > 0);
        assert_eq!(fs::read(&to.0).unwrap().len() as u64, count);
    });
}

#[test]
fn a_file_is_sent_to_sockets() {
    everywhere(|| {
        let data = data();
        let from = Place::with(&data);
        let (tcp, mut tcp_peer) = tcp_pair();
        let (mut unix, mut unix_peer) = UnixStream::pair().unwrap();
        let path = from.0.clone();
        let sender = fiber::spawn(move || {
            // By shared reference, too.
            let sent = io::copy(&mut File::open(&path).unwrap(), &mut &tcp).unwrap();
            drop(tcp);
            (sent, io::copy(&mut &File::open(&path).unwrap(), &mut unix).unwrap())
        });
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(io::copy(&mut tcp_peer, &mut first).unwrap(), data.len() as u64);
        assert_eq!(io::copy(&mut unix_peer, &mut second).unwrap(), data.len() as u64);
        assert!(first == data && second == data);
        assert_eq!(sender.join().unwrap(), (data.len() as u64, data.len() as u64));
    });
}

#[test]
fn a_copy_to_a_peer_that_is_gone_reports_the_reason() {
    everywhere(|| {
        let from = Place::with(&data());
        let (mut socket, peer) = UnixStream::pair().unwrap();
        drop(peer);
        let error = io::copy(&mut File::open(&from.0).unwrap(), &mut socket).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let (mut socket, _peer) = UnixStream::pair().unwrap();
        socket.set_write_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
        let error = io::copy(&mut File::open(&from.0).unwrap(), &mut socket).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_pipe_is_copied_to_a_pipe() {
    everywhere(|| {
        let (mut first_reader, mut first_writer) = io::pipe().unwrap();
        let (mut second_reader, mut second_writer) = io::pipe().unwrap();
        let source = fiber::spawn(move || first_writer.write_all(&data()).unwrap());
        let middle = fiber::spawn(move || io::copy(&mut first_reader, &mut second_writer).unwrap());
        let mut received = Vec::new();
        second_reader.read_to_end(&mut received).unwrap();
        assert!(received == data());
        source.join().unwrap();
        assert_eq!(middle.join().unwrap(), received.len() as u64);
    });
}

#[test]
fn anything_else_is_copied_by_reads_and_writes() {
    everywhere(|| {
        let mut out = Vec::new();
        let mut source: Box<dyn Read> = Box::new(&b"bytes"[..]);
        assert_eq!(io::copy(&mut source, &mut out).unwrap(), 5);
        assert_eq!(io::copy(&mut *source, &mut out as &mut dyn Write).unwrap(), 0);
        let (socket, mut peer) = UnixStream::pair().unwrap();
        (&socket).write_all(b"more").unwrap();
        drop(socket);
        assert_eq!(io::copy(&mut io::BufReader::new(&mut peer), &mut out).unwrap(), 4);
        assert_eq!(out, b"bytesmore");
        let _ = peer.as_fd();
    });
}
