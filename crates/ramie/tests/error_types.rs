//! Values and errors of every kind in every joiner: with lifetimes, boxed, of other crates. Most of
//! what these tests say, they say by compiling.

mod common;

use std::{error::Error, io, time::Duration};

use common::on_workers;
use ramie::{
    fiber,
    structured::{
        Failures, Supervisor, any, par_map, par_map_unordered, race, set, try_par_map, try_scope,
    },
};

type Boxed = Box<dyn Error + Send + Sync>;

/// An error that borrows what it tells of.
#[derive(Debug, PartialEq)]
struct Unknown<'a>(&'a str);

impl ramie::structured::Failure for Unknown<'_> {}

fn text() -> String {
    String::from("borrowed")
}

/// Calls each joiner that knows errors, with children that borrow and fail with `$error`.
macro_rules! joiners {
    ($name:ident, $type:ty, $text:ident, $error:expr) => {
        #[test]
        fn $name() {
            on_workers(|| {
                let $text = text();
                let failed: Result<(), Failures<$type>> = try_scope(|scope| {
                    scope.spawn(|| {
                        scope.spawn(|| Ok($text.len()));
                        Err::<&str, $type>($error)
                    });
                    scope.spawn_local(|| Ok($text.as_str()));
                    Ok(())
                });
                assert!(failed.is_err());

                let failed: Result<(usize, &str), Failures<$type>> =
                    ramie::try_join!(Ok($text.len()), Err($error));
                assert!(failed.is_err());

                let failed: Result<&str, Option<Failures<$type>>> = any(|racers| {
                    racers.spawn_try(|| if $text.is_empty() { Ok(&*$text) } else { Err($error) });
                });
                assert!(failed.is_err());

                let first: Option<Result<&str, $type>> = race(|racers| {
                    racers.spawn(|| if $text.is_empty() { Ok(&*$text) } else { Err($error) });
                });
                assert!(first.unwrap().is_err());

                let failed: Vec<Result<&str, $type>> = set(|set| {
                    set.spawn(|| if $text.is_empty() { Ok(&*$text) } else { Err($error) });
                    set.outcomes().map(Result::unwrap).collect()
                });
                assert!(failed[0].is_err());

                let failed: Result<Vec<&str>, Failures<$type>> = try_par_map([&$text], 2, |text| {
                    if text.is_empty() { Ok(&**text) } else { Err($error) }
                });
                assert!(failed.is_err());

                let mut failed: Vec<Result<&str, $type>> =
                    par_map(
                        [&$text],
                        2,
                        |text| if text.is_empty() { Ok(&**text) } else { Err($error) },
                    );
                par_map_unordered(
                    [&$text],
                    2,
                    |text| if text.is_empty() { Ok(&**text) } else { Err($error) },
                    |result| failed.push(result),
                );
                assert!(failed.iter().all(Result::is_err));

                let (length, failed): (usize, Result<&str, $type>) = ramie::join!(
                    $text.len(),
                    if $text.is_empty() { Ok(&*$text) } else { Err($error) }
                );
                assert!(length == 8 && failed.is_err());

                let failed: Result<&str, $type> = fiber::scope(|scope| {
                    scope.spawn(|| if $text.is_empty() { Ok(&*$text) } else { Err($error) }).join()
                })
                .unwrap();
                assert!(failed.is_err());

                let gave_up = Supervisor::new().limit(0, Duration::ZERO).run(|children| {
                    children.add("child", || {
                        if $text.is_empty() { Ok(()) } else { Err::<(), $type>($error) }
                    });
                });
                assert!(gave_up.unwrap_err().error().is_some());
            });
        }
    };
}

joiners!(a_box_of_any_error, Boxed, text, Boxed::from(text.as_str()));
joiners!(a_text_for_ever, &'static str, text, "no");
joiners!(a_borrowed_text, &str, text, text.as_str());
joiners!(a_borrowed_error, Unknown<'_>, text, Unknown(&text));
joiners!(an_error_of_anyhow, anyhow::Error, text, anyhow::anyhow!("{text}"));
joiners!(an_io_error, io::Error, text, io::Error::other(text.as_str()));

/// A cancelled sibling is no failure in its own right, whatever box its error comes in.
#[test]
fn a_cancellation_inside_another_crates_error_is_found() {
    fn fails<E: From<io::Error>>(error: &str) -> Result<(), E> {
        Err(io::Error::other(error))?
    }
    fn waits<E: From<io::Error>>() -> Result<(), E> {
        let (mut reader, _writer) = ramie::io::pipe()?;
        io::Read::read(&mut reader, &mut [0])?;
        Ok(())
    }
    on_workers(|| {
        let by_anyhow: Result<(), Failures<anyhow::Error>> = try_scope(|scope| {
            scope.spawn(waits);
            fails("the cause")
        });
        assert_eq!(by_anyhow.unwrap_err().to_string(), "the cause");
        let boxed: Result<(), Failures<Boxed>> = try_scope(|scope| {
            scope.spawn(waits);
            fails("the cause")
        });
        assert_eq!(boxed.unwrap_err().to_string(), "the cause");
    });
}

/// `?` leads from the failures of a scope into the error that its caller returns.
#[test]
fn failures_become_the_callers_error() {
    fn by_anyhow() -> anyhow::Result<()> {
        try_scope(|_| Err::<(), _>(anyhow::anyhow!("no")))?;
        Ok(())
    }
    fn boxed() -> Result<(), Boxed> {
        try_scope(|_| Err::<(), _>(Boxed::from(io::Error::other("no"))))?;
        Ok(())
    }
    on_workers(|| {
        assert_eq!(by_anyhow().unwrap_err().to_string(), "no");
        let error = boxed().unwrap_err();
        assert!(error.source().expect("the cause").is::<io::Error>());
    });
}
