//! Instructions of one result and up to three operands, on numbers that are at the edges of something.

use super::text::{Text, Type};
use super::{Micro, THREADS};

/// What the backend prints, with the comparisons and conversions that it may.
const INSTRUCTIONS: &[&str] = &[
    "abs.f32",
    "abs.f64",
    "abs.s32",
    "abs.s64",
    "add.rn.f32",
    "add.rn.f64",
    "add.s32",
    "add.s64",
    "add.u32",
    "add.u64",
    "and.b32",
    "and.b64",
    "and.pred",
    "cvt.f32.f16",
    "cvt.f64.f32",
    "cvt.rmi.f32.f32",
    "cvt.rmi.f64.f64",
    "cvt.rn.bf16.f32",
    "cvt.rn.f16.f32",
    "cvt.rn.f32.f64",
    "cvt.rn.f32.s32",
    "cvt.rn.f32.s64",
    "cvt.rn.f32.u32",
    "cvt.rn.f32.u64",
    "cvt.rn.f64.s32",
    "cvt.rn.f64.s64",
    "cvt.rn.f64.u32",
    "cvt.rn.f64.u64",
    "cvt.rna.tf32.f32",
    "cvt.rni.f32.f32",
    "cvt.rni.f64.f64",
    "cvt.rni.s32.f32",
    "cvt.rni.s32.f64",
    "cvt.rni.s64.f32",
    "cvt.rni.s64.f64",
    "cvt.rni.u32.f32",
    "cvt.rni.u32.f64",
    "cvt.rni.u64.f32",
    "cvt.rni.u64.f64",
    "cvt.rpi.f32.f32",
    "cvt.rpi.f64.f64",
    "cvt.rzi.f32.f32",
    "cvt.rzi.f64.f64",
    "cvt.rzi.s32.f32",
    "cvt.rzi.s32.f64",
    "cvt.rzi.s64.f32",
    "cvt.rzi.s64.f64",
    "cvt.rzi.u32.f32",
    "cvt.rzi.u32.f64",
    "cvt.rzi.u64.f32",
    "cvt.rzi.u64.f64",
    "cvt.s32.s64",
    "cvt.s32.s8",
    "cvt.s64.s32",
    "cvt.s64.u32",
    "cvt.u32.s64",
    "cvt.u32.u64",
    "cvt.u32.u8",
    "cvt.u64.u32",
    "div.rn.f32",
    "div.rn.f64",
    "div.s32",
    "div.s64",
    "div.u32",
    "div.u64",
    "fma.rn.f32",
    "fma.rn.f64",
    "mad.lo.s32",
    "mad.lo.s64",
    "mad.lo.u32",
    "mad.lo.u64",
    "mad.wide.s32",
    "max.NaN.f32",
    "max.f64",
    "max.s32",
    "max.s64",
    "max.u32",
    "max.u64",
    "min.NaN.f32",
    "min.f64",
    "min.s32",
    "min.s64",
    "min.u32",
    "min.u64",
    "mov.b16",
    "mov.b32",
    "mov.b64",
    "mov.f32",
    "mov.f64",
    "mov.u32",
    "mul.lo.s32",
    "mul.lo.s64",
    "mul.lo.u32",
    "mul.lo.u64",
    "mul.rn.f32",
    "mul.rn.f64",
    "neg.f32",
    "neg.f64",
    "neg.s32",
    "neg.s64",
    "not.b32",
    "not.b64",
    "not.pred",
    "or.b32",
    "or.b64",
    "or.pred",
    "rcp.rn.f32",
    "rcp.rn.f64",
    "rem.s32",
    "rem.s64",
    "rem.u32",
    "rem.u64",
    "selp.b16",
    "selp.f32",
    "selp.f64",
    "selp.s32",
    "selp.s64",
    "selp.u32",
    "selp.u64",
    "setp.ne.b32",
    "shl.b32",
    "shl.b64",
    "shr.s32",
    "shr.s64",
    "shr.u32",
    "shr.u64",
    "sqrt.rn.f32",
    "sqrt.rn.f64",
    "sub.rn.f32",
    "sub.rn.f64",
    "sub.s32",
    "sub.s64",
    "sub.u32",
    "sub.u64",
    "xor.b32",
    "xor.b64",
    "xor.pred",
];
/// Comparisons of all of these types; of floats, `neu` also holds for numbers that are none.
const COMPARED: [&str; 6] = ["s32", "u32", "s64", "u64", "f32", "f64"];

pub(super) fn micros() -> impl Iterator<Item = Micro> {
    let comparisons = COMPARED.into_iter().flat_map(|ty| {
        let float = ty.starts_with('f');
        let kinds = ["eq", "lt", "le", "gt", "ge", if float { "neu" } else { "ne" }];
        kinds.map(|kind| format!("setp.{kind}.{ty}"))
    });
    INSTRUCTIONS.iter().map(|&name| name.to_owned()).chain(comparisons).map(|name| micro(&name))
}

/// Types of the operands and of the result.
fn signature(name: &str) -> (Vec<Type>, Type) {
    let parts: Vec<&str> = name.split('.').collect();
    let ty = |name: &str| Type::named(name).unwrap_or_else(|| panic!("{name} is no type"));
    let last = ty(parts[parts.len() - 1]);
    match parts[0] {
        "setp" => (vec![last, last], ty("pred")),
        "selp" => (vec![last, last, ty("pred")], last),
        "cvt" => (vec![last], ty(parts[parts.len() - 2])),
        "shl" | "shr" => (vec![last, ty("u32")], last),
        "mad" if parts[1] == "wide" => (vec![last, last, ty("s64")], ty("s64")),
        "mad" | "fma" => (vec![last; 3], last),
        "abs" | "neg" | "not" | "sqrt" | "rcp" | "mov" => (vec![last], last),
        _ => (vec![last, last], last),
    }
}

fn micro(name: &str) -> Micro {
    let (operands, result) = signature(name);
    let mut text = Text::new(operands.len());
    let registers: Vec<String> = operands.iter().enumerate().map(|(n, &ty)| text.load(n, ty)).collect();
    let to = text.register(result);
    text.line(&format!("{name} {to}, {}", registers.join(", ")));
    text.store(result, &to);
    let kind = name.split('.').next().unwrap_or_default();
    let inputs = operands.iter().enumerate().map(|(position, &ty)| {
        let element = |thread: u32| number(kind, ty, position, thread as usize);
        (0..THREADS).flat_map(|thread| element(thread).to_le_bytes()[..ty.bytes].to_vec()).collect()
    });
    Micro {
        instruction: name.to_owned(),
        inputs: inputs.collect(),
        text: text.finish(THREADS, name),
        threads: THREADS,
        output_bytes: THREADS as usize * result.bytes,
        float: result.float(),
    }
}

/// The bits of an operand of a thread's.
fn number(kind: &str, ty: Type, position: usize, thread: usize) -> u64 {
    // Every number meets many others, and itself.
    let at = match position {
        0 => thread % 32,
        1 => (thread / 32 * 5 + thread) % 32,
        _ => (thread / 8 * 3 + thread) % 32,
    };
    match (kind, position) {
        // By as much as there are bits, and more.
        ("shl" | "shr", 1) => [0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 100, 7, 16, 24, 30, 62][at % 16],
        // What a division by zero gives, and one whose result is out of range, is left open.
        ("div" | "rem", 1) if ty.float().is_none() => [1, 2, 3, 7, 10, 64, 1000, 65_537][at % 8],
        _ if ty.name == "pred" => (at as u64).count_ones() as u64 % 2,
        _ => value(ty, at),
    }
}

fn value(ty: Type, at: usize) -> u64 {
    const F64: [f64; 26] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.3,
        -7.75,
        1e10,
        -1e19,
        3e38,
        1e-40,
        -1e-45,
        65504.0,
        65520.0,
        6e-8,
        127.5,
        -128.5,
        2147483648.0,
        -2147483649.0,
        4294967295.5,
        9.3e18,
        1.9e19,
        0.1,
    ];
    let special = |least: u64, infinity: u64, nan: u64| [least, infinity, nan, infinity | 1 << (8 * ty.bytes - 1)];
    // Behind the numbers of the list: the least one above zero, infinities, no number, and again.
    let float = |of: &dyn Fn(f64) -> u64, special: [u64; 4]| {
        F64.get(at).map_or_else(|| special[(at - F64.len()) % 4], |&number| of(number))
    };
    match ty.name {
        "f64" => float(&f64::to_bits, special(1, 0x7ff0 << 48, 0x7ff8 << 48)),
        "f32" => float(&|x| u64::from((x as f32).to_bits()), special(1, 0x7f80_0000, 0x7fc0_0000)),
        "f16" => float(&|x| u64::from(half::f16::from_f64(x).to_bits()), special(1, 0x7c00, 0x7e00)),
        "bf16" => float(&|x| u64::from(half::bf16::from_f64(x).to_bits()), special(1, 0x7f80, 0x7fc0)),
        _ => {
            const INTEGERS: [i64; 16] = [
                0,
                1,
                -1,
                2,
                -2,
                3,
                100,
                -100,
                127,
                128,
                0x7fff_ffff,
                -0x8000_0000,
                0xffff_ffff,
                i64::MAX,
                i64::MIN,
                0x0123_4567_89ab_cdef,
            ];
            let scattered = (at as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
            INTEGERS.get(at).copied().unwrap_or(scattered).cast_unsigned()
        }
    }
}
