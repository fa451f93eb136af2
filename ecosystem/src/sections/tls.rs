//! TLS over Ramie's streams.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use ramie::net::TcpStream;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, ServerName},
};

use super::support::{beside_server, echo};
use crate::harness::{Kind, Section, Tried};

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Tls,
        against: "itself, native-tls",
        note: "`StreamOwned` and `Stream` take a `TcpStream` of Ramie.",
        ..Section::new("rustls", "tls.rs", rustls)
    },
    Section {
        kind: Kind::Tls,
        against: "rustls, itself",
        note: "`TlsConnector::connect` and `TlsAcceptor::accept` take Ramie's stream. On Linux it \
               uses OpenSSL. Make one connector, in `ramie::blocking`, because that reads all \
               certificates of the system, which takes about 30 ms.",
        ..Section::new("native-tls", "tls.rs", native_tls)
    },
];

/// A certificate for `localhost`, and its key.
static MADE: LazyLock<rcgen::CertifiedKey<rcgen::KeyPair>> = LazyLock::new(|| {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
});

pub(super) fn client_config() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(MADE.cert.der().clone()).expect("a valid certificate");
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// Opens a connection on which each piece leaves at once.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The certificate of [`accept`].
pub(super) fn certificate() -> Vec<u8> {
    MADE.cert.der().to_vec()
}

/// Begins TLS on a connection of a server.
pub(super) fn accept(stream: TcpStream) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
    let key =
        PrivateKeyDer::try_from(MADE.signing_key.serialize_der()).map_err(io::Error::other)?;
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![MADE.cert.der().clone()], key);
    let config = Arc::new(config.map_err(io::Error::other)?);
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

fn rustls_serves(stream: TcpStream) -> io::Result<()> {
    echo(accept(stream)?)
}

fn rustls_asks(address: SocketAddr) -> Tried {
    let name = ServerName::try_from("localhost")?;
    let connection = ClientConnection::new(client_config(), name)?;
    let mut stream = StreamOwned::new(connection, connect(address)?);
    exchange(&mut stream)?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}

fn native_tls_serves(stream: TcpStream) -> io::Result<()> {
    let (chain, key) = (MADE.cert.pem(), MADE.signing_key.serialize_pem());
    let identity = native_tls::Identity::from_pkcs8(chain.as_bytes(), key.as_bytes());
    let acceptor = native_tls::TlsAcceptor::new(identity.map_err(io::Error::other)?);
    let accepted = acceptor.map_err(io::Error::other)?.accept(stream);
    echo(accepted.map_err(|error| io::Error::other(error.to_string()))?)
}

fn native_tls_asks(address: SocketAddr) -> Tried {
    let root = native_tls::Certificate::from_der(MADE.cert.der())?;
    let mut builder = native_tls::TlsConnector::builder();
    let connector = ramie::blocking(|| builder.add_root_certificate(root).build())?;
    let stream = connect(address)?;
    let mut stream = connector.connect("localhost", stream).map_err(|error| error.to_string())?;
    exchange(&mut stream)?;
    Ok(stream.shutdown()?)
}

/// A megabyte there and back, in pieces.
fn exchange(stream: &mut (impl Read + Write)) -> Tried {
    let piece: Vec<u8> = (0..64 << 10).map(|at| (at % 251) as u8).collect();
    let mut back = vec![0; piece.len()];
    for _ in 0..16 {
        stream.write_all(&piece)?;
        stream.flush()?;
        stream.read_exact(&mut back)?;
        assert_eq!(back, piece);
    }
    Ok(())
}

fn rustls() -> Tried {
    ramie::blocking(|| LazyLock::force(&MADE));
    beside_server(rustls_serves, |address| {
        rustls_asks(address)?;
        native_tls_asks(address)
    })
}

fn native_tls() -> Tried {
    ramie::blocking(|| LazyLock::force(&MADE));
    beside_server(native_tls_serves, |address| {
        native_tls_asks(address)?;
        rustls_asks(address)
    })
}
