//! Why a type cannot be made of fields.

use std::fmt;

use http::StatusCode;
use serde::de;

use super::FieldsOf;
use crate::extract::Rejection;

/// The most characters of a client's value that a sentence repeats.
const QUOTED: usize = 40;

/// Why a type cannot be made of fields, and of which one, if the fault is that of one.
#[derive(Debug)]
pub(crate) struct FieldError {
    name: Option<String>,
    fault: FieldFault,
}

#[derive(Debug)]
enum FieldFault {
    /// The value is not one of the type.
    Unexpected { value: String, expected: &'static str },
    /// The name occurs this often, but the type takes one value.
    Repeated(usize),
    /// The type needs a field of this name.
    Missing(&'static str),
    /// In the words of serde or of the type.
    Other(String),
    /// The type takes a number of values, and there is another one.
    Count { expected: usize, found: usize },
    /// No fields can become such a type.
    Unsupported(&'static str),
}

impl FieldError {
    fn new(fault: FieldFault) -> Self {
        FieldError { name: None, fault }
    }

    pub(super) fn unexpected(value: &str, expected: &'static str) -> Self {
        FieldError::new(FieldFault::Unexpected { value: value.to_owned(), expected })
    }

    pub(super) fn repeated(count: usize) -> Self {
        FieldError::new(FieldFault::Repeated(count))
    }

    pub(super) fn count(expected: usize, found: usize) -> Self {
        FieldError::new(FieldFault::Count { expected, found })
    }

    pub(super) fn unsupported(shape: &'static str) -> Self {
        FieldError::new(FieldFault::Unsupported(shape))
    }

    /// Names the field whose value has this error.
    pub(super) fn of(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The response for the client: 500 if no request could be right, because the route and the
    /// type of the handler differ.
    pub(super) fn into_rejection(self, of: FieldsOf) -> Rejection {
        let reason = self.sentence(of);
        let is_of_program = match self.fault {
            FieldFault::Count { .. } | FieldFault::Unsupported(_) => true,
            FieldFault::Missing(_) => of == FieldsOf::Path,
            _ => false,
        };
        match of {
            _ if is_of_program => Rejection::of_program(reason),
            FieldsOf::Form => Rejection::new(StatusCode::UNPROCESSABLE_ENTITY, reason),
            FieldsOf::Path | FieldsOf::Query => Rejection::new(StatusCode::BAD_REQUEST, reason),
        }
    }

    fn sentence(&self, of: FieldsOf) -> String {
        let (whole, one) = (of.whole(), of.one());
        let subject = match &self.name {
            Some(name) => format!("the {one} `{}` of the {whole}", Shortened(name)),
            None => format!("the {whole}"),
        };
        match &self.fault {
            FieldFault::Unexpected { value, expected } => {
                format!("{subject} is `{}`, but must be {expected}", Shortened(value))
            }
            FieldFault::Repeated(count) => {
                format!("{subject} is given {count} times, but must be given once")
            }
            FieldFault::Missing(name) => format!("the {whole} lacks the {one} `{name}`"),
            FieldFault::Other(message) => format!("{subject} is invalid: {message}"),
            FieldFault::Count { expected, found } => format!(
                "the handler takes {expected} {one}{} of the {whole}, but the route has {found}",
                if *expected == 1 { "" } else { "s" },
            ),
            FieldFault::Unsupported(shape) => {
                format!("the handler takes {shape}, which {subject} cannot be")
            }
        }
    }
}

/// The begin of a client's text, without control characters.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(QUOTED).map(|(at, _)| at);
        let begin = &self.0[..end.unwrap_or(self.0.len())];
        let mark = if end.is_some() { "..." } else { "" };
        write!(f, "{}{mark}", begin.escape_debug())
    }
}

/// Serde requires it; the response has the sentence of [`FieldError::into_rejection`].
impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(FieldsOf::Form))
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        FieldError::new(FieldFault::Other(message.to_string()))
    }

    fn missing_field(name: &'static str) -> Self {
        FieldError::new(FieldFault::Missing(name))
    }
}
