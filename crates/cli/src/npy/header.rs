//! The header: `{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }`, padded with spaces.

use super::NpyError;
use infc_tensor::DType;

const MAGIC: &[u8] = b"\x93NUMPY";
/// The elements begin at a multiple of this.
const ALIGN: usize = 64;
/// Longest header read; NumPy itself refuses from 10,000 on.
const MAX_HEADER_BYTES: usize = 10_000;
/// Most axes of an array; NumPy's limit.
const MAX_RANK: usize = 64;

/// What the elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A type that tensors have.
    Number(DType),
    /// Strings of a fixed length, four bytes per character.
    Unicode,
}

impl Kind {
    /// How many bytes are swapped together in the other byte order.
    pub(super) fn word_bytes(self, size_bytes: usize) -> usize {
        match self {
            Self::Number(DType::Complex64 | DType::Complex128) => size_bytes / 2,
            Self::Number(_) => size_bytes,
            Self::Unicode => 4,
        }
    }
}

/// A parsed header.
#[derive(Debug)]
pub(super) struct Header {
    /// The element type as written.
    pub(super) descr: String,
    pub(super) kind: Kind,
    pub(super) size_bytes: usize,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// Splits a file into its header and its elements.
pub(super) fn parse(file: &[u8]) -> Result<(Header, &[u8]), NpyError> {
    let rest = file.strip_prefix(MAGIC).ok_or(NpyError::NotNpy)?;
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or(NpyError::HeaderCutOff)?;
    let (len, rest) = match major {
        1 => {
            let (len, rest) = rest.split_first_chunk().ok_or(NpyError::HeaderCutOff)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk().ok_or(NpyError::HeaderCutOff)?;
            (usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX), rest)
        }
        _ => return Err(NpyError::Version { major, minor }),
    };
    if len > MAX_HEADER_BYTES {
        return Err(NpyError::Header("it is too long"));
    }
    let (text, data) = rest.split_at_checked(len).ok_or(NpyError::HeaderCutOff)?;
    let text = std::str::from_utf8(text).map_err(|_| NpyError::Header("it is no text"))?;
    Ok((parse_dict(text)?, data))
}

/// Parses the dictionary: three known keys in any order.
fn parse_dict(text: &str) -> Result<Header, NpyError> {
    let mut scanner = Scanner { rest: text };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    scanner.expect('{')?;
    while !scanner.accept('}') {
        let key = scanner.string()?;
        scanner.expect(':')?;
        match key {
            "descr" => descr = Some(scanner.descr()?),
            "fortran_order" => fortran_order = Some(scanner.boolean()?),
            "shape" => shape = Some(scanner.tuple()?),
            _ => return Err(NpyError::Header("it has a key that is not known")),
        }
        if !scanner.accept(',') {
            scanner.expect('}')?;
            break;
        }
    }
    if !scanner.rest.trim().is_empty() {
        return Err(NpyError::Header("something follows the dictionary"));
    }
    let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
        return Err(NpyError::Header("a key is missing"));
    };
    let (kind, size_bytes, big_endian) = element_type(descr).ok_or_else(|| NpyError::ElementType(descr.to_owned()))?;
    Ok(Header { descr: descr.to_owned(), kind, size_bytes, big_endian, fortran_order, shape })
}

/// `<f4` and the like: byte order, kind, size.
fn element_type(descr: &str) -> Option<(Kind, usize, bool)> {
    let (order, rest) = (descr.chars().next()?, descr.get(1..)?);
    let big_endian = match order {
        '<' | '|' => false,
        '>' => true,
        '=' => cfg!(target_endian = "big"),
        _ => return None,
    };
    if let Some(characters) = rest.strip_prefix('U') {
        let characters: usize = characters.parse().ok()?;
        return Some((Kind::Unicode, characters.checked_mul(4)?, big_endian));
    }
    let dtype = match rest {
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "b1" => DType::Bool,
        "c8" => DType::Complex64,
        "c16" => DType::Complex128,
        _ => return None,
    };
    Some((Kind::Number(dtype), dtype.size_bytes()?, big_endian))
}

/// The bytes of a file up to its elements.
pub(super) fn print(descr: &str, shape: &[usize]) -> Vec<u8> {
    let dims: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    // A tuple of one keeps its comma, others need none.
    let dims = if shape.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // Magic, version, length, and the newline at the end.
    let unpadded = MAGIC.len() + 2 + 2 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(ALIGN) - unpadded));
    text.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[1, 0]);
    let len = u16::try_from(text.len()).expect("at most 64 axes of 20 digits");
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    file
}

/// Reads the few Python literals that a header consists of.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn accept(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        let stripped = self.rest.strip_prefix(wanted);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), NpyError> {
        if self.accept(wanted) { Ok(()) } else { Err(NpyError::Header("it is no dictionary of the usual form")) }
    }

    fn string(&mut self) -> Result<&'a str, NpyError> {
        let quote = if self.accept('\'') {
            '\''
        } else {
            self.expect('"')?;
            '"'
        };
        let (text, rest) = self.rest.split_once(quote).ok_or(NpyError::Header("a string does not end"))?;
        self.rest = rest;
        Ok(text)
    }

    /// The element type; anything but a string is a record of several.
    fn descr(&mut self) -> Result<&'a str, NpyError> {
        self.string().map_err(|_| NpyError::ElementType("a record".to_owned()))
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.rest = self.rest.trim_start();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(NpyError::Header("the memory order is neither True nor False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, NpyError> {
        self.expect('(')?;
        let mut numbers = Vec::new();
        while !self.accept(')') {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            // Python 2 wrote its long integers with an L.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            numbers.push(digits.parse().map_err(|_| NpyError::Header("the shape is no tuple of sizes"))?);
            if numbers.len() > MAX_RANK {
                return Err(NpyError::Header("the shape has too many axes"));
            }
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_prints_them() {
        let text = |shape: &[usize]| {
            let file = print("<f4", shape);
            String::from_utf8(file[10..].to_vec()).unwrap().trim_end().to_owned()
        };
        assert_eq!(text(&[]), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
        assert_eq!(text(&[3]), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
        assert_eq!(text(&[1, 8]), "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), }");
    }

    #[test]
    fn element_types() {
        assert_eq!(element_type("<f4"), Some((Kind::Number(DType::F32), 4, false)));
        assert_eq!(element_type(">U3"), Some((Kind::Unicode, 12, true)));
        assert_eq!(element_type("|b1"), Some((Kind::Number(DType::Bool), 1, false)));
        assert_eq!(element_type("<f16"), None);
        assert_eq!(element_type("é"), None);
        assert_eq!(element_type(""), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "{", "[]", "{'descr': '<f4'}", "{'shape': (-1,)}", "{'shape': (99999999999999999999,)}"] {
            assert!(parse_dict(text).is_err(), "{text}");
        }
        let record = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }";
        assert_eq!(parse_dict(record).unwrap_err(), NpyError::ElementType("a record".to_owned()));
    }
}
