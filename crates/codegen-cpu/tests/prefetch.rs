//! Hints on memory that is going to be read or written.

use infc_codegen_cpu::vir::{Builder, Elem, Function, I64, Memory, Type};
use infc_codegen_cpu::wide::{self, Isa};

/// `y[i·8 ..] = x[i·8 ..]`, with hints on what the next turns read and write.
fn copy() -> Function {
    let ty = Type::vector(Elem::F32, 8);
    let mut b = Builder::new("copy");
    let args = b.param(0);
    let (x, y) = (b.load(I64, args, 0, Memory::ReadOnly), b.load(I64, args, 8, Memory::ReadOnly));
    let (begin, end) = (b.param(1), b.param(2));
    let (iv, _) = b.loop_open(begin, end, 1, false, &[]);
    let step = b.iconst(32);
    let offset = b.mul(iv, step);
    let (from, to) = (b.add(x, offset), b.add(y, offset));
    let value = b.load(ty, from, 0, Memory::ReadOnly);
    for _ in 0..2 {
        b.prefetch(from, 256, false);
        b.prefetch(to, 256, true);
    }
    b.store(value, to, 0);
    b.loop_close(&[]);
    b.finish()
}

#[test]
fn hints_say_what_for_and_stand_once_per_block() {
    for avx512 in [false, true] {
        let text =
            wide::listing(&copy(), Isa { avx512, vnni: false, bf16: false, flush_bf16: false }).expect("it compiles");
        let count = |name: &str| text.lines().filter(|line| line.contains(name)).count();
        assert_eq!(count("prefetcht0"), 1, "{text}");
        assert_eq!(count("prefetchw"), 1, "{text}");
    }
}
