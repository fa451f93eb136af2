//! Forms in parts, with files: `multipart/form-data` (RFC 7578).

mod decoder;
mod form_part;
mod part_head;

use std::{
    fmt,
    io::{self, Read},
    ops::Range,
};

use http::StatusCode;

pub use self::form_part::FormPart;
use self::{
    decoder::{MultipartDecoder, MultipartFault, PartFound},
    part_head::PartHead,
};
use super::{FromRequest, Rejection, content_type};
use crate::{body::Body, request::Request};

const FORM_DATA: &str = "form-data";
const MULTIPART: &str = "multipart/form-data";
/// The size of reads of the body.
const PIECE: usize = 16 << 10;

/// A form in parts, as browsers send it if it has files. The parts arrive while they are read, one
/// after another; at most 32 KiB of them and the head of one part are in memory.
///
/// [`Limits::body_bytes`] limits the whole body to 2 MiB by default;
/// [`set_body_limit`](Self::set_body_limit) changes that for a form. [`MultipartLimits`] limits the
/// parts.
///
/// [`Limits::body_bytes`]: crate::Limits::body_bytes
///
/// The format is read strictly: text before the first boundary and behind the last one is refused,
/// and so are line ends without a carriage return, parts without a name, names that are not UTF-8,
/// and `Content-Transfer-Encoding`. A field `_charset_` has no meaning; all text is UTF-8.
///
/// # Blocking
/// As an argument: never. Each read of a part, and [`next_part`](Self::next_part), park the fiber
/// until the bytes have arrived.
///
/// # Cancellation
/// As an argument: not a cancel point. The reads are cancel points.
///
/// # Errors
/// As an argument: 415 for a body of another type; 400 if the type has no valid boundary (1 to 70
/// characters).
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, post};
/// use ramie_http::extract::{Multipart, Rejection};
///
/// fn upload(mut form: Multipart) -> Result<String, Rejection> {
///     let mut report = String::new();
///     while let Some(mut part) = form.next_part()? {
///         let name = part.name().to_owned();
///         match part.file_name() {
///             Some(file_name) => {
///                 let file_name = file_name.to_owned();
///                 // Into a file whose name the program chooses.
///                 let size = std::io::copy(&mut part, &mut std::io::sink())?;
///                 report += &format!("{name}: {size} bytes of {file_name:?}\n");
///             }
///             None => report += &format!("{name}: {}\n", part.into_text(1000)?),
///         }
///     }
///     Ok(report)
/// }
///
/// let body = "--x\r\n\
///     Content-Disposition: form-data; name=\"title\"\r\n\r\n\
///     Holidays\r\n\
///     --x\r\n\
///     Content-Disposition: form-data; name=\"photo\"; filename=\"a.png\"\r\n\
///     Content-Type: image/png\r\n\r\n\
///     not really\r\n\
///     --x--\r\n";
/// let router = Router::new().route("/", post(upload));
/// let request =
///     Request::post("/", body).with_header("content-type", "multipart/form-data; boundary=x");
/// let response = router.call(request);
/// let report = "title: Holidays\nphoto: 10 bytes of \"a.png\"\n";
/// assert_eq!(response.into_body().into_bytes(100)?, report);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Multipart {
    body: Body,
    decoder: MultipartDecoder,
    limits: MultipartLimits,
    /// Bytes of the body; those before `at` are used.
    buffer: Vec<u8>,
    at: usize,
    /// How many bytes from `at` are data of the part.
    data: usize,
    is_all: bool,
    /// How many parts have begun.
    parts: usize,
    /// Bytes of data that the part may still have.
    room: u64,
    /// Why the rest of the body is of no use.
    failed: Option<Rejection>,
}

/// The limits of a form in parts, besides that of its body.
///
/// | limit | default | a client that exceeds it |
/// |---|---|---|
/// | `parts` | 1,000 | 413 |
/// | `part_head_bytes` | 4 KiB | 431 |
/// | `part_bytes` | that of the body | 413 |
///
/// Each part has at most 16 fields (431).
///
/// # Examples
/// ```
/// use ramie_http::extract::MultipartLimits;
///
/// let limits = MultipartLimits { part_bytes: 1 << 20, ..MultipartLimits::default() };
/// # assert_eq!(limits.parts, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipartLimits {
    /// The number of parts.
    pub parts: usize,
    /// Bytes of the head of one part, without its empty line.
    pub part_head_bytes: usize,
    /// Bytes of the data of one part.
    pub part_bytes: u64,
}

impl Default for MultipartLimits {
    fn default() -> Self {
        MultipartLimits { parts: 1000, part_head_bytes: 4 << 10, part_bytes: u64::MAX }
    }
}

impl Multipart {
    fn new(body: Body, boundary: &str) -> Self {
        let limits = MultipartLimits::default();
        Multipart {
            body,
            decoder: MultipartDecoder::new(boundary, limits.part_head_bytes),
            limits,
            buffer: Vec::new(),
            at: 0,
            data: 0,
            is_all: false,
            parts: 0,
            room: 0,
            failed: None,
        }
    }

    /// Sets the limits of the parts that follow.
    pub fn set_limits(&mut self, limits: MultipartLimits) {
        self.limits = limits;
        self.decoder.set_head_most(limits.part_head_bytes);
    }

    /// Sets how many bytes the whole body may have; see [`Body::set_limit`].
    pub fn set_body_limit(&mut self, most: u64) {
        self.body.set_limit(most);
    }

    /// Waits for the next part. Data of the part before that was not read is skipped.
    ///
    /// # Blocking
    /// Parks the fiber until the head of the part has arrived.
    ///
    /// # Cancellation
    /// A cancel point: 503. The form can still be read.
    ///
    /// # Errors
    /// 400 if the body is malformed; 413 and 431 for the limits of [`MultipartLimits`]; 415 for a
    /// part with a `Content-Transfer-Encoding`. Of reading the body: as
    /// [`BodyError::status`](crate::BodyError::status).
    pub fn next_part(&mut self) -> Result<Option<FormPart<'_>>, Rejection> {
        let head = self.next_head()?;
        Ok(head.map(|head| FormPart::new(self, head)))
    }

    fn next_head(&mut self) -> io::Result<Option<PartHead>> {
        loop {
            self.take_data(self.data)?;
            match self.advance()? {
                PartFound::Head(at) => return self.begin_part(at).map(Some),
                PartFound::Data(at) => self.data = at.len(),
                PartFound::PartEnd | PartFound::NeedsMore => {}
                PartFound::End => return Ok(None),
            }
        }
    }

    fn begin_part(&mut self, head: Range<usize>) -> io::Result<PartHead> {
        let most = self.limits.parts;
        if self.parts == most {
            let reason = format!("the form has more than {most} parts");
            return self.fail(Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        self.parts += 1;
        self.room = self.limits.part_bytes;
        match PartHead::parse(&self.buffer[head]) {
            Ok(head) => Ok(head),
            Err(rejection) => self.fail(rejection),
        }
    }

    /// Waits for data of the part. Returns no bytes at the end of the part.
    fn data(&mut self) -> io::Result<&[u8]> {
        while self.data == 0 {
            match self.advance()? {
                PartFound::Data(at) => self.data = at.len(),
                PartFound::NeedsMore => {}
                PartFound::Head(_) | PartFound::PartEnd | PartFound::End => break,
            }
        }
        Ok(&self.buffer[self.at..self.at + self.data])
    }

    /// Forgets the first bytes of the data.
    fn take_data(&mut self, count: usize) -> io::Result<()> {
        let Some(room) = self.room.checked_sub(count as u64) else {
            let most = self.limits.part_bytes;
            return self.fail(too_large(most));
        };
        self.room = room;
        self.at += count;
        self.data -= count;
        Ok(())
    }

    /// Finds the next thing in the buffer, or receives more. Data stays in the buffer; places are
    /// those in the buffer.
    fn advance(&mut self) -> io::Result<PartFound> {
        if let Some(rejection) = &self.failed {
            return Err(rejection.clone().into());
        }
        match self.decoder.advance(&self.buffer[self.at..], self.is_all) {
            Ok((used, found)) => {
                let begin = self.at;
                self.at += used;
                Ok(match found {
                    PartFound::Head(at) => PartFound::Head(begin + at.start..begin + at.end),
                    PartFound::Data(at) => {
                        self.at = begin + at.start;
                        PartFound::Data(begin + at.start..begin + at.end)
                    }
                    PartFound::NeedsMore => {
                        self.receive()?;
                        PartFound::NeedsMore
                    }
                    found => found,
                })
            }
            Err(fault) => {
                let most = self.limits.part_head_bytes;
                self.fail(match fault {
                    MultipartFault::Malformed(reason) => {
                        Rejection::new(StatusCode::BAD_REQUEST, reason)
                    }
                    MultipartFault::HeadTooLarge => Rejection::new(
                        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                        format!("the head of a part of the form has more than {most} bytes"),
                    ),
                })
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let length = self.buffer.len();
        self.buffer.resize(length + PIECE, 0);
        let read = loop {
            match self.body.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(length + read.as_ref().copied().unwrap_or(0));
        self.is_all = read? == 0;
        Ok(())
    }

    /// All further reads fail in the same way, because the place in the body is lost.
    fn fail<T>(&mut self, rejection: Rejection) -> io::Result<T> {
        self.failed = Some(rejection.clone());
        Err(rejection.into())
    }
}

fn too_large(most: u64) -> Rejection {
    let reason = format!("a part of the form has more than {most} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
}

impl fmt::Debug for Multipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl<S> FromRequest<S> for Multipart {
    type Rejection = Rejection;

    fn from_request(request: Request, _: &S) -> Result<Self, Rejection> {
        let media_type = content_type::media_type(&request);
        if !media_type.is_some_and(|found| found.eq_ignore_ascii_case(MULTIPART)) {
            return Err(content_type::unsupported(media_type, MULTIPART));
        }
        let content_type = request.header_str("content-type").unwrap_or_default();
        let Some(boundary) = boundary(content_type) else {
            let reason = "the Content-Type of the form has no valid boundary";
            return Err(Rejection::new(StatusCode::BAD_REQUEST, reason));
        };
        Ok(Multipart::new(request.into_body(), &boundary))
    }
}

/// The one boundary of the type, if it is one of RFC 2046, section 5.1.1.
fn boundary(content_type: &str) -> Option<String> {
    let parameters = content_type::parameters(content_type.split_once(';')?.1)?;
    let is_boundary = |name: &str| name.eq_ignore_ascii_case("boundary");
    let mut found = parameters.into_iter().filter(|(name, _)| is_boundary(name));
    let (Some((_, boundary)), None) = (found.next(), found.next()) else { return None };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    let is_valid = (1..=70).contains(&boundary.len())
        && boundary.bytes().all(is_allowed)
        && !boundary.ends_with(' ');
    is_valid.then(|| boundary.into_owned())
}

#[cfg(test)]
mod tests {
    use super::boundary;

    #[test]
    fn a_boundary_has_1_to_70_characters() {
        let most = "a".repeat(70);
        for good in ["a", "----WebKitFormBoundaryAb1", "\"a b:c\"", &most] {
            let of_type = boundary(&format!("multipart/form-data; charset=utf-8; Boundary={good}"));
            assert_eq!(of_type.as_deref(), Some(good.trim_matches('"')));
        }
        let long = "a".repeat(71);
        for bad in ["", "\"\"", "\"a \"", "\"a\r\n\"", "a;boundary=a", "\"\u{e4}\"", "\"a", &long] {
            assert_eq!(boundary(&format!("multipart/form-data; boundary={bad}")), None, "{bad:?}");
        }
        assert_eq!(boundary("multipart/form-data"), None);
    }
}
