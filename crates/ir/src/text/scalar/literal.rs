//! Numbers as text, exactly.

use super::super::error::ParseErrorKind;
use super::super::lexer::Kind;
use super::super::parser::{Mark, Parsed, Parser, parse_unsigned};
use crate::scalar::{Const, Scalar};
use infc_tensor::{DType, DTypeClass};

/// A number whose type is not yet known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    negative: bool,
    text: String,
}

impl Literal {
    /// The text with its sign.
    pub(super) fn signed_text(&self) -> String {
        format!("{}{}", if self.negative { "-" } else { "" }, self.text)
    }

    /// True for the truth values, which have only one type.
    pub(super) fn is_bool(&self) -> bool {
        matches!(&*self.text, "true" | "false")
    }

    fn magnitude<F: std::str::FromStr>(&self) -> Option<F> {
        self.text.parse().ok()
    }

    /// The number in a type, if it is one of its values (floats round).
    fn to_const(&self, dtype: DType) -> Option<Const> {
        let sign = |x: f64| if self.negative { -x } else { x };
        match dtype.class() {
            DTypeClass::Bool => match (&*self.text, self.negative) {
                ("true", false) => Some(Const::from_i64(DType::Bool, 1)),
                ("false", false) => Some(Const::zero(DType::Bool)),
                _ => None,
            },
            DTypeClass::Signed | DTypeClass::Unsigned => {
                let magnitude = i128::from(parse_unsigned(&self.text)?);
                let value = if self.negative { -magnitude } else { magnitude };
                let bits = dtype.size_bits() as u32;
                let (lo, hi) = match dtype.class() {
                    DTypeClass::Unsigned => (0, (1i128 << bits) - 1),
                    _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                };
                (lo..=hi).contains(&value).then(|| Scalar::Int(value as i64).to_const(dtype))
            }
            // Directly, to round once.
            DTypeClass::Float if dtype == DType::F32 => {
                Some(Const::from_f64(dtype, sign(f64::from(self.magnitude::<f32>()?))))
            }
            DTypeClass::Float if matches!(dtype, DType::F64 | DType::F16 | DType::BF16) => {
                Some(Const::from_f64(dtype, sign(self.magnitude::<f64>()?)))
            }
            _ => None,
        }
    }
}

impl Parser<'_> {
    /// True if a number is next, with its sign.
    pub(super) fn is_literal(&self) -> bool {
        self.is_literal_after(if self.is("-") { 1 } else { 0 })
    }

    pub(super) fn literal(&mut self) -> Parsed<Literal> {
        let negative = self.eat("-");
        let text = match self.peek() {
            Kind::Int(text) | Kind::Float(text) | Kind::Ident(text @ ("inf" | "nan" | "true" | "false")) => {
                (*text).to_owned()
            }
            _ => return self.expected("a number"),
        };
        self.advance();
        Ok(Literal { negative, text })
    }

    pub(super) fn typed(&self, mark: Mark, literal: &Literal, dtype: DType) -> Parsed<Const> {
        literal
            .to_const(dtype)
            .ok_or_else(|| self.error_at(mark, ParseErrorKind::WrongLiteral { text: literal.signed_text(), dtype }))
    }

    /// A number of a known type: `-1.5`, `true`, or `bits(f8e5m2, 0x3c)`.
    pub(in super::super) fn constant(&mut self, dtype: DType) -> Parsed<Const> {
        let mark = self.mark();
        if self.is_word("bits") {
            return self.bits();
        }
        let literal = self.literal()?;
        self.typed(mark, &literal, dtype)
    }

    /// `bits(TYPE, BITS)`.
    pub(super) fn bits(&mut self) -> Parsed<Const> {
        self.expect_word("bits")?;
        self.expect("(")?;
        let dtype = self.dtype()?;
        self.expect(",")?;
        let mark = self.mark();
        let bits = self.unsigned()?;
        self.expect(")")?;
        let size_bits = dtype.size_bits();
        if size_bits == 0 || size_bits > 64 || (size_bits < 64 && bits >> size_bits != 0) {
            let what = format!("the type {dtype}");
            return Err(self.error_at(mark, ParseErrorKind::NumberOutOfRange { text: format!("{bits:#x}"), what }));
        }
        Ok(Const { dtype, bits })
    }
}

/// A constant as text that reads back to the same bits, given its type.
pub(in super::super) fn constant_text(c: Const) -> String {
    let value = Scalar::from_const(c);
    let text = match (c.dtype.class(), value) {
        (DTypeClass::Bool, _) => (c.bits != 0).to_string(),
        (DTypeClass::Unsigned, Scalar::Int(x)) => (x as u64).to_string(),
        (DTypeClass::Signed, Scalar::Int(x)) => x.to_string(),
        (DTypeClass::Float, Scalar::Float(x)) => match c.dtype {
            _ if x.is_nan() => "nan".to_owned(),
            DType::F64 => format!("{x:?}"),
            // The shorter types are exact in f32.
            _ => format!("{:?}", x as f32),
        },
        _ => String::new(),
    };
    let bare = text.strip_prefix('-').unwrap_or(&text);
    let literal = Literal { negative: bare.len() != text.len(), text: bare.to_owned() };
    if literal.to_const(c.dtype) == Some(c) {
        // `1.0` reads as well without its fraction.
        return text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    }
    format!("bits({}, {:#x})", c.dtype, c.bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_constant_reads_back() {
        for (dtype, bits) in [
            (DType::F32, 0x3f80_0000),
            (DType::F32, 0x8000_0000),
            (DType::F32, 0x0000_0001),
            (DType::F32, 0x7f80_0000),
            (DType::F32, 0xff80_0000),
            (DType::F32, 0x7fc0_0000),
            (DType::F32, 0x7fc0_0001),
            (DType::F32, 0x7f7f_ffff),
            (DType::F64, 0x3fb9_9999_9999_999a),
            (DType::F16, 0x2e66),
            (DType::BF16, 0x3dcd),
            (DType::F8E5M2, 0x3c),
            (DType::I64, 1 << 63),
            (DType::U64, u64::MAX),
            (DType::I4, 0xf),
            (DType::U2, 3),
            (DType::Bool, 1),
        ] {
            let c = Const { dtype, bits };
            let text = constant_text(c);
            let mut parser = Parser::new(&text).expect("lexes");
            assert_eq!(parser.constant(dtype), Ok(c), "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_their_type_are_refused() {
        for (text, dtype) in [("256", DType::U8), ("-1", DType::U8), ("1.5", DType::I32), ("1", DType::Bool)] {
            assert!(Parser::new(text).expect("lexes").constant(dtype).is_err(), "{text}");
        }
        assert!(Parser::new("bits(u8, 0x100)").expect("lexes").constant(DType::U8).is_err());
    }
}
