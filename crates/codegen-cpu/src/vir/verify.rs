//! What must hold of every [`Function`]. The errors are our bugs, never a user's.
//!
//! Checked: every value is defined once, before its uses, in the same block or an enclosing one; operand and result
//! types fit the operation; loops yield one value of the right type per carried value, branches the same types both
//! ways; steps are positive; lane counts are powers of two up to 64; 16-bit floats are only moved and converted.

use super::tile::{MOST_ROW_BYTES, MOST_ROWS};
use super::{
    BinaryOp, Block, Cond, Convert, Elem, Function, I64, Inst, Loop, Op, TileInst, TileShape, TileShapes, Type,
    UnaryOp, Value,
};

/// Checks a function and collects everything that is wrong with it.
///
/// # Errors
/// One line per violation.
pub fn check(function: &Function) -> Result<(), Vec<String>> {
    let mut verifier = Verifier {
        function,
        defined: vec![Scope::Nowhere; function.types.len()],
        tiles: TileShapes::default(),
        errors: Vec::new(),
    };
    verifier.block(&function.body);
    if verifier.errors.is_empty() { Ok(()) } else { Err(verifier.errors) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Nowhere,
    Visible,
    Closed,
}

struct Verifier<'a> {
    function: &'a Function,
    defined: Vec<Scope>,
    /// As the last instruction in the text that tells it says.
    tiles: TileShapes,
    errors: Vec<String>,
}

impl Verifier<'_> {
    fn fail(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    fn require(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.errors.push(message());
        }
    }

    fn ty(&self, value: Value) -> Type {
        self.function.types.get(value.0 as usize).copied().unwrap_or(Type::scalar(Elem::Mask))
    }

    fn used(&mut self, value: Value) {
        match self.defined.get(value.0 as usize) {
            Some(Scope::Visible) => {}
            Some(Scope::Closed) => self.fail(format!("{value} is used outside the block that defines it")),
            Some(Scope::Nowhere) | None => self.fail(format!("{value} is used before it is defined")),
        }
    }

    fn define(&mut self, value: Value, scope: &mut Vec<Value>) {
        let Some(&known) = self.defined.get(value.0 as usize) else {
            return self.fail(format!("{value} has no type"));
        };
        let lanes = self.ty(value).lanes;
        self.require(lanes.is_power_of_two() && lanes <= 64, || format!("{value} has {lanes} lanes"));
        self.require(known == Scope::Nowhere, || format!("{value} is defined twice"));
        self.defined[value.0 as usize] = Scope::Visible;
        scope.push(value);
    }

    fn close(&mut self, scope: Vec<Value>) {
        for value in scope {
            self.defined[value.0 as usize] = Scope::Closed;
        }
    }

    fn block(&mut self, block: &Block) {
        let mut scope = Vec::new();
        self.insts(block, &mut scope);
        self.close(scope);
    }

    /// Checks instructions and yields; the caller closes the scope.
    fn insts(&mut self, block: &Block, scope: &mut Vec<Value>) {
        for inst in &block.insts {
            match inst {
                Inst::Op { result, op } => {
                    op.for_each_operand(|value| self.used(value));
                    if let Err(expected) = self.op_type(op, self.ty(*result)) {
                        self.fail(format!("{result} = {op:?} : {} needs {expected}", self.ty(*result)));
                    }
                    self.define(*result, scope);
                }
                Inst::Store { value, base, mask, .. } => {
                    inst.for_each_use(|value| self.used(value));
                    let (ty, mask_ty) = (self.ty(*value), mask.map(|mask| self.ty(mask)));
                    self.require(ty.elem != Elem::Mask, || format!("store of the mask {value}"));
                    self.require(self.ty(*base) == I64, || format!("{base} is no address"));
                    self.require(mask_ty.is_none_or(|m| m == ty.mask()), || format!("mask of a store of {value}"));
                }
                Inst::Scatter { value, base, index, scale, mask, .. } => {
                    inst.for_each_use(|value| self.used(value));
                    let ty = self.ty(*value);
                    let fits = self.index_fits(*index, *scale, *mask, ty) && self.ty(*base) == I64;
                    self.require(fits, || format!("operands of a scatter of {value}"));
                }
                Inst::Loop(l) => self.counted_loop(l, scope),
                Inst::If { cond, then, otherwise, results } => {
                    self.used(*cond);
                    self.require(self.ty(*cond) == Type::scalar(Elem::Mask), || format!("condition {cond}"));
                    for way in [then, otherwise] {
                        self.block(way);
                        let found: Vec<Type> = way.yields.iter().map(|&value| self.ty(value)).collect();
                        let wanted: Vec<Type> = results.iter().map(|&value| self.ty(value)).collect();
                        self.require(found == wanted, || format!("yields of a branch: {found:?}, not {wanted:?}"));
                    }
                    results.iter().for_each(|&result| self.define(result, scope));
                }
                Inst::Prefetch { base, .. } => {
                    self.used(*base);
                    self.require(self.ty(*base) == I64, || format!("{base} is no address"));
                }
                Inst::Tile(tile) => {
                    tile.for_each_use(|value| {
                        self.used(value);
                        self.require(self.ty(value) == I64, || format!("{value} is no address or distance"));
                    });
                    self.tile(tile);
                }
            }
        }
        block.yields.iter().for_each(|&value| self.used(value));
    }

    fn tile(&mut self, inst: &TileInst) {
        let shape_of = |tile: u8| self.tiles.0.get(usize::from(tile)).copied().unwrap_or_default();
        match *inst {
            TileInst::Configure { shapes } => {
                let known = self.function.tile_shapes.get(shapes as usize).copied();
                self.require(known.is_some(), || format!("sizes {shapes} of tile registers are not told"));
                self.tiles = known.unwrap_or_default();
            }
            TileInst::Zero { tile } | TileInst::Load { tile, .. } | TileInst::Store { tile, .. } => {
                let TileShape { rows, row_bytes } = shape_of(tile);
                self.require((1..=MOST_ROWS).contains(&rows) && (1..=MOST_ROW_BYTES).contains(&row_bytes), || {
                    format!("tile register {tile} has {rows} rows of {row_bytes} bytes")
                });
            }
            TileInst::Multiply { sum, rows, columns, .. } => {
                let [s, a, b] = [sum, rows, columns].map(shape_of);
                let fits = s.rows == a.rows && s.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows;
                self.require(fits && s.rows > 0 && b.rows > 0, || {
                    format!("tile registers {sum}, {rows} and {columns} do not fit together")
                });
            }
        }
    }

    fn counted_loop(&mut self, l: &Loop, scope: &mut Vec<Value>) {
        self.used(l.start);
        self.used(l.end);
        self.require(l.step > 0, || format!("step {} of the loop over {}", l.step, l.iv));
        let bounds_fit = self.ty(l.start) == I64 && self.ty(l.end) == I64 && self.ty(l.iv) == I64;
        self.require(bounds_fit, || format!("bounds of the loop over {}", l.iv));
        let mut inside = Vec::new();
        self.define(l.iv, &mut inside);
        for &(value, init) in &l.carried {
            self.used(init);
            self.define(value, &mut inside);
        }
        self.insts(&l.body, &mut inside);
        self.close(inside);
        let types = |values: &mut dyn Iterator<Item = Value>| values.map(|v| self.ty(v)).collect::<Vec<_>>();
        let carried = types(&mut l.carried.iter().map(|&(value, _)| value));
        let inits = types(&mut l.carried.iter().map(|&(_, init)| init));
        let yields = types(&mut l.body.yields.iter().copied());
        let results = types(&mut l.results.iter().copied());
        let agree = carried == inits && carried == yields && carried == results;
        self.require(agree, || format!("carried values of the loop over {}", l.iv));
        l.results.iter().for_each(|&result| self.define(result, scope));
    }

    fn index_fits(&self, index: Value, scale: u8, mask: Option<Value>, ty: Type) -> bool {
        let index = self.ty(index);
        matches!(index.elem, Elem::I32 | Elem::I64)
            && index.lanes == ty.lanes
            && matches!(scale, 1 | 2 | 4 | 8)
            && mask.is_none_or(|mask| self.ty(mask) == ty.mask())
    }

    /// Checks the types of an operation; the error says what would fit.
    fn op_type(&self, op: &Op, ty: Type) -> Result<(), &'static str> {
        let of = |value: Value| self.ty(value);
        let integer = |ty: Type| matches!(ty.elem, Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64);
        let when = |holds: bool, expected: &'static str| if holds { Ok(()) } else { Err(expected) };
        match *op {
            Op::Param(n) => when(n < 4 && ty == I64, "parameter 0 to 3 as i64"),
            Op::Const(_) => Ok(()),
            Op::Lanes(ref lanes) => {
                when(ty.elem != Elem::Mask && lanes.len() == usize::from(ty.lanes), "as many numbers as lanes")
            }
            Op::Unary(kind, a) => {
                let fits = match kind {
                    UnaryOp::Neg | UnaryOp::Abs => integer(ty) || ty.elem.is_float(),
                    UnaryOp::Not => integer(ty) || ty.elem == Elem::Mask,
                    UnaryOp::Table(_) => ty.elem == Elem::F32,
                    _ => ty.elem.is_float(),
                };
                when(fits && of(a) == ty, "an operand of the result's type that the operation knows")
            }
            Op::Binary(kind, a, b) => {
                let fits = match kind {
                    BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => true,
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min | BinaryOp::Max => {
                        integer(ty) || ty.elem.is_float()
                    }
                    BinaryOp::Scale => ty.elem.is_float(),
                    _ => integer(ty),
                };
                when(fits && of(a) == ty && of(b) == ty, "operands of the result's type that the operation knows")
            }
            Op::Fma(a, b, c) => when(
                ty.elem.is_float() && of(a) == ty && of(b) == ty && of(c) == ty,
                "f32 or f64 operands of the result's type",
            ),
            Op::Compare(cond, a, b) => {
                let unsigned = matches!(cond, Cond::LtU | Cond::LeU);
                let float = of(a).elem.is_float();
                let known = if float { !unsigned } else { integer(of(a)) && cond != Cond::Ordered };
                when(of(a) == of(b) && of(a).mask() == ty && known, "two numbers of one type, giving a mask")
            }
            Op::Select(mask, a, b) => {
                when(of(mask) == ty.mask() && of(a) == ty && of(b) == ty, "a mask and two values of the result's type")
            }
            // Bits may be divided into lanes in another way.
            Op::Convert(Convert::Bitcast, a) => {
                let masks = of(a).elem == Elem::Mask || ty.elem == Elem::Mask;
                when(!masks && of(a).size_bytes() == ty.size_bytes(), "as many bits")
            }
            Op::Convert(kind, a) => {
                when(of(a).lanes == ty.lanes && converts(kind, of(a).elem, ty.elem), "types it knows")
            }
            Op::Splat(a) => when(of(a) == Type::scalar(ty.elem), "a scalar"),
            Op::LowHalf(a) | Op::HighHalf(a) => {
                when(of(a).elem == ty.elem && of(a).lanes == 2 * ty.lanes, "twice the lanes")
            }
            Op::Extract(a, lane) => {
                when(ty == Type::scalar(of(a).elem) && lane < of(a).lanes, "a lane that the operand has")
            }
            Op::Join(a, b) => {
                when(of(a) == of(b) && of(a).elem == ty.elem && 2 * of(a).lanes == ty.lanes, "two halves")
            }
            Op::Permute(a, b, from) => {
                let fits = ty.elem.size_bytes() == 4 && of(from) == Type::vector(Elem::I32, ty.lanes);
                when(fits && of(a) == ty && of(b) == ty, "vectors of 32 bits, and as many numbers of lanes")
            }
            Op::Shuffle(a, b, lanes) => {
                let fits =
                    ty.lanes.is_multiple_of(4) && ty.elem.size_bytes() == 4 && lanes.iter().all(|&lane| lane < 4);
                when(fits && of(a) == ty && of(b) == ty, "groups of four lanes of 32 bits")
            }
            Op::FirstLanes(n) => when(of(n) == I64 && ty.elem == Elem::Mask, "an i64 giving a mask"),
            Op::MaskBits(a) => when(of(a).elem == Elem::Mask && ty == I64, "a mask giving an i64"),
            Op::Load { base, .. } => {
                when(of(base) == I64 && ty.elem != Elem::Mask, "an i64 address and a type with a memory form")
            }
            Op::LoadSplat { base, period, .. } => {
                let fits = period.is_power_of_two() && 2 * period <= ty.lanes && ty.elem != Elem::Mask;
                when(fits && of(base) == I64, "an i64 address and a type with a memory form, of two periods or more")
            }
            Op::LoadMasked { base, mask, .. } => {
                when(of(base) == I64 && of(mask) == ty.mask() && ty.elem != Elem::Mask, "an i64 address and a mask")
            }
            Op::Gather { base, index, scale, mask, .. } => {
                when(of(base) == I64 && self.index_fits(index, scale, mask, ty), "an address, indices and a mask")
            }
            Op::Lookup { base, index, .. } => {
                let fits = ty.elem == Elem::I8 && ty.lanes > 1 && of(index) == ty.with_elem(Elem::I32);
                when(of(base) == I64 && fits, "bytes, an i64 address and indices of i32")
            }
            Op::Dot4(acc, a, b) => {
                let bytes = Type::vector(Elem::I8, ty.lanes.saturating_mul(4));
                when(ty.elem == Elem::I32 && of(acc) == ty && of(a) == bytes && of(b) == bytes, "i32 += i8 · i8")
            }
            Op::Dot2(a, b) => {
                let halves = Type::vector(Elem::I16, ty.lanes.saturating_mul(2));
                when(ty.elem == Elem::I32 && of(a) == halves && of(b) == halves, "i32 = i16 · i16")
            }
            Op::Dot2Bf16(acc, a, b) => {
                let words = ty.with_elem(Elem::I32);
                let fits = ty.elem == Elem::F32 && of(acc) == ty && of(a) == words && of(b) == words;
                when(fits && ty.lanes > 1, "f32 += pairs of bf16 in i32")
            }
        }
    }
}

fn converts(kind: Convert, from: Elem, to: Elem) -> bool {
    let integer = |elem: Elem| matches!(elem, Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64);
    let float = |elem: Elem| matches!(elem, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64);
    match kind {
        Convert::SignExtend | Convert::ZeroExtend => {
            integer(from) && integer(to) && from.size_bytes() < to.size_bytes()
        }
        Convert::Truncate => integer(from) && integer(to) && from.size_bytes() > to.size_bytes(),
        Convert::IntToFloat => matches!(from, Elem::I32 | Elem::I64) && to.is_float(),
        Convert::FloatToInt | Convert::FloatToIntRound => from.is_float() && matches!(to, Elem::I32 | Elem::I64),
        Convert::Float => float(from) && float(to),
        Convert::Bitcast => true,
        Convert::MaskToInt => from == Elem::Mask && integer(to),
    }
}
