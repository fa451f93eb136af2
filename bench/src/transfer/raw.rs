//! The limit: one ring per thread, set up like Ramie's, and a state for each end of each pair. Each
//! completion is answered by the next op at once, and all ops go to the kernel in one call.
#![allow(unsafe_code)]

use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use io_uring::{
    IoUring, opcode,
    squeue::{Entry, Flags},
    types::Fd,
};

use super::{Buffer, Medium, MessageCheck, Plan, Source, on_each_thread};
use crate::workload::Sample;

/// Whether ops name descriptors or slots in the ring's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Files {
    Plain,
    Registered,
}

pub fn run(plan: Plan, files: Files) -> Sample {
    let ends = 2 * plan.pairs.div_ceil(plan.threads as u64) as usize;
    let (time, enters) = on_each_thread(
        plan,
        || ring(ends).expect("a ring"),
        |ring, pairs| transfer(ring, plan, files, pairs).expect("descriptors"),
    );
    Sample { enters: enters.into_iter().sum(), ..Sample::timed(time) }
}

/// One end: its descriptor, and the buffer of its one op.
struct End {
    fd: OwnedFd,
    medium: Medium,
    buffer: Buffer,
    role: Role,
}

enum Role {
    Writes(Source),
    Reads(MessageCheck),
}

impl End {
    fn pair(plan: Plan, pair: u64) -> io::Result<[End; 2]> {
        let (reader, writer): (OwnedFd, OwnedFd) = match plan.medium {
            Medium::Pipe => {
                let (reader, writer) = io::pipe()?;
                (reader.into(), writer.into())
            }
            Medium::SocketPair => {
                let (reader, writer) = UnixStream::pair()?;
                (reader.into(), writer.into())
            }
        };
        let (source, message) = Source::new(plan.of(pair));
        let medium = plan.medium;
        let reads = Role::Reads(MessageCheck::new(plan.of(pair)));
        Ok([
            End { fd: writer, medium, buffer: message, role: Role::Writes(source) },
            End { fd: reader, medium, buffer: Buffer::new(plan.bytes), role: reads },
        ])
    }

    /// Records the result of the last op; returns false if there is no next one.
    #[inline]
    fn advance(&mut self, done: Option<usize>) -> bool {
        match (&mut self.role, done) {
            (Role::Writes(source), done) => {
                assert!(done.is_none_or(|count| count == self.buffer.len()), "a short write");
                source.advance(&mut self.buffer)
            }
            (Role::Reads(check), Some(count)) => {
                check.take(&self.buffer[..count]).expect("the bytes written")
            }
            (Role::Reads(_), None) => true,
        }
    }

    #[inline]
    fn entry(&mut self, place: usize, files: Files) -> Entry {
        let (fd, flags) = match files {
            Files::Plain => (self.fd.as_raw_fd(), Flags::empty()),
            Files::Registered => (place as RawFd, Flags::FIXED_FILE),
        };
        let (fd, buffer, len) = (Fd(fd), self.buffer.as_mut_ptr(), self.buffer.len() as u32);
        let entry = match (&self.role, self.medium) {
            (Role::Writes(_), Medium::Pipe) => {
                opcode::Write::new(fd, buffer, len).offset(u64::MAX).build()
            }
            (Role::Reads(_), Medium::Pipe) => {
                opcode::Read::new(fd, buffer, len).offset(u64::MAX).build()
            }
            (Role::Writes(_), Medium::SocketPair) => opcode::Send::new(fd, buffer, len).build(),
            (Role::Reads(_), Medium::SocketPair) => opcode::Recv::new(fd, buffer, len).build(),
        };
        entry.flags(flags).user_data(place as u64)
    }
}

/// Returns how often it entered the kernel.
fn transfer(ring: &mut IoUring, plan: Plan, files: Files, pairs: Vec<u64>) -> io::Result<u64> {
    let mut ends = Vec::new();
    for pair in pairs {
        ends.extend(End::pair(plan, pair)?);
    }
    if files == Files::Registered {
        let fds: Vec<RawFd> = ends.iter().map(|end| end.fd.as_raw_fd()).collect();
        ring.submitter().register_files(&fds)?;
    }
    drive(ring, &mut ends, files)
}

/// A ring with the flags of Ramie's.
fn ring(ends: usize) -> io::Result<IoUring> {
    let entries = (ends as u32).next_power_of_two().max(256);
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_cqsize(entries * 16)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_no_sqarray();
    builder.build(entries)
}

fn drive(ring: &mut IoUring, ends: &mut [End], files: Files) -> io::Result<u64> {
    let (submitter, mut queue, mut completions) = ring.split();
    let mut enters = 0;
    let mut live = ends.len();
    for (place, end) in ends.iter_mut().enumerate() {
        assert!(end.advance(None), "there is a message");
        // SAFETY: the buffer belongs to the end, which outlives the op: the loop below ends when no
        // op is in flight, and a panic in it ends the process.
        unsafe { queue.push(&end.entry(place, files)) }.expect("room for all");
    }
    while live > 0 {
        queue.sync();
        submitter.submit_and_wait(1)?;
        enters += 1;
        completions.sync();
        for entry in &mut completions {
            let place = entry.user_data() as usize;
            let result = entry.result();
            assert!(result >= 0, "{}", io::Error::from_raw_os_error(-result));
            let end = &mut ends[place];
            if end.advance(Some(result as usize)) {
                // SAFETY: as above; the op before is complete.
                unsafe { queue.push(&end.entry(place, files)) }.expect("room for all");
            } else {
                live -= 1;
            }
        }
    }
    Ok(enters)
}
