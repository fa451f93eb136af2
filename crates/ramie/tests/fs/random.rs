//! Random operations on files compared with a model in memory, and calls in places that must not
//! suspend.

use std::{
    io::{BufWriter, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use crate::common;
use ramie::{
    fiber,
    fs::{self, File},
};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("ramie-random-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file as the documentation of std describes it.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    at: usize,
}

impl Model {
    fn read(&self, at: usize, len: usize) -> &[u8] {
        let at = at.min(self.bytes.len());
        &self.bytes[at..self.bytes.len().min(at + len)]
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at..end].copy_from_slice(bytes);
    }
}

const LARGEST: u64 = 300_000;

fn step(random: &mut common::Random, file: &mut File, model: &mut Model) {
    // Small lengths, lengths near the size of a part, and large ones.
    let bound = [100, 70_000, LARGEST / 2][random.below(3) as usize];
    let len = random.below(bound) as usize;
    let at = random.below(LARGEST) as usize;
    let fill = random.below(256) as u8;
    match random.below(9) {
        0 | 1 => {
            let mut buffer = vec![0; len];
            let count = file.read(&mut buffer).unwrap();
            let expected = model.read(model.at, len);
            assert!(&buffer[..count] == expected, "read of {len} at {}", model.at);
            model.at += count;
        }
        2 => {
            let mut buffer = vec![0; len];
            let count = file.read_at(&mut buffer, at as u64).unwrap();
            assert!(&buffer[..count] == model.read(at, len), "read_at {at} of {len}");
        }
        3 => {
            file.write_all(&vec![fill; len]).unwrap();
            model.write(model.at, &vec![fill; len]);
            model.at += len;
        }
        4 => {
            file.write_all_at(&vec![fill; len], at as u64).unwrap();
            model.write(at, &vec![fill; len]);
        }
        5 => {
            assert_eq!(file.seek(SeekFrom::Start(at as u64)).unwrap(), at as u64);
            model.at = at;
        }
        6 => {
            file.set_len(at as u64).unwrap();
            model.bytes.resize(at, 0);
        }
        7 => {
            let (one, two) = (vec![fill; len / 2], vec![!fill; len / 3]);
            let count = file.write_vectored(&[IoSlice::new(&one), IoSlice::new(&two)]).unwrap();
            assert_eq!(count, one.len() + two.len());
            model.write(model.at, &[one, two].concat());
            model.at += count;
        }
        _ => {
            let (mut one, mut two) = (vec![0; len / 2], vec![0; len / 3]);
            let mut into = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
            let count = file.read_vectored(&mut into).unwrap();
            let expected = model.read(model.at, len / 2 + len / 3);
            assert!([one, two].concat()[..count] == *expected, "vectored read at {}", model.at);
            model.at += count;
        }
    }
}

#[test]
fn random_reads_and_writes_match_a_model() {
    let mut random = common::Random::new("files");
    let seeds: Vec<u64> = (0..4).map(|_| random.below(u64::MAX)).collect();
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            fiber::scope(|s| {
                for seed in &seeds {
                    s.spawn(move || {
                        let path = Scratch::new(&seed.to_string());
                        let mut options = File::options();
                        options.read(true).write(true).create(true).truncate(true);
                        let mut file = options.open(&path.0).unwrap();
                        let mut random = common::Random::from_seed(*seed);
                        let mut model = Model::default();
                        for _ in 0..120 {
                            step(&mut random, &mut file, &mut model);
                        }
                        assert!(fs::read(&path.0).unwrap() == model.bytes);
                    });
                }
            });
        });
    });
}

#[test]
fn a_buffer_is_flushed_while_its_fiber_unwinds() {
    common::on_each(&[1], |runtime| {
        runtime.run(|| {
            let path = Scratch::new("unwinding");
            let to = path.0.clone();
            let panicked = fiber::spawn_local(move || {
                let mut buffered = BufWriter::new(File::create(to).unwrap());
                buffered.write_all(b"kept").unwrap();
                panic!("on purpose");
            });
            let other = fiber::spawn_local(|| assert!(!std::thread::panicking()));
            assert!(panicked.join().is_err());
            other.join().unwrap();
            assert_eq!(fs::read(&path.0).unwrap(), b"kept");
        });
    });
}

#[test]
fn no_call_suspends_inside_no_switch() {
    common::on_each(&[1], |runtime| {
        runtime.run(|| {
            let file = File::open("/proc/self/status").unwrap();
            let calls: [&dyn Fn(); 5] = [
                &|| drop((&file).read(&mut [0; 10])),
                &|| drop(file.read_at(&mut [0; 10], 0)),
                &|| drop(fs::metadata("/")),
                &|| drop(fs::remove_file("/nowhere/at/all")),
                &|| drop(File::open("/")),
            ];
            for call in calls {
                let text = common::panic_text(|| ramie::no_switch(call));
                assert!(text.contains("no_switch"), "{text}");
            }
        });
    });
}
