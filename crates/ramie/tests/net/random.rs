//! Streams of every kind under random sizes, pauses, timeouts and copies: the read bytes are the
//! written ones, in order, once.

use std::{
    io::{ErrorKind, Read, Write},
    time::Duration,
};

use crate::common::{Random, everywhere};
use ramie::{
    fiber, io,
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixDatagram, UnixStream},
};

const STREAMS: u64 = 12;
const BYTES: usize = 150_000;

fn byte_at(place: usize, stream: u64) -> u8 {
    (place as u64 * 31 + stream * 7 + (place as u64 >> 9)) as u8
}

type Ends = (Box<dyn Read + Send>, Box<dyn Write + Send>);

/// A stream of one kind, whose reads time out where the kind knows timeouts.
fn stream(kind: u64, timeout: Option<Duration>) -> Ends {
    match kind {
        0 => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let reader = listener.accept().unwrap().0;
            reader.set_read_timeout(timeout).unwrap();
            (Box::new(reader), Box::new(writer))
        }
        1 => {
            let (reader, writer) = UnixStream::pair().unwrap();
            reader.set_read_timeout(timeout).unwrap();
            (Box::new(reader), Box::new(writer))
        }
        2 => {
            let (reader, writer) = io::pipe().unwrap();
            (Box::new(reader), Box::new(writer))
        }
        // Through a second pipe, by a fiber that copies.
        _ => {
            let (mut first, writer) = io::pipe().unwrap();
            let (reader, mut second) = io::pipe().unwrap();
            fiber::spawn(move || io::copy(&mut first, &mut second).unwrap());
            (Box::new(reader), Box::new(writer))
        }
    }
}

fn write(mut writer: impl Write, stream: u64, mut random: Random) {
    let mut done = 0;
    while done < BYTES {
        let len = (1 + random.below(9_000) as usize).min(BYTES - done);
        let part: Vec<u8> = (done..done + len).map(|place| byte_at(place, stream)).collect();
        writer.write_all(&part).unwrap();
        done += len;
        pause(&mut random);
    }
}

fn read(mut reader: impl Read, stream: u64, mut random: Random) {
    let mut buffer = vec![0; 9_000];
    let mut done = 0;
    loop {
        let len = 1 + random.below(buffer.len() as u64) as usize;
        let count = match reader.read(&mut buffer[..len]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => panic!("{error}"),
        };
        for (index, byte) in buffer[..count].iter().enumerate() {
            assert_eq!(*byte, byte_at(done + index, stream), "byte {} of {stream}", done + index);
        }
        done += count;
        pause(&mut random);
    }
    assert_eq!(done, BYTES, "stream {stream}");
}

fn two_of(random: &mut Random) -> (Random, Random) {
    let mut one = || Random::from_seed(random.below(u64::MAX));
    (one(), one())
}

fn pause(random: &mut Random) {
    match random.below(20) {
        0 => fiber::sleep(Duration::from_micros(random.below(300))),
        1..5 => fiber::yield_now(),
        _ => {}
    }
}

#[test]
fn streams_keep_their_bytes() {
    everywhere(|| {
        let mut random = Random::new("streams_keep_their_bytes");
        fiber::scope(|s| {
            for number in 0..STREAMS {
                let timeout = Some(Duration::from_micros(1 + random.below(400)));
                let (reader, writer) = stream(random.below(4), timeout);
                let (left, right) = two_of(&mut random);
                s.spawn(move || write(writer, number, left));
                s.spawn(move || read(reader, number, right));
            }
        });
    });
}

#[test]
fn datagrams_of_one_sender_keep_their_order_and_their_edges() {
    const COUNT: u32 = 400;
    everywhere(|| {
        let mut random = Random::new("datagrams_of_one_sender_keep_their_order_and_their_edges");
        fiber::scope(|s| {
            for _ in 0..4 {
                let (receiver, sender) = UnixDatagram::pair().unwrap();
                let timeout = Some(Duration::from_micros(1 + random.below(400)));
                receiver.set_read_timeout(timeout).unwrap();
                let (mut left, mut right) = two_of(&mut random);
                s.spawn(move || {
                    for number in 0..COUNT {
                        let len = 4 + left.below(2_000) as usize;
                        let mut data = vec![len as u8; len];
                        data[..4].copy_from_slice(&number.to_ne_bytes());
                        assert_eq!(sender.send(&data).unwrap(), len);
                        pause(&mut left);
                    }
                });
                s.spawn(move || {
                    let (mut buffer, mut number) = ([0; 4_000], 0);
                    while number < COUNT {
                        let Ok(len) = receiver.recv(&mut buffer) else { continue };
                        assert_eq!(buffer[..4], number.to_ne_bytes());
                        assert!(buffer[4..len].iter().all(|byte| *byte == len as u8));
                        number += 1;
                        pause(&mut right);
                    }
                });
            }
        });
    });
}
