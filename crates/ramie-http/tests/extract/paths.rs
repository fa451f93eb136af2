//! Parameters of paths.

use std::{collections::BTreeMap, fmt::Debug, net::IpAddr, num::NonZeroU8};

use ramie_http::{Request, Router, extract::Path, get};
use serde::{Deserialize, de::DeserializeOwned};

use super::{call, line, ok};

/// The value of the path, as Debug shows it, or the rejection.
fn at<T: DeserializeOwned + Debug + 'static>(route: &str, target: &str) -> (u16, String) {
    let show = |Path(value): Path<T>| format!("{value:?}");
    call(route, show, Request::get(target))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
}

#[derive(Debug, Deserialize)]
struct Id(#[expect(dead_code, reason = "Debug reads it")] u32);

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "Debug reads them")]
struct Place {
    city: String,
    zip: Option<u16>,
    colour: Colour,
}

#[test]
fn single_values_are_made_of_one_parameter() {
    assert_eq!(at::<u8>("/{a}", "/255"), ok("255"));
    assert_eq!(at::<i128>("/{a}", "/-1"), ok("-1"));
    assert_eq!(at::<f32>("/{a}", "/1.5"), ok("1.5"));
    assert_eq!(at::<bool>("/{a}", "/true"), ok("true"));
    assert_eq!(at::<char>("/{a}", "/%C3%A4"), ok("'\u{e4}'"));
    assert_eq!(at::<String>("/{a}", "/a%2Fb%20c+d"), ok("\"a/b c+d\""));
    assert_eq!(at::<String>("/{*a}", "/b/c"), ok("\"b/c\""));
    assert_eq!(at::<Id>("/{a}", "/7"), ok("Id(7)"));
    assert_eq!(at::<Option<u8>>("/{a}", "/7"), ok("Some(7)"));
    assert_eq!(at::<Option<u8>>("/", "/"), ok("None"));
    assert_eq!(at::<Colour>("/{a}", "/green"), ok("Green"));
    assert_eq!(at::<IpAddr>("/{a}", "/::1"), ok("::1"));
    assert_eq!(at::<()>("/{a}", "/x"), ok("()"));
}

#[test]
fn several_parameters_are_tuples_lists_structs_and_maps() {
    assert_eq!(at::<(u8, String)>("/{a}/{b}", "/1/2"), ok("(1, \"2\")"));
    assert_eq!(at::<(u8,)>("/{a}", "/1"), ok("(1,)"));
    assert_eq!(at::<Vec<i8>>("/{a}/{b}/{c}", "/1/-2/3"), ok("[1, -2, 3]"));
    assert_eq!(at::<Vec<(char, u8)>>("/{a}/{b}", "/1/2"), ok("[('a', 1), ('b', 2)]"));
    assert_eq!(at::<BTreeMap<String, u8>>("/{b}/{a}", "/1/2"), ok("{\"a\": 2, \"b\": 1}"));
    assert_eq!(
        at::<Place>("/{zip}/{colour}/{city}/{other}", "/65535/red/x/y"),
        ok("Place { city: \"x\", zip: Some(65535), colour: Red }")
    );
    assert_eq!(
        at::<Place>("/{city}/{colour}", "/x/green"),
        ok("Place { city: \"x\", zip: None, colour: Green }")
    );
}

#[test]
fn a_request_that_is_handed_to_another_router_has_the_parameters_of_its_route() {
    let of_both = [("/{b}/{c}", "[('b', \"1\"), ('c', \"2\")]"), ("/1/2", "[('a', \"1/2\")]")];
    for (route, parameters) in of_both {
        let show = |Path(all): Path<Vec<(char, String)>>| format!("{all:?}");
        let inner = Router::new().route(route, get(show));
        let outer = move |request: Request| inner.call(request);
        assert_eq!(call("/{*a}", outer, Request::get("/1/2")), ok(parameters), "{route}");
    }
}

#[test]
fn a_wrong_value_is_a_400_that_names_the_parameter() {
    for (found, parameter, value, expected) in [
        (at::<u8>("/{id}", "/256"), "id", "256", "an integer from 0 to 255"),
        (at::<i8>("/{id}", "/x"), "id", "x", "an integer from -128 to 127"),
        (at::<u64>("/{id}", "/-1"), "id", "-1", "an integer from 0 to 18446744073709551615"),
        (at::<f64>("/{id}", "/1,5"), "id", "1,5", "a number"),
        (at::<bool>("/{id}", "/yes"), "id", "yes", "`true` or `false`"),
        (at::<char>("/{id}", "/ab"), "id", "ab", "one character"),
        (at::<(u8, u16)>("/{a}/{b}", "/1/x"), "b", "x", "an integer from 0 to 65535"),
        (at::<Vec<u8>>("/{a}/{b}", "/1/y"), "b", "y", "an integer from 0 to 255"),
        (
            at::<Place>("/{city}/{colour}/{zip}", "/a/red/z"),
            "zip",
            "z",
            "an integer from 0 to 65535",
        ),
    ] {
        let reason =
            format!("the parameter `{parameter}` of the path is `{value}`, but must be {expected}");
        assert_eq!(found, line(400, &reason));
    }
    assert_eq!(
        at::<Colour>("/{c}", "/blue"),
        line(
            400,
            "the parameter `c` of the path is invalid: unknown variant `blue`, \
             expected `red` or `green`"
        )
    );
    assert_eq!(
        at::<NonZeroU8>("/{n}", "/0"),
        line(
            400,
            "the parameter `n` of the path is invalid: invalid value: integer `0`, \
             expected a nonzero u8"
        )
    );
    assert_eq!(
        at::<IpAddr>("/{ip}", "/1.2.3"),
        line(400, "the parameter `ip` of the path is invalid: invalid IP address syntax")
    );
}

#[test]
fn a_clients_text_is_shortened_and_escaped() {
    let (_, text) = at::<u8>("/{id}", &format!("/%0A%1b{}", "a".repeat(200)));
    let shown = format!("\\n\\u{{1b}}{}...", "a".repeat(38));
    assert!(text.contains(&format!("is `{shown}`, but")), "{text}");
}

#[test]
fn a_path_that_is_not_utf8_is_a_400() {
    assert_eq!(at::<String>("/{id}", "/%ff"), line(400, "the path is not UTF-8"));
}

#[test]
fn a_route_without_the_parameters_of_the_handler_is_a_500() {
    for (found, reason) in [
        (at::<u8>("/{a}/{b}", "/1/2"), "1 parameter of the path, but the route has 2"),
        (at::<u8>("/", "/"), "1 parameter of the path, but the route has 0"),
        (at::<(u8, u8)>("/{a}", "/1"), "2 parameters of the path, but the route has 1"),
        (
            at::<BTreeMap<String, BTreeMap<u8, u8>>>("/{a}", "/1"),
            "a map inside of a map, which the parameter `a` of the path cannot be",
        ),
    ] {
        assert_eq!(found, line(500, &format!("the handler takes {reason}")));
    }
    assert_eq!(at::<Place>("/{zip}", "/1"), line(500, "the path lacks the parameter `city`"));
}
