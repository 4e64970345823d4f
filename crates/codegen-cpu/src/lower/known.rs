//! What conditions say of variables: tiles that run only where they are whole stay inside of their buffers.

use infc_ir::access::Bound;
use infc_ir::index::{Interval, Proof, Ranges};

/// The ranges where all conditions hold.
pub(super) fn within(ranges: &Ranges, cond: &[Bound]) -> Ranges {
    let mut narrowed = ranges.clone();
    for bound in cond {
        let Some(var) = bound.expr.as_var() else { continue };
        let (known, lo, hi) = (narrowed.interval(&bound.expr), ranges.interval(&bound.lo), ranges.interval(&bound.hi));
        let min = known.min.max(lo.min);
        let max = match (known.max, hi.max.and_then(|hi| hi.checked_sub(1))) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        narrowed.set_var(var, Interval { min, max });
    }
    narrowed
}

/// The ranges where the only condition, if its lower bound holds always, does not.
pub(super) fn beyond(ranges: &Ranges, cond: &[Bound]) -> Ranges {
    let mut narrowed = ranges.clone();
    if let [bound] = cond
        && let Some(var) = bound.expr.as_var()
        && ranges.le(&bound.lo, &bound.expr) == Proof::Yes
    {
        let known = ranges.interval(&bound.expr);
        narrowed.set_var(var, Interval { min: known.min.max(ranges.interval(&bound.hi).min), ..known });
    }
    narrowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::entity::VarId;
    use infc_ir::index::IndexExpr;

    #[test]
    fn both_ways_of_a_branch_know_more() {
        let (var, number) = (IndexExpr::var(VarId(0)), IndexExpr::constant);
        let mut ranges = Ranges::default();
        ranges.set_var(VarId(0), Interval::new(0, 31));
        let full = [Bound { expr: var.clone(), lo: number(0), hi: number(31) }];
        assert_eq!(within(&ranges, &full).interval(&var), Interval::new(0, 30));
        assert_eq!(beyond(&ranges, &full).interval(&var), Interval::new(31, 31));
        // A condition with two sides says nothing where it does not hold.
        let inner = [Bound { expr: var.clone(), lo: number(1), hi: number(31) }];
        assert_eq!(within(&ranges, &inner).interval(&var), Interval::new(1, 30));
        assert_eq!(beyond(&ranges, &inner).interval(&var), Interval::new(0, 31));
    }
}
