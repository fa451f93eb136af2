//! HTTPS: certificates and the other settings of TLS, and what a handler learns of them.
//!
//! The protocol itself is that of rustls; the bytes go through `io/tls.rs`.

mod certificates;
mod info;

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};

use self::certificates::{CertificatesByName, certificates_of, certified_key};
pub use self::info::TlsInfo;

/// The protocols that a server speaks over TLS (ALPN), the preferred one first.
const PROTOCOLS: &[&[u8]] = &[
    #[cfg(feature = "http2")]
    b"h2",
    b"http/1.1",
];

/// Certificates and other settings of TLS.
///
/// TLS 1.2 and 1.3 are spoken. Clients may resume their sessions by tickets, whose key lives as
/// long as the settings do and is never stored. Data before the end of the handshake (0-RTT) is
/// refused, because an attacker could repeat it.
///
/// # Examples
/// ```no_run
/// use ramie_http::{ClientCertificates, Router, Server, Tls, TlsConfig, get};
///
/// # fn main() -> std::io::Result<()> {
/// ramie::run(|| {
///     let config = TlsConfig::from_files("example.org.pem", "example.org.key")?
///         .certificate(&std::fs::read("example.net.pem")?, &std::fs::read("example.net.key")?)?
///         .client_certificates(&std::fs::read("clients.pem")?, ClientCertificates::Optional)?;
///     let tls = Tls::new(config)?;
///     let router = Router::new().route("/", get(|| "Hello, world!\n"));
///     Server::bind("127.0.0.1:8443")?.tls(&tls).serve(router)
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct TlsConfig {
    certificates: CertificatesByName,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a valid one is refused.
    Required,
    /// A client may have none. One with an invalid certificate is refused.
    Optional,
}

impl TlsConfig {
    /// Settings with one certificate: the chain, the server's own certificate first, and its
    /// private key, both as PEM. It is also shown to clients that ask for a name that no
    /// certificate has, or for none.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the chain or the key cannot be read or used, or if they do
    /// not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> io::Result<Self> {
        let key = certified_key(chain, key, &provider())?;
        Ok(TlsConfig { certificates: CertificatesByName::new(key)?, clients: None })
    }

    /// As [`from_pem`](Self::from_pem), from files.
    ///
    /// # Blocking
    /// Parks the fiber while the files are read.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem), and those of reading the files. All of them name the paths.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> io::Result<Self> {
        let read = |path: &Path| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            ramie::fs::read(path).map_err(named)
        };
        let (chain, key) = (chain.as_ref(), key.as_ref());
        TlsConfig::from_pem(&read(chain)?, &read(key)?).map_err(|error| {
            let paths = format!("{} with {}", chain.display(), key.display());
            io::Error::new(error.kind(), format!("{paths}: {error}"))
        })
    }

    /// Adds a certificate, for clients that ask for one of its names (SNI). A name `*.example.org`
    /// stands for all names with one more label.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem).
    pub fn certificate(mut self, chain: &[u8], key: &[u8]) -> io::Result<Self> {
        self.certificates.add(certified_key(chain, key, &provider())?)?;
        Ok(self)
    }

    /// Refuses clients that ask for a name that no certificate has, or for none, instead of showing
    /// them the first certificate.
    #[must_use]
    pub fn refuse_unknown_names(mut self) -> Self {
        self.certificates.refuse_unknown_names();
        self
    }

    /// Asks clients for certificates that one of `authorities` (as PEM) has issued. Handlers see
    /// them by [`TlsInfo::client_certificates`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the authorities cannot be read.
    pub fn client_certificates(
        mut self,
        authorities: &[u8],
        need: ClientCertificates,
    ) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of(authorities)? {
            roots.add(certificate).map_err(invalid)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let verifier = match need {
            ClientCertificates::Required => verifier,
            ClientCertificates::Optional => verifier.allow_unauthenticated(),
        };
        self.clients = Some(verifier.build().map_err(invalid)?);
        Ok(self)
    }

    fn build(self) -> io::Result<Arc<ServerConfig>> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let config = match self.clients {
            Some(verifier) => config.with_client_cert_verifier(verifier),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::new(self.certificates));
        config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
        // Tickets need no memory of the server. Their key is new in each configuration, so that a
        // session is never resumed under settings that might refuse its client.
        config.ticketer = ring::Ticketer::new().map_err(invalid)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("certificates", &self.certificates)
            .field("asks_clients", &self.clients.is_some())
            .finish()
    }
}

/// The settings of TLS that a server uses. They can be replaced while it runs, on any thread, for
/// example when a certificate was renewed.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// Settings for [`Server::tls`](crate::Server::tls).
    ///
    /// # Errors
    /// If there is no randomness for the key of tickets.
    pub fn new(config: TlsConfig) -> io::Result<Self> {
        Ok(Tls(Arc::new(RwLock::new(config.build()?))))
    }

    /// Uses other settings for all connections from now on. Connections that exist keep theirs;
    /// sessions of before are not resumed.
    ///
    /// # Errors
    /// As [`new`](Self::new); the old settings then stay.
    pub fn replace(&self, config: TlsConfig) -> io::Result<()> {
        let config = config.build()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
