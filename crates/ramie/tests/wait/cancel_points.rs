//! Which call is a cancel point: all I/O calls, one by one.

use std::{
    io::{BufWriter, ErrorKind, Read, Result, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{
    self,
    cancel::{SHORT, ended, refused},
    descriptors, everywhere, on_each, wait_until,
};
use ramie::{
    cancel::{self, bytes_moved, is_cancelled, unsent_bytes, with_timeout},
    fiber, fs,
    fs::File,
    io,
    net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
    process::Command,
    signal::{Signal, Signals},
};
use ramie_driver::sys;

/// A directory of this test's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ramie-cancel-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn sockets() {
    everywhere(|| {
        let (mut tcp, _peer) = connection();
        let full = vec![0; 64 << 20];
        ended("TcpStream::read", || tcp.read(&mut [0]));
        ended("TcpStream::read_exact", || tcp.read_exact(&mut [0]));
        ended("TcpStream::peek", || tcp.peek(&mut [0]));
        ended("TcpStream::write_all", || tcp.write_all(&full));
        // Repeatedly, because bytes that the peer's kernel has taken in the meantime leave room for
        // more.
        ended("TcpStream::write", || -> Result<()> {
            loop {
                let _taken = tcp.write(&full)?;
            }
        });
        let (mut unix, _other) = UnixStream::pair().unwrap();
        ended("UnixStream::read", || unix.read(&mut [0]));
        ended("UnixStream::write_all", || unix.write_all(&full));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        ended("UdpSocket::recv_from", || udp.recv_from(&mut [0]));
        ended("UdpSocket::peek_from", || udp.peek_from(&mut [0]));
        refused("UdpSocket::send_to", || udp.send_to(&[0], address));
        udp.connect(address).unwrap();
        ended("UdpSocket::recv", || udp.recv(&mut [0]));
        ended("UdpSocket::peek", || udp.peek(&mut [0]));
        refused("UdpSocket::send", || udp.send(&[0]));
        let (left, _right) = UnixDatagram::pair().unwrap();
        ended("UnixDatagram::recv", || left.recv(&mut [0]));
        ended("UnixDatagram::recv_from", || left.recv_from(&mut [0]));
        ended("UnixDatagram::send", || {
            while left.send(&[0; 1000])? > 0 {}
            Ok(())
        });
    });
}

#[test]
fn listeners_and_connects() {
    everywhere(|| {
        let folder = Folder::new();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        ended("TcpListener::accept", || tcp.accept());
        ended("Incoming::next", || tcp.incoming().next().unwrap());
        refused("TcpStream::connect", || TcpStream::connect(address));
        refused("TcpStream::connect_timeout", || TcpStream::connect_timeout(&address, SHORT * 99));
        refused("to_socket_addrs", || ("localhost", 1).to_socket_addrs());
        let unix = UnixListener::bind(folder.join("socket")).unwrap();
        ended("UnixListener::accept", || unix.accept());
        refused("UnixStream::connect", || UnixStream::connect(folder.join("socket")));
        tcp.set_nonblocking(true).unwrap();
        refused("TcpListener::accept, nonblocking", || tcp.accept());
        tcp.set_nonblocking(false).unwrap();
        // None of the refused connects got through.
        assert!(with_timeout(SHORT, || tcp.accept()).is_err());
        let address = with_timeout(SHORT * 999, || ("localhost", 1).to_socket_addrs());
        assert!(address.unwrap().unwrap().next().is_some());
    });
}

/// A queue that is full keeps a connect waiting.
#[test]
fn a_connect_that_waits() {
    everywhere(|| {
        let folder = Folder::new();
        let path = folder.join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // A second listen(2) shortens the queue.
        sys::listen(&listener, 0).unwrap();
        let address = std::os::unix::net::SocketAddr::from_pathname(&path).unwrap();
        let nobody_waits = || {
            let socket =
                sys::socket(sys::AddressFamily::UNIX, sys::SocketType::STREAM, true).unwrap();
            sys::connect_unix(&socket, &address).map(|()| socket)
        };
        let mut queued = Vec::new();
        let refused = loop {
            match nobody_waits() {
                Ok(connected) => queued.push(connected),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
        ended("UnixStream::connect, waiting", || UnixStream::connect(&path));
    });
}

#[test]
fn pipes() {
    everywhere(|| {
        let full = vec![0; 1 << 20];
        let (mut reader, mut writer) = io::pipe().unwrap();
        ended("PipeReader::read", || reader.read(&mut [0]));
        ended("PipeWriter::write_all", || writer.write_all(&full));
        ended("PipeWriter::write", || writer.write(&full));
        let descriptor = io::Async::from_fd(io::pipe().unwrap().0).unwrap();
        refused("Async::readable", || descriptor.readable());
        refused("Async::with_read", || descriptor.with_read(|_| Ok(())));
        let (quiet, _writer) = io::pipe().unwrap();
        let descriptor = io::Async::from_fd(quiet).unwrap();
        ended("Async::readable", || descriptor.readable());
        ended("Async::with_read", || descriptor.with_read(|mut pipe| pipe.read(&mut [0])));
        let descriptor = io::Async::from_fd(writer).unwrap();
        ended("Async::writable", || descriptor.writable());
        ended("Async::with_write", || descriptor.with_write(|mut pipe| pipe.write(&full)));
    });
}

#[test]
fn files() {
    everywhere(|| {
        let folder = Folder::new();
        let path = folder.join("file");
        let mut file = File::options().read(true).write(true).create(true).open(&path).unwrap();
        file.write_all(&[7; 100]).unwrap();
        file.rewind().unwrap();
        refused("File::open", || File::open(&path));
        refused("File::create", || File::create(folder.join("new")));
        refused("File::read", || file.read(&mut [0]));
        refused("File::read_to_end", || file.read_to_end(&mut Vec::new()));
        refused("File::read_to_string", || file.read_to_string(&mut String::new()));
        refused("File::read_exact", || file.read_exact(&mut [0]));
        refused("File::read_at", || file.read_at(&mut [0], 0));
        refused("File::read_exact_at", || file.read_exact_at(&mut [0], 0));
        refused("File::write", || file.write(&[0]));
        refused("File::write_all", || file.write_all(&[0]));
        refused("File::write_at", || file.write_at(&[0], 0));
        refused("File::write_all_at", || file.write_all_at(&[0], 0));
        refused("File::sync_all", || file.sync_all());
        refused("File::sync_data", || file.sync_data());
        refused("File::set_len", || file.set_len(0));
        refused("File::metadata", || file.metadata());
        refused("fs::read", || fs::read(&path));
        refused("fs::read_to_string", || fs::read_to_string(&path));
        refused("fs::write", || fs::write(&path, "lost"));
        refused("fs::copy", || fs::copy(&path, folder.join("copy")));
        refused("fs::metadata", || fs::metadata(&path));
        refused("fs::symlink_metadata", || fs::symlink_metadata(&path));
        refused("fs::exists", || fs::exists(&path));
        refused("fs::canonicalize", || fs::canonicalize(&path));
        refused("fs::read_link", || fs::read_link(&path));
        refused("fs::rename", || fs::rename(&path, folder.join("other")));
        refused("fs::hard_link", || fs::hard_link(&path, folder.join("link")));
        refused("fs::remove_file", || fs::remove_file(&path));
        refused("fs::create_dir", || fs::create_dir(folder.join("folder")));
        refused("fs::create_dir_all", || fs::create_dir_all(folder.join("folder")));
        refused("fs::remove_dir", || fs::remove_dir(&folder.0));
        refused("fs::remove_dir_all", || fs::remove_dir_all(&folder.0));
        refused("fs::read_dir", || fs::read_dir(&folder.0));
        let mut entries = fs::read_dir(&folder.0).unwrap();
        let entry = entries.next().unwrap().unwrap();
        refused("DirEntry::metadata", || entry.metadata());
        refused("io::copy", || io::copy(&mut file, &mut Vec::new()));
        assert_eq!(std::fs::read(&path).unwrap(), [7; 100], "refused is not done");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), 100, "the position is where it was");
    });
}

#[test]
fn locks_of_files() {
    everywhere(|| {
        let folder = Folder::new();
        let path = folder.join("file");
        let other = std::fs::File::create(&path).unwrap();
        other.lock().unwrap();
        let file = File::open(&path).unwrap();
        ended("File::lock", || file.lock());
        ended("File::lock_shared", || file.lock_shared());
        other.unlock().unwrap();
        file.try_lock().unwrap();
    });
}

/// How many processes this one has started and not waited for.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let lists = tasks.map(|task| of_task(task).unwrap_or_default());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[test]
fn processes() {
    if !common::is_child() {
        return common::assert_success(&common::child("processes"));
    }
    everywhere(|| {
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().unwrap();
        ended("Child::wait", || child.wait());
        let mut stdout = child.stdout.take().unwrap();
        ended("ChildStdout::read", || stdout.read(&mut [0]));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it may be waited for afterwards");
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        ended("ChildStdin::write_all", || stdin.write_all(&[0; 1 << 20]));
        child.kill().unwrap();
        child.wait().unwrap();
        refused("Command::spawn", || Command::new("true").spawn());
        let mut command = Command::new("sleep");
        command.arg("1000");
        ended("Command::status", || command.status());
        ended("Command::output", || command.output());
        ended("Child::wait_with_output", || {
            cancel::shield(|| command.stdout(Stdio::piped()).spawn())?.wait_with_output()
        });
    });
    assert_eq!(children(), 0, "each was waited for");
}

#[test]
fn the_output_of_a_child_before_its_end_is_returned() {
    everywhere(|| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo word; echo written >&2; exec sleep 1000"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut written = [0; 8];
        child.stderr.take().unwrap().read_exact(&mut written).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut said = Vec::new();
        let late = with_timeout(SHORT * 50, || stdout.read_to_end(&mut said)).unwrap_err();
        assert!(is_cancelled(&late.into_value().unwrap_err()));
        assert_eq!(said, b"word\n");
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn signals() {
    everywhere(|| {
        let signals = Signals::new([Signal::WINCH]).unwrap();
        ended("Signals::wait", || signals.wait());
        ended("Signals::wait_timeout", || signals.wait_timeout(Duration::from_secs(1000)));
        ended("ctrl_c", ramie::signal::ctrl_c);
        ended("terminate", ramie::signal::terminate);
    });
}

#[test]
fn standard_input() {
    if !common::is_child() {
        let output = common::child_with(
            "mkfifo $$.fifo && exec <>$$.fifo && rm $$.fifo && cd /",
            "standard_input",
            &[],
        );
        return common::assert_success(&output);
    }
    everywhere(|| {
        ended("Stdin::read", || io::stdin().read(&mut [0]));
        ended("Stdin::read_line", || io::stdin().read_line(&mut String::new()));
    });
}

#[test]
fn standard_output() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            refused("Stderr::write", || io::stderr().write(b"never seen\n"));
            refused("Stdout::flush", || {
                let mut stdout = io::stdout().lock();
                stdout.write_all(b"standard output")?;
                let flushed = stdout.flush();
                cancel::shield(|| stdout.write_all(b" is whole\n")).map(|()| flushed)?
            });
        });
    });
}

#[test]
fn write_all_reports_the_number_of_bytes_sent() {
    everywhere(|| {
        let data: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
        let (mut tcp, mut tcp_peer) = connection();
        let (mut unix, mut unix_peer) = UnixStream::pair().unwrap();
        let (mut pipe_peer, mut pipe) = io::pipe().unwrap();
        let check = |writer: &mut dyn Write, reader: &mut dyn Read| {
            let mut sent = 0;
            // On a busy machine the time may be over before the first byte is sent.
            while sent == 0 {
                let late = with_timeout(SHORT, || writer.write_all(&data)).unwrap_err();
                let error = late.into_value().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                sent = bytes_moved(&error).unwrap();
                assert_eq!(
                    error.to_string(),
                    format!("cancelled: the time limit has expired, after {sent} bytes")
                );
            }
            let mut received = vec![0; sent];
            reader.read_exact(&mut received).unwrap();
            assert!(received == data[..sent]);
            let late = with_timeout(SHORT, || reader.read(&mut [0]));
            assert!(is_cancelled(&late.unwrap_err().into_value().unwrap_err()), "and no more");
        };
        check(&mut tcp, &mut tcp_peer);
        check(&mut unix, &mut unix_peer);
        check(&mut pipe, &mut pipe_peer);
    });
}

#[test]
fn read_exact_reports_the_number_of_bytes_read() {
    everywhere(|| {
        let (mut near, mut far) = connection();
        far.write_all(b"half").unwrap();
        let mut buffer = [0; 8];
        let mut read = 0;
        // On a busy machine the time may be over before the first byte is read.
        while read < 4 {
            let rest = &mut buffer[read..];
            let late = with_timeout(SHORT * 5, || near.read_exact(rest)).unwrap_err();
            read += bytes_moved(&late.into_value().unwrap_err()).unwrap();
        }
        assert_eq!((read, &buffer[..4]), (4, &b"half"[..]));
        far.write_all(b"rest").unwrap();
        near.read_exact(&mut buffer[4..]).unwrap();
        assert_eq!(&buffer, b"halfrest");
        drop(far);
        let error = near.read_exact(&mut buffer).unwrap_err();
        assert_eq!((error.kind(), bytes_moved(&error)), (ErrorKind::UnexpectedEof, None));
    });
}

#[test]
fn copy_loses_nothing() {
    everywhere(|| {
        let data: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
        let (mut writer, mut peer) = connection();
        let mut source = &data[..];
        let late = with_timeout(SHORT, || io::copy(&mut source, &mut writer)).unwrap_err();
        let error = late.into_value().unwrap_err();
        let sent = bytes_moved(&error).unwrap();
        let unsent = unsent_bytes(&error);
        assert_eq!(sent + unsent.len() + source.len(), data.len());
        assert!(unsent == &data[sent..sent + unsent.len()]);
        let mut received = vec![0; sent];
        peer.read_exact(&mut received).unwrap();
        assert!(received == data[..sent]);
        // Within the kernel.
        let (mut from, mut into_from) = io::pipe().unwrap();
        let (mut from_to, mut to) = io::pipe().unwrap();
        into_from.write_all(b"through").unwrap();
        let mut moved = 0;
        while moved < 7 {
            let late = with_timeout(SHORT * 5, || io::copy(&mut from, &mut to)).unwrap_err();
            moved += bytes_moved(&late.into_value().unwrap_err()).unwrap();
        }
        assert_eq!(moved, 7);
        let mut received = [0; 7];
        from_to.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"through");
    });
}

#[test]
fn copy_of_a_file_to_a_socket_counts() {
    everywhere(|| {
        let folder = Folder::new();
        let data: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
        std::fs::write(folder.join("file"), &data).unwrap();
        let mut file = File::open(folder.join("file")).unwrap();
        let (mut writer, mut peer) = connection();
        let late = with_timeout(SHORT * 9, || io::copy(&mut file, &mut writer)).unwrap_err();
        let error = late.into_value().unwrap_err();
        let sent = bytes_moved(&error).unwrap();
        let position = file.stream_position().unwrap() as usize;
        assert_eq!(sent + unsent_bytes(&error).len(), position);
        let mut received = vec![0; sent];
        peer.read_exact(&mut received).unwrap();
        assert!(received == data[..sent]);
    });
}

#[test]
fn a_buf_writer_keeps_the_bytes_that_it_took() {
    everywhere(|| {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut writer = BufWriter::with_capacity(4096, writer);
        let mut taken = 0;
        let late = with_timeout(SHORT * 5, || {
            loop {
                match writer.write_all(&[7; 1000]) {
                    Ok(()) => taken += 1000,
                    Err(error) => break error,
                }
            }
        });
        let error = late.unwrap_err().into_value();
        assert!(is_cancelled(&error));
        taken += bytes_moved(&error).unwrap_or(0);
        let drain = fiber::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        writer.flush().unwrap();
        drop(writer);
        assert_eq!(drain.join().unwrap(), vec![7; taken]);
    });
}

/// A connection that is accepted at the moment of the cancel is either returned or still in the
/// queue.
#[test]
fn no_connection_is_lost() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            for round in 0..60 {
                let connects = fiber::spawn(move || {
                    (0..round % 7).for_each(|_| fiber::yield_now());
                    TcpStream::connect(address).unwrap()
                });
                let accepted = cancel::scope(|scope| {
                    let handle = scope.handle();
                    let cancels = fiber::spawn(move || {
                        (0..round % 5).for_each(|_| fiber::yield_now());
                        handle.cancel()
                    });
                    let accepted = listener.accept();
                    cancels.join().unwrap();
                    accepted
                });
                let client = connects.join().unwrap();
                let (_, peer) = accepted.or_else(|_| listener.accept()).unwrap();
                assert_eq!(peer, client.local_addr().unwrap());
            }
        });
    });
}

/// In a process of its own, where no other test opens descriptors.
#[test]
fn nothing_stays_open() {
    if !common::is_child() {
        return common::assert_success(&common::child("nothing_stays_open"));
    }
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let folder = Arc::new(Folder::new());
            std::fs::write(folder.join("file"), "text").unwrap();
            drop(fs::read(folder.join("file")));
            let before = descriptors();
            for round in 0..100 {
                let limit = Duration::from_micros(round);
                let _ = with_timeout(limit, || File::open(folder.join("file")));
                let _ = with_timeout(limit, || {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    TcpStream::connect(listener.local_addr()?)?;
                    listener.accept()
                });
            }
            wait_until(|| descriptors() == before);
        });
    });
}
