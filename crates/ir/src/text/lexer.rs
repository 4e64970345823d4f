//! Text to tokens.

use super::error::ParseErrorKind;

/// A token and where it starts, as a byte offset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) offset: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// Letters, digits and `_`, not starting with a digit.
    Ident(&'a str),
    /// Text in quotes, unescaped.
    Str(String),
    /// Decimal digits, or `0x` and hexadecimal digits.
    Int(&'a str),
    /// A number with a fraction or an exponent.
    Float(&'a str),
    /// An operator or bracket.
    Punct(&'static str),
    End,
}

/// Longer ones first.
const PUNCTUATION: [&str; 38] = [
    "..=", "..", "->", "=>", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", "{", "}", "<", ">", ",", ":", ";",
    "=", "+", "-", "*", "/", "%", "&", "|", "^", "!", ".", "@", "$", "#", "?", "~", "\\",
];

/// All tokens, ending with [`Kind::End`]; an error with its offset.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, (usize, ParseErrorKind)> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let offset = lexer.at;
        let kind = lexer.next().map_err(|kind| (offset, kind))?;
        let end = kind == Kind::End;
        tokens.push(Token { kind, offset });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> usize {
        let len = self.rest().bytes().take_while(|&b| keep(b)).count();
        self.at += len;
        len
    }

    fn next(&mut self) -> Result<Kind<'a>, ParseErrorKind> {
        let start = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(Kind::End) };
        match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                self.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
                Ok(Kind::Ident(&self.text[start..self.at]))
            }
            '0'..='9' => Ok(self.number()),
            '"' => self.string(),
            _ => match PUNCTUATION.iter().find(|p| self.rest().starts_with(**p)) {
                Some(punct) => {
                    self.at += punct.len();
                    Ok(Kind::Punct(punct))
                }
                None => Err(ParseErrorKind::UnexpectedCharacter { found: first }),
            },
        }
    }

    fn number(&mut self) -> Kind<'a> {
        let start = self.at;
        if self.rest().starts_with("0x") {
            self.at += 2;
            self.take_while(|b| b.is_ascii_hexdigit());
            return Kind::Int(&self.text[start..self.at]);
        }
        self.take_while(|b| b.is_ascii_digit());
        let mut float = false;
        let bytes = self.rest().as_bytes();
        // `1..4` is a range, `1.5` a number.
        if bytes.first() == Some(&b'.') && bytes.get(1).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
            self.take_while(|b| b.is_ascii_digit());
            float = true;
        }
        let bytes = self.rest().as_bytes();
        let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
        if matches!(bytes.first(), Some(b'e' | b'E')) && bytes.get(1 + sign).is_some_and(u8::is_ascii_digit) {
            self.at += 1 + sign;
            self.take_while(|b| b.is_ascii_digit());
            float = true;
        }
        let text = &self.text[start..self.at];
        if float { Kind::Float(text) } else { Kind::Int(text) }
    }

    fn string(&mut self) -> Result<Kind<'a>, ParseErrorKind> {
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(Kind::Str(value));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, 'r')) => value.push('\r'),
                    Some((_, c @ ('"' | '\\'))) => value.push(c),
                    Some((_, found)) => return Err(ParseErrorKind::UnexpectedCharacter { found }),
                    None => break,
                },
                c => value.push(c),
            }
        }
        Err(ParseErrorKind::UnterminatedString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_components_are_told_apart() {
        let kinds = |text| tokens(text).expect("lexes").into_iter().map(|t| t.kind).collect::<Vec<_>>();
        let range = [Kind::Int("1"), Kind::Punct("..="), Kind::Int("64"), Kind::End];
        assert_eq!(kinds("1..=64 // to the end"), range);
        let component = [Kind::Ident("ms"), Kind::Punct("."), Kind::Int("1"), Kind::Punct("["), Kind::End];
        assert_eq!(kinds("ms.1["), component);
        assert_eq!(
            kinds("1.5e-3 2e 0x1f"),
            [Kind::Float("1.5e-3"), Kind::Int("2"), Kind::Ident("e"), Kind::Int("0x1f"), Kind::End]
        );
    }

    #[test]
    fn strings_are_unescaped_and_must_end() {
        let quoted = tokens(r#""a\"b\n\\""#).expect("lexes");
        assert_eq!(quoted[0].kind, Kind::Str("a\"b\n\\".to_owned()));
        assert_eq!(tokens("x \"a"), Err((2, ParseErrorKind::UnterminatedString)));
        assert_eq!(tokens("é"), Err((0, ParseErrorKind::UnexpectedCharacter { found: 'é' })));
    }
}
