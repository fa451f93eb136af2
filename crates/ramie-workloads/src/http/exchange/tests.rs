//! Requests whole, in pieces, pipelined and wrong; no sockets.

use std::sync::LazyLock;

use super::{AfterAnswers, Exchange, HEAD_MAX, Page};
use crate::http::WriteMode;

static PAGE: LazyLock<Page> = LazyLock::new(|| Page::of(14, WriteMode::Single));

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n\
                     Hello, world!\n";

/// Feeds `input` in pieces of at most `piece` bytes, until the exchange ends or all is used.
fn feed(input: &str, piece: usize, is_last: bool) -> (String, AfterAnswers) {
    let mut exchange = Exchange::default();
    let (mut rest, mut next) = (input.as_bytes(), AfterAnswers::Read);
    while !rest.is_empty() && next == AfterAnswers::Read {
        let (now, later) = rest.split_at(piece.min(rest.len()));
        rest = later;
        next = exchange.receive(now, is_last, &PAGE);
    }
    (text(&exchange, &PAGE), next)
}

fn text(exchange: &Exchange, page: &Page) -> String {
    let bytes = exchange.answers(page).flatten().collect::<Vec<_>>().concat();
    String::from_utf8(bytes).unwrap()
}

fn status(input: &str) -> (String, AfterAnswers) {
    let (answer, next) = feed(input, usize::MAX, false);
    (answer.split(' ').nth(1).unwrap_or_default().to_owned(), next)
}

#[test]
fn a_get_in_any_pieces_is_answered() {
    for piece in [1, 2, 7, usize::MAX] {
        assert_eq!(feed(GET, piece, false), (HELLO.to_owned(), AfterAnswers::Read), "{piece}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for piece in [1000, 10_000, usize::MAX] {
        let (answer, next) = feed(&GET.repeat(1000), piece, false);
        assert_eq!((answer, next), (HELLO.repeat(1000), AfterAnswers::Read), "{piece}");
    }
}

#[test]
fn the_answer_to_head_has_the_length_but_no_body() {
    let (answer, _) = feed("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", usize::MAX, false);
    assert_eq!(answer, HELLO.trim_end_matches("Hello, world!\n"));
}

#[test]
fn connections_close_when_asked_to() {
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n";
    let (answer, next) = feed(close, usize::MAX, false);
    assert!(answer.contains("Connection: close\r\n"));
    assert_eq!(next, AfterAnswers::Close);
    // A request after it is read and not answered.
    assert_eq!(feed(&format!("{close}{GET}"), usize::MAX, false).1, AfterAnswers::CloseAfterRest);
    assert_eq!(feed("GET / HTTP/1.0\r\n\r\n", usize::MAX, false).1, AfterAnswers::Close);
    let stay = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let (answer, next) = feed(stay, usize::MAX, false);
    assert!(answer.contains("Connection: keep-alive\r\n"));
    assert_eq!(next, AfterAnswers::Read);
}

#[test]
fn a_stopping_server_closes_the_connection_in_its_answer() {
    let (answer, next) = feed(GET, usize::MAX, true);
    assert!(answer.contains("Connection: close\r\n"));
    assert_eq!(next, AfterAnswers::Close);
}

#[test]
fn other_methods_are_refused_and_their_bodies_skipped() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /";
    for piece in [1, 9, usize::MAX] {
        let (answer, next) = feed(&format!("{post}{GET}"), piece, false);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains("Allow: GET, HEAD\r\n"));
        assert!(answer.ends_with(HELLO));
        assert_eq!(next, AfterAnswers::Read);
    }
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(status(chunked), ("405".to_owned(), AfterAnswers::CloseAfterRest));
}

#[test]
fn bad_requests_are_refused() {
    for bad in [
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nHo st: a\r\n\r\n",
    ] {
        assert_eq!(status(bad), ("400".to_owned(), AfterAnswers::CloseAfterRest), "{bad:?}");
    }
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(HEAD_MAX));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100));
    let some = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(63));
    let largest = HEAD_MAX - "GET / HTTP/1.1\r\nHost: a\r\n\r\n".len();
    let fits = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(largest));
    for piece in [100, 1000, usize::MAX] {
        for refused in [&long, &many] {
            let (answer, next) = feed(refused, piece, false);
            assert!(answer.starts_with("HTTP/1.1 431 "), "{piece}: {answer}");
            assert_eq!(next, AfterAnswers::CloseAfterRest);
        }
        // A head of exactly the largest size is answered, even after another in the same piece.
        for answered in [&some, &fits] {
            let twice = format!("{GET}{answered}");
            assert_eq!(
                feed(&twice, piece, false),
                (HELLO.repeat(2), AfterAnswers::Read),
                "{piece}"
            );
        }
    }
}

#[test]
fn nothing_is_held_between_requests() {
    let mut exchange = Exchange::default();
    let (begin, end) = GET.split_at(9);
    for round in 0..3 {
        assert_eq!(exchange.receive(begin.as_bytes(), false, &PAGE), AfterAnswers::Read);
        assert!(!exchange.is_between_requests(), "{round}");
        assert_eq!(exchange.receive(end.as_bytes(), false, &PAGE), AfterAnswers::Read);
        assert!(exchange.is_between_requests(), "{round}");
        assert_eq!(exchange.begun.capacity(), 0, "{round}");
    }
    assert_eq!(exchange.receive(GET.repeat(1000).as_bytes(), false, &PAGE), AfterAnswers::Read);
    exchange.answers_are_sent();
    assert!(exchange.output.capacity() <= super::OUTPUT_KEPT);
}

#[test]
fn a_page_that_is_not_copied_is_sent_from_where_it_lies() {
    let page = Page::of(30, WriteMode::Vectored);
    let mut exchange = Exchange::default();
    let requests =
        [GET, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", GET, "PUT / HTTP/1.1\r\nHost: a\r\n\r\n"];
    let next = exchange.receive(requests.concat().as_bytes(), false, &page);
    let pairs: Vec<_> = exchange.answers(&page).collect();
    assert_eq!((next, exchange.served(), pairs.len()), (AfterAnswers::Read, 2, 3));
    assert!(pairs[..2].iter().all(|[_, body]| std::ptr::eq(*body, page.body())));
    let sent = text(&exchange, &page);
    assert_eq!(sent.matches("Content-Length: 30\r\n").count(), 3, "{sent}");
    assert_eq!(
        sent.matches("\r\n\r\nHello, world!\nHello, world!\nHeHTTP/1.1 ").count(),
        2,
        "{sent}"
    );
    let copied = Page::of(30, WriteMode::Single);
    let mut other = Exchange::default();
    other.receive(requests.concat().as_bytes(), false, &copied);
    assert_eq!((other.answers(&copied).count(), text(&other, &copied)), (1, sent));
    exchange.answers_are_sent();
    assert_eq!(exchange.answers(&page).count(), 0);
}
