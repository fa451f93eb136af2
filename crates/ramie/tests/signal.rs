//! Signals: seen by each listener, on fibers and on plain threads; and the fate of defaults.
//!
//! A program of its own, because a signal interrupts calls of every thread of its process.

mod common;

use std::{
    os::unix::process::ExitStatusExt,
    process::Command,
    time::{Duration, Instant},
};

use ramie::{
    fiber,
    signal::{self, Signal, Signals},
};

/// Signals belong to the whole process, so the tests take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn everywhere(f: impl Fn() + Send + Sync) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    common::on_each(&[1, 2], |runtime| runtime.run(&f));
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

fn send(signal: Signal) {
    let us = std::process::id().to_string();
    let number = format!("-{}", signal.as_raw());
    assert!(Command::new("kill").args([&number, &us]).status().unwrap().success());
}

#[test]
fn each_listener_hears_each_signal() {
    everywhere(|| {
        let listeners: Vec<_> =
            (0..3).map(|_| Signals::new([Signal::USR1, Signal::USR2]).unwrap()).collect();
        fiber::scope(|s| {
            for listener in &listeners[..2] {
                s.spawn(|| {
                    let both = [listener.wait().unwrap(), listener.wait().unwrap()];
                    assert_eq!(both, [Signal::USR1, Signal::USR2]);
                });
            }
            fiber::sleep(Duration::from_millis(1));
            send(Signal::USR1);
            // One that looks late hears it all the same.
            assert_eq!(listeners[2].wait().unwrap(), Signal::USR1);
            send(Signal::USR2);
        });
        assert_eq!((&listeners[2]).next().unwrap().unwrap(), Signal::USR2);
        assert_eq!(listeners[2].try_wait(), None);
    });
}

#[test]
fn signals_that_come_together_wake_all_their_waiters() {
    everywhere(|| {
        for _ in 0..5 {
            let signals = Signals::new([Signal::USR1, Signal::USR2, Signal::HUP]).unwrap();
            let mut heard: Vec<_> = fiber::scope(|s| {
                let wait = || signals.wait().unwrap();
                let waiters: Vec<_> = (0..3).map(|_| s.spawn(wait)).collect();
                let us = std::process::id();
                let script = format!("kill -USR1 {us}; kill -USR2 {us}; kill -HUP {us}");
                assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
                waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect()
            });
            heard.sort();
            assert_eq!(heard, [Signal::HUP, Signal::USR1, Signal::USR2]);
        }
    });
}

#[test]
fn a_wait_is_over_in_time() {
    everywhere(|| {
        let signals = Signals::new([Signal::USR1]).unwrap();
        let start = Instant::now();
        let time = Duration::from_millis(3);
        assert_eq!(signals.wait_timeout(time).unwrap(), None);
        assert!(start.elapsed() >= time);
        send(Signal::USR1);
        assert_eq!(signals.wait_timeout(Duration::from_secs(60)).unwrap(), Some(Signal::USR1));
    });
}

#[test]
fn ctrl_c_is_waited_for_and_does_not_kill() {
    // For as long as the process lives: a signal that was sent is delivered when the kernel gets
    // round to it, and would end the process once nobody listens.
    std::mem::forget(Signals::new([Signal::INT, Signal::TERM]).unwrap());
    everywhere(|| {
        fiber::scope(|s| {
            let interrupted = s.spawn(|| signal::ctrl_c().unwrap());
            let terminated = s.spawn(|| signal::terminate().unwrap());
            while !interrupted.is_finished() {
                send(Signal::INT);
                fiber::sleep(Duration::from_millis(1));
            }
            while !terminated.is_finished() {
                send(Signal::TERM);
                fiber::sleep(Duration::from_millis(1));
            }
        });
    });
}

#[test]
fn the_default_is_back_when_nobody_listens() {
    if common::is_child() {
        let signals = Signals::new([Signal::TERM]).unwrap();
        send(Signal::TERM);
        assert_eq!(signals.wait().unwrap(), Signal::TERM);
        drop(signals);
        send(Signal::TERM);
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let output = common::child("the_default_is_back_when_nobody_listens");
    let by_term = output.status.signal() == Some(15) || output.status.code() == Some(128 + 15);
    assert!(by_term, "{:?} {}", output.status, common::stderr(&output));
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let name = "an_ignored_signal_stays_ignored";
    if common::is_child() {
        drop(Signals::new([Signal::HUP]).unwrap());
        send(Signal::HUP);
        return;
    }
    common::assert_success(&common::child_with("trap '' HUP", name, &[]));
}

#[test]
fn signals_have_names_and_some_cannot_be_waited_for() {
    assert_eq!(Signal::INT.to_string(), "SIGINT");
    assert_eq!(format!("{:?}", Signal::from_raw(40).unwrap()), "signal 40");
    assert_eq!(Signal::from_raw(15), Some(Signal::TERM));
    for number in [0, -1, 9, 19, 11, 65, 1000] {
        assert_eq!(Signal::from_raw(number), None);
    }
}
