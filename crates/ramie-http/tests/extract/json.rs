//! JSON, as an argument and as a response.

use std::collections::BTreeMap;

use ramie_http::{
    IntoResponse, Request,
    extract::{Json, Rejection},
};
use serde::Deserialize;

use super::{call, line, ok, post, read};

#[derive(Deserialize)]
struct Order {
    name: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    count: u8,
}

fn order(request: Request) -> (u16, String) {
    let show = |Json(order): Json<Order>| {
        let counts: Vec<_> = order.items.iter().map(|item| item.count).collect();
        format!("{} {counts:?}", order.name)
    };
    call("/", show, request)
}

#[test]
fn json_becomes_a_value() {
    let json = r#"{"name": "a", "items": [{"count": 1}, {"count": 2}]}"#;
    for content_type in ["application/json", "application/vnd.x+json; charset=utf-8"] {
        assert_eq!(order(post(content_type, json)), ok("a [1, 2]"));
    }
}

#[test]
fn another_type_is_a_415() {
    assert_eq!(
        order(Request::post("/", "{}")),
        line(415, "the Content-Type of the body is missing, but must be application/json")
    );
    assert_eq!(
        order(post("text/plain; a=b", "{}")),
        line(415, "the Content-Type of the body is `text/plain`, but must be application/json")
    );
}

#[test]
fn a_body_that_is_no_json_is_a_400() {
    for (body, reason) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\n\"name\": x}", "expected value at line 2 column 9"),
        (r#"{"name": "a", "items": []} {"#, "trailing characters at line 1 column 28"),
    ] {
        let reason = format!("the body is not JSON: {reason}");
        assert_eq!(order(post("application/json", body)), line(400, &reason));
    }
    let show = |Json(value): Json<serde_json::Value>| value.to_string();
    let (status, text) = call("/", show, post("application/json", "[".repeat(1000)));
    assert_eq!((status, text.contains("recursion limit exceeded")), (400, true), "{text}");
}

#[test]
fn another_shape_is_a_422_that_names_the_place() {
    for (body, reason) in [
        (
            r#"{"name": "a", "items": [{"count": 1}, {"count": 256}]}"#,
            " at `items[1].count`: invalid value: integer `256`, expected u8 at line 1 column 51",
        ),
        (r#"{"name": "a"}"#, ": missing field `items` at line 1 column 13"),
        ("7", ": invalid type: integer `7`, expected struct Order at line 1 column 1"),
    ] {
        let reason = format!("the JSON of the body has another shape{reason}");
        assert_eq!(order(post("application/json", body)), line(422, &reason));
    }
}

#[test]
fn a_value_becomes_json() {
    let response = Json(BTreeMap::from([("a", [1, 2])])).into_response();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(read(response), ok(r#"{"a":[1,2]}"#));
    let keys = BTreeMap::from([(vec![1], 2)]);
    assert_eq!(read(Json(keys).into_response()), (500, String::new()));
}

#[test]
fn a_handler_may_look_at_the_rejection_instead() {
    let show = |json: Result<Json<u8>, Rejection>| match json {
        Ok(Json(value)) => value.to_string(),
        Err(rejection) => format!("{}: {rejection}", rejection.status().as_u16()),
    };
    assert_eq!(call("/", show, post("application/json", "7")), ok("7"));
    assert_eq!(
        call("/", show, post("application/json", "x")),
        ok("400: the body is not JSON: expected value at line 1 column 1")
    );
    let or_none = |json: Option<Json<u8>>| format!("{:?}", json.map(|Json(value)| value));
    assert_eq!(call("/", or_none, post("application/json", "7")), ok("Some(7)"));
    assert_eq!(call("/", or_none, post("application/json", "x")), ok("None"));
}

#[test]
fn nested_json_is_read_outside_of_a_runtime_too() {
    let echo = |Json(value): Json<serde_json::Value>| Json(value);
    let nested = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    assert_eq!(call("/", echo, post("application/json", nested.clone())), ok(&nested));
    let more = format!("[{nested}]");
    assert_eq!(call("/", echo, post("application/json", more)).0, 400);
}
