//! Conditions to scalar tests and lane masks.

use super::address::LaneForm;
use super::{Lower, LowerError};
use crate::vir::{Cond, Elem, Type, Value};
use infc_ir::access::Bound;
use infc_ir::index::{IndexExpr, Proof};

/// A set of conditions, by what they depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Condition {
    /// What holds for all lanes alike: a one-lane mask.
    pub(super) scalar: Option<Value>,
    /// What differs between lanes.
    pub(super) lanes: Option<Value>,
    /// It can never hold.
    pub(super) never: bool,
}

impl Condition {
    /// True if it always holds.
    pub(super) fn is_always(&self) -> bool {
        self.scalar.is_none() && self.lanes.is_none() && !self.never
    }
}

impl Lower<'_> {
    /// All of the bounds.
    pub(super) fn condition(&mut self, bounds: &[Bound]) -> Result<Condition, LowerError> {
        let mut all = Condition::default();
        for bound in bounds {
            let bound = bound.map(|e| self.resolve(e));
            match bound.proof(&self.ranges) {
                Proof::Yes => {}
                Proof::No => all.never = true,
                Proof::Unknown => self.add_bound(&mut all, &bound)?,
            }
        }
        Ok(all)
    }

    fn add_bound(&mut self, all: &mut Condition, bound: &Bound) -> Result<(), LowerError> {
        let lane_free = |e: &IndexExpr| self.lane.is_none_or(|l| !e.uses_var(l.var));
        if !lane_free(&bound.lo) || !lane_free(&bound.hi) {
            let low = Bound { expr: bound.expr.clone() - bound.lo.clone(), lo: 0.into(), hi: i64::MAX.into() };
            let high = Bound { expr: bound.hi.clone() - bound.expr.clone(), lo: 1.into(), hi: i64::MAX.into() };
            self.add_bound(all, &low)?;
            return self.add_bound(all, &high);
        }
        let needs_low = self.ranges.le(&bound.lo, &bound.expr) != Proof::Yes;
        let needs_high = self.ranges.lt(&bound.expr, &bound.hi) != Proof::Yes && !bound.hi.is_const(i64::MAX);
        match self.lane_form(bound.expr.clone()) {
            LaneForm::Uniform(e) => {
                if needs_low {
                    let (a, b) = (self.index_value(&bound.lo)?, self.index_value(&e)?);
                    let holds = self.b.compare(Cond::Le, a, b);
                    all.scalar = Some(self.both(all.scalar, holds));
                }
                if needs_high {
                    let (a, b) = (self.index_value(&e)?, self.index_value(&bound.hi)?);
                    let holds = self.b.compare(Cond::Lt, a, b);
                    all.scalar = Some(self.both(all.scalar, holds));
                }
            }
            LaneForm::Strided { rest, step: 1 } => {
                let lanes = self.lanes();
                if needs_low {
                    let below = self.index_value(&(bound.lo.clone() - rest.clone()))?;
                    let before = self.b.first_lanes(below, lanes);
                    let holds = self.b.not(before);
                    all.lanes = Some(self.both(all.lanes, holds));
                }
                if needs_high {
                    let below = self.index_value(&(bound.hi.clone() - rest))?;
                    let holds = self.b.first_lanes(below, lanes);
                    all.lanes = Some(self.both(all.lanes, holds));
                }
            }
            LaneForm::Strided { .. } | LaneForm::Irregular(_) => {
                let e = self.index_vector_of(&bound.expr, Elem::I64)?;
                if needs_low {
                    let lo = self.index_vector_of(&bound.lo, Elem::I64)?;
                    let holds = self.b.compare(Cond::Le, lo, e);
                    all.lanes = Some(self.both(all.lanes, holds));
                }
                if needs_high {
                    let hi = self.index_vector_of(&bound.hi, Elem::I64)?;
                    let holds = self.b.compare(Cond::Lt, e, hi);
                    all.lanes = Some(self.both(all.lanes, holds));
                }
            }
        }
        Ok(())
    }

    fn both(&mut self, a: Option<Value>, b: Value) -> Value {
        a.map_or(b, |a| self.b.and(a, b))
    }

    /// The condition as a mask with a lane per lane, or `None` if it always holds.
    pub(super) fn lane_mask(&mut self, condition: Condition) -> Option<Value> {
        let ty = Type::vector(Elem::Mask, self.lanes());
        if condition.never {
            return Some(self.b.constant(ty, 0));
        }
        let scalar = condition.scalar.map(|c| {
            if ty.lanes == 1 {
                return c;
            }
            let (all, none) = (self.b.iconst(i64::from(ty.lanes)), self.b.iconst(0));
            let count = self.b.select(c, all, none);
            self.b.first_lanes(count, ty.lanes)
        });
        match (scalar, condition.lanes) {
            (Some(a), Some(b)) => Some(self.b.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// The mask of lanes below the vector loop's extent, or `None` if all are.
    pub(super) fn extent_mask(&mut self) -> Option<Value> {
        let lane = self.lane?;
        if lane.extent >= i64::from(lane.lanes) {
            return None;
        }
        let bits = (1u64 << lane.extent) - 1;
        Some(self.b.constant(Type::vector(Elem::Mask, lane.lanes), bits))
    }

    /// Both masks, where `None` is all lanes.
    pub(super) fn intersect(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.b.and(a, b)),
            (a, b) => a.or(b),
        }
    }
}
