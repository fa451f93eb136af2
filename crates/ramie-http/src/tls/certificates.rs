//! The certificates of a server, found by the name that a client asks for.

use std::{collections::HashMap, io, sync::Arc};

use rustls::{
    Error, InconsistentKeys,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
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
    let key = private_key(key)?;
    let chain = certificates_of(chain)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            invalid("the key is not that of the first certificate of the chain")
        }
        Error::InvalidCertificate(error) => {
            invalid(format!("the first certificate of the chain cannot be read: {error}"))
        }
        error => invalid(format!("the private key cannot be used: {error}")),
    })
}

fn private_key(pem: &[u8]) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        // Both kinds of PEM that hold a key under a password say so.
        let is_encrypted = pem.windows(b"ENCRYPTED".len()).any(|part| part == b"ENCRYPTED");
        match (error, is_encrypted) {
            (_, true) => invalid("the private key is encrypted: store it without a password"),
            (pem::Error::NoItemsFound, _) => {
                invalid("no private key found: expected PEM with BEGIN PRIVATE KEY")
            }
            (error, _) => invalid(format!("the private key cannot be read: {}", describe(&error))),
        }
    })
}

/// Describes the fault of a PEM text. The errors themselves print names of sections as bytes.
fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let name = String::from_utf8_lossy(end_marker);
            format!("its PEM is cut off before END {name}")
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("its PEM has the bad line {:?}", String::from_utf8_lossy(line))
        }
        error => format!("its PEM is damaged: {error}"),
    }
}

/// All certificates of a PEM text; at least one.
pub(super) fn certificates_of(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("a certificate cannot be read: {}", describe(&error))))?;
    if certificates.is_empty() {
        return Err(invalid("no certificate found: expected PEM with BEGIN CERTIFICATE"));
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
        let error = refused(&chain, &key);
        assert_eq!(error, "the key is not that of the first certificate of the chain");
    }

    fn refused(chain: &str, key: &str) -> String {
        let refused = certified_key(chain.as_bytes(), key.as_bytes(), &provider());
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        error.to_string()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let made = generate_simple_self_signed(["a".into()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let cut = |pem: &str| pem[..pem.len() / 2].to_owned();
        // Still base64, but no certificate any more.
        let damaged = chain.replacen("MII", "AII", 1);
        let cases = [
            (chain.clone(), String::new(), "no private key found: expected PEM"),
            (chain.clone(), cut(&key), "the private key cannot be read: its PEM is cut off"),
            (chain.clone(), key.replace("PRIVATE", "ENCRYPTED PRIVATE"), "without a password"),
            (chain.clone(), "-----BEGIN KEY\n".to_owned(), "its PEM has the bad line"),
            (key.clone(), key.clone(), "no certificate found: expected PEM"),
            ("text".to_owned(), key.clone(), "no certificate found: expected PEM"),
            (cut(&chain), key.clone(), "a certificate cannot be read: its PEM is cut off"),
            (damaged, key, "the first certificate of the chain cannot be read: "),
        ];
        for (chain, key, expected) in cases {
            let error = refused(&chain, &key);
            assert!(error.contains(expected), "{error} instead of {expected}");
        }
    }
}
