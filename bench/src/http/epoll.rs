//! The limit of readiness: one epoll set, edge-triggered, no runtime. A connection is registered
//! once; each edge is one receive and one send.

use std::{
    collections::HashMap,
    io,
    net::TcpListener,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, epoll, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send},
};

use super::{listen, request::Exchange};

struct Connection {
    fd: OwnedFd,
    exchange: Exchange,
}

pub fn serve() -> io::Result<()> {
    let listener = listen()?;
    listener.set_nonblocking(true)?;
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&set, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections = HashMap::new();
    let mut events = Vec::with_capacity(256);
    loop {
        match epoll::wait(&set, spare_capacity(&mut events), None) {
            Err(Errno::INTR) => continue,
            waited => waited?,
        };
        for event in events.drain(..) {
            match { event.data }.u64() {
                LISTENER => accept_all(&set, &listener, &mut connections)?,
                fd => {
                    let connection = connections.get_mut(&fd).expect("registered while open");
                    // The errors of a connection concern the client, and wrk counts them.
                    if !matches!(connection.be_served(), Ok(true)) {
                        connections.remove(&fd);
                    }
                }
            }
        }
    }
}

const LISTENER: u64 = u64::MAX;

fn accept_all(
    set: &OwnedFd,
    listener: &TcpListener,
    connections: &mut HashMap<u64, Connection>,
) -> io::Result<()> {
    loop {
        let fd = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Err(Errno::AGAIN) => return Ok(()),
            accepted => accepted?,
        };
        let key = fd.as_raw_fd() as u64;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(set, &fd, epoll::EventData::new_u64(key), interest)?;
        connections.insert(key, Connection { fd, exchange: Exchange::new() });
    }
}

impl Connection {
    /// Returns whether more input may come.
    fn be_served(&mut self) -> io::Result<bool> {
        loop {
            let space = self.exchange.space();
            let room = space.len();
            let count = match recv(&self.fd, space, RecvFlags::empty()) {
                Ok((0, _)) => return Ok(false),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            self.exchange.received(count)?;
            self.send()?;
            // Shorter than the buffer: nothing is left, and the next bytes make an edge.
            if count < room {
                return Ok(true);
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.exchange.output.len() {
            match send(&self.fd, &self.exchange.output[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                // A client that asks without reading would hold up all others; wrk reads.
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.exchange.output.clear();
        Ok(())
    }
}
