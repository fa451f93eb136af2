//! Dumps on SIGQUIT: the handler wakes a thread, which writes the dump.
//!
//! The thread waits for a futex, so it costs no descriptor. Signals that come while it writes are
//! answered by one more dump.
//!
//! *The race to fear* is a signal between the thread's look at `asked` and its sleep. The handler
//! adds to the word for which the thread sleeps, so the kernel refuses that sleep.
#![allow(unsafe_code)]

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ramie_driver::{
    logging,
    sys::{self, RuntimeThread, supervise},
};

use super::{
    DumpOptions, collect,
    option::FILE_VARIABLE,
    per_process::{PartUse, PerProcess},
    serve::{SILENCE, STACK, warn},
};
use crate::handler::Listening;

const SIGQUIT: i32 = 3;
/// The longest sleep of the thread; any is long enough.
const SLEEP: Duration = Duration::from_hours(1);

static QUIT_DUMPS: PerProcess<QuitDumps> = PerProcess::new();

/// Answers SIGQUIT by a dump, to `file` or to stderr, until the value is dropped. If there is no
/// thread for it, a warning goes to stderr and to the log.
pub(crate) fn dump_on_quit(file: Option<PathBuf>) -> Option<PartUse<QuitDumps>> {
    let begun = QUIT_DUMPS.begin(|| QuitDumps::start(file));
    begun.map_err(|error| warn(&format!("no dump on SIGQUIT: {error}"))).ok()
}

/// The handler, and the thread that writes the dumps; both end when this is dropped.
pub(crate) struct QuitDumps {
    state: Arc<QuitState>,
    listening: Option<Listening>,
    thread: Option<JoinHandle<()>>,
}

struct QuitState {
    /// Where the dumps go, instead of stderr.
    file: Option<PathBuf>,
    /// Changes whenever the thread has something to do.
    asked: AtomicU32,
    is_over: AtomicBool,
}

impl QuitDumps {
    fn start(file: Option<PathBuf>) -> io::Result<QuitDumps> {
        let (asked, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let state = Arc::new(QuitState { file, asked, is_over });
        let theirs = Arc::clone(&state);
        let builder = thread::Builder::new().name("ramie-quit".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || theirs.run()).map_err(|error| {
            let text = format!("no thread for it ({error}); raise `ulimit -u` or `ulimit -v`");
            io::Error::new(error.kind(), text)
        })?;
        let mut dumps = QuitDumps { state, listening: None, thread: Some(thread) };
        let theirs = Arc::clone(&dumps.state);
        // SAFETY: `wake` adds to an atomic and makes one system call, which leaves errno alone.
        dumps.listening = Some(unsafe { Listening::new(SIGQUIT, move || theirs.wake()) }?);
        Ok(dumps)
    }
}

impl Drop for QuitDumps {
    fn drop(&mut self) {
        self.listening = None;
        self.state.is_over.store(true, Ordering::SeqCst);
        self.state.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl QuitState {
    /// Runs in the handler, too.
    fn wake(&self) {
        // Release: the thread that sees the new number sees `is_over`.
        self.asked.fetch_add(1, Ordering::Release);
        sys::futex_wake(&self.asked);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn run(&self) {
        let _mark = RuntimeThread::enter();
        sys::block_signals();
        // The threads of the program may have blocked it, and must not be interrupted here.
        supervise::unblock(&[SIGQUIT]);
        let mut answered = 0;
        loop {
            let asked = self.asked.load(Ordering::Acquire);
            if self.is_over() {
                return;
            }
            if asked == answered {
                // It also ends if the number has changed, or if the handler runs on this thread.
                let _ = sys::futex_wait_for(&self.asked, asked, false, SLEEP);
                continue;
            }
            answered = asked;
            let options = DumpOptions::new().limit(SILENCE).backtraces(true);
            let dump = collect::dump(&options, || self.is_over());
            if !self.is_over() {
                self.write(&format!("dump of process {}, on SIGQUIT\n{dump}", process::id()));
            }
        }
    }

    fn write(&self, text: &str) {
        if let Some(path) = &self.file {
            let Err(error) = append(path, text) else { return };
            // Not to the logger, for whose lock a hanging fiber may wait.
            logging::print_unless_full(format_args!(
                "ramie: cannot write the dump to {} ({error}), so it goes to stderr; set \
                 {FILE_VARIABLE} to a file that can be written to",
                path.display()
            ));
        }
        logging::print_unless_full(format_args!("ramie: {text}"));
    }
}

/// Adds a dump to a file, by one call, because several processes may have the same file. A pipe
/// that nobody reads is an error, because the end of the runtime waits for this.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK);
    let mut file = options.open(path)?;
    file.write_all(format!("ramie: {text}\n").as_bytes())
}
