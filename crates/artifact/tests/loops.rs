//! Loops whose steps an entry computes: carried through a file, and refused where something is not as it has to be.

mod support;

use infc_artifact::{
    Artifact, ArtifactBuilder, Entry, Give, Host, HostArg, HostSlot, LoopBody, PortSpec, Program, SizeExpr, Slot, Step,
    VariantBuilder, features,
};
use infc_tensor::{Attributes, DType, Subgraphs};

fn scalar(name: &str, dtype: DType) -> PortSpec {
    PortSpec::new(name, dtype, Vec::new())
}

fn vector(name: &str) -> PortSpec {
    PortSpec::new(name, DType::F32, vec![SizeExpr::constant(4)])
}

/// A loop with one state, and one value that its steps read from around it.
fn main_program() -> Program {
    let arg = |slot| Some(HostArg { slot, dtype: DType::F32, shape: vec![SizeExpr::constant(4)] });
    let host = Host {
        op_type: "Loop".to_owned(),
        domain: String::new(),
        opset: 18,
        attributes: Attributes::new(),
        graphs: Subgraphs::default(),
        body: Some(LoopBody { entry: 1, captures: vec![3], states: 1, may_fail: false }),
        inputs: vec![None, None, arg(0), arg(1)],
        outputs: vec![Some(2)],
        origins: vec!["loop".to_owned()],
        reason: "its end".to_owned(),
    };
    let made = Slot::Host(HostSlot { dtype: DType::F32, shape: vec![SizeExpr::constant(4)] });
    let slots = vec![Slot::Input(0), Slot::Input(1), made];
    Program { slots, steps: vec![Step::Host(host), Step::Give(Give { slot: 2, output: 0 })], static_plan: None }
}

fn entries() -> [Entry; 2] {
    let of = |name: &str, inputs, outputs| Entry { name: name.to_owned(), inputs, outputs, ..support::main_entry() };
    let before = vec![scalar("i", DType::I64), scalar("on", DType::Bool), vector("state"), vector("c")];
    [
        of("main", vec![vector("x"), vector("c")], vec![vector("y")]),
        of("main.loop0", before, vec![scalar("more", DType::Bool), vector("next")]),
    ]
}

fn written(entries: [Entry; 2], program: Program) -> Result<Vec<u8>, &'static str> {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    let mut variant = VariantBuilder::new("x86-64", &features::required_by("x86-64").unwrap());
    let outputs = entries[1].outputs.len();
    for entry in entries {
        artifact.entry(entry);
    }
    variant.program(program);
    // What a step is given, it gives back.
    let gives = [0, 1].map(|n| Step::Give(Give { slot: n, output: n }));
    let slots = vec![Slot::Input(1), Slot::Input(2)];
    variant.program(Program { slots, steps: gives[..outputs].to_vec(), static_plan: None });
    artifact.variant(variant);
    artifact.finish().map_err(|error| error.code()).map(|artifact| artifact.to_vec().unwrap())
}

#[test]
fn loops_are_read_as_they_were_written() {
    let bytes = written(entries(), main_program()).unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    artifact.verify_all().unwrap();
    assert_eq!(artifact.variant(0).unwrap().programs[0], main_program());
}

#[test]
fn loops_that_do_not_fit_their_entries_are_refused() {
    let refused = |change: &dyn Fn(&mut [Entry; 2], &mut Host)| {
        let (mut entries, mut program) = (entries(), main_program());
        let Step::Host(host) = &mut program.steps[0] else { panic!("a loop") };
        change(&mut entries, host);
        written(entries, program).err().unwrap_or("accepted")
    };
    let malformed = "artifact::malformed";
    assert_eq!(refused(&|_, _| ()), "accepted");
    let of = |change: &dyn Fn(&mut LoopBody)| refused(&|_, host| change(host.body.as_mut().unwrap()));
    // An entry that runs itself would never end.
    assert_eq!(of(&|body| body.entry = 0), malformed);
    assert_eq!(of(&|body| body.entry = 2), malformed);
    assert_eq!(of(&|body| body.captures.clear()), malformed);
    assert_eq!(of(&|body| body.captures[0] = 2), malformed);
    assert_eq!(of(&|body| body.captures[0] = 4), malformed);
    assert_eq!(of(&|body| body.states = 2), malformed);
    assert_eq!(of(&|body| body.states = u32::MAX), malformed);
    // There is no graph to evaluate.
    assert_eq!(of(&|body| body.may_fail = true), malformed);
    assert_eq!(refused(&|_, host| host.op_type = "Scan".to_owned()), malformed);
    assert_eq!(refused(&|_, host| host.domain = "my.domain".to_owned()), malformed);
    assert_eq!(refused(&|_, host| host.inputs[2] = None), malformed);
    assert_eq!(refused(&|_, host| host.inputs[3] = None), malformed);
    assert_eq!(refused(&|entries, _| entries[1].inputs.push(vector("more"))), malformed);
    assert_eq!(refused(&|entries, _| drop(entries[1].outputs.pop())), malformed);
    assert_eq!(refused(&|entries, _| entries[1].inputs[0].dtype = DType::I32), malformed);
    assert_eq!(refused(&|entries, _| entries[1].inputs[1].dtype = DType::U8), malformed);
    assert_eq!(refused(&|entries, _| entries[1].outputs[0].dtype = DType::U8), malformed);
}

/// Each loop is a run within a run, of which a file may not ask for any number.
#[test]
fn loops_within_loops_have_an_end() {
    let chain = |loops: usize| {
        let [main, body] = entries();
        let ports = |name: usize| Entry { name: format!("main.loop{name}"), ..body.clone() };
        let mut artifact = ArtifactBuilder::new(support::provenance());
        let mut variant = VariantBuilder::new("x86-64", &features::required_by("x86-64").unwrap());
        artifact.entry(main);
        variant.program(main_program());
        for n in 0..loops {
            artifact.entry(ports(n));
            let mut program = main_program();
            program.slots = vec![Slot::Input(2), Slot::Input(3), program.slots[2].clone(), Slot::Input(1)];
            let Step::Host(host) = &mut program.steps[0] else { panic!("a loop") };
            host.body.as_mut().unwrap().entry = n as u32 + 2;
            if n + 1 == loops {
                host.body = None;
                host.op_type = "Identity".to_owned();
                host.inputs.drain(..2);
            }
            let gives = [(3, 0), (2, 1)].map(|(slot, output)| Step::Give(Give { slot, output }));
            program.steps = [vec![program.steps.remove(0)], gives.to_vec()].concat();
            variant.program(program);
        }
        artifact.variant(variant);
        artifact.finish().map_err(|error| error.to_string()).map(drop)
    };
    assert_eq!(chain(1), Ok(()));
    assert_eq!(chain(16), Ok(()));
    let error = chain(17).expect_err("too many");
    assert!(error.contains("loops within loops"), "{error}");
}
