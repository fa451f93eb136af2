//! Named pipes, opened as files: both ends, refusing to wait or not, and calls without a meaning
//! there.

use std::path::PathBuf;

use proptest::{prelude::*, strategy::Strategy};

use crate::compare;

/// One call on one of three handles.
#[derive(Clone, Debug)]
enum Step {
    Open { handle: usize, mode: u8 },
    Close(usize),
    Duplicate { from: usize, to: usize },
    Write { handle: usize, len: usize },
    WriteVectored { handle: usize, lens: (usize, usize) },
    Read { handle: usize, len: usize },
    ReadVectored { handle: usize, lens: (usize, usize) },
    ReadToEnd(usize),
    ReadAt { handle: usize, at: u64 },
    WriteAt { handle: usize, at: u64 },
    Seek(usize),
    SetLen(usize),
    Sync(usize),
    Describe(usize),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let handle = 0..3usize;
    let len = || prop_oneof![0..10usize, 1..5000usize, 1..80_000usize];
    let pair = || (len(), len());
    prop_oneof![
        6 => (handle.clone(), 0..4u8).prop_map(|(handle, mode)| Open { handle, mode }),
        2 => handle.clone().prop_map(Close),
        1 => (handle.clone(), handle.clone()).prop_map(|(from, to)| Duplicate { from, to }),
        6 => (handle.clone(), len()).prop_map(|(handle, len)| Write { handle, len }),
        2 => (handle.clone(), pair()).prop_map(|(handle, lens)| WriteVectored { handle, lens }),
        8 => (handle.clone(), len()).prop_map(|(handle, len)| Read { handle, len }),
        2 => (handle.clone(), pair()).prop_map(|(handle, lens)| ReadVectored { handle, lens }),
        1 => handle.clone().prop_map(ReadToEnd),
        1 => (handle.clone(), 0..3u64).prop_map(|(handle, at)| ReadAt { handle, at }),
        1 => (handle.clone(), 0..3u64).prop_map(|(handle, at)| WriteAt { handle, at }),
        1 => handle.clone().prop_map(Seek),
        1 => handle.clone().prop_map(SetLen),
        1 => handle.clone().prop_map(Sync),
        1 => handle.prop_map(Describe),
    ]
}

/// How a handle was opened.
#[derive(Clone, Copy)]
struct Mode {
    reads: bool,
    writes: bool,
    refuses_to_wait: bool,
}

impl Mode {
    /// None that would wait for the other end to be opened.
    fn of(number: u8) -> Mode {
        let (reads, writes) =
            [(true, true), (true, true), (true, false), (false, true)][usize::from(number)];
        Mode { reads, writes, refuses_to_wait: number != 0 }
    }
}

/// A pipe's room: a page for each write, at worst.
const PAGES: usize = 16;
/// The room of a pipe that is ready.
const PIPE_BUF: usize = 4096;

/// The named pipe of one sequence.
struct Fifo(PathBuf);

impl Fifo {
    fn new() -> Fifo {
        let path = std::env::temp_dir().join(format!("ramie-fifo-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo is there").success());
        Fifo(path)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The program, with whichever library goes by the name of `std`.
macro_rules! program {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::File,
                io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
                os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
            };

            use $library as std;

            use super::{Fifo, Mode, PAGES, PIPE_BUF, Step};
            use crate::{bytes, digest, told, trace};

            #[derive(Default)]
            struct Handles {
                open: [Option<(File, Mode)>; 3],
                queued: usize,
                pages: usize,
            }

            impl Handles {
                fn any(&self, is: impl Fn(Mode) -> bool) -> bool {
                    self.open.iter().flatten().any(|(_, mode)| is(*mode))
                }

                /// With the last handle the bytes in the pipe are gone.
                fn note_close(&mut self) {
                    if self.open.iter().all(Option::is_none) {
                        (self.queued, self.pages) = (0, 0);
                    }
                }

                /// The handle, if a write of so many bytes ends by itself.
                fn writer(&mut self, handle: usize, len: usize) -> Option<&File> {
                    let pages = len / 4096 + 1;
                    if self.queued == 0 {
                        self.pages = 0;
                    }
                    let ends = !self.any(|mode| mode.reads) || self.pages + pages <= PAGES;
                    let (file, mode) = self.open[handle].as_ref()?;
                    // The polling driver must not wait in a write to a blocking pipe, so it writes
                    // only as much as one that is ready has room for, as documented at `File`.
                    let waits = mode.writes && !mode.refuses_to_wait;
                    if waits && (!ends || len > PIPE_BUF) {
                        return None;
                    }
                    self.pages += pages;
                    Some(file)
                }

                fn wrote(&mut self, result: io::Result<usize>) -> String {
                    self.queued += result.as_ref().map_or(0, |count| *count);
                    told(result)
                }

                /// The handle, if a read ends by itself.
                fn reader(&self, handle: usize) -> Option<&File> {
                    let (file, mode) = self.open[handle].as_ref()?;
                    let ends = mode.refuses_to_wait
                        || !mode.reads
                        || self.queued > 0
                        || !self.any(|mode| mode.writes);
                    ends.then_some(file)
                }

                fn read(&mut self, buf: &[u8], result: io::Result<usize>) -> String {
                    let count = result.as_ref().map_or(0, |count| *count);
                    self.queued -= count;
                    format!("{} {:x}", told(result), digest(&buf[..count]))
                }

                fn call(&mut self, fifo: &Fifo, step: &Step, nth: usize) -> Option<String> {
                    Some(match *step {
                        Step::Open { handle, mode } => {
                            let mode = Mode::of(mode);
                            let flags = if mode.refuses_to_wait { libc::O_NONBLOCK } else { 0 };
                            let mut options = File::options();
                            options.read(mode.reads).write(mode.writes).custom_flags(flags);
                            let opened = options.open(&fifo.0);
                            let result = opened.as_ref().map(drop).map_err(io::Error::kind);
                            let result = format!("{result:?}");
                            if let Ok(file) = opened {
                                self.open[handle] = Some((file, mode));
                            }
                            result
                        }
                        Step::Close(handle) => {
                            self.open[handle].take()?;
                            self.note_close();
                            String::new()
                        }
                        Step::Duplicate { from, to } => {
                            let (file, mode) = self.open[from].as_ref()?;
                            self.open[to] = Some((file.try_clone().unwrap(), *mode));
                            String::new()
                        }
                        Step::Write { handle, len } => {
                            let mut file = self.writer(handle, len)?;
                            let result = file.write(&bytes(len, nth));
                            self.wrote(result)
                        }
                        Step::WriteVectored { handle, lens } => {
                            let mut file = self.writer(handle, lens.0 + lens.1)?;
                            let (one, other) = (bytes(lens.0, nth), bytes(lens.1, nth + 1));
                            let bufs = [IoSlice::new(&one), IoSlice::new(&other)];
                            let result = file.write_vectored(&bufs);
                            self.wrote(result)
                        }
                        Step::Read { handle, len } => {
                            let mut buf = vec![0; len];
                            let result = self.reader(handle)?.read(&mut buf);
                            self.read(&buf, result)
                        }
                        Step::ReadVectored { handle, lens } => {
                            let mut buf = vec![0; lens.0 + lens.1];
                            let (one, other) = buf.split_at_mut(lens.0);
                            let mut bufs = [IoSliceMut::new(one), IoSliceMut::new(other)];
                            let result = self.reader(handle)?.read_vectored(&mut bufs);
                            self.read(&buf, result)
                        }
                        Step::ReadToEnd(handle) => {
                            let mut file = self.reader(handle)?;
                            // Else it waits for more.
                            let (_, mode) = self.open[handle].as_ref()?;
                            if !mode.refuses_to_wait && self.any(|mode| mode.writes) && mode.reads {
                                return None;
                            }
                            let mut buf = Vec::new();
                            let result = file.read_to_end(&mut buf);
                            self.queued -= buf.len();
                            format!("{} {:x}", told(result), digest(&buf))
                        }
                        ref step => self.without_meaning(step)?,
                    })
                }

                fn without_meaning(&self, step: &Step) -> Option<String> {
                    let file = |handle: usize| self.open[handle].as_ref().map(|(file, _)| file);
                    Some(match *step {
                        Step::ReadAt { handle, at } => told(file(handle)?.read_at(&mut [0; 8], at)),
                        Step::WriteAt { handle, at } => told(file(handle)?.write_at(b"at", at)),
                        Step::Seek(handle) => told(file(handle)?.seek(SeekFrom::Start(1))),
                        Step::SetLen(handle) => told(file(handle)?.set_len(5)),
                        Step::Sync(handle) => told(file(handle)?.sync_all()),
                        Step::Describe(handle) => {
                            let found = file(handle)?.metadata().unwrap();
                            format!("{} {}", found.file_type().is_fifo(), found.len())
                        }
                        _ => return None,
                    })
                }
            }

            pub(super) fn run(steps: &[Step]) -> Vec<String> {
                let fifo = Fifo::new();
                let mut handles = Handles::default();
                trace(steps, |step, nth| {
                    let result = handles.call(&fifo, step, nth)?;
                    Some(format!("{result}, {} queued", handles.queued))
                })
            }
        }
    };
}

program!(std as with_std);
program!(ramie as with_ours);

#[test]
fn named_pipes_are_as_with_std() {
    compare("named pipes", step(), with_std::run, with_ours::run);
}
