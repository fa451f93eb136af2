//! Looking names up.

use ramie::net::ToSocketAddrs;
use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

use super::within;

/// Looks names up without blocking the worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct RamieResolver;

impl Resolver for RamieResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let name = uri.scheme().zip(uri.authority());
        let name = name.and_then(|(scheme, at)| DefaultResolver::host_and_port(scheme, at));
        let name = name.ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let found = within(timeout, || name.as_str().to_socket_addrs())?;
        let mut addresses = self.empty();
        // There is room for 16.
        let wanted = config.ip_family();
        wanted.keep_wanted(found).take(16).for_each(|address| addresses.push(address));
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}
