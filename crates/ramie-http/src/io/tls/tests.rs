//! A stream of TLS over a pair of sockets.

use std::io::{Read as _, Write as _};

use ramie::{fiber, os::unix::net::UnixStream};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

use super::*;

/// A stream of TLS behind its handshake, whose kernel buffers are small, and the client's side.
fn pair() -> (TlsStream, StreamOwned<ClientConnection, UnixStream>) {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let server = server.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider);
    let client = builder.with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();

    let (own, other) = UnixStream::pair().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&own, 4096).unwrap();
    let stream = TlsStream::new(Socket::Unix(own), Arc::new(server)).unwrap();
    let session = ClientConnection::new(Arc::new(client), "a.test".try_into().unwrap()).unwrap();
    let mut client = StreamOwned::new(session, other);
    fiber::scope(|fibers| {
        fibers.spawn_local(|| {
            let mut receiver = Receiver::of_socket(stream.socket());
            stream.shake_hands(&mut receiver, Input::default()).unwrap();
        });
        while client.conn.is_handshaking() {
            client.conn.complete_io(&mut client.sock).unwrap();
        }
    });
    (stream, client)
}

/// A client that takes a few bytes now and then makes progress, though a piece is larger.
#[test]
fn each_write_of_the_kernel_is_progress() {
    ramie::run(|| {
        let (stream, mut client) = pair();
        let body = vec![7; 2 * LARGE];
        let progressed = fiber::scope(|fibers| {
            let reading = fibers.spawn_local(|| {
                let mut read = vec![0; 2 * LARGE];
                client.read_exact(&mut read).unwrap();
                read
            });
            let mut progressed = 0;
            stream.write_all(&[&body], &mut || progressed += 1).unwrap();
            assert_eq!(reading.join().unwrap(), body);
            progressed
        });
        // One write for all that the small buffer of the kernel takes.
        assert!(progressed > 8, "{progressed}");
    });
}

/// Each fragment of a record is a receive of its own.
#[test]
fn a_read_timeout_counts_for_the_whole_read() {
    ramie::run(|| {
        let (stream, mut client) = pair();
        client.conn.writer().write_all(&[7; 1000]).unwrap();
        let mut record = Vec::new();
        client.conn.write_tls(&mut record).unwrap();
        let pause = Duration::from_millis(20);
        stream.set_read_timeout(Some(pause * 5)).unwrap();
        fiber::scope(|fibers| {
            let reading = fibers.spawn_local(|| stream.read(&mut [0; 2000]));
            let mut sent = 0;
            for byte in &record {
                if reading.is_finished() {
                    break;
                }
                client.sock.write_all(&[*byte]).unwrap();
                sent += 1;
                fiber::sleep(pause);
            }
            let read = reading.join().unwrap();
            let kind = read.unwrap_err().kind();
            assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind}");
            assert!(sent < record.len(), "{sent}");
        });
        stream.set_read_timeout(None).unwrap();
    });
}

/// Tickets and response are one write, and a client that sends no request gets no tickets.
#[test]
fn session_tickets_go_in_front_of_the_first_write() {
    ramie::run(|| {
        let (stream, mut client) = pair();
        assert_eq!(bytes_to_read(&client.sock), 0);
        assert_eq!(client.conn.tls13_tickets_received(), 0);

        stream.write_all(&[b"response"], &mut || {}).unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(client.conn.tls13_tickets_received(), 2);
    });
}

/// A client that ends its side without a request may come back, too.
#[test]
fn session_tickets_go_in_front_of_the_goodbye() {
    ramie::run(|| {
        let (stream, mut client) = pair();
        stream.say_goodbye().unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(client.conn.tls13_tickets_received(), 2);
    });
}

fn bytes_to_read(socket: &UnixStream) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap()
}
