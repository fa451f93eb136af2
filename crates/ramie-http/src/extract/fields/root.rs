//! All fields, as a source of serde.

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use smallvec::SmallVec;

use super::{Field, FieldError, FieldsOf, values::Values};

/// All fields of a path, a query or a form.
pub(super) struct Root<'a> {
    pub(super) fields: &'a [Field<'a>],
    pub(super) of: FieldsOf,
}

/// References to fields; few requests have more than eight.
type References<'a> = SmallVec<[&'a Field<'a>; 8]>;

impl<'a> Root<'a> {
    /// Hands the only field to `read`.
    fn single<T>(
        &self,
        read: impl FnOnce(Values<'_>) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        match self.fields {
            _ if self.of != FieldsOf::Path => Err(FieldError::unsupported("a single value")),
            [field] => {
                let values = [field];
                read(Values::of_field(&values)).map_err(|error| error.of(&field.0))
            }
            fields => Err(FieldError::count(1, fields.len())),
        }
    }

    fn references(&self) -> References<'a> {
        self.fields.iter().collect()
    }

    fn visit_seq<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(Elements { rest: &self.references() })
    }

    fn visit_map<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, FieldError> {
        let mut sorted = self.references();
        // Fields of one name stand together; a stable sort leaves their values in order.
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        visitor.visit_map(Groups { rest: &sorted, values: &[] })
    }
}

macro_rules! by_the_single_field {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            self.single(|values| values.$method(visitor))
        }
    )*};
}

impl<'de> Deserializer<'de> for Root<'_> {
    type Error = FieldError;

    by_the_single_field! {
        deserialize_bool deserialize_char
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_identifier
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.visit_map(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.fields {
            [] => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.visit_seq(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self.fields.len() {
            // The order of a query means nothing.
            _ if self.of != FieldsOf::Path => Err(FieldError::unsupported("a tuple")),
            found if found != length => Err(FieldError::count(length, found)),
            _ => self.visit_seq(visitor),
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

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.visit_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.visit_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.single(|values| values.deserialize_enum(name, variants, visitor))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }
}

/// The fields one after another, as values, or as pairs of a name and a value.
struct Elements<'a> {
    rest: &'a [&'a Field<'a>],
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((first, rest)) = self.rest.split_at_checked(1) else { return Ok(None) };
        self.rest = rest;
        let element = seed.deserialize(Values::of_element(first));
        element.map(Some).map_err(|error| error.of(&first[0].0))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The names, each with all its values.
struct Groups<'a> {
    /// Sorted by name.
    rest: &'a [&'a Field<'a>],
    /// Those of the key that was read last.
    values: &'a [&'a Field<'a>],
}

impl<'de> MapAccess<'de> for Groups<'_> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, FieldError> {
        let Some(first) = self.rest.first() else { return Ok(None) };
        let count = self.rest.iter().take_while(|field| field.0 == first.0).count();
        (self.values, self.rest) = self.rest.split_at(count);
        let key = (first.0.clone(), first.0.clone());
        seed.deserialize(Values::of_field(&[&key])).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, FieldError> {
        let value = seed.deserialize(Values::of_field(self.values));
        value.map_err(|error| error.of(&self.values[0].0))
    }
}
