//! Pipes: short reads, vectors, ends that close, duplicates, copies.

use proptest::{prelude::*, strategy::Strategy};

use crate::compare;

/// One call.
#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    WriteVectored(usize, usize),
    Read(usize),
    ReadVectored(usize, usize),
    ReadToEnd,
    DuplicateReader,
    DuplicateWriter,
    CloseReader,
    CloseWriter,
    /// The copy's target: a pipe without a reader, a file that is not open for writing, memory.
    CopyFrom(u8),
    /// From a file of so many bytes.
    CopyTo(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let len = || prop_oneof![0..10usize, 1..5000usize, 1..20_000usize];
    prop_oneof![
        6 => len().prop_map(Write),
        2 => (len(), len()).prop_map(|(one, other)| WriteVectored(one, other)),
        6 => len().prop_map(Read),
        2 => (len(), len()).prop_map(|(one, other)| ReadVectored(one, other)),
        1 => Just(ReadToEnd),
        1 => Just(DuplicateReader),
        1 => Just(DuplicateWriter),
        1 => Just(CloseReader),
        1 => Just(CloseWriter),
        2 => (0..3u8).prop_map(CopyFrom),
        2 => len().prop_map(CopyTo),
        2 => Just(Reopen),
    ]
}

/// The pages of a pipe: a write begins a new one, at worst.
const PAGES: usize = 16;

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::File,
                io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write},
            };

            use $library as std;

            use super::{PAGES, Step};
            use crate::{bytes, digest, told, trace};

            struct Pipe {
                readers: Vec<PipeReader>,
                writers: Vec<PipeWriter>,
                queued: usize,
                pages: usize,
            }

            impl Pipe {
                fn new() -> Pipe {
                    let (reader, writer) = io::pipe().unwrap();
                    Pipe { readers: vec![reader], writers: vec![writer], queued: 0, pages: 0 }
                }

                /// Whether a write of so many bytes needs not wait; nobody is left to write to.
                fn takes(&mut self, len: usize) -> bool {
                    let pages = len / 4096 + 1;
                    if self.queued == 0 {
                        self.pages = 0;
                    }
                    let does = self.readers.is_empty() || self.pages + pages <= PAGES;
                    self.pages += if does { pages } else { 0 };
                    does
                }

                fn wrote(&mut self, result: io::Result<usize>) -> String {
                    self.queued += result.as_ref().map_or(0, |count| *count);
                    told(result)
                }

                fn may_read(&self) -> bool {
                    self.queued > 0 || self.writers.is_empty()
                }

                fn read(&mut self, buf: &[u8], result: io::Result<usize>) -> String {
                    let count = result.as_ref().map_or(0, |count| *count);
                    self.queued -= count;
                    format!("{} {:x}", told(result), digest(&buf[..count]))
                }

                fn call(&mut self, step: &Step, nth: usize) -> Option<String> {
                    Some(match *step {
                        Step::Write(len) if self.takes(len) => {
                            let result = self.writers.last()?.write(&bytes(len, nth));
                            self.wrote(result)
                        }
                        Step::WriteVectored(one, other) if self.takes(one + other) => {
                            let (one, other) = (bytes(one, nth), bytes(other, nth + 1));
                            let bufs = [IoSlice::new(&one), IoSlice::new(&other)];
                            let result = self.writers.last()?.write_vectored(&bufs);
                            self.wrote(result)
                        }
                        Step::Read(len) if self.may_read() => {
                            let mut buf = vec![0; len];
                            let result = self.readers.last()?.read(&mut buf);
                            self.read(&buf, result)
                        }
                        Step::ReadVectored(one, other) if self.may_read() => {
                            let mut buf = vec![0; one + other];
                            let (first, second) = buf.split_at_mut(one);
                            let mut bufs = [IoSliceMut::new(first), IoSliceMut::new(second)];
                            let result = self.readers.last()?.read_vectored(&mut bufs);
                            self.read(&buf, result)
                        }
                        Step::ReadToEnd if self.writers.is_empty() => {
                            let mut buf = Vec::new();
                            let result = self.readers.last()?.read_to_end(&mut buf);
                            self.read(&buf, result)
                        }
                        Step::DuplicateReader => {
                            let reader = self.readers.last()?.try_clone().unwrap();
                            self.readers.push(reader);
                            String::new()
                        }
                        Step::DuplicateWriter => {
                            let writer = self.writers.last()?.try_clone().unwrap();
                            self.writers.push(writer);
                            String::new()
                        }
                        Step::CloseReader => self.readers.pop().map(|_| String::new())?,
                        Step::CloseWriter => self.writers.pop().map(|_| String::new())?,
                        Step::CopyFrom(to) => self.copy_from(to)?,
                        Step::CopyTo(len) if self.takes(len) => {
                            let mut file = source(len, nth);
                            let mut writer = self.writers.last()?;
                            // std takes bytes for which there is no room.
                            if self.readers.is_empty() {
                                return Some(told(io::copy(&mut file, &mut writer)));
                            }
                            let copied = io::copy(&mut file, &mut writer);
                            self.wrote(copied.map(|count| count as usize))
                        }
                        Step::Reopen => {
                            *self = Pipe::new();
                            String::new()
                        }
                        _ => return None,
                    })
                }

                fn copy_from(&mut self, to: u8) -> Option<String> {
                    let mut reader = self.readers.last()?;
                    let mut memory = Vec::new();
                    let copied = match to {
                        0 if !self.may_read() => return None,
                        0 => io::copy(&mut reader, &mut without_reader()),
                        1 => io::copy(&mut reader, &mut File::open("/proc/self/exe").unwrap()),
                        _ if !self.writers.is_empty() => return None,
                        _ => io::copy(&mut reader, &mut memory),
                    };
                    let copied = copied.map(|count| count as usize);
                    Some(self.read(&memory, copied))
                }
            }

            fn without_reader() -> PipeWriter {
                io::pipe().unwrap().1
            }

            /// A file of so many bytes, which has no name any more.
            fn source(len: usize, nth: usize) -> File {
                let path = ::std::env::temp_dir()
                    .join(format!("ramie-pipe-source-{}", ::std::process::id()));
                ::std::fs::write(&path, bytes(len, nth)).unwrap();
                let file = File::open(&path).unwrap();
                ::std::fs::remove_file(&path).unwrap();
                file
            }

            pub(super) fn run(steps: &[Step]) -> Vec<String> {
                let mut pipe = Pipe::new();
                trace(steps, |step, nth| {
                    // Without a reader or writer there is nothing to call.
                    let result = pipe.call(step, nth)?;
                    Some(format!("{result}, {} queued", pipe.queued))
                })
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

#[test]
fn pipes_are_as_with_std() {
    compare("pipes", step(), with_std::run, with_ours::run);
}
