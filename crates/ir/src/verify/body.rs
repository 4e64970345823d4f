//! Checks of scalar bodies, shared by all levels.
//!
//! Operands exist and come before their use; every operation gets the types it takes; constants are values of their
//! type. What leaves may be depends on the level, which gives the rules.

use super::{Report, ViolationKind};
use crate::access::Bound;
use crate::entity::{EntityId, ScalarId};
use crate::index::IndexExpr;
use crate::kernel::Reducer;
use crate::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, UnaryOp, has_arithmetic};
use infc_tensor::{DType, DTypeClass};

/// What a level allows as leaves, and how it checks them.
pub(super) trait Leaves {
    /// The types of the parameters; empty where there are none.
    fn params(&self) -> &[DType];
    /// Checks an index expression.
    fn index(&self, report: &mut Report, expr: &IndexExpr);
    /// Checks conditions.
    fn bounds(&self, report: &mut Report, bounds: &[Bound]);
    /// Checks what is read, but not the gathered indices.
    fn load(&self, report: &mut Report, load: &Load);
}

/// Leaves of the combine function of a reducer: parameters alone.
struct Combine<'a>(&'a [DType]);

impl Leaves for Combine<'_> {
    fn params(&self) -> &[DType] {
        self.0
    }

    fn index(&self, report: &mut Report, _: &IndexExpr) {
        report.push(ViolationKind::NotAllowed { what: "an index in a fold" });
    }

    fn bounds(&self, report: &mut Report, _: &[Bound]) {
        report.push(ViolationKind::NotAllowed { what: "a condition in a fold" });
    }

    fn load(&self, report: &mut Report, _: &Load) {
        report.push(ViolationKind::NotAllowed { what: "a load in a fold" });
    }
}

impl Report {
    /// Checks a body; gives the types of the results that exist.
    pub(super) fn body(&mut self, body: &Body, results: &[ScalarId], leaves: &dyn Leaves) -> Vec<DType> {
        let mut dtypes: Vec<DType> = Vec::with_capacity(body.ops.len());
        for (id, op) in body.ops.iter_enumerated() {
            let mut in_order = true;
            op.for_each_operand(&mut |o| in_order &= o < id);
            if in_order {
                self.operation(op, &dtypes, leaves);
            } else {
                self.push(ViolationKind::OutOfOrder { id: id.to_string() });
            }
            dtypes.push(result_type(op, &dtypes));
        }
        if results.is_empty() {
            self.push(ViolationKind::Missing { what: "a result" });
        }
        let mut found = Vec::new();
        for result in results {
            match dtypes.get(result.index()) {
                Some(dtype) => found.push(*dtype),
                None => self.push(ViolationKind::Dangling { what: "result", id: result.to_string() }),
            }
        }
        found
    }

    /// Checks a fold over elements of the given types.
    pub(super) fn reducer(&mut self, reducer: &Reducer, elements: &[DType]) {
        for c in &reducer.init {
            self.constant(*c);
        }
        self.count("components of the fold", elements.len(), reducer.init.len());
        self.count("results of the fold", reducer.init.len(), reducer.results.len());
        let mut params: Vec<DType> = reducer.init.iter().map(|c| c.dtype).collect();
        for (&expected, &found) in params.iter().zip(elements) {
            self.dtype("an element of the fold", expected, found);
        }
        params.extend_from_within(..);
        let found = self.body(&reducer.combine, &reducer.results, &Combine(&params));
        for (&expected, &found) in params.iter().zip(&found) {
            self.dtype("a result of the fold", expected, found);
        }
    }

    pub(super) fn constant(&mut self, c: Const) {
        let size_bits = c.dtype.size_bits();
        let fits = match size_bits {
            0 | 65.. => false,
            64 => true,
            _ if c.dtype == DType::Bool => c.bits <= 1,
            _ => c.bits >> size_bits == 0,
        };
        if !fits || !has_arithmetic(c.dtype) {
            self.push(ViolationKind::BadConstant { dtype: c.dtype, bits: c.bits });
        }
    }

    fn operation(&mut self, op: &ScalarOp, dtypes: &[DType], leaves: &dyn Leaves) {
        let of = |id: &ScalarId| dtypes[id.index()];
        match op {
            ScalarOp::Const(c) => self.constant(*c),
            ScalarOp::Param(n, dtype) => match leaves.params().get(usize::from(*n)) {
                Some(expected) => self.dtype("a parameter", *expected, *dtype),
                None => self.push(ViolationKind::Dangling { what: "parameter", id: n.to_string() }),
            },
            ScalarOp::Index(expr) => leaves.index(self, expr),
            ScalarOp::InBounds(bounds) => leaves.bounds(self, bounds),
            ScalarOp::Load(load) => {
                for expr in load.index.iter().chain(load.gather.iter().map(|(_, _, factor)| factor)) {
                    leaves.index(self, expr);
                }
                leaves.bounds(self, &load.valid);
                self.constant(load.otherwise);
                self.dtype("the value instead of a load", load.dtype, load.otherwise.dtype);
                for (axis, value, _) in &load.gather {
                    if usize::from(*axis) >= load.index.len() {
                        self.push(ViolationKind::Dangling { what: "gathered axis", id: axis.to_string() });
                    }
                    if !of(value).is_int() {
                        self.unsupported("a gathered index", of(value));
                    }
                }
                leaves.load(self, load);
            }
            ScalarOp::Unary(op, a) => {
                if !unary_takes(*op, of(a)) {
                    self.unsupported(&format!("{op:?}"), of(a));
                }
            }
            ScalarOp::Binary(op, a, b) => {
                if !binary_takes(*op, of(a)) {
                    self.unsupported(&format!("{op:?}"), of(a));
                }
                self.dtype(&format!("the second operand of {op:?}"), of(a), of(b));
            }
            ScalarOp::Compare(op, a, b) => {
                let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                if !has_arithmetic(of(a)) || (of(a) == DType::Bool && !equality) {
                    self.unsupported(&format!("{op:?}"), of(a));
                }
                self.dtype(&format!("the second operand of {op:?}"), of(a), of(b));
            }
            ScalarOp::Select(c, a, b) => {
                self.dtype("the condition of a select", DType::Bool, of(c));
                self.dtype("the second choice of a select", of(a), of(b));
            }
            ScalarOp::Cast(to, a) => {
                for dtype in [*to, of(a)] {
                    if !has_arithmetic(dtype) {
                        self.unsupported("a cast", dtype);
                    }
                }
            }
            ScalarOp::CastSaturating(to, a) => {
                if !to.is_int() {
                    self.unsupported("a saturating cast to", *to);
                }
                if !of(a).is_float() || !has_arithmetic(of(a)) {
                    self.unsupported("a saturating cast", of(a));
                }
            }
            ScalarOp::BitCast(to, a) => {
                for dtype in [*to, of(a)] {
                    if !has_arithmetic(dtype) || dtype == DType::Bool || dtype.size_bytes() != to.size_bytes() {
                        self.unsupported(&format!("taking bits as {to}"), dtype);
                    }
                }
            }
        }
    }

    fn unsupported(&mut self, op: &str, dtype: DType) {
        self.push(ViolationKind::UnsupportedType { op: op.to_owned(), dtype });
    }
}

/// As [`Body::dtype`], but for operations whose operands may be missing.
fn result_type(op: &ScalarOp, dtypes: &[DType]) -> DType {
    let of = |id: &ScalarId| dtypes.get(id.index()).copied().unwrap_or(DType::Bool);
    match op {
        ScalarOp::Const(c) => c.dtype,
        ScalarOp::Param(_, dtype)
        | ScalarOp::Cast(dtype, _)
        | ScalarOp::CastSaturating(dtype, _)
        | ScalarOp::BitCast(dtype, _) => *dtype,
        ScalarOp::Index(_) => DType::I64,
        ScalarOp::InBounds(_) | ScalarOp::Compare(..) | ScalarOp::Unary(UnaryOp::IsNan | UnaryOp::IsInf, _) => {
            DType::Bool
        }
        ScalarOp::Load(load) => load.dtype,
        ScalarOp::Unary(_, a) | ScalarOp::Binary(_, a, _) | ScalarOp::Select(_, a, _) => of(a),
    }
}

fn unary_takes(op: UnaryOp, dtype: DType) -> bool {
    let number = has_arithmetic(dtype) && dtype.class() != DTypeClass::Bool;
    match op {
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign => number,
        UnaryOp::Not => dtype == DType::Bool || dtype.is_int(),
        UnaryOp::Tf32 => dtype == DType::F32,
        _ => number && dtype.is_float(),
    }
}

fn binary_takes(op: BinaryOp, dtype: DType) -> bool {
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => dtype == DType::Bool || dtype.is_int(),
        BinaryOp::Shl | BinaryOp::Shr => dtype.is_int(),
        _ => has_arithmetic(dtype) && dtype != DType::Bool,
    }
}
