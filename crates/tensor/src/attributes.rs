//! The attributes of one ONNX node, with typed access.
//!
//! The frontend fills them from `AttributeProto`, operators that are not compiled carry them through graph and artifact,
//! and `reference` evaluates with them. Attributes that are graphs (`If`, `Loop`) are [`Subgraphs`](crate::Subgraphs).

use crate::Tensor;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The value of one attribute, as in ONNX's `AttributeProto`. The order of the variants is part of the artifact format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Attribute {
    /// One integer; also how ONNX stores booleans and element types.
    Int(i64),
    /// One float.
    Float(f32),
    /// One string; ONNX stores bytes, which are UTF-8 for every attribute of the standard.
    String(String),
    /// One constant tensor.
    Tensor(Tensor),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of floats.
    Floats(Vec<f32>),
    /// A list of strings.
    Strings(Vec<String>),
    /// A list of constant tensors.
    Tensors(Vec<Tensor>),
}

impl Attribute {
    /// What the attribute holds, in the words of messages: `an integer`, `a list of floats`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Attribute::Int(_) => "an integer",
            Attribute::Float(_) => "a float",
            Attribute::String(_) => "a string",
            Attribute::Tensor(_) => "a tensor",
            Attribute::Ints(_) => "a list of integers",
            Attribute::Floats(_) => "a list of floats",
            Attribute::Strings(_) => "a list of strings",
            Attribute::Tensors(_) => "a list of tensors",
        }
    }
}

macro_rules! from_value {
    ($($value:ty => $variant:ident),* $(,)?) => {
        $(impl From<$value> for Attribute {
            fn from(value: $value) -> Self {
                Attribute::$variant(value)
            }
        })*
    };
}

from_value! {
    i64 => Int, f32 => Float, String => String, Tensor => Tensor,
    Vec<i64> => Ints, Vec<f32> => Floats, Vec<String> => Strings, Vec<Tensor> => Tensors,
}

impl From<&str> for Attribute {
    fn from(value: &str) -> Self {
        Attribute::String(value.to_owned())
    }
}

/// An attribute is there, but holds something else than the operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attribute `{name}` is {found}, expected {expected}")]
pub struct AttributeError {
    /// The name of the attribute.
    pub name: String,
    /// What the operator asks for: `an integer`.
    pub expected: &'static str,
    /// What the node has: `a list of floats`.
    pub found: &'static str,
}

/// The attributes of one node by name, in the order of the names.
///
/// # Examples
/// ```
/// use infc_tensor::{Attribute, Attributes};
///
/// let attributes = Attributes::from_iter([("axis", Attribute::Int(-1)), ("mode", "linear".into())]);
/// assert_eq!(attributes.int_or("axis", 0)?, -1);
/// assert_eq!(attributes.int_or("keepdims", 1)?, 1);
/// assert!(attributes.int_or("mode", 0).is_err());
/// # Ok::<(), infc_tensor::AttributeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes {
    values: BTreeMap<String, Attribute>,
    #[serde(skip)]
    prepared: Prepared,
}

/// What an operator has made of its attributes: kept beside them, and no part of what they are.
#[derive(Clone, Default)]
struct Prepared(OnceLock<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Prepared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "there" } else { "none" })
    }
}

macro_rules! getters {
    ($($get:ident: $variant:ident => $expected:literal, $value:ty, $read:expr;)*) => {
        $(
            #[doc = concat!("The attribute `name`, which must be ", $expected, "; `None` if the node has none.")]
            ///
            /// # Errors
            /// [`AttributeError`] if the attribute holds something else.
            pub fn $get<'a>(&'a self, name: &str) -> Result<Option<$value>, AttributeError> {
                let read: fn(&'a _) -> $value = $read;
                match self.values.get(name) {
                    None => Ok(None),
                    Some(Attribute::$variant(value)) => Ok(Some(read(value))),
                    Some(other) => {
                        Err(AttributeError { name: name.to_owned(), expected: $expected, found: other.kind() })
                    }
                }
            }
        )*
    };
}

impl Attributes {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute and returns the one of the same name that it replaces.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Attribute>) -> Option<Attribute> {
        self.prepared = Prepared::default();
        self.values.insert(name.into(), value.into())
    }

    /// The attribute `name`, whatever it holds.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.values.get(name)
    }

    /// True if there is an attribute `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All attributes, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Attribute)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// What the operator makes of the attributes, which `prepare` makes the first time: a node that is evaluated again and
    /// again need not read long lists each time.
    ///
    /// # Errors
    /// Those of `prepare`.
    pub fn prepared<T: Any + Send + Sync, E>(&self, prepare: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let known = self.prepared.0.get().and_then(|known| Arc::clone(known).downcast::<T>().ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(prepare()?);
        // Whoever comes second keeps what it made to itself: both are the same.
        let _ = self.prepared.0.set(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        Ok(made)
    }

    getters! {
        int: Int => "an integer", i64, |v| *v;
        float: Float => "a float", f32, |v| *v;
        string: String => "a string", &'a str, String::as_str;
        tensor: Tensor => "a tensor", &'a Tensor, |v| v;
        ints: Ints => "a list of integers", &'a [i64], Vec::as_slice;
        floats: Floats => "a list of floats", &'a [f32], Vec::as_slice;
        strings: Strings => "a list of strings", &'a [String], Vec::as_slice;
    }

    /// The attribute `name`, which must be an integer, or `default`.
    ///
    /// # Errors
    /// [`AttributeError`] if the attribute holds something else.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, AttributeError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// The attribute `name`, which must be a float, or `default`.
    ///
    /// # Errors
    /// [`AttributeError`] if the attribute holds something else.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32, AttributeError> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// The attribute `name`, which must be a string, or `default`.
    ///
    /// # Errors
    /// [`AttributeError`] if the attribute holds something else.
    pub fn string_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, AttributeError> {
        Ok(self.string(name)?.unwrap_or(default))
    }
}

impl<N: Into<String>, A: Into<Attribute>> FromIterator<(N, A)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, A)>>(attributes: I) -> Self {
        let values = attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { values, prepared: Prepared::default() }
    }
}

impl<N: Into<String>, A: Into<Attribute>> Extend<(N, A)> for Attributes {
    fn extend<I: IntoIterator<Item = (N, A)>>(&mut self, attributes: I) {
        self.prepared = Prepared::default();
        self.values.extend(attributes.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn what_is_prepared_is_made_once_and_anew_for_other_values() {
        let mut attributes: Attributes = [("n", Attribute::Int(3))].into_iter().collect();
        let prepare = |attributes: &Attributes, made: i64| {
            let prepared = attributes.prepared(|| Ok::<_, Infallible>(made));
            *prepared.unwrap_or_else(|error| match error {})
        };
        assert_eq!((prepare(&attributes, 1), prepare(&attributes, 2)), (1, 1));
        // It is no part of what attributes are.
        let plain: Attributes = [("n", Attribute::Int(3))].into_iter().collect();
        assert_eq!(attributes, plain);
        attributes.insert("n", Attribute::Int(4));
        assert_eq!(prepare(&attributes, 3), 3);
        attributes.extend([("m", Attribute::Int(4))]);
        assert_eq!(prepare(&attributes, 4), 4);
        // Failing leaves nothing behind.
        let other = plain.clone();
        assert_eq!(other.prepared(|| Err::<i64, _>("no")), Err("no"));
        assert_eq!(prepare(&other, 5), 5);
    }
}
