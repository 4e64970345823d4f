//! The small artifact that tests are about: two entries, two variants, one weight.

#![allow(dead_code, reason = "every test uses a part of it")]

use infc_artifact::{
    Arg, ArtifactBuilder, Binding, BindingSource, EncodedArtifact, Entry, KernelInfo, Launch, MemoryPlan, NewWeight,
    PortSpec, Program, Provenance, SizeExpr, Slot, Step, SymbolSpec, VariantBuilder, features,
};
use infc_tensor::DType;

/// `out[i] = a[i] + b[i]` over f32 for the chunks `i` of a range, in the kernel ABI; x86-64, scalar SSE.
#[rustfmt::skip]
pub(crate) const ADD: [u8; 40] = [
    0x4c, 0x8b, 0x07,                   // mov   r8, [rdi]
    0x4c, 0x8b, 0x4f, 0x08,             // mov   r9, [rdi + 8]
    0x4c, 0x8b, 0x57, 0x10,             // mov   r10, [rdi + 16]
    0x48, 0x39, 0xd6,                   // next: cmp rsi, rdx
    0x73, 0x17,                         // jae   done
    0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0, // movss xmm0, [r8 + rsi*4]
    0xf3, 0x41, 0x0f, 0x58, 0x04, 0xb1, // addss xmm0, [r9 + rsi*4]
    0xf3, 0x41, 0x0f, 0x11, 0x04, 0xb2, // movss [r10 + rsi*4], xmm0
    0x48, 0xff, 0xc6,                   // inc   rsi
    0xeb, 0xe4,                         // jmp   next
    0xc3,                               // done: ret
];

pub(crate) fn port(name: &str, shape: &[SizeExpr]) -> PortSpec {
    PortSpec::new(name, DType::F32, shape.to_vec())
}

/// `out = a + weight`, four elements.
pub(crate) fn main_entry() -> Entry {
    let shape = [SizeExpr::constant(4)];
    Entry {
        name: "main".to_owned(),
        inputs: vec![port("a", &shape)],
        outputs: vec![port("out", &shape)],
        symbols: vec![],
        bindings: vec![],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    }
}

/// `out = (a + b) + b`, any number of elements up to 4096.
pub(crate) fn pair_entry() -> Entry {
    let shape = [SizeExpr::symbol(0)];
    Entry {
        name: "pair".to_owned(),
        inputs: vec![port("a", &shape), port("b", &shape)],
        outputs: vec![port("out", &shape)],
        symbols: vec![SymbolSpec { name: "N".to_owned(), min: 0, max: Some(4096) }],
        bindings: vec![Binding { symbol: 0, source: BindingSource::Axis { input: 0, axis: 0 } }],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    }
}

pub(crate) fn add(a: u32, b: u32, out: u32, chunks: SizeExpr) -> Step {
    Step::Launch(Launch {
        kernel: 0,
        args: vec![Arg::read(a), Arg::read(b), Arg::write(out)],
        values: vec![],
        chunks,
        step_chunks: None,
        grid: None,
        scratch_bytes: SizeExpr::constant(0),
    })
}

pub(crate) fn main_program() -> Program {
    let slots = vec![Slot::Input(0), Slot::Weight(0), Slot::Output(0)];
    let mut program = Program { slots, steps: vec![add(0, 1, 2, SizeExpr::constant(4))], static_plan: None };
    program.static_plan = Some(MemoryPlan::new(&program, &[]).unwrap());
    program
}

pub(crate) fn pair_program() -> Program {
    let n = SizeExpr::symbol(0);
    let sum = infc_artifact::ArenaSlot {
        size_bytes: n.clone() * SizeExpr::constant(4),
        first_step: 0,
        last_step: 1,
        alias: None,
    };
    Program {
        slots: vec![Slot::Input(0), Slot::Input(1), Slot::Arena(sum), Slot::Output(0)],
        steps: vec![add(0, 1, 2, n.clone()), add(2, 1, 3, n)],
        static_plan: None,
    }
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        infc_version: "0.1.0".to_owned(),
        model_hash: "00".repeat(32),
        producer: "golden".to_owned(),
        flags: vec!["--target x86-64-v3,x86-64".to_owned()],
        records: vec![],
        assembler: None,
    }
}

pub(crate) fn variant(target: &str) -> VariantBuilder {
    let mut variant = VariantBuilder::new(target, &features::required_by(target).unwrap());
    let info = KernelInfo {
        name: "k0_add".to_owned(),
        emitter: "hand".to_owned(),
        origins: vec!["/Add".to_owned()],
        schedule: "parallel i".to_owned(),
        macs: None,
        bytes: None,
        vector_insts: 0,
        total_insts: 11,
        ..KernelInfo::default()
    };
    variant.kernel(info, &ADD);
    variant.program(main_program());
    variant.program(pair_program());
    variant
}

pub(crate) fn weight(name: &str) -> NewWeight {
    NewWeight {
        name: name.to_owned(),
        original_names: vec!["fc.bias".to_owned()],
        dtype: DType::F32,
        shape: vec![4],
        recipe: String::new(),
        layout: String::new(),
    }
}

pub(crate) fn sample() -> EncodedArtifact<'static> {
    let mut artifact = ArtifactBuilder::new(provenance());
    let bytes: Vec<u8> = [1f32, 2., 3., 4.].into_iter().flat_map(f32::to_le_bytes).collect();
    artifact.weight(weight("fc.bias"), bytes);
    artifact.entry(main_entry());
    artifact.entry(pair_entry());
    artifact.variant(variant("x86-64-v3"));
    artifact.variant(variant("x86-64"));
    artifact.finish().unwrap()
}
