//! Streams whose descriptors have indices in a ring's file table, which only the table itself
//! shows.

use std::{
    fs,
    io::{Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
    thread,
};

use crate::common;
use crate::common::{assert_success, child_with, is_child, on_each, wait_until};
use ramie::{
    Driver, Runtime, fiber,
    io::{PipeReader, PipeWriter, pipe},
    os::unix::net::UnixStream,
};

/// More ops than a stream makes before it takes an index.
const MANY: u8 = 100;

/// The number of indices in use in the rings of this process. The kernel shows a ring's table only
/// while no thread is in the ring, so the largest of several readings counts.
fn places() -> usize {
    (0..5).map(|_| places_seen()).max().unwrap_or(0)
}

fn places_seen() -> usize {
    let mut places = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().contains("io_uring") {
            continue;
        }
        let info = fs::read_to_string(format!(
            "/proc/self/fdinfo/{}",
            entry.file_name().to_string_lossy()
        ));
        let info = info.unwrap_or_default();
        let table = info.lines().skip_while(|line| !line.starts_with("UserFiles")).skip(1);
        places += table.take_while(|line| line.starts_with(' ')).count();
    }
    places
}

/// Sends bytes one by one, often enough for both ends to take an index if there is a table.
fn exchange(writer: &mut impl Write, reader: &mut impl Read, count: u8) {
    for byte in 0..count {
        let mut got = [0];
        writer.write_all(&[byte]).unwrap();
        reader.read_exact(&mut got).unwrap();
        assert_eq!(got, [byte]);
    }
}

fn busy_pipe() -> (PipeReader, PipeWriter) {
    let (mut reader, mut writer) = pipe().unwrap();
    exchange(&mut writer, &mut reader, MANY);
    (reader, writer)
}

/// Runs `f` in a process of its own, which runs only the test `name`.
fn alone(test: &str, limits: &str, variables: &[(&str, &str)], f: impl Fn()) {
    match is_child() {
        true => f(),
        false => assert_success(&child_with(limits, test, variables)),
    }
}

fn assert_at_end(mut reader: impl Read) {
    assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0, "the end of the stream");
}

#[test]
fn the_end_of_a_stream_is_seen_when_its_worker_drops_it() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            for _ in 0..3 {
                let (reader, writer) = busy_pipe();
                drop(writer);
                assert_at_end(reader);
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                exchange(&mut ours, &mut theirs, MANY);
                drop(ours);
                assert_at_end(theirs);
            }
        });
    });
}

#[test]
fn the_end_is_seen_when_another_worker_or_a_plain_thread_drops_it() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (reader, writer) = busy_pipe();
            // While this fiber waits, its worker sleeps.
            let elsewhere = thread::spawn(move || drop(writer));
            assert_at_end(reader);
            elsewhere.join().unwrap();

            let (mut ours, theirs) = UnixStream::pair().unwrap();
            exchange(&mut &theirs, &mut ours, MANY);
            let elsewhere = fiber::spawn(move || drop(theirs));
            assert_at_end(ours);
            elsewhere.join().unwrap();
        });
    });
}

#[test]
fn the_end_is_seen_when_a_descriptor_that_was_given_away_is_closed() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (reader, writer) = busy_pipe();
            drop(OwnedFd::from(writer));
            assert_at_end(reader);

            let (reader, writer) = busy_pipe();
            drop(std::io::PipeWriter::from(writer));
            assert_at_end(reader);

            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            exchange(&mut ours, &mut theirs, MANY);
            let std = std::os::unix::net::UnixStream::from(ours);
            drop(std);
            assert_at_end(theirs);
        });
    });
}

#[test]
fn a_duplicate_still_works_and_keeps_the_stream_open() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (mut reader, mut writer) = busy_pipe();
            let mut second = writer.try_clone().unwrap();
            exchange(&mut second, &mut reader, MANY);
            drop(writer);
            exchange(&mut second, &mut reader, MANY);
            writer = second.try_clone().unwrap();
            drop(second);
            exchange(&mut writer, &mut reader, MANY);
            drop(writer);
            assert_at_end(reader);
        });
    });
}

#[test]
fn a_reused_descriptor_and_index_mean_the_new_file() {
    // In a process of its own, because other tests would take the descriptor numbers.
    alone("a_reused_descriptor_and_index_mean_the_new_file", "true", &[], || {
        on_each(&[1], |runtime| {
            runtime.run(|| {
                let mut kept = Vec::new();
                for round in 0..20 {
                    let (reader, writer) = busy_pipe();
                    let numbers = (reader.as_raw_fd(), writer.as_raw_fd());
                    drop((reader, writer));
                    let (mut reader, mut writer) = pipe().unwrap();
                    let is_reused = (reader.as_raw_fd(), writer.as_raw_fd()) == numbers;
                    assert!(is_reused || round > 0, "numbers are given out lowest first");
                    exchange(&mut writer, &mut reader, MANY);
                    kept.push((reader, writer));
                }
                for (reader, writer) in &mut kept {
                    exchange(writer, reader, 10);
                }
            });
        });
    });
}

#[test]
fn a_stream_outlives_the_ring_whose_table_it_was_in() {
    on_each(&[1, 2], |runtime| {
        let (mut reader, mut writer) = runtime.run(busy_pipe);
        exchange(&mut writer, &mut reader, 10);
        let again = Runtime::builder().workers(1).build().unwrap();
        let (reader, writer) = again.run(|| {
            exchange(&mut writer, &mut reader, MANY);
            (reader, writer)
        });
        drop(writer);
        assert_at_end(reader);
    });
}

#[test]
fn the_stream_of_an_abandoned_fiber_stays_open() {
    let runtime = Runtime::builder().workers(1).grace(std::time::Duration::ZERO).build().unwrap();
    let (theirs, ours) = std::io::pipe().unwrap();
    let second = theirs.try_clone().unwrap();
    let writer = runtime.run(|| {
        let (mut reader, mut writer) = (PipeReader::from(theirs), PipeWriter::from(ours));
        exchange(&mut writer, &mut reader, MANY);
        // The fiber is abandoned while it waits with its stream in use, so the descriptor stays
        // open.
        drop(fiber::spawn(move || drop(reader.read(&mut [0; 4]))));
        fiber::yield_now();
        writer
    });
    exchange(&mut &writer, &mut PipeReader::from(second), 10);
}

#[test]
fn two_runtimes_use_a_stream_in_turn() {
    let [first, second] = [1, 2].map(common::with_workers);
    let (mut reader, mut writer) = first.run(busy_pipe);
    let other = thread::spawn(move || {
        second.run(|| {
            // Indices of the same value, for other files, in the rings of this runtime.
            let (mut near, mut far) = busy_pipe();
            for byte in 0..50 {
                writer.write_all(&[byte]).unwrap();
                far.write_all(&[!byte]).unwrap();
                let mut got = [[0], [0]];
                reader.read_exact(&mut got[0]).unwrap();
                near.read_exact(&mut got[1]).unwrap();
                assert_eq!(got, [[byte], [!byte]]);
            }
            drop(writer);
            reader
        })
    });
    // The ring of the first runtime, in which the writer had its index, is gone.
    assert_at_end(other.join().unwrap());
}

#[test]
fn one_fiber_waits_on_a_stream_while_another_registers_it() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (ours, theirs) = (Arc::new(ours), Arc::new(theirs));
            let waiting = Arc::clone(&ours);
            let waits = fiber::spawn_local(move || {
                let mut got = [0; 4];
                (&*waiting).read_exact(&mut got).unwrap();
                got
            });
            fiber::yield_now();
            let mut got = [0];
            for byte in 0..MANY {
                (&*ours).write_all(&[byte]).unwrap();
                (&*theirs).read_exact(&mut got).unwrap();
            }
            (&*theirs).write_all(b"done").unwrap();
            assert_eq!(waits.join().unwrap(), *b"done");
            drop(ours);
            assert_at_end(&*theirs);
        });
    });
}

#[test]
fn busy_streams_take_indices_and_give_them_back() {
    alone("busy_streams_take_indices_and_give_them_back", "true", &[], || {
        if !common::has_ring() {
            return;
        }
        let runtime = Runtime::builder().driver(Driver::Uring).workers(1).build().unwrap();
        runtime.run(|| {
            let quiet: Vec<_> = (0..10).map(|_| pipe().unwrap()).collect();
            assert_eq!(places(), 0, "nothing has moved through {} pipes", quiet.len());
            let busy: Vec<_> = (0..10).map(|_| busy_pipe()).collect();
            assert_eq!(places(), 20);
            thread::spawn(move || drop(busy)).join().unwrap();
            wait_until(|| places() == 0);
        });
    });
}

#[test]
fn without_the_feature_no_index_is_taken() {
    let variables = [("RAMIE_CAPS", "-fixed_files")];
    alone("without_the_feature_no_index_is_taken", "true", &variables, || {
        common::one_worker().run(|| {
            let (reader, writer) = busy_pipe();
            assert_eq!(places(), 0);
            drop(writer);
            assert_at_end(reader);
        });
    });
}

#[test]
fn a_full_table_leaves_streams_to_their_descriptors() {
    // The table is the smaller of the two then.
    alone("a_full_table_leaves_streams_to_their_descriptors", "ulimit -n 700", &[], || {
        common::one_worker().run(|| {
            let mut pipes: Vec<_> = (0..160).map(|_| busy_pipe()).collect();
            assert!(places() <= 256);
            for (reader, writer) in &mut pipes {
                exchange(writer, reader, 5);
            }
            for (reader, writer) in pipes {
                drop(writer);
                assert_at_end(reader);
            }
        });
    });
}
