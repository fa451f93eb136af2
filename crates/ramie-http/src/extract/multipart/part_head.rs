//! The head of one part: its name, and the name of its file.

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use httparse::{EMPTY_HEADER, Error, Status};
use percent_encoding::percent_decode_str;

use super::FORM_DATA;
use crate::extract::{Rejection, content_type};

/// The most fields of one part. Browsers send two.
const FIELDS_MOST: usize = 16;

/// The head of a part.
#[derive(Debug)]
pub(super) struct PartHead {
    pub(super) headers: HeaderMap,
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

fn malformed(reason: &'static str) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, reason)
}

fn too_many_fields() -> Rejection {
    let reason = format!("a part of the form has more than {FIELDS_MOST} fields");
    Rejection::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason)
}

impl PartHead {
    /// `bytes` are all of it, with its empty line.
    pub(super) fn parse(bytes: &[u8]) -> Result<PartHead, Rejection> {
        let headers = parse_fields(bytes)?;
        check_encoding(&headers)?;
        if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
            return Err(malformed("a part of the form has several types"));
        }
        let mut dispositions = headers.get_all(CONTENT_DISPOSITION).iter();
        let (Some(disposition), None) = (dispositions.next(), dispositions.next()) else {
            return Err(malformed("each part of the form must have one Content-Disposition"));
        };
        let (name, file_name) = read_disposition(disposition.as_bytes())?;
        Ok(PartHead { name, file_name, headers })
    }
}

fn parse_fields(bytes: &[u8]) -> Result<HeaderMap, Rejection> {
    const MALFORMED: &str = "the head of a part of the form is malformed";
    // httparse also takes bare line feeds for the ends of lines.
    let mut ends = memchr::memchr_iter(b'\n', bytes);
    if !ends.all(|at| at > 0 && bytes[at - 1] == b'\r') {
        return Err(malformed(MALFORMED));
    }
    let mut room = [EMPTY_HEADER; FIELDS_MOST];
    let fields = match httparse::parse_headers(bytes, &mut room) {
        Ok(Status::Complete((length, fields))) if length == bytes.len() => fields,
        Err(Error::TooManyHeaders) => return Err(too_many_fields()),
        Ok(_) | Err(_) => return Err(malformed(MALFORMED)),
    };
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value);
        let (Ok(name), Ok(value)) = (name, value) else { return Err(malformed(MALFORMED)) };
        headers.append(name, value);
    }
    Ok(headers)
}

/// RFC 7578, section 4.7, deprecates encodings. Data that is handed on encoded would be mistaken
/// for the data itself.
fn check_encoding(headers: &HeaderMap) -> Result<(), Rejection> {
    let is_plain = |encoding: &HeaderValue| {
        let encoding = encoding.as_bytes();
        ["7bit", "8bit", "binary"].iter().any(|name| encoding.eq_ignore_ascii_case(name.as_bytes()))
    };
    match headers.get_all("content-transfer-encoding").iter().all(is_plain) {
        true => Ok(()),
        false => Err(Rejection::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a part of the form has a Content-Transfer-Encoding",
        )),
    }
}

/// The name, and the name of the file, of `form-data; name="…"; filename="…"`.
fn read_disposition(value: &[u8]) -> Result<(String, Option<String>), Rejection> {
    let text = str::from_utf8(value)
        .map_err(|_| malformed("the Content-Disposition of a part is not UTF-8"))?;
    let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
    let parameters = content_type::parameters(rest)
        .filter(|_| kind.trim_matches([' ', '\t']).eq_ignore_ascii_case(FORM_DATA))
        .ok_or_else(|| malformed("the Content-Disposition of a part is malformed"))?;
    let (mut name, mut file_name, mut extended) = (None, None, None);
    for (own, value) in parameters {
        let place = match own {
            _ if own.eq_ignore_ascii_case("name") => &mut name,
            _ if own.eq_ignore_ascii_case("filename") => &mut file_name,
            _ if own.eq_ignore_ascii_case("filename*") => &mut extended,
            _ => continue,
        };
        if place.replace(value.into_owned()).is_some() {
            return Err(malformed("a part of the form has two names"));
        }
    }
    let name = name.ok_or_else(|| malformed("each part of the form must have a name"))?;
    let extended = extended.as_deref().map(decode_extended).transpose()?;
    Ok((name, extended.or(file_name)))
}

/// Decodes `CHARSET'LANGUAGE'TEXT` with escapes (RFC 8187).
fn decode_extended(value: &str) -> Result<String, Rejection> {
    let mut parts = value.splitn(3, '\'');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(charset), Some(_), Some(text)) if charset.eq_ignore_ascii_case("utf-8") => {
            percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
        }
        _ => None,
    }
    .ok_or_else(|| malformed("the filename* of a part is malformed, or not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposition(value: &str) -> Result<(String, Option<String>), String> {
        let head = format!("Content-Disposition: {value}\r\n\r\n");
        let head = PartHead::parse(head.as_bytes()).map_err(|error| error.to_string())?;
        Ok((head.name, head.file_name))
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        for (value, name, file_name) in [
            ("form-data; name=a", "a", None),
            ("Form-Data ; NAME=\"a b\" ; x=y", "a b", None),
            ("form-data; name=\"\"; filename=\"\"", "", Some("")),
            ("form-data; name=\"a%22\"; filename=\"C:\\new\\\"\\\\\"", "a%22", Some("C:\\new\"\\")),
            (
                "form-data; name=\"\u{e4}\"; filename=\"\u{4f60}.txt\"",
                "\u{e4}",
                Some("\u{4f60}.txt"),
            ),
            ("form-data; name=a; filename*=UTF-8''%C3%A4.txt; filename=x", "a", Some("\u{e4}.txt")),
            ("form-data; name=a; filename=\"../../a\"", "a", Some("../../a")),
        ] {
            let expected = Ok((name.to_owned(), file_name.map(str::to_owned)));
            assert_eq!(disposition(value), expected, "{value}");
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        const ONE: &str = "each part of the form must have one Content-Disposition";
        const FORM: &str = "the Content-Disposition of a part is malformed";
        const HEAD: &str = "the head of a part of the form is malformed";
        const EXTENDED: &str = "the filename* of a part is malformed, or not UTF-8";
        for (head, reason) in [
            ("", ONE),
            ("A: b\r\n", ONE),
            ("Content-Disposition: form-data; name=a\r\nContent-Disposition: x\r\n", ONE),
            ("Content-Disposition: attachment; name=a\r\n", FORM),
            ("Content-Disposition: form-data; name=\"a\r\n", FORM),
            ("Content-Disposition: form-data; name=a b\r\n", FORM),
            ("Content-Disposition: form-data\r\n", "each part of the form must have a name"),
            (
                "Content-Disposition: form-data; name=a; Name=b\r\n",
                "a part of the form has two names",
            ),
            ("Content-Disposition: form-data; name=a; filename*=x\r\n", EXTENDED),
            ("Content-Disposition: form-data; name=a; filename*=latin1''x\r\n", EXTENDED),
            ("Content-Disposition: form-data; name=a; filename*=utf-8''%ff\r\n", EXTENDED),
            ("Content-Disposition: form-data; name=a\n", HEAD),
            ("Content-Disposition : form-data; name=a\r\n", HEAD),
            ("Content-Disposition: form-data;\r\n name=a\r\n", HEAD),
            ("Content-Type: a/b\r\nContent-Type: c/d\r\n", "a part of the form has several types"),
            (
                "Content-Transfer-Encoding: base64\r\n",
                "a part of the form has a Content-Transfer-Encoding",
            ),
        ] {
            let error = PartHead::parse(format!("{head}\r\n").as_bytes()).unwrap_err();
            assert_eq!(error.reason(), reason, "{head:?}");
            let is_type = reason.contains("Encoding");
            assert_eq!(error.status().as_u16(), if is_type { 415 } else { 400 });
        }
        let latin1 = b"Content-Disposition: form-data; name=\"\xe4\"\r\n\r\n";
        let error = PartHead::parse(latin1).unwrap_err();
        assert_eq!(error.reason(), "the Content-Disposition of a part is not UTF-8");
    }

    #[test]
    fn a_part_has_few_fields() {
        let head = |count: usize| {
            format!("Content-Disposition: form-data; name=a\r\n{}\r\n", "A: b\r\n".repeat(count))
        };
        let parsed = PartHead::parse(head(FIELDS_MOST - 1).as_bytes()).unwrap();
        assert_eq!(parsed.headers.len(), FIELDS_MOST);
        let error = PartHead::parse(head(FIELDS_MOST).as_bytes()).unwrap_err();
        assert_eq!(error.status().as_u16(), 431);
        assert_eq!(error.reason(), "a part of the form has more than 16 fields");
    }
}
