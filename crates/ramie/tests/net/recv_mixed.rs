//! Random ways to receive, mixed on the same connections: every byte comes once, in order.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Random, everywhere};
use ramie::io::Lease;
use ramie::net::{Shutdown, TcpListener, TcpStream};
use ramie::{cancel, fiber};

const CONNECTIONS: u64 = 6;
const STEPS: u64 = 40;

fn byte_at(place: usize) -> u8 {
    (place * 7 + place / 251) as u8
}

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().unwrap();
    let client = fiber::spawn(move || TcpStream::connect(address).unwrap());
    let (server, _) = listener.accept().unwrap();
    (client.join().unwrap(), server)
}

/// Sends in pieces of all sizes, with pauses, to the end.
fn send(mut client: TcpStream, mut random: Random) -> usize {
    let mut at = 0;
    for _ in 0..STEPS {
        let len = match random.below(4) {
            0 => 1,
            1 => 4096,
            2 => random.below(40_000),
            _ => random.below(200),
        };
        let piece: Vec<u8> = (at..at + len as usize).map(byte_at).collect();
        at += piece.len();
        if random.below(6) == 0 {
            let mut sent = 0;
            while sent < piece.len() {
                sent += client.send_zero_copy(&piece[sent..]).unwrap();
            }
        } else {
            client.write_all(&piece).unwrap();
        }
        match random.below(4) {
            0 => fiber::sleep(Duration::from_micros(random.below(500))),
            1 => fiber::yield_now(),
            _ => {}
        }
    }
    client.shutdown(Shutdown::Write).unwrap();
    // Until the other side has read all.
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    at
}

struct Reader {
    stream: TcpStream,
    at: usize,
    is_over: bool,
    random: Random,
    elsewhere: mpsc::Sender<(usize, Lease)>,
    kept: Vec<(usize, Lease)>,
}

impl Reader {
    fn check(&mut self, bytes: &[u8]) {
        let wrong = bytes.iter().enumerate().find(|(n, byte)| **byte != byte_at(self.at + n));
        assert!(wrong.is_none(), "from {} on: {wrong:?}", self.at);
        self.at += bytes.len();
        self.is_over |= bytes.is_empty();
    }

    /// Some steps of an iterator, which is then dropped or forgotten.
    fn receive_each(&mut self) {
        let stream = self.stream.try_clone().unwrap();
        let mut each = stream.recv_each();
        for _ in 0..1 + self.random.below(5) {
            let limit = Duration::from_micros(self.random.below(300));
            let is_limited = self.random.below(3) == 0;
            let received = match is_limited {
                true => cancel::with_timeout(limit, || each.next())
                    .unwrap_or_else(cancel::Elapsed::into_value),
                false => each.next(),
            };
            match received {
                None => self.is_over = true,
                Some(Err(error)) => assert!(cancel::is_cancelled(&error), "{error}"),
                Some(Ok(lease)) => {
                    let at = self.at;
                    self.check(&lease);
                    match self.random.below(4) {
                        0 => self.kept.push((at, lease)),
                        1 => self.elsewhere.send((at, lease)).unwrap(),
                        _ => drop(lease),
                    }
                }
            }
            if self.random.below(8) == 0 {
                fiber::sleep(Duration::from_micros(700));
            }
        }
        if self.random.below(3) == 0 {
            std::mem::forget(each);
        }
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 1 + self.random.below(9000) as usize];
        let is_limited = self.random.below(3) == 0;
        self.stream.set_read_timeout(is_limited.then_some(Duration::from_micros(200))).unwrap();
        let read = self.stream.read(&mut buffer);
        self.stream.set_read_timeout(None).unwrap();
        match read {
            Ok(count) => self.check(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }

    fn peek(&mut self) {
        let mut buffer = [0; 64];
        let count = self.stream.peek(&mut buffer).unwrap();
        let at = self.at;
        self.check(&buffer[..count]);
        self.at = at;
    }

    fn run(mut self) -> usize {
        while !self.is_over {
            match self.random.below(8) {
                0..4 => self.receive_each(),
                4..6 => self.read(),
                6 => self.peek(),
                _ => {
                    let drop_some = self.random.below(3) > 0;
                    self.kept.retain(|(at, lease)| {
                        assert!(lease.first().is_none_or(|byte| *byte == byte_at(*at)));
                        !drop_some
                    });
                }
            }
        }
        for (at, lease) in &self.kept {
            assert!(lease.iter().enumerate().all(|(n, byte)| *byte == byte_at(at + n)));
        }
        self.at
    }
}

#[test]
fn every_byte_comes_once_and_in_order() {
    let mut seeds = Random::new("recv_random");
    let seed = seeds.below(u64::MAX);
    everywhere(move || {
        let (elsewhere, leases) = mpsc::channel::<(usize, Lease)>();
        let keeper = std::thread::spawn(move || {
            for (at, lease) in leases {
                assert!(lease.iter().enumerate().all(|(n, byte)| *byte == byte_at(at + n)));
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        fiber::scope(|s| {
            for nth in 0..CONNECTIONS {
                let (client, stream) = pair(&listener);
                let elsewhere = elsewhere.clone();
                let sender = s.spawn(move || send(client, Random::from_seed(seed + 2 * nth)));
                s.spawn(move || {
                    let random = Random::from_seed(seed + 2 * nth + 1);
                    let (at, is_over, kept) = (0, false, Vec::new());
                    let reader = Reader { stream, at, is_over, random, elsewhere, kept };
                    let received = reader.run();
                    assert_eq!(received, sender.join().unwrap());
                });
            }
        });
        drop(elsewhere);
        keeper.join().unwrap();
    });
}
