//! Parts of the head, and values that the router and middleware have added.

use ramie_http::{
    Next, Request, Router, any,
    extract::{Extension, FromRef, Host, MatchedPath, Peer, Rejection, State},
    get,
};

use super::{call, line, ok, read};

#[test]
fn the_host_is_that_of_the_target_or_of_its_field() {
    let host = |Host(host): Host| host;
    let with = |target, field| Request::get(target).with_header("host", field);
    assert_eq!(call("/", host, with("/", "a:80")), ok("a:80"));
    assert_eq!(call("/", host, with("http://b/", "a:80")), ok("b"));
    let forwarded = with("/", "a").with_header("x-forwarded-host", "evil");
    assert_eq!(call("/", host, forwarded), ok("a"));
    for request in [Request::get("/"), with("/", "")] {
        assert_eq!(call("/", host, request), line(400, "the request does not name a host"));
    }
}

#[test]
fn the_matched_path_is_that_of_the_route() {
    let path = |path: MatchedPath| path.as_str().to_owned();
    let seen = |request: Request, next: Next<'_>| {
        let target = request.path().to_owned();
        let mut response = next.call(request);
        response.headers_mut().insert("x-target", target.parse().unwrap());
        response
    };
    let inner = Router::new().route("/{id}", get(path)).route("/", get(path)).layer(seen);
    let router = Router::new().nest("/users", inner).route("/files/{*path}", any(path)).fallback(
        |path: Result<MatchedPath, Rejection>| match path {
            Ok(path) => path.to_string(),
            Err(rejection) => format!("{rejection}"),
        },
    );
    for (target, expected) in [
        ("/users/7", "/users/{id}"),
        ("/users", "/users"),
        ("/files/a/b?c", "/files/{*path}"),
        ("/other", "no route matches the request"),
    ] {
        assert_eq!(read(router.call(Request::get(target))), ok(expected));
    }
    assert_eq!(router.call(Request::get("/users/7")).headers()["x-target"], "/users/7");
}

#[test]
fn an_extension_is_a_value_of_middleware() {
    let show = |Extension(number): Extension<u8>| number.to_string();
    let mut request = Request::get("/");
    request.extensions_mut().insert(7_u8);
    assert_eq!(call("/", show, request), ok("7"));
    assert_eq!(
        call("/", show, Request::get("/")),
        line(500, "no middleware has left a `u8` in the request")
    );
}

/// A part of the state of a router.
struct Length(usize);

impl FromRef<&'static str> for Length {
    fn from_ref(text: &&'static str) -> Self {
        Length(text.len())
    }
}

#[test]
fn state_and_peer_come_from_the_server() {
    let show = |State(number): State<u8>| number.to_string();
    let router = Router::new().route("/", get(show)).with_state(7);
    assert_eq!(read(router.call(Request::get("/"))), ok("7"));
    let length = |State(Length(length)): State<Length>| length.to_string();
    let both = |State(text): State<&'static str>, State(Length(length)): State<Length>| {
        format!("{text} {length}")
    };
    let router = Router::new()
        .route("/both", get(both))
        .nest("/part", Router::new().route("/", get(length)))
        .with_state("four");
    assert_eq!(read(router.call(Request::get("/part"))), ok("4"));
    assert_eq!(read(router.call(Request::get("/both"))), ok("four 4"));
    let show = |peer: Option<Peer>| format!("{peer:?}");
    assert_eq!(call("/", show, Request::get("/")), ok("None"));
    let (status, _) = call("/", |peer: Peer| format!("{peer:?}"), Request::get("/"));
    assert_eq!(status, 500);
}
