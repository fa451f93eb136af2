//! Runs `examples/echo.rs` as a program and talks to it with std.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `cargo test` builds the examples beside its test programs; `cargo test --test` does not.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let profile = test.ancestors().nth(2).expect("target/profile/deps/test");
    let example = profile.join("examples").join("echo");
    if !example.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "ramie", "--example", "echo"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the example builds");
    }
    example
}

#[test]
fn the_example_echoes_many_connections_on_both_drivers() {
    for driver in ["uring", "poll"] {
        let mut command = Command::new(example());
        command.arg("127.0.0.1:0").env("RAMIE_DRIVER", driver).stdout(Stdio::piped());
        let mut server = KillOnDrop(command.spawn().expect("the example is built"));
        let mut line = String::new();
        let stdout = server.0.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        let address = line.trim().strip_prefix("listening on ").expect("the address");
        let mut streams: Vec<_> =
            (0..50).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        for (n, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[n as u8; 64]).expect("it reads");
        }
        for (n, stream) in streams.iter_mut().enumerate() {
            let mut back = [0; 64];
            stream.read_exact(&mut back).expect("it writes");
            assert_eq!(back, [n as u8; 64]);
            stream.shutdown(Shutdown::Write).expect("it is connected");
            assert_eq!(stream.read(&mut back).expect("an orderly end"), 0);
        }
    }
}
