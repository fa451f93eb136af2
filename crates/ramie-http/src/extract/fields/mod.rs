//! Names with values, as in a path, a query or a form, and how serde reads types from them.

mod error;
mod root;
mod urlencoded;
mod values;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use self::root::Root;
pub(super) use self::{error::FieldError, urlencoded::parse_urlencoded};
use super::Rejection;

/// A decoded name with its decoded value.
pub(super) type Field<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Where fields were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldsOf {
    Path,
    Query,
    Form,
}

impl FieldsOf {
    fn whole(self) -> &'static str {
        match self {
            FieldsOf::Path => "path",
            FieldsOf::Query => "query",
            FieldsOf::Form => "form",
        }
    }

    fn one(self) -> &'static str {
        match self {
            FieldsOf::Path | FieldsOf::Query => "parameter",
            FieldsOf::Form => "field",
        }
    }
}

/// Makes a value of the fields.
pub(super) fn deserialize<T: DeserializeOwned>(
    fields: &[Field<'_>],
    of: FieldsOf,
) -> Result<T, Rejection> {
    T::deserialize(Root { fields, of }).map_err(|error| error.into_rejection(of))
}
