//! The text of a function, for people and tests. It does not parse back.
//!
//! Constants are written where they are used, not where they are defined.

use super::{BinaryOp, Block, Cond, Convert, Elem, Function, Inst, Op, TileInst, Type, UnaryOp, Value, dce, eval};
use std::fmt::{self, Display, Formatter};

impl Display for Elem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::Mask => "mask",
        })
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => write!(f, "{}", self.elem),
            lanes => write!(f, "{}x{lanes}", self.elem),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl Display for UnaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnaryOp::Neg => "neg",
            UnaryOp::Abs => "abs",
            UnaryOp::Not => "not",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::RoundEven => "round_even",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Trunc => "trunc",
            UnaryOp::Table(table) => table.name(),
        })
    }
}

impl Display for BinaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "div",
            BinaryOp::Rem => "rem",
            BinaryOp::DivU => "div_u",
            BinaryOp::RemU => "rem_u",
            BinaryOp::Min => "min",
            BinaryOp::Max => "max",
            BinaryOp::MinU => "min_u",
            BinaryOp::MaxU => "max_u",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
            BinaryOp::Xor => "xor",
            BinaryOp::Shl => "shl",
            BinaryOp::ShrS => "shr_s",
            BinaryOp::ShrU => "shr_u",
            BinaryOp::Scale => "scale",
        })
    }
}

impl Display for Cond {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cond::Eq => "eq",
            Cond::Ne => "ne",
            Cond::Lt => "lt",
            Cond::Le => "le",
            Cond::Gt => "gt",
            Cond::Ge => "ge",
            Cond::LtU => "lt_u",
            Cond::LeU => "le_u",
            Cond::Ordered => "ordered",
        })
    }
}

impl Display for Convert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Convert::SignExtend => "sign_extend",
            Convert::ZeroExtend => "zero_extend",
            Convert::Truncate => "truncate",
            Convert::IntToFloat => "int_to_float",
            Convert::FloatToInt => "float_to_int",
            Convert::FloatToIntRound => "float_to_int_round",
            Convert::Float => "float",
            Convert::Bitcast => "bitcast",
            Convert::MaskToInt => "mask_to_int",
        })
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let printer = Printer { function: self, ops: dce::definitions(self) };
        writeln!(f, "function {} {{", self.name)?;
        printer.block(f, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

struct Printer<'a> {
    function: &'a Function,
    ops: Vec<Option<Op>>,
}

impl Printer<'_> {
    /// A use: the constant itself or the value's number.
    fn value(&self, value: Value) -> String {
        let ty = self.function.ty(value);
        match self.ops[value.0 as usize] {
            Some(Op::Const(bits)) => match ty.elem {
                Elem::Mask => format!("{ty} {bits:#b}"),
                Elem::I64 if ty.lanes == 1 => format!("{}", bits.cast_signed()),
                elem if elem.is_float() => format!("{ty} {:?}", eval::to_f64(elem, bits)),
                elem => format!("{ty} {}", eval::sign_extend(elem, bits)),
            },
            _ => value.to_string(),
        }
    }

    fn list(&self, values: &[Value]) -> String {
        let texts: Vec<String> = values.iter().map(|&value| self.value(value)).collect();
        texts.join(", ")
    }

    fn address(&self, base: Value, disp: i32) -> String {
        match disp {
            0 => format!("[{}]", self.value(base)),
            _ => format!("[{} {} {}]", self.value(base), if disp < 0 { '-' } else { '+' }, disp.unsigned_abs()),
        }
    }

    fn indexed(&self, base: Value, index: Value, scale: u8, disp: i32) -> String {
        format!("{} + {}*{scale}", self.address(base, disp), self.value(index))
    }

    fn masked(&self, mask: Option<Value>) -> String {
        mask.map(|mask| format!(" where {}", self.value(mask))).unwrap_or_default()
    }

    fn op(&self, op: &Op) -> String {
        let mut operands = Vec::new();
        op.for_each_operand(|value| operands.push(value));
        let operands = self.list(&operands);
        match *op {
            Op::Param(n) => format!("param {n}"),
            Op::Const(bits) => format!("const {bits:#x}"),
            Op::Lanes(ref lanes) => format!("lanes {lanes:?}"),
            Op::Unary(kind, _) => format!("{kind} {operands}"),
            Op::Binary(kind, ..) => format!("{kind} {operands}"),
            Op::Fma(..) => format!("fma {operands}"),
            Op::Compare(cond, ..) => format!("compare {cond} {operands}"),
            Op::Select(..) => format!("select {operands}"),
            Op::Convert(kind, _) => format!("{kind} {operands}"),
            Op::Splat(_) => format!("splat {operands}"),
            Op::LowHalf(_) => format!("low_half {operands}"),
            Op::HighHalf(_) => format!("high_half {operands}"),
            Op::Extract(_, lane) => format!("extract {operands} @{lane}"),
            Op::Join(..) => format!("join {operands}"),
            Op::Permute(..) => format!("permute {operands}"),
            Op::Shuffle(.., lanes) => format!("shuffle {operands} @{lanes:?}"),
            Op::FirstLanes(_) => format!("first_lanes {operands}"),
            Op::MaskBits(_) => format!("mask_bits {operands}"),
            Op::Dot4(..) => format!("dot4 {operands}"),
            Op::Dot2(..) => format!("dot2 {operands}"),
            Op::Dot2Bf16(..) => format!("dot2_bf16 {operands}"),
            Op::Load { base, disp, .. } => format!("load {}", self.address(base, disp)),
            Op::LoadSplat { base, disp, period: 1, .. } => format!("load_splat {}", self.address(base, disp)),
            Op::LoadSplat { base, disp, period, .. } => format!("load_splat {period} of {}", self.address(base, disp)),
            Op::LoadMasked { base, disp, mask } => {
                format!("load {}{}", self.address(base, disp), self.masked(Some(mask)))
            }
            Op::Gather { base, index, scale, disp, mask } => {
                format!("gather {}{}", self.indexed(base, index, scale, disp), self.masked(mask))
            }
            Op::Lookup { base, disp, index } => format!("lookup {}", self.indexed(base, index, 1, disp)),
        }
    }

    fn tile(&self, tile: &TileInst) -> String {
        let rows =
            |base: Value, disp: i32, stride: Value| format!("{} by {}", self.address(base, disp), self.value(stride));
        match *tile {
            TileInst::Configure { shapes } => {
                let shapes = self.function.tile_shapes.get(shapes as usize).copied().unwrap_or_default();
                let sizes = shapes.0.iter().map(|shape| format!("{}×{}", shape.rows, shape.row_bytes));
                format!("tiles {}", sizes.collect::<Vec<_>>().join(" "))
            }
            TileInst::Zero { tile } => format!("t{tile} = 0"),
            TileInst::Load { tile, base, disp, stride } => format!("t{tile} = load {}", rows(base, disp, stride)),
            TileInst::Store { tile, base, disp, stride } => format!("store {} = t{tile}", rows(base, disp, stride)),
            TileInst::Multiply { product, sum, rows, columns } => {
                format!("t{sum} += {product:?} t{rows} × t{columns}")
            }
        }
    }

    fn block(&self, f: &mut Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        for inst in &block.insts {
            match inst {
                Inst::Op { op: Op::Const(_), .. } => {}
                Inst::Op { result, op } => {
                    writeln!(f, "{indent}{result} = {} : {}", self.op(op), self.function.ty(*result))?;
                }
                Inst::Store { value, base, disp, mask } => {
                    let (place, mask) = (self.address(*base, *disp), self.masked(*mask));
                    writeln!(f, "{indent}store {place} = {}{mask}", self.value(*value))?;
                }
                Inst::Scatter { value, base, index, scale, disp, mask } => {
                    let (place, mask) = (self.indexed(*base, *index, *scale, *disp), self.masked(*mask));
                    writeln!(f, "{indent}scatter {place} = {}{mask}", self.value(*value))?;
                }
                Inst::Prefetch { base, disp, write } => {
                    let purpose = if *write { "write" } else { "read" };
                    writeln!(f, "{indent}prefetch {} to {purpose}", self.address(*base, *disp))?;
                }
                Inst::Tile(tile) => writeln!(f, "{indent}{}", self.tile(tile))?,
                Inst::Loop(l) => {
                    let (start, end) = (self.value(l.start), self.value(l.end));
                    write!(f, "{indent}")?;
                    if !l.results.is_empty() {
                        write!(f, "{} = ", self.list(&l.results))?;
                    }
                    write!(f, "loop {} in {start}..{end} step {}", l.iv, l.step)?;
                    if l.nonempty {
                        f.write_str(" nonempty")?;
                    }
                    for (n, &(inside, init)) in l.carried.iter().enumerate() {
                        let comma = if n == 0 { " carry " } else { ", " };
                        write!(f, "{comma}{inside}: {} = {}", self.function.ty(inside), self.value(init))?;
                    }
                    writeln!(f, " {{")?;
                    self.block(f, &l.body, depth + 1)?;
                    writeln!(f, "{indent}}}")?;
                }
                Inst::If { cond, then, otherwise, results } => {
                    write!(f, "{indent}")?;
                    if !results.is_empty() {
                        write!(f, "{} = ", self.list(results))?;
                    }
                    writeln!(f, "if {} {{", self.value(*cond))?;
                    self.block(f, then, depth + 1)?;
                    if !(otherwise.insts.is_empty() && otherwise.yields.is_empty()) {
                        writeln!(f, "{indent}}} else {{")?;
                        self.block(f, otherwise, depth + 1)?;
                    }
                    writeln!(f, "{indent}}}")?;
                }
            }
        }
        if !block.yields.is_empty() {
            writeln!(f, "{indent}yield {}", self.list(&block.yields))?;
        }
        Ok(())
    }
}
