//! Names in text: bare if they are identifiers, else in quotes.

use std::fmt;

/// Words of the language; as names they are quoted.
const WORDS: [&str; 26] = [
    "and", "at", "by", "const", "else", "false", "fold", "from", "if", "in", "inf", "let", "nan", "on", "out",
    "output", "over", "reduce", "seq", "stage", "to", "true", "where", "with", "kernel", "graph",
];

/// A name as it prints.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_identifier(self.0) && !WORDS.contains(&self.0) {
            return f.write_str(self.0);
        }
        write!(f, "{}", Quoted(self.0))
    }
}

/// Text in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Items with a separator in between.
pub(crate) fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            f.write_str(separator)?;
        }
        write(f, item)?;
    }
    Ok(())
}
