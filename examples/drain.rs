//! A TCP echo server that shuts down in order: `drain 127.0.0.1:7000`. On SIGTERM or Ctrl-C it
//! accepts no more connections, and the open ones may continue for five seconds.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use ramie::{
    Runtime, cancel, fiber,
    net::TcpListener,
    signal::{Signal, Signals},
};

const GRACE: Duration = Duration::from_secs(5);

fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn serve(address: &str) -> io::Result<()> {
    let requests_to_end = Signals::new([Signal::TERM, Signal::INT])?;
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    cancel::scope(|accepting| {
        let accepting = accepting.handle();
        fiber::spawn(move || {
            let _ = requests_to_end.wait();
            accepting.cancel();
        });
        // In a cancelled scope the iterator yields one error and ends.
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => drop(fiber::spawn(|| echo(stream))),
                Err(error) if cancel::is_cancelled(&error) => eprintln!("{error}; draining"),
                Err(_) => fiber::sleep(Duration::from_millis(10)),
            }
        }
    });
    Ok(())
}

fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    // `run` waits for the connections that `serve` leaves behind, as long as the grace period.
    let runtime = Runtime::builder()
        .grace(GRACE)
        .on_abandoned(|fibers| eprintln!("cut off {} connections", fibers.count()))
        .build();
    if let Err(error) = runtime.and_then(|runtime| runtime.run(|| serve(&address))) {
        eprintln!("cannot listen on {address}: {error}");
        std::process::exit(1);
    }
}
