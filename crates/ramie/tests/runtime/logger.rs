//! A program's logger may wait, and may hold a lock meanwhile, wherever it is called from.

use std::{
    cell::Cell,
    sync::{
        Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use crate::common::{assert_success, child, is_child};
use ramie::{fiber, net::UdpSocket};

/// How long the test waits for a line of the runtime's.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits in each call, holding a lock, and passes the line on.
struct Waits {
    lines: Mutex<SyncSender<String>>,
}

thread_local! {
    static IS_IN_LOGGER: Cell<bool> = const { Cell::new(false) };
}

impl log::Log for Waits {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        // It would wait for its own lock.
        if IS_IN_LOGGER.replace(true) {
            eprintln!("the logger was entered by its own thread: {}", record.args());
            std::process::exit(1);
        }
        let lines = self.lines.lock().unwrap();
        fiber::sleep(Duration::from_millis(1));
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"log", "127.0.0.1:9").unwrap();
        // If it is full, the test has seen all that it waits for.
        let _ = lines.try_send(record.args().to_string());
        drop(lines);
        IS_IN_LOGGER.set(false);
    }

    fn flush(&self) {}
}

/// Waits for a line that contains `text`.
#[track_caller]
fn expect_line(lines: &Receiver<String>, text: &str) {
    while !lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no line has {text}")).contains(text)
    {
    }
}

#[test]
fn a_logger_waits_while_the_driver_of_a_thread_is_opened() {
    if !is_child() {
        // The logger is the process's.
        return assert_success(&child("a_logger_waits_while_the_driver_of_a_thread_is_opened"));
    }
    let (sender, lines) = sync_channel(100);
    log::set_logger(Box::leak(Box::new(Waits { lines: Mutex::new(sender) }))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    // The first wait of this thread, and of the process, is inside the logger.
    log::info!("a line of the program");
    expect_line(&lines, "a line of the program");
    expect_line(&lines, "driver ");
    // The first wait of a thread is none of the logger's.
    let wait = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(socket.recv(&mut [0; 4]).is_err());
        log::info!("a line of another thread");
    };
    std::thread::spawn(wait).join().unwrap();
    expect_line(&lines, "a line of another thread");
    // No line is the cause of the next one forever.
    while lines.recv_timeout(Duration::from_millis(200)).is_ok() {}
}
