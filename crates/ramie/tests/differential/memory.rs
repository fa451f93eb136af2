//! Reads and writes that fail half-way: of the process's own memory, part of which cannot be had.

use std::{os::fd::AsRawFd, sync::OnceLock};

use proptest::{prelude::*, strategy::Strategy};

use crate::compare;

/// One call; places count from the start of the mapping.
#[derive(Clone, Debug)]
enum Step {
    Seek(u64),
    Read(usize),
    ReadVectored(usize, usize),
    ReadAt { len: usize, at: u64 },
    ReadExact(usize),
    Write(usize),
    WriteVectored(usize, usize),
    WriteAt { len: usize, at: u64 },
    WriteAll(usize),
    WriteAllAt { len: usize, at: u64 },
}

const PAGE: u64 = 4096;
/// Pages that are there; behind them are as many beyond the end of the file that is mapped, and an
/// access to them fails.
const PAGES: u64 = 20;

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let at = || 0..2 * PAGES * PAGE;
    let len = || prop_oneof![0..20usize, 1..10_000usize, 60_000..90_000usize];
    prop_oneof![
        4 => at().prop_map(Seek),
        4 => len().prop_map(Read),
        2 => (len(), len()).prop_map(|(one, other)| ReadVectored(one, other)),
        2 => (len(), at()).prop_map(|(len, at)| ReadAt { len, at }),
        1 => len().prop_map(ReadExact),
        2 => len().prop_map(Write),
        2 => (len(), len()).prop_map(|(one, other)| WriteVectored(one, other)),
        2 => (len(), at()).prop_map(|(len, at)| WriteAt { len, at }),
        1 => len().prop_map(WriteAll),
        1 => (len(), at()).prop_map(|(len, at)| WriteAllAt { len, at }),
    ]
}

/// Where the mapping starts.
fn base() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    *BASE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("ramie-memory-{}", std::process::id()));
        let file = std::fs::File::options();
        let file = file.clone().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(PAGES * PAGE).unwrap();
        let (size, access) = ((2 * PAGES * PAGE) as usize, libc::PROT_READ | libc::PROT_WRITE);
        let (null, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
        // SAFETY: a new mapping, which nobody refers to but by its number.
        let base = unsafe { libc::mmap(null, size, access, shared, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        base as u64
    })
}

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::File,
                io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
                os::unix::fs::FileExt,
            };

            use $library as std;

            use super::{PAGE, PAGES, Step, base};
            use crate::{bytes, digest, told, trace};

            fn call(mut file: &File, step: &Step, nth: usize) -> String {
                let of = |at: u64| base() + at;
                match *step {
                    Step::Seek(at) => told(file.seek(SeekFrom::Start(of(at))).map(drop)),
                    Step::Read(len) => {
                        let mut buf = vec![0; len];
                        let result = file.read(&mut buf);
                        format!("{} {:x}", told(result), digest(&buf))
                    }
                    Step::ReadVectored(one, other) => {
                        let (mut one, mut other) = (vec![0; one], vec![0; other]);
                        let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
                        let result = file.read_vectored(&mut bufs);
                        format!("{} {:x} {:x}", told(result), digest(&one), digest(&other))
                    }
                    Step::ReadAt { len, at } => {
                        let mut buf = vec![0; len];
                        let result = file.read_at(&mut buf, of(at));
                        format!("{} {:x}", told(result), digest(&buf))
                    }
                    Step::ReadExact(len) => told(file.read_exact(&mut vec![0; len])),
                    Step::Write(len) => told(file.write(&bytes(len, nth))),
                    Step::WriteVectored(one, other) => {
                        let (one, other) = (bytes(one, nth), bytes(other, nth + 1));
                        let bufs = [IoSlice::new(&one), IoSlice::new(&other)];
                        told(file.write_vectored(&bufs))
                    }
                    Step::WriteAt { len, at } => told(file.write_at(&bytes(len, nth), of(at))),
                    Step::WriteAll(len) => told(file.write_all(&bytes(len, nth))),
                    Step::WriteAllAt { len, at } => {
                        told(file.write_all_at(&bytes(len, nth), of(at)))
                    }
                }
            }

            pub(super) fn run(steps: &[Step]) -> Vec<String> {
                let file = File::options().read(true).write(true).open("/proc/self/mem").unwrap();
                file.write_all_at(&vec![7; (PAGES * PAGE) as usize], base()).unwrap();
                (&file).seek(SeekFrom::Start(base())).unwrap();
                let mut trace = trace(steps, |step, nth| {
                    let result = call(&file, step, nth);
                    let at = (&file).stream_position().unwrap() - base();
                    Some(format!("{result}; at {at}"))
                });
                let mut all = vec![0; (PAGES * PAGE) as usize];
                file.read_exact_at(&mut all, base()).unwrap();
                trace.push(format!("{:x}", digest(&all)));
                trace
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

#[test]
fn reads_and_writes_that_fail_half_way_are_as_with_std() {
    compare("memory", step(), with_std::run, with_ours::run);
}
