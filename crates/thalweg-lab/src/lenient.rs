//! Reading JSON in which a number that is not finite was written as `null`, as JSON writers do.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Result, Value};

/// Deserialises a value; where a number is expected, `null` becomes NaN.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(Lenient(value))
}

#[derive(Clone, Copy)]
struct Lenient<'a>(&'a Value);

impl<'de> IntoDeserializer<'de, Error> for Lenient<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Lenient<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Array(list) => visitor.visit_seq(SeqDeserializer::new(list.iter().map(Lenient))),
            Value::Object(map) => {
                visitor.visit_map(MapDeserializer::new(map.iter().map(|(key, value)| (key.as_str(), Lenient(value)))))
            }
            plain => plain.clone().deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.0.is_null() { visitor.visit_f64(f64::NAN) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.0.as_object().and_then(|map| map.iter().next().filter(|_| map.len() == 1)) {
            Some((variant, content)) => visitor.visit_enum(Variant(variant, Lenient(content))),
            None => self.0.clone().deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}

/// Variant of an enum with its content.
struct Variant<'a>(&'a str, Lenient<'a>);

impl<'a, 'de> EnumAccess<'de> for Variant<'a> {
    type Error = Error;
    type Variant = Lenient<'a>;

    fn variant_seed<S: serde::de::DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Lenient<'a>)> {
        Ok((seed.deserialize(self.0.into_deserializer())?, self.1))
    }
}

impl<'de> VariantAccess<'de> for Lenient<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<S: serde::de::DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Plain,
        Number(f64),
        Named { value: f64 },
    }

    #[derive(Debug, Deserialize)]
    struct Record {
        number: f64,
        whole: u64,
        list: Vec<f64>,
        pair: (u32, f64),
        absent: Option<f64>,
        kinds: Vec<Kind>,
    }

    #[test]
    fn null_is_no_number_and_everything_else_is_read_as_usual() {
        let text = r#"{ "number": null, "whole": 3, "list": [1, null, 2.5], "pair": [7, null], "absent": null, "more": {},
            "kinds": ["plain", { "number": 2 }, { "named": { "value": 0.5 } }] }"#;
        let read: Record = read(&serde_json::from_str(text).unwrap()).unwrap();
        assert!(read.number.is_nan() && read.list[1].is_nan() && read.pair.1.is_nan());
        assert_eq!((read.whole, read.list[0], read.list[2], read.pair.0, read.absent), (3, 1.0, 2.5, 7, None));
        assert_eq!(read.kinds, [Kind::Plain, Kind::Number(2.0), Kind::Named { value: 0.5 }]);
        assert!(super::read::<u64>(&Value::Null).is_err());
    }
}
