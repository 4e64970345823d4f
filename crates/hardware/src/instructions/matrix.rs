//! What warps do together: which thread has which element follows from the results, which are sums of products of small whole
//! numbers that differ from place to place, exact in any order.

use super::Micro;
use super::text::{THREAD, Text, Type};

const WARP: u32 = 32;

pub(super) fn micros() -> impl Iterator<Item = Micro> {
    let loads = [(2, ""), (4, ""), (2, ".trans"), (4, ".trans")];
    let halves = ["f16", "bf16"].into_iter().map(|ty| product(16, "f32", [ty, ty]));
    let bytes = ["s8", "u8"].into_iter().flat_map(|a| ["s8", "u8"].map(|b| product(32, "s32", [a, b])));
    let words = std::iter::once(product(8, "f32", ["tf32"; 2]));
    loads.into_iter().map(|(count, turned)| load(count, turned)).chain(halves).chain(words).chain(bytes)
}

/// Matrices of 8×8 halves from shared memory, whose rows lie 48 bytes apart.
fn load(count: usize, turned: &str) -> Micro {
    const ROW_BYTES: usize = 48;
    let instruction = format!("ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16");
    let number = Type::named("b32").expect("listed");
    let mut text = Text::new(1);
    text.declare(&format!(".shared .align 16 .b8 kept[{}]", ROW_BYTES * WARP as usize));
    let (base, row) = (text.address(), text.address());
    text.line(&format!("mov.u64 {base}, kept"));
    text.line(&format!("mad.wide.s32 {row}, {THREAD}, {ROW_BYTES}, {base}"));
    // A row is a thread's, 16 bytes of which a matrix has.
    let from = text.own(0, 16);
    for word in 0..4 {
        let register = text.register(number);
        text.line(&format!("ld.global.u32 {register}, [{from}+{}]", 4 * word));
        text.line(&format!("st.shared.u32 [{row}+{}], {register}", 4 * word));
    }
    text.line("bar.sync 0");
    let registers: Vec<String> = (0..count).map(|_| text.register(number)).collect();
    text.line(&format!("{instruction} {{{}}}, [{row}]", registers.join(", ")));
    store(&mut text, 1, &registers);
    let input = (0..WARP as usize * 8).flat_map(|element| (element as u16).to_le_bytes()).collect();
    Micro {
        text: text.finish(WARP, &instruction),
        instruction,
        threads: WARP,
        inputs: vec![input],
        output_bytes: WARP as usize * 4 * count,
        float: None,
    }
}

/// A product of a matrix of 16 rows and one of 8 columns, added to a third.
fn product(depth: usize, sum: &str, [a, b]: [&str; 2]) -> Micro {
    let instruction = format!("mma.sync.aligned.m16n8k{depth}.row.col.{sum}.{a}.{b}.{sum}");
    let (word, of_sum) = (Type::named("b32").expect("listed"), Type::named(sum).expect("listed"));
    let mut text = Text::new(3);
    let left = load_words(&mut text, 0, word, 4);
    let right = load_words(&mut text, 1, word, 2);
    let added = load_words(&mut text, 2, of_sum, 4);
    let result: Vec<String> = (0..4).map(|_| text.register(of_sum)).collect();
    text.line(&format!("{instruction} {}, {}, {}, {}", list(&result), list(&left), list(&right), list(&added)));
    store(&mut text, 3, &result);
    let input = |ty: &str, words: usize, seed: u64| -> Vec<u8> {
        let bytes = words * 4 * WARP as usize;
        let elements = bytes / Type::named(ty).expect("listed").bytes;
        (0..elements as u64).flat_map(|n| small(ty, scattered(n, seed))).collect()
    };
    Micro {
        text: text.finish(WARP, &instruction),
        instruction,
        threads: WARP,
        inputs: vec![input(a, 4, 1), input(b, 2, 2), input(sum, 4, 3)],
        output_bytes: WARP as usize * 16,
        float: None,
    }
}

/// Registers as an operand.
pub(super) fn list(registers: &[String]) -> String {
    format!("{{{}}}", registers.join(", "))
}

pub(super) fn load_words(text: &mut Text, parameter: usize, ty: Type, count: usize) -> Vec<String> {
    let from = text.own(parameter, 4 * count);
    let registers: Vec<String> = (0..count).map(|_| text.register(ty)).collect();
    for (n, register) in registers.iter().enumerate() {
        text.line(&format!("ld.global.{} {register}, [{from}+{}]", ty.name, 4 * n));
    }
    registers
}

pub(super) fn store(text: &mut Text, parameter: usize, registers: &[String]) {
    let to = text.own(parameter, 4 * registers.len());
    let ty = if registers[0].starts_with("%f") { "f32" } else { "u32" };
    for (n, register) in registers.iter().enumerate() {
        text.line(&format!("st.global.{ty} [{to}+{}], {register}", 4 * n));
    }
}

pub(super) fn scattered(n: u64, seed: u64) -> u64 {
    (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(0xbf58_476d_1ce4_e5b9 + 2 * seed) >> 40
}

/// A whole number that all of these types hold, -31 to 31; bytes without a sign are 0 to 255, those with one -128 to 127.
pub(super) fn small(ty: &str, bits: u64) -> Vec<u8> {
    let number = (bits % 63) as f64 - 31.0;
    match ty {
        "f16" => half::f16::from_f64(number).to_le_bytes().to_vec(),
        "bf16" => half::bf16::from_f64(number).to_le_bytes().to_vec(),
        "f32" | "tf32" => (number as f32).to_le_bytes().to_vec(),
        "s32" => (number as i32 * 100_003).to_le_bytes().to_vec(),
        _ => vec![bits as u8],
    }
}
