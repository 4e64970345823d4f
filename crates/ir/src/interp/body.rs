//! Scalar bodies, flattened once and run per point.

use super::InterpError;
use super::index_fn::{BoundFn, IndexFn};
use crate::access::Bound;
use crate::entity::{EntityId, ScalarId};
use crate::index::IndexExpr;
use crate::scalar::{
    BinaryOp, Body, CompareOp, Load, Scalar, ScalarOp, Source, UnaryOp, eval_binary, eval_bit_cast, eval_cast,
    eval_compare, eval_unary,
};
use infc_tensor::DType;

/// Where the leaves of a body get their values.
pub(super) trait Leaves {
    /// The element of a source.
    fn load(&self, source: Source, index: &[i64]) -> Result<Scalar, InterpError>;
}

/// Bodies without loads.
pub(super) struct NoLoads<'a>(pub(super) &'a str);

impl Leaves for NoLoads<'_> {
    fn load(&self, _: Source, _: &[i64]) -> Result<Scalar, InterpError> {
        Err(InterpError::Malformed { place: self.0.to_owned(), what: "a load where there are only parameters" })
    }
}

#[derive(Clone, Debug)]
pub(super) enum Instr {
    /// The operation is not needed.
    Skip,
    Const(Scalar),
    Param(usize),
    Index(IndexFn),
    InBounds(Vec<BoundFn>),
    Load(Box<LoadFn>),
    Unary(UnaryOp, DType, usize),
    Binary(BinaryOp, DType, usize, usize),
    Compare(CompareOp, DType, usize, usize),
    Select(usize, usize, usize),
    BitCast {
        from: DType,
        to: DType,
        value: usize,
    },
    Cast {
        from: DType,
        to: DType,
        saturating: bool,
        value: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) struct LoadFn {
    pub(super) source: Source,
    pub(super) index: Vec<IndexFn>,
    pub(super) gather: Vec<(usize, usize, IndexFn)>,
    pub(super) valid: Vec<BoundFn>,
    pub(super) otherwise: Scalar,
}

/// A flattened [`Body`] with its roots.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) place: String,
    pub(super) instrs: Vec<Instr>,
    /// Of the instructions.
    pub(super) types: Vec<DType>,
    pub(super) roots: Vec<usize>,
    /// Of the roots.
    dtypes: Vec<DType>,
}

/// The values of one run; kept between runs to save the allocation.
#[derive(Debug, Default)]
pub(super) struct Registers {
    values: Vec<Scalar>,
    index: Vec<i64>,
}

impl Program {
    /// Flattens what `roots` need. `place` names the body in messages.
    pub(super) fn new(place: &str, body: &Body, roots: &[ScalarId], symbols: &[i64]) -> Result<Self, InterpError> {
        let malformed = |what| InterpError::Malformed { place: place.to_owned(), what };
        let len = body.ops.len();
        let mut needed = vec![false; len];
        for root in roots {
            *needed.get_mut(root.index()).ok_or_else(|| malformed("a result that does not exist"))? = true;
        }
        for (id, op) in body.ops.iter_enumerated().rev() {
            let mut in_order = true;
            if needed[id.index()] {
                op.for_each_operand(&mut |o| match needed.get_mut(o.index()) {
                    Some(flag) if o < id => *flag = true,
                    _ => in_order = false,
                });
            }
            if !in_order {
                return Err(malformed("an operand that does not come before its use"));
            }
        }
        let mut instrs = Vec::with_capacity(len);
        let mut dtypes: Vec<DType> = Vec::with_capacity(len);
        for (id, op) in body.ops.iter_enumerated() {
            let (instr, dtype) =
                if needed[id.index()] { flatten(place, op, &dtypes, symbols)? } else { (Instr::Skip, DType::Bool) };
            instrs.push(instr);
            dtypes.push(dtype);
        }
        let roots: Vec<usize> = roots.iter().map(|r| r.index()).collect();
        let of_roots = roots.iter().map(|&r| dtypes[r]).collect();
        Ok(Self { place: place.to_owned(), instrs, types: dtypes, roots, dtypes: of_roots })
    }

    /// The types of the results.
    pub(super) fn dtypes(&self) -> &[DType] {
        &self.dtypes
    }

    /// Evaluates at a point; the results go to `out`.
    pub(super) fn run(
        &self,
        vars: &[i64],
        params: &[Scalar],
        leaves: &impl Leaves,
        registers: &mut Registers,
        out: &mut Vec<Scalar>,
    ) -> Result<(), InterpError> {
        let Registers { values, index } = registers;
        values.clear();
        for instr in &self.instrs {
            let value = match instr {
                Instr::Skip => Scalar::Int(0),
                Instr::Const(value) => *value,
                Instr::Param(n) => *params.get(*n).ok_or_else(|| InterpError::Malformed {
                    place: self.place.clone(),
                    what: "a parameter that does not exist",
                })?,
                Instr::Index(f) => Scalar::Int(self.eval(f, vars)?),
                Instr::InBounds(bounds) => Scalar::Int(i64::from(self.hold(bounds, vars)?)),
                Instr::Load(load) => {
                    if self.hold(&load.valid, vars)? {
                        index.clear();
                        for f in &load.index {
                            index.push(self.eval(f, vars)?);
                        }
                        for (axis, value, factor) in &load.gather {
                            let step = values[*value].to_i64().checked_mul(self.eval(factor, vars)?);
                            index[*axis] =
                                step.and_then(|s| index[*axis].checked_add(s)).ok_or_else(|| self.undefined(factor))?;
                        }
                        leaves.load(load.source, index)?
                    } else {
                        load.otherwise
                    }
                }
                Instr::Unary(op, dtype, a) => eval_unary(*op, *dtype, values[*a]),
                Instr::Binary(op, dtype, a, b) => eval_binary(*op, *dtype, values[*a], values[*b]),
                Instr::Compare(op, dtype, a, b) => eval_compare(*op, *dtype, values[*a], values[*b]),
                Instr::Select(c, a, b) => values[if values[*c].is_true() { *a } else { *b }],
                Instr::Cast { from, to, saturating, value } => eval_cast(*from, *to, *saturating, values[*value]),
                Instr::BitCast { from, to, value } => eval_bit_cast(*from, *to, values[*value]),
            };
            values.push(value);
        }
        out.clear();
        out.extend(self.roots.iter().map(|&r| values[r]));
        Ok(())
    }

    pub(super) fn eval(&self, f: &IndexFn, vars: &[i64]) -> Result<i64, InterpError> {
        f.eval(vars).ok_or_else(|| self.undefined(f))
    }

    pub(super) fn hold(&self, bounds: &[BoundFn], vars: &[i64]) -> Result<bool, InterpError> {
        BoundFn::all(bounds, vars).ok_or_else(|| InterpError::Malformed {
            place: self.place.clone(),
            what: "a condition that overflows or divides by zero",
        })
    }

    pub(super) fn undefined(&self, f: &IndexFn) -> InterpError {
        InterpError::UndefinedIndex { place: self.place.clone(), expr: f.source.to_string() }
    }
}

/// Binds the symbols of an index expression.
pub(super) fn bind(place: &str, expr: &IndexExpr, symbols: &[i64]) -> Result<IndexFn, InterpError> {
    IndexFn::new(expr, symbols)
        .ok_or_else(|| InterpError::UndefinedIndex { place: place.to_owned(), expr: expr.to_string() })
}

/// Binds the symbols of conditions.
pub(super) fn bind_bounds(place: &str, bounds: &[Bound], symbols: &[i64]) -> Result<Vec<BoundFn>, InterpError> {
    bounds
        .iter()
        .map(|bound| {
            BoundFn::new(bound, symbols)
                .ok_or_else(|| InterpError::UndefinedIndex { place: place.to_owned(), expr: bound.expr.to_string() })
        })
        .collect()
}

fn flatten(place: &str, op: &ScalarOp, dtypes: &[DType], symbols: &[i64]) -> Result<(Instr, DType), InterpError> {
    let at = |id: &ScalarId| id.index();
    let of = |id: &ScalarId| dtypes[id.index()];
    Ok(match op {
        ScalarOp::Const(c) => (Instr::Const(Scalar::from_const(*c)), c.dtype),
        ScalarOp::Param(n, dtype) => (Instr::Param(usize::from(*n)), *dtype),
        ScalarOp::Index(e) => (Instr::Index(bind(place, e, symbols)?), DType::I64),
        ScalarOp::InBounds(bounds) => (Instr::InBounds(bind_bounds(place, bounds, symbols)?), DType::Bool),
        ScalarOp::Load(load) => (Instr::Load(Box::new(flatten_load(place, load, symbols)?)), load.dtype),
        ScalarOp::Unary(op, a) => {
            let dtype = if matches!(op, UnaryOp::IsNan | UnaryOp::IsInf) { DType::Bool } else { of(a) };
            (Instr::Unary(*op, of(a), at(a)), dtype)
        }
        ScalarOp::Binary(op, a, b) => (Instr::Binary(*op, of(a), at(a), at(b)), of(a)),
        ScalarOp::Compare(op, a, b) => (Instr::Compare(*op, of(a), at(a), at(b)), DType::Bool),
        ScalarOp::Select(c, a, b) => (Instr::Select(at(c), at(a), at(b)), of(a)),
        ScalarOp::Cast(to, a) => (Instr::Cast { from: of(a), to: *to, saturating: false, value: at(a) }, *to),
        ScalarOp::CastSaturating(to, a) => (Instr::Cast { from: of(a), to: *to, saturating: true, value: at(a) }, *to),
        ScalarOp::BitCast(to, a) => (Instr::BitCast { from: of(a), to: *to, value: at(a) }, *to),
    })
}

fn flatten_load(place: &str, load: &Load, symbols: &[i64]) -> Result<LoadFn, InterpError> {
    let index = load.index.iter().map(|e| bind(place, e, symbols)).collect::<Result<Vec<_>, _>>()?;
    let mut gather = Vec::new();
    for (axis, value, factor) in &load.gather {
        let axis = usize::from(*axis);
        if axis >= index.len() {
            return Err(InterpError::Malformed { place: place.to_owned(), what: "a gather along an axis that is not" });
        }
        gather.push((axis, value.index(), bind(place, factor, symbols)?));
    }
    Ok(LoadFn {
        source: load.source,
        index,
        gather,
        valid: bind_bounds(place, &load.valid, symbols)?,
        otherwise: Scalar::from_const(load.otherwise),
    })
}
