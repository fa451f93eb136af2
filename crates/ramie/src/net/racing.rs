//! Connecting to several addresses at once ("happy eyeballs").

use std::{error::Error, fmt, io, iter, time::Duration};

use super::{SocketAddr, TcpStream, ToSocketAddrs, addr::no_address, tcp_stream::connect};
use crate::{
    channel,
    core::{cancel, time::Deadline},
    structured::{self, Failures},
};

/// The time from the start of one attempt until the next starts (RFC 8305, section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

impl TcpStream {
    /// Connects to the address that answers first, without waiting for addresses that do not
    /// answer: "happy eyeballs", as in RFC 8305.
    ///
    /// The attempts begin 250 ms apart, or at once when one has failed; the families of addresses
    /// take turns, beginning with that of the first address. When one attempt has connected, the
    /// others are cancelled or their connections closed. [`connect`](TcpStream::connect), by
    /// contrast, tries one address at a time as std does, each until the kernel gives up, which may
    /// take minutes.
    ///
    /// # Blocking
    /// Parks the strand while a host name is resolved and while the connection is being made.
    ///
    /// # Cancellation
    /// A cancel point; all attempts are cancelled.
    ///
    /// # Errors
    /// All attempts failed. The kind is that of the first failure, and the text names each address
    /// with its error; if there are several, the error's source is a
    /// [`Failures<io::Error>`](crate::structured::Failures). `InvalidInput`: there was no address.
    ///
    /// # Panics
    /// When the process has no memory for one more strand.
    ///
    /// # Examples
    /// ```
    /// use ramie::net::{SocketAddr, TcpListener, TcpStream};
    ///
    /// ramie::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let nobody: SocketAddr = ([127, 0, 0, 1], 1).into();
    ///     let stream = TcpStream::connect_racing(&[nobody, listener.local_addr()?][..])?;
    ///     assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_racing<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        let addresses = taking_turns(addr.to_socket_addrs()?);
        let (failed, failures) = channel::bounded(addresses.len());
        let raced = structured::any(|racers| {
            for (index, &address) in addresses.iter().enumerate() {
                // An attempt is cancelled here because another has connected, or because all have
                // to give up.
                if index > 0
                    && let Err(error) = failures.recv_timeout(ATTEMPT_DELAY)
                    && error.is_cancelled()
                {
                    return;
                }
                let failed = failed.clone();
                racers.spawn_try(move || {
                    connect(&address, Deadline::NEVER).map_err(|error| {
                        // The channel has room for all failures.
                        let _ = failed.try_send(());
                        named(address, error)
                    })
                });
            }
        });
        raced.map_err(|failures| failures.map_or_else(no_address, Failures::into))
    }
}

/// Orders the addresses so that the two families take turns, as long as both have some left.
fn taking_turns(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.peekable();
    let begins_with_v4 = addresses.peek().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.partition(|address| address.is_ipv4() == begins_with_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let pair = iter::from_fn(|| Some([first.next(), second.next()]));
    pair.take_while(|pair| pair.iter().any(Option::is_some)).flatten().flatten().collect()
}

/// The error of an attempt, with its address.
#[derive(Debug)]
struct NotConnected {
    address: SocketAddr,
    error: io::Error,
}

fn named(address: SocketAddr, error: io::Error) -> io::Error {
    match cancel::is_cancelled(&error) {
        true => error,
        false => io::Error::new(error.kind(), NotConnected { address, error }),
    }
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.error)
    }
}

impl Error for NotConnected {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(addresses: &[&str]) -> Vec<String> {
        let parsed = addresses.iter().map(|address| format!("{address}:1").parse().unwrap());
        let ordered = taking_turns(parsed);
        ordered.iter().map(|address| address.to_string().replace(":1", "")).collect()
    }

    #[test]
    fn families_take_turns() {
        let mixed = ["[a::]", "[b::]", "[c::]", "1.0.0.0", "2.0.0.0"];
        assert_eq!(order(&mixed), ["[a::]", "1.0.0.0", "[b::]", "2.0.0.0", "[c::]"]);
        assert_eq!(order(&["1.0.0.0", "[a::]", "[b::]"]), ["1.0.0.0", "[a::]", "[b::]"]);
        assert_eq!(order(&["1.0.0.0", "2.0.0.0"]), ["1.0.0.0", "2.0.0.0"]);
        assert!(order(&[]).is_empty());
    }
}
