//! Reads and writes of buffers that are registered with the rings.

use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::common::{assert_success, child_with, everywhere, is_child};
use ramie::fs::File;
use ramie::os::unix::net::UnixStream;
use ramie::ring::{self, RegisteredBuffer};
use ramie::{cancel, fiber};

/// Writes all bytes of a part, in several calls if necessary.
fn write_all(buffer: &RegisteredBuffer, to: impl AsFd, part: Range<usize>, at: Option<u64>) {
    let mut done = 0;
    while done < part.len() {
        let offset = at.map(|at| at + done as u64);
        done += buffer.write(&to, part.start + done..part.end, offset).unwrap();
    }
}

/// Fills a part or reads to the end, in several calls if necessary; returns the number of bytes
/// read.
fn read_to(
    buffer: &mut RegisteredBuffer,
    from: impl AsFd,
    part: Range<usize>,
    at: Option<u64>,
) -> usize {
    let mut done = 0;
    while done < part.len() {
        let offset = at.map(|at| at + done as u64);
        match buffer.read(&from, part.start + done..part.end, offset).unwrap() {
            0 => break,
            count => done += count,
        }
    }
    done
}

#[test]
fn parts_of_a_buffer_are_used_with_files_sockets_and_pipes() {
    everywhere(|| {
        let path = std::env::temp_dir().join(format!(
            "ramie-registered-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let file = file.unwrap();
        let mut buffer = RegisteredBuffer::new(10_000).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0));
        for (n, byte) in buffer.iter_mut().enumerate() {
            *byte = n as u8;
        }
        write_all(&buffer, &file, 100..1100, Some(7));
        assert_eq!(read_to(&mut buffer, &file, 5000..10_000, Some(7)), 1000);
        assert_eq!(buffer[5000..6000], (100..1100).map(|n| n as u8).collect::<Vec<_>>());
        assert_eq!(buffer.read(&file, .., Some(5000)).unwrap(), 0, "behind the end");
        std::fs::remove_file(&path).unwrap();

        let (left, mut right) = UnixStream::pair().unwrap();
        write_all(&buffer, &left, 0..3, None);
        right.read_exact(&mut [0; 3]).unwrap();
        let answer = fiber::spawn(move || {
            right.write_all(b"late").unwrap();
            right
        });
        assert_eq!(read_to(&mut buffer, &left, 1..5, None), 4);
        assert_eq!(&buffer[1..5], b"late");
        let right = answer.join().unwrap();
        let limit = Duration::from_millis(2);
        let waited = cancel::with_timeout(limit, || buffer.read(&left, .., None));
        assert!(cancel::is_cancelled(&waited.unwrap_err().into_value().unwrap_err()));
        drop(right);
        assert_eq!(buffer.read(&left, .., None).unwrap(), 0);
    });
}

/// More buffers than a ring registers at a time; each is used again after others have had its
/// index.
#[test]
fn more_buffers_than_entries_take_turns() {
    everywhere(|| {
        let (from, to) = ring::pipe().unwrap();
        let mut buffers: Vec<_> = (0..150).map(|_| RegisteredBuffer::new(4096).unwrap()).collect();
        for round in 0..3_u8 {
            for (n, buffer) in buffers.iter_mut().enumerate() {
                buffer[..100].fill(n as u8 ^ round);
                write_all(buffer, &to, 0..100, None);
                assert_eq!(read_to(buffer, &from, 200..300, None), 100);
                assert!(buffer[200..300].iter().all(|byte| *byte == n as u8 ^ round));
            }
            // The indices of dropped buffers go to others.
            buffers.truncate(150 - 30 * (round as usize + 1));
            buffers.push(RegisteredBuffer::new(8192).unwrap());
        }
    });
}

/// Ops are queued, and their indices would go to other buffers before the ops are submitted.
#[test]
fn ops_of_many_fibers_do_not_mix_their_buffers() {
    everywhere(mix);
}

/// Here another thread empties the queue before an index goes to another buffer.
#[test]
fn ops_do_not_mix_their_buffers_with_other_submitters() {
    for submitter in [ramie::Submitter::Sidecar, ramie::Submitter::KERNEL_THREAD] {
        ramie::Runtime::builder().workers(1).submitter(submitter).build().unwrap().run(mix);
    }
}

fn mix() {
    fiber::scope(|s| {
        for n in 0..100_u8 {
            s.spawn(move || {
                let (left, right) = UnixStream::pair().unwrap();
                let mut buffer = RegisteredBuffer::new(4096).unwrap();
                for _ in 0..10 {
                    buffer[..64].fill(n);
                    write_all(&buffer, &left, 0..64, None);
                    assert_eq!(read_to(&mut buffer, &right, 1000..1064, None), 64);
                    assert_eq!(buffer[1000..1064], [n; 64]);
                }
            });
        }
    });
}

#[test]
fn mistakes_are_reported() {
    assert_eq!(RegisteredBuffer::new(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(RegisteredBuffer::new(usize::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    let buffer = RegisteredBuffer::new(10).unwrap();
    let (_from, to) = ring::pipe().unwrap();
    let outside = std::panic::AssertUnwindSafe(|| buffer.write(&to, ..11, None));
    assert!(std::panic::catch_unwind(outside).is_err());
    let without_end = std::panic::AssertUnwindSafe(|| buffer.write(&to, ..=usize::MAX, None));
    assert!(std::panic::catch_unwind(without_end).is_err());
}

#[test]
fn without_the_feature_plain_ops_have_the_same_result() {
    if is_child() {
        parts_of_a_buffer_are_used_with_files_sockets_and_pipes();
        return more_buffers_than_entries_take_turns();
    }
    for (limits, caps) in [("true", "-fixed_buffers"), ("true", "linux-5.15"), ("ulimit -l 64", "")]
    {
        let test = "without_the_feature_plain_ops_have_the_same_result";
        assert_success(&child_with(limits, test, &[("RAMIE_CAPS", caps)]));
    }
}
