//! The values of one name, as a source of serde.

use std::str::FromStr;

use serde::{
    Deserializer,
    de::{DeserializeSeed, IntoDeserializer, SeqAccess, Visitor, value::StrDeserializer},
};

use super::{Field, FieldError};

/// All values of one name; at least one.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    fields: &'a [&'a Field<'a>],
    /// Whether a pair is the name and the value, instead of two values.
    is_element: bool,
}

impl<'a> Values<'a> {
    pub(super) fn of_field(fields: &'a [&'a Field<'a>]) -> Self {
        Values { fields, is_element: false }
    }

    /// The value of a sequence of all fields.
    pub(super) fn of_element(fields: &'a [&'a Field<'a>]) -> Self {
        Values { fields, is_element: true }
    }

    fn text(self) -> Result<&'a str, FieldError> {
        match self.fields {
            [field] => Ok(&field.1),
            fields => Err(FieldError::repeated(fields.len())),
        }
    }

    fn parse<T: FromStr>(self, expected: &'static str) -> Result<T, FieldError> {
        let text = self.text()?;
        text.parse().map_err(|_| FieldError::unexpected(text, expected))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $expected:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            visitor.$visit(self.parse($expected)?)
        }
    )*};
}

macro_rules! as_text {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            visitor.visit_str(self.text()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Values<'_> {
    type Error = FieldError;

    parsed! {
        deserialize_bool visit_bool "`true` or `false`";
        deserialize_char visit_char "one character";
        deserialize_i8 visit_i8 "an integer from -128 to 127";
        deserialize_i16 visit_i16 "an integer from -32768 to 32767";
        deserialize_i32 visit_i32 "an integer from -2147483648 to 2147483647";
        deserialize_i64 visit_i64 "an integer of 64 bits";
        deserialize_i128 visit_i128 "an integer of 128 bits";
        deserialize_u8 visit_u8 "an integer from 0 to 255";
        deserialize_u16 visit_u16 "an integer from 0 to 65535";
        deserialize_u32 visit_u32 "an integer from 0 to 4294967295";
        deserialize_u64 visit_u64 "an integer from 0 to 18446744073709551615";
        deserialize_u128 visit_u128 "a positive integer of 128 bits";
        deserialize_f32 visit_f32 "a number";
        deserialize_f64 visit_f64 "a number";
    }

    as_text! {
        deserialize_any deserialize_str deserialize_string deserialize_identifier
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_bytes(self.text()?.as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.deserialize_bytes(visitor)
    }

    /// A form sends an input that was left empty as an empty value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.fields {
            [field] if field.1.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.text()? {
            "" => visitor.visit_unit(),
            text => Err(FieldError::unexpected(text, "empty")),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(Repeated { rest: self.fields })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self.fields {
            [field] if self.is_element && length == 2 => {
                let name = (field.0.clone(), field.0.clone());
                visitor.visit_seq(Repeated { rest: &[&name, field] })
            }
            fields => visitor.visit_seq(Repeated { rest: fields }),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldError> {
        Err(FieldError::unsupported("a map inside of a map"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, FieldError> {
        Err(FieldError::unsupported("a struct inside of a struct"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let variant: StrDeserializer<'_, FieldError> = self.text()?.into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }
}

/// The values one after another.
struct Repeated<'a> {
    rest: &'a [&'a Field<'a>],
}

impl<'de> SeqAccess<'de> for Repeated<'_> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((first, rest)) = self.rest.split_at_checked(1) else { return Ok(None) };
        self.rest = rest;
        seed.deserialize(Values::of_field(first)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}
