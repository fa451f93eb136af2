//! FIFOs, whose open waits for the other end.

use std::{fs as theirs, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf, sync::mpsc};

use ramie::{
    Runtime, fiber, fs,
    time::{Duration, Instant},
};

/// A FIFO in a folder of its own, which is removed in the end.
struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Fifo {
        let folder = std::env::temp_dir().join(format!("ramie-fifo-{}-{name}", std::process::id()));
        theirs::create_dir(&folder).unwrap();
        let fifo = Fifo(folder.join("fifo"));
        assert!(std::process::Command::new("mkfifo").arg(&fifo.0).status().unwrap().success());
        fifo
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = theirs::remove_dir_all(self.0.parent().expect("a folder"));
    }
}

/// A reader whose open has not begun to wait must not let a writer in: the writer could be gone
/// before the reader waits, which would then wait for a second one.
#[test]
fn a_writer_that_comes_early_is_not_missed() {
    let fifo = Fifo::new("early");
    let builder = Runtime::builder().workers(1).blocking_threads(1).stall_limit(None);
    builder.build().unwrap().run(|| {
        let (release, is_released) = mpsc::channel::<()>();
        let occupies = fiber::spawn(|| ramie::blocking(move || is_released.recv()));
        let (path, written) = (fifo.0.clone(), "all of it");
        let reader = fiber::spawn(move || fs::read_to_string(path).unwrap());
        // The only thread for blocking calls is occupied, so the reader's open does not get on.
        (0..1000).for_each(|_| fiber::yield_now());
        let mut early = theirs::OpenOptions::new();
        let early = early.write(true).custom_flags(libc::O_NONBLOCK).open(&fifo.0);
        let has_come = early.map(|mut writer| writer.write_all(written.as_bytes()).unwrap());
        drop(release);
        occupies.join().unwrap().unwrap_err();
        if has_come.is_err() {
            // On a thread of its own, because the reader now occupies the one for blocking calls.
            let path = fifo.0.clone();
            std::thread::spawn(move || theirs::write(path, written).unwrap());
        }
        let end = Instant::now() + Duration::from_secs(20);
        while !reader.is_finished() && Instant::now() < end {
            fiber::sleep(Duration::from_millis(1));
        }
        let is_missed = !reader.is_finished();
        if is_missed {
            // Otherwise the reader would keep the test from its end.
            drop(theirs::OpenOptions::new().write(true).open(&fifo.0));
        }
        assert!(!is_missed, "the reader waits for a second writer");
        assert_eq!(reader.join().unwrap(), written);
    });
}
