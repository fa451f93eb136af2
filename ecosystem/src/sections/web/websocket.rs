//! tungstenite over Ramie's streams.

use std::io;

use ramie::net::TcpStream;
use tungstenite::{Error, Message, accept, client};

use crate::{
    harness::{Kind, Section, Tried, stack},
    sections::support::beside_server,
};

pub(super) const SECTION: Section = Section {
    kind: Kind::Web,
    against: "itself",
    note: "`accept` and `client` take Ramie's stream. `connect` opens a socket of std, so connect \
           a stream of Ramie and pass it to `client`. For servers, `ramie_http::websocket` has \
           WebSockets built in.",
    ..Section::new("tungstenite", "web/websocket.rs", tungstenite)
};

fn serve(stream: TcpStream) -> io::Result<()> {
    let mut socket = accept(stream).map_err(|error| io::Error::other(error.to_string()))?;
    loop {
        match socket.read() {
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => {
                socket.send(message).map_err(io::Error::other)?;
            }
            Ok(_) => {}
            Err(Error::ConnectionClosed) => {
                stack::note();
                return Ok(());
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

fn tungstenite() -> Tried {
    beside_server(serve, |address| {
        let stream = TcpStream::connect(address)?;
        let (mut socket, _) = client(format!("ws://{address}/"), stream)?;
        for size in [0, 1, 125, 126, 65_536, 1_000_000] {
            let message = Message::binary(vec![7; size]);
            socket.send(message.clone())?;
            assert!(socket.read()? == message);
        }
        socket.send(Message::text("häßlich"))?;
        assert_eq!(socket.read()?, Message::text("häßlich"));
        socket.close(None)?;
        while socket.read().is_ok() {}
        Ok(())
    })
}
