//! Cookies of requests and of responses.

use ramie_http::{
    IntoResponse, Request, StatusCode,
    extract::{CookieError, Cookies, SetCookie},
};

use super::{call, ok};

#[test]
fn cookies_of_all_fields_are_found_by_name() {
    let show = |cookies: Cookies| {
        let all: Vec<_> = cookies.get_all("a").collect();
        format!(
            "{:?} {all:?} {:?} {}",
            cookies.get("a"),
            cookies.decoded("c"),
            cookies.iter().count()
        )
    };
    let request = Request::get("/")
        .with_header("cookie", "a=1; b; c=%C3%A4+%25; a=2")
        .with_header("Cookie", "a=3; d=%");
    assert_eq!(
        call("/", show, request),
        ok("Some(\"1\") [\"1\", \"2\", \"3\"] Some(\"\u{e4}+%\") 5")
    );
    assert_eq!(call("/", show, Request::get("/")), ok("None [] None 0"));
    let not_utf8 = Request::get("/").with_header("cookie", "c=%ff");
    assert_eq!(call("/", show, not_utf8), ok("None [] None 1"));
}

#[test]
fn responses_set_one_or_several_cookies() -> Result<(), CookieError> {
    let values = |response: ramie_http::Response| {
        let values = response.headers().get_all("set-cookie").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (a, b) = (SetCookie::new("a", "1")?, SetCookie::encoded("b", "x y")?);
    let expected =
        ["a=1; Path=/; HttpOnly; SameSite=Lax", "b=x%20y; Path=/; HttpOnly; SameSite=Lax"];
    let several = (StatusCode::CREATED, [a.clone(), b.clone()], "text").into_response();
    assert_eq!(several.status(), StatusCode::CREATED);
    assert_eq!(values(several), expected);
    assert_eq!(values((vec![a.clone(), b.clone()], "text").into_response()), expected);
    assert_eq!(values((a, (b, "text")).into_response()), [expected[1], expected[0]]);
    Ok(())
}

#[test]
fn a_cookie_that_cannot_be_set_is_a_500() {
    let set = || Ok::<_, CookieError>((SetCookie::new("a", "b;c")?, "text"));
    assert_eq!(call("/", set, Request::get("/")), (500, String::new()));
}
