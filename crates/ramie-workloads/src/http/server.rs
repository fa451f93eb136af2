//! The server: a strand that accepts, one for each connection, and one that oversees the run.

use std::{
    io::{self, BufRead, BufReader, IoSlice, Read, Write},
    net::TcpListener,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::net::{Shutdown, listen, shutdown};

use super::{AfterAnswers, Exchange, Http, Page};
use crate::{
    Cost, StrandKind, WorkloadError,
    error::payload_text,
    mix::{compute, jump},
    strands::{join_all, try_spawn},
    usage::Stopwatch,
};

/// How many connections the kernel queues until they are accepted.
const BACKLOG: i32 = 4096;

/// Everything that a server needs beside the parameters of the workload.
#[derive(Debug)]
pub struct HttpServer {
    /// The listening socket.
    pub listener: TcpListener,
    /// The speed of this CPU; see [`iterations_per_ms`](crate::mix::iterations_per_ms).
    pub iterations_per_ms: u64,
    /// The workers that get the connections in turn.
    pub workers: usize,
    /// The process that decides when the measured interval begins and ends.
    pub overseer: Overseer,
}

/// The other process, by the pipes from it and to it.
#[derive(Debug)]
pub enum Overseer {
    /// The load generator prints `ready`, reads a byte at the begin, and prints its report. It
    /// closes its connections when it has read one more byte.
    Generator(OwnedFd, OwnedFd),
    /// The parent process writes a byte at the begin and closes its pipe at the end. It reads the
    /// line [`STOPPED`] when the clocks have stopped. If the server cannot serve all connections,
    /// it calls the function, which ends the process, because the parent closes its pipe only at
    /// the end of a run.
    Parent(OwnedFd, OwnedFd, fn(WorkloadError) -> !),
}

/// The result of a server.
#[derive(Debug)]
pub struct Served {
    /// The cost of the interval that the overseer measured.
    pub cost: Cost,
    /// The number of answers, those before the interval included.
    pub answers: u64,
    /// The line of the generator's report; empty if the overseer is the parent.
    pub report: String,
}

/// Why a server has no result.
#[derive(Debug)]
pub enum ServeError {
    /// The generator or the parent has ended.
    OverseerEnded,
    /// Something else failed.
    Failed(WorkloadError),
}

impl From<WorkloadError> for ServeError {
    fn from(error: WorkloadError) -> Self {
        ServeError::Failed(error)
    }
}

/// The line by which a server lets its parent process close the connections.
pub const STOPPED: &str = "stopped";

/// The byte that starts the generator.
const BEGIN: u8 = b'!';
/// The byte that lets the generator close its connections.
const END: u8 = b'.';

/// The parts that the strands of all connections share.
struct Service {
    page: Page,
    /// The iterations that are computed for each request.
    iterations: u64,
}

/// The result of one connection.
struct Conversation {
    number: u64,
    answers: u64,
    /// The result of all its computing.
    state: u64,
}

impl Http {
    /// Serves the connections on strands until they are closed, and checks the results.
    ///
    /// # Errors
    /// If the system refuses a strand or a connection, if a computed result is wrong, or if the
    /// overseer ends too early.
    pub fn serve<S: StrandKind>(&self, server: HttpServer) -> Result<Served, ServeError> {
        let HttpServer { listener, iterations_per_ms, workers, overseer } = server;
        let iterations = u64::from(self.work).saturating_mul(iterations_per_ms) / 1000;
        let page = Page::of(self.body as usize, self.write);
        let service = Arc::new(Service { page, iterations });
        listen(&listener, BACKLOG).map_err(|error| cannot_accept(&error.into()))?;
        let listener = Arc::new(S::Listener::from(listener));
        let is_over = Arc::new(AtomicBool::new(false));
        let end_process = match &overseer {
            Overseer::Generator(..) => None,
            Overseer::Parent(.., end_process) => Some(*end_process),
        };
        let oversee = {
            let (listener, is_over) = (Arc::clone(&listener), Arc::clone(&is_over));
            move || {
                let overseen = overseer.oversee::<S>();
                is_over.store(true, Ordering::SeqCst);
                // Ends the strand that accepts if connections are missing.
                let _ = shutdown(&*listener, Shutdown::Both);
                overseen
            }
        };
        let overseeing = try_spawn::<S, _>(0, 1, || S::spawn_helper(oversee))?;
        let (strands, accepted) = self.accept_all::<S>(&listener, &is_over, &service, workers);
        let accepted = accepted.map_err(|error| match end_process {
            Some(end_process) => end_process(error),
            None => error,
        });
        // If connections are missing, those that wait are reset, so that the generator ends.
        let _ = shutdown(&*listener, Shutdown::Both);
        let overseen = S::join(overseeing);
        let mut conversations = Vec::with_capacity(strands.len());
        let joined = join_all::<S, _>(strands, |conversation| conversations.push(conversation));
        // In the order of causes: without a strand or a connection the generator fails, too.
        accepted.and(joined)?;
        let overseen = overseen.map_err(|payload| WorkloadError::wrong(payload_text(&*payload)))?;
        let served = overseen.map_err(|_| ServeError::OverseerEnded)?;
        Ok(Served { answers: service.check(&conversations)?, ..served })
    }

    /// Accepts all connections, and serves each on a strand of its own. Stops after an error, or if
    /// the run is over.
    fn accept_all<S: StrandKind>(
        &self,
        listener: &S::Listener,
        is_over: &AtomicBool,
        service: &Arc<Service>,
        workers: usize,
    ) -> (Vec<S::Handle<Conversation>>, Result<(), WorkloadError>) {
        let count = self.connections as usize;
        let mut strands = Vec::new();
        for number in 0..count {
            let connection = match S::accept(listener) {
                Ok(connection) => connection,
                Err(_) if is_over.load(Ordering::SeqCst) => break,
                Err(error) => return (strands, Err(cannot_accept(&error))),
            };
            let service = Arc::clone(service);
            let serve = move || service.serve::<S>(&connection, number as u64);
            match try_spawn::<S, _>(number, count, || S::spawn_on(number % workers, serve)) {
                Ok(strand) => strands.push(strand),
                Err(error) => return (strands, Err(error)),
            }
        }
        (strands, Ok(()))
    }
}

impl Overseer {
    /// Measures the interval. An error means that the other process has ended.
    fn oversee<S: StrandKind>(self) -> io::Result<Served> {
        match self {
            Overseer::Generator(from, to) => {
                let mut from = BufReader::new(S::PipeReader::from(from));
                let mut to = S::PipeWriter::from(to);
                let mut line = || {
                    let mut line = String::new();
                    from.read_line(&mut line)?;
                    match line.ends_with('\n') {
                        true => Ok(line),
                        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    }
                };
                line()?;
                let watch = Stopwatch::start();
                to.write_all(&[BEGIN])?;
                let report = line()?;
                let cost = watch.stop();
                // If the generator has ended, its connections are closed already.
                let _ = to.write_all(&[END]);
                Ok(Served { cost, answers: 0, report })
            }
            Overseer::Parent(from, to, _) => {
                let mut from = S::PipeReader::from(from);
                from.read_exact(&mut [0])?;
                let watch = Stopwatch::start();
                from.read_to_end(&mut Vec::new())?;
                let cost = watch.stop();
                S::PipeWriter::from(to).write_all(format!("{STOPPED}\n").as_bytes())?;
                Ok(Served { cost, answers: 0, report: String::new() })
            }
        }
    }
}

impl Service {
    /// Answers the requests of one connection until the generator closes it.
    fn serve<S: StrandKind>(&self, connection: &S::Connection, number: u64) -> Conversation {
        let mut exchange = Exchange::default();
        let mut conversation = Conversation { number, answers: 0, state: number };
        // An error concerns the generator, which reports it; the numbers of answers are checked.
        let _ = S::receive_each(connection, |bytes| {
            let next = exchange.receive(bytes, false, &self.page);
            while conversation.answers < exchange.served() {
                conversation.state = compute(conversation.state, self.iterations);
                conversation.answers += 1;
            }
            for pair in exchange.answers(&self.page) {
                S::write_all_vectored(connection, &mut pair.map(IoSlice::new))?;
            }
            exchange.answers_are_sent();
            Ok(next == AfterAnswers::Read)
        });
        conversation
    }

    /// Checks the numbers that the strands computed; returns the number of all answers.
    fn check(&self, conversations: &[Conversation]) -> Result<u64, WorkloadError> {
        for Conversation { number, answers, state } in conversations {
            if jump(*number, self.iterations.wrapping_mul(*answers)) != *state {
                return Err(WorkloadError::wrong(format!(
                    "http went wrong: connection {number} computed something else for {answers} \
                     requests"
                )));
            }
        }
        Ok(conversations.iter().map(|conversation| conversation.answers).sum())
    }
}

fn cannot_accept(error: &io::Error) -> WorkloadError {
    WorkloadError::new(format!(
        "the server cannot accept connections ({error}); ask for fewer --connections, or raise \
         the limits on descriptors (ulimit -n, fs.file-max)"
    ))
}
