//! One instruction of text, with its registers' types checked.

use crate::SimError;
use crate::group::GroupMma;
use crate::instruction::{Address, Compare, Compute, Instruction, Operation, Reg, Round, Shuffle, Space, Special, Src};
use crate::matrix::Factor;
use crate::module::Names;
use crate::token::Cursor;
use crate::types::{Kind, Ty};

/// Reads an instruction and the semicolon behind it.
pub(crate) fn decode(c: &mut Cursor<'_>, names: &mut Names) -> Result<Instruction, SimError> {
    let line = c.line();
    let guard = if c.eat("@") {
        let holds = !c.eat("!");
        let mut d = Decoder { c, names, line, text: "@" };
        Some((d.reg(Ty::PRED, false)?, holds))
    } else {
        None
    };
    let text = c.next("an instruction")?;
    let mut d = Decoder { c, names, line, text };
    let operation = d.operation()?;
    d.c.expect(";")?;
    Ok(Instruction { line, guard, operation })
}

struct Decoder<'d, 'a> {
    c: &'d mut Cursor<'a>,
    names: &'d mut Names,
    line: u32,
    /// The instruction with its modifiers.
    text: &'a str,
}

impl<'a> Decoder<'_, 'a> {
    fn unknown(&self) -> SimError {
        SimError::UnknownInstruction { line: self.line, instruction: self.text.to_owned() }
    }

    fn wrong(&self, operand: &str, reason: impl Into<String>) -> SimError {
        let (instruction, operand) = (self.text.to_owned(), operand.to_owned());
        SimError::OperandType { line: self.line, instruction, operand, reason: reason.into() }
    }

    fn operation(&mut self) -> Result<Operation, SimError> {
        let parts: Vec<&'a str> = self.text.split('.').collect();
        match parts[..] {
            ["ret"] => Ok(Operation::Return),
            ["bra"] | ["bra", "uni"] => {
                let label = self.c.next("a label")?;
                Ok(Operation::Branch { to: self.names.label(label) })
            }
            ["bar", "sync"] => {
                self.c.expect("0")?;
                Ok(Operation::Barrier)
            }
            ["cp", "async", "commit_group"] => Ok(Operation::CommitGroup),
            ["cp", "async", "wait_all"] => Ok(Operation::WaitGroup { pending: 0 }),
            ["cp", "async", "wait_group"] => {
                let pending = usize::try_from(self.c.integer()?).map_err(|_| self.c.error("a number of groups"))?;
                Ok(Operation::WaitGroup { pending })
            }
            ["cp", "async", cache @ ("ca" | "cg"), "shared", "global"] => self.copy_async(cache),
            ["griddepcontrol", "wait"] => Ok(Operation::GridWait),
            ["ld", "param", ty] => self.load_parameter(ty),
            ["ld", space, ref rest @ ..] => self.load(space, rest),
            ["st", space, ref rest @ ..] => self.store(space, rest),
            ["mov", ty] => self.mov(ty),
            ["cvta", "to", "global", "u64"] => self.compute(Compute::Mov, Ty::U64, 1),
            ["cvt", ref rest @ ..] => self.convert(rest),
            ["setp", compare, ty] => self.compare(compare, ty),
            ["shfl", "sync", mode, "b32"] => self.shuffle(mode),
            ["mma", "sync", "aligned", shape, "row", "col", sum, a, b, c] => self.mma(shape, a, b, sum, c),
            ["fence", "proxy", "async"] | ["fence", "proxy", "async", "shared::cta"] => Ok(Operation::ProxyFence),
            ["wgmma", "fence", "sync", "aligned"] => Ok(Operation::GroupFence),
            ["wgmma", "commit_group", "sync", "aligned"] => Ok(Operation::GroupCommit),
            ["wgmma", "wait_group", "sync", "aligned"] => {
                let pending = usize::try_from(self.c.integer()?).ok().filter(|n| *n < 8);
                Ok(Operation::GroupWait { pending: pending.ok_or_else(|| self.c.error("a number of groups below 8"))? })
            }
            ["wgmma", "mma_async", "sync", "aligned", shape, sum, a, b] => self.group_mma(shape, sum, a, b),
            ["ldmatrix", "sync", "aligned", "m8n8", count, ref trans @ .., "shared", "b16"] => {
                let count = ["x1", "x2", "x4"].iter().position(|n| *n == count).ok_or_else(|| self.unknown())?;
                let transposed = match trans {
                    [] => false,
                    ["trans"] => true,
                    _ => return Err(self.unknown()),
                };
                let dsts = self.list(1 << count, |d| d.reg(Ty::U32, false))?;
                self.c.expect(",")?;
                let from = self.address()?;
                Ok(Operation::LoadMatrix { dsts, from, transposed })
            }
            ["selp", ty] => {
                let ty = self.ty(ty)?;
                let dst = self.reg(ty, false)?;
                let (a, b) = (self.next_src(ty)?, self.next_src(ty)?);
                let p = self.next_src(Ty::PRED)?;
                Ok(Operation::Compute { op: Compute::Selp, ty, dst, srcs: [a, b, p] })
            }
            ["mad", "wide", ty @ ("s32" | "u32")] => self.wide(Compute::MadWide, ty),
            ["mul", "wide", ty @ ("s32" | "u32")] => self.wide(Compute::MulWide, ty),
            ["shl", ty] => self.shift(Compute::Shl, ty),
            ["shr", ty] => self.shift(Compute::Shr, ty),
            [opcode, ref modifiers @ .., ty] => {
                let ty = self.ty(ty)?;
                let (op, count) = arithmetic(opcode, modifiers, ty).ok_or_else(|| self.unknown())?;
                self.compute(op, ty, count)
            }
            _ => Err(self.unknown()),
        }
    }

    fn ty(&self, name: &str) -> Result<Ty, SimError> {
        Ty::named(name).ok_or_else(|| self.unknown())
    }

    // ------------------------------------------------------------------------------------------------ operands --

    /// A register for a value of the type; for loads, stores and conversions it may be wider.
    fn reg(&mut self, ty: Ty, narrow: bool) -> Result<Reg, SimError> {
        let name = self.c.next("a register")?;
        let undeclared = || SimError::Undeclared { line: self.line, name: name.to_owned() };
        let (reg, declared) = self.names.registers.find(name).ok_or_else(undeclared)?;
        let fits = if narrow { declared.holds_narrow(ty) } else { declared.holds(ty) };
        if !fits {
            return Err(self.wrong(name, format!("it is declared as {declared}, and {ty} is wanted")));
        }
        Ok(reg)
    }

    fn next_src(&mut self, ty: Ty) -> Result<Src, SimError> {
        self.c.expect(",")?;
        self.src(ty, false)
    }

    /// A register or a number.
    fn src(&mut self, ty: Ty, narrow: bool) -> Result<Src, SimError> {
        let word = self.c.peek().unwrap_or_default();
        if word.starts_with('%') {
            return self.reg(ty, narrow).map(Src::Reg);
        }
        let float = |prefix: &str, digits: usize| {
            let hex = word.strip_prefix(prefix).filter(|hex| hex.len() == digits)?;
            u64::from_str_radix(hex, 16).ok()
        };
        let bits = match (ty.kind, ty.bits) {
            (Kind::Pred, _) => return Err(self.wrong(word, "a predicate is a register")),
            (Kind::Float, 32) => float("0f", 8),
            (Kind::Float, 64) => float("0d", 16),
            (Kind::Float | Kind::Bf16, _) => return Err(self.wrong(word, "halves have no numbers")),
            _ => {
                let value = self.c.integer()?;
                let fits = value >= -(1i128 << (ty.bits - 1)) && value < 1i128 << ty.bits;
                if !fits {
                    return Err(self.wrong(&value.to_string(), format!("it is no {ty}")));
                }
                return Ok(Src::Bits(value as u64 & ty.mask()));
            }
        };
        let bits = bits.ok_or_else(|| self.wrong(word, format!("it is no number of type {ty}")))?;
        self.c.next("a number")?;
        Ok(Src::Bits(bits))
    }

    /// `[register]`, `[register+4]` or `[name]`.
    fn address(&mut self) -> Result<Address, SimError> {
        self.c.expect("[")?;
        let word = self.c.peek().unwrap_or_default();
        let base = match self.names.addresses.get(word) {
            Some(&address) => {
                self.c.next("a name")?;
                Src::Bits(address)
            }
            None => Src::Reg(self.reg(Ty::U64, false)?),
        };
        // A negative offset is added as well: the assembler knows no `[register-4]`.
        let offset = if self.c.eat("+") { self.c.integer()? } else { 0 };
        self.c.expect("]")?;
        let offset = i64::try_from(offset).map_err(|_| self.c.error("an offset"))?;
        Ok(Address { base, offset })
    }

    /// One operand, or as many in braces as the vector has.
    fn list<T>(
        &mut self,
        count: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, SimError>,
    ) -> Result<Vec<T>, SimError> {
        if count == 1 {
            return Ok(vec![each(self)?]);
        }
        self.c.expect("{")?;
        let mut found = Vec::with_capacity(count);
        for n in 0..count {
            if n > 0 {
                self.c.expect(",")?;
            }
            found.push(each(self)?);
        }
        self.c.expect("}")?;
        Ok(found)
    }

    // -------------------------------------------------------------------------------------------- instructions --

    fn compute(&mut self, op: Compute, ty: Ty, count: usize) -> Result<Operation, SimError> {
        let dst = self.reg(ty, false)?;
        let mut srcs = [Src::Bits(0); 3];
        for src in srcs.iter_mut().take(count) {
            *src = self.next_src(ty)?;
        }
        Ok(Operation::Compute { op, ty, dst, srcs })
    }

    fn wide(&mut self, op: Compute, ty: &str) -> Result<Operation, SimError> {
        let ty = self.ty(ty)?;
        let wide = Ty { bits: 64, ..ty };
        let dst = self.reg(wide, false)?;
        let (a, b) = (self.next_src(ty)?, self.next_src(ty)?);
        let c = if op == Compute::MadWide { self.next_src(wide)? } else { Src::Bits(0) };
        Ok(Operation::Compute { op, ty, dst, srcs: [a, b, c] })
    }

    /// The distance is a `u32` whatever is shifted.
    fn shift(&mut self, op: Compute, ty: &str) -> Result<Operation, SimError> {
        let ty = self.ty(ty)?;
        let takes = if op == Compute::Shl { ty.kind == Kind::Bits } else { !ty.is_float() && ty.kind != Kind::Pred };
        if !takes || ty.bits < 16 {
            return Err(self.unknown());
        }
        let dst = self.reg(ty, false)?;
        let (a, by) = (self.next_src(ty)?, self.next_src(Ty::U32)?);
        Ok(Operation::Compute { op, ty, dst, srcs: [a, by, Src::Bits(0)] })
    }

    fn mov(&mut self, ty: &str) -> Result<Operation, SimError> {
        let ty = self.ty(ty)?;
        if ty.bits == 8 {
            return Err(self.unknown());
        }
        if self.c.peek() == Some("{") {
            // Two or four parts.
            let mut dsts = Vec::new();
            self.c.expect("{")?;
            let part_bits = self.part_bits(ty)?;
            let part = Ty { kind: Kind::Bits, bits: part_bits };
            loop {
                dsts.push(self.reg(part, false)?);
                if !self.c.eat(",") {
                    break;
                }
            }
            self.c.expect("}")?;
            self.c.expect(",")?;
            let src = self.src(ty, false)?;
            if dsts.len() as u32 * part_bits != ty.bits {
                return Err(self.wrong("{…}", format!("the parts do not make up a {ty}")));
            }
            return Ok(Operation::Unpack { dsts, src, part_bits });
        }
        let dst = self.reg(ty, false)?;
        self.c.expect(",")?;
        let word = self.c.peek().unwrap_or_default();
        if let Some(what) = special(word) {
            if ty != Ty::U32 {
                return Err(self.wrong(word, "it is a u32"));
            }
            self.c.next("a register")?;
            return Ok(Operation::Special { dst, what });
        }
        if let Some(&address) = self.names.addresses.get(word) {
            if ty.bits != 64 {
                return Err(self.wrong(word, "addresses are 64 bits wide here"));
            }
            self.c.next("a name")?;
            return Ok(Operation::Compute { op: Compute::Mov, ty, dst, srcs: [Src::Bits(address); 3] });
        }
        if word == "{" {
            self.c.expect("{")?;
            let part_bits = self.part_bits(ty)?;
            let part = Ty { kind: Kind::Bits, bits: part_bits };
            let mut parts = Vec::new();
            loop {
                parts.push(self.src(part, false)?);
                if !self.c.eat(",") {
                    break;
                }
            }
            self.c.expect("}")?;
            if parts.len() as u32 * part_bits != ty.bits {
                return Err(self.wrong("{…}", format!("the parts do not make up a {ty}")));
            }
            return Ok(Operation::Pack { dst, parts, part_bits });
        }
        let src = self.src(ty, false)?;
        Ok(Operation::Compute { op: Compute::Mov, ty, dst, srcs: [src; 3] })
    }

    /// The width of the register that is next, which is that of its neighbours in the braces.
    fn part_bits(&self, ty: Ty) -> Result<u32, SimError> {
        let name = self.c.peek().unwrap_or_default();
        let undeclared = || SimError::Undeclared { line: self.line, name: name.to_owned() };
        let (_, declared) = self.names.registers.find(name).ok_or_else(undeclared)?;
        if ty.kind != Kind::Bits || declared.bits >= ty.bits || declared.bits < 8 {
            return Err(self.wrong(name, format!("it is no part of a {ty}")));
        }
        Ok(declared.bits)
    }

    fn compare(&mut self, compare: &str, ty: &str) -> Result<Operation, SimError> {
        let ty = self.ty(ty)?;
        let float = ty.is_float() && ty.bits >= 32;
        let compare = match compare {
            "eq" => Compare::Eq,
            "ne" => Compare::Ne,
            "lt" if ty.kind != Kind::Bits => Compare::Lt,
            "le" if ty.kind != Kind::Bits => Compare::Le,
            "gt" if ty.kind != Kind::Bits => Compare::Gt,
            "ge" if ty.kind != Kind::Bits => Compare::Ge,
            "neu" if float => Compare::Neu,
            "nan" if float => Compare::Nan,
            "num" if float => Compare::Num,
            _ => return Err(self.unknown()),
        };
        if ty.kind == Kind::Pred || ty.bits < 16 || (ty.is_float() && !float) {
            return Err(self.unknown());
        }
        let dst = self.reg(Ty::PRED, false)?;
        let (a, b) = (self.next_src(ty)?, self.next_src(ty)?);
        Ok(Operation::Compare { compare, ty, dst, a, b })
    }

    fn convert(&mut self, parts: &[&str]) -> Result<Operation, SimError> {
        let (round, to, from) = match parts {
            [to, from] => (Round::None, *to, *from),
            ["rna", "tf32", "f32"] => {
                let (to, from) = (self.ty("b32")?, self.ty("f32")?);
                let dst = self.reg(to, false)?;
                self.c.expect(",")?;
                // Bits that were loaded as such are an f32, too (PTX ISA 9.4.1).
                let src = Src::Reg(self.reg(to, false)?);
                return Ok(Operation::Convert { round: Round::NearestTf32, to, from, dst, src });
            }
            [round, to, from] => {
                let round = match *round {
                    "rn" => Round::Nearest,
                    "rni" => Round::NearestInt,
                    "rmi" => Round::DownInt,
                    "rpi" => Round::UpInt,
                    "rzi" => Round::ZeroInt,
                    _ => return Err(self.unknown()),
                };
                (round, *to, *from)
            }
            _ => return Err(self.unknown()),
        };
        let (to, from) = (self.ty(to)?, self.ty(from)?);
        // PTX ISA 9.7.9.21: which conversions need a rounding, and which may not have one.
        let whole = matches!(round, Round::NearestInt | Round::DownInt | Round::UpInt | Round::ZeroInt);
        let narrows = to.is_float() && (from.is_integer() || (from.is_float() && to.bits < from.bits));
        let ok = match (from.is_float(), to.is_float()) {
            (true, true) if to == from => whole,
            (true, true) if narrows => round == Round::Nearest,
            (true, true) => round == Round::None && to.bits > from.bits,
            (true, false) => whole && to.is_integer(),
            (false, true) => round == Round::Nearest && from.is_integer(),
            (false, false) => round == Round::None && from.is_integer() && to.is_integer(),
        };
        // Of bf16 the baseline can only make them of f32.
        let bf16 = from.kind == Kind::Bf16 || (to.kind == Kind::Bf16 && (from.kind, from.bits) != (Kind::Float, 32));
        if !ok || bf16 {
            return Err(self.unknown());
        }
        let dst = self.reg(to, true)?;
        self.c.expect(",")?;
        let src = Src::Reg(self.reg(from, true)?);
        Ok(Operation::Convert { round, to, from, dst, src })
    }

    fn load_parameter(&mut self, ty: &str) -> Result<Operation, SimError> {
        let ty = self.ty(ty)?;
        let dst = self.reg(ty, false)?;
        self.c.expect(",")?;
        self.c.expect("[")?;
        let name = self.c.next("a parameter")?;
        self.c.expect("]")?;
        let found = self.names.parameters.iter().position(|(n, _)| n == name);
        let undeclared = || SimError::Undeclared { line: self.line, name: name.to_owned() };
        let parameter = found.ok_or_else(undeclared)?;
        if self.names.parameters[parameter].1.bits != ty.bits {
            return Err(self.wrong(name, "it has another width"));
        }
        Ok(Operation::LoadParameter { dst, parameter })
    }

    fn space(&self, name: &str) -> Result<Space, SimError> {
        match name {
            "global" => Ok(Space::Global),
            "shared" => Ok(Space::Shared),
            "local" => Ok(Space::Local),
            _ => Err(self.unknown()),
        }
    }

    /// The `.v2` or `.v4` and the type of a load or store.
    fn vector(&self, parts: &[&str]) -> Result<(usize, Ty), SimError> {
        let (count, ty) = match parts {
            [ty] => (1, *ty),
            ["v2", ty] => (2, *ty),
            ["v4", ty] => (4, *ty),
            _ => return Err(self.unknown()),
        };
        let ty = self.ty(ty)?;
        if ty.kind == Kind::Pred
            || ty.kind == Kind::Bf16
            || count as u32 * ty.bits > 128
            || ty == (Ty { kind: Kind::Float, bits: 16 })
        {
            return Err(self.unknown());
        }
        Ok((count, ty))
    }

    fn load(&mut self, space: &str, parts: &[&str]) -> Result<Operation, SimError> {
        let space = self.space(space)?;
        let (read_only, rest) = match parts {
            ["nc", rest @ ..] if space == Space::Global => (true, rest),
            rest => (false, rest),
        };
        let (count, ty) = self.vector(rest)?;
        let dsts = self.list(count, |d| d.reg(ty, true))?;
        self.c.expect(",")?;
        let from = self.address()?;
        Ok(Operation::Load { space, read_only, ty, dsts, from })
    }

    fn store(&mut self, space: &str, parts: &[&str]) -> Result<Operation, SimError> {
        let space = self.space(space)?;
        let (count, ty) = self.vector(parts)?;
        let to = self.address()?;
        self.c.expect(",")?;
        let srcs = self.list(count, |d| d.src(ty, true))?;
        Ok(Operation::Store { space, ty, srcs, to })
    }

    fn copy_async(&mut self, cache: &str) -> Result<Operation, SimError> {
        let to = self.address()?;
        self.c.expect(",")?;
        let from = self.address()?;
        self.c.expect(",")?;
        let bytes = self.c.integer()?;
        let allowed: &[i128] = if cache == "cg" { &[16] } else { &[4, 8, 16] };
        if !allowed.contains(&bytes) {
            return Err(self.wrong(&bytes.to_string(), "cp.async takes 4, 8 or 16 bytes, .cg 16"));
        }
        let source_bytes = if self.c.peek() == Some(",") { Some(self.next_src(Ty::U32)?) } else { None };
        Ok(Operation::CopyAsync { to, from, bytes: bytes as u64, source_bytes })
    }

    /// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 d, a, b, c`, and of other types that make 32 bytes of a row.
    fn mma(&mut self, shape: &str, a: &str, b: &str, sum: &str, c: &str) -> Result<Operation, SimError> {
        let factors = Factor::named(a).zip(Factor::named(b)).filter(|(a, b)| a.goes_with(*b));
        let (a_type, b_type) = factors.ok_or_else(|| self.unknown())?;
        let of_sum = if a_type.is_integer() { "s32" } else { "f32" };
        if sum != of_sum || c != of_sum || shape != format!("m16n8k{}", a_type.depth()) {
            return Err(self.unknown());
        }
        let ty = self.ty(of_sum)?;
        let fixed = "the list has as many as were asked for";
        let sum = self.list(4, |d| d.reg(ty, false))?.try_into().expect(fixed);
        self.c.expect(",")?;
        let a = self.list(4, |d| d.reg(Ty::U32, false).map(Src::Reg))?.try_into().expect(fixed);
        self.c.expect(",")?;
        let b = self.list(2, |d| d.reg(Ty::U32, false).map(Src::Reg))?.try_into().expect(fixed);
        self.c.expect(",")?;
        let c = self.list(4, |d| d.reg(ty, false).map(Src::Reg))?.try_into().expect(fixed);
        Ok(Operation::Mma { a_type, b_type, sum, a, b, c })
    }

    /// `wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 d, a-desc, b-desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b`;
    /// integers have none of the numbers at the end.
    fn group_mma(&mut self, shape: &str, sum: &str, a: &str, b: &str) -> Result<Operation, SimError> {
        let types = Factor::named(a).zip(Factor::named(b)).filter(|(a, b)| a.goes_with(*b) && *a != Factor::Tf32);
        let types = types.ok_or_else(|| self.unknown())?;
        let of_sum = if types.0.is_integer() { "s32" } else { "f32" };
        let columns = shape.strip_prefix("m64n").and_then(|rest| rest.strip_suffix(&format!("k{}", types.0.depth())));
        let columns: Option<usize> = columns.and_then(|columns| columns.parse().ok());
        // PTX ISA 9.7.15.2, "Matrix Shape": of integers fewer numbers of columns.
        let allowed = |n: &usize| {
            (8..=256).contains(n)
                && n.is_multiple_of(8)
                && (!types.0.is_integer() || n.is_multiple_of(16) || *n == 8 || *n == 24)
        };
        let columns = columns.filter(allowed).filter(|_| sum == of_sum).ok_or_else(|| self.unknown())?;
        let ty = self.ty(of_sum)?;
        let sum = self.list(columns / 2, |d| d.reg(ty, false))?;
        let factors = [self.next_src(Ty::U64)?, self.next_src(Ty::U64)?];
        let adds = self.next_src(Ty::PRED)?;
        let mut across = [false; 2];
        if !types.0.is_integer() {
            for wanted in [1, 1] {
                self.c.expect(",")?;
                if self.c.integer()? != wanted {
                    return Err(self.wrong("-1", "factors are taken as they are"));
                }
            }
            for across in &mut across {
                self.c.expect(",")?;
                *across = match self.c.integer()? {
                    0 => false,
                    1 => true,
                    _ => return Err(self.c.error("0 or 1")),
                };
            }
        }
        Ok(Operation::GroupMma(GroupMma { types, columns, sum, factors, adds, across }))
    }

    /// `shfl.sync.mode.b32 d[|p], a, b, c, membermask`
    fn shuffle(&mut self, mode: &str) -> Result<Operation, SimError> {
        let mode = match mode {
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            "idx" => Shuffle::Index,
            _ => return Err(self.unknown()),
        };
        let dst = self.reg(Ty::B32, false)?;
        let valid = if self.c.eat("|") { Some(self.reg(Ty::PRED, false)?) } else { None };
        let src = self.next_src(Ty::B32)?;
        let (lane, clamp, members) = (self.next_src(Ty::U32)?, self.next_src(Ty::U32)?, self.next_src(Ty::U32)?);
        Ok(Operation::Shuffle { mode, dst, valid, src, lane, clamp, members })
    }
}

fn special(name: &str) -> Option<Special> {
    if name == "%laneid" {
        return Some(Special::LaneId);
    }
    let (base, axis) = name.rsplit_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|a| *a == axis)?;
    match base {
        "%tid" => Some(Special::Tid(axis)),
        "%ntid" => Some(Special::Ntid(axis)),
        "%ctaid" => Some(Special::Ctaid(axis)),
        "%nctaid" => Some(Special::Nctaid(axis)),
        _ => None,
    }
}

/// Instructions whose operands all have the type of their result, and how many sources they take. The modifiers are those
/// of PTX ISA 9.7 for the type: floats name a rounding, integers `.lo`.
fn arithmetic(opcode: &str, modifiers: &[&str], ty: Ty) -> Option<(Compute, usize)> {
    let integer = ty.is_integer() && ty.bits >= 16;
    let float = ty.kind == Kind::Float && ty.bits >= 32;
    let single = float && ty.bits == 32;
    let logic = ty.kind == Kind::Pred || (ty.kind == Kind::Bits && ty.bits >= 16);
    let found = match (opcode, modifiers) {
        ("add", []) if integer => (Compute::Add, 2),
        ("sub", []) if integer => (Compute::Sub, 2),
        ("mul", ["lo"]) if integer => (Compute::MulLo, 2),
        ("mul", ["hi"]) if integer => (Compute::MulHi, 2),
        ("mad", ["lo"]) if integer => (Compute::MadLo, 3),
        ("div", []) if integer => (Compute::Div, 2),
        ("rem", []) if integer => (Compute::Rem, 2),
        ("min", []) if integer || float => (Compute::Min, 2),
        ("max", []) if integer || float => (Compute::Max, 2),
        ("neg", []) if float || (integer && ty.kind == Kind::Signed) => (Compute::Neg, 1),
        ("abs", []) if float || (integer && ty.kind == Kind::Signed) => (Compute::Abs, 1),
        ("and", []) if logic => (Compute::And, 2),
        ("or", []) if logic => (Compute::Or, 2),
        ("xor", []) if logic => (Compute::Xor, 2),
        ("not", []) if logic => (Compute::Not, 1),
        ("add", ["rn"]) if float => (Compute::Add, 2),
        ("sub", ["rn"]) if float => (Compute::Sub, 2),
        ("mul", ["rn"]) if float => (Compute::Mul, 2),
        ("div", ["rn"]) if float => (Compute::Div, 2),
        ("fma", ["rn"]) if float => (Compute::Fma, 3),
        ("sqrt", ["rn"]) if float => (Compute::Sqrt, 1),
        ("rcp", ["rn"]) if float => (Compute::Reciprocal, 1),
        ("copysign", []) if float => (Compute::CopySign, 2),
        ("max", ["NaN"]) if single => (Compute::MaxNan, 2),
        ("min", ["NaN"]) if single => (Compute::MinNan, 2),
        ("ex2", ["approx"]) if single => (Compute::Exp2, 1),
        ("lg2", ["approx"]) if single => (Compute::Log2, 1),
        ("tanh", ["approx"]) if single => (Compute::Tanh, 1),
        _ => return None,
    };
    Some(found)
}
