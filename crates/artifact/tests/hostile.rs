//! Damaged, foreign, newer and malicious files are refused with the right code; nothing panics.

mod support;

use infc_artifact::container::{Container, ContainerWriter, Piece, REQUIRED, SectionKind};
use infc_artifact::{
    Access, Append, ArenaSlot, Arg, Artifact, ArtifactBuilder, ArtifactError, Binding, BindingSource, Entry,
    KernelInfo, Launch, Manifest, MemoryPlan, Program, SizeExpr, Slot, StatePair, Step,
};
use proptest::prelude::*;

/// Everything a loader would read.
fn read_all(bytes: &[u8]) -> Result<(), ArtifactError> {
    let artifact = Artifact::read(bytes)?;
    artifact.verify_all()?;
    (0..artifact.manifest().variants.len()).try_for_each(|variant| artifact.variant(variant).map(drop))
}

fn code_of(bytes: &[u8]) -> &'static str {
    read_all(bytes).unwrap_err().code()
}

/// The header's hash, after the header was changed.
fn rehash(bytes: &mut [u8]) {
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let hash = blake3::Hasher::new().update(&bytes[..32]).update(&bytes[64..64 + 64 * count]).finalize();
    bytes[32..64].copy_from_slice(hash.as_bytes());
}

#[test]
fn truncated_anywhere() {
    let bytes = support::sample().to_vec().unwrap();
    let container = Container::read(&bytes).unwrap();
    let head = 64 + 64 * container.sections().len();
    let mut lens: Vec<usize> = (1..=head).collect();
    for section in container.sections() {
        let (start, end) = (section.range.start, section.range.end);
        lens.extend([start - 1, start, start + 1, end - 1, end, end + 1]);
    }
    for len in lens.into_iter().filter(|&len| len < bytes.len()) {
        assert_eq!(code_of(&bytes[..len]), "artifact::truncated", "{len} bytes");
    }
    assert_eq!(code_of(&[]), "artifact::not-an-artifact");
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(code_of(&longer), "artifact::malformed");
}

#[test]
fn every_bit_of_the_header_counts() {
    let bytes = support::sample().to_vec().unwrap();
    let head = 64 + 64 * Container::read(&bytes).unwrap().sections().len();
    for bit in 0..head * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let code = code_of(&damaged);
        let expected: &[&str] = match bit / 8 {
            0..8 => &["artifact::not-an-artifact"],
            8..12 => &["artifact::newer-format", "artifact::older-format"],
            12..16 => &["artifact::too-large", "artifact::truncated", "artifact::hash-mismatch"],
            _ => &["artifact::hash-mismatch"],
        };
        assert!(expected.contains(&code), "bit {bit}: {code}");
    }
}

#[test]
fn every_byte_of_every_section_counts() {
    let bytes = support::sample().to_vec().unwrap();
    for section in Container::read(&bytes).unwrap().sections() {
        for at in section.range.clone() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(code_of(&damaged), "artifact::hash-mismatch", "byte {at}");
        }
    }
}

#[test]
fn other_formats_name_both_versions() {
    let with_version = |major: u16, minor: u16| {
        let mut bytes = support::sample().to_vec().unwrap();
        bytes[8..10].copy_from_slice(&major.to_le_bytes());
        bytes[10..12].copy_from_slice(&minor.to_le_bytes());
        rehash(&mut bytes);
        read_all(&bytes).unwrap_err()
    };
    for (major, minor) in [(1, 1), (2, 0), (9, 9)] {
        let error = with_version(major, minor);
        assert_eq!(error.code(), "artifact::newer-format");
        let text = error.to_string();
        assert!(text.contains(&format!("{major}.{minor}")) && text.contains("1.0"), "{text}");
    }
    assert_eq!(with_version(0, 7).code(), "artifact::older-format");
}

#[test]
fn other_files() {
    assert_eq!(code_of(b"\x08\x07\x12\x07pytorch"), "artifact::not-an-artifact");
    let mut text_mode = support::sample().to_vec().unwrap();
    text_mode.remove(5);
    assert_eq!(code_of(&text_mode), "artifact::not-an-artifact");
}

#[test]
fn impossible_section_tables() {
    let sample = support::sample().to_vec().unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut damaged = sample.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        rehash(&mut damaged);
        code_of(&damaged)
    };
    // Section 1's entry begins at byte 128: offset at +8, length at +16.
    assert_eq!(patched(128 + 8, &u64::MAX.to_le_bytes()), "artifact::malformed");
    assert_eq!(patched(128 + 8, &(1u64 << 40).to_le_bytes()), "artifact::truncated");
    assert_eq!(patched(128 + 8, &4096u64.to_le_bytes()), "artifact::malformed");
    assert_eq!(patched(128 + 8, &0u64.to_le_bytes()), "artifact::malformed");
    assert_eq!(patched(128 + 16, &u64::MAX.to_le_bytes()), "artifact::truncated");
    assert_eq!(patched(16, &u64::MAX.to_le_bytes()), "artifact::truncated");
    assert_eq!(patched(64, &77u32.to_le_bytes()), "artifact::unknown-section");
}

/// The sample's sections, to be written again after changes.
fn sections(bytes: &[u8]) -> Vec<(SectionKind, u32, u32, Vec<u8>)> {
    let container = Container::read(bytes).unwrap();
    let sections = container.sections().iter().enumerate();
    sections.map(|(i, s)| (s.kind, s.flags, s.schema, container.section_bytes(i).unwrap().to_vec())).collect()
}

fn assemble(sections: &[(SectionKind, u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut writer = ContainerWriter::default();
    for (kind, flags, schema, bytes) in sections {
        writer.section(*kind, *flags, *schema, vec![Piece::new(bytes.as_slice())]);
    }
    let mut bytes = Vec::new();
    writer.write_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn unknown_sections() {
    let mut parts = sections(&support::sample().to_vec().unwrap());
    parts.push((SectionKind(900), 0, 0, vec![1, 2, 3]));
    read_all(&assemble(&parts)).unwrap();
    parts.last_mut().unwrap().1 = REQUIRED;
    assert_eq!(code_of(&assemble(&parts)), "artifact::unknown-section");
}

#[test]
fn unknown_schemas_and_a_second_manifest() {
    let parts = sections(&support::sample().to_vec().unwrap());
    for index in [0, 2] {
        let mut newer = parts.clone();
        newer[index].2 += 10;
        assert_eq!(code_of(&assemble(&newer)), "artifact::unknown-schema");
    }
    // Programs for GPUs have schemas of their own.
    for schema in [2, 3] {
        let mut other = parts.clone();
        other[2].2 = schema;
        assert_eq!(code_of(&assemble(&other)), "artifact::malformed");
    }
    let mut twice = parts.clone();
    twice.push(parts[0].clone());
    assert_eq!(code_of(&assemble(&twice)), "artifact::malformed");
}

#[test]
fn metadata_has_a_size_limit() {
    let mut parts = sections(&support::sample().to_vec().unwrap());
    parts[0].3 = vec![0; (32 << 20) + 1];
    assert_eq!(code_of(&assemble(&parts)), "artifact::too-large");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Well-hashed nonsense: the decoder and the checks behind it meet every kind of damage.
    #[test]
    fn changed_metadata_never_panics(
        section in prop::sample::select(vec![0usize, 2, 4]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut parts = sections(&support::sample().to_vec().unwrap());
        let bytes = &mut parts[section].3;
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bytes = assemble(&parts);
        // Whatever passes the checks must also be plannable without trouble.
        if let Ok(artifact) = Artifact::read(&bytes) {
            for variant in 0..artifact.manifest().variants.len() {
                if let Ok(body) = artifact.variant(variant) {
                    for (program, entry) in body.programs.iter().zip(&artifact.manifest().entries) {
                        let _ = MemoryPlan::new(program, &vec![3; entry.symbols.len()]);
                    }
                }
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_all(&bytes);
        let mut with_magic = support::sample().to_vec().unwrap()[..12].to_vec();
        with_magic.extend(&bytes);
        let _ = read_all(&with_magic);
    }
}

/// Builds the sample with one part changed, and returns the code of the refusal.
fn refused(change: impl FnOnce(&mut Entry, &mut Program)) -> &'static str {
    let (mut entry, mut program) = (support::pair_entry(), support::pair_program());
    change(&mut entry, &mut program);
    let mut artifact = ArtifactBuilder::new(support::provenance());
    artifact.weight(support::weight("w"), vec![0u8; 16]);
    artifact.entry(entry);
    let mut variant = infc_artifact::VariantBuilder::new("x86-64", &[]);
    variant.kernel(KernelInfo::default(), &support::ADD);
    variant.program(program);
    artifact.variant(variant);
    match artifact.finish() {
        Ok(_) => "accepted",
        Err(error) => error.code(),
    }
}

fn launch(program: &mut Program, step: usize) -> &mut Launch {
    match &mut program.steps[step] {
        Step::Launch(launch) => launch,
        _ => panic!("the sample has launches only"),
    }
}

fn arena(program: &mut Program) -> &mut ArenaSlot {
    match &mut program.slots[2] {
        Slot::Arena(slot) => slot,
        _ => panic!("slot 2 of the sample is in the arena"),
    }
}

#[test]
fn parts_that_do_not_fit_together() {
    let malformed = "artifact::malformed";
    assert_eq!(refused(|_, _| ()), "accepted");
    // Choices end where the one around them does.
    let choice = |then_steps, else_steps| Step::If(infc_artifact::If { condition: 0, then_steps, else_steps });
    assert_eq!(refused(|_, p| p.steps.insert(0, choice(u32::MAX, u32::MAX))), malformed);
    assert_eq!(refused(|_, p| p.steps.push(choice(0, 1))), malformed);
    assert_eq!(refused(|_, p| p.steps.push(choice(0, 0))), "accepted");
    // Entries.
    assert_eq!(refused(|e, _| e.bindings.clear()), malformed);
    assert_eq!(refused(|e, _| e.bindings.push(e.bindings[0].clone())), malformed);
    assert_eq!(
        refused(|e, _| e.bindings[0] = Binding { symbol: 0, source: BindingSource::Axis { input: 5, axis: 0 } }),
        malformed
    );
    assert_eq!(
        refused(|e, _| e.bindings[0] = Binding { symbol: 0, source: BindingSource::Axis { input: 0, axis: 1 } }),
        malformed
    );
    let of_input = |input| Binding { symbol: 0, source: BindingSource::Element { input, index: u32::MAX } };
    assert_eq!(refused(|e, _| e.bindings[0] = of_input(5)), malformed);
    // Symbols that are not bound before: the symbol itself, and one that does not exist.
    let computed = |symbol| Binding { symbol: 0, source: BindingSource::Computed(SizeExpr::symbol(symbol)) };
    assert_eq!(refused(|e, _| e.bindings[0] = computed(0)), malformed);
    assert_eq!(refused(|e, _| e.bindings[0] = computed(9)), malformed);
    let state = |begin| BindingSource::State { input: 0, axis: 0, begin };
    // An input that is no state, and one that begins with what is not known.
    assert_eq!(refused(|e, _| e.bindings[0].source = state(SizeExpr::constant(1))), malformed);
    assert_eq!(
        refused(|e, _| {
            e.state.push(StatePair { output: 0, input: 0, append: None });
            e.bindings[0].source = state(SizeExpr::symbol(0));
        }),
        malformed
    );
    assert_eq!(refused(|e, _| e.symbols[0].min = -1), malformed);
    assert_eq!(
        refused(|e, _| e.bindings[0] = Binding { symbol: 1, source: BindingSource::Axis { input: 0, axis: 0 } }),
        malformed
    );
    assert_eq!(refused(|e, _| e.symbols[0].min = -1), malformed);
    assert_eq!(refused(|e, _| e.symbols[0].max = Some(-1)), malformed);
    assert_eq!(refused(|e, _| e.inputs[1].name = "a".to_owned()), malformed);
    assert_eq!(refused(|e, _| e.outputs[0].shape[0] = SizeExpr::symbol(1)), malformed);
    let pair = |output, input, append| StatePair { output, input, append };
    assert_eq!(refused(|e, _| e.state.push(pair(0, 0, None))), "accepted");
    assert_eq!(refused(|e, _| e.state.push(pair(1, 0, None))), malformed);
    assert_eq!(refused(|e, _| e.state.extend([pair(0, 0, None), pair(0, 1, None)])), malformed);
    assert_eq!(refused(|e, _| e.state.push(pair(0, 0, Some(Append { axis: 0, capacity: 8 })))), "accepted");
    assert_eq!(refused(|e, _| e.state.push(pair(0, 0, Some(Append { axis: 9, capacity: 8 })))), malformed);
    assert_eq!(
        refused(|e, _| {
            e.state.push(pair(0, 0, None));
            e.outputs[0].shape.clear();
        }),
        malformed
    );
    // Slots.
    assert_eq!(refused(|_, p| p.slots[0] = Slot::Input(2)), malformed);
    assert_eq!(refused(|_, p| p.slots[0] = Slot::Weight(1)), malformed);
    assert_eq!(refused(|_, p| p.slots[3] = Slot::Output(1)), malformed);
    assert_eq!(refused(|_, p| arena(p).last_step = 2), malformed);
    assert_eq!(refused(|_, p| arena(p).first_step = 1), malformed);
    assert_eq!(refused(|_, p| arena(p).last_step = 0), malformed);
    assert_eq!(refused(|_, p| arena(p).alias = Some(2)), malformed);
    assert_eq!(refused(|_, p| arena(p).alias = Some(0)), malformed);
    assert_eq!(refused(|_, p| arena(p).size_bytes = SizeExpr::symbol(1)), malformed);
    // Steps.
    assert_eq!(refused(|_, p| launch(p, 0).kernel = 1), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).args[0].slot = 4), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).args[0].access = Access::ReadWrite), malformed);
    assert_eq!(refused(|_, p| launch(p, 1).args[1] = Arg::write(1)), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).chunks = SizeExpr::symbol(9)), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).values = vec![SizeExpr::constant(0); 2000]), "artifact::too-large");
    assert_eq!(refused(|_, p| launch(p, 1).args[2] = Arg::read(3)), malformed);
    let deep = || (0..40).rev().fold(SizeExpr::symbol(0), |e, i| SizeExpr::symbol(0) * (SizeExpr::constant(i) + e));
    assert_eq!(refused(|_, p| launch(p, 0).chunks = deep()), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).step_chunks = Some(deep())), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).step_chunks = Some(SizeExpr::symbol(9))), malformed);
    assert_eq!(refused(|_, p| launch(p, 0).step_chunks = Some(SizeExpr::constant(2))), "accepted");
    // A memory plan.
    let plan = |offset, arena_bytes| {
        move |e: &mut Entry, p: &mut Program| {
            for port in e.inputs.iter_mut().chain(&mut e.outputs) {
                port.shape[0] = SizeExpr::constant(4);
            }
            e.symbols.clear();
            e.bindings.clear();
            arena(p).size_bytes = SizeExpr::constant(16);
            for step in 0..2 {
                launch(p, step).chunks = SizeExpr::constant(4);
            }
            p.static_plan = Some(MemoryPlan { arena_bytes, offsets: vec![None, None, offset, None] });
        }
    };
    assert_eq!(refused(plan(Some(64), 80)), "accepted");
    assert_eq!(refused(plan(Some(64), 79)), malformed);
    assert_eq!(refused(plan(Some(32), 80)), malformed);
    assert_eq!(refused(plan(Some(u64::MAX - 63), 80)), malformed);
    assert_eq!(refused(plan(None, 80)), malformed);
    assert_eq!(refused(|_, p| p.static_plan = Some(MemoryPlan::default())), malformed);
}

#[test]
fn manifests_that_do_not_fit_the_file() {
    let parts = sections(&support::sample().to_vec().unwrap());
    let with = |change: &dyn Fn(&mut Manifest)| {
        let mut parts = parts.clone();
        let mut manifest: Manifest = postcard::from_bytes(&parts[0].3).unwrap();
        change(&mut manifest);
        parts[0].3 = postcard::to_allocvec(&manifest).unwrap();
        match read_all(&assemble(&parts)) {
            Ok(()) => "accepted",
            Err(error) => error.code(),
        }
    };
    assert_eq!(with(&|_| ()), "accepted");
    assert_eq!(with(&|m| m.entries.clear()), "artifact::malformed");
    assert_eq!(with(&|m| m.entries[1].name = "main".to_owned()), "artifact::malformed");
    assert_eq!(with(&|m| m.variants[0].code_section = 0), "artifact::malformed");
    assert_eq!(with(&|m| m.variants[0].program_section = 77), "artifact::malformed");
    assert_eq!(with(&|m| m.weights[0].encoding = "zstd".to_owned()), "artifact::unknown-encoding");
    assert_eq!(with(&|m| m.weights[0].offset_bytes = u64::MAX - 63), "artifact::malformed");
    assert_eq!(with(&|m| m.weights[0].offset_bytes = 8), "artifact::malformed");
    assert_eq!(with(&|m| m.weights[0].len_bytes += 1), "artifact::malformed");
    assert_eq!(with(&|m| m.weights[0].section = 3), "artifact::malformed");
    assert_eq!(with(&|m| m.weights.clear()), "artifact::malformed");
}
