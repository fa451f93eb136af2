//! The arguments of `#[ramie::test]`: a runtime's options.

use proc_macro::{Span, TokenStream, TokenTree};

use crate::Mistake;

const USAGE: &str = "#[ramie::test] takes driver = \"uring\" or \"poll\", strands = \"fibers\" or \
                     \"threads\", and workers = a number or \"all\"";
const MAX_WORKERS: usize = 1024;

/// The calls that set the options on `ramie::Runtime::builder()`.
#[derive(Default)]
pub(crate) struct Options {
    given: Vec<String>,
    calls: String,
}

impl Options {
    /// Reads `name = value` pairs with commas between them.
    pub(crate) fn parse(arguments: TokenStream) -> Result<Self, Mistake> {
        let mut options = Options::default();
        let mut tokens = arguments.into_iter();
        while let Some(first) = tokens.next() {
            let TokenTree::Ident(name) = &first else {
                return Err(Mistake::new(first.span(), USAGE));
            };
            expect(tokens.next(), '=', name.span())?;
            let Some(TokenTree::Literal(value)) = tokens.next() else {
                return Err(Mistake::new(name.span(), USAGE));
            };
            options.set(&name.to_string(), &value.to_string(), name.span())?;
            match tokens.next() {
                None => break,
                comma => expect(comma, ',', value.span())?,
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, span: Span) -> Result<(), Mistake> {
        if self.given.iter().any(|given| given == name) {
            return Err(Mistake::new(span, format!("{name} is given twice; leave one out")));
        }
        let call = match (name, value) {
            ("driver", r#""uring""#) => ".driver(::ramie::Driver::Uring)".to_owned(),
            ("driver", r#""poll""#) => ".driver(::ramie::Driver::Poll)".to_owned(),
            ("strands", r#""fibers""#) => ".strands(::ramie::Strands::Fibers)".to_owned(),
            ("strands", r#""threads""#) => ".strands(::ramie::Strands::Threads)".to_owned(),
            ("workers", r#""all""#) => String::new(),
            ("workers", count) => format!(".workers({})", workers(count, span)?),
            _ => return Err(Mistake::new(span, format!("not {name} = {value}: {USAGE}"))),
        };
        self.given.push(name.to_owned());
        self.calls += &call;
        Ok(())
    }

    /// The function that runs a closure on such a runtime, as an expression.
    pub(crate) fn runner(&self) -> String {
        let build = "build().unwrap_or_else(|error| ::std::panic!(\"no runtime: {error}\"))";
        format!("::ramie::Runtime::builder(){}.{build}.run", self.calls)
    }
}

fn workers(count: &str, span: Span) -> Result<usize, Mistake> {
    let count = count.replace('_', "").parse().ok();
    count.filter(|count| (1..=MAX_WORKERS).contains(count)).ok_or_else(|| {
        Mistake::new(span, format!("workers is \"all\" or a number from 1 to {MAX_WORKERS}"))
    })
}

fn expect(token: Option<TokenTree>, wanted: char, last: Span) -> Result<(), Mistake> {
    match token {
        Some(TokenTree::Punct(mark)) if mark.as_char() == wanted => Ok(()),
        other => Err(Mistake::new(other.map_or(last, |token| token.span()), USAGE)),
    }
}
