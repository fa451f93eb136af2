//! Values and errors with lifetimes, boxed errors, and errors of other crates in each call of
//! `structured`. Most of these tests only have to compile.

use std::{error::Error, io, num::ParseIntError, sync::Arc, time::Duration};

use crate::common::on_workers;
use ramie::{
    cancel::Cancelled,
    fiber,
    structured::{
        Failure, Failures, Supervisor, any, par_map, par_map_unordered, race, set, try_par_map,
        try_scope,
    },
    sync::Event,
};

type Boxed = Box<dyn Error + Send + Sync>;

/// An error that borrows its subject.
#[derive(Debug, PartialEq)]
struct Unknown<'a>(&'a str);

impl ramie::structured::Failure for Unknown<'_> {}

fn text() -> String {
    String::from("borrowed")
}

/// Makes each call that takes errors, with children that borrow and fail with `$error`.
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

/// The error of a cancelled sibling is dropped, even if it is boxed in another crate's error.
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

/// An error whose source is an `Arc`, as that of the crate redis is. An `Arc` of an error is an
/// error, whose own source is that of the error in it.
#[derive(Debug)]
struct Shared<E: ?Sized>(Arc<E>);

impl<E: ?Sized> std::fmt::Display for Shared<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("shared")
    }
}

impl<E: Error + ?Sized + 'static> Error for Shared<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn a_cancellation_inside_an_arc_is_found() {
    let cancelled = || io::Error::from(Cancelled::because("enough"));
    let of_any = |error: io::Error| Boxed::from(Shared::<dyn Error + Send + Sync>(Arc::new(error)));
    let of_io = |error: io::Error| Boxed::from(Shared(Arc::new(error)));
    assert!(of_any(cancelled()).is_cancelled());
    assert!(of_io(cancelled()).is_cancelled());
    assert!(!of_any(io::Error::other("no")).is_cancelled());
    assert!(!of_io(io::Error::other("no")).is_cancelled());
}

/// `?` converts the failures of a scope into the error that the caller returns.
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

/// An error of the program that contains one of Ramie's. It implements `Failure`, and perhaps
/// `Error`, but its `source` does not return Ramie's error.
#[derive(Debug)]
struct Own<const IS_ERROR: bool>(io::Error);

impl<const IS_ERROR: bool> std::fmt::Display for Own<IS_ERROR> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "own: {}", self.0)
    }
}

impl<const IS_ERROR: bool> Error for Own<IS_ERROR> {}

impl<const IS_ERROR: bool> Failure for Own<IS_ERROR> {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        IS_ERROR.then_some(self as _)
    }
}

fn fails_with_own<const IS_ERROR: bool>(error: io::Error) -> Failures<Own<IS_ERROR>> {
    try_scope(|_| Err::<(), _>(Own(error))).unwrap_err()
}

/// The failures of an inner scope, boxed by `?`, are those of a strand of an outer one.
fn an_own_error_of_an_inner_scope_is_found<const IS_ERROR: bool>() {
    on_workers(|| {
        let outer = try_scope(|scope| {
            let is_inside = Arc::new(Event::new());
            let has_begun = Arc::clone(&is_inside);
            scope.spawn(move || -> Result<(), Boxed> {
                try_scope(|_| {
                    let (mut reader, _writer) = ramie::io::pipe().expect("a pipe");
                    has_begun.set();
                    io::Read::read(&mut reader, &mut [0]).map_err(Own::<IS_ERROR>)
                })?;
                Ok(())
            });
            is_inside.wait()?;
            Err::<(), Boxed>("the cause".into())
        });
        let texts: Vec<_> = outer.unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["the cause"]);
    });
}

#[test]
fn a_cancellation_is_found_in_a_custom_error_of_an_inner_scope() {
    an_own_error_of_an_inner_scope_is_found::<false>();
    an_own_error_of_an_inner_scope_is_found::<true>();
}

/// As a strand in a scope that is cancelled would return it, but without a wait.
#[test]
fn the_source_of_failures_is_their_cause_or_a_cancellation() {
    let cancelled = || io::Error::from(Cancelled::because("enough"));
    on_workers(|| {
        assert!(fails_with_own::<false>(io::Error::other("no")).source().is_none());
        let failures = fails_with_own::<true>(io::Error::other("no"));
        assert!(failures.source().is_some_and(|error| error.is::<Own<true>>()));
        let failures = fails_with_own::<false>(cancelled());
        assert!(failures.source().is_some_and(|error| error.is::<Cancelled>()));
        let failures = fails_with_own::<true>(cancelled());
        assert!(failures.source().is_some_and(|error| error.is::<Cancelled>()));

        // One whose sources lead to the cancellation is kept.
        let failures = try_scope(|_| Err::<(), _>(cancelled())).unwrap_err();
        assert!(failures.source().is_some_and(|error| error.is::<io::Error>()));

        let failures = try_scope(|_| "x".parse::<u8>().map(drop)).unwrap_err();
        assert!(failures.source().is_some_and(|error| error.is::<ParseIntError>()));

        // Failures of failures.
        let nested = try_scope(|_| Err::<(), _>(fails_with_own::<false>(cancelled())));
        let nested = nested.unwrap_err();
        assert!(nested.source().is_some_and(|error| error.is::<Cancelled>()));
    });
}

/// Compiles only if the failures are covariant in the lifetime, as a `Vec` is.
#[test]
fn failures_are_covariant_in_the_lifetime_of_their_errors() {
    fn shorter<'short>(failures: Failures<&'static str>, _: &'short str) -> Failures<&'short str> {
        failures
    }
    fn last<'short>(failures: &Failures<Unknown<'short>>, other: Unknown<'short>) -> bool {
        failures.iter().last() == Some(&other)
    }
    on_workers(|| {
        let text = text();
        let failures = shorter(try_scope(|_| Err::<(), _>("no")).unwrap_err(), &text);
        assert_eq!((failures.to_string().as_str(), failures.source().is_none()), ("no", true));
        let failures: Failures<Unknown<'static>> =
            try_scope(|_| Err::<(), _>(Unknown("no"))).unwrap_err();
        assert!(!last(&failures, Unknown(&text)));
    });
}
