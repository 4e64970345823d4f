//! The words of PTX text (PTX ISA 4).

use crate::SimError;

/// A word, number or sign, and the line it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: u32,
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

/// All tokens of a text, without comments.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, SimError> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |n| n + 2);
            line += rest[..end].matches('\n').count() as u32;
            end
        } else if c == '\n' {
            line += 1;
            1
        } else if c.is_whitespace() {
            c.len_utf8()
        } else if in_word(c) {
            let end = |from: usize| rest[from..].find(|c| !in_word(c)).map_or(rest.len(), |len| from + len);
            let mut len = end(0);
            // `.shared::cta` is one word.
            while rest[len..].strip_prefix("::").is_some_and(|more| more.starts_with(in_word)) {
                len = end(len + 2);
            }
            found.push(Token { text: &rest[..len], line });
            len
        } else if c == '"' {
            let len = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            found.push(Token { text: &rest[..len], line });
            len
        } else if "{}()[]<>,;:@!+-=|".contains(c) {
            found.push(Token { text: &rest[..1], line });
            1
        } else {
            return Err(SimError::Syntax { line, expected: "PTX".to_owned(), found: c.to_string() });
        };
        rest = &rest[len..];
    }
    Ok(found)
}

/// A position in a list of tokens.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Self, SimError> {
        Ok(Self { tokens: tokens(text)?, at: 0 })
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|t| t.text)
    }

    /// The token after the next.
    pub(crate) fn second(&self) -> Option<&'a str> {
        self.tokens.get(self.at + 1).map(|t| t.text)
    }

    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    pub(crate) fn error(&self, expected: &str) -> SimError {
        let found = self.peek().unwrap_or("the end").to_owned();
        SimError::Syntax { line: self.line(), expected: expected.to_owned(), found }
    }

    pub(crate) fn next(&mut self, expected: &str) -> Result<&'a str, SimError> {
        let token = self.peek().ok_or_else(|| self.error(expected))?;
        self.at += 1;
        Ok(token)
    }

    /// Takes the token if it is next.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let found = self.peek() == Some(text);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<(), SimError> {
        if self.eat(text) { Ok(()) } else { Err(self.error(text)) }
    }

    /// An integer, perhaps negative or hexadecimal.
    pub(crate) fn integer(&mut self) -> Result<i128, SimError> {
        let negative = self.eat("-");
        let error = self.error("a number");
        let word = self.next("a number")?;
        let digits = word.trim_end_matches('U');
        let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let value = value.map_err(|_| error)?;
        Ok(if negative { -value } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_skipped_and_lines_counted() {
        let found = tokens("a.b // c\n/* d\n */ [%r1+4];").expect("tokens");
        let texts: Vec<&str> = found.iter().map(|t| t.text).collect();
        assert_eq!(texts, ["a.b", "[", "%r1", "+", "4", "]", ";"]);
        assert_eq!((found[0].line, found[1].line), (1, 3));
    }

    #[test]
    fn what_is_no_ptx_is_refused_by_line() {
        assert!(matches!(tokens("\n#"), Err(SimError::Syntax { line: 2, .. })));
    }
}
