//! What ONNX's cases show of an operator: `tests/conformance/operators.txt`, which says there how it is written.

use std::collections::BTreeSet;

const CASES: &str = include_str!("../../../../../tests/conformance/operators.txt");

/// The element types that cases of an operator have, and what computes them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cases {
    /// Types of cases that are kernels alone.
    pub(super) native: BTreeSet<&'static str>,
    /// Types of cases in which the host has a part.
    pub(super) host: BTreeSet<&'static str>,
    /// Why it has one.
    pub(super) why: Option<&'static str>,
    /// Cases that pass, and all.
    pub(super) passed: usize,
    pub(super) all: usize,
}

/// What is shown of an operator, in all opsets together.
pub(super) fn of(domain: &str, name: &str) -> Cases {
    let mut cases = Cases::default();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(10, ' ');
        let (Some(operator), Some(_), Some(dtype)) = (words.next(), words.next(), words.next()) else { continue };
        let (of, name_there) = operator.split_once("::").unwrap_or(("", operator));
        if (of, name_there) != (domain, name) {
            continue;
        }
        // A word that says what is counted stands in front of each count.
        let mut count = || words.nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
        let (native, host, failing): (usize, usize, usize) = (count(), count(), count());
        let dtype = if dtype == "-" { "no tensor" } else { dtype };
        cases.native.extend((native > 0).then_some(dtype));
        cases.host.extend((host > 0).then_some(dtype));
        cases.why = cases.why.or_else(|| words.next());
        cases.passed += native + host;
        cases.all += native + host + failing;
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_says() {
        let abs = of("", "Abs");
        assert!(abs.native.contains("f32") && abs.host.is_empty() && abs.why.is_none() && abs.passed == abs.all);
        let unique = of("", "Unique");
        assert!(unique.native.is_empty() && !unique.host.is_empty() && unique.why.is_some_and(|why| !why.is_empty()));
        assert!(of("ai.onnx.ml", "TreeEnsemble").passed > 0);
        assert_eq!(of("", "no such operator"), Cases::default());
    }
}
