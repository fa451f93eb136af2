//! The two kinds of strands, fibers and OS threads, behind one trait.

use std::{any::Any, fs, io, os::unix::net, thread};

use crate::{
    failure::{Failure, payload_text},
    runtime,
};

/// A kind of strand; only used as a type parameter.
pub(super) trait Strands: Sized + 'static {
    /// The plural noun for messages.
    const NOUN: &'static str;
    /// Whether a strand has to yield so that others run; the kernel preempts threads.
    const IS_COOPERATIVE: bool;

    /// How many there may be at once before the system fails in a way that cannot be caught.
    fn most() -> usize {
        usize::MAX
    }

    type Handle<T>;
    type Peer: Clone + Send + Sync + 'static;

    fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    /// Spawns a strand that stays on the caller's worker, if there are workers.
    fn spawn_here<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    fn join<T>(handle: Self::Handle<T>) -> thread::Result<T>;
    fn peer<T>(handle: &Self::Handle<T>) -> &Self::Peer;
    fn current() -> Self::Peer;
    fn park();
    fn unpark(peer: &Self::Peer);
    fn yield_now();

    type PipeReader: io::Read + Send + 'static;
    type PipeWriter: io::Write + Send + 'static;
    type Stream: io::Read + io::Write + Send + 'static;

    fn pipe() -> io::Result<(Self::PipeReader, Self::PipeWriter)>;
    fn socketpair() -> io::Result<(Self::Stream, Self::Stream)>;
}

pub(super) enum Fibers {}

impl Strands for Fibers {
    const NOUN: &'static str = "fibers";
    const IS_COOPERATIVE: bool = true;
    type Handle<T> = ramie::fiber::JoinHandle<T>;
    type Peer = ramie::fiber::Fiber;

    #[inline]
    fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        ramie::fiber::Builder::new().spawn(f)
    }

    fn spawn_here<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        ramie::fiber::Builder::new().spawn_local(f)
    }

    #[inline]
    fn join<T>(handle: Self::Handle<T>) -> thread::Result<T> {
        handle.join()
    }

    fn peer<T>(handle: &Self::Handle<T>) -> &Self::Peer {
        handle.thread()
    }

    fn current() -> Self::Peer {
        ramie::fiber::current()
    }

    #[inline]
    fn park() {
        ramie::fiber::park();
    }

    #[inline]
    fn unpark(peer: &Self::Peer) {
        peer.unpark();
    }

    #[inline]
    fn yield_now() {
        ramie::fiber::yield_now();
    }

    type PipeReader = ramie::io::PipeReader;
    type PipeWriter = ramie::io::PipeWriter;
    type Stream = ramie::os::unix::net::UnixStream;

    fn pipe() -> io::Result<(Self::PipeReader, Self::PipeWriter)> {
        ramie::io::pipe()
    }

    fn socketpair() -> io::Result<(Self::Stream, Self::Stream)> {
        Self::Stream::pair()
    }
}

pub(super) enum Threads {}

impl Strands for Threads {
    const NOUN: &'static str = "threads";
    const IS_COOPERATIVE: bool = false;
    type Handle<T> = thread::JoinHandle<T>;

    /// A thread takes four mappings (its stack, its signal stack, a guard for each), and std aborts
    /// the process if a new thread cannot map its signal stack.
    fn most() -> usize {
        most_threads()
    }

    type Peer = thread::Thread;

    fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        thread::Builder::new().spawn(f)
    }

    fn spawn_here<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        Self::spawn(f)
    }

    fn join<T>(handle: Self::Handle<T>) -> thread::Result<T> {
        handle.join()
    }

    fn peer<T>(handle: &Self::Handle<T>) -> &Self::Peer {
        handle.thread()
    }

    fn current() -> Self::Peer {
        thread::current()
    }

    fn park() {
        thread::park();
    }

    fn unpark(peer: &Self::Peer) {
        peer.unpark();
    }

    fn yield_now() {
        thread::yield_now();
    }

    type PipeReader = io::PipeReader;
    type PipeWriter = io::PipeWriter;
    type Stream = net::UnixStream;

    fn pipe() -> io::Result<(Self::PipeReader, Self::PipeWriter)> {
        io::pipe()
    }

    fn socketpair() -> io::Result<(Self::Stream, Self::Stream)> {
        Self::Stream::pair()
    }
}

/// Mappings of the program besides its threads' stacks, with room to spare.
const OTHER_MAPPINGS: usize = 256;

/// How many threads `vm.max_map_count` allows in one process.
pub(crate) fn most_threads() -> usize {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let mappings: usize = text.trim().parse().unwrap_or(65_530);
    mappings.saturating_sub(OTHER_MAPPINGS) / 4
}

/// The error of a spawn in a row of spawns, with the strands spawned before it.
pub(super) struct SpawnFailure<S: Strands, T> {
    spawned: Vec<S::Handle<T>>,
    wanted: usize,
    error: io::Error,
}

impl<S: Strands, T> SpawnFailure<S, T> {
    /// Joins the strands, which the caller has asked to end, and reports how many there were.
    pub(super) fn give_up(self) -> Failure {
        let reached = self.spawned.len();
        for handle in self.spawned {
            let _ = S::join(handle);
        }
        too_many::<S>(reached, self.wanted, &self.error.to_string())
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = &S::Peer> {
        self.spawned.iter().map(S::peer)
    }
}

/// Spawns `count` strands; `make` returns the closure for each number.
pub(super) fn spawn_all<S: Strands, T: Send + 'static, F>(
    count: usize,
    make: impl FnMut(usize) -> F,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>>
where
    F: FnOnce() -> T + Send + 'static,
{
    spawn_all_by(count, make, S::spawn)
}

/// Spawns strands that stay on the caller's worker, if there are workers.
pub(super) fn spawn_all_here<S: Strands, T: Send + 'static, F>(
    count: usize,
    make: impl FnMut(usize) -> F,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>>
where
    F: FnOnce() -> T + Send + 'static,
{
    spawn_all_by(count, make, S::spawn_here)
}

#[inline]
fn spawn_all_by<S: Strands, T: Send + 'static, F>(
    count: usize,
    mut make: impl FnMut(usize) -> F,
    spawn: impl Fn(F) -> io::Result<S::Handle<T>>,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>> {
    let mut handles = Vec::new();
    let short = |spawned, error| SpawnFailure { spawned, wanted: count, error };
    if let Err(error) = handles.try_reserve_exact(count) {
        return Err(short(handles, io::Error::other(error)));
    }
    let most = S::most();
    // The runtime panics if it has no memory for one more strand. A panic that left the closure of
    // `run` would wait for fibers that nobody unparks any more, so it is caught here.
    let spawned = runtime::catch_panic(|| {
        for number in 0..count {
            if number == most {
                return Err(io::Error::other("vm.max_map_count allows no more stacks"));
            }
            handles.push(spawn(make(number))?);
        }
        Ok(())
    });
    match spawned.map_err(io::Error::other).flatten() {
        Ok(()) => Ok(handles),
        Err(error) => Err(short(handles, error)),
    }
}

/// Joins all strands in order and passes each value to `take`. Fails if a strand could not run.
#[inline]
pub(super) fn join_all<S: Strands, T>(
    handles: Vec<S::Handle<T>>,
    mut take: impl FnMut(T),
) -> Result<(), Failure> {
    let wanted = handles.len();
    let mut failed: Option<(usize, Box<dyn Any + Send>)> = None;
    for handle in handles {
        match S::join(handle) {
            Ok(value) => take(value),
            Err(payload) => failed.get_or_insert((0, payload)).0 += 1,
        }
    }
    let Some((count, payload)) = failed else { return Ok(()) };
    let why = payload_text(&*payload);
    // The runtime's message if there was no memory for a fiber's stack.
    if S::IS_COOPERATIVE && why.contains("cannot start") {
        return Err(too_many::<S>(wanted - count, wanted, why));
    }
    let noun = S::NOUN;
    Err(Failure::other(format!("{count} of {wanted} {noun} panicked ({why}); please report this")))
}

fn too_many<S: Strands>(reached: usize, wanted: usize, why: &str) -> Failure {
    let cure = match (S::IS_COOPERATIVE, why.contains("raise")) {
        (true, true) => "or ask for fewer",
        (true, false) => "ask for fewer, or raise the limit on memory (ulimit -v)",
        (false, _) => {
            "ask for fewer, raise the limits (ulimit -u, kernel.pid_max, kernel.threads-max, \
             vm.max_map_count), or use --on fibers"
        }
    };
    let noun = S::NOUN;
    Failure::other(format!("only {reached} of {wanted} {noun} could be spawned ({why}); {cure}"))
}
