//! The target of fuzzing: headers of the PROXY protocol.

use std::net::IpAddr;

use super::{LINE, MOST_BEHIND, NoProxyHeader, parse};
use crate::fuzz::{Random, targets};

fn check_header(input: &[u8], random: &mut Random) {
    let behind = [input, b"GET / HTTP/1.1\r\n\r\n"].concat();
    match parse(input) {
        Ok(Some(header)) => {
            assert!(header.length <= input.len());
            let own = &input[..header.length];
            assert_eq!(parse(own), Ok(Some(header.clone())));
            assert_eq!(parse(&behind), Ok(Some(header.clone())), "what follows is no part of it");
            assert_eq!(parse(&own[..random.below(own.len())]), Ok(None), "a part was enough");
            if let Ok(line) = str::from_utf8(own)
                && line.starts_with("PROXY TCP")
            {
                let address: IpAddr = line.split(' ').nth(2).unwrap().parse().unwrap();
                assert_eq!(header.client.map(|client| client.ip()), Some(address));
            }
            for (kind, value) in header.fields.iter() {
                assert!(header.fields.get(kind).is_some() && value.len() < own.len());
            }
        }
        Ok(None) => assert!(input.len() < LINE.max(16 + MOST_BEHIND), "it never ends"),
        Err(NoProxyHeader) => assert_eq!(parse(&behind), Err(NoProxyHeader)),
    }
}

targets! {
    "proxy" check_header any_header_of_a_proxy_has_one_reading any_header_of_a_proxy_for_long,
}
