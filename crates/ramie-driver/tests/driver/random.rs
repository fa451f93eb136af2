//! Random submits, arrivals and cancels: each op completes once, and no byte is lost or doubled.
//!
//! `RAMIE_SEED=n` repeats a run.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{PATIENCE, both_sized, cancel, submit};
use ramie_driver::{Config, Driver, Feature, FeatureSet, Op, OpFrame, Wait};

const PAIRS: usize = 48;
const STEPS: usize = 4_000;

struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let given = std::env::var("RAMIE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(now.as_nanos() as u64 | 1);
        eprintln!("seed: RAMIE_SEED={seed}");
        Random(seed)
    }

    /// A number below `bound` (xorshift).
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

struct Pair {
    ours: UnixStream,
    theirs: UnixStream,
    buf: Box<[u8; 16]>,
    frame: Option<Box<OpFrame>>,
    /// Next byte to send, next byte expected.
    sent: u8,
    expected: u8,
}

impl Pair {
    fn new() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let buf = Box::new([0; 16]);
        Pair { ours, theirs, buf, frame: None, sent: 0, expected: 0 }
    }

    fn start(&mut self, driver: &mut Driver, at: usize, random: &mut Random) {
        if self.frame.is_some() {
            return;
        }
        let (fd, buf) = (self.ours.as_raw_fd(), self.buf.as_mut_ptr());
        let op = match random.below(3) {
            0 => Op::Read { fd, buf, len: 16, offset: u64::MAX },
            1 => Op::Recv { fd, buf, len: 1 + random.below(16) as u32, flags: 0 },
            _ => Op::Poll { fd, events: 1 },
        };
        let frame = Box::new(OpFrame::new(op));
        frame.user.set(at as u64);
        let in_flight = submit(driver, &frame);
        self.frame = Some(frame);
        if !in_flight {
            self.end();
        }
    }

    fn send(&mut self, count: usize) {
        let bytes: Vec<u8> = (0..count).map(|at| self.sent.wrapping_add(at as u8)).collect();
        // A full socket takes less.
        let taken = self.theirs.write(&bytes).unwrap_or(0);
        self.sent = self.sent.wrapping_add(taken as u8);
    }

    /// Takes a complete frame away and checks its data.
    fn end(&mut self) {
        let frame = self.frame.take().expect("one completion for one op");
        assert!(frame.is_complete());
        match (frame.op(), frame.result()) {
            (_, error) if error == -libc::ECANCELED => {}
            (Op::Poll { .. }, ready) => assert_eq!(ready & 1, 1),
            (_, count) => {
                assert!(count > 0, "{count}");
                self.check(count as usize);
            }
        }
    }

    fn check(&mut self, count: usize) {
        for byte in &self.buf[..count] {
            assert_eq!(*byte, self.expected, "a byte was lost or doubled");
            self.expected = self.expected.wrapping_add(1);
        }
    }
}

fn pop_all(driver: &mut Driver, pairs: &mut [Pair]) {
    while let Some(frame) = driver.pop_complete() {
        // SAFETY: the pair keeps it until `end`.
        let at = unsafe { frame.as_ref() }.user.get() as usize;
        pairs[at].end();
    }
}

fn mix(driver: &mut Driver, random: &mut Random) {
    let mut pairs: Vec<_> = (0..PAIRS).map(|_| Pair::new()).collect();
    for pair in &pairs {
        pair.theirs.set_nonblocking(true).unwrap();
    }
    for _ in 0..STEPS {
        let at = random.below(PAIRS);
        match random.below(10) {
            0..4 => pairs[at].start(driver, at, random),
            4..6 => pairs[at].send(1 + random.below(20)),
            6..8 => {
                if let Some(frame) = &pairs[at].frame {
                    cancel(driver, frame);
                }
            }
            8 => driver.turn(Wait::Never).unwrap(),
            _ => driver.turn(Wait::Until(Some(Duration::from_micros(20)))).unwrap(),
        }
        if random.below(4) == 0 {
            pop_all(driver, &mut pairs);
        }
    }
    for frame in pairs.iter().filter_map(|pair| pair.frame.as_ref()) {
        cancel(driver, frame);
    }
    while driver.in_flight() > 0 {
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
    }
    pop_all(driver, &mut pairs);
    // Bytes that no op took are still there, whole and in order.
    for pair in &mut pairs {
        pair.ours.set_nonblocking(true).unwrap();
        while let Ok(count @ 1..) = pair.ours.read(&mut pair.buf[..]) {
            pair.check(count);
        }
        assert_eq!(pair.expected, pair.sent);
    }
}

#[test]
fn random_submits_arrivals_and_cancels() {
    let mut random = Random::seeded();
    let no_defer = FeatureSet::EMPTY.with(Feature::DeferTaskrun);
    for config in [
        Config::default(),
        Config { entries: 2, cq_entries: 8, ..Config::small() },
        Config { entries: 2, cq_entries: 8, masked: no_defer, ..Config::small() },
        Config { masked: FeatureSet::all(), ..Config::small() },
    ] {
        let seed = random.0;
        both_sized(&config, |driver| mix(driver, &mut Random(seed)));
        random.below(1);
    }
}
