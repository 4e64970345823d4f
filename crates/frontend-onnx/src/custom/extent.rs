//! Extents as custom operators declare them: patterns of inputs, expressions of outputs.
//!
//! ```text
//! pattern = NUMBER | NAME | "?" | "..."            the last stands for any axes, once per shape
//! extent  = sum | "?" | "..."                      "?" is told by the run
//! sum     = product (("+" | "-") product)*
//! product = factor ("*" factor | ("/" | "%") NUMBER)*
//! factor  = NUMBER | NAME | "@" NAME | ("min" | "max") "(" sum "," sum ")" | "(" sum ")"
//! ```
//!
//! A name is an extent of an input; after `@` it is an attribute, an integer. Division rounds down.

use infc_ir::index::Dim;
use std::iter::Peekable;
use std::str::Chars;

/// How long the text of an extent may be, which also bounds how deep it nests.
const MAX_LEN: usize = 128;

/// The greatest number in an extent.
const MAX_NUMBER: i64 = 1 << 40;

/// An extent of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    Number(i64),
    Name(String),
    Attribute(String),
    Operation(Operation, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    /// By a positive number.
    Div,
    /// As `Div`.
    Mod,
    Min,
    Max,
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// What was expected where something else was found.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LEN {
            return Err(format!("expected at most {MAX_LEN} characters"));
        }
        let mut parser = Parser { rest: text.chars().peekable() };
        let parsed = parser.sum()?;
        match parser.peek() {
            None => Ok(parsed),
            Some(_) => Err("expected an operator or the end".to_owned()),
        }
    }

    /// Every name of an extent of an input.
    pub(super) fn for_each_name(&self, f: &mut dyn FnMut(&str)) {
        match self {
            Self::Number(_) | Self::Attribute(_) => {}
            Self::Name(name) => f(name),
            Self::Operation(_, a, b) => {
                a.for_each_name(f);
                b.for_each_name(f);
            }
        }
    }

    /// The dim that it stands for; `look_up` knows the names and attributes.
    ///
    /// # Errors
    /// Those of `look_up`.
    pub(super) fn dim<E>(&self, look_up: &dyn Fn(&Self) -> Result<Dim, E>) -> Result<Dim, E> {
        Ok(match self {
            Self::Number(value) => Dim::constant(*value),
            Self::Name(_) | Self::Attribute(_) => look_up(self)?,
            Self::Operation(operation, a, b) => {
                let (a, b) = (a.dim(look_up)?, b.dim(look_up)?);
                match operation {
                    Operation::Add => a + b,
                    Operation::Sub => a - b,
                    Operation::Mul => a * b,
                    // Divisors are positive numbers: see the grammar.
                    Operation::Div => a.floor_div(&b),
                    Operation::Mod => a.modulo(&b),
                    Operation::Min => a.minimum(&b),
                    Operation::Max => a.maximum(&b),
                }
            }
        })
    }
}

/// True for what may stand as a name in patterns and expressions.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !matches!(text, "min" | "max")
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(format!("expected `{wanted}`")) }
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        loop {
            let operation = match self.peek() {
                Some('+') => Operation::Add,
                Some('-') => Operation::Sub,
                _ => return Ok(left),
            };
            self.rest.next();
            left = Expr::Operation(operation, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.factor()?;
        loop {
            let operation = match self.peek() {
                Some('*') => Operation::Mul,
                Some('/') => Operation::Div,
                Some('%') => Operation::Mod,
                _ => return Ok(left),
            };
            self.rest.next();
            let right = self.factor()?;
            if operation != Operation::Mul && !matches!(right, Expr::Number(1..)) {
                return Err("expected a number of at least 1 to divide by".to_owned());
            }
            left = Expr::Operation(operation, Box::new(left), Box::new(right));
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        match self.peek() {
            Some('(') => {
                self.rest.next();
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('@') => {
                self.rest.next();
                Ok(Expr::Attribute(self.word()?))
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            _ => {
                let word = self.word()?;
                let operation = match word.as_str() {
                    "min" => Operation::Min,
                    "max" => Operation::Max,
                    _ => return Ok(Expr::Name(word)),
                };
                self.expect('(')?;
                let left = self.sum()?;
                self.expect(',')?;
                let right = self.sum()?;
                self.expect(')')?;
                Ok(Expr::Operation(operation, Box::new(left), Box::new(right)))
            }
        }
    }

    fn number(&mut self) -> Result<Expr, String> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let value = digits.parse().ok().filter(|&value: &i64| value <= MAX_NUMBER);
        value.map(Expr::Number).ok_or_else(|| format!("expected a number of at most {MAX_NUMBER}"))
    }

    fn word(&mut self) -> Result<String, String> {
        self.peek();
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            word.push(c);
        }
        if is_name(&word) || matches!(word.as_str(), "min" | "max") {
            Ok(word)
        } else {
            Err("expected a number, a name or `(`".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        let known = |expr: &Expr| match expr {
            Expr::Name(name) if name == "N" => Ok(Dim::constant(7)),
            Expr::Attribute(name) if name == "k" => Ok(Dim::constant(3)),
            _ => Err("unknown".to_owned()),
        };
        Ok(Expr::parse(text)?.dim(&known)?.as_const().expect("a number"))
    }

    #[test]
    fn expressions_have_the_usual_meaning() {
        let cases = [
            ("12", 12),
            ("2*N + 1", 15),
            ("N - 1 - 2", 4),
            ("(N + 1) / 3 * 2", 4),
            ("N % 4", 3),
            ("min(N, @k) + max(1, 2)", 5),
            (" N ", 7),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let long = format!("N{}", "+1".repeat(MAX_LEN));
        let nested = "(".repeat(100);
        for text in
            ["", "N +", "N N", "1 / 0", "N / N", "N / (N - 7)", "-1", "min(N)", "max", "@", "é", "99999999999999999999"]
        {
            assert!(value(text).is_err(), "{text}");
        }
        assert!(value(&long).is_err() && value(&nested).is_err() && value("M").is_err());
    }
}
