//! Scalar expressions: what is computed per point.
//!
//! A [`Body`] is a small DAG in an arena. Graph maps use it over [`ScalarOp::Param`]s, kernel stages over
//! [`ScalarOp::Load`]s through access maps, loop nests over the same loads with one flat index. The three differ only
//! in what their leaves may be, which the verifiers check.

mod bits;
mod eval;

pub use bits::{BitShift, BitsOfByte};
pub use eval::{Scalar, eval_binary, eval_bit_cast, eval_cast, eval_compare, eval_unary};

use crate::access::Bound;
use crate::entity::{BufferId, IndexVec, OperandId, ScalarId, StageId};
use crate::index::{Dim, IndexExpr};
use infc_tensor::{DType, DTypeClass};

/// A constant: the element's bits in its type, low bits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Const {
    /// Element type.
    pub dtype: DType,
    /// The bits, zero-extended.
    pub bits: u64,
}

/// Functions of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after what they compute")]
pub enum UnaryOp {
    Neg,
    Abs,
    /// −1, 0 or 1; NaN stays NaN.
    Sign,
    /// Logical not (bool) or bitwise not (integers).
    Not,
    Sqrt,
    Reciprocal,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Tanh,
    Sigmoid,
    Erf,
    Floor,
    Ceil,
    Trunc,
    /// Half to even.
    Round,
    /// The nearest number of an f32's range with 11 significant bits, halves away from zero: what GPUs multiply as TF32
    /// (PTX ISA, `cvt.rna.tf32.f32`). Of f32 alone.
    Tf32,
    IsNan,
    IsInf,
}

/// Functions of two arguments of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after what they compute")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    /// Integers truncate towards zero.
    Div,
    /// Remainder with the sign of the divisor (Python's `%`).
    Mod,
    /// Remainder with the sign of the dividend (C's `fmod`).
    Rem,
    /// NaN if either is NaN.
    Min,
    /// NaN if either is NaN.
    Max,
    Pow,
    /// Logical (bool) or bitwise.
    And,
    Or,
    Xor,
    Shl,
    /// Logical for unsigned, arithmetic for signed types.
    Shr,
}

/// Comparisons; false if either is NaN, except `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after what they compute")]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// What a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An operand of the kernel.
    Operand(OperandId),
    /// A component of another stage (or, along a sequential axis, of the stage itself at an earlier step).
    Stage(StageId, u8),
    /// A buffer of a loop nest; its index has one, flat, expression.
    Buffer(BufferId),
}

/// A read of one element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Load {
    /// From where.
    pub source: Source,
    /// Which element: expressions over the axes of the stage (or the loop variables of the nest).
    pub index: Vec<IndexExpr>,
    /// Data-dependent part: `(axis, v, factor)` adds the integer value `v · factor` to `index[axis]`. The result is
    /// clamped into the source by who builds it.
    pub gather: Vec<(u8, ScalarId, IndexExpr)>,
    /// The element is read only if all of these hold.
    pub valid: Vec<Bound>,
    /// The value if it is not read.
    pub otherwise: Const,
    /// Element type read.
    pub dtype: DType,
}

/// One operation of a scalar expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// A number.
    Const(Const),
    /// The n-th argument (graph maps; combine functions of reducers).
    Param(u8, DType),
    /// The value of an index expression, as i64.
    Index(IndexExpr),
    /// A bool: all the conditions hold.
    InBounds(Vec<Bound>),
    /// Reads an element.
    Load(Load),
    /// See [`UnaryOp`].
    Unary(UnaryOp, ScalarId),
    /// See [`BinaryOp`].
    Binary(BinaryOp, ScalarId, ScalarId),
    /// See [`CompareOp`]; gives a bool.
    Compare(CompareOp, ScalarId, ScalarId),
    /// `c ? a : b`.
    Select(ScalarId, ScalarId, ScalarId),
    /// Conversion as ONNX `Cast` does it: floats to integers truncate, to bool compare with zero.
    Cast(DType, ScalarId),
    /// Float to integer with saturation to the target's range, rounding half to even (quantisation).
    CastSaturating(DType, ScalarId),
    /// The same bits as an element of another type of the same width in whole bytes, floats and integers. Which NaN a
    /// NaN becomes is left open.
    BitCast(DType, ScalarId),
}

/// A DAG of scalar operations in dependency order, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// Operands of an operation come before it.
    pub ops: IndexVec<ScalarId, ScalarOp>,
}

/// True if scalars of this type can be computed with: the usual floats, all integers, and bool.
#[must_use]
pub fn has_arithmetic(dtype: DType) -> bool {
    match dtype.class() {
        DTypeClass::Float => matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16),
        DTypeClass::Signed | DTypeClass::Unsigned | DTypeClass::Bool => true,
        DTypeClass::Complex | DTypeClass::String | DTypeClass::Value => false,
    }
}

/// True for types of whole bytes that scalar expressions compute with.
#[must_use]
pub fn is_computable(dtype: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, F64 | F32 | F16 | BF16 | I64 | I32 | I16 | I8 | U64 | U32 | U16 | U8 | Bool)
}

impl Const {
    /// A float constant rounded to `dtype` (or an integer constant, truncated).
    #[must_use]
    pub fn from_f64(dtype: DType, value: f64) -> Self {
        Scalar::from_f64(dtype, value).to_const(dtype)
    }

    /// An integer constant, converted to `dtype`.
    #[must_use]
    pub fn from_i64(dtype: DType, value: i64) -> Self {
        Scalar::from_i64(dtype, value).to_const(dtype)
    }

    /// Zero, false.
    #[must_use]
    pub const fn zero(dtype: DType) -> Self {
        Self { dtype, bits: 0 }
    }

    /// The value as f64.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        Scalar::from_const(self).to_f64()
    }
}

impl Body {
    /// Adds an operation, or finds it if it is there already.
    pub fn push(&mut self, op: ScalarOp) -> ScalarId {
        // Bodies are small; a linear search from the end finds recent duplicates soonest.
        if let Some((id, _)) = self.ops.iter_enumerated().rev().find(|(_, o)| **o == op) {
            return id;
        }
        self.ops.push(op)
    }

    /// Whether something in it depends on where the element is, beside what is read there.
    #[must_use]
    pub fn reads_place(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, ScalarOp::Index(_) | ScalarOp::InBounds(_)))
    }

    /// A float (or converted integer) constant.
    pub fn constant(&mut self, dtype: DType, value: f64) -> ScalarId {
        self.push(ScalarOp::Const(Const::from_f64(dtype, value)))
    }

    /// The n-th argument.
    pub fn param(&mut self, n: u8, dtype: DType) -> ScalarId {
        self.push(ScalarOp::Param(n, dtype))
    }

    /// A function of one argument.
    pub fn unary(&mut self, op: UnaryOp, a: ScalarId) -> ScalarId {
        self.push(ScalarOp::Unary(op, a))
    }

    /// A function of two arguments.
    pub fn binary(&mut self, op: BinaryOp, a: ScalarId, b: ScalarId) -> ScalarId {
        self.push(ScalarOp::Binary(op, a, b))
    }

    /// A comparison.
    pub fn compare(&mut self, op: CompareOp, a: ScalarId, b: ScalarId) -> ScalarId {
        self.push(ScalarOp::Compare(op, a, b))
    }

    /// `c ? a : b`.
    pub fn select(&mut self, c: ScalarId, a: ScalarId, b: ScalarId) -> ScalarId {
        self.push(ScalarOp::Select(c, a, b))
    }

    /// A conversion; nothing if the type is already right.
    pub fn cast(&mut self, dtype: DType, a: ScalarId) -> ScalarId {
        if self.dtype(a) == dtype { a } else { self.push(ScalarOp::Cast(dtype, a)) }
    }

    /// The same bits as another type; nothing if the type is already right.
    pub fn bit_cast(&mut self, dtype: DType, a: ScalarId) -> ScalarId {
        if self.dtype(a) == dtype { a } else { self.push(ScalarOp::BitCast(dtype, a)) }
    }

    /// The type of a value; bool if the value does not exist, or stands on an operand that does not come before it
    /// (which the verifiers report).
    #[must_use]
    pub fn dtype(&self, id: ScalarId) -> DType {
        // A loop, not recursion: bodies may be long chains.
        let mut id = id;
        loop {
            let Some(op) = self.ops.get(id) else { return DType::Bool };
            match op {
                ScalarOp::Const(c) => return c.dtype,
                ScalarOp::Param(_, dtype)
                | ScalarOp::Cast(dtype, _)
                | ScalarOp::CastSaturating(dtype, _)
                | ScalarOp::BitCast(dtype, _) => return *dtype,
                ScalarOp::Index(_) => return DType::I64,
                ScalarOp::InBounds(_) | ScalarOp::Compare(..) | ScalarOp::Unary(UnaryOp::IsNan | UnaryOp::IsInf, _) => {
                    return DType::Bool;
                }
                ScalarOp::Load(load) => return load.dtype,
                ScalarOp::Unary(_, a) | ScalarOp::Binary(_, a, _) | ScalarOp::Select(_, a, _) if *a < id => id = *a,
                ScalarOp::Unary(..) | ScalarOp::Binary(..) | ScalarOp::Select(..) => return DType::Bool,
            }
        }
    }

    /// Copies the operations that `roots` need from `other` into this body, replacing leaves as `leaf` says (`None`
    /// copies a leaf unchanged), and returns the new ids of the roots.
    ///
    /// `leaf` is asked for every operation; it sees the operation with its operands already renumbered.
    pub fn import(
        &mut self,
        other: &Body,
        roots: &[ScalarId],
        leaf: &mut dyn FnMut(&mut Body, &ScalarOp) -> Option<ScalarId>,
    ) -> Vec<ScalarId> {
        let mut needed = vec![false; other.ops.len()];
        for root in roots {
            needed[root.0 as usize] = true;
        }
        for (id, op) in other.ops.iter_enumerated().rev() {
            if needed[id.0 as usize] {
                op.for_each_operand(&mut |o| needed[o.0 as usize] = true);
            }
        }
        let mut renumbered: Vec<Option<ScalarId>> = vec![None; other.ops.len()];
        for (id, op) in other.ops.iter_enumerated() {
            if !needed[id.0 as usize] {
                continue;
            }
            let op = op.map_operands(&mut |o| renumbered[o.0 as usize].expect("operands come first"));
            let new = leaf(self, &op).unwrap_or_else(|| self.push(op));
            renumbered[id.0 as usize] = Some(new);
        }
        roots.iter().map(|r| renumbered[r.0 as usize].expect("roots are needed")).collect()
    }
}

impl Load {
    /// Whether this is a function of a byte, given as a table: it reads element `b` of at least 256 bytes, unconditionally,
    /// where `b` is an unsigned byte of the body. `len_elems` are the elements of what is read.
    #[must_use]
    pub fn looks_up(&self, body: &Body, len_elems: &Dim) -> bool {
        let ([first], [(0, byte, factor)]) = (&self.index[..], &self.gather[..]) else { return false };
        let begins = first.as_const().filter(|&first| first >= 0);
        let fits = begins.zip(len_elems.as_const()).is_some_and(|(first, len)| first.saturating_add(256) <= len);
        let is_byte = self.dtype.size_bytes() == Some(1) && body.dtype(*byte) == DType::U8;
        fits && is_byte && factor.is_const(1) && self.valid.is_empty()
    }
}

impl ScalarOp {
    /// Calls `f` for every operand.
    pub fn for_each_operand(&self, f: &mut dyn FnMut(ScalarId)) {
        match self {
            ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) | ScalarOp::InBounds(_) => {}
            ScalarOp::Load(load) => load.gather.iter().for_each(|(_, v, _)| f(*v)),
            ScalarOp::Unary(_, a) | ScalarOp::Cast(_, a) | ScalarOp::CastSaturating(_, a) | ScalarOp::BitCast(_, a) => {
                f(*a)
            }
            ScalarOp::Binary(_, a, b) | ScalarOp::Compare(_, a, b) => {
                f(*a);
                f(*b);
            }
            ScalarOp::Select(c, a, b) => {
                f(*c);
                f(*a);
                f(*b);
            }
        }
    }

    /// The operation with its operands replaced.
    #[must_use]
    pub fn map_operands(&self, f: &mut dyn FnMut(ScalarId) -> ScalarId) -> Self {
        match self {
            ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) | ScalarOp::InBounds(_) => self.clone(),
            ScalarOp::Load(load) => {
                let gather = load.gather.iter().map(|(axis, v, by)| (*axis, f(*v), by.clone())).collect();
                ScalarOp::Load(Load { gather, ..load.clone() })
            }
            ScalarOp::Unary(op, a) => ScalarOp::Unary(*op, f(*a)),
            ScalarOp::Cast(dtype, a) => ScalarOp::Cast(*dtype, f(*a)),
            ScalarOp::CastSaturating(dtype, a) => ScalarOp::CastSaturating(*dtype, f(*a)),
            ScalarOp::BitCast(dtype, a) => ScalarOp::BitCast(*dtype, f(*a)),
            ScalarOp::Binary(op, a, b) => ScalarOp::Binary(*op, f(*a), f(*b)),
            ScalarOp::Compare(op, a, b) => ScalarOp::Compare(*op, f(*a), f(*b)),
            ScalarOp::Select(c, a, b) => ScalarOp::Select(f(*c), f(*a), f(*b)),
        }
    }

    /// The operation with every index expression replaced.
    #[must_use]
    pub fn map_indices(&self, f: &dyn Fn(&IndexExpr) -> IndexExpr) -> Self {
        match self {
            ScalarOp::Index(e) => ScalarOp::Index(f(e)),
            ScalarOp::InBounds(bounds) => ScalarOp::InBounds(bounds.iter().map(|b| b.map(f)).collect()),
            ScalarOp::Load(load) => ScalarOp::Load(Load {
                index: load.index.iter().map(f).collect(),
                gather: load.gather.iter().map(|(a, v, by)| (*a, *v, f(by))).collect(),
                valid: load.valid.iter().map(|b| b.map(f)).collect(),
                ..load.clone()
            }),
            other => other.clone(),
        }
    }
}
