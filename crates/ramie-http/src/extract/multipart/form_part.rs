//! One part of a form.

use std::{
    fmt,
    io::{self, Read},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};

use super::{Multipart, part_head::PartHead, too_large};
use crate::extract::{Rejection, content_type};

/// A part of a [`Multipart`] form: its name, and its data as a [`Read`].
///
/// All that it has was made up by the client.
pub struct FormPart<'a> {
    form: &'a mut Multipart,
    head: PartHead,
    is_at_end: bool,
}

impl<'a> FormPart<'a> {
    pub(super) fn new(form: &'a mut Multipart, head: PartHead) -> Self {
        FormPart { form, head, is_at_end: false }
    }

    /// The name of the field. Several parts may have the same one.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The name of the file on the machine of the client: `filename*` if there is one, otherwise
    /// `filename`.
    ///
    /// Never use it as a path. It may be empty, `..`, `/etc/passwd`, `C:\x`, contain line ends, or
    /// name a file that exists. Save the file under a name of the program, and keep this one for
    /// people to read.
    pub fn file_name(&self) -> Option<&str> {
        self.head.file_name.as_deref()
    }

    /// The type that the client gives for the data, such as `image/png`. Nothing checks it.
    pub fn content_type(&self) -> Option<&str> {
        str::from_utf8(self.head.headers.get(CONTENT_TYPE)?.as_bytes()).ok()
    }

    /// All fields of the part.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Reads the data of the part.
    ///
    /// # Blocking
    /// Parks the fiber until the data have arrived.
    ///
    /// # Cancellation
    /// A cancel point: 503.
    ///
    /// # Errors
    /// 413 if there are more than `most` bytes; otherwise as a read.
    pub fn into_bytes(mut self, most: u64) -> Result<Bytes, Rejection> {
        let mut bytes = Vec::new();
        { &mut self }.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most {
            true => Err(too_large(most)),
            false => Ok(bytes.into()),
        }
    }

    /// Reads the data of the part as text.
    ///
    /// # Blocking
    /// Parks the fiber until the data have arrived.
    ///
    /// # Cancellation
    /// A cancel point: 503.
    ///
    /// # Errors
    /// As [`into_bytes`](Self::into_bytes); 400 if the data are not UTF-8; 415 if the type of the
    /// part has another charset.
    pub fn into_text(self, most: u64) -> Result<String, Rejection> {
        content_type::check_charset(self.content_type())?;
        String::from_utf8(self.into_bytes(most)?.into())
            .map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "a part of the form is not UTF-8"))
    }
}

/// # Blocking
/// Each read parks the fiber until bytes have arrived.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// With a [`Rejection`] inside if the form is malformed or exceeds a limit; otherwise as a read of
/// the body. [`Rejection`] is made of either by `?`.
impl Read for FormPart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() || self.is_at_end {
            return Ok(0);
        }
        let data = self.form.data()?;
        let count = data.len().min(buf.len());
        buf[..count].copy_from_slice(&data[..count]);
        self.is_at_end = count == 0;
        self.form.take_data(count)?;
        Ok(count)
    }
}

impl fmt::Debug for FormPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormPart")
            .field("name", &self.name())
            .field("file_name", &self.file_name())
            .finish_non_exhaustive()
    }
}
