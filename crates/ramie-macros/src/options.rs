//! The arguments of the attributes: a runtime's options.

use proc_macro::{Span, TokenStream, TokenTree};

use crate::Mistake;

/// An option: its name, its values, and whether only `#[ramie::test]` has it.
const OPTIONS: [(&str, &str, bool); 8] = [
    ("workers", "a number from 1 to 1024 or \"all\"", false),
    ("strands", "\"fibers\" or \"threads\"", false),
    ("driver", "\"uring\" or \"poll\"", false),
    ("stack_size", "a number of bytes from 32768 to 1073741824", false),
    ("blocking_threads", "a number from 1 to 16384", false),
    ("thread_name", "a string", false),
    ("crate", "the path of ramie as a string, such as \"my_ramie\"", false),
    ("start_paused", "true or false", true),
];

/// The parsed arguments of an attribute.
pub(crate) struct Options {
    attribute: &'static str,
    is_test: bool,
    given: Vec<String>,
    /// The path of `ramie`.
    ramie: String,
    /// The calls that set the options on `Runtime::builder()`.
    calls: Vec<String>,
}

impl Options {
    /// Reads `name = value` pairs with commas between them.
    pub(crate) fn parse(
        attribute: &'static str,
        is_test: bool,
        arguments: TokenStream,
    ) -> Result<Self, Mistake> {
        let (given, calls) = (Vec::new(), Vec::new());
        let mut options = Options { attribute, is_test, given, ramie: "::ramie".to_owned(), calls };
        let mut tokens = arguments.into_iter();
        while let Some(first) = tokens.next() {
            let TokenTree::Ident(name) = &first else {
                return Err(options.usage(first.span()));
            };
            options.expect(tokens.next(), '=', name.span())?;
            let value = match tokens.next() {
                Some(value @ (TokenTree::Literal(_) | TokenTree::Ident(_))) => value,
                other => {
                    return Err(options.usage(other.map_or(name.span(), |token| token.span())));
                }
            };
            options.set(&name.to_string(), &value.to_string(), name.span())?;
            match tokens.next() {
                None => break,
                comma => options.expect(comma, ',', value.span())?,
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, span: Span) -> Result<(), Mistake> {
        let of_name = |(option, _, of_test): &&(&str, &str, bool)| {
            *option == name && (self.is_test || !of_test)
        };
        let Some((_, range, _)) = OPTIONS.iter().find(of_name) else {
            return Err(Mistake::new(
                span,
                format!("unknown option `{name}`: {}", self.sentence()),
            ));
        };
        if self.given.iter().any(|given| given == name) {
            return Err(Mistake::new(span, format!("{name} is given twice; remove one")));
        }
        let wrong =
            || Mistake::new(span, format!("invalid value `{value}` for {name}: expected {range}"));
        self.given.push(name.to_owned());
        let number = |least, most| number(value, least, most).ok_or_else(wrong);
        let call = match (name, value) {
            ("driver", r#""uring""#) => "driver({ramie}::Driver::Uring)".to_owned(),
            ("driver", r#""poll""#) => "driver({ramie}::Driver::Poll)".to_owned(),
            ("strands", r#""fibers""#) => "strands({ramie}::Strands::Fibers)".to_owned(),
            ("strands", r#""threads""#) => "strands({ramie}::Strands::Threads)".to_owned(),
            ("workers", r#""all""#) => return Ok(()),
            ("workers", _) => format!("workers({})", number(1, 1024)?),
            ("stack_size", _) => format!("stack_size({})", number(32 << 10, 1 << 30)?),
            ("blocking_threads", _) => format!("blocking_threads({})", number(1, 16_384)?),
            ("thread_name", _) if value.starts_with('"') => format!("thread_name({value})"),
            ("crate", _) => {
                let path = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                self.ramie = path.filter(|path| is_path(path)).ok_or_else(wrong)?.to_owned();
                return Ok(());
            }
            ("start_paused", "true") => "clock({ramie}::time::ManualClock::jumping())".to_owned(),
            ("start_paused", "false") => return Ok(()),
            _ => return Err(wrong()),
        };
        self.calls.push(call);
        Ok(())
    }

    /// An expression for the function that runs a closure on a runtime with these options.
    /// `test` is the name of the function, if it is a test.
    pub(crate) fn runner(&self, test: Option<&str>) -> String {
        let ramie = &self.ramie;
        if self.calls.is_empty() && test.is_none() {
            return format!("{ramie}::run");
        }
        let in_test = test.map(|name| {
            format!(".__in_test(::core::concat!(::core::module_path!(), \"::\", {name:?}))")
        });
        let in_test = in_test.unwrap_or_default();
        let calls = self.calls.iter().map(|call| format!(".{}", call.replace("{ramie}", ramie)));
        let build =
            "build().unwrap_or_else(|error| ::std::panic!(\"cannot build the runtime: {error}\"))";
        format!("{ramie}::Runtime::builder(){}{in_test}.{build}.run", calls.collect::<String>())
    }

    fn sentence(&self) -> String {
        let known = OPTIONS.iter().filter(|(_, _, of_test)| self.is_test || !of_test);
        let known: Vec<_> = known.map(|(name, range, _)| format!("{name} = {range}")).collect();
        format!("{} takes {}", self.attribute, known.join(", "))
    }

    fn usage(&self, span: Span) -> Mistake {
        Mistake::new(span, self.sentence())
    }

    fn expect(&self, token: Option<TokenTree>, wanted: char, last: Span) -> Result<(), Mistake> {
        match token {
            Some(TokenTree::Punct(mark)) if mark.as_char() == wanted => Ok(()),
            other => Err(self.usage(other.map_or(last, |token| token.span()))),
        }
    }
}

fn number(text: &str, least: usize, most: usize) -> Option<usize> {
    let number = text.replace('_', "").parse().ok();
    number.filter(|number| (least..=most).contains(number))
}

/// Whether a text is a path: names separated by `::`, perhaps with a leading `::`.
fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_part = |letter: char| letter == '_' || letter.is_alphanumeric();
        name.chars().all(is_part) && name.chars().next().is_some_and(|first| !first.is_numeric())
    };
    text.strip_prefix("::").unwrap_or(text).split("::").all(is_name)
}
