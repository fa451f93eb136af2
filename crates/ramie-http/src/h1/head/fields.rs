//! What the fields of a head say about the message and its connection.

use http::StatusCode;
use httparse::Header;

use super::{FieldSpan, Head, place};
use crate::{
    h1::{
        authority,
        framing::{Framing, FramingFields},
    },
    limits::Limits,
    refusal::Refusal,
};

/// What the fields say about the message, and how many hosts they name.
#[derive(Default)]
struct FieldsRead {
    /// None if no field concerns the connection or the body, as in most requests.
    framing: Option<FramingFields>,
    hosts: usize,
}

impl FieldsRead {
    /// HTTP/1.1 requires one Host, which may be empty (RFC 9112, section 3.2).
    fn check_host(&self, is_http_1_0: bool) -> Result<(), Refusal> {
        match self.hosts {
            1 => Ok(()),
            0 if is_http_1_0 => Ok(()),
            0 => Err(Refusal::malformed("a request of HTTP/1.1 must have a Host")),
            _ => Err(Refusal::malformed("a request must have one Host only")),
        }
    }
}

/// Reads what the fields say about the message and its connection. Inlined, because its frame would
/// be the deepest of a connection.
#[inline(always)]
pub(super) fn read_fields(
    bytes: &[u8],
    headers: &[Header<'_>],
    limits: &Limits,
    head: &mut Head,
) -> Result<(), Refusal> {
    let mut read = FieldsRead::default();
    head.fields.clear();
    for Header { name, value } in headers {
        if name.len() + value.len() > limits.field_bytes {
            return Err(Refusal::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "a field of the request is too long",
            ));
        }
        read_field(&mut read, name, value)?;
        let (name, value) = (place(bytes, name.as_bytes()), place(bytes, value));
        head.fields.push(FieldSpan { name, value });
    }
    let is_http_1_0 = head.is_http_1_0();
    read.check_host(is_http_1_0)?;
    head.framing = Framing::Length(0);
    head.stays = !is_http_1_0;
    head.wants_upgrade = false;
    head.expects_continue = false;
    match read.framing {
        None => Ok(()),
        Some(fields) => take_framing(&fields, head),
    }
}

#[inline(never)]
fn take_framing(fields: &FramingFields, head: &mut Head) -> Result<(), Refusal> {
    let is_http_1_0 = head.is_http_1_0();
    head.framing = fields.framing(is_http_1_0)?;
    head.stays = fields.stays(is_http_1_0);
    head.wants_upgrade = fields.wants_upgrade && !is_http_1_0;
    // A client of HTTP/1.0 does not wait for it (RFC 9110, section 10.1.1).
    head.expects_continue = fields.expects_continue && !is_http_1_0;
    Ok(())
}

/// Reads one of the fields that concern the connection. Their lengths tell most others apart.
fn read_field(read: &mut FieldsRead, name: &str, value: &[u8]) -> Result<(), Refusal> {
    match name.len() {
        4 if is_host(name) => {
            read.hosts += 1;
            if !authority::is_valid(value) {
                return Err(Refusal::malformed("the Host of the request is not a host"));
            }
        }
        6 | 10 | 14 | 17 => return read_framing(&mut read.framing, name, value),
        _ => {}
    }
    Ok(())
}

/// Not inlined, because its variables would take the processor's registers from the fields of all
/// requests.
#[inline(never)]
fn read_framing(
    framing: &mut Option<FramingFields>,
    name: &str,
    value: &[u8],
) -> Result<(), Refusal> {
    let is_named = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        6 if is_named("expect") => framing.get_or_insert_default().expect(value),
        10 if is_named("connection") => {
            framing.get_or_insert_default().connection(value);
            Ok(())
        }
        14 if is_named("content-length") => framing.get_or_insert_default().content_length(value),
        17 if is_named("transfer-encoding") => {
            framing.get_or_insert_default().transfer_encoding(value)
        }
        _ => Ok(()),
    }
}

/// One comparison instead of one for each letter, because each request has a Host.
fn is_host(name: &str) -> bool {
    const LOWER_CASE: u32 = u32::from_ne_bytes([b'a' - b'A'; 4]);
    let name = name.as_bytes().try_into().map(u32::from_ne_bytes);
    name.is_ok_and(|name| name | LOWER_CASE == u32::from_ne_bytes(*b"host"))
}
