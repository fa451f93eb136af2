//! The leaves: all calls that can wait, each with its own account of the expected result.

use std::{
    io::{Read, Write},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use ramie::{
    cancel::{bytes_moved, check_cancelled, is_cancelled, shield, with_timeout},
    channel, fiber,
    fs::File,
    io,
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::{UnixDatagram, UnixStream},
    process::Command,
    sync::{Condvar, Mutex, RwLock, Semaphore, mpsc, oneshot},
};

use crate::{
    common::Random,
    ledger::{Ledger, Token},
    spread,
    streams::{pattern, receive, send, transfer},
};

pub(crate) fn any(ledger: &Ledger, mut random: Random) {
    match random.below(21) {
        0 => {
            let (reader, writer) = io::pipe().unwrap();
            transfer(ledger, random, (writer, reader));
        }
        1 => transfer(ledger, random, UnixStream::pair().unwrap()),
        2 | 3 => connects(ledger, random),
        4 => datagrams(ledger, &mut random),
        5 => packets(ledger),
        6 => writes_a_file(ledger, &mut random),
        7 if random.below(4) == 0 => speaks_to_a_process(ledger, random),
        7 | 8 => sends_values(ledger, &mut random),
        9 => shares_a_lock(ledger),
        10 => waits_for_a_condition(ledger),
        11 => sleeps(&mut random),
        12 => takes_permits(ledger),
        13 => waits_for_an_answer(ledger),
        14 => selects(ledger),
        15 => shares_a_lock_or_gives_up(ledger),
        16 => sends_to_one(ledger),
        17 => spread::watches(ledger, &mut random),
        18 => spread::broadcasts(ledger, &mut random),
        19 => spread::awaits_values(ledger, &mut random),
        _ => works_on_the_pool(ledger),
    }
}

fn connects(ledger: &Ledger, random: Random) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connected = fiber::scope(|s| {
        let client = s.spawn(|| TcpStream::connect(address));
        let accepted = match listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                None
            }
        };
        match client.join().unwrap() {
            // A connection that stands and was not accepted is in the queue.
            Ok(client) => {
                let late = || shield(|| listener.accept()).unwrap().0;
                Some((client, accepted.unwrap_or_else(late)))
            }
            Err(error) => {
                assert!(is_cancelled(&error), "{error}");
                None
            }
        }
    });
    if let Some(ends) = connected {
        transfer(ledger, random, ends);
    }
}

fn datagrams(ledger: &Ledger, random: &mut Random) {
    let (near, far) = UnixDatagram::pair().unwrap();
    let count = random.below(40) as u8;
    let sent = AtomicUsize::new(0);
    let mut received = Vec::new();
    fiber::scope(|s| {
        s.spawn(|| {
            let _token = ledger.token("sender of datagrams");
            for number in 0..count {
                match near.send(&[number]) {
                    Ok(_) => sent.fetch_add(1, SeqCst),
                    Err(error) => {
                        assert!(is_cancelled(&error), "{error}");
                        break;
                    }
                };
            }
            // The end.
            shield(|| near.send(&[255])).unwrap();
        });
        let _token = ledger.token("receiver of datagrams");
        let mut number = [0];
        while number != [255] {
            match far.recv(&mut number) {
                Ok(_) => received.push(number[0]),
                Err(error) => {
                    assert!(is_cancelled(&error), "{error}");
                    shield(|| far.recv(&mut number)).unwrap();
                    received.push(number[0]);
                }
            }
        }
    });
    let sent = sent.load(SeqCst) as u8;
    assert_eq!(received, (0..sent).chain([255]).collect::<Vec<_>>());
}

fn packets(ledger: &Ledger) {
    let (near, far) = ("127.0.0.1:0", "127.0.0.1:0");
    let (near, far) = (UdpSocket::bind(near).unwrap(), UdpSocket::bind(far).unwrap());
    let address = far.local_addr().unwrap();
    let mut received = 0;
    let sent = fiber::scope(|s| {
        let sender = s.spawn(|| {
            let _token = ledger.token("sender of packets");
            (0..5).take_while(|n| near.send_to(&[*n], address).is_ok()).count()
        });
        let _token = ledger.token("receiver of packets");
        while received < 5 && far.recv_from(&mut [0]).is_ok() {
            received += 1;
        }
        sender.join().unwrap()
    });
    far.set_nonblocking(true).unwrap();
    while shield(|| far.recv_from(&mut [0])).is_ok() {
        received += 1;
    }
    assert_eq!(received, sent);
}

fn writes_a_file(ledger: &Ledger, random: &mut Random) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let _token = ledger.token("writer of a file");
    let number = COUNT.fetch_add(1, SeqCst);
    let name = format!("ramie-torture-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let Ok(mut file) = File::options().read(true).write(true).create_new(true).open(&path) else {
        // Cancelled, after or before it was made.
        let _ = std::fs::remove_file(&path);
        return assert!(check_cancelled().is_err());
    };
    std::fs::remove_file(&path).unwrap();
    let data = pattern(1 + random.below(200_000) as usize);
    let sent = send(random, &mut file, &data);
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    receive(&mut file, &mut bytes);
    assert!(bytes == data[..sent], "what was written is there, and no more");
}

fn speaks_to_a_process(ledger: &Ledger, random: Random) {
    let mut command = Command::new("cat");
    match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(mut child) => {
            let ends = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            transfer(ledger, random, ends);
            if let Err(error) = child.wait() {
                assert!(is_cancelled(&error), "{error}");
                assert!(shield(|| child.wait()).unwrap().success());
            }
        }
        Err(error) => assert!(is_cancelled(&error), "{error}"),
    }
    match Command::new("echo").arg("word").output() {
        Ok(output) => assert_eq!(output.stdout, b"word\n"),
        Err(error) => assert!(is_cancelled(&error), "{error}"),
    }
}

fn sends_values(ledger: &Ledger, random: &mut Random) {
    let (sender, receiver) = channel::bounded::<Token<'_>>(random.below(3) as usize);
    let count = random.below(20);
    let mut received = Vec::new();
    let sent = fiber::scope(|s| {
        let sender = s.spawn(move || {
            let mut sent = Vec::new();
            for _ in 0..count {
                let token = ledger.token("value in a channel");
                let number = token.number;
                match sender.send(token) {
                    Ok(()) => sent.push(number),
                    // It comes back.
                    Err(refused) => {
                        assert!(refused.is_cancelled());
                        assert_eq!(refused.into_inner().number, number);
                    }
                }
                fiber::yield_now();
            }
            sent
        });
        let _token = ledger.token("receiver of values");
        loop {
            match receiver.recv() {
                Ok(token) => received.push(token.number),
                Err(_) => match shield(|| receiver.recv()) {
                    Ok(token) => received.push(token.number),
                    Err(_) => break,
                },
            }
        }
        sender.join().unwrap()
    });
    assert_eq!(received, sent);
}

fn shares_a_lock(ledger: &Ledger) {
    let total = Mutex::new(0);
    let readers = RwLock::new(());
    fiber::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let _token = ledger.token("user of a lock");
                let mut total = total.lock().unwrap();
                let seen = *total;
                fiber::yield_now();
                drop(readers.read().unwrap());
                *total = seen + 1;
            });
        }
        let _alone = readers.write().unwrap();
        fiber::sleep(Duration::from_micros(100));
    });
    assert_eq!(total.into_inner().unwrap(), 3);
}

fn waits_for_a_condition(ledger: &Ledger) {
    let (ready, condition) = (Mutex::new(false), Condvar::new());
    fiber::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let _token = ledger.token("waiter for a condition");
                let mut is_ready = ready.lock().unwrap();
                while !*is_ready {
                    is_ready = condition.wait(is_ready).unwrap();
                }
            });
        }
        fiber::sleep(Duration::from_micros(300));
        fiber::yield_now();
        *ready.lock().unwrap() = true;
        condition.notify_all();
    });
}

fn shares_a_lock_or_gives_up(ledger: &Ledger) {
    let (total, condition) = (Mutex::new(0), Condvar::new());
    let readers = RwLock::new(());
    let entered = AtomicUsize::new(0);
    fiber::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let _token = ledger.token("user of a lock that may give up");
                let Ok(total) = total.lock_or_cancelled() else { return };
                entered.fetch_add(1, SeqCst);
                let mut total = total.unwrap();
                let seen = *total;
                fiber::yield_now();
                drop(readers.read_or_cancelled());
                *total = seen + 1;
                let late = with_timeout(Duration::from_micros(100), || {
                    condition.wait_while_or_cancelled(total, |_| true).is_err()
                });
                assert!(late.is_err() || check_cancelled().is_err());
            });
        }
        let _alone = readers.write_or_cancelled();
        fiber::sleep(Duration::from_micros(100));
    });
    drop(readers.try_write().unwrap());
    assert_eq!(total.into_inner().unwrap(), entered.load(SeqCst));
}

fn sends_to_one(ledger: &Ledger) {
    let (sender, receiver) = mpsc::sync_channel(2);
    let mut received = Vec::new();
    let sent = fiber::scope(|s| {
        let senders = [sender.clone(), sender].map(|sender| {
            s.spawn(move || {
                let tokens = (0..5).map(|_| ledger.token("value for one"));
                let numbers = tokens.map(|token| {
                    let number = token.number;
                    sender.send_or_cancelled(token).is_ok().then_some(number)
                });
                numbers.flatten().collect::<Vec<_>>()
            })
        });
        let _token = ledger.token("the one receiver");
        while let Ok(token) = receiver.recv_or_cancelled() {
            received.push(token.number);
        }
        received.extend(receiver.iter().map(|token| token.number));
        senders.map(|sender| sender.join().unwrap()).concat()
    });
    received.sort_unstable();
    let mut sent = sent;
    sent.sort_unstable();
    assert_eq!(received, sent);
}

fn sleeps(random: &mut Random) {
    fiber::sleep(Duration::from_micros(random.below(1000)));
    let limit = Duration::from_micros(random.below(1000));
    let late = with_timeout(limit, || fiber::sleep(Duration::from_secs(3600)));
    assert!(late.is_err() || check_cancelled().is_err());
    fiber::park_timeout(limit);
}

fn takes_permits(ledger: &Ledger) {
    let permits = Semaphore::new(1);
    let inside = AtomicUsize::new(0);
    fiber::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let _token = ledger.token("user of a permit");
                let Ok(_permit) = permits.acquire() else {
                    return assert!(check_cancelled().is_err());
                };
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                fiber::sleep(Duration::from_micros(50));
                inside.fetch_sub(1, SeqCst);
            });
        }
    });
    assert_eq!(permits.available_permits(), 1);
}

fn waits_for_an_answer(ledger: &Ledger) {
    let (sender, receiver) = oneshot::channel();
    fiber::scope(|s| {
        s.spawn(|| {
            fiber::yield_now();
            // A receiver that was cancelled gives it back.
            let _ = sender.send(ledger.token("answer"));
        });
        let _token = ledger.token("waiter for an answer");
        if receiver.recv().is_err() {
            assert!(check_cancelled().is_err());
        }
    });
}

fn selects(ledger: &Ledger) {
    let (left, from_left) = channel::bounded(1);
    let (right, from_right) = channel::bounded(0);
    fiber::scope(|s| {
        let senders = [left, right];
        for sender in senders {
            s.spawn(move || {
                fiber::yield_now();
                let _ = sender.send(ledger.token("value to select"));
            });
        }
        let _token = ledger.token("selector");
        let taken = |value: Result<Token<'_>, channel::RecvError>| value.is_ok();
        let first = channel::select! {
            recv(from_left) -> value => taken(value),
            recv(from_right) -> value => taken(value),
        };
        assert!(first || check_cancelled().is_err());
        drop((from_left, from_right));
    });
}

fn works_on_the_pool(ledger: &Ledger) {
    let mut done = false;
    let _token = ledger.token("job of the pool");
    ramie::blocking(|| {
        std::thread::sleep(Duration::from_micros(100));
        done = true;
    });
    assert!(done, "a job that borrows is waited for");
    let (mut reader, mut writer) = io::pipe().unwrap();
    let written = writer.write_all(b"word");
    drop(writer);
    let mut text = String::new();
    shield(|| reader.read_to_string(&mut text)).unwrap();
    // A driver with faults may take part of it before the cancel.
    let count = written.map_or_else(|error| bytes_moved(&error).expect("it counts"), |()| 4);
    assert_eq!(text.len(), count);
}
