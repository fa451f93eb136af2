//! The certificates of a server, found by the name that a client asks for.

use std::{collections::HashMap, io, sync::Arc};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

use super::invalid;

/// Certificates by the names that they are for.
#[derive(Clone, Debug)]
pub(super) struct CertificatesByName {
    first: Arc<CertifiedKey>,
    /// In lower case; `*.example.org` is kept as `.example.org`.
    by_name: HashMap<String, Arc<CertifiedKey>>,
    refuses_unknown: bool,
}

impl CertificatesByName {
    pub(super) fn new(first: CertifiedKey) -> io::Result<Self> {
        let first = Arc::new(first);
        let by_name = HashMap::new();
        let mut all = CertificatesByName { first, by_name, refuses_unknown: false };
        all.add_names(&all.first.clone())?;
        Ok(all)
    }

    /// A name that another certificate has, too, leads to the one that was added first.
    pub(super) fn add(&mut self, key: CertifiedKey) -> io::Result<()> {
        self.add_names(&Arc::new(key))
    }

    pub(super) fn refuse_unknown_names(&mut self) {
        self.refuses_unknown = true;
    }

    fn add_names(&mut self, key: &Arc<CertifiedKey>) -> io::Result<()> {
        let certificate = EndEntityCert::try_from(key.end_entity_cert().map_err(invalid)?);
        for name in certificate.map_err(invalid)?.valid_dns_names() {
            let name = name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase();
            self.by_name.entry(name).or_insert_with(|| Arc::clone(key));
        }
        Ok(())
    }

    /// The certificate for a name in lower case.
    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let with_wildcard = || self.by_name.get(&name[name.find('.')?..]);
        self.by_name.get(name).or_else(with_wildcard)
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls gives the name in lower case.
        let found = client.server_name().and_then(|name| self.find(name));
        found.or(Some(&self.first).filter(|_| !self.refuses_unknown)).cloned()
    }
}

/// A chain with the private key of its first certificate.
pub(super) fn certified_key(
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> io::Result<CertifiedKey> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        let reason = format!("no private key can be read from its PEM: {error}");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })?;
    CertifiedKey::from_der(certificates_of(chain)?, key, provider).map_err(invalid)
}

/// All certificates of a PEM text; at least one.
pub(super) fn certificates_of(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(invalid)?;
    if certificates.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no certificate found: expected PEM with BEGIN CERTIFICATE",
        ));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};

    use super::*;
    use crate::tls::provider;

    fn made(names: &[&str]) -> CertifiedKey {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let Generated { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let (chain, key) = (cert.pem(), signing_key.serialize_pem());
        certified_key(chain.as_bytes(), key.as_bytes(), &provider()).unwrap()
    }

    #[test]
    fn certificates_are_found_by_their_names() {
        let mut all = CertificatesByName::new(made(&["a.test"])).unwrap();
        let other = Arc::new(made(&["b.test", "*.b.test", "A.test", "*.c.b.test"]));
        all.add_names(&other).unwrap();
        let is_other = |name: &str| all.find(name).map(|found| Arc::ptr_eq(found, &other));
        assert_eq!(is_other("a.test"), Some(false), "the first one has the name");
        for name in ["b.test", "x.b.test", "x.c.b.test"] {
            assert_eq!(is_other(name), Some(true), "{name}");
        }
        for name in ["", "test", "x.a.test", "y.x.b.test", "b.test.", "xb.test"] {
            assert_eq!(is_other(name), None, "{name}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let [one, other] = [(); 2].map(|()| generate_simple_self_signed(["a".into()]).unwrap());
        let (chain, key) = (one.cert.pem(), other.signing_key.serialize_pem());
        let refused = certified_key(chain.as_bytes(), key.as_bytes(), &provider());
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let no_key = certified_key(chain.as_bytes(), b"", &provider());
        assert_eq!(no_key.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(certificates_of(b"text").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
