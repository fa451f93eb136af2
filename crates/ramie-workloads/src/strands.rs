//! The two kinds of strands, fibers and OS threads, behind one trait.

use std::{
    any::Any,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net,
    },
    thread,
};

use crate::{
    error::{WorkloadError, payload_text},
    http::Sockets,
    mix::Waits,
    panics::catch_panic,
    thread_limit::ThreadLimit,
    usage::{ThreadEnd, note_helper},
};

/// A kind of strand; only used as a type parameter.
pub trait StrandKind: Sockets + Waits + Sized + 'static {
    /// The plural noun for messages.
    const NOUN: &'static str;
    /// Whether a strand has to yield so that others run; the kernel preempts threads.
    const IS_COOPERATIVE: bool;

    /// How many there may be at once before the system fails in a way that cannot be caught, and
    /// the limit that sets this number.
    fn most() -> (usize, &'static str) {
        (usize::MAX, "")
    }

    /// The handle that joins a strand.
    type Handle<T>;
    /// The means to unpark a strand.
    type Peer: Clone + Send + Sync + 'static;

    /// Spawns a strand.
    fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    /// Spawns a strand that stays on the caller's worker, if there are workers.
    fn spawn_here<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    /// Spawns a strand on this worker, if there are workers.
    fn spawn_on<T: Send + 'static>(
        worker: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    /// Spawns a strand that is no part of the workload, such as one that starts and stops the
    /// clocks. Its runs are not counted.
    fn spawn_helper<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>>;
    /// Waits for the end of a strand. The error is the payload of its panic.
    fn join<T>(handle: Self::Handle<T>) -> thread::Result<T>;
    /// The means to unpark the strand of a handle.
    fn peer<T>(handle: &Self::Handle<T>) -> &Self::Peer;
    /// The means to unpark the calling strand.
    fn current() -> Self::Peer;
    /// Waits until the calling strand is unparked.
    fn park();
    /// Unparks a strand.
    fn unpark(peer: &Self::Peer);
    /// Lets other strands run.
    fn yield_now();

    /// The reading end of a pipe.
    type PipeReader: io::Read + AsFd + From<OwnedFd> + Send + 'static;
    /// The writing end of a pipe.
    type PipeWriter: io::Write + AsFd + From<OwnedFd> + Send + 'static;
    /// A Unix stream.
    type Stream: io::Read + io::Write + AsFd + Send + 'static;

    /// Makes a pipe.
    fn pipe() -> io::Result<(Self::PipeReader, Self::PipeWriter)>;
    /// Makes a pair of connected streams.
    fn socketpair() -> io::Result<(Self::Stream, Self::Stream)>;
}

/// Fibers of the runtime in which the caller runs.
#[derive(Debug)]
pub enum OnFibers {}

impl StrandKind for OnFibers {
    const NOUN: &'static str = "fibers";
    const IS_COOPERATIVE: bool = true;
    type Handle<T> = ramie::fiber::JoinHandle<T>;
    type Peer = ramie::fiber::Fiber;

    #[inline(always)]
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

    fn spawn_on<T: Send + 'static>(
        worker: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        ramie::fiber::Builder::new().on(ramie::fiber::Place::Worker(worker)).spawn(f)
    }

    fn spawn_helper<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        Self::spawn(|| {
            note_helper();
            f()
        })
    }

    #[inline(always)]
    fn join<T>(handle: Self::Handle<T>) -> thread::Result<T> {
        handle.join()
    }

    fn peer<T>(handle: &Self::Handle<T>) -> &Self::Peer {
        handle.thread()
    }

    fn current() -> Self::Peer {
        ramie::fiber::current()
    }

    #[inline(always)]
    fn park() {
        ramie::fiber::park();
    }

    #[inline(always)]
    fn unpark(peer: &Self::Peer) {
        peer.unpark();
    }

    #[inline(always)]
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

/// OS threads.
#[derive(Debug)]
pub enum OnThreads {}

impl StrandKind for OnThreads {
    const NOUN: &'static str = "threads";
    const IS_COOPERATIVE: bool = false;
    type Handle<T> = thread::JoinHandle<T>;

    fn most() -> (usize, &'static str) {
        let limit = ThreadLimit::of_process();
        (limit.threads, limit.set_by)
    }

    type Peer = thread::Thread;

    #[inline]
    fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        let Some(end) = ThreadEnd::new() else { return thread::Builder::new().spawn(f) };
        thread::Builder::new().spawn(move || {
            let result = f();
            end.call();
            result
        })
    }

    fn spawn_here<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        Self::spawn(f)
    }

    fn spawn_on<T: Send + 'static>(
        _worker: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        Self::spawn(f)
    }

    fn spawn_helper<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self::Handle<T>> {
        thread::Builder::new().spawn(f)
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

/// The error of a spawn in a row of spawns, with the strands spawned before it.
pub(crate) struct SpawnFailure<S: StrandKind, T> {
    spawned: Vec<S::Handle<T>>,
    wanted: usize,
    error: io::Error,
}

impl<S: StrandKind, T> SpawnFailure<S, T> {
    /// Joins the strands, which the caller has asked to end, and reports how many there were.
    pub(crate) fn give_up(self) -> WorkloadError {
        let reached = self.spawned.len();
        for handle in self.spawned {
            let _ = S::join(handle);
        }
        too_many::<S>(reached, self.wanted, &self.error.to_string())
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = &S::Peer> {
        self.spawned.iter().map(S::peer)
    }
}

/// Spawns `count` strands; `make` returns the closure for each number.
pub(crate) fn spawn_all<S: StrandKind, T: Send + 'static, F>(
    count: usize,
    make: impl FnMut(usize) -> F,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>>
where
    F: FnOnce() -> T + Send + 'static,
{
    spawn_all_by(count, make, S::spawn)
}

/// Spawns strands that stay on the caller's worker, if there are workers.
pub(crate) fn spawn_all_here<S: StrandKind, T: Send + 'static, F>(
    count: usize,
    make: impl FnMut(usize) -> F,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>>
where
    F: FnOnce() -> T + Send + 'static,
{
    spawn_all_by(count, make, S::spawn_here)
}

#[inline]
fn spawn_all_by<S: StrandKind, T: Send + 'static, F>(
    count: usize,
    mut make: impl FnMut(usize) -> F,
    spawn: impl Fn(F) -> io::Result<S::Handle<T>>,
) -> Result<Vec<S::Handle<T>>, SpawnFailure<S, T>> {
    let mut handles = Vec::new();
    let short = |spawned, error| SpawnFailure { spawned, wanted: count, error };
    if let Err(error) = handles.try_reserve_exact(count) {
        return Err(short(handles, io::Error::other(error)));
    }
    let (most, set_by) = S::most();
    let spawnable = count.min(most);
    // The runtime panics if it has no memory for one more strand. A panic that left the closure of
    // `run` would wait for fibers that nobody unparks any more, so it is caught here.
    let spawned = catch_panic(|| {
        let mut error = None;
        let numbers = 0..spawnable;
        handles.extend(numbers.map_while(|number| match spawn(make(number)) {
            Ok(handle) => Some(handle),
            Err(refusal) => {
                error = Some(refusal);
                None
            }
        }));
        error
    });
    let error = match spawned {
        Ok(Some(error)) => error,
        Ok(None) if spawnable < count => {
            io::Error::other(format!("{set_by} allows no more stacks"))
        }
        Ok(None) => return Ok(handles),
        Err(panic) => io::Error::other(panic),
    };
    Err(short(handles, error))
}

/// Spawns one strand more than the `reached` ones, of `wanted`.
pub(crate) fn try_spawn<S: StrandKind, T>(
    reached: usize,
    wanted: usize,
    spawn: impl FnOnce() -> io::Result<S::Handle<T>>,
) -> Result<S::Handle<T>, WorkloadError> {
    let why = match catch_panic(spawn) {
        Ok(Ok(handle)) => return Ok(handle),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    Err(too_many::<S>(reached, wanted, &why))
}

/// Joins all strands in order and passes each value to `take`. Fails if a strand could not run.
#[inline]
pub(crate) fn join_all<S: StrandKind, T>(
    handles: Vec<S::Handle<T>>,
    mut take: impl FnMut(T),
) -> Result<(), WorkloadError> {
    let wanted = handles.len();
    let mut failed: Option<(usize, Box<dyn Any + Send>)> = None;
    for handle in handles {
        match S::join(handle) {
            Ok(value) => take(value),
            Err(payload) => count_failure(&mut failed, payload),
        }
    }
    let Some((count, payload)) = failed else { return Ok(()) };
    let why = payload_text(&*payload);
    // The runtime's message if there was no memory for a fiber's stack.
    if S::IS_COOPERATIVE && why.contains("cannot start") {
        return Err(too_many::<S>(wanted - count, wanted, why));
    }
    let noun = S::NOUN;
    Err(WorkloadError::wrong(format!("{count} of {wanted} {noun} panicked ({why})")))
}

/// Out of line, so that the loop of [`join_all`] is small and the join is inlined.
#[cold]
#[inline(never)]
fn count_failure(failed: &mut Option<(usize, Box<dyn Any + Send>)>, payload: Box<dyn Any + Send>) {
    failed.get_or_insert((0, payload)).0 += 1;
}

fn too_many<S: StrandKind>(reached: usize, wanted: usize, why: &str) -> WorkloadError {
    let cure = match (S::IS_COOPERATIVE, why.contains("raise")) {
        (true, true) => "or ask for fewer",
        (true, false) => "ask for fewer, or raise the limit on memory (ulimit -v)",
        (false, _) => {
            "ask for fewer, raise the limits (ulimit -u, kernel.pid_max, kernel.threads-max, \
             vm.max_map_count), or use --on fibers"
        }
    };
    let noun = S::NOUN;
    WorkloadError::new(format!(
        "only {reached} of {wanted} {noun} could be spawned ({why}); {cure}"
    ))
}
