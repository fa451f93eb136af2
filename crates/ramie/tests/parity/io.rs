//! The items of `std::io`, in use.

use super::std;
use std::{
    fmt::Debug,
    io::{
        self, BufRead, IsTerminal, Lines, PipeReader, PipeWriter, Read, Stderr, StderrLock, Stdin,
        StdinLock, Stdout, StdoutLock, Write,
    },
    os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
    panic::{RefUnwindSafe, UnwindSafe},
    process::Stdio,
};

types! {
    PipeReader, PipeWriter, Stderr, StderrLock['static], Stdin, StdinLock['static], Stdout,
    StdoutLock['static],
}

traits! { IsTerminal }

functions! {
    io;
    fn copy[R, W](reader: &mut R, writer: &mut W) -> io::Result<u64>
        where [R: Read + ?Sized, W: Write + ?Sized];
    fn pipe() -> io::Result<(PipeReader, PipeWriter)>;
    fn stderr() -> Stderr;
    fn stdin() -> Stdin;
    fn stdout() -> Stdout;
}

methods! {
    IsTerminal {
        fn is_terminal[X: IsTerminal](this: &X) -> bool;
    }
    PipeReader {
        fn try_clone(this: &PipeReader) -> io::Result<PipeReader>;
    }
    PipeWriter {
        fn try_clone(this: &PipeWriter) -> io::Result<PipeWriter>;
    }
    Stderr {
        fn lock(this: &Stderr) -> StderrLock<'static>;
    }
    Stdin {
        fn lock(this: &Stdin) -> StdinLock<'static>;
        fn read_line(this: &Stdin, buf: &mut String) -> io::Result<usize>;
        fn lines(this: Stdin) -> Lines<StdinLock<'static>>;
    }
    Stdout {
        fn lock(this: &Stdout) -> StdoutLock<'static>;
    }
}

impls! {
    [] PipeReader: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd] [Read]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<PipeReader>];
    [] Stdio: [From<PipeReader>];
    [] &PipeReader: [Read];
    [] PipeWriter: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd] [Write]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<PipeWriter>];
    [] Stdio: [From<PipeWriter>];
    [] &PipeWriter: [Write];
    [] Stderr: [AsFd] [AsRawFd] [Debug] [IsTerminal] [Write] [RefUnwindSafe] [UnwindSafe] [Send]
        [Sync] [Unpin];
    [] Stdio: [From<Stderr>];
    [] &Stderr: [Write];
    ['a] StderrLock<'a>: [AsFd] [AsRawFd] [Unpin];
    [] StderrLock<'_>: [Debug] [IsTerminal] [Write] [RefUnwindSafe] [UnwindSafe];
    [] Stdin: [AsFd] [AsRawFd] [Debug] [IsTerminal] [Read] [RefUnwindSafe] [Send] [Sync] [Unpin]
        [UnwindSafe];
    [] &Stdin: [Read];
    ['a] StdinLock<'a>: [AsFd] [AsRawFd] [RefUnwindSafe] [Sync] [Unpin] [UnwindSafe];
    [] StdinLock<'_>: [BufRead] [Debug] [IsTerminal] [Read];
    [] Stdout: [AsFd] [AsRawFd] [Debug] [IsTerminal] [Write] [RefUnwindSafe] [UnwindSafe] [Send]
        [Sync] [Unpin];
    [] Stdio: [From<Stdout>];
    [] &Stdout: [Write];
    ['a] StdoutLock<'a>: [AsFd] [AsRawFd] [Unpin];
    [] StdoutLock<'_>: [Debug] [IsTerminal] [Write] [RefUnwindSafe] [UnwindSafe];
}

lacks! {
    StdinLock<'static>: Send;
    StdoutLock<'static>: Send, Sync;
    StderrLock<'static>: Send, Sync;
}

left_to_std! {
    std::io {
        types: BufReader[&'static [u8]], BufWriter[Vec<u8>], Bytes[()], Chain[(), ()], Cursor[()],
            Empty, Error, ErrorKind, IntoInnerError[()], IoSlice['static], IoSliceMut['static],
            Lines[()], LineWriter[Vec<u8>], Repeat, Result[()], SeekFrom, Sink, Split[()], Take[()],
            WriterPanicked;
        traits: BufRead, Read, Seek, Write;
        functions: empty, read_to_string[&'static [u8]], repeat, sink;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), traits(), functions(), methods(), impls(), lacks()].concat()
}
