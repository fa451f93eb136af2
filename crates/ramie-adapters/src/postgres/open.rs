//! Opening a connection.

use std::io::{self, Read};

use ramie::{
    cancel::{self, check_cancelled},
    future::block_on_or_cancelled,
    net::TcpStream,
    os::unix::net::UnixStream,
};
use ramie_futures::Socket;
use tokio_postgres::{
    Client, Config, NoTls,
    config::{Host, TargetSessionAttrs},
    tls::{MakeTlsConnect, TlsConnect},
};

use super::{DrivenStream, PostgresError, driver::Driver};

/// Connects to the first host of the configuration that accepts.
pub(super) fn open<T>(config: &Config, mut tls: T) -> Result<(Client, Driver), PostgresError>
where
    T: MakeTlsConnect<DrivenStream<TcpStream>, Stream: Send + 'static>,
{
    if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        return Err(invalid("target_session_attrs is not supported"));
    }
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    let mut result = Err(invalid("the configuration names no host"));
    for index in 0..hosts {
        let mut attempt = || open_host(config, index, &mut tls);
        result = match config.get_connect_timeout() {
            Some(timeout) => cancel::try_with_timeout(*timeout, attempt).map_err(as_timeout),
            None => attempt(),
        };
        if result.is_ok() || check_cancelled().is_err() {
            break;
        }
    }
    result
}

fn open_host<T>(
    config: &Config,
    index: usize,
    tls: &mut T,
) -> Result<(Client, Driver), PostgresError>
where
    T: MakeTlsConnect<DrivenStream<TcpStream>, Stream: Send + 'static>,
{
    let ports = config.get_ports();
    let port = *ports.get(index).or(ports.first()).unwrap_or(&5432);
    let (host, address) = (config.get_hosts().get(index), config.get_hostaddrs().get(index));
    let (name, stream) = match (host, address) {
        (Some(Host::Unix(folder)), None) => {
            let stream = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))?;
            // As in the crate, a Unix socket has no TLS.
            return begin(config, stream, NoTls);
        }
        (Some(Host::Tcp(name)), None) => {
            (name.as_str(), TcpStream::connect((name.as_str(), port))?)
        }
        (Some(Host::Tcp(name)), Some(address)) => {
            (name.as_str(), TcpStream::connect((*address, port))?)
        }
        (_, Some(address)) => ("", TcpStream::connect((*address, port))?),
        (None, None) => return Err(invalid("the configuration has fewer hosts than addresses")),
    };
    stream.set_nodelay(true)?;
    let tls = tls.make_tls_connect(name).map_err(|error| io::Error::other(error.into()))?;
    begin(config, stream, tls)
}

/// Signs in.
fn begin<S, T>(config: &Config, stream: S, tls: T) -> Result<(Client, Driver), PostgresError>
where
    S: Socket,
    for<'a> &'a S: Read,
    T: TlsConnect<DrivenStream<S>, Stream: Send + 'static>,
{
    let (stream, link) = DrivenStream::new(stream);
    let (client, connection) = block_on_or_cancelled(config.connect_raw(stream, tls))??;
    Ok((client, Driver::new(Box::pin(connection), link)))
}

/// Reports an expired `connect_timeout` as an I/O error, because the strand is not cancelled.
fn as_timeout(error: PostgresError) -> PostgresError {
    match error {
        PostgresError::Cancelled(_) if check_cancelled().is_ok() => {
            let why = "the server did not answer within connect_timeout";
            PostgresError::Io(io::Error::new(io::ErrorKind::TimedOut, why))
        }
        error => error,
    }
}

fn invalid(why: &'static str) -> PostgresError {
    PostgresError::Io(io::Error::new(io::ErrorKind::InvalidInput, why))
}
