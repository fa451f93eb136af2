//! Fibers that wait for files, children and signals when the grace period of their runtime ends.

use std::{
    io::Read,
    os::fd::OwnedFd,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::common;
use ramie::{
    Driver, Runtime, fiber,
    fs::File,
    process::Command,
    signal::{Signal, Signals},
};

static ARRIVED: AtomicUsize = AtomicUsize::new(0);

fn arrive() {
    ARRIVED.fetch_add(1, Ordering::SeqCst);
}

fn wait_for_all(fifo: &Path, locked: &Path) {
    let (create, open, lock) = (fifo.to_owned(), fifo.with_extension("other"), locked.to_owned());
    fiber::spawn(move || {
        arrive();
        File::create(create).map(drop)
    });
    fiber::spawn(move || {
        arrive();
        File::open(open).map(drop)
    });
    fiber::spawn(move || {
        let file = File::open(lock).unwrap();
        arrive();
        file.lock_shared()
    });
    fiber::spawn(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        std::mem::forget(writer);
        arrive();
        File::from(OwnedFd::from(reader)).read(&mut [0; 10])
    });
    fiber::spawn(|| {
        let mut child = Command::new("sleep").arg("2").spawn().unwrap();
        arrive();
        child.wait()
    });
    fiber::spawn(|| {
        let signals = Signals::new([Signal::USR2]).unwrap();
        arrive();
        signals.wait()
    });
}

#[test]
fn a_runtime_without_a_grace_period_ends_at_once() {
    let dir = std::env::temp_dir().join(format!("ramie-fs-abandon-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (fifo, locked) = (dir.join("fifo"), dir.join("locked"));
    for fifo in [&fifo, &fifo.with_extension("other")] {
        assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    let holder = std::fs::File::create(&locked).unwrap();
    holder.lock().unwrap();
    for driver in [Driver::Uring, Driver::Poll] {
        for workers in [1, 2] {
            ARRIVED.store(0, Ordering::SeqCst);
            let builder = Runtime::builder().driver(driver).workers(workers);
            let Ok(runtime) = builder.grace(Duration::ZERO).build() else { continue };
            let ended = runtime.run(|| {
                wait_for_all(&fifo, &locked);
                common::wait_until(|| ARRIVED.load(Ordering::SeqCst) == 6);
                fiber::sleep(Duration::from_millis(5));
                Instant::now()
            });
            assert!(ended.elapsed() < Duration::from_secs(1), "{driver:?} {:?}", ended.elapsed());
        }
    }
    // The calls on the blocking pool end, because this thread waits for them when it ends.
    drop(holder);
    for fifo in [&fifo, &fifo.with_extension("other")] {
        drop(std::fs::File::options().read(true).write(true).open(fifo).unwrap());
    }
    std::fs::remove_dir_all(dir).unwrap();
}
