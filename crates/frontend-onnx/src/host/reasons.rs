//! Why operators run on the host, for the list that users read.

use crate::ops;
use infc_reference::registry;

/// An operator that no kernel computes, whatever its node is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostOperator {
    /// Its domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The operator.
    pub name: &'static str,
    /// Why the host evaluates it.
    pub why: &'static str,
}

const SIZE: &str = "how many elements its result has depends on data";
const RANDOM: &str = "it draws random numbers one after the other";
const TEXT: &str = "its values are strings";
const VALUES: &str = "its values are sequences or optionals";
const MAP: &str = "its values are maps";
const TABLE: &str = "it looks up tables of strings or integers";

/// The reason for an operator of a domain, if there is one.
fn reason(domain: &str, name: &str) -> Option<&'static str> {
    Some(match (domain, name) {
        ("", "Unique" | "NonMaxSuppression") => SIZE,
        ("", "ImageDecoder") => "it decodes a file, whose image has any size",
        (
            "",
            "RandomUniform" | "RandomUniformLike" | "RandomNormal" | "RandomNormalLike" | "Bernoulli" | "Multinomial",
        ) => RANDOM,
        ("", "StringConcat" | "StringSplit" | "StringNormalizer" | "RegexFullMatch") => TEXT,
        ("", "TfIdfVectorizer") => "it counts runs of tokens, which may be strings",
        ("", "SequenceMap" | "SplitToSequence" | "ConcatFromSequence") => VALUES,
        ("", name) if name.starts_with("Sequence") || name.starts_with("Optional") => VALUES,
        ("ai.onnx.ml", "LabelEncoder" | "CategoryMapper" | "OneHotEncoder") => TABLE,
        ("ai.onnx.ml", "ZipMap" | "CastMap" | "DictVectorizer") => MAP,
        _ => return None,
    })
}

/// The operators that infc knows by definition only, by domain and name.
#[must_use]
pub fn host_operators() -> Vec<HostOperator> {
    let only_defined = |o: &&registry::Operator| ops::operator_opsets(o.domain, o.name).is_empty();
    let named = registry::OPERATORS.iter().filter(only_defined).map(|o| HostOperator {
        domain: o.domain,
        name: o.name,
        why: reason(o.domain, o.name).unwrap_or_default(),
    });
    let mut operators: Vec<HostOperator> = named.collect();
    operators.sort_unstable();
    operators.dedup();
    operators
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_of_the_host_has_a_reason() {
        let operators = host_operators();
        let without: Vec<&HostOperator> = operators.iter().filter(|operator| operator.why.is_empty()).collect();
        assert!(without.is_empty(), "{without:?}");
        assert!(operators.iter().any(|o| o.name == "Unique") && operators.iter().all(|o| o.name != "Conv"));
    }
}
