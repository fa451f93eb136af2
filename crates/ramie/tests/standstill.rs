//! A process whose strands all wait, with nothing left to wake one, is reported.
//!
//! No test harness, because its threads could wake a strand as far as Ramie knows. Each scene is
//! played in a process of its own, on the main thread.

use std::{
    env,
    io::{BufRead, BufReader},
    mem,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ramie::{
    Runtime, Strands, channel, fiber,
    sync::{Mutex, RwLock},
};

/// A scene, and texts of its report.
type Scene = (&'static str, fn(), &'static [&'static str]);

const SCENES: &[Scene] = &[
    (
        "a_channel_whose_sender_was_leaked",
        a_channel_whose_sender_was_leaked,
        &[
            "all 2 strands of the process wait, and nothing can wake one of them",
            "fiber 'main' waits for the end of fiber 'receiver', at crates/ramie/tests/",
            "fiber 'receiver' waits for a channel's value, at crates/ramie/tests/standstill.rs:",
            "; spawned at crates/ramie/tests/standstill.rs:",
            "no other strand's stack refers to it, so its other end was leaked, or is held in",
            "help: drop each sender",
        ],
    ),
    (
        "a_sender_that_a_waiting_strand_keeps",
        a_sender_that_a_waiting_strand_keeps,
        &[
            "fiber 'worker' waits for a channel's value, at crates/ramie/tests/standstill.rs:",
            "    its other end may be held by fiber 'main', which waits for ",
            " at crates/ramie/tests/standstill.rs:",
        ],
    ),
    (
        "locks_that_nobody_releases",
        locks_that_nobody_releases,
        &[
            "all 4 strands of the process wait",
            "waits for a Mutex, that strand 2.1, which has ended, holds, at",
            "a RwLock, for writing, that 1 reader holds, at",
            "\n    it may be held by fiber ",
            "fiber 'reader', which waits for an unpark at crates/ramie/tests/standstill.rs:",
        ],
    ),
    (
        "a_park_without_an_unpark",
        a_park_without_an_unpark,
        &[
            "the only strand of the process waits",
            "'main' waits for an unpark, at",
            "help: look for the call that should wake one of them and was not made, such as unpark",
        ],
    ),
    (
        "a_reader_that_waits_to_write",
        a_reader_that_waits_to_write,
        &[
            "a RwLock, for writing, that 1 reader holds, at",
            "so this strand may hold it to read itself",
            "help: look for a guard",
            "drop a guard to read before you lock to write",
        ],
    ),
    (
        "threads_of_the_runtime_do_not_matter",
        threads_of_the_runtime_do_not_matter,
        &["the only strand of the process waits", "waits for room in a channel, at"],
    ),
    (
        "a_thread_that_has_ended_does_not_matter",
        a_thread_that_has_ended_does_not_matter,
        &["the only strand", "waits for a channel's value, at"],
    ),
    (
        "a_join_on_the_thread_of_a_loop",
        a_join_on_the_thread_of_a_loop,
        &["waits for the end of strand 1.1, which has not started, at", "GuestRuntime::turn"],
    ),
];

fn run(workers: usize, f: impl FnOnce()) {
    Runtime::builder().workers(workers).build().unwrap().run(f);
}

fn a_channel_whose_sender_was_leaked() {
    /// In a frame of its own, because a frame keeps the bits of values that were moved.
    #[inline(never)]
    fn spawn_receiver() -> fiber::JoinHandle<Result<(), channel::RecvError>> {
        let (sender, receiver) = channel::unbounded::<()>();
        mem::forget(sender);
        let builder = fiber::Builder::new().name("receiver".to_owned());
        builder.spawn(move || receiver.recv()).unwrap()
    }
    run(2, || spawn_receiver().join().unwrap().unwrap());
}

/// The usual mistake: the channel ends when its last sender is dropped, after the scope.
fn a_sender_that_a_waiting_strand_keeps() {
    run(2, || {
        let (sender, receiver) = channel::unbounded();
        fiber::scope(|s| {
            let worker = fiber::Builder::new().name("worker".to_owned());
            worker.spawn_scoped(s, || for _ in receiver.iter() {}).unwrap();
            sender.send(1).unwrap();
        });
        drop(sender);
    });
}

fn locks_that_nobody_releases() {
    run(1, || {
        let (lock, shared) = (Mutex::new(()), RwLock::new(()));
        fiber::scope(|s| {
            s.spawn(|| mem::forget(lock.lock()));
            let reader = fiber::Builder::new().name("reader".to_owned());
            let reads = || {
                let _guard = shared.read();
                loop {
                    fiber::park();
                }
            };
            reader.spawn_scoped(s, reads).unwrap();
            fiber::yield_now();
            s.spawn(|| drop(lock.lock()));
            s.spawn(|| drop(shared.write()));
        });
    });
}

/// The thread that waits is the one that would have to give turns.
fn a_join_on_the_thread_of_a_loop() {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
    let guest = builder.build().unwrap().start_guest().unwrap();
    guest.spawn_local(|| ()).unwrap().join().unwrap();
}

fn a_park_without_an_unpark() {
    run(1, || {
        loop {
            fiber::park();
        }
    });
}

fn a_reader_that_waits_to_write() {
    run(1, || {
        let lock = RwLock::new(0);
        let guard = lock.read().unwrap();
        *lock.write().unwrap() += *guard;
    });
}

/// The blocking pool has a thread that is idle for some seconds.
fn threads_of_the_runtime_do_not_matter() {
    run(2, || {
        ramie::blocking(|| ());
        let (sender, receiver) = channel::bounded(1);
        mem::forget(receiver);
        sender.send(()).unwrap();
        sender.send(()).unwrap();
    });
}

/// While the thread runs, there is no report, and after that one.
fn a_thread_that_has_ended_does_not_matter() {
    let (sender, receiver) = channel::unbounded::<()>();
    let start = Instant::now();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        mem::forget(sender);
    });
    let report = ramie::Reaction::call(move |deadlock: &ramie::Deadlock| {
        assert!(start.elapsed() >= Duration::from_secs(2));
        eprintln!("{deadlock}");
    });
    let runtime = Runtime::builder().workers(2).on_deadlock(report).build().unwrap();
    runtime.run(|| receiver.recv()).unwrap();
}

const VARIABLE: &str = "RAMIE_TEST_SCENE";

fn main() {
    if let Ok(name) = env::var(VARIABLE) {
        let (_, play, _) = SCENES.iter().find(|scene| scene.0 == name).expect("a scene");
        return play();
    }
    for (name, _, texts) in SCENES {
        let start = Instant::now();
        let report = report_of(name);
        let took = start.elapsed();
        for text in *texts {
            assert!(report.contains(text), "'{text}' is not in the report of {name}:\n{report}");
        }
        println!("{name} ... ok ({took:?})");
    }
}

fn report_of(name: &str) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(VARIABLE, name).env_remove("RAMIE_STRANDS");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (end, is_over) = mpsc::channel::<()>();
    thread::scope(|s| {
        s.spawn(move || {
            // The end of the test, or the time limit of its process.
            let _ = is_over.recv_timeout(Duration::from_secs(120));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut report = String::new();
        while !report.contains("help:") {
            let Some(line) = lines.next() else { break };
            report.push_str(&line.unwrap());
            report.push('\n');
        }
        drop(end);
        report
    })
}
