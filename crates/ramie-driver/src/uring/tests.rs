//! Answers that this kernel may never give: interrupted, cancelled by nobody, not ready.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use rustix::io::Errno;

use super::*;
use crate::op::Op;

const AGAIN: i32 = -Errno::AGAIN.raw_os_error();
const CANCELLED: i32 = -Errno::CANCELED.raw_os_error();
const IN_PROGRESS: i32 = -Errno::INPROGRESS.raw_os_error();
const INTERRUPTED: i32 = -Errno::INTR.raw_os_error();

/// Reports that a test, or a part of it, is left out: past libtest, which shows only the output of
/// failing tests.
pub(crate) fn skipped(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
}

/// The ring that was asked for, or none where this machine refuses io_uring.
pub(crate) fn unless_refused<T>(ring: std::io::Result<T>) -> Option<T> {
    match ring {
        Ok(ring) => Some(ring),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            skipped(error);
            None
        }
        Err(error) => panic!("io_uring is allowed, but {error}"),
    }
}

pub(crate) fn open() -> Option<Uring> {
    open_with(&Config::small())
}

fn open_with(config: &Config) -> Option<Uring> {
    unless_refused(Uring::open(config))
}

fn receive(from: &UnixStream, buf: &mut [u8; 4]) -> OpFrame {
    let (fd, buf) = (from.as_raw_fd(), buf.as_mut_ptr());
    OpFrame::new(Op::Recv { fd, buf, len: 4, flags: 0 })
}

/// As if `frame` had been submitted and the kernel had answered with `result`.
fn answer(uring: &mut Uring, frame: &OpFrame, result: i32) {
    uring.ring.reaper.in_flight.add(frame);
    frame.state.set(OpState::InFlight);
    uring.ring.reaper.decide(frame, result);
}

fn finish(uring: &mut Uring, frame: &OpFrame) -> i32 {
    while !frame.is_complete() {
        uring.turn(Wait::Until(Some(Duration::from_secs(20)))).expect("a turn");
    }
    assert!(uring.ring.reaper.completed.pop().is_some() && uring.ring.reaper.completed.is_empty());
    assert_eq!(uring.in_flight(), 0);
    frame.result()
}

#[test]
fn an_op_that_was_not_done_is_handed_over_again() {
    for result in [AGAIN, CANCELLED, INTERRUPTED] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
        let frame = receive(&ours, &mut buf);
        answer(&mut uring, &frame, result);
        assert!(!frame.is_complete() && uring.needs_turn());
        uring.turn(Wait::Never).unwrap();
        assert!(!frame.is_complete());
        theirs.write_all(b"data").unwrap();
        assert_eq!(finish(&mut uring, &frame), 4);
    }
}

#[test]
fn a_cancel_between_the_answer_and_the_next_turn_is_not_lost() {
    for result in [AGAIN, CANCELLED, INTERRUPTED] {
        for turns in 0..3 {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
            let frame = receive(&ours, &mut buf);
            answer(&mut uring, &frame, result);
            for _ in 0..turns {
                uring.turn(Wait::Never).unwrap();
            }
            frame.cancel_asked.set(true);
            uring.cancel(&frame);
            assert_eq!(finish(&mut uring, &frame), CANCELLED);
        }
    }
}

#[test]
fn an_answer_to_a_cancel_is_final() {
    for result in [AGAIN, CANCELLED, INTERRUPTED] {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
        let frame = receive(&ours, &mut buf);
        frame.cancel_asked.set(true);
        uring.ring.reaper.cancels.note_asked();
        answer(&mut uring, &frame, result);
        assert!(frame.is_complete(), "{result}: the op is handed over once more");
        assert_eq!(finish(&mut uring, &frame), CANCELLED);
    }
}

/// A bundle finds no buffer, or no group any more, and would be handed over again.
#[test]
fn a_bundle_without_buffers_that_is_to_be_cancelled_is() {
    for result in [Errno::NOBUFS, Errno::NOENT].map(|errno| -errno.raw_os_error()) {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (Some(mut uring), mut into) = (open(), Vec::new()) else { return };
        let op = Op::RecvBundle { fd: ours.as_raw_fd(), into: &raw mut into };
        let frame = OpFrame::new(op);
        frame.cancel_asked.set(true);
        uring.ring.reaper.cancels.note_asked();
        answer(&mut uring, &frame, result);
        assert_eq!(finish(&mut uring, &frame), CANCELLED);
    }
}

/// The kernel's answer that it has not found the op of that index.
fn miss(uring: &mut Uring, index: u32, changes: u32) {
    uring
        .ring
        .reaper
        .note_answer_to_cancel(sqe::of_cancel(index, changes), -Errno::NOENT.raw_os_error());
}

/// Puts a receive into the kernel and has it cancelled, as if the kernel were asked already.
fn to_be_cancelled(uring: &mut Uring, frame: &OpFrame) {
    let _ = uring.submit(frame);
    uring.turn(Wait::Never).unwrap();
    frame.cancel_asked.set(true);
    uring.ring.reaper.cancels.note_asked();
}

#[test]
fn a_request_that_has_missed_its_op_is_made_again() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
    let frame = receive(&ours, &mut buf);
    to_be_cancelled(&mut uring, &frame);
    miss(&mut uring, frame.in_flight_index.get(), 0);
    assert!(uring.needs_turn());
    assert_eq!(finish(&mut uring, &frame), CANCELLED);
}

/// The op may have another index by then.
#[test]
fn a_request_is_made_again_where_indices_have_changed_since() {
    for changes in [1, 1 << 28] {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
        let frame = receive(&ours, &mut buf);
        to_be_cancelled(&mut uring, &frame);
        let index = frame.in_flight_index.get() + if changes == 1 { 5000 } else { 0 };
        miss(&mut uring, index, changes);
        assert!(uring.needs_turn(), "of {changes} changes only the low bits are told");
        assert_eq!(finish(&mut uring, &frame), CANCELLED);
    }
}

/// The kernel answers the same for an op that is complete; then nothing is to be done, least of all
/// with others.
#[test]
fn an_op_that_is_complete_is_not_asked_for_again() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
    let frame = receive(&ours, &mut buf);
    to_be_cancelled(&mut uring, &frame);
    for index in [frame.in_flight_index.get() + 1, 5000] {
        miss(&mut uring, index, 0);
        assert!(!uring.needs_turn());
    }
    uring.ring.push_cancel(&frame);
    assert_eq!(finish(&mut uring, &frame), CANCELLED);
}

#[test]
fn a_stop_that_has_missed_its_op_is_asked_for_again() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (Some(mut uring), inbox) = (open(), Arc::default()) else { return };
    let op = crate::MultishotOp::Receive { fd: ours.as_raw_fd() };
    let Some(id) = uring.start_multishot(op, &inbox) else { return };
    assert!(matches!(uring.next_item(id), crate::NextItem::Pending));
    uring.turn(Wait::Never).unwrap();
    // The kernel is asked for another op, and finds nothing.
    uring.ring.reaper.multishots.pretend_to_stop(id.index);
    uring
        .ring
        .reaper
        .note_answer_to_cancel(sqe::of_leaving(id.index), -Errno::NOENT.raw_os_error());
    assert!(uring.needs_turn() && uring.ring.reaper.multishots.armed() == 1);
    while inbox.is_in_use() {
        uring.turn(Wait::Until(Some(Duration::from_secs(20)))).expect("a turn");
    }
}

#[test]
fn a_drain_ends_ops_that_wait_for_their_submission() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
    let frame = receive(&ours, &mut buf);
    answer(&mut uring, &frame, INTERRUPTED);
    uring.drain();
    assert_eq!(finish(&mut uring, &frame), CANCELLED);
}

#[test]
fn a_connect_under_way_is_asked_for_its_outcome() {
    for result in [IN_PROGRESS, INTERRUPTED] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let Some(mut uring) = open() else { return };
        let (fd, addr) = (stream.as_raw_fd(), ptr::null());
        let frame = OpFrame::new(Op::Connect { fd, addr, addr_len: 0 });
        answer(&mut uring, &frame, result);
        assert_eq!(finish(&mut uring, &frame), 0);
    }
}

#[test]
fn a_connect_that_failed_meanwhile_reports_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(b"nobody reads this, so the end is a reset").unwrap();
    drop(listener.accept().unwrap());
    let start = std::time::Instant::now();
    while sys::poll_now(&stream, 0).unwrap() & sys::POLL_ERR == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the reset has not come");
    }
    let Some(mut uring) = open() else { return };
    let (fd, addr) = (stream.as_raw_fd(), ptr::null());
    let frame = OpFrame::new(Op::Connect { fd, addr, addr_len: 0 });
    answer(&mut uring, &frame, IN_PROGRESS);
    assert_eq!(finish(&mut uring, &frame), -Errno::CONNRESET.raw_os_error());
}

/// The number was given up before the interruption, and may be another file's by now.
#[test]
fn an_interrupted_close_is_not_made_again() {
    let Some(mut uring) = open() else { return };
    let (another, _peer) = UnixStream::pair().unwrap();
    let frame = OpFrame::new(Op::Close { fd: another.as_raw_fd() });
    answer(&mut uring, &frame, INTERRUPTED);
    assert!(frame.is_complete(), "it would close what has the number now");
    assert_eq!(finish(&mut uring, &frame), 0);
}

/// A drain asks the kernel to cancel everything, also a close that has not begun.
#[test]
fn a_close_that_was_cancelled_is_made() {
    let Some(mut uring) = open() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let fd = ours.into_raw_fd() as u64;
    uring.ring.reaper.closing += 1;
    uring.ring.reaper.route_other(fd << sqe::CLOSE_SHIFT | sqe::TAG_CLOSE, CANCELLED);
    theirs.set_nonblocking(true).unwrap();
    assert_eq!(theirs.read(&mut [0]).expect("it is not closed"), 0);
}

/// The caller has given the descriptor up: nobody else could close it any more.
#[test]
fn a_close_that_was_cancelled_in_its_frame_is_made() {
    let Some(mut uring) = open() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let frame = OpFrame::new(Op::Close { fd: ours.into_raw_fd() });
    uring.ring.reaper.is_draining = true;
    answer(&mut uring, &frame, CANCELLED);
    uring.ring.reaper.is_draining = false;
    assert_eq!(finish(&mut uring, &frame), 0);
    theirs.set_nonblocking(true).unwrap();
    assert_eq!(theirs.read(&mut [0]).expect("it is not closed"), 0);
}

#[test]
fn a_send_without_copying_ends_when_the_kernel_has_let_go_of_its_bytes() {
    const MORE: u32 = 1 << 1;
    const RELEASED: u32 = 1 << 3;
    let Some(mut uring) = open() else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (fd, bytes) = (ours.as_raw_fd(), [1; 4]);
    let send = Op::Send { fd, buf: bytes.as_ptr(), len: 4, flags: 0 };
    let frame = OpFrame::new(send).zero_copy();
    uring.ring.reaper.in_flight.add(&frame);
    frame.state.set(OpState::InFlight);
    let user_data = (&raw const frame).expose_provenance() as u64;
    uring.ring.reaper.route(user_data, 4, MORE);
    assert!(!frame.is_complete(), "the kernel still reads its bytes");
    uring.ring.reaper.route(user_data, 0, RELEASED);
    assert!(frame.is_complete());
    assert_eq!(finish(&mut uring, &frame), 4);
}

#[test]
fn a_wake_whose_message_is_refused_goes_by_the_eventfd() {
    let [Some(mut from), Some(mut to)] = [(); 2].map(|()| open()) else { return };
    let target = Arc::clone(&to.ring.reaper.wakes.target);
    assert!(target.claim());
    from.ring.reaper.messages += 1;
    let address = Arc::into_raw(Arc::clone(&target)) as u64;
    from.ring.reaper.route_other(address | sqe::TAG_MESSAGE_SENT, -Errno::BADFD.raw_os_error());
    let is_pending = || !target.claim();
    for _ in 0..20 {
        if !is_pending() {
            return;
        }
        to.turn(Wait::Until(Some(Duration::from_millis(100)))).expect("a turn");
    }
    panic!("the wake is lost");
}

/// Where it does not, a strand waits forever, and so does the drain: this ring is not dropped.
#[test]
fn any_completion_without_more_ends_an_op() {
    for result in [0, CANCELLED, -Errno::NOBUFS.raw_os_error(), -Errno::CONNRESET.raw_os_error()] {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (Some(uring), inbox) = (open(), Arc::default()) else { return };
        let mut uring = std::mem::ManuallyDrop::new(uring);
        let op = crate::MultishotOp::Receive { fd: ours.as_raw_fd() };
        let Some(id) = uring.start_multishot(op, &inbox) else { return };
        assert!(matches!(uring.next_item(id), crate::NextItem::Pending));
        assert_eq!(uring.ring.reaper.multishots.armed(), 1);
        uring.ring.reaper.on_item(id.index, result, 0);
        assert_eq!(uring.ring.reaper.multishots.armed(), 0, "after {result} it is not armed again");
        assert!(!uring.await_item(id, 7), "after {result} a strand waits forever");
    }
}

#[test]
fn other_errors_are_the_ops_own() {
    let (Some(mut uring), mut buf) = (open(), [0; 4]) else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let frame = receive(&ours, &mut buf);
    answer(&mut uring, &frame, -Errno::CONNRESET.raw_os_error());
    assert_eq!(finish(&mut uring, &frame), -Errno::CONNRESET.raw_os_error());
}

/// One byte through a pipe by an op that may name its fixed file.
fn write_one(uring: &mut Uring, writer: &impl AsRawFd, file: &crate::FixedFile) -> u16 {
    let byte = [7_u8];
    let op = Op::Write { fd: writer.as_raw_fd(), buf: byte.as_ptr(), len: 1, offset: u64::MAX };
    let frame = OpFrame::new(op);
    frame.fixed_file_index.set(uring.files.index_of(&uring.ring, file, &frame.op));
    let _ = uring.submit(&frame);
    assert_eq!(finish(uring, &frame), 1);
    frame.fixed_file_index.get()
}

#[test]
fn an_index_of_an_older_generation_or_of_another_ring_is_not_named() {
    let [Some(mut first), Some(mut second)] = [(); 2].map(|()| open_with(&Config::default()))
    else {
        return;
    };
    let (_reader, writer) = std::io::pipe().unwrap();
    let [file, other] = [(); 2].map(|()| crate::FixedFile::default());
    (0..100).for_each(|_| _ = write_one(&mut first, &writer, &file));
    if !first.caps().features.has(Feature::FixedFiles) {
        return;
    }
    let index = write_one(&mut first, &writer, &file);
    assert!(index > 0 && file.has_index());
    assert_eq!(write_one(&mut second, &writer, &file), 0, "another ring's");
    assert!(!second.release_file(&file));

    let stale = crate::FixedFile::default();
    stale.set(file.ring(), file.versioned_index());
    assert!(first.release_file(&file));
    (0..100).for_each(|_| _ = write_one(&mut first, &writer, &other));
    assert_eq!(write_one(&mut first, &writer, &other), index, "the index is used again");
    assert_eq!(write_one(&mut first, &writer, &stale), 0, "an older generation");
    first.release_file(&stale);
    assert_eq!(write_one(&mut first, &writer, &other), index, "a stale release does nothing");
}
