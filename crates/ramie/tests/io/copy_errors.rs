//! Copies into a sink that cannot be written fail as std's do, and leave the source as std's do.

use crate::common;
/// The same copies, by whichever library goes by the name of `std`.
macro_rules! copies {
    ($library:ident as $name:ident) => {
        mod $name {
            use std::{
                fs::File,
                io::{self, PipeReader, PipeWriter, Read, Seek, Write},
                net::Shutdown,
                os::unix::net::UnixStream,
            };

            use ::std::{
                fmt::Write as _,
                os::fd::{AsRawFd, OwnedFd},
                path::Path,
            };
            use $library as std;

            const SOME: [u8; 5000] = [b'x'; 5000];

            /// A pipe with bytes in it, and no writer.
            fn filled_pipe() -> PipeReader {
                let (reader, mut writer) = io::pipe().unwrap();
                writer.write_all(&SOME).unwrap();
                reader
            }

            fn pipe_without_reader() -> PipeWriter {
                io::pipe().unwrap().1
            }

            /// A pipe that takes no more, and fails at once.
            fn full_pipe() -> (PipeReader, PipeWriter) {
                let (reader, mut writer) = io::pipe().unwrap();
                writer.write_all(&[0; 65536]).unwrap();
                // SAFETY: the descriptor is open; it points to nothing.
                unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
                (reader, PipeWriter::from(OwnedFd::from(writer)))
            }

            fn rest(mut source: impl Read) -> usize {
                source.read_to_end(&mut Vec::new()).unwrap()
            }

            pub(super) fn run(dir: &Path) -> String {
                let mut told = String::new();
                let mut tell = |what: &str, result: io::Result<u64>, rest: usize| {
                    let result = result.map_err(|error| error.raw_os_error());
                    writeln!(told, "{what}: {result:?}, {rest} bytes are left").unwrap();
                };
                let path = dir.join("source");
                ::std::fs::write(&path, SOME).unwrap();
                let empty = dir.join("empty");
                ::std::fs::write(&empty, "").unwrap();
                let target = || File::open("/proc/self/exe").unwrap();

                let mut file = File::open(&path).unwrap();
                tell(
                    "to a file not open for writing",
                    io::copy(&mut file, &mut target()),
                    rest(&file),
                );
                tell("at the end", io::copy(&mut file, &mut target()), rest(&file));
                let mut file = File::open(&empty).unwrap();
                tell("nothing", io::copy(&mut file, &mut target()), rest(&file));
                let device = || File::open("/dev/null").unwrap();
                let mut file = File::open(&path).unwrap();
                let what = "to a device not open for writing";
                tell(what, io::copy(&mut file, &mut device()), rest(&file));
                tell("at the end", io::copy(&mut file, &mut device()), rest(&file));
                let mut file = File::open(&empty).unwrap();
                tell("nothing", io::copy(&mut file, &mut device()), rest(&file));
                tell("to a directory", io::copy(&mut file, &mut File::open(dir).unwrap()), 0);
                let mut unreadable = File::options().append(true).open(&empty).unwrap();
                let mut directory = File::open(dir).unwrap();
                tell("what cannot be read", io::copy(&mut unreadable, &mut directory), 0);
                let mut file = File::open(&path).unwrap();
                let what = "to a directory, of some bytes";
                tell(what, io::copy(&mut file, &mut directory), rest(&file));
                let mut directory = File::open(dir).unwrap();
                tell("a directory", io::copy(&mut directory, &mut device()), 0);
                let mut directory = File::open(dir).unwrap();
                tell("from a directory", io::copy(&mut directory, &mut io::sink()), 0);
                let mut unreadable = File::options().append(true).open(&path).unwrap();
                let mut other = File::create(dir.join("other")).unwrap();
                tell("from a file not open for reading", io::copy(&mut unreadable, &mut other), 0);
                let mut appending = File::options().append(true).open(dir.join("other")).unwrap();
                let mut file = File::open(&path).unwrap();
                tell("appending", io::copy(&mut file, &mut appending), rest(&file));

                let mut pipe = filled_pipe();
                tell("pipe to pipe", io::copy(&mut pipe, &mut pipe_without_reader()), rest(pipe));
                let mut pipe = filled_pipe();
                let (_reader, mut full) = full_pipe();
                tell("pipe to full pipe", io::copy(&mut pipe, &mut full), rest(pipe));
                let mut pipe = filled_pipe();
                tell("pipe to read-only file", io::copy(&mut pipe, &mut target()), rest(pipe));
                let mut pipe = filled_pipe();
                let (mut ours, _theirs) = UnixStream::pair().unwrap();
                ours.shutdown(Shutdown::Write).unwrap();
                tell(
                    "pipe to socket that was shut down",
                    io::copy(&mut pipe, &mut ours),
                    rest(pipe),
                );
                let mut pipe = filled_pipe();
                let (mut ours, theirs) = UnixStream::pair().unwrap();
                drop(theirs);
                tell("pipe to socket without peer", io::copy(&mut pipe, &mut ours), rest(pipe));
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                theirs.write_all(&SOME).unwrap();
                drop(theirs);
                let copied = io::copy(&mut ours, &mut pipe_without_reader());
                tell("socket to pipe", copied, rest(ours));
                tell_of_ended_sources(&mut tell, &target);
                told
            }

            fn ended_pipe() -> PipeReader {
                io::pipe().unwrap().0
            }

            fn ended_socket() -> UnixStream {
                UnixStream::pair().unwrap().0
            }

            /// Tells of copies from streams without a byte left, to sinks that cannot be written.
            fn tell_of_ended_sources(
                tell: &mut impl FnMut(&str, io::Result<u64>, usize),
                target: &dyn Fn() -> File,
            ) {
                let gone = ended_socket;
                let shut_down = || {
                    let (socket, peer) = UnixStream::pair().unwrap();
                    socket.shutdown(Shutdown::Write).unwrap();
                    (socket, peer)
                };
                let copied = io::copy(&mut ended_pipe(), &mut shut_down().0);
                tell("ended pipe to socket that was shut down", copied, 0);
                let copied = io::copy(&mut ended_socket(), &mut shut_down().0);
                tell("ended socket to socket that was shut down", copied, 0);
                let copied = io::copy(&mut ended_pipe(), &mut gone());
                tell("ended pipe to socket without peer", copied, 0);
                let copied = io::copy(&mut ended_socket(), &mut gone());
                tell("ended socket to socket without peer", copied, 0);
                let copied = io::copy(&mut ended_pipe(), &mut target());
                tell("ended pipe to read-only file", copied, 0);
                let copied = io::copy(&mut ended_socket(), &mut target());
                tell("ended socket to read-only file", copied, 0);
                let copied = io::copy(&mut ended_pipe(), &mut pipe_without_reader());
                tell("ended pipe to pipe", copied, 0);
                let copied = io::copy(&mut ended_socket(), &mut pipe_without_reader());
                tell("ended socket to pipe", copied, 0);
                let (mut source, peer) = UnixStream::pair().unwrap();
                peer.set_read_timeout(None).unwrap();
                (&peer).write_all(&SOME).unwrap();
                drop(peer);
                source.read_exact(&mut [0; 5000]).unwrap();
                tell("socket read to its end", io::copy(&mut source, &mut gone()), rest(source));
            }

            /// std copies to devices by way of a buffer, of which it loses the rest.
            pub(super) fn to_a_full_device(path: &Path) -> (Option<i32>, u64) {
                let mut file = File::open(path).unwrap();
                let mut full = File::options().write(true).open("/dev/full").unwrap();
                let error = io::copy(&mut file, &mut full).unwrap_err();
                (error.raw_os_error(), file.stream_position().unwrap())
            }
        }
    };
}

copies!(std as with_std);
copies!(ramie as with_ours);

struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bytes_that_cannot_be_written_stay_in_the_source_as_with_std() {
    let name = format!("ramie-copy-errors-{}", std::process::id());
    let dir = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir(&dir.0).unwrap();
    let theirs = with_std::run(&dir.0);
    common::everywhere(|| {
        assert_eq!(with_ours::run(&dir.0), theirs);
        let nothing_lost = (Some(libc::ENOSPC), 0);
        assert_eq!(with_ours::to_a_full_device(&dir.0.join("source")), nothing_lost);
    });
    assert_eq!(with_std::to_a_full_device(&dir.0.join("source")).0, Some(libc::ENOSPC));
}
