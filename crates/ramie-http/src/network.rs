//! Networks of addresses, such as `10.0.0.0/8`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// All addresses with the same first bits.
///
/// # Examples
/// ```
/// use ramie_http::Network;
///
/// let network: Network = "10.1.0.0/16".parse()?;
/// assert!(network.contains("10.1.2.3".parse()?));
/// assert!(!network.contains("10.2.0.1".parse()?));
/// // One address.
/// assert!("::1".parse::<Network>()?.contains("::1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address of IPv4 is mapped to IPv6.
    bits: u128,
    prefix: u8,
}

/// A text that is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkError(());

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid network: expected an address, or one with a prefix as 10.0.0.0/8")
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    /// The network of all addresses that share the first `prefix` bits with this one. None: an
    /// address has fewer bits.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let (most, mapped) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let bits = mapped_bits(address) & mask(prefix.checked_add(mapped)?);
        (prefix <= most).then(|| Network { bits, prefix: prefix + mapped })
    }

    /// Whether the address is one of the network. An address of IPv4 counts as such also if it is
    /// mapped to IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped_bits(address) & mask(self.prefix) == self.bits
    }
}

fn mapped_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0)
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Network { bits: mapped_bits(address), prefix: 128 }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = NetworkError(());
        let Some((address, prefix)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Network::from).map_err(|_| error);
        };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| is_number).ok_or(error)?;
        Network::new(address.parse().map_err(|_| error)?, prefix).ok_or(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3/8", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("::/0", "1.2.3.4", ""),
            ("2001:db8::/32", "2001:db8:1::", "2001:db9::"),
            ("fe80::1/128", "fe80::1", "fe80::2"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            if let Ok(outside) = outside.parse() {
                assert!(!network.contains(outside), "{network:?} {outside}");
            }
        }
        for text in ["", "10", "10.0.0.0/33", "::/129", "::/+1", "::/", "a/8", "1.2.3.4/255"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
