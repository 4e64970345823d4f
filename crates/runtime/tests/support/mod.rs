//! Hand-assembled kernels and small artifacts around them.
//!
//! The kernel ABI on x86-64: rdi = argument block, rsi = begin, rdx = end, rcx = scratch.

#![expect(dead_code, reason = "each test file uses its part")]

use infc_runtime::artifact::{
    ArenaSlot, Arg, ArtifactBuilder, Binding, BindingSource, Copy, Entry, FixedSymbol, KernelInfo, Launch, NewWeight,
    PortSpec, Program, Provenance, SizeExpr, Slot, Specialization, Step, SymbolSpec, VariantBuilder,
};
use infc_runtime::{DType, LoadOptions, Model, Pool};

/// Args a, b, out: `out[i] = a[i] + b[i]` over f32.
#[rustfmt::skip]
pub(crate) const ADD: &[u8] = &[
    0x4c, 0x8b, 0x07,                         // mov   r8, [rdi]
    0x4c, 0x8b, 0x4f, 0x08,                   // mov   r9, [rdi + 8]
    0x4c, 0x8b, 0x57, 0x10,                   // mov   r10, [rdi + 16]
    0x48, 0x39, 0xd6,                         // next: cmp rsi, rdx
    0x73, 0x17,                               // jae   done
    0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0,       // movss xmm0, [r8 + rsi*4]
    0xf3, 0x41, 0x0f, 0x58, 0x04, 0xb1,       // addss xmm0, [r9 + rsi*4]
    0xf3, 0x41, 0x0f, 0x11, 0x04, 0xb2,       // movss [r10 + rsi*4], xmm0
    0x48, 0xff, 0xc6,                         // inc   rsi
    0xeb, 0xe4,                               // jmp   next
    0xc3,                                     // done: ret
];

/// Args a, out, value n: `out[i] = Σ a[i·n + j]` over f32, the sum kept in scratch.
#[rustfmt::skip]
pub(crate) const SUM_ROWS: &[u8] = &[
    0x4c, 0x8b, 0x07,                         // mov   r8, [rdi]
    0x4c, 0x8b, 0x4f, 0x08,                   // mov   r9, [rdi + 8]
    0x4c, 0x8b, 0x57, 0x10,                   // mov   r10, [rdi + 16]
    0x48, 0x39, 0xd6,                         // next: cmp rsi, rdx
    0x73, 0x37,                               // jae   done
    0x48, 0x89, 0xf0,                         // mov   rax, rsi
    0x49, 0x0f, 0xaf, 0xc2,                   // imul  rax, r10
    0x49, 0x8d, 0x04, 0x80,                   // lea   rax, [r8 + rax*4]
    0xc7, 0x01, 0x00, 0x00, 0x00, 0x00,       // mov   dword [rcx], 0
    0x45, 0x31, 0xdb,                         // xor   r11d, r11d
    0x4d, 0x39, 0xd3,                         // row:  cmp r11, r10
    0x73, 0x13,                               // jae   store
    0xf3, 0x0f, 0x10, 0x01,                   // movss xmm0, [rcx]
    0xf3, 0x42, 0x0f, 0x58, 0x04, 0x98,       // addss xmm0, [rax + r11*4]
    0xf3, 0x0f, 0x11, 0x01,                   // movss [rcx], xmm0
    0x49, 0xff, 0xc3,                         // inc   r11
    0xeb, 0xe8,                               // jmp   row
    0x8b, 0x01,                               // store: mov eax, [rcx]
    0x41, 0x89, 0x04, 0xb1,                   // mov   [r9 + rsi*4], eax
    0x48, 0xff, 0xc6,                         // inc   rsi
    0xeb, 0xc4,                               // jmp   next
    0xc3,                                     // done: ret
];

/// Args out: `out[i] = address of scratch` over u64, after some ten microseconds.
#[rustfmt::skip]
pub(crate) const LANE: &[u8] = &[
    0x4c, 0x8b, 0x07,                         // mov   r8, [rdi]
    0x48, 0x39, 0xd6,                         // next: cmp rsi, rdx
    0x73, 0x12,                               // jae   done
    0xb8, 0x20, 0x4e, 0x00, 0x00,             // mov   eax, 20000
    0xff, 0xc8,                               // wait: dec eax
    0x75, 0xfc,                               // jnz   wait
    0x49, 0x89, 0x0c, 0xf0,                   // mov   [r8 + rsi*8], rcx
    0x48, 0xff, 0xc6,                         // inc   rsi
    0xeb, 0xe9,                               // jmp   next
    0xc3,                                     // done: ret
];

/// Args out: `out[i] = MXCSR` over u32.
#[rustfmt::skip]
pub(crate) const MXCSR: &[u8] = &[
    0x4c, 0x8b, 0x07,                         // mov   r8, [rdi]
    0x48, 0x39, 0xd6,                         // next: cmp rsi, rdx
    0x73, 0x0a,                               // jae   done
    0x41, 0x0f, 0xae, 0x1c, 0xb0,             // stmxcsr [r8 + rsi*4]
    0x48, 0xff, 0xc6,                         // inc   rsi
    0xeb, 0xf1,                               // jmp   next
    0xc3,                                     // done: ret
];

pub(crate) fn port(name: &str, dtype: DType, shape: impl Into<Vec<SizeExpr>>) -> PortSpec {
    PortSpec::new(name, dtype, shape.into())
}

/// An entry `main` with one symbol `N`, read from axis 0 of input 0, between 0 and 100 000.
pub(crate) fn dynamic(inputs: Vec<PortSpec>, outputs: Vec<PortSpec>) -> Entry {
    Entry {
        name: "main".to_owned(),
        inputs,
        outputs,
        symbols: vec![SymbolSpec { name: "N".to_owned(), min: 0, max: Some(100_000) }],
        bindings: vec![Binding { symbol: 0, source: BindingSource::Axis { input: 0, axis: 0 } }],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    }
}

/// An entry `main` without symbols.
pub(crate) fn fixed(inputs: Vec<PortSpec>, outputs: Vec<PortSpec>) -> Entry {
    Entry {
        name: "main".to_owned(),
        inputs,
        outputs,
        symbols: vec![],
        bindings: vec![],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    }
}

pub(crate) fn launch(kernel: u32, args: Vec<Arg>, chunks: SizeExpr) -> Launch {
    Launch { kernel, args, values: vec![], chunks, step_chunks: None, grid: None, scratch_bytes: SizeExpr::constant(0) }
}

pub(crate) fn arena(size_bytes: SizeExpr, first_step: u32, last_step: u32) -> Slot {
    Slot::Arena(ArenaSlot { size_bytes, first_step, last_step, alias: None })
}

pub(crate) fn weight(name: &str, len_elems: usize) -> NewWeight {
    NewWeight {
        name: name.to_owned(),
        original_names: vec![],
        dtype: DType::F32,
        shape: vec![len_elems as u64],
        recipe: String::new(),
        layout: String::new(),
    }
}

/// A variant for any x86-64 with the four kernels above: 0 add, 1 sum_rows, 2 lane, 3 mxcsr.
pub(crate) fn variant(target: &str, features: &[&str], program: Program) -> VariantBuilder {
    let mut variant = VariantBuilder::new(target, features);
    for (name, code) in [("add", ADD), ("sum_rows", SUM_ROWS), ("lane", LANE), ("mxcsr", MXCSR)] {
        variant.kernel(KernelInfo { name: name.to_owned(), ..KernelInfo::default() }, code);
    }
    variant.program(program);
    variant
}

/// The bytes of an artifact with one entry, one variant and f32 weights.
pub(crate) fn artifact(entry: Entry, slots: Vec<Slot>, steps: Vec<Step>, weights: &[&[f32]]) -> Vec<u8> {
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    for (index, values) in weights.iter().enumerate() {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        artifact.weight(weight(&format!("w{index}"), values.len()), bytes);
    }
    artifact.entry(entry);
    artifact.variant(variant("x86-64", &[], Program { slots, steps, static_plan: None }));
    artifact.finish().unwrap().to_vec().unwrap()
}

pub(crate) fn model_on(bytes: Vec<u8>, pool: Pool) -> Model {
    Model::from_vec_with(bytes, &LoadOptions { pool: Some(pool), ..LoadOptions::default() }).unwrap()
}

/// `out = (a + b) + b` over f32[N], through the arena.
pub(crate) fn add_twice() -> Vec<u8> {
    let n = SizeExpr::symbol(0);
    let f32s = |name| port(name, DType::F32, [SizeExpr::symbol(0)]);
    let slots = vec![Slot::Input(0), Slot::Input(1), arena(n.clone() * SizeExpr::constant(4), 0, 1), Slot::Output(0)];
    let steps = vec![
        Step::Launch(launch(0, vec![Arg::read(0), Arg::read(1), Arg::write(2)], n.clone())),
        Step::Launch(launch(0, vec![Arg::read(2), Arg::read(1), Arg::write(3)], n)),
    ];
    artifact(dynamic(vec![f32s("a"), f32s("b")], vec![f32s("out")]), slots, steps, &[])
}

/// `out[i] = Σ a[i, j]` over f32[N, 10], with scratch memory.
pub(crate) fn row_sums() -> Vec<u8> {
    let n = SizeExpr::symbol(0);
    let mut step = launch(1, vec![Arg::read(0), Arg::write(1)], n.clone());
    step.values = vec![SizeExpr::constant(10)];
    step.scratch_bytes = SizeExpr::constant(4);
    let inputs = vec![port("a", DType::F32, [n.clone(), SizeExpr::constant(10)])];
    let entry = dynamic(inputs, vec![port("out", DType::F32, [n])]);
    artifact(entry, vec![Slot::Input(0), Slot::Output(0)], vec![Step::Launch(step)], &[])
}

/// The same, and the same again for `N = 77`, through the arena.
pub(crate) fn row_sums_with_a_case() -> Vec<u8> {
    let (n, ten) = (SizeExpr::symbol(0), SizeExpr::constant(10));
    let general =
        dynamic(vec![port("a", DType::F32, [n.clone(), ten.clone()])], vec![port("out", DType::F32, [n.clone()])]);
    let rows = SizeExpr::constant(77);
    let mut special =
        fixed(vec![port("a", DType::F32, [rows.clone(), ten])], vec![port("out", DType::F32, [rows.clone()])]);
    special.name = "main[N=77]".to_owned();
    let fixed = vec![FixedSymbol { symbol: 0, value: 77 }];
    special.specializes = Some(Specialization { general: 0, fixed });
    let sums = |out: u32, chunks: SizeExpr| {
        let mut step = launch(1, vec![Arg::read(0), Arg::write(out)], chunks);
        step.values = vec![SizeExpr::constant(10)];
        step.scratch_bytes = SizeExpr::constant(4);
        Step::Launch(step)
    };
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    artifact.entry(general);
    artifact.entry(special);
    let slots = vec![Slot::Input(0), Slot::Output(0)];
    let steps = vec![sums(1, n)];
    let mut variant = variant("x86-64", &[], Program { slots, steps, static_plan: None });
    let bytes = SizeExpr::constant(77 * 4);
    let slots = vec![Slot::Input(0), arena(bytes.clone(), 0, 1), Slot::Output(0)];
    let steps = vec![sums(1, rows), Step::Copy(Copy { src: 1, dst: 2, size_bytes: bytes })];
    variant.program(Program { slots, steps, static_plan: None });
    artifact.variant(variant);
    artifact.finish().unwrap().to_vec().unwrap()
}

/// `out[i] = scratch address of the thread that computed chunk i`, u64[N]; the input only tells N.
pub(crate) fn lanes() -> Vec<u8> {
    let n = SizeExpr::symbol(0);
    let mut step = launch(2, vec![Arg::write(1)], n.clone());
    step.scratch_bytes = SizeExpr::constant(1);
    let entry = dynamic(vec![port("a", DType::U8, [n.clone()])], vec![port("out", DType::U64, [n])]);
    artifact(entry, vec![Slot::Input(0), Slot::Output(0)], vec![Step::Launch(step)], &[])
}

/// `out[i] = MXCSR of the thread that computed chunk i`, u32[N]; the input only tells N.
pub(crate) fn mxcsr() -> Vec<u8> {
    let n = SizeExpr::symbol(0);
    let step = launch(3, vec![Arg::write(1)], n.clone());
    let entry = dynamic(vec![port("a", DType::U8, [n.clone()])], vec![port("out", DType::U32, [n])]);
    artifact(entry, vec![Slot::Input(0), Slot::Output(0)], vec![Step::Launch(step)], &[])
}
