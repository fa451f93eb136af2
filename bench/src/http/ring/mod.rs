//! The limit of completion: a loop over one bare ring, without fibers, set up like Ramie's. Each
//! completion is answered by the next op at once, and all ops go to the kernel in one call.
//!
//! | op | effect of its completion |
//! |---|---|
//! | accept (multishot) | a new connection, whose receive begins |
//! | receive | bytes: the answers are sent, and after a single receive the next one begins |
//! | send | answers made meanwhile can be sent |
//! | others (close, of a direct descriptor; cancel) | none |
//!
//! A connection ends when its receive did and no send is in flight.
#![allow(unsafe_code)]

mod buffers;

use std::{
    io,
    net::TcpListener,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use io_uring::{
    CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, opcode,
    squeue::Entry,
    types::{Fd, Fixed},
};

use self::buffers::BufferRing;
use super::{listen, request::Exchange};

/// The kind of receive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// One op per receive, into the connection's own buffer.
    Single,
    /// One op for all, into incremental buffers of the ring.
    Multishot,
}

/// Whether ops name descriptors or slots in the ring's table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Files {
    Plain,
    Direct,
}

const ENTRIES: u32 = 4096;
/// Slots for direct descriptors.
const PLACES: u32 = 8192;
/// Makes a receive wait for readiness first, because a client that was just answered has sent
/// nothing yet.
const POLL_FIRST: u16 = 1;

/// The kind of an op, in the low bits of its user data; above them, the connection's index.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const QUIET: u64 = 3;
const TAG_BITS: u32 = 2;

struct Connection {
    /// None of a direct descriptor.
    fd: Option<OwnedFd>,
    exchange: Exchange,
    /// The bytes being sent, and how many of them have been.
    sending: Vec<u8>,
    sent: usize,
    has_ended: bool,
}

struct Server<'ring> {
    submitter: Submitter<'ring>,
    queue: SubmissionQueue<'ring>,
    listener: TcpListener,
    buffers: BufferRing,
    receive: Receive,
    files: Files,
    /// By descriptor, or by slot in the ring's table.
    connections: Vec<Option<Box<Connection>>>,
}

pub fn serve(receive: Receive, files: Files) -> io::Result<()> {
    let mut ring = ring()?;
    let buffers = BufferRing::new()?;
    // SAFETY: `buffers` lives as long as the server below, which ends only by an error that ends
    // the process.
    unsafe { buffers.register(&ring.submitter()) }?;
    if files == Files::Direct {
        ring.submitter().register_files_sparse(PLACES)?;
    }
    let (submitter, queue, completions) = ring.split();
    let connections = Vec::new();
    let listener = listen()?;
    Server { submitter, queue, listener, buffers, receive, files, connections }.run(completions)
}

fn ring() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_cqsize(ENTRIES * 4)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_no_sqarray();
    builder.build(ENTRIES)
}

impl Server<'_> {
    fn run(&mut self, mut completions: CompletionQueue<'_>) -> io::Result<()> {
        self.accept()?;
        loop {
            self.queue.sync();
            self.submitter.submit_and_wait(1)?;
            completions.sync();
            for entry in &mut completions {
                self.complete(&entry)?;
            }
        }
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        let place = (entry.user_data() >> TAG_BITS) as usize;
        match entry.user_data() & ((1 << TAG_BITS) - 1) {
            ACCEPT => self.accepted(entry),
            RECEIVE => self.received(place, entry),
            SEND => self.sent(place, entry.result()),
            _ => Ok(()),
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let listener = Fd(self.listener.as_raw_fd());
        let accept = opcode::AcceptMulti::new(listener);
        let accept = accept.allocate_file_index(self.files == Files::Direct);
        self.push(accept.build().user_data(ACCEPT))
    }

    fn accepted(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        let number = check(entry.result())?;
        let fd = match self.files {
            // SAFETY: the kernel has just created it for this server.
            Files::Plain => Some(unsafe { OwnedFd::from_raw_fd(number) }),
            Files::Direct => None,
        };
        let place = number as usize;
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        self.connections[place] = Some(Box::new(Connection {
            fd,
            exchange: Exchange::new(),
            sending: Vec::new(),
            sent: 0,
            has_ended: false,
        }));
        self.receive(place, 0)?;
        if cqueue::more(entry.flags()) { Ok(()) } else { self.accept() }
    }

    fn connection(&mut self, place: usize) -> &mut Connection {
        self.connections[place].as_mut().expect("open while it has ops")
    }

    fn receive(&mut self, place: usize, hint: u16) -> io::Result<()> {
        let entry = match self.receive {
            Receive::Single => {
                let space = self.connection(place).exchange.space();
                let (start, len) = (space.as_mut_ptr(), space.len() as u32);
                match self.files {
                    Files::Plain => opcode::Recv::new(Fd(place as RawFd), start, len),
                    Files::Direct => opcode::Recv::new(Fixed(place as u32), start, len),
                }
                .ioprio(hint)
                .build()
            }
            Receive::Multishot => match self.files {
                Files::Plain => opcode::RecvMulti::new(Fd(place as RawFd), buffers::GROUP),
                Files::Direct => opcode::RecvMulti::new(Fixed(place as u32), buffers::GROUP),
            }
            .build(),
        };
        self.push(entry.user_data((place as u64) << TAG_BITS | RECEIVE))
    }

    fn received(&mut self, place: usize, entry: &cqueue::Entry) -> io::Result<()> {
        let is_over = !cqueue::more(entry.flags());
        let connection = self.connections[place].as_mut().expect("open while it has ops");
        // The errors of a connection concern the client, and wrk counts them.
        let goes_on = match entry.result() {
            result if result == -NO_BUFFERS => true,
            ..=0 => false,
            count => match self.receive {
                Receive::Single => connection.exchange.received(count as usize).is_ok(),
                Receive::Multishot => {
                    let bytes = self.buffers.taken(count as usize, entry.flags());
                    let result = connection.exchange.received_elsewhere(bytes);
                    self.buffers.put_back_if_used_up(entry.flags());
                    result.is_ok()
                }
            },
        };
        if connection.sending.is_empty() {
            self.send_next(place)?;
        }
        match (goes_on, is_over) {
            (true, true) => self.receive(place, POLL_FIRST),
            (true, false) => Ok(()),
            (false, true) => self.end(place),
            (false, false) => self.stop_receiving(place),
        }
    }

    /// Ends the connection at the receive's last completion.
    fn stop_receiving(&mut self, place: usize) -> io::Result<()> {
        let receive = (place as u64) << TAG_BITS | RECEIVE;
        self.push(opcode::AsyncCancel::new(receive).build().user_data(QUIET))
    }

    /// Sends the answers that were made meanwhile.
    fn send_next(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connection(place);
        connection.sending.clear();
        connection.sent = 0;
        std::mem::swap(&mut connection.sending, &mut connection.exchange.output);
        if connection.sending.is_empty() {
            return Ok(());
        }
        self.send(place)
    }

    fn send(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connection(place);
        let rest = &connection.sending[connection.sent..];
        let (start, len) = (rest.as_ptr(), rest.len() as u32);
        let send = match self.files {
            Files::Plain => opcode::Send::new(Fd(place as RawFd), start, len),
            Files::Direct => opcode::Send::new(Fixed(place as u32), start, len),
        };
        let send = send.flags(rustix::net::SendFlags::NOSIGNAL.bits() as i32);
        self.push(send.build().user_data((place as u64) << TAG_BITS | SEND))
    }

    fn sent(&mut self, place: usize, result: i32) -> io::Result<()> {
        let connection = self.connection(place);
        if result < 0 {
            // The receive reports the error, too, or has done so.
            connection.sending.clear();
            return if connection.has_ended { self.end(place) } else { Ok(()) };
        }
        connection.sent += result as usize;
        if connection.sent < connection.sending.len() {
            return self.send(place);
        }
        self.send_next(place)?;
        if self.connection(place).has_ended { self.end(place) } else { Ok(()) }
    }

    /// Called when no receive is in flight any more. If no send is either, closes the connection.
    fn end(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connection(place);
        connection.has_ended = true;
        if !connection.sending.is_empty() {
            return Ok(());
        }
        let is_direct = connection.fd.is_none();
        self.connections[place] = None;
        match is_direct {
            true => self.push(opcode::Close::new(Fixed(place as u32)).build().user_data(QUIET)),
            false => Ok(()),
        }
    }

    #[inline]
    fn push(&mut self, entry: Entry) -> io::Result<()> {
        // SAFETY: the memory that the entry points to belongs to its connection, which is kept
        // until its ops are complete, or to `buffers`.
        while unsafe { self.queue.push(&entry) }.is_err() {
            self.queue.sync();
            self.submitter.submit()?;
            self.queue.sync();
        }
        Ok(())
    }
}

const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}
