//! `vir`: the structured vector SSA between loop nests and machine code.
//!
//! One [`Function`] is one kernel body below its parallel axis, with the ABI of ARCHITECTURE.md D7:
//! `extern "sysv64" fn(args: *const u64, begin: u64, end: u64, scratch: *mut u8)`. Values are scalars, vectors and
//! masks; control flow is structured ([`Inst::Loop`], [`Inst::If`]), so that the builder can place invariant code in
//! outer blocks while it is made, and both emitters lower it without a control-flow analysis of their own.
//!
//! Addresses are `i64` scalars; a memory access adds a constant byte displacement. Nothing here knows what an operator
//! is: reductions, convolutions and softmax all arrive as loops over arithmetic.

pub mod balance;
pub mod builder;
mod copy;
pub mod dce;
pub mod eval;
pub mod expand;
pub mod halves;
pub mod hold;
pub mod interleave;
pub mod interp;
mod line;
mod operands;
pub mod pack;
mod passing;
mod print;
pub mod regroup;
pub mod reload;
mod simplify;
pub mod speculate;
pub mod split;
pub mod strength;
pub mod tile;
pub mod verify;

pub use builder::{Builder, Memory};
pub use tile::{TileInst, TileShape, TileShapes};

/// A scalar element type as the machine computes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the well-known type names")]
pub enum Elem {
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    /// 16-bit float kept as bits: only loads, stores and [`Op::Convert`] take it.
    F16,
    /// As [`Elem::F16`], for bfloat16.
    BF16,
    /// One bit per lane: the result of comparisons.
    Mask,
}

impl Elem {
    /// Size in memory in bytes; masks have none.
    #[must_use]
    pub const fn size_bytes(self) -> u32 {
        match self {
            Elem::I8 => 1,
            Elem::I16 | Elem::F16 | Elem::BF16 => 2,
            Elem::I32 | Elem::F32 => 4,
            Elem::I64 | Elem::F64 => 8,
            Elem::Mask => 0,
        }
    }

    /// True for `f32` and `f64`, the types with float arithmetic.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F64)
    }
}

/// The type of a value: `lanes` elements; one lane is a scalar (a general-purpose register for integers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    /// What each lane holds.
    pub elem: Elem,
    /// A power of two; 1 for scalars. A vector may be wider than a register: emitters split it ("legalise").
    pub lanes: u16,
}

impl Type {
    /// A scalar of the given element type.
    #[must_use]
    pub const fn scalar(elem: Elem) -> Self {
        Self { elem, lanes: 1 }
    }

    /// A vector type.
    #[must_use]
    pub const fn vector(elem: Elem, lanes: u16) -> Self {
        Self { elem, lanes }
    }

    /// The mask type with as many lanes.
    #[must_use]
    pub const fn mask(self) -> Self {
        Self { elem: Elem::Mask, lanes: self.lanes }
    }

    /// The same number of lanes of another element type.
    #[must_use]
    pub const fn with_elem(self, elem: Elem) -> Self {
        Self { elem, lanes: self.lanes }
    }

    /// Size in memory in bytes.
    #[must_use]
    pub const fn size_bytes(self) -> u32 {
        self.elem.size_bytes() * self.lanes as u32
    }
}

/// Pointers and all index arithmetic are 64-bit integers.
pub const I64: Type = Type::scalar(Elem::I64);

/// An SSA value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// Operations on one value, lane by lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after what they compute")]
pub enum UnaryOp {
    Neg,
    Abs,
    Not,
    /// IEEE square root (floats).
    Sqrt,
    /// Round to integral, half to even (floats).
    RoundEven,
    Floor,
    Ceil,
    Trunc,
    /// A constant of a table at the number that the lowest four bits of an `f32` are. AVX-512 finds it by an instruction among 16 lanes,
    /// and builders make it only for targets that do; elsewhere it is spelled out.
    Table(infc_ir::math::Table),
}

/// Operations on two values of the same type, lane by lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Wrapping for integers.
    Add,
    /// Wrapping for integers.
    Sub,
    /// Wrapping for integers.
    Mul,
    /// Floats: IEEE. Signed integers: truncating; the divisor is never zero (guarded by who builds it).
    Div,
    /// Signed remainder, sign of the dividend (integers only).
    Rem,
    /// Unsigned division and remainder (integers only).
    DivU,
    /// See [`BinaryOp::DivU`].
    RemU,
    /// x86 `minps` semantics for floats: `a < b ? a : b` (so the second operand if either is NaN); signed for integers.
    Min,
    /// x86 `maxps` semantics for floats: `a > b ? a : b`; signed for integers.
    Max,
    /// Unsigned integer minimum.
    MinU,
    /// Unsigned integer maximum.
    MaxU,
    /// Bitwise, also on masks and on floats (as bits).
    And,
    /// See [`BinaryOp::And`].
    Or,
    /// See [`BinaryOp::And`].
    Xor,
    /// Shift by a per-lane amount below the width (integers).
    Shl,
    /// Arithmetic shift right.
    ShrS,
    /// Logical shift right.
    ShrU,
    /// `a·2^⌊b⌋` rounded once (floats); b is NaN only where a is. AVX-512 has an instruction, and builders make it
    /// only for targets that do; elsewhere it is spelled out.
    Scale,
}

/// Comparison conditions. For floats they are ordered (false on NaN), except `Ne`, which is true on NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after what they compute")]
pub enum Cond {
    Eq,
    Ne,
    /// Signed for integers.
    Lt,
    Le,
    Gt,
    Ge,
    /// Unsigned integers only.
    LtU,
    LeU,
    /// Neither is NaN (floats only).
    Ordered,
}

/// Conversions; the source and result types say between what. Lanes stay, except for [`Convert::Bitcast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convert {
    /// Integer to a wider integer, sign-extending.
    SignExtend,
    /// Integer to a wider integer, zero-extending.
    ZeroExtend,
    /// Integer to a narrower integer, dropping high bits.
    Truncate,
    /// Signed integer (I32, I64) to float.
    IntToFloat,
    /// Float to signed integer (I32, I64), truncating; out of range gives the minimum integer ("integer indefinite").
    FloatToInt,
    /// As [`Convert::FloatToInt`], but rounding half to even.
    FloatToIntRound,
    /// Between float widths (F16/BF16/F32/F64), rounding half to even.
    Float,
    /// Same bits, another type of the same size; also of other lanes, the first in the low bits.
    Bitcast,
    /// Mask to an integer per lane: 0 or 1.
    MaskToInt,
}

/// A pure operation (loads count as pure only from memory the function never writes).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The n-th parameter of the function: 0 args, 1 begin, 2 end, 3 scratch (all I64).
    Param(u8),
    /// A constant: the bits of one element, splat over the lanes of the type. For a mask: bit i is lane i.
    Const(u64),
    /// A constant whose lanes differ, by the bits of each (vectors, but no masks).
    Lanes(Box<[u64]>),
    /// See [`UnaryOp`].
    Unary(UnaryOp, Value),
    /// See [`BinaryOp`].
    Binary(BinaryOp, Value, Value),
    /// `a·b + c` rounded once (floats).
    Fma(Value, Value, Value),
    /// Lane-wise comparison giving a mask.
    Compare(Cond, Value, Value),
    /// `mask ? a : b`.
    Select(Value, Value, Value),
    /// See [`Convert`].
    Convert(Convert, Value),
    /// A scalar in all lanes.
    Splat(Value),
    /// The lower half of a vector's lanes.
    LowHalf(Value),
    /// The upper half of a vector's lanes.
    HighHalf(Value),
    /// One lane as a scalar.
    Extract(Value, u16),
    /// The lanes of the first operand, then those of the second. Like [`Op::Permute`] only where vectors fit registers.
    Join(Value, Value),
    /// Of lanes of 32 bits, in each group of four: two of the first operand's, then two of the second's, by number.
    Shuffle(Value, Value, [u8; 4]),
    /// Lanes of 32 bits of two vectors: lane `i` is the one that lane `i` of the third operand numbers, an [`Op::Lanes`]
    /// of I32; the second vector's are counted on from the first's.
    Permute(Value, Value, Value),
    /// The mask whose first `n` lanes are set, `n` an I64 scalar (below 0 is none, above the lanes is all).
    FirstLanes(Value),
    /// A mask's lanes as the bits of an I64 scalar.
    MaskBits(Value),
    /// Reads a whole value at `base + disp`; no alignment is assumed.
    Load {
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Nobody writes this memory while the function runs, so that the load may be made anywhere and again.
        invariant: bool,
    },
    /// Reads only the lanes that the mask sets; the others are zero and their memory is not touched.
    LoadMasked {
        /// Address of lane 0.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Lanes to read.
        mask: Value,
    },
    /// Reads a few neighbours and puts them in all lanes, again and again; one element is the usual case.
    LoadSplat {
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// How many neighbours: a power of two, at most half of the lanes.
        period: u16,
        /// See [`Op::Load`].
        invariant: bool,
    },
    /// Reads `base + index·scale + disp` per lane; lanes off in the mask are zero and not touched.
    Gather {
        /// Address.
        base: Value,
        /// Vector of I32 or I64 (signed) with as many lanes.
        index: Value,
        /// Bytes per index step: 1, 2, 4 or 8.
        scale: u8,
        /// Constant byte displacement.
        disp: i32,
        /// Lanes to read.
        mask: Option<Value>,
    },
    /// Per lane, a function of a byte: the byte at `base + disp + index`, in a table of 256 bytes that nobody writes and that
    /// may all be read. Of the index, a vector of I32 with as many lanes, only the lowest byte counts.
    Lookup {
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Which element of the table.
        index: Value,
    },
    /// Per 32-bit lane: `acc + Σ₄ a(u8)·b(i8)`, wrapping (VNNI `vpdpbusd`); a and b are I8 vectors of 4× the lanes.
    Dot4(Value, Value, Value),
    /// Per 32-bit lane: `Σ₂ a·b` of signed 16-bit numbers, wrapping (`vpmaddwd`); a and b are I16 vectors of 2× the lanes.
    Dot2(Value, Value),
    /// Per 32-bit lane: `acc + Σ₂ a·b` in f32 of the two bfloat16 numbers in each lane of a and b, which are I32 vectors:
    /// the product of the upper halves is added first, then that of the lower ones, each rounded once (AVX512-BF16
    /// `vdpbf16ps`). Subnormal operands count as zero, and so do subnormal sums; an emitter without the instruction may
    /// keep them.
    Dot2Bf16(Value, Value, Value),
}

/// A sequence of instructions and the values it hands to what follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// In order.
    pub insts: Vec<Inst>,
    /// Values yielded to the enclosing [`Inst::Loop`] or [`Inst::If`].
    pub yields: Vec<Value>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// `result = op`.
    Op {
        /// The value defined.
        result: Value,
        /// How.
        op: Op,
    },
    /// Writes a value (lanes of the mask only, if there is one) at `base + disp`.
    Store {
        /// What to write.
        value: Value,
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Lanes to write; `None` is all.
        mask: Option<Value>,
    },
    /// Writes lane i at `base + index[i]·scale + disp`, in lane order.
    Scatter {
        /// What to write.
        value: Value,
        /// Address.
        base: Value,
        /// Vector of I32 or I64 with as many lanes.
        index: Value,
        /// Bytes per index step: 1, 2, 4 or 8.
        scale: u8,
        /// Constant byte displacement.
        disp: i32,
        /// Lanes to write; `None` is all.
        mask: Option<Value>,
    },
    /// `for iv in (start..end).step_by(step)` with values carried from one turn to the next.
    Loop(Box<Loop>),
    /// Two ways; the yields of the blocks become `results`.
    If {
        /// A one-lane mask.
        cond: Value,
        /// Taken when the condition holds.
        then: Block,
        /// Taken otherwise.
        otherwise: Block,
        /// Values defined by this instruction, one per yield.
        results: Vec<Value>,
    },
    /// Asks for the cache line at `base + disp`. Nothing happens if it does not exist.
    Prefetch {
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// It is going to be written, not only read.
        write: bool,
    },
    /// Something with tile registers, which are no values: they keep what they hold from one instruction to the next, in loops
    /// too.
    Tile(TileInst),
}

/// A counted loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The induction variable (I64), defined in the body.
    pub iv: Value,
    /// First value.
    pub start: Value,
    /// The loop runs while `iv < end` (signed).
    pub end: Value,
    /// Positive constant.
    pub step: i64,
    /// Known to run at least once: then loads may be moved in front of it, and the first test left out.
    pub nonempty: bool,
    /// Values inside the body that stand for what the previous turn yielded, and their first values.
    pub carried: Vec<(Value, Value)>,
    /// Its yields are the next turn's carried values.
    pub body: Block,
    /// The carried values after the last turn, as seen behind the loop.
    pub results: Vec<Value>,
}

/// A whole kernel body.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// The code.
    pub body: Block,
    /// Types of all values, by number.
    pub types: Vec<Type>,
    /// Bytes of stack that `scratch` does not cover: 0 at present, since nests put stack buffers into scratch.
    pub scratch_bytes: u64,
    /// What [`TileInst::Configure`] numbers.
    pub tile_shapes: Vec<TileShapes>,
}

impl Function {
    /// The type of a value.
    #[must_use]
    pub fn ty(&self, value: Value) -> Type {
        self.types[value.0 as usize]
    }
}

/// A new value; `types` has those of all values.
///
/// # Panics
/// If there are 2³² values.
fn fresh(types: &mut Vec<Type>, ty: Type) -> Value {
    let value = Value(u32::try_from(types.len()).expect("fewer than 2³² values"));
    types.push(ty);
    value
}

/// Appends an operation, whose result is a new value.
fn emit(types: &mut Vec<Type>, insts: &mut Vec<Inst>, ty: Type, op: Op) -> Value {
    let result = fresh(types, ty);
    insts.push(Inst::Op { result, op });
    result
}
