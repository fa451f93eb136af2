//! The certificate, and the settings of both sides.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::NoServerSessionStorage,
};

use crate::folder::Folder;

/// The files of the certificate and its key, which every server reads.
const CHAIN: &str = "chain.pem";
const KEY: &str = "key.pem";

/// A certificate in a folder of its own, and the settings of the clients.
pub struct Settings {
    folder: Folder,
    pub client: Arc<ClientConfig>,
}

impl Settings {
    pub fn create() -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let made = made.map_err(|error| format!("no certificate: {error}"))?;
        let folder = Folder::create().map_err(|error| format!("no folder for files: {error}"))?;
        let write = |name, text| {
            let path = folder.path().join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(CHAIN, made.cert.pem())?;
        write(KEY, made.signing_key.serialize_pem())?;
        Ok(Settings { folder, client: client()? })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The chain and the key in a folder, as PEM.
pub fn read(folder: &Path) -> Result<[Vec<u8>; 2], String> {
    let read = |name| {
        let path = folder.join(name);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok([read(CHAIN)?, read(KEY)?])
}

/// The settings of rustls that `ramie-http` makes, but for ALPN, which the clients do not ask for.
pub fn server(folder: &Path) -> Result<Arc<ServerConfig>, String> {
    let [chain, key] = read(folder)?;
    let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("{CHAIN}: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("{KEY}: {error}"))?;
    let build = || {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = config.with_single_cert(chain, key)?;
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok::<_, Error>(Arc::new(config))
    };
    build().map_err(|error| format!("the settings of TLS: {error}"))
}

/// Full handshakes only, whose certificates are not verified, because that would slow down the load
/// and not the server.
fn client() -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("the settings of TLS: {error}"))?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny));
    let mut config = config.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The name of the server, which nobody verifies.
pub fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name of the DNS")
}

#[derive(Debug)]
struct AcceptAny;

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
