//! What a connection keeps while it waits for its next request.

use std::collections::HashSet;

use ramie::inspect::{self, WaitTarget};

use super::*;

const CONNECTIONS: usize = 20;

/// Has requests answered, and keeps the connection. Two, because the first may arrive with the end
/// of the handshake, which is decrypted elsewhere.
fn ask_and_stay(stream: &mut (impl Read + Write)) {
    for _ in 0..2 {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\nhello") {
            let mut piece = [0; 1000];
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0);
            response.extend_from_slice(&piece[..length]);
        }
    }
}

/// How much stack the fibers of a server have used that wait for these clients: the median, in
/// bytes. Clients of other servers may have the same addresses.
fn stack_of_connections(server: SocketAddr, clients: &[SocketAddr]) -> usize {
    let peers: HashSet<_> = clients.iter().map(ToString::to_string).collect();
    let server = server.to_string();
    let mut dump = inspect::dump();
    dump.name_descriptors();
    let waits_for_client = |target: &WaitTarget| match target {
        WaitTarget::Descriptor { name: Some(name), .. } => {
            let mut words = name.rsplit(' ');
            words.next().is_some_and(|peer| peers.contains(peer)) && words.any(|own| own == server)
        }
        _ => false,
    };
    let mut strands = dump.strands;
    strands
        .retain(|strand| strand.wait.as_ref().is_some_and(|wait| waits_for_client(&wait.target)));
    let mut used: Vec<_> =
        strands.iter().filter_map(|fiber| Some(fiber.stack.as_ref()?.high_water_mark())).collect();
    assert_eq!(used.len(), clients.len(), "{used:?}");
    used.sort_unstable();
    used[used.len() / 2]
}

/// Opens one connection after another, so that each could get the stack of an earlier handshake.
fn stack_beside<S: Read + Write>(
    server: SocketAddr,
    open: impl Fn() -> S,
    address_of: impl Fn(&S) -> SocketAddr,
) -> usize {
    let clients: Vec<_> = std::iter::repeat_with(|| {
        let mut client = open();
        ask_and_stay(&mut client);
        client
    })
    .take(CONNECTIONS)
    .collect();
    stack_of_connections(server, &clients.iter().map(address_of).collect::<Vec<_>>())
}

#[test]
fn a_connection_keeps_no_stack_of_a_handshake() {
    let authority = Authority::new("authority");
    let tls = Tls::new(config(&authority.server(&["a.test"]))).unwrap();
    let client_config = client_config(authority.roots(), None);
    let [mut plain, mut encrypted] = [0; 2];
    with_server(None, Limits::default(), |address| {
        let open = || TcpStream::connect(address).unwrap();
        plain = stack_beside(address, open, |client| client.local_addr().unwrap());
    });
    with_server(Some(&tls), Limits::default(), |address| {
        let open = || connect(address, &client_config, "a.test");
        encrypted = stack_beside(address, open, |client| client.sock.local_addr().unwrap());
    });
    // In a debug build decryption adds about 4,200 bytes, and a handshake 32,600.
    assert!(encrypted <= plain + 8192, "{encrypted} bytes with TLS, {plain} without");
}
