//! The header of the PROXY protocol, versions 1 and 2, by which a proxy tells whose connection it
//! forwards; without I/O. The text of the protocol is haproxy's `proxy-protocol.txt`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use crate::proxy_fields::ProxyFields;

/// The most bytes of a header of version 1, its line end included.
const LINE: usize = 107;
/// What a header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The most bytes that may follow the fixed part of a header of version 2. Its addresses need 216,
/// certificates of clients some more.
const MOST_BEHIND: usize = 4 << 10;
/// The addresses of two Unix sockets in it.
const UNIX: usize = 216;

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProxyHeader {
    /// Its bytes.
    pub(super) length: usize,
    /// The address of the client. None: the proxy itself has connected, for example to see whether
    /// the server is alive, or does not know the address.
    pub(super) client: Option<SocketAddr>,
    /// What a header of version 2 has behind the addresses.
    pub(super) fields: ProxyFields,
}

/// The bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoProxyHeader;

impl fmt::Display for NoProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection of a proxy does not begin with a header of the PROXY protocol")
    }
}

impl std::error::Error for NoProxyHeader {}

/// Parses the header in front of `bytes`. None: more bytes must arrive.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    let is_begin_of = |whole: &[u8]| {
        let length = bytes.len().min(whole.len());
        bytes[..length] == whole[..length]
    };
    if is_begin_of(SIGNATURE) {
        parse_binary(bytes)
    } else if is_begin_of(b"PROXY ") {
        parse_line(bytes)
    } else {
        Err(NoProxyHeader)
    }
}

fn parse_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    let line = &bytes[..bytes.len().min(LINE)];
    let Some(end) = line.windows(2).position(|window| window == b"\r\n") else {
        return if bytes.len() < LINE { Ok(None) } else { Err(NoProxyHeader) };
    };
    let line = str::from_utf8(&line[..end]).map_err(|_| NoProxyHeader)?;
    let client = match line.strip_prefix("PROXY ").ok_or(NoProxyHeader)? {
        // Whatever follows has no meaning.
        unknown if unknown == "UNKNOWN" || unknown.starts_with("UNKNOWN ") => None,
        known => Some(client_of(known)?),
    };
    Ok(Some(ProxyHeader { length: end + 2, client, fields: ProxyFields::default() }))
}

/// The client in a text such as `TCP4 192.0.2.1 192.0.2.2 50000 443`.
fn client_of(text: &str) -> Result<SocketAddr, NoProxyHeader> {
    let mut words = text.split(' ');
    let mut word = || words.next().ok_or(NoProxyHeader);
    let (family, client, server) = (word()?, word()?, word()?);
    let (client_port, server_port) = (word()?, word()?);
    let address = |text: &str| -> Result<IpAddr, NoProxyHeader> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| NoProxyHeader),
            "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| NoProxyHeader),
            _ => Err(NoProxyHeader),
        }
    };
    address(server)?;
    port(server_port)?;
    let client = SocketAddr::new(address(client)?, port(client_port)?);
    if words.next().is_some() { Err(NoProxyHeader) } else { Ok(client) }
}

fn port(text: &str) -> Result<u16, NoProxyHeader> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = is_number && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_canonical).ok_or(NoProxyHeader)
}

fn parse_binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    let Some((fixed, behind)) = bytes.split_first_chunk::<16>() else { return Ok(None) };
    let [command, family] = [fixed[12], fixed[13]];
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > MOST_BEHIND || !matches!(command, 0x20 | 0x21) {
        return Err(NoProxyHeader);
    }
    let Some(behind) = behind.get(..length) else { return Ok(None) };
    let (client, fields) = match (command, family) {
        // The proxy speaks for itself, and the server must ignore the addresses.
        (0x20, _) => (None, &[][..]),
        // No address, so all that follows has a meaning for the proxy alone.
        (_, 0x00) => (None, &[][..]),
        // The addresses of Unix sockets.
        (_, 0x31) => (None, behind.get(UNIX..).ok_or(NoProxyHeader)?),
        (_, 0x11) => client_in(behind, |address: [u8; 4]| Ipv4Addr::from(address).into())?,
        (_, 0x21) => client_in(behind, |address: [u8; 16]| Ipv6Addr::from(address).into())?,
        _ => return Err(NoProxyHeader),
    };
    let fields = ProxyFields::parse(fields).ok_or(NoProxyHeader)?;
    Ok(Some(ProxyHeader { length: 16 + length, client, fields }))
}

/// The client in the addresses of both sides, then the ports of both; and what follows them.
fn client_in<const N: usize>(
    bytes: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Result<(Option<SocketAddr>, &[u8]), NoProxyHeader> {
    let (client, rest) = bytes.split_first_chunk::<N>().ok_or(NoProxyHeader)?;
    let (_, rest) = rest.split_first_chunk::<N>().ok_or(NoProxyHeader)?;
    let (ports, rest) = rest.split_first_chunk::<4>().ok_or(NoProxyHeader)?;
    let client = SocketAddr::new(address(*client), u16::from_be_bytes([ports[0], ports[1]]));
    Ok((Some(client), rest))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(command: u8, family: u8, behind: &[u8]) -> Vec<u8> {
        let length = u16::try_from(behind.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, behind].concat()
    }

    const OF_4: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 0xc3, 0x50, 1, 0xbb];

    fn found(bytes: &[u8]) -> Option<SocketAddr> {
        let header = parse(bytes).unwrap().unwrap();
        assert_eq!(header.length, bytes.len());
        // Any part of it, and none of what follows.
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(None), "{end}");
        }
        let more = [bytes, b"\r\nGET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&more), Ok(Some(header.clone())));
        header.client
    }

    #[test]
    fn headers_of_version_1() {
        let client = Some("192.0.2.1:50000".parse().unwrap());
        assert_eq!(found(b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 443\r\n"), client);
        let client = Some("[2001:db8::1]:0".parse().unwrap());
        assert_eq!(found(b"PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n"), client);
        assert_eq!(found(b"PROXY UNKNOWN\r\n"), None);
        let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LINE - 16));
        assert_eq!(found(longest.as_bytes()), None);
    }

    #[test]
    fn malformed_headers_of_version_1() {
        for line in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
            "PROXY TCP4 ::1 ::2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
            "proxy UNKNOWN\r\n",
            "PROXY\tUNKNOWN\r\n",
            "GET / HTTP/1.1\r\n",
            "\r\nGET",
        ] {
            assert_eq!(parse(line.as_bytes()), Err(NoProxyHeader), "{line:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LINE - 15));
        assert_eq!(parse(long.as_bytes()), Err(NoProxyHeader));
        assert_eq!(parse(b"PROXY TCP4 \xff\r\n"), Err(NoProxyHeader));
    }

    #[test]
    fn headers_of_version_2() {
        let client = Some("192.0.2.1:50000".parse().unwrap());
        assert_eq!(found(&binary(0x21, 0x11, OF_4)), client);
        let with_field = binary(0x21, 0x11, &[OF_4, &[4, 0, 1, 7]].concat());
        assert_eq!(found(&with_field), client);
        let fields = parse(&with_field).unwrap().unwrap().fields;
        assert_eq!(fields.iter().collect::<Vec<_>>(), [(4, &[7][..])]);
        let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let of_6 = [&address.octets()[..], &[0; 16], &[0, 80, 0, 81]].concat();
        let client = Some("[2001:db8::1]:80".parse().unwrap());
        assert_eq!(found(&binary(0x21, 0x21, &of_6)), client);
        for (command, family) in [(0x20, 0x11), (0x20, 0x00), (0x21, 0x00)] {
            assert_eq!(found(&binary(command, family, OF_4)), None);
        }
        assert_eq!(found(&binary(0x21, 0x31, &[7; UNIX])), None);
    }

    #[test]
    fn malformed_headers_of_version_2() {
        for bytes in [
            binary(0x21, 0x11, &OF_4[..11]),
            binary(0x21, 0x21, OF_4),
            binary(0x21, 0x31, &[7; UNIX - 1]),
            binary(0x21, 0x31, &[7; UNIX + 1]),
            binary(0x21, 0x11, &[OF_4, &[4]].concat()),
            binary(0x21, 0x11, &[OF_4, &[4, 0, 2, 7]].concat()),
            binary(0x22, 0x11, OF_4),
            binary(0x11, 0x11, OF_4),
            // Datagrams.
            binary(0x21, 0x12, OF_4),
            binary(0x21, 0x41, OF_4),
            binary(0x21, 0x11, &[0; MOST_BEHIND + 1]),
            b"\r\n\r\n\0\r\nQUIT\r".to_vec(),
        ] {
            assert_eq!(parse(&bytes), Err(NoProxyHeader), "{bytes:?}");
        }
    }
}
