//! Parameters of queries, and fields of forms.

use std::{collections::BTreeMap, fmt::Debug};

use ramie_http::{
    Method, Request,
    extract::{Form, Query},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{call, line, ok, post};

const FORM: &str = "application/x-www-form-urlencoded";

fn query<T: DeserializeOwned + Debug + 'static>(query: &str) -> (u16, String) {
    let show = |Query(value): Query<T>| format!("{value:?}");
    call("/", show, Request::get(&format!("/{query}")))
}

fn form<T: DeserializeOwned + Debug + 'static>(request: Request) -> (u16, String) {
    call("/", |Form(value): Form<T>| format!("{value:?}"), request)
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "Debug reads them")]
struct Search {
    text: String,
    #[serde(default)]
    tag: Vec<u8>,
    page: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {}

type Map = BTreeMap<String, String>;

#[test]
fn queries_are_structs_maps_and_pairs() {
    assert_eq!(
        query::<Search>("?text=a+%26b&tag=1&page=3&x&tag=2"),
        ok("Search { text: \"a &b\", tag: [1, 2], page: Some(3) }")
    );
    let without = ok("Search { text: \"\", tag: [], page: None }");
    assert_eq!(query::<Search>("?text"), without);
    assert_eq!(query::<Search>("?text=&page="), without);
    assert_eq!(query::<Map>("?b=1&a=2"), ok("{\"a\": \"2\", \"b\": \"1\"}"));
    assert_eq!(query::<Map>(""), ok("{}"));
    assert_eq!(query::<BTreeMap<u8, Vec<char>>>("?1=a&2=b&1=c"), ok("{1: ['a', 'c'], 2: ['b']}"));
    assert_eq!(
        query::<Vec<(String, u8)>>("?b=1&a=2&b=3"),
        ok("[(\"b\", 1), (\"a\", 2), (\"b\", 3)]")
    );
    assert_eq!(query::<BTreeMap<char, (f32, f32)>>("?x=1&x=2"), ok("{'x': (1.0, 2.0)}"));
    assert_eq!(query::<Option<Map>>(""), ok("None"));
    assert_eq!(query::<()>("?a=b"), ok("()"));
    assert_eq!(query::<Strict>(""), ok("Strict"));
}

#[test]
fn a_wrong_query_is_a_400_that_names_the_parameter() {
    assert_eq!(query::<Search>("?page=1"), line(400, "the query lacks the parameter `text`"));
    assert_eq!(
        query::<Search>("?text=a&page=x"),
        line(
            400,
            "the parameter `page` of the query is `x`, but must be an integer from 0 to 4294967295"
        )
    );
    assert_eq!(
        query::<Search>("?text=a&tag=1&tag=256"),
        line(
            400,
            "the parameter `tag` of the query is `256`, but must be an integer from 0 to 255"
        )
    );
    assert_eq!(
        query::<Search>("?text=a&text=b"),
        line(400, "the parameter `text` of the query is given 2 times, but must be given once")
    );
    assert_eq!(query::<Map>("?a=%ff"), line(400, "the query is not UTF-8"));
    assert_eq!(
        query::<Strict>("?a=b"),
        line(400, "the query is invalid: unknown field `a`, there are no fields")
    );
    let short =
        "the parameter `x` of the query is invalid: invalid length 1, expected a tuple of size 2";
    assert_eq!(query::<BTreeMap<char, (u8, u8)>>("?x=1"), line(400, short));
}

#[test]
fn a_type_that_no_query_is_of_is_a_500() {
    assert_eq!(
        query::<u8>("?a=1"),
        line(500, "the handler takes a single value, which the query cannot be")
    );
    assert_eq!(
        query::<(u8, u8)>("?a=1&b=2"),
        line(500, "the handler takes a tuple, which the query cannot be")
    );
    assert_eq!(
        query::<BTreeMap<u8, Search>>("?1=2"),
        line(
            500,
            "the handler takes a struct inside of a struct, \
             which the parameter `1` of the query cannot be"
        )
    );
}

#[test]
fn a_form_is_in_the_body_or_in_the_query_of_a_get() {
    let expected = ok("Search { text: \"\u{e4} b\", tag: [7], page: None }");
    for content_type in [FORM, "Application/X-WWW-Form-Urlencoded ; charset=utf-8"] {
        let request = post(content_type, "text=%C3%A4+b&tag=7");
        assert_eq!(form::<Search>(request), expected);
    }
    assert_eq!(form::<Search>(Request::get("/?text=%C3%A4+b&tag=7")), expected);
    let in_query = Request::new(Method::PUT, "/?text=a").with_header("content-type", FORM);
    assert_eq!(form::<Search>(in_query), line(422, "the form lacks the field `text`"));
}

#[test]
fn a_wrong_form_has_a_status_for_each_reason() {
    assert_eq!(
        form::<Map>(Request::post("/", "a=b")),
        line(415, &format!("the Content-Type of the body is missing, but must be {FORM}"))
    );
    assert_eq!(
        form::<Map>(post("application/json", "a=b")),
        line(
            415,
            &format!("the Content-Type of the body is `application/json`, but must be {FORM}")
        )
    );
    assert_eq!(
        form::<Map>(post(&format!("{FORM}; charset=iso-8859-1"), "a=b")),
        line(415, "the charset is `iso-8859-1`, but must be utf-8")
    );
    assert_eq!(
        form::<Search>(post(FORM, "text=a&page=-1")),
        line(
            422,
            "the field `page` of the form is `-1`, but must be an integer from 0 to 4294967295"
        )
    );
    assert_eq!(form::<Map>(post(FORM, "a=%ff")), line(400, "the form is not UTF-8"));
    let many = "a&".repeat(10_001);
    assert_eq!(
        form::<Vec<Map>>(post(FORM, many)),
        line(413, "the form has more than 10000 fields")
    );
    assert_eq!(
        form::<Search>(Request::get("/?page=1")),
        line(400, "the query lacks the parameter `text`")
    );
}
