//! The flight recorder: it records from the start of a runtime, keeps the last events, and writes
//! them to a file when something goes wrong.
//!
//! A thread writes the files, so that they are written while all workers hang. It sleeps for a
//! futex otherwise, and costs no descriptor (`core/trace/trouble.rs` has the protocol). A program
//! asks for a file by [`write_trace`].
#![allow(unsafe_code)]

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ramie_driver::{
    logging,
    sys::{self, RuntimeThread, supervise},
};

use super::{
    files,
    gather::{FirstEvent, Gatherer, Sink},
    stream::WakeInTheEnd,
};
use crate::{
    core::trace::{self, Recording, TraceOptions, Trouble, TroubleListener},
    handler::Listening,
    inspect::{
        per_process::{PartUse, PerProcess},
        serve::warn,
    },
    op::blocking,
};

const SIGQUIT: i32 = 3;
/// The least time between two files for the same kind of trouble.
const PAUSE: Duration = Duration::from_secs(10);
/// The thread's stack.
const STACK: usize = 256 * 1024;

static FLIGHT: PerProcess<Flight> = PerProcess::new();
/// The number of the next file of this process.
static NEXT_FILE: AtomicU64 = AtomicU64::new(1);

/// The options of a flight recorder ([`Builder::flight_recorder`]).
///
/// A flight recorder writes down each step of the program's strands, and keeps the last ones in
/// memory. It writes them to a file, a *trace*, when
/// - the watchdog reports a stall or a deadlock,
/// - a strand panics, also if the program catches the panic,
/// - the process gets SIGQUIT (Ctrl-\), which then does not end it,
/// - the program calls [`write_trace`](crate::inspect::write_trace).
///
/// `ramie trace FILE` converts a file for <https://ui.perfetto.dev>; [`Trace`](super::Trace) reads
/// it. If no file can be made in the directory when the runtime starts, a warning goes to stderr
/// and to the log, and nothing is recorded.
/// For one kind of trouble there is at most one file in 10 seconds, and the directory has
/// [`files`](FlightRecorder::files) of them at most for each process that runs.
///
/// [`Builder::flight_recorder`]: crate::Builder::flight_recorder
///
/// # Examples
/// ```no_run
/// use ramie::{Runtime, inspect::FlightRecorder};
///
/// let recorder = FlightRecorder::new("/var/tmp/traces").files(4);
/// Runtime::builder().flight_recorder(recorder).build()?.run(|| ());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "options do nothing until they are given to a builder"]
pub struct FlightRecorder {
    pub(crate) directory: PathBuf,
    pub(crate) bytes_per_worker: usize,
    pub(crate) files: usize,
}

impl FlightRecorder {
    /// Returns options for files in that directory, which is created, with the mode 0700, if it is
    /// missing.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        FlightRecorder { directory: directory.into(), bytes_per_worker: 1 << 20, files: 16 }
    }

    /// Sets the memory for the events of each worker, 4 KiB to 64 MiB, rounded up to a power of
    /// two; 1 MiB by default, which is 32,768 events. Other threads that wait have a sixteenth.
    /// All together have 256 MiB at most.
    pub fn bytes_per_worker(mut self, bytes: usize) -> Self {
        self.bytes_per_worker = bytes;
        self
    }

    /// Sets the most traces of this process in the directory, 1 to 1,000; 16 by default. The oldest
    /// are removed. Traces of processes of the same user that have ended count, too; those of
    /// processes that run do not, and are left alone.
    pub fn files(mut self, files: usize) -> Self {
        self.files = files;
        self
    }
}

/// Starts the flight recorder of the process, if it does not run yet, until the value is dropped.
/// If that is impossible, a warning goes to stderr and to the log.
pub(crate) fn record(options: &FlightRecorder) -> Option<PartUse<Flight>> {
    let begun = FLIGHT.begin(|| Flight::start(options.clone()));
    begun.map_err(|error| warn(&format!("no flight recorder: {error}"))).ok()
}

/// Writes the events that the flight recorder of this process has kept to a new file, and returns
/// its path.
///
/// # Blocking
/// Parks the strand, or blocks the thread, until the file is written.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Errors
/// `NotFound`: no flight recorder runs. Otherwise the file cannot be written.
///
/// # Examples
/// ```
/// # let directory = std::env::temp_dir().join(format!("ramie-doc-{}", std::process::id()));
/// use ramie::{Runtime, inspect::{self, FlightRecorder, Trace}};
///
/// let runtime = Runtime::builder().flight_recorder(FlightRecorder::new(&directory)).build()?;
/// let path = runtime.run(|| {
///     ramie::fiber::spawn(|| 1 + 1).join().unwrap();
///     inspect::write_trace()
/// })?;
/// let trace = Trace::read(&std::fs::read(path)?)?;
/// assert!(trace.events.len() > 2);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn write_trace() -> io::Result<PathBuf> {
    let none = || {
        let text = "no flight recorder runs; build the runtime with Builder::flight_recorder, or \
                    set RAMIE_FLIGHT_RECORDER";
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    let flight = FLIGHT.with(|flight| Arc::clone(&flight.state)).ok_or_else(none)?;
    blocking(|| flight.write("call"))
}

/// The recording, and the thread that writes its files; both end when this is dropped.
pub(crate) struct Flight {
    state: Arc<FlightState>,
    listening: Option<Listening>,
    thread: Option<JoinHandle<()>>,
}

struct FlightState {
    recording: Recording,
    options: FlightRecorder,
    is_over: AtomicBool,
    /// When the last file for each kind of trouble was written.
    written: Mutex<[Option<Instant>; Trouble::ALL.len()]>,
    /// Held while a file is written, because each removes the oldest ones.
    is_writing: Mutex<()>,
    _last: WakeInTheEnd,
}

impl Flight {
    fn start(options: FlightRecorder) -> io::Result<Flight> {
        files::prepare(&options.directory)?;
        let recording = Recording::begin(TraceOptions { bytes: options.bytes_per_worker });
        let state = Arc::new(FlightState {
            recording,
            options,
            is_over: AtomicBool::new(false),
            written: Mutex::default(),
            is_writing: Mutex::new(()),
            _last: WakeInTheEnd,
        });
        let (theirs, listener) = (Arc::clone(&state), TroubleListener::new());
        let builder = thread::Builder::new().name("ramie-recorder".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || theirs.run(&listener)).map_err(|error| {
            let text = format!("no thread for it ({error}); raise `ulimit -u` or `ulimit -v`");
            io::Error::new(error.kind(), text)
        })?;
        let mut flight = Flight { state, listening: None, thread: Some(thread) };
        // SAFETY: `report` uses atomics, and makes one system call, which leaves errno alone.
        flight.listening =
            Some(unsafe { Listening::new(SIGQUIT, || trace::report(Trouble::Signal)) }?);
        Ok(flight)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.listening = None;
        self.state.is_over.store(true, Ordering::SeqCst);
        TroubleListener::wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl FlightState {
    fn run(&self, listener: &TroubleListener) {
        let _mark = RuntimeThread::enter();
        sys::block_signals();
        // The threads of the program may have blocked it.
        supervise::unblock(&[SIGQUIT]);
        listener.listen(
            || self.is_over.load(Ordering::SeqCst),
            |troubles| troubles.iter().for_each(|trouble| self.answer(*trouble)),
        );
    }

    /// Writes a file for that trouble, unless there was one a moment ago.
    fn answer(&self, trouble: Trouble) {
        let now = Instant::now();
        let is_recent = |last: Instant| now.duration_since(last) < PAUSE;
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let last = &mut written[trouble as usize];
            if trouble != Trouble::Signal && last.is_some_and(is_recent) {
                return;
            }
            *last = Some(now);
        }
        let line = match self.write(trouble.name()) {
            Ok(path) => format!(
                "flight recorder: {} is the trace of the last events, written on {}; `ramie trace` \
                 converts it",
                path.display(),
                trouble.name()
            ),
            Err(error) => format!("flight recorder: no trace on {}: {error}", trouble.name()),
        };
        // Not to the logger at once, for whose lock a hanging fiber may wait.
        logging::print_unless_full(format_args!("ramie: {line}"));
        logging::later(logging::Level::Warn, module_path!(), line);
    }

    fn write(&self, why: &str) -> io::Result<PathBuf> {
        let _one_at_a_time = self.is_writing.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files::create(&self.options.directory, self.options.files, &NEXT_FILE)?;
        let mut writer = BufWriter::new(&file.file);
        let named = |error: io::Error| file.explain(&error);
        let mut sink = |bytes: &[u8]| writer.write_all(bytes).map_err(named);
        let sink: Sink<'_> = &mut sink;
        let mut gatherer =
            Gatherer::begin(&self.recording, why, FirstEvent::Oldest, u64::MAX, sink)?;
        gatherer.step(sink)?;
        gatherer.describe_strands(|| self.is_over.load(Ordering::SeqCst), sink)?;
        gatherer.end(sink)?;
        writer.flush().map_err(named)?;
        drop(writer);
        Ok(file.keep())
    }
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Trouble::Stall => "a stall",
            Trouble::Deadlock => "a deadlock",
            Trouble::Panic => "a panic",
            Trouble::Signal => "SIGQUIT",
        }
    }
}
