//! PTX instructions with typed virtual registers.
//!
//! Every method checks that its registers have the class that the instruction's type wants, since the assembler does
//! not: it takes `.b32` registers in `add.f32` without a word.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Pred,
    B16,
    B32,
    B64,
    F32,
    F64,
}

impl Class {
    const ALL: [(Class, &'static str, &'static str); 6] = [
        (Class::Pred, "pred", "p"),
        (Class::B16, "b16", "h"),
        (Class::B32, "b32", "r"),
        (Class::B64, "b64", "rd"),
        (Class::F32, "f32", "f"),
        (Class::F64, "f64", "fd"),
    ];
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reg {
    pub(crate) class: Class,
    number: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}{}", Class::ALL[self.class as usize].2, self.number)
    }
}

/// The type of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Pred,
    B16,
    B32,
    B64,
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
    F16,
    F32,
    F64,
}

impl Ty {
    /// The registers that hold it. Integers narrower than a word are held extended in one.
    pub(crate) fn class(self) -> Class {
        match self {
            Ty::Pred => Class::Pred,
            Ty::B16 | Ty::F16 => Class::B16,
            Ty::S8 | Ty::U8 | Ty::S16 | Ty::U16 | Ty::B32 | Ty::S32 | Ty::U32 => Class::B32,
            Ty::B64 | Ty::S64 | Ty::U64 => Class::B64,
            Ty::F32 => Class::F32,
            Ty::F64 => Class::F64,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::Pred => "pred",
            Ty::B16 => "b16",
            Ty::B32 => "b32",
            Ty::B64 => "b64",
            Ty::S8 => "s8",
            Ty::U8 => "u8",
            Ty::S16 => "s16",
            Ty::U16 => "u16",
            Ty::S32 => "s32",
            Ty::U32 => "u32",
            Ty::S64 => "s64",
            Ty::U64 => "u64",
            Ty::F16 => "f16",
            Ty::F32 => "f32",
            Ty::F64 => "f64",
        })
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Src {
    Reg(Reg),
    Int(i64),
    F32(f32),
    F64(f64),
}

impl From<Reg> for Src {
    fn from(reg: Reg) -> Self {
        Src::Reg(reg)
    }
}

impl Src {
    fn check(self, ty: Ty) {
        match self {
            Src::Reg(reg) => assert_eq!(reg.class, ty.class(), "{reg} in an instruction on {ty}"),
            Src::Int(_) => assert!(!matches!(ty.class(), Class::F32 | Class::F64 | Class::Pred), "a number as {ty}"),
            Src::F32(_) => assert_eq!(ty, Ty::F32, "an f32 as {ty}"),
            Src::F64(_) => assert_eq!(ty, Ty::F64, "an f64 as {ty}"),
        }
    }
}

impl fmt::Display for Src {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Src::Reg(reg) => reg.fmt(f),
            Src::Int(value) => value.fmt(f),
            Src::F32(value) => write!(f, "0f{:08X}", value.to_bits()),
            Src::F64(value) => write!(f, "0d{:016X}", value.to_bits()),
        }
    }
}

/// Address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
        })
    }
}

/// An address: a register and a distance in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Reg,
    pub(crate) offset_bytes: i64,
    /// Nobody writes there while the kernel runs: may go through the read-only cache.
    pub(crate) constant: bool,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset_bytes {
            0 => write!(f, "[{}]", self.base),
            // A negative offset is added: there is no other form.
            offset => write!(f, "[{}+{offset}]", self.base),
        }
    }
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

/// Collects the body of a function.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    text: String,
    counts: [u32; Class::ALL.len()],
    labels: u32,
    /// What constants are that have a register, by their bits. Nothing else is ever written to it.
    known: HashMap<Reg, u64>,
}

impl Builder {
    /// A new register.
    pub(crate) fn reg(&mut self, class: Class) -> Reg {
        let count = &mut self.counts[class as usize];
        *count += 1;
        Reg { class, number: *count - 1 }
    }

    /// A new label, not yet placed.
    pub(crate) fn new_label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// The declarations of all registers.
    pub(crate) fn declarations(&self) -> String {
        let mut text = String::new();
        for ((_, ty, prefix), count) in Class::ALL.iter().zip(self.counts) {
            if count > 0 {
                let _ = writeln!(text, "\t.reg .{ty} %{prefix}<{count}>;");
            }
        }
        text
    }

    /// The instructions so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn line(&mut self, guard: Option<Reg>, line: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = match guard {
            Some(guard) => {
                assert_eq!(guard.class, Class::Pred, "{guard} guards an instruction");
                writeln!(self.text, "\t@{guard} {line};")
            }
            None => writeln!(self.text, "\t{line};"),
        };
    }

    /// An instruction whose operands and result have one type: `opcode.ty dst, srcs`.
    pub(crate) fn op(&mut self, opcode: &str, ty: Ty, srcs: &[Src]) -> Reg {
        let dst = self.reg(ty.class());
        self.op_into(dst, opcode, ty, srcs);
        dst
    }

    /// As [`Builder::op`], into an existing register.
    pub(crate) fn op_into(&mut self, dst: Reg, opcode: &str, ty: Ty, srcs: &[Src]) {
        Src::Reg(dst).check(ty);
        self.known.remove(&dst);
        let mut operands = dst.to_string();
        for src in srcs {
            src.check(ty);
            let _ = write!(operands, ", {src}");
        }
        self.line(None, format_args!("{opcode}.{ty} {operands}"));
    }

    /// The same bits in a register of another class; halves are the low part of words.
    pub(crate) fn bits(&mut self, class: Class, a: Reg) -> Reg {
        let dst = self.reg(class);
        match (a.class, class) {
            (Class::B16, _) => {
                let zero = self.reg(Class::B16);
                self.line(None, format_args!("mov.b16 {zero}, 0x0000"));
                self.line(None, format_args!("mov.b32 {dst}, {{{a}, {zero}}}"));
            }
            (_, Class::B16) => {
                let high = self.reg(Class::B16);
                self.line(None, format_args!("mov.b32 {{{dst}, {high}}}, {a}"));
            }
            (_, Class::B64 | Class::F64) => self.line(None, format_args!("mov.b64 {dst}, {a}")),
            _ => self.line(None, format_args!("mov.b32 {dst}, {a}")),
        }
        dst
    }

    /// A copy.
    pub(crate) fn mov_into(&mut self, dst: Reg, src: Src) {
        let ty = match dst.class {
            Class::Pred => Ty::Pred,
            Class::B16 => Ty::B16,
            Class::B32 => Ty::B32,
            Class::B64 => Ty::B64,
            Class::F32 => Ty::F32,
            Class::F64 => Ty::F64,
        };
        self.op_into(dst, "mov", ty, &[src]);
    }

    /// A constant by its bits.
    pub(crate) fn constant(&mut self, class: Class, bits: u64) -> Reg {
        let dst = self.reg(class);
        self.known.insert(dst, bits);
        match class {
            Class::Pred => {
                let zero = self.reg(Class::B32);
                self.line(None, format_args!("mov.b32 {zero}, {}", u64::from(bits != 0)));
                self.line(None, format_args!("setp.ne.b32 {dst}, {zero}, 0"));
            }
            Class::B16 => self.line(None, format_args!("mov.b16 {dst}, 0x{bits:04X}")),
            Class::B32 => self.line(None, format_args!("mov.b32 {dst}, {}", bits as u32 as i32)),
            Class::B64 => self.line(None, format_args!("mov.b64 {dst}, {}", bits as i64)),
            Class::F32 => self.line(None, format_args!("mov.f32 {dst}, 0f{:08X}", bits as u32)),
            Class::F64 => self.line(None, format_args!("mov.f64 {dst}, 0d{bits:016X}")),
        }
        dst
    }

    /// The bits of a constant's register.
    pub(crate) fn known(&self, reg: Reg) -> Option<u64> {
        self.known.get(&reg).copied()
    }

    /// A comparison.
    pub(crate) fn setp(&mut self, compare: &str, ty: Ty, a: Src, b: Src) -> Reg {
        a.check(ty);
        b.check(ty);
        let dst = self.reg(Class::Pred);
        self.line(None, format_args!("setp.{compare}.{ty} {dst}, {a}, {b}"));
        dst
    }

    /// `p ? a : b`.
    pub(crate) fn selp(&mut self, ty: Ty, a: Src, b: Src, p: Reg) -> Reg {
        a.check(ty);
        b.check(ty);
        Src::Reg(p).check(Ty::Pred);
        let dst = self.reg(ty.class());
        self.line(None, format_args!("selp.{ty} {dst}, {a}, {b}, {p}"));
        dst
    }

    /// A conversion; `mode` is its rounding, with a dot.
    pub(crate) fn cvt(&mut self, mode: &str, to: Ty, from: Ty, a: Reg) -> Reg {
        Src::Reg(a).check(from);
        let dst = self.reg(to.class());
        self.line(None, format_args!("cvt{mode}.{to}.{from} {dst}, {a}"));
        dst
    }

    /// f32 to bf16, half to even.
    pub(crate) fn narrow_bf16(&mut self, a: Reg) -> Reg {
        Src::Reg(a).check(Ty::F32);
        let dst = self.reg(Class::B16);
        self.line(None, format_args!("cvt.rn.bf16.f32 {dst}, {a}"));
        dst
    }

    /// The same where there is no instruction: the upper half, after half of the lower one's range was added, and the lowest bit
    /// of the upper one, so that ties go to even; NaN stays NaN.
    pub(crate) fn narrow_bf16_by_bits(&mut self, a: Reg) -> Reg {
        Src::Reg(a).check(Ty::F32);
        let bits = self.reg(Class::B32);
        self.line(None, format_args!("mov.b32 {bits}, {a}"));
        let upper = self.op("shr", Ty::U32, &[bits.into(), Src::Int(16)]);
        let odd = self.op("and", Ty::B32, &[upper.into(), Src::Int(1)]);
        let up = self.op("add", Ty::U32, &[odd.into(), Src::Int(0x7fff)]);
        let rounded = self.op("add", Ty::U32, &[bits.into(), up.into()]);
        let nan = self.setp("neu", Ty::F32, a.into(), a.into());
        let whole = self.selp(Ty::U32, Src::Int(0x7fff_0000), rounded.into(), nan);
        let (lower, dst) = (self.reg(Class::B16), self.reg(Class::B16));
        self.line(None, format_args!("mov.b32 {{{lower}, {dst}}}, {whole}"));
        dst
    }

    /// An f32, in a register of its own or as a word of memory, as TF32: a word for products of matrices.
    pub(crate) fn narrow_tf32(&mut self, a: Reg) -> Reg {
        assert!(matches!(a.class, Class::F32 | Class::B32), "an f32 or its bits");
        let dst = self.reg(Class::B32);
        self.line(None, format_args!("cvt.rna.tf32.f32 {dst}, {a}"));
        dst
    }

    /// The same where there is no instruction: half of what the dropped bits can say is added; NaN stays what it is.
    pub(crate) fn narrow_tf32_by_bits(&mut self, a: Reg) -> Reg {
        Src::Reg(a).check(Ty::F32);
        let bits = self.bits(Class::B32, a);
        let up = self.op("add", Ty::U32, &[bits.into(), Src::Int(0x1000)]);
        let rounded = self.op("and", Ty::B32, &[up.into(), Src::Int(!0x1fff)]);
        let nan = self.setp("neu", Ty::F32, a.into(), a.into());
        self.selp(Ty::U32, bits.into(), rounded.into(), nan)
    }

    /// bf16 to f32: the same bits, further up.
    pub(crate) fn widen_bf16(&mut self, a: Reg) -> Reg {
        Src::Reg(a).check(Ty::B16);
        let (zero, dst) = (self.reg(Class::B16), self.reg(Class::F32));
        self.line(None, format_args!("mov.b16 {zero}, 0x0000"));
        self.line(None, format_args!("mov.b32 {dst}, {{{zero}, {a}}}"));
        dst
    }

    /// `a·b + c` of 32-bit `a`, `b` in 64 bits.
    pub(crate) fn mad_wide(&mut self, a: Reg, b: i64, c: Reg) -> Reg {
        Src::Reg(a).check(Ty::S32);
        Src::Reg(c).check(Ty::S64);
        let dst = self.reg(Class::B64);
        self.line(None, format_args!("mad.wide.s32 {dst}, {a}, {b}, {c}"));
        dst
    }

    /// `a >> by`; the distance is always 32 bits wide.
    pub(crate) fn shift_right(&mut self, ty: Ty, a: Reg, by: Reg) -> Reg {
        self.shift("shr", ty, a.into(), by.into())
    }

    /// `a << by`.
    pub(crate) fn shift_left(&mut self, ty: Ty, a: Reg, by: Reg) -> Reg {
        self.shift("shl", ty, a.into(), by.into())
    }

    /// See [`Builder::shift_right`].
    pub(crate) fn shift(&mut self, opcode: &str, ty: Ty, a: Src, by: Src) -> Reg {
        a.check(ty);
        by.check(Ty::U32);
        let dst = self.reg(ty.class());
        self.line(None, format_args!("{opcode}.{ty} {dst}, {a}, {by}"));
        dst
    }

    /// A special register such as `%tid.x`.
    pub(crate) fn special(&mut self, name: &str) -> Reg {
        let dst = self.reg(Class::B32);
        self.line(None, format_args!("mov.u32 {dst}, {name}"));
        dst
    }

    /// The address of a declared variable within its space.
    pub(crate) fn address_of(&mut self, name: &str) -> Reg {
        let dst = self.reg(Class::B64);
        self.line(None, format_args!("mov.u64 {dst}, {name}"));
        dst
    }

    /// A parameter of the kernel.
    pub(crate) fn param(&mut self, name: &str) -> Reg {
        let dst = self.reg(Class::B64);
        self.line(None, format_args!("ld.param.u64 {dst}, [{name}]"));
        dst
    }

    /// A generic address as one in global memory.
    pub(crate) fn global_address(&mut self, a: Reg) -> Reg {
        Src::Reg(a).check(Ty::U64);
        let dst = self.reg(Class::B64);
        self.line(None, format_args!("cvta.to.global.u64 {dst}, {a}"));
        dst
    }

    /// Loads neighbouring elements (1, 2 or 4) into registers.
    pub(crate) fn load(&mut self, dsts: &[Reg], ty: Ty, from: Address, guard: Option<Reg>) {
        dsts.iter().for_each(|&d| Src::Reg(d).check(ty));
        let cache = if from.constant && from.space == Space::Global { ".nc" } else { "" };
        let (vector, list) = list(dsts);
        self.line(guard, format_args!("ld.{}{cache}{vector}.{ty} {list}, {from}", from.space));
    }

    /// Stores neighbouring elements (1, 2 or 4).
    pub(crate) fn store(&mut self, srcs: &[Reg], ty: Ty, to: Address, guard: Option<Reg>) {
        srcs.iter().for_each(|&s| Src::Reg(s).check(ty));
        let (vector, list) = list(srcs);
        self.line(guard, format_args!("st.{}{vector}.{ty} {to}, {list}", to.space));
    }

    /// An asynchronous copy from global to shared memory; of the source so many bytes are read, if a register says how
    /// many, and the others are zeros.
    pub(crate) fn cp_async(&mut self, to: Address, from: Address, bytes: u64, source_bytes: Option<Reg>) {
        // Only whole 16 bytes can go around the first cache.
        let cache = if bytes == 16 { "cg" } else { "ca" };
        match source_bytes {
            None => self.line(None, format_args!("cp.async.{cache}.shared.global {to}, {from}, {bytes}")),
            Some(read) => {
                Src::Reg(read).check(Ty::U32);
                self.line(None, format_args!("cp.async.{cache}.shared.global {to}, {from}, {bytes}, {read}"));
            }
        }
    }

    /// Matrices of 8×8 halves (2 or 4) from shared memory, spread over a warp; with `transposed` columns become rows.
    pub(crate) fn load_matrices(&mut self, count: usize, transposed: bool, from: Address) -> Vec<Reg> {
        assert!(matches!(count, 2 | 4) && from.space == Space::Shared, "{count} matrices from {} memory", from.space);
        let dsts: Vec<Reg> = (0..count).map(|_| self.reg(Class::B32)).collect();
        let (_, names) = list(&dsts);
        let trans = if transposed { ".trans" } else { "" };
        self.line(None, format_args!("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {names}, {from}"));
        dsts
    }

    /// `sum += a·b` of matrices that are spread over a warp, 16×`depth` by `depth`×8.
    pub(crate) fn multiply_matrices(
        &mut self,
        depth: i64,
        [a_type, b_type]: [&str; 2],
        a: &[Reg],
        b: &[Reg],
        sum: &[Reg],
    ) {
        let of_sum = sum[0].class;
        let sum_type = if of_sum == Class::F32 { "f32" } else { "s32" };
        assert!((a.len(), b.len(), sum.len()) == (4, 2, 4), "the parts that a thread has");
        assert!(a.iter().chain(b).all(|r| r.class == Class::B32), "factors are packed in words");
        assert!(
            matches!(of_sum, Class::F32 | Class::B32) && sum.iter().all(|r| r.class == of_sum),
            "sums are floats or integers of 32 bits"
        );
        for r in sum {
            self.known.remove(r);
        }
        let ((_, a), (_, b), (_, sum)) = (list(a), list(b), list(sum));
        self.line(
            None,
            format_args!(
                "mma.sync.aligned.m16n8k{depth}.row.col.{sum_type}.{a_type}.{b_type}.{sum_type} {sum}, {a}, {b}, {sum}"
            ),
        );
    }

    /// `sum += a·b` of matrices of 64 rows by a group of warps, of which descriptors say where they lie; `adds` is true, and columns
    /// of halves are neighbours if the right factor is `across`.
    pub(crate) fn multiply_in_group(
        &mut self,
        depth: i64,
        [a_type, b_type]: [&str; 2],
        [a, b]: [Reg; 2],
        adds: Reg,
        across: Option<bool>,
        sum: &[Reg],
    ) {
        let of_sum = sum[0].class;
        assert!(sum.len().is_multiple_of(4) && sum.len() <= 128, "four sums of a thread for eight columns");
        assert!([a, b].iter().all(|r| r.class == Class::B64), "descriptors are words of 64 bits");
        assert!(
            matches!(of_sum, Class::F32 | Class::B32) && sum.iter().all(|r| r.class == of_sum),
            "sums are floats or integers of 32 bits"
        );
        for r in sum {
            self.known.remove(r);
        }
        let sum_type = if of_sum == Class::F32 { "f32" } else { "s32" };
        let names: Vec<String> = sum.iter().map(Reg::to_string).collect();
        // Sums are added to; floats are taken as they are, and of halves neither factor is transposed or the right one.
        let modes = across.map_or(String::new(), |across| format!(", 1, 1, 0, {}", u8::from(across)));
        self.line(
            None,
            format_args!(
                "wgmma.mma_async.sync.aligned.m64n{}k{depth}.{sum_type}.{a_type}.{b_type} {{{}}}, {a}, {b}, {adds}{modes}",
                2 * sum.len(),
                names.join(", ")
            ),
        );
    }

    /// An instruction without operands.
    pub(crate) fn plain(&mut self, text: &str) {
        self.line(None, format_args!("{text}"));
    }

    /// Places a label.
    pub(crate) fn place(&mut self, label: Label) {
        let _ = writeln!(self.text, "{label}:");
    }

    /// The end of what has been printed.
    pub(crate) fn here(&self) -> usize {
        self.text.len()
    }

    /// Tells the assembler not to unroll the loop whose label stands before `start`, and which ends here, if it has instructions that
    /// begin so.
    pub(crate) fn keep_rolled(&mut self, start: usize, instructions: &str) {
        if self.text.get(start..).is_some_and(|body| body.contains(instructions)) {
            self.text.insert_str(start, "\t.pragma \"nounroll\";\n");
        }
    }

    /// Jumps, if the predicate has the given value.
    pub(crate) fn branch(&mut self, to: Label, condition: Option<(Reg, bool)>) {
        let _ = match condition {
            None => writeln!(self.text, "\tbra {to};"),
            Some((p, true)) => writeln!(self.text, "\t@{p} bra {to};"),
            Some((p, false)) => writeln!(self.text, "\t@!{p} bra {to};"),
        };
    }
}

fn list(regs: &[Reg]) -> (&'static str, String) {
    match regs {
        [one] => ("", one.to_string()),
        _ => {
            let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
            (if regs.len() == 2 { ".v2" } else { ".v4" }, format!("{{{}}}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "in an instruction on f32")]
    fn a_register_of_the_wrong_class_is_refused() {
        let mut b = Builder::default();
        let r = b.reg(Class::B32);
        b.op("add", Ty::F32, &[r.into(), r.into()]);
    }

    #[test]
    fn neighbours_are_loaded_as_a_vector() {
        let mut b = Builder::default();
        let base = b.reg(Class::B64);
        let dsts = [b.reg(Class::F32), b.reg(Class::F32)];
        let from = Address { space: Space::Global, base, offset_bytes: -8, constant: true };
        b.load(&dsts, Ty::F32, from, None);
        assert_eq!(b.text(), "\tld.global.nc.v2.f32 {%f0, %f1}, [%rd0+-8];\n");
    }
}
