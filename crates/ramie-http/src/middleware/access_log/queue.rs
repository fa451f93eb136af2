//! Lines that wait to be written.
//!
//! # Protocol: which fiber writes
//! | state | left when | for |
//! |---|---|---|
//! | resting: no lines, no fiber | a line is pushed | writing; the request that pushed spawns the fiber |
//! | writing: a fiber has the writer, or soon has | the fiber finds no lines | resting |
//!
//! State and lines are under one lock, which is held for some instructions and never during a call
//! of the writer, so a pushed line is always seen by a fiber. There is no fiber while nothing is
//! written, because a fiber that waited for lines would keep `run` from returning.

use std::{
    io::{self, Write},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use ramie::fiber;

pub(super) type LineWriter = Box<dyn Write + Send>;

/// Lines, and the writer that gets them.
pub(super) struct LineQueue {
    state: Mutex<QueuedLines>,
    most_bytes: usize,
    lost: AtomicU64,
}

struct QueuedLines {
    text: Vec<u8>,
    count: u64,
    is_writing: bool,
    /// None while a fiber writes.
    writer: Option<LineWriter>,
}

impl LineQueue {
    pub(super) fn new(writer: LineWriter, most_bytes: usize) -> Self {
        let state =
            QueuedLines { text: Vec::new(), count: 0, is_writing: false, writer: Some(writer) };
        LineQueue { state: Mutex::new(state), most_bytes, lost: AtomicU64::new(0) }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Adds a line, which ends with a line feed. Never waits for the writer.
    pub(super) fn push(self: &Arc<Self>, line: &[u8]) {
        let mut state = self.state();
        if state.text.len() + line.len() > self.most_bytes {
            drop(state);
            return self.lose(1, "its writer is too slow");
        }
        state.text.extend_from_slice(line);
        state.count += 1;
        if mem::replace(&mut state.is_writing, true) {
            return;
        }
        drop(state);
        let begun = Begun { queue: Arc::clone(self), has_begun: false };
        let builder = fiber::Builder::new().name("access log".to_owned());
        // If there is no fiber, the closure is dropped, now or when it should begin.
        let _ = builder.spawn(move || begun.write_all());
    }

    /// Writes until no lines are left.
    fn write_lines(&self) {
        let Some(mut writer) = self.state().writer.take() else { return };
        let mut text = Vec::new();
        while let Some(count) = self.take_lines(&mut text, &mut writer) {
            // A panic must not lose the writer, and the hook has reported it.
            let write = || writer.write_all(&text).and_then(|()| writer.flush());
            let written = catch_unwind(AssertUnwindSafe(write))
                .unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
            if let Err(error) = written {
                self.lose(count, &format!("its writer failed: {error}"));
            }
        }
    }

    /// Exchanges the lines for the text that is written. If there are none, puts the writer back.
    fn take_lines(&self, written: &mut Vec<u8>, writer: &mut LineWriter) -> Option<u64> {
        written.clear();
        let mut state = self.state();
        if state.text.is_empty() {
            state.writer = Some(mem::replace(writer, Box::new(io::sink())));
            state.is_writing = false;
            return None;
        }
        mem::swap(&mut state.text, written);
        Some(mem::take(&mut state.count))
    }

    fn lose(&self, count: u64, why: &str) {
        if self.lost.fetch_add(count, Ordering::Relaxed) == 0 {
            log::warn!("the access log begins to lose lines, because {why}");
        }
    }

    fn state(&self) -> MutexGuard<'_, QueuedLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The closure of the fiber that writes, before and after it has begun.
struct Begun {
    queue: Arc<LineQueue>,
    has_begun: bool,
}

impl Begun {
    fn write_all(mut self) {
        self.has_begun = true;
        self.queue.write_lines();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.has_begun {
            // The next line tries again.
            self.queue.state().is_writing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use ramie::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Reports what it is to write, and waits for the result of that.
    struct Slow {
        begun: Sender<String>,
        results: Receiver<io::Result<()>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).expect("text");
            self.begun.send(text).expect("the test receives");
            self.results.recv().expect("the test sends")?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow(most_bytes: usize) -> (Arc<LineQueue>, Receiver<String>, Sender<io::Result<()>>) {
        let ((begun, texts), (sender, results)) = (channel(), channel());
        let queue = LineQueue::new(Box::new(Slow { begun, results }), most_bytes);
        (Arc::new(queue), texts, sender)
    }

    #[test]
    fn lines_that_a_slow_writer_has_no_room_for_are_counted() {
        ramie::run(|| {
            let (queue, texts, results) = slow(4);
            queue.push(b"1\n");
            assert_eq!(texts.recv().unwrap(), "1\n");
            for line in ["2\n", "3\n", "4\n", "5\n"] {
                queue.push(line.as_bytes());
            }
            assert_eq!(queue.lost(), 2);
            results.send(Ok(())).unwrap();
            assert_eq!(texts.recv().unwrap(), "2\n3\n");
            results.send(Ok(())).unwrap();
        });
    }

    #[test]
    fn lines_of_a_failed_write_are_counted_and_later_ones_written() {
        ramie::run(|| {
            let (queue, texts, results) = slow(100);
            queue.push(b"1\n");
            assert_eq!(texts.recv().unwrap(), "1\n");
            queue.push(b"2\n");
            results.send(Err(io::Error::other("full"))).unwrap();
            assert_eq!(texts.recv().unwrap(), "2\n");
            assert_eq!(queue.lost(), 1);
            results.send(Ok(())).unwrap();
        });
    }

    /// Panics at its first call.
    struct Broken(bool, Arc<Mutex<Vec<u8>>>);

    impl Write for Broken {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(mem::replace(&mut self.0, true), "broken at first");
            self.1.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_writer_that_panics_is_used_again() {
        let text = Arc::default();
        let queue = Arc::new(LineQueue::new(Box::new(Broken(false, Arc::clone(&text))), 100));
        ramie::run(|| queue.push(b"1\n"));
        assert_eq!(queue.lost(), 1);
        ramie::run(|| queue.push(b"2\n"));
        assert_eq!((queue.lost(), text.lock().unwrap().as_slice()), (1, &b"2\n"[..]));
    }
}
