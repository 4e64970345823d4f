//! A cursor over tokens, and what all parsers share.

use super::error::{ParseError, ParseErrorKind};
use super::lexer::{Kind, Token, tokens};
use super::{MAX_DEPTH, MAX_TEXT_BYTES};
use infc_tensor::DType;

/// The result of parsing something.
pub(super) type Parsed<T> = Result<T, ParseError>;

/// A position in the token list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark(usize);

/// A cursor over the tokens of a text.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// The tokens of a text.
    pub(super) fn new(text: &'a str) -> Parsed<Self> {
        if text.len() > MAX_TEXT_BYTES {
            let kind = ParseErrorKind::TooMany { what: "bytes", limit: MAX_TEXT_BYTES };
            return Err(ParseError { line: 1, column: 1, kind });
        }
        let tokens = tokens(text).map_err(|(offset, kind)| error_at(text, offset, kind))?;
        Ok(Self { text, tokens, at: 0, depth: 0 })
    }

    pub(super) fn peek(&self) -> &Kind<'a> {
        &self.tokens[self.at].kind
    }

    fn peek_after(&self, n: usize) -> &Kind<'a> {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].kind
    }

    pub(super) fn advance(&mut self) {
        // The last token is the end, which stays.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.at)
    }

    pub(super) fn reset(&mut self, mark: Mark) {
        self.at = mark.0;
    }

    pub(super) fn error(&self, kind: ParseErrorKind) -> ParseError {
        self.error_at(self.mark(), kind)
    }

    pub(super) fn error_at(&self, mark: Mark, kind: ParseErrorKind) -> ParseError {
        error_at(self.text, self.tokens[mark.0].offset, kind)
    }

    pub(super) fn expected<T>(&self, expected: &'static str) -> Parsed<T> {
        let found = match self.peek() {
            Kind::Ident(text) | Kind::Int(text) | Kind::Float(text) => format!("`{text}`"),
            Kind::Str(text) => format!("\"{text}\""),
            Kind::Punct(punct) => format!("`{punct}`"),
            Kind::End => "the end".to_owned(),
        };
        Err(self.error(ParseErrorKind::Expected { expected, found }))
    }

    /// True if the next token is this operator.
    pub(super) fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Kind::Punct(p) if *p == punct)
    }

    /// True if the n-th token from here is this operator.
    pub(super) fn is_after(&self, n: usize, punct: &str) -> bool {
        matches!(self.peek_after(n), Kind::Punct(p) if *p == punct)
    }

    /// True if the n-th token from here is a number or a word that stands for one.
    pub(super) fn is_literal_after(&self, n: usize) -> bool {
        matches!(self.peek_after(n), Kind::Int(_) | Kind::Float(_) | Kind::Ident("inf" | "nan" | "true" | "false"))
    }

    /// Takes this operator if it is next.
    pub(super) fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.advance();
        }
        found
    }

    /// Takes this word if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Ident(w) if *w == word)
    }

    pub(super) fn expect(&mut self, punct: &'static str) -> Parsed<()> {
        if self.eat(punct) { Ok(()) } else { self.expected(quoted(punct)) }
    }

    pub(super) fn expect_word(&mut self, word: &'static str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(word) }
    }

    /// A name, bare or in quotes.
    pub(super) fn name(&mut self, what: &'static str) -> Parsed<String> {
        let name = match self.peek() {
            Kind::Ident(name) => (*name).to_owned(),
            Kind::Str(name) => name.clone(),
            _ => return self.expected(what),
        };
        self.advance();
        Ok(name)
    }

    /// A decimal or hexadecimal number without sign.
    pub(super) fn unsigned(&mut self) -> Parsed<u64> {
        let Kind::Int(text) = *self.peek() else { return self.expected("a whole number") };
        let value = parse_unsigned(text).ok_or_else(|| self.out_of_range(text, "64 bits"))?;
        self.advance();
        Ok(value)
    }

    /// A whole number with an optional minus sign.
    pub(super) fn signed(&mut self) -> Parsed<i64> {
        let mark = self.mark();
        let negative = self.eat("-");
        let magnitude = i128::from(self.unsigned()?);
        i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| {
            self.error_at(
                mark,
                ParseErrorKind::NumberOutOfRange { text: magnitude.to_string(), what: "64 bits".to_owned() },
            )
        })
    }

    /// A number small enough to count things.
    pub(super) fn count(&mut self, limit: usize) -> Parsed<usize> {
        let mark = self.mark();
        let value = self.unsigned()?;
        usize::try_from(value).ok().filter(|&v| v <= limit).ok_or_else(|| {
            let what = format!("a count of at most {limit}");
            self.error_at(mark, ParseErrorKind::NumberOutOfRange { text: value.to_string(), what })
        })
    }

    pub(super) fn dtype(&mut self) -> Parsed<DType> {
        let Kind::Ident(text) = *self.peek() else { return self.expected("an element type") };
        let dtype = text
            .parse()
            .map_err(|_| self.error(ParseErrorKind::Unknown { what: "element type", name: text.to_owned() }))?;
        self.advance();
        Ok(dtype)
    }

    /// Items with commas in between, up to and with the closing bracket; the opening one is already taken.
    pub(super) fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.eat(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Skips from an opening bracket to behind the one that closes it.
    pub(super) fn skip_brackets(&mut self) -> Parsed<()> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Kind::Punct("(" | "[" | "{") => depth += 1,
                Kind::Punct(")" | "]" | "}") => depth = depth.saturating_sub(1),
                Kind::End => return self.expected("a closing bracket"),
                _ => {}
            }
            self.advance();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Where the list of values (`%a, %1`) that ends at a mark begins.
    pub(super) fn values_before(&self, end: Mark) -> Mark {
        let mut start = end.0;
        while let Some([percent, name]) = start.checked_sub(2).and_then(|at| self.tokens.get(at..start)) {
            let is_value =
                percent.kind == Kind::Punct("%") && matches!(name.kind, Kind::Int(_) | Kind::Ident(_) | Kind::Str(_));
            if !is_value {
                // A comma in front of no value does not belong to the list.
                return Mark(if start == end.0 { start } else { start + 1 });
            }
            start -= 2;
            if start == 0 || self.tokens[start - 1].kind != Kind::Punct(",") {
                return Mark(start);
            }
            start -= 1;
        }
        Mark(start)
    }

    /// Runs a parser one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(ParseErrorKind::TooMany { what: "levels of nesting", limit: MAX_DEPTH }));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Parsed<()> {
        if *self.peek() == Kind::End { Ok(()) } else { self.expected("the end") }
    }

    fn out_of_range(&self, text: &str, what: &str) -> ParseError {
        self.error(ParseErrorKind::NumberOutOfRange { text: text.to_owned(), what: what.to_owned() })
    }
}

/// The value of an [`Kind::Int`].
pub(super) fn parse_unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// An operator as it appears in messages.
fn quoted(punct: &'static str) -> &'static str {
    match punct {
        "(" => "`(`",
        ")" => "`)`",
        "[" => "`[`",
        "]" => "`]`",
        "{" => "`{`",
        "}" => "`}`",
        "," => "`,`",
        ":" => "`:`",
        ";" => "`;`",
        "=" => "`=`",
        "=>" => "`=>`",
        "->" => "`->`",
        "<" => "`<`",
        "<=" => "`<=`",
        "@" => "`@`",
        "%" => "`%`",
        other => other,
    }
}

fn error_at(text: &str, offset: usize, kind: ParseErrorKind) -> ParseError {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ParseError { line: small(line), column: small(column), kind }
}
