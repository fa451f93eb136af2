//! One encoder for all codings.

use std::io::{self, Write};

use crate::coding::Coding;

/// Whether the coding is in this build.
pub(super) fn is_built(coding: Coding) -> bool {
    match coding {
        Coding::Brotli => cfg!(feature = "brotli"),
        Coding::Zstd => cfg!(feature = "zstd"),
        Coding::Gzip => cfg!(feature = "gzip"),
    }
}

/// Costs about as much time as the default of gzip.
#[cfg(feature = "brotli")]
const BROTLI_QUALITY: u32 = 4;
/// 4 MiB: less than the most that clients must have.
#[cfg(feature = "brotli")]
const BROTLI_WINDOW_LOG: u32 = 22;

/// Encodes the bytes that are written to it, into `W`. If it is dropped before
/// [`finish`](Self::finish), the coded bytes have no end, so that the client notices.
pub(super) struct Encoder<W: Write>(Option<Kind<W>>);

enum Kind<W: Write> {
    // Boxed, because its state is large.
    #[cfg(feature = "brotli")]
    Brotli(Box<brotli::CompressorWriter<Outlet<W>>>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::stream::write::Encoder<'static, Outlet<W>>),
    #[cfg(feature = "gzip")]
    Gzip(flate2::write::GzEncoder<Outlet<W>>),
}

/// Between an encoder and its writer, because the encoders of some crates write an end when they
/// are dropped.
struct Outlet<W> {
    out: W,
    is_closed: bool,
}

/// Calls the same method of each.
macro_rules! each {
    ($kind:expr, $inner:ident => $call:expr) => {
        match $kind {
            #[cfg(feature = "brotli")]
            Kind::Brotli($inner) => $call,
            #[cfg(feature = "zstd")]
            Kind::Zstd($inner) => $call,
            #[cfg(feature = "gzip")]
            Kind::Gzip($inner) => $call,
        }
    };
}

impl<W: Write> Encoder<W> {
    /// # Errors
    /// The coding is not in this build, or there is no memory.
    pub(super) fn new(coding: Coding, out: W) -> io::Result<Self> {
        let out = Outlet { out, is_closed: false };
        let kind = match coding {
            #[cfg(feature = "brotli")]
            Coding::Brotli => {
                let (quality, window) = (BROTLI_QUALITY, BROTLI_WINDOW_LOG);
                let encoder = brotli::CompressorWriter::new(out, 4 << 10, quality, window);
                Kind::Brotli(Box::new(encoder))
            }
            #[cfg(feature = "zstd")]
            Coding::Zstd => Kind::Zstd(zstd::stream::write::Encoder::new(out, 0)?),
            #[cfg(feature = "gzip")]
            Coding::Gzip => {
                let level = flate2::Compression::default();
                Kind::Gzip(flate2::write::GzEncoder::new(out, level))
            }
            #[allow(unreachable_patterns)]
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Encoder(Some(kind)))
    }

    fn kind(&mut self) -> &mut Kind<W> {
        self.0.as_mut().expect("only `finish` takes it")
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        each!(self.kind(), inner => &mut inner.get_mut().out)
    }

    /// Writes the end of the coded bytes.
    pub(super) fn finish(mut self) -> io::Result<W> {
        // `into_inner` of brotli does not return the errors of writes.
        self.flush_brotli()?;
        let kind = self.0.take().expect("only `finish` takes it");
        let outlet = match kind {
            #[cfg(feature = "brotli")]
            Kind::Brotli(inner) => inner.into_inner(),
            #[cfg(feature = "zstd")]
            Kind::Zstd(inner) => inner.finish()?,
            #[cfg(feature = "gzip")]
            Kind::Gzip(inner) => inner.finish()?,
        };
        Ok(outlet.out)
    }

    fn flush_brotli(&mut self) -> io::Result<()> {
        match self.kind() {
            #[cfg(feature = "brotli")]
            Kind::Brotli(inner) => inner.flush(),
            #[allow(unreachable_patterns)]
            _ => Ok(()),
        }
    }
}

impl<W: Write> Drop for Encoder<W> {
    fn drop(&mut self) {
        if let Some(kind) = &mut self.0 {
            each!(kind, inner => inner.get_mut().is_closed = true);
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(self.kind(), inner => inner.write(bytes))
    }

    /// All bytes that were written can then be decoded.
    fn flush(&mut self) -> io::Result<()> {
        each!(self.kind(), inner => inner.flush())
    }
}

impl<W: Write> Write for Outlet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed { Ok(bytes.len()) } else { self.out.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed { Ok(()) } else { self.out.flush() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_that_is_dropped_writes_no_end() {
        for coding in Coding::ALL.into_iter().filter(|coding| is_built(*coding)) {
            let mut flushed = Vec::new();
            let mut encoder = Encoder::new(coding, &mut flushed).unwrap();
            encoder.write_all(b"hello").unwrap();
            encoder.flush().unwrap();
            let length = encoder.get_mut().len();
            drop(encoder);
            assert_eq!(flushed.len(), length, "{coding:?}");

            let mut encoder = Encoder::new(coding, Vec::new()).unwrap();
            encoder.write_all(b"hello").unwrap();
            encoder.flush().unwrap();
            assert!(encoder.finish().unwrap().len() > length, "{coding:?}");
        }
    }
}
