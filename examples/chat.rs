//! A chat server for `nc`: the first line of a connection is a name, each further line goes to all.
//! Each connection has two fibers: one reads, one writes the lines that arrive through a channel. A
//! guest that reads too slowly misses lines, and delays nobody.

use std::{
    collections::HashMap,
    env,
    io::{self, BufRead, BufReader, Write},
    net::SocketAddr,
    process,
    sync::Arc,
    time::Duration,
};

use ramie::{
    channel::{self, Sender},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    thread,
};

/// The lines that may wait for one reader.
const BACKLOG: usize = 64;

#[derive(Default)]
struct Room(Mutex<HashMap<SocketAddr, Sender<Arc<str>>>>);

impl Room {
    fn tell(&self, line: String) {
        let line: Arc<str> = line.into();
        for guest in self.0.lock().unwrap().values() {
            let _ = guest.try_send(Arc::clone(&line));
        }
    }
}

fn talk(room: &Room, mut stream: TcpStream, address: SocketAddr) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let Some(name) = lines.next().transpose()? else { return Ok(()) };
    let (sender, inbox) = channel::bounded::<Arc<str>>(BACKLOG);
    room.0.lock().unwrap().insert(address, sender);
    thread::spawn(move || inbox.iter().try_for_each(|line| writeln!(stream, "{line}")));
    room.tell(format!("{name} is here"));
    for line in lines.map_while(Result::ok) {
        room.tell(format!("{name}: {line}"));
    }
    // The writer ends when its sender is dropped.
    room.0.lock().unwrap().remove(&address);
    room.tell(format!("{name} has left"));
    Ok(())
}

#[ramie::main]
fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let listener = TcpListener::bind(&address).unwrap_or_else(|error| {
        eprintln!("cannot listen on {address}: {error}; usage: chat [<host>:<port>]");
        process::exit(1);
    });
    println!("listening on {}", listener.local_addr()?);
    let room = Arc::new(Room::default());
    loop {
        match listener.accept() {
            Ok((stream, address)) => {
                let room = Arc::clone(&room);
                thread::spawn(move || talk(&room, stream, address));
            }
            // Perhaps no descriptor is left; wait until some guests have left.
            Err(error) => {
                eprintln!("cannot accept: {error}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
