//! Operators on strings, which the host evaluates.

use super::Drawer;
use crate::draft::{Candidate, Draft, Id};
use crate::random::WORDS;
use infc_tensor::{Attribute, DType, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[
    join,
    split,
    normalize,
    matches,
    equal,
    choose,
    label,
    label,
    categories,
    frequencies,
    unique,
    to_text,
    from_text,
];

fn text(d: &mut Draft) -> Option<Id> {
    d.any_type(|t| t.dtype() == DType::String)
}

fn join(d: &mut Draft) -> Option<Candidate> {
    let x = text(d)?;
    let other = d.partner(x);
    Some(Candidate::new("StringConcat", &[x, other]).exact())
}

fn split(d: &mut Draft) -> Option<Candidate> {
    let x = text(d)?;
    let candidate = Candidate::new("StringSplit", &[x]).outputs(2).exact();
    Some(match d.random.below(3) {
        0 => candidate,
        1 => candidate.with("delimiter", " "),
        _ => candidate.with("delimiter", "b").with("maxsplit", d.random.between(0, 2)),
    })
}

fn normalize(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.dtype() == DType::String && matches!(t.shape(), [_] | [1, _]))?;
    let case = *d.random.pick(&["LOWER", "UPPER", "NONE"]);
    let candidate = Candidate::new("StringNormalizer", &[x]).with("case_change_action", case);
    let candidate = candidate.with("is_case_sensitive", d.random.flag());
    let stopwords = some_words(d);
    let candidate = if d.random.one_in(3) { candidate } else { candidate.with("stopwords", stopwords) };
    Some(candidate.exact())
}

fn matches(d: &mut Draft) -> Option<Candidate> {
    let x = text(d)?;
    let pattern = *d.random.pick(&["a.*", "[0-9]+", "-?[0-9]+(\\.[0-9])?", "", "(?i)b|ab", "\\w+"]);
    Some(Candidate::new("RegexFullMatch", &[x]).with("pattern", pattern).exact())
}

fn equal(d: &mut Draft) -> Option<Candidate> {
    let x = text(d)?;
    let other = d.partner(x);
    Some(Candidate::new("Equal", &[x, other]).exact())
}

fn choose(d: &mut Draft) -> Option<Candidate> {
    let (x, chosen) = (text(d)?, d.any_type(|t| t.dtype() == DType::Bool)?);
    let other = d.partner(x);
    Some(Candidate::new("Where", &[chosen, x, other]).exact())
}

/// Words, none of them twice.
fn some_words(d: &mut Draft) -> Attribute {
    let count = d.random.between(1, WORDS.len() as i64 - 1) as usize;
    let order = d.random.permutation(WORDS.len());
    Attribute::Strings(order[..count].iter().map(|&n| WORDS[n].to_owned()).collect())
}

/// From words to numbers, or back.
fn label(d: &mut Draft) -> Option<Candidate> {
    let words = some_words(d);
    let Attribute::Strings(of_words) = &words else { return None };
    let numbers: Vec<i64> = (0..of_words.len() as i64).map(|n| n - 2).collect();
    let back = d.random.one_in(2);
    let from = if back { DType::I64 } else { DType::String };
    let x = d.any_type(|t| t.dtype() == from)?;
    let candidate = Candidate::new("LabelEncoder", &[x]).of("ai.onnx.ml").exact();
    Some(match back {
        true => candidate.with("keys_int64s", numbers).with("values_strings", words).with("default_string", "none"),
        false if d.random.one_in(2) => {
            let values: Vec<f32> = numbers.iter().map(|&n| n as f32 / 4.0).collect();
            candidate.with("keys_strings", words).with("values_floats", values).with("default_float", 9f32)
        }
        false => candidate.with("keys_strings", words).with("values_int64s", numbers).with("default_int64", 9i64),
    })
}

fn categories(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| matches!(t.dtype(), DType::String | DType::I64))?;
    let words = some_words(d);
    let Attribute::Strings(of_words) = &words else { return None };
    let numbers: Vec<i64> = (0..of_words.len() as i64).collect();
    let candidate = Candidate::new("CategoryMapper", &[x]).of("ai.onnx.ml").with("cats_int64s", numbers);
    Some(candidate.with("cats_strings", words).with("default_string", "?").with("default_int64", -1i64).exact())
}

/// How often words are among those of a row.
fn frequencies(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.dtype() == DType::String && matches!(t.rank(), 1 | 2) && t.len_elems() > 0)?;
    let words = some_words(d);
    let Attribute::Strings(of_words) = &words else { return None };
    let indices: Vec<i64> = d.random.permutation(of_words.len()).into_iter().map(|n| n as i64).collect();
    let candidate = Candidate::new("TfIdfVectorizer", &[x]).with("mode", "TF").with("ngram_counts", vec![0i64]);
    let candidate = candidate.with("min_gram_length", 1i64).with("max_gram_length", 1i64).with("max_skip_count", 0i64);
    Some(candidate.with("ngram_indexes", indices).with("pool_strings", words).exact())
}

fn unique(d: &mut Draft) -> Option<Candidate> {
    let x = text(d)?;
    let candidate = Candidate::new("Unique", &[x]).with("sorted", d.random.flag()).outputs(4).exact();
    let axis = d.axis(x).filter(|_| d.random.one_in(3));
    Some(match axis {
        Some(axis) => candidate.with("axis", axis),
        None => candidate,
    })
}

/// Numbers as text; what is rounded is written otherwise each time, and not drawn.
fn to_text(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t: &Tensor| t.dtype() != DType::String)?;
    let code = infc_reference::dtypes::to_onnx(DType::String)?;
    Some(Candidate::new("Cast", &[x]).with("to", code).exact())
}

/// Numbers that are written.
fn from_text(d: &mut Draft) -> Option<Candidate> {
    let is_number = |word: &String| word.parse::<i64>().is_ok();
    let x = d.any_type(|t| t.strings().is_ok_and(|words| !words.is_empty() && words.iter().all(is_number)))?;
    let to = *d.random.pick(&[DType::U8, DType::I64, DType::F32, DType::I32]);
    let code = infc_reference::dtypes::to_onnx(to)?;
    Some(Candidate::new("Cast", &[x]).with("to", code).exact())
}
