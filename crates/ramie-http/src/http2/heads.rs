//! The heads of requests and of responses, with the rules and limits of HTTP/1.1 that hyper does
//! not know.

use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST},
};

use hyper::{ext::Protocol, upgrade::OnUpgrade};

use crate::{
    connection::ByConnect,
    h1::{authority, framing::FramingFields, head::line_length, response_head::states_length},
    limits::Limits,
    refusal::Refusal,
};

/// Takes an extended CONNECT for WebSocket (RFC 8441), which handlers get as a GET.
pub(super) fn take_connect<B>(request: &mut Request<B>) -> Option<OnUpgrade> {
    let protocol = request.extensions_mut().remove::<Protocol>()?;
    if protocol.as_str() != "websocket" {
        return None;
    }
    *request.method_mut() = Method::GET;
    request.extensions_mut().insert(ByConnect);
    Some(hyper::upgrade::on(request))
}

/// Checks the limits of a head, and what it expects; hyper has checked `head_bytes`.
pub(super) fn check<B>(request: &Request<B>, limits: &Limits) -> Result<(), StatusCode> {
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    if line_length(request.method().as_str(), target) > limits.line_bytes {
        return Err(StatusCode::URI_TOO_LONG);
    }
    let headers = request.headers();
    let mut sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if headers.len() > limits.fields || sizes.any(|size| size > limits.field_bytes) {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    for value in headers.get_all(EXPECT) {
        FramingFields::default().expect(value.as_bytes()).map_err(Refusal::status)?;
    }
    Ok(())
}

/// Clients of HTTP/2 may send the cookies apart, whereas handlers know one field (RFC 9113,
/// section 8.2.3).
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    let cookies = headers.get_all(COOKIE);
    if cookies.iter().nth(1).is_some() {
        let cookies: Vec<_> = cookies.iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
            headers.insert(COOKIE, joined);
        }
    }
}

/// The one host of a request: `:authority`, which Host may repeat and must not contradict (RFC
/// 9113, section 8.3.1). So handlers see the host by which a proxy before the server has routed.
pub(super) fn check_host<B>(request: &mut Request<B>) -> Result<(), StatusCode> {
    if request.method() == Method::CONNECT {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let mut hosts = request.headers().get_all(HOST).into_iter().map(HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    let named = match (&authority, host) {
        _ if other.is_some() => return Err(StatusCode::BAD_REQUEST),
        (Some(authority), Some(host)) if !host.eq_ignore_ascii_case(authority.as_bytes()) => {
            return Err(StatusCode::BAD_REQUEST);
        }
        (Some(authority), _) => authority.as_bytes(),
        (None, Some(host)) => host,
        (None, None) => return Err(StatusCode::BAD_REQUEST),
    };
    if !authority::is_valid(named) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let host = HeaderValue::from_bytes(named).map_err(|_| StatusCode::BAD_REQUEST)?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}

/// Whether a response of this status has a body.
pub(super) fn may_have_body(status: StatusCode) -> bool {
    use StatusCode as Status;
    ![Status::NO_CONTENT, Status::RESET_CONTENT, Status::NOT_MODIFIED].contains(&status)
}

/// Replaces the Content-Length of a handler by that of the body: a client refuses a response that
/// has another one (RFC 9113, section 8.1.1). Where there is no body, a handler may state the
/// length that it would have.
pub(super) fn settle_length(
    status: StatusCode,
    headers: &mut HeaderMap,
    is_head: bool,
    length: Option<u64>,
) {
    let is_of_get = is_head && may_have_body(status);
    // A body that is empty says nothing of that of a GET.
    let may_state = status == StatusCode::NOT_MODIFIED || is_of_get && length == Some(0);
    if !may_state || !states_length(headers) {
        headers.remove(CONTENT_LENGTH);
    }
    if is_of_get && let Some(length) = length.filter(|length| *length > 0) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}
