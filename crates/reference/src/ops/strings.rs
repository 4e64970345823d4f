//! Operators on text: `StringConcat`, `StringSplit`, `StringNormalizer`, `RegexFullMatch`, `TfIdfVectorizer`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{write_bools, write_f64_as, write_i64s};
use crate::shape::{self, Strided};
use infc_tensor::{DType, Tensor};
use regex::Regex;
use std::collections::HashMap;
use std::hash::Hash;

/// `StringConcat`: element by element, with broadcasting.
pub(crate) fn concat(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let out = shape::broadcast(&[a.shape(), b.shape()])?;
    checked_len(DType::String, &out)?;
    let (left, right) = (a.strings()?, b.strings()?);
    let pairs = Strided::broadcast(a.shape(), &out).zip(Strided::broadcast(b.shape(), &out));
    one(Tensor::from_strings(&out, pairs.map(|(i, j)| format!("{}{}", left[i], right[j])).collect())?)
}

/// `StringSplit`: the parts along a new last axis, filled up with empty strings, and how many there are.
pub(crate) fn split(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let delimiter = call.string("delimiter", "")?;
    let most = match call.node.attributes.int("maxsplit")? {
        Some(most) => usize::try_from(most)
            .map_err(|_| EvalError::InvalidAttribute { name: "maxsplit", reason: "it must not be negative" })?,
        None => usize::MAX,
    };
    let parts: Vec<Vec<&str>> = x
        .strings()?
        .iter()
        .map(|text| match delimiter {
            "" => split_blank(text, most),
            _ => text.splitn(most.saturating_add(1), delimiter).collect(),
        })
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = x.shape().to_vec();
    out.push(longest);
    checked_len(DType::String, &out)?;
    let padded = parts.iter().flat_map(|p| (0..longest).map(|n| p.get(n).copied().unwrap_or("").to_owned()));
    let counts: Vec<i64> = parts.iter().map(|p| p.len() as i64).collect();
    Ok(vec![Tensor::from_strings(&out, padded.collect())?, write_i64s(x.shape(), &counts)?])
}

/// Words between runs of white space; the last one is what is left after `most` splits.
fn split_blank(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if words.len() == most {
            words.push(rest);
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// `StringNormalizer`: without stop words, in one case. What is left of nothing is one empty string.
pub(crate) fn normalize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if !matches!(x.shape(), [_] | [1, _]) {
        return Err(EvalError::InvalidInput { index: 0, reason: "a vector, or one row, is needed" });
    }
    let stop = call.node.attributes.strings("stopwords")?.unwrap_or_default();
    let exact = call.flag("is_case_sensitive", false)?;
    let fold = |text: &str| if exact { text.to_owned() } else { text.to_lowercase() };
    let stop: Vec<String> = stop.iter().map(|word| fold(word)).collect();
    let action = call.string("case_change_action", "NONE")?;
    let change = |text: &String| match action {
        "LOWER" => Ok(text.to_lowercase()),
        "UPPER" => Ok(text.to_uppercase()),
        "NONE" => Ok(text.clone()),
        _ => Err(EvalError::InvalidAttribute { name: "case_change_action", reason: "it must be LOWER, UPPER or NONE" }),
    };
    let kept = x.strings()?.iter().filter(|text| !stop.contains(&fold(text)));
    let mut kept = kept.map(change).collect::<Result<Vec<String>>>()?;
    if kept.is_empty() {
        kept.push(String::new());
    }
    let mut out = x.shape().to_vec();
    if let Some(last) = out.last_mut() {
        *last = kept.len();
    }
    one(Tensor::from_strings(&out, kept)?)
}

/// `RegexFullMatch`: whether all of each element matches a pattern.
pub(crate) fn full_match(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let missing = EvalError::InvalidAttribute { name: "pattern", reason: "it is missing" };
    let pattern = call.node.attributes.string("pattern")?.ok_or(missing)?;
    let pattern = Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|_| EvalError::InvalidAttribute { name: "pattern", reason: "it is no regular expression" })?;
    // `$` alone would let a line end follow.
    let matches = |text: &String| pattern.find(text).is_some_and(|found| found.len() == text.len());
    one(write_bools(x.shape(), x.strings()?.iter().map(matches))?)
}

/// The n-grams that a vectorizer looks for: their place in the output and their weight, by length.
struct Pool<T> {
    grams: Vec<HashMap<Vec<T>, Vec<usize>>>,
    /// How many there are.
    count: usize,
}

impl<T: Clone + Eq + Hash> Pool<T> {
    /// A list has all n-grams of length 1, then those of length 2, and so on, each length from its place on.
    fn of(list: &[T], starts: &[usize]) -> Result<Self> {
        let mut pool = Self { grams: Vec::new(), count: 0 };
        for (n, &start) in starts.iter().enumerate() {
            let end = starts.get(n + 1).copied().unwrap_or(list.len());
            let Some(part) = list.get(start..end).filter(|part| part.len().is_multiple_of(n + 1)) else {
                let reason = "it does not divide the pool into n-grams";
                return Err(EvalError::InvalidAttribute { name: "ngram_counts", reason });
            };
            let mut grams: HashMap<Vec<T>, Vec<usize>> = HashMap::new();
            for gram in part.chunks_exact(n + 1) {
                grams.entry(gram.to_vec()).or_default().push(pool.count);
                pool.count += 1;
            }
            pool.grams.push(grams);
        }
        Ok(pool)
    }
}

/// `TfIdfVectorizer`: how often each known n-gram occurs in each row.
pub(crate) fn tf_idf(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let pooled_ints = call.ints("pool_int64s")?;
    let pooled_strings = call.node.attributes.strings("pool_strings")?;
    match (x.dtype(), pooled_ints, pooled_strings) {
        (DType::String, _, Some(pool)) => count_grams(call, x, x.strings()?, pool),
        (DType::I32 | DType::I64, Some(pool), _) => {
            let rows = x.to_i64_vec().ok_or(EvalError::UnsupportedType { dtype: x.dtype() })?;
            count_grams(call, x, &rows, pool)
        }
        (dtype, ..) => Err(EvalError::UnsupportedType { dtype }),
    }
}

fn count_grams<T: Clone + Eq + Hash + Send + Sync + 'static>(
    call: &Call<'_>,
    x: &Tensor,
    elements: &[T],
    pool: &[T],
) -> Result<Vec<Tensor>> {
    let list = |name: &'static str| -> Result<Vec<usize>> {
        let given = call.ints(name)?.ok_or(EvalError::InvalidAttribute { name, reason: "it is missing" })?;
        let bad = EvalError::InvalidAttribute { name, reason: "it must not be negative" };
        given.iter().map(|&v| usize::try_from(v).ok().filter(|&v| v < 1 << 32).ok_or_else(|| bad.clone())).collect()
    };
    let size = |name: &'static str| -> Result<usize> {
        let bad = EvalError::InvalidAttribute { name, reason: "it must not be negative" };
        usize::try_from(call.required_int(name)?).map_err(|_| bad)
    };
    let (starts, places) = (list("ngram_counts")?, list("ngram_indexes")?);
    let (shortest, longest, skips) = (size("min_gram_length")?, size("max_gram_length")?, size("max_skip_count")?);
    let bad = |name, reason| Err(EvalError::InvalidAttribute { name, reason });
    if shortest == 0 || longest < shortest {
        return bad("min_gram_length", "it must lie between 1 and max_gram_length");
    }
    let known = call.node.attributes.prepared(|| Pool::of(pool, &starts))?;
    let next = known.count;
    if places.len() != next {
        return bad("ngram_indexes", "one is needed for each n-gram of the pool");
    }
    let weights = call.node.attributes.floats("weights")?;
    if weights.is_some_and(|w| w.len() != next) {
        return bad("weights", "one is needed for each n-gram of the pool");
    }
    let (rows, len) = match *x.shape() {
        [len] => (1, len),
        [rows, len] => (rows, len),
        _ => return Err(EvalError::InvalidInput { index: 0, reason: "a vector or a matrix is needed" }),
    };
    let width = places.iter().max().map_or(0, |&last| last + 1);
    let out = if x.rank() == 1 { vec![width] } else { vec![rows, width] };
    checked_len(DType::F32, &out)?;
    check_work([&rows, &len, &longest, &skips.saturating_add(1)])?;

    let mode = call.string("mode", "")?;
    let mut values = vec![0.0f64; rows * width];
    for row in 0..rows {
        let elements = &elements[row * len..(row + 1) * len];
        let mut found = vec![0.0f64; next];
        for n in shortest..=longest.min(known.grams.len()) {
            // Single elements have nothing to skip.
            for step in 1..=if n == 1 { 1 } else { skips + 1 } {
                let reach = (n - 1).saturating_mul(step);
                for start in 0..len.saturating_sub(reach) {
                    let gram: Vec<T> = (0..n).map(|k| elements[start + k * step].clone()).collect();
                    known.grams[n - 1].get(&gram).into_iter().flatten().for_each(|&id| found[id] += 1.0);
                }
            }
        }
        for (id, &count) in found.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let weight = weights.map_or(1.0, |w| f64::from(w[id]));
            values[row * width + places[id]] = match mode {
                "TF" => count,
                "IDF" => weight,
                "TFIDF" => count * weight,
                _ => return bad("mode", "it must be TF, IDF or TFIDF"),
            };
        }
    }
    one(write_f64_as(DType::F32, &out, values.into_iter())?)
}
