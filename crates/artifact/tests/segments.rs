//! Programs whose sizes are known step by step: what belongs to which segment, and what is refused.

use infc_artifact::{
    ArenaSlot, ArtifactBuilder, ArtifactError, Bind, BindFrom, BindSymbol, Binding, Copy, Entry, Host, HostArg,
    HostSlot, MemoryPlan, PortSpec, Program, Provenance, Segments, SizeExpr, Slot, Step, SymbolSpec, VariantBuilder,
};
use infc_tensor::{Attribute, Attributes, DType, Subgraphs, Tensor};

fn s(symbol: u32) -> SizeExpr {
    SizeExpr::symbol(symbol)
}

fn port(name: &str, dim: SizeExpr) -> PortSpec {
    PortSpec::new(name, DType::I64, vec![dim])
}

/// `x i64[N]` in, `y i64[D]` out; D is produced.
fn entry() -> Entry {
    let symbol = |name: &str| SymbolSpec { name: name.to_owned(), min: 0, max: None };
    Entry {
        name: "main".to_owned(),
        inputs: vec![port("x", s(0))],
        outputs: vec![port("y", s(1))],
        symbols: vec![symbol("N"), symbol("D")],
        bindings: vec![Binding { symbol: 0, source: infc_artifact::BindingSource::Axis { input: 0, axis: 0 } }],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    }
}

fn arena(size: SizeExpr, first_step: u32, last_step: u32, alias: Option<u32>) -> Slot {
    Slot::Arena(ArenaSlot { size_bytes: size * SizeExpr::constant(8), first_step, last_step, alias })
}

fn copy(src: u32, dst: u32, len: SizeExpr) -> Step {
    Step::Copy(Copy { src, dst, size_bytes: len * SizeExpr::constant(8) })
}

fn host(from: u32, len: SizeExpr, to: u32) -> Step {
    Step::Host(Host {
        op_type: "Unique".to_owned(),
        domain: String::new(),
        opset: 11,
        attributes: Attributes::from_iter([("sorted", 0i64)]),
        graphs: Subgraphs::default(),
        body: None,
        inputs: vec![Some(HostArg { slot: from, dtype: DType::I64, shape: vec![len] }), None],
        outputs: vec![Some(to), None],
        origins: vec!["/unique".to_owned()],
        reason: "its size depends on data".to_owned(),
    })
}

fn bind(symbol: u32, slot: u32, axis: u32) -> Step {
    Step::Bind(Bind { symbols: vec![BindSymbol { symbol, from: BindFrom::Axis { slot, axis } }] })
}

/// x → arena → Unique → bind D → arena → y.
fn program() -> Program {
    let slots = vec![
        Slot::Input(0),
        arena(s(0), 0, 1, None),
        Slot::Host(HostSlot { dtype: DType::I64, shape: vec![s(1)] }),
        arena(s(1), 3, 4, None),
        Slot::Output(0),
    ];
    let steps = vec![copy(0, 1, s(0)), host(1, s(0), 2), bind(1, 2, 0), copy(2, 3, s(1)), copy(3, 4, s(1))];
    Program { slots, steps, static_plan: None }
}

fn finish(entry: Entry, program: Program) -> Result<Vec<u8>, ArtifactError> {
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    artifact.entry(entry);
    let mut variant = VariantBuilder::new("x86-64", &[]);
    variant.program(program);
    artifact.variant(variant);
    artifact.finish()?.to_vec()
}

#[test]
fn everything_belongs_to_the_segment_that_knows_its_size() {
    let segments = Segments::new(&entry(), &program());
    assert_eq!(segments.steps, [0..3, 3..5]);
    assert_eq!(segments.of_symbol, [Some(0), Some(1)]);
    assert_eq!(segments.of_slot, [0, 0, 1, 1, 1]);
    assert_eq!(segments.of_output, [1]);
    assert_eq!((segments.of_step(2), segments.of_step(3)), (0, 1));
}

#[test]
fn segments_are_planned_one_by_one() {
    let (program, segments) = (program(), Segments::new(&entry(), &program()));
    let first = MemoryPlan::of_segment(&program, &[100, 0], &segments, 0).unwrap();
    assert_eq!((first.arena_bytes, &first.offsets[..]), (832, &[None, Some(0), None, None, None][..]));
    let second = MemoryPlan::of_segment(&program, &[100, 3], &segments, 1).unwrap();
    assert_eq!((second.arena_bytes, &second.offsets[..]), (64, &[None, None, None, Some(0), None][..]));
}

#[test]
fn host_steps_come_back_from_the_file() {
    let mut program = program();
    if let Step::Host(host) = &mut program.steps[1] {
        for (name, value) in [
            ("a", Attribute::Float(-0.0)),
            ("b", Attribute::Ints(vec![-1, i64::MAX])),
            ("c", Attribute::Tensor(Tensor::from_strings(&[2], vec!["ä".to_owned(), String::new()]).unwrap())),
            ("d", Attribute::Tensors(vec![Tensor::from_elements(&[2, 0], &[0f32; 0]).unwrap()])),
            ("e", Attribute::Strings(vec!["x".to_owned()])),
        ] {
            host.attributes.insert(name, value);
        }
    }
    let bytes = finish(entry(), program.clone()).unwrap();
    let artifact = infc_artifact::Artifact::read(&bytes).unwrap();
    assert_eq!(artifact.variant(0).unwrap().programs, [program]);
}

#[test]
fn what_has_no_size_in_time_is_refused() {
    let code = |change: &dyn Fn(&mut Entry, &mut Program)| {
        let (mut entry, mut program) = (entry(), program());
        change(&mut entry, &mut program);
        finish(entry, program).map(drop).map_err(|error| error.code())
    };
    let refused = Err("artifact::malformed");
    assert_eq!(code(&|_, _| {}), Ok(()));
    // Symbols are bound once, by what has the axis.
    assert_eq!(code(&|_, p| p.steps[2] = bind(0, 2, 0)), refused);
    assert_eq!(code(&|_, p| p.steps[2] = bind(2, 2, 0)), refused);
    assert_eq!(code(&|_, p| p.steps[2] = bind(1, 2, 1)), refused);
    assert_eq!(code(&|_, p| p.steps[2] = bind(1, 1, 0)), refused);
    assert_eq!(code(&|_, p| p.steps[2] = bind(1, 9, 0)), refused);
    assert_eq!(code(&|_, p| p.steps[2] = copy(0, 1, s(0))), refused);
    // Memory whose size is not known when it is first touched.
    assert_eq!(code(&|_, p| p.slots[1] = arena(s(1), 0, 1, None)), refused);
    assert_eq!(code(&|_, p| p.slots[3] = arena(s(1), 3, 4, Some(1))), refused);
    // What a host step makes is neither read before nor written by others.
    assert_eq!(code(&|_, p| p.steps.swap(1, 3)), refused);
    assert_eq!(code(&|_, p| p.steps[0] = copy(2, 1, s(0))), refused);
    assert_eq!(code(&|_, p| p.steps[3] = copy(1, 2, s(0))), refused);
    assert_eq!(code(&|_, p| p.steps[1] = host(0, s(0), 3)), refused);
    assert_eq!(code(&|_, p| p.steps[1] = host(9, s(0), 2)), refused);
    // An output that is written before it has a size.
    assert_eq!(code(&|_, p| p.steps[0] = copy(0, 4, s(0))), refused);
    // Sizes over symbols that do not exist.
    assert_eq!(code(&|_, p| p.slots[2] = Slot::Host(HostSlot { dtype: DType::I64, shape: vec![s(7)] })), refused);
    assert_eq!(code(&|_, p| p.steps[1] = host(1, s(7), 2)), refused);
    let plan = |p: &mut Program| p.static_plan = Some(MemoryPlan { arena_bytes: 0, offsets: vec![None; 5] });
    assert_eq!(code(&|_, p| plan(p)), refused);
}
