//! A program's logger may wait, wherever it is called from.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use ramie::{fiber, net::UdpSocket};

struct Waits;

static CALLS: AtomicU32 = AtomicU32::new(0);

impl log::Log for Waits {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, _: &log::Record) {
        // Only the first call: waiting for I/O opens a driver, which is logged, too.
        if CALLS.fetch_add(1, SeqCst) == 0 {
            fiber::sleep(Duration::from_millis(1));
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"log", "127.0.0.1:9").unwrap();
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_waits_while_the_driver_of_a_thread_is_opened() {
    static LOGGER: Waits = Waits;
    log::set_logger(&LOGGER).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(socket.recv(&mut [0; 4]).is_err());
    assert!(CALLS.load(SeqCst) > 0);
}
