//! Kernels that nobody tuned for, from `tests/filetests/kernel`, at sizes that matter; and what they cost at least.
//!
//! Their roofline counts vector instructions, of which a core starts as many per second as multiply-adds, whatever they
//! compute (two per cycle on the machines that we know):
//!
//! | kernel | instructions per point |
//! | --- | --- |
//! | min-plus product | an addition and a minimum |
//! | L1 distances | a subtraction, an `and` for the absolute value, an addition |
//! | stencil | three additions, a multiplication and a multiply-add; and those of `exp`, counted from its expansion for the target |
//!
//! No load counts: what registers and caches hold of the operands is the schedule's business. Bytes are those of the
//! operands, each once.

use crate::suite::Case;
use infc_codegen_cpu::vir::{Block, Builder, Convert, Elem, Function, Inst, Memory, Op, Type, Value};
use infc_ir::kernel::Kernel;
use infc_ir::math;

/// Lanes of the vectors that are counted; any number does.
const LANES: u16 = 16;

/// The cases.
pub(crate) fn cases() -> Vec<Case> {
    let (m, n, k) = (512, 512, 512);
    let (h, w) = (1080, 1920);
    let points = (m * n * k) as f64;
    let pixels = (h * w) as f64;
    let exp = |scales| instructions(&math::exp, scales);
    let stencil = |scales| (5 + exp(scales)) as f64 * pixels;
    let mut stencil_exp = Case::of("untuned", fixed("stencil_exp", &[("H", h), ("W", w)]), stencil(false));
    stencil_exp.demand.instructions_512 = stencil(true);
    vec![
        Case::of("untuned", fixed("min_plus", &[("M", m), ("N", n), ("K", k)]), 2.0 * points),
        Case::of("untuned", fixed("l1_distance", &[("M", m), ("N", n), ("K", k)]), 3.0 * points),
        stencil_exp,
    ]
}

/// A kernel file with its symbols fixed.
fn fixed(name: &str, sizes: &[(&str, i64)]) -> Kernel {
    let text = infc_testkit::kernel(name).to_string();
    // Symbols are declared behind the signature, from ` where` to the brace.
    let (signature, rest) = text.split_once(" where ").expect("the kernel has symbols");
    let (_, body) = rest.split_once('{').expect("a kernel has a body");
    let fixed = replace_words(&format!("{signature} {{{body}"), sizes);
    let mut kernel: Kernel = fixed.parse().unwrap_or_else(|error| panic!("{name}: {error}\n{fixed}"));
    let extents: Vec<String> = sizes.iter().map(|(_, size)| size.to_string()).collect();
    kernel.name = format!("{name} {}", extents.join("x"));
    kernel
}

/// The text with some of its identifiers replaced by numbers.
fn replace_words(text: &str, by: &[(&str, i64)]) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(len);
        match by.iter().find(|(name, _)| *name == token) {
            Some((_, number)) => out.push_str(&number.to_string()),
            None => out.push_str(token),
        }
        rest = after;
    }
    out
}

/// Vector instructions that a function of one operand expands to, for a target that scales by powers of two in one or for
/// others.
fn instructions(function: &dyn Fn(&mut Builder, Value) -> Value, scales: bool) -> usize {
    let mut b = Builder::new("count").with_scale(scales);
    let args = b.param(0);
    let ty = Type::vector(Elem::F32, LANES);
    let x = b.load(ty, args, 0, Memory::Written);
    let result = function(&mut b, x);
    b.store(result, args, 0);
    let function = b.finish();
    count(&function, &function.body)
}

/// Vector arithmetic of a block and those inside; reinterpreted bits and constants cost nothing.
fn count(function: &Function, block: &Block) -> usize {
    let of_op = |result: Value, op: &Op| {
        let arithmetic = match op {
            Op::Unary(..) | Op::Binary(..) | Op::Fma(..) | Op::Compare(..) | Op::Select(..) => true,
            Op::Convert(convert, _) => *convert != Convert::Bitcast,
            _ => false,
        };
        usize::from(arithmetic && function.ty(result).lanes == LANES)
    };
    block
        .insts
        .iter()
        .map(|inst| match inst {
            Inst::Op { result, op } => of_op(*result, op),
            Inst::Loop(inner) => count(function, &inner.body),
            Inst::If { then, otherwise, .. } => count(function, then).max(count(function, otherwise)),
            Inst::Store { .. } | Inst::Scatter { .. } | Inst::Prefetch { .. } | Inst::Tile(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_codegen_cpu::vir::UnaryOp;

    #[test]
    fn instructions_are_counted() {
        assert_eq!(instructions(&|b, x| b.mul(x, x), false), 1);
        assert_eq!(instructions(&|b, x| b.unary(UnaryOp::Abs, x), false), 1);
        // Clamp 2, exponent 2, remainder 2; then polynomial 6, scaled in two halves: 4 + 2; or look-up 1, polynomial 4, scaled at
        // once, and 0 instead: a comparison in the place of half of the clamp, and a selection.
        assert_eq!(instructions(&math::exp, false), 18);
        assert_eq!(instructions(&math::exp, true), 13);
    }

    #[test]
    fn the_kernels_are_static() {
        for case in cases() {
            assert!(case.kernel.symbols.is_empty(), "{}", case.kernel);
            infc_ir::verify::verify_kernel(&case.kernel).unwrap();
        }
        assert_eq!(replace_words("f[M, Mk] M", &[("M", 3)]), "f[3, Mk] 3");
    }
}
