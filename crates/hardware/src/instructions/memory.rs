//! Loads, stores and copies: what passes through them is which element it is.

use super::text::{THREAD, Text, Type};
use super::{Micro, THREADS};

const TYPES: [&str; 8] = ["b16", "f32", "f64", "s32", "s64", "u64", "s8", "u8"];

pub(super) fn micros() -> impl Iterator<Item = Micro> {
    let spaces = ["global", "global.nc", "shared", "local"];
    let plain = spaces.into_iter().flat_map(|space| TYPES.into_iter().map(move |ty| (space, 1, ty)));
    let vectors = ["global", "global.nc", "shared"].into_iter().flat_map(|space| {
        [(2, "b16"), (2, "f32"), (4, "f32"), (2, "s32"), (4, "s32")].map(|(lanes, ty)| (space, lanes, ty))
    });
    let through = plain.chain(vectors).flat_map(|(space, lanes, ty)| {
        let loads = through(space, lanes, ty, true);
        // What cannot be written needs no second one.
        let stores = (space != "global.nc").then(|| through(space, lanes, ty, false));
        [Some(loads), stores].into_iter().flatten()
    });
    let copies = [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)].into_iter().map(|(cache, bytes)| copy(cache, bytes));
    through.chain(copies).chain([wait()])
}

/// Behind nothing, as the first kernel of all.
fn wait() -> Micro {
    let instruction = "griddepcontrol.wait".to_owned();
    let mut text = Text::new(1);
    let word = text.register(Type::named("u32").expect("listed"));
    let (from, to) = (text.own(0, 4), text.own(1, 4));
    text.line(&instruction);
    text.line(&format!("ld.global.u32 {word}, [{from}]"));
    text.line(&format!("st.global.u32 [{to}], {word}"));
    finished(instruction, text, THREADS as usize * 4)
}

fn vector(lanes: usize) -> String {
    if lanes == 1 { String::new() } else { format!(".v{lanes}") }
}

/// From the input to the output, by way of a kind of memory. `loads`: whether it is for the load or for the store.
fn through(space: &str, lanes: usize, ty: &str, loads: bool) -> Micro {
    let ty = Type::named(ty).expect("listed");
    let bytes = lanes * ty.bytes;
    let mut text = Text::new(1);
    let registers: Vec<String> = (0..lanes).map(|_| text.register(ty)).collect();
    let list = if lanes == 1 { registers[0].clone() } else { format!("{{{}}}", registers.join(", ")) };
    let suffix = format!("{}.{}", vector(lanes), ty.name);
    let (from, to) = (text.own(0, bytes), text.own(1, bytes));
    let global = if space == "global.nc" { space } else { "global" };
    text.line(&format!("ld.{global}{suffix} {list}, [{from}]"));
    if matches!(space, "shared" | "local") {
        let size = if space == "shared" { bytes * THREADS as usize } else { 4 * bytes };
        text.declare(&format!(".{space} .align 16 .b8 kept[{size}]"));
        let (base, written) = (text.address(), text.address());
        text.line(&format!("mov.u64 {base}, kept"));
        if space == "shared" {
            // A neighbour's.
            let read = text.address();
            let other = text.register(Type::named("u32").expect("listed"));
            text.line(&format!("mad.wide.s32 {written}, {THREAD}, {bytes}, {base}"));
            text.line(&format!("xor.b32 {other}, {THREAD}, 33"));
            text.line(&format!("mad.wide.s32 {read}, {other}, {bytes}, {base}"));
            text.line(&format!("st.shared{suffix} [{written}], {list}"));
            text.line("bar.sync 0");
            text.line(&format!("ld.shared{suffix} {list}, [{read}]"));
        } else {
            text.line(&format!("add.s64 {written}, {base}, {}", 2 * bytes));
            text.line(&format!("st.local{suffix} [{written}], {list}"));
            text.line(&format!("ld.local{suffix} {list}, [{written}]"));
        }
    }
    text.line(&format!("st.global{suffix} [{to}], {list}"));
    let instruction = format!("{}.{space}{suffix}", if loads { "ld" } else { "st" });
    finished(instruction, text, THREADS as usize * bytes)
}

/// Pieces of which a third is copied whole, a third in part and a third not at all, in two groups, the first of which is waited for
/// alone.
fn copy(cache: &str, bytes: usize) -> Micro {
    let instruction = format!("cp.async.{cache}.shared.global");
    let mut text = Text::new(1);
    let number = Type::named("u32").expect("listed");
    let half = THREADS as usize * bytes;
    text.declare(&format!(".shared .align 16 .b8 kept[{}]", 2 * half));
    let (base, to, from) = (text.address(), text.address(), text.own(0, bytes));
    text.line(&format!("mov.u64 {base}, kept"));
    text.line(&format!("mad.wide.s32 {to}, {THREAD}, {bytes}, {base}"));
    let (third, part) = (text.register(number), text.register(number));
    text.line(&format!("rem.u32 {third}, {THREAD}, 3"));
    text.line(&format!("mul.lo.u32 {part}, {third}, {}", bytes / 2));
    text.line(&format!("{instruction} [{to}], [{from}], {bytes}, {part}"));
    text.line("cp.async.commit_group");
    text.line(&format!("{instruction} [{to}+{half}], [{from}], {bytes}"));
    text.line("cp.async.commit_group");
    let other = text.register(number);
    text.line(&format!("xor.b32 {other}, {THREAD}, 33"));
    let read = text.address();
    text.line(&format!("mad.wide.s32 {read}, {other}, {bytes}, {base}"));
    let target = text.own(1, 2 * bytes);
    for (group, pending) in [(0, 1), (1, 0)] {
        text.line(&format!("cp.async.wait_group {pending}"));
        text.line("bar.sync 0");
        for word in 0..bytes / 4 {
            let register = text.register(number);
            text.line(&format!("ld.shared.u32 {register}, [{read}+{}]", group * half + 4 * word));
            text.line(&format!("st.global.u32 [{target}+{}], {register}", group * bytes + 4 * word));
        }
    }
    finished(format!("{instruction} {bytes}"), text, 2 * half)
}

fn finished(instruction: String, text: Text, output_bytes: usize) -> Micro {
    // Every byte of an element differs from those of the others somewhere.
    let input = (0..output_bytes).map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[5]).collect();
    Micro {
        text: text.finish(THREADS, &instruction),
        instruction,
        threads: THREADS,
        inputs: vec![input],
        output_bytes,
        float: None,
    }
}
