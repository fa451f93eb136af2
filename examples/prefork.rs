//! A server of two processes, for `nc`: it answers each line with the name of its process, and
//! the line `crash` ends that process.
//! Kill one of its processes, or send it SIGHUP: no connection is refused, and none is lost.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process,
    time::Duration,
};

use ramie::{
    cancel, fiber,
    net::{TcpListener, TcpStream},
    prefork::{Builder, Listener, Member, Report},
    signal::{Signal, Signals},
};

fn answer(mut stream: TcpStream, name: &str) -> io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        match line?.as_str() {
            "crash" => process::abort(),
            line => stream.write_all(format!("{line}, says process {name}\n").as_bytes())?,
        }
    }
    Ok(())
}

fn serve(listener: &TcpListener, member: &Member) -> io::Result<()> {
    let requests_to_end = Signals::new([Signal::TERM])?;
    cancel::scope(|accepting| {
        let accepting = accepting.handle();
        fiber::spawn(move || {
            let _ = requests_to_end.wait();
            accepting.cancel();
        });
        member.ready();
        loop {
            let name = format!("{}.{}", member.index(), member.life());
            match listener.accept() {
                Ok((stream, _)) => drop(fiber::spawn(move || answer(stream, &name))),
                // Accepted connections are still answered, because `run` waits for their fibers.
                Err(error) if cancel::is_cancelled(&error) => return Ok(()),
                Err(error) => {
                    eprintln!("cannot accept: {error}");
                    fiber::sleep(Duration::from_millis(100));
                }
            }
        }
    })
}

fn main() -> io::Result<Report> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7002".to_owned());
    let listener = Listener::bind(&address).unwrap_or_else(|error| {
        eprintln!("cannot listen on {address}: {error}; usage: prefork [<host>:<port>]");
        process::exit(1);
    });
    println!("listening on {}", listener.local_addr()?);
    let processes = Builder::new(2).on_end(|end| eprintln!("{end}"));
    processes.run(|member| ramie::run(|| serve(&listener.open()?, member)))
}
