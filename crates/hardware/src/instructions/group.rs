//! What groups of four warps do together (`sm_90a`): which element of shared memory is multiplied with which follows from the results,
//! which are sums of products of small whole numbers that differ from place to place, exact in any order.

use super::Micro;
use super::matrix::{list, load_words, scattered, small, store};
use super::text::{THREAD, Text, Type};

const THREADS: u32 = 128;
/// Rows of the left factor.
const ROWS: usize = 64;
/// Bytes of a line, of which an instruction takes a slice where it is along what is summed.
const LINE_BYTES: usize = 128;
const SLICE_BYTES: usize = 32;
/// Bytes from eight lines to the next.
const STRIDE_BYTES: usize = 1024;

/// Where neighbours of the right factor are.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    /// Along what is summed, the slice of a line with this number.
    Along(usize),
    /// Columns; the slice of a panel's lines with this number.
    Across(usize),
}

pub(super) fn micros() -> impl Iterator<Item = Micro> {
    let halves = ["f16", "bf16"].into_iter().flat_map(|ty| {
        let shapes = [(64, Lines::Along(0)), (8, Lines::Along(3)), (256, Lines::Along(1))];
        let across = [(64, Lines::Across(0)), (128, Lines::Across(1)), (256, Lines::Across(3))];
        shapes.into_iter().chain(across).map(move |(columns, lines)| product(columns, "f32", [ty, ty], lines))
    });
    let bytes = ["s8", "u8"].into_iter().flat_map(|a| {
        ["s8", "u8"].into_iter().flat_map(move |b| {
            [(96, Lines::Along(0)), (256, Lines::Along(2))]
                .map(|(columns, lines)| product(columns, "s32", [a, b], lines))
        })
    });
    halves.chain(bytes)
}

/// The descriptor's distances, and lines of 128 bytes whose pieces are swizzled (PTX ISA 9.7.15.5.1.2.2).
fn descriptor(panel_bytes: usize) -> u64 {
    ((panel_bytes as u64 >> 4) << 16) | ((STRIDE_BYTES as u64 >> 4) << 32) | (1 << 62)
}

/// A product of a matrix of 64 rows and one of so many columns, added to a third.
fn product(columns: usize, sum: &'static str, [a, b]: [&'static str; 2], lines: Lines) -> Micro {
    let size = Type::named(a).expect("listed").bytes;
    let depth = SLICE_BYTES / size;
    let instruction = format!("wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{sum}.{a}.{b}");
    let (word, of_sum) = (Type::named("b32").expect("listed"), Type::named(sum).expect("listed"));
    // A line's worth of what is summed of both.
    let (per_line, left_bytes) = (LINE_BYTES / size, ROWS * LINE_BYTES);
    let panel_bytes = per_line * LINE_BYTES;
    let (right_bytes, right_start, panel) = match lines {
        Lines::Along(slice) => (columns * LINE_BYTES, slice * SLICE_BYTES, 16),
        Lines::Across(slice) => (columns.div_ceil(per_line) * panel_bytes, slice * depth * LINE_BYTES, panel_bytes),
    };
    let left_start = match lines {
        Lines::Along(slice) | Lines::Across(slice) => slice * SLICE_BYTES,
    };
    let mut text = Text::new(3);
    text.declare(&format!(".shared .align 1024 .b8 kept[{}]", left_bytes + right_bytes));
    let base = text.address();
    text.line(&format!("mov.u64 {base}, kept"));
    // Bytes as they are given, a word of each line of threads at a time.
    let own = text.address();
    text.line(&format!("mad.wide.s32 {own}, {THREAD}, 4, {base}"));
    for (parameter, from, bytes) in [(0, 0, left_bytes), (1, left_bytes, right_bytes)] {
        let source = text.own(parameter, 4);
        for at in (0..bytes).step_by(4 * THREADS as usize) {
            let register = text.register(word);
            text.line(&format!("ld.global.u32 {register}, [{source}+{at}]"));
            text.line(&format!("st.shared.u32 [{own}+{}], {register}", from + at));
        }
    }
    let sums = load_words(&mut text, 2, of_sum, columns / 2);
    text.line("fence.proxy.async.shared::cta");
    text.line("bar.sync 0");
    let mut factor = |start: usize, bits: u64| {
        let (address, descriptor) = (text.address(), text.address());
        text.line(&format!("add.s64 {address}, {base}, {start}"));
        text.line(&format!("shr.u64 {address}, {address}, 4"));
        text.line(&format!("or.b64 {descriptor}, {address}, {bits}"));
        descriptor
    };
    let factors = [factor(left_start, descriptor(16)), factor(left_bytes + right_start, descriptor(panel))];
    let adds = text.register(Type::named("pred").expect("listed"));
    text.line(&format!("setp.ge.s32 {adds}, {THREAD}, 0"));
    let modes = match (sum, lines) {
        ("f32", Lines::Along(_)) => ", 1, 1, 0, 0",
        ("f32", Lines::Across(_)) => ", 1, 1, 0, 1",
        _ => "",
    };
    text.line("wgmma.fence.sync.aligned");
    text.line(&format!("{instruction} {}, {}, {}, {adds}{modes}", list(&sums), factors[0], factors[1]));
    text.line("wgmma.commit_group.sync.aligned");
    text.line("wgmma.wait_group.sync.aligned 0");
    store(&mut text, 3, &sums);
    let input = |ty: &str, bytes: usize, seed: u64| -> Vec<u8> {
        let elements = bytes / Type::named(ty).expect("listed").bytes;
        (0..elements as u64).flat_map(|n| small(ty, scattered(n, seed))).collect()
    };
    let sum_bytes = THREADS as usize * columns * 2;
    // What tells kernels of the same instruction apart.
    let which = match lines {
        Lines::Along(slice) => format!("{instruction} along {slice}"),
        Lines::Across(slice) => format!("{instruction} across {slice}"),
    };
    Micro {
        text: text.finish(THREADS, &instruction),
        instruction: which,
        threads: THREADS,
        inputs: vec![input(a, left_bytes, 1), input(b, right_bytes, 2), input(sum, sum_bytes, 3)],
        output_bytes: sum_bytes,
        float: None,
    }
}
