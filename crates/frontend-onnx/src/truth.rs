//! Truth as a number: dims that are 1 where something holds of other dims, and 0 where it does not.
//!
//! Dims have no choices, but `min` and `max` of integers make one: `min(max(x, 0), 1)` is 1 just where `x > 0`. So what
//! a shape depends on may be decided when a model runs, by arithmetic that everything understands.

use infc_ir::index::Dim;

/// Where `a > 0`.
pub(crate) fn positive(a: &Dim) -> Dim {
    a.maximum(&Dim::constant(0)).minimum(&Dim::constant(1))
}

/// Where `a < 0`.
pub(crate) fn negative(a: &Dim) -> Dim {
    positive(&a.scale(-1))
}

/// Where `a < b`.
pub(crate) fn less(a: &Dim, b: &Dim) -> Dim {
    positive(&(b.clone() - a.clone()))
}

/// Where `a = b`.
pub(crate) fn equal(a: &Dim, b: &Dim) -> Dim {
    let distance = magnitude(&(a.clone() - b.clone()));
    not(&distance.minimum(&Dim::constant(1)))
}

/// Where a truth does not hold.
pub(crate) fn not(truth: &Dim) -> Dim {
    Dim::constant(1) - truth.clone()
}

/// One of two values.
pub(crate) fn either(truth: &Dim, then: &Dim, otherwise: &Dim) -> Dim {
    match truth.as_const() {
        Some(0) => otherwise.clone(),
        Some(_) => then.clone(),
        None => otherwise.clone() + truth.clone() * (then.clone() - otherwise.clone()),
    }
}

/// The absolute value.
pub(crate) fn magnitude(a: &Dim) -> Dim {
    a.maximum(&a.scale(-1))
}

/// −1, 0 or 1.
pub(crate) fn sign(a: &Dim) -> Dim {
    a.maximum(&Dim::constant(-1)).minimum(&Dim::constant(1))
}

/// `a` within `lo..=hi`; `hi` where that is empty.
pub(crate) fn clamp(a: &Dim, lo: &Dim, hi: &Dim) -> Dim {
    a.maximum(lo).minimum(hi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::entity::SymbolId;

    #[test]
    fn truths_have_their_values() {
        let [a, b] = [0, 1].map(|n| Dim::symbol(SymbolId(n)));
        let at = |e: &Dim, x: i64, y: i64| e.eval(&|s| Some([x, y][s.0 as usize]), &|_| None).expect("a value");
        for x in -3..4 {
            for y in -3..4 {
                assert_eq!(at(&positive(&a), x, y), i64::from(x > 0));
                assert_eq!(at(&negative(&a), x, y), i64::from(x < 0));
                assert_eq!(at(&less(&a, &b), x, y), i64::from(x < y));
                assert_eq!(at(&equal(&a, &b), x, y), i64::from(x == y));
                assert_eq!(at(&not(&equal(&a, &b)), x, y), i64::from(x != y));
                assert_eq!(at(&either(&less(&a, &b), &a, &b), x, y), x.min(y));
                assert_eq!(at(&magnitude(&a), x, y), x.abs());
                assert_eq!(at(&sign(&a), x, y), x.signum());
                assert_eq!(at(&clamp(&a, &Dim::constant(-1), &Dim::constant(2)), x, y), x.clamp(-1, 2));
            }
        }
    }
}
