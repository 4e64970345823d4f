//! Which copies a Program for a GPU makes between the host and the device, and how many bytes each is.

mod support;

use infc_artifact::{
    Append, ArenaSlot, Bind, BindFrom, BindSymbol, Copy, Entry, Give, Host, HostArg, HostSlot, If, Program, Residency,
    Side, SizeExpr, Slot, StatePair, Step, crossings,
};
use infc_tensor::{Attributes, DType};
use std::convert::Infallible;

const HOST: Side = Side::Host;
const DEVICE: Side = Side::Device;

/// Two inputs and an output of `N` floats.
fn entry() -> Entry {
    support::pair_entry()
}

fn bytes(floats: i64) -> SizeExpr {
    SizeExpr::constant(4) * SizeExpr::symbol(0) * SizeExpr::constant(floats)
}

/// Slots 0 and 1 are inputs, 2 is a weight, 3 and 4 lie in the arena, 5 is what the host makes, 6 is the output.
fn program(steps: Vec<Step>) -> Program {
    let arena = |floats| {
        let size_bytes = bytes(floats);
        Slot::Arena(ArenaSlot { size_bytes, first_step: 0, last_step: u32::MAX, alias: None })
    };
    let made = Slot::Host(HostSlot { dtype: DType::I64, shape: vec![SizeExpr::symbol(0), SizeExpr::constant(3)] });
    let slots = vec![Slot::Input(0), Slot::Input(1), Slot::Weight(0), arena(1), arena(2), made, Slot::Output(0)];
    Program { slots, steps, static_plan: None }
}

fn launch(a: u32, b: u32, out: u32) -> Step {
    support::add(a, b, out, SizeExpr::constant(1))
}

fn host(inputs: &[u32], outputs: &[u32]) -> Step {
    let arg = |&slot: &u32| Some(HostArg { slot, dtype: DType::F32, shape: vec![SizeExpr::symbol(0)] });
    Step::Host(Host {
        op_type: "Unique".to_owned(),
        domain: String::new(),
        opset: 17,
        attributes: Attributes::default(),
        graphs: Default::default(),
        body: None,
        inputs: inputs.iter().map(arg).collect(),
        outputs: outputs.iter().copied().map(Some).collect(),
        origins: Vec::new(),
        reason: String::new(),
    })
}

/// The copies as `(step, slot, side)`.
fn copies(program: &Program) -> Vec<(usize, usize, Side)> {
    crossings(&entry(), program).iter().map(|c| (c.step, c.slot, c.to)).collect()
}

fn note(found: &mut Vec<(usize, usize, Side)>, copy: (usize, usize, Side)) -> Result<(), Infallible> {
    found.push(copy);
    Ok(())
}

/// The same, as the runtime finds them step by step, which takes one way at each choice.
fn copies_of_run(program: &Program, takes: bool) -> Vec<(usize, usize, Side)> {
    let mut found = Vec::new();
    let mut residency = Residency::default();
    residency.begin(program);
    let mut skipped = 0..0;
    for (index, step) in program.steps.iter().enumerate() {
        if skipped.contains(&index) {
            continue;
        }
        let _ = residency.before(step, |slot, to| note(&mut found, (index, slot, to)));
        residency.after(step);
        if let Step::If(If { then_steps, else_steps, .. }) = step {
            let middle = index + 1 + *then_steps as usize;
            skipped = if takes { middle..middle + *else_steps as usize } else { index + 1..middle };
        }
    }
    let end = program.steps.len();
    let _ = residency.end(program, |slot, to| note(&mut found, (end, slot, to)));
    found
}

#[track_caller]
fn check(steps: Vec<Step>, expected: &[(usize, usize, Side)]) {
    let program = program(steps);
    assert_eq!(copies(&program), expected);
    assert_eq!(copies_of_run(&program, true), expected);
}

#[test]
fn kernels_alone_copy_inputs_and_outputs() {
    check(vec![launch(0, 1, 3), launch(3, 2, 6)], &[(0, 0, DEVICE), (0, 1, DEVICE), (2, 6, HOST)]);
    // An input is brought once, however often it is read, and one that nobody reads stays.
    check(vec![launch(0, 0, 3), launch(3, 0, 6)], &[(0, 0, DEVICE), (2, 6, HOST)]);
    // Weights are there. What is written is not brought before.
    check(vec![launch(2, 2, 6)], &[(1, 6, HOST)]);
}

#[test]
fn each_side_reads_its_own_copy() {
    // The host reads what a kernel has written, a kernel what the host has; both read the input.
    check(
        vec![launch(0, 2, 3), host(&[3, 0], &[5]), launch(5, 3, 6)],
        &[(0, 0, DEVICE), (1, 3, HOST), (2, 5, DEVICE), (3, 6, HOST)],
    );
    // What is written again is brought again.
    check(
        vec![launch(0, 2, 3), host(&[3], &[5]), launch(0, 2, 3), host(&[3], &[5]), launch(5, 2, 6)],
        &[(0, 0, DEVICE), (1, 3, HOST), (3, 3, HOST), (4, 5, DEVICE), (5, 6, HOST)],
    );
    // What the host alone touches crosses never; an output that it makes is there.
    check(vec![host(&[0], &[5]), host(&[5, 1], &[6])], &[]);
    // A part of an output from the host, the rest of it from a kernel: the part is brought over before.
    let copy = Step::Copy(Copy { src: 3, dst: 6, size_bytes: SizeExpr::constant(8) });
    check(
        vec![host(&[0], &[6]), launch(0, 1, 3), copy],
        &[(1, 0, DEVICE), (1, 1, DEVICE), (2, 6, DEVICE), (3, 6, HOST)],
    );
}

#[test]
fn shapes_are_no_contents_and_given_outputs_are() {
    let bind = Step::Bind(Bind { symbols: vec![BindSymbol { symbol: 1, from: BindFrom::Axis { slot: 3, axis: 0 } }] });
    check(vec![launch(0, 2, 3), bind, launch(3, 2, 6)], &[(0, 0, DEVICE), (3, 6, HOST)]);
    let give = Step::Give(Give { slot: 3, output: 0 });
    check(vec![launch(0, 2, 3), give], &[(0, 0, DEVICE), (1, 3, HOST)]);
}

/// The way that is taken decides at a run; beforehand both are walked, and what one of them leaves on either side is taken
/// to be where both have it.
#[test]
fn choices() {
    let choice = |then_steps, else_steps| Step::If(If { condition: 3, then_steps, else_steps });
    // Both ways leave slot 4 on the device; the condition is read on the host.
    let same = program(vec![launch(0, 2, 3), choice(1, 1), launch(0, 2, 4), launch(3, 2, 4), launch(4, 4, 6)]);
    let expected = [(0, 0, DEVICE), (1, 3, HOST), (5, 6, HOST)];
    assert_eq!(copies(&same), expected);
    assert_eq!(copies_of_run(&same, true), expected);
    assert_eq!(copies_of_run(&same, false), expected);
    // A way brings an input to the device; behind the choice it may not be there.
    let one = program(vec![launch(0, 2, 3), choice(1, 0), launch(1, 2, 4), launch(1, 3, 6)]);
    assert_eq!(copies(&one), [(0, 0, DEVICE), (1, 3, HOST), (2, 1, DEVICE), (3, 1, DEVICE), (4, 6, HOST)]);
    assert_eq!(copies_of_run(&one, true), [(0, 0, DEVICE), (1, 3, HOST), (2, 1, DEVICE), (4, 6, HOST)]);
    assert_eq!(copies_of_run(&one, false), [(0, 0, DEVICE), (1, 3, HOST), (3, 1, DEVICE), (4, 6, HOST)]);
    // One way ends on the host, the other on the device: only one of the two crosses, which one is not known.
    let apart = program(vec![launch(0, 2, 3), choice(1, 1), host(&[0], &[5]), launch(0, 2, 5), launch(5, 2, 6)]);
    assert_eq!(copies(&apart), [(0, 0, DEVICE), (1, 3, HOST), (4, 5, DEVICE), (5, 6, HOST)]);
    assert_eq!(copies_of_run(&apart, false), [(0, 0, DEVICE), (1, 3, HOST), (5, 6, HOST)]);
}

#[test]
fn where_contents_are() {
    let program = program(vec![launch(0, 2, 3)]);
    let mut residency = Residency::default();
    residency.begin(&program);
    let on = |residency: &Residency, slot| (residency.is_on(slot, HOST), residency.is_on(slot, DEVICE));
    assert_eq!(
        [0, 2, 3, 9].map(|slot| on(&residency, slot)),
        [(true, false), (true, true), (false, false), (false, false)]
    );
    let _ = residency.before(&program.steps[0], |_, _| Ok::<_, Infallible>(()));
    residency.after(&program.steps[0]);
    assert_eq!([0, 2, 3].map(|slot| on(&residency, slot)), [(true, true), (true, true), (false, true)]);
    residency.note(3, HOST);
    assert_eq!(on(&residency, 3), (true, true));
    // A copy that fails is asked for again, since the run ends with it and begins anew.
    residency.begin(&program);
    assert_eq!(residency.before(&program.steps[0], |slot, _| Err(slot)), Err(0));
    residency.begin(&program);
    assert_eq!(residency.before(&program.steps[0], |slot, _| Err(slot)), Err(0));
}

/// Ports that several slots name, and copies of one slot, have one size between them; each slot of another kind its own.
#[test]
fn sizes() {
    let mut program =
        program(vec![launch(0, 7, 3), host(&[3], &[5]), launch(5, 4, 6), host(&[6], &[5]), launch(5, 8, 6)]);
    // Two more slots for the first input, of which nothing else is known.
    program.slots.extend([Slot::Input(0), Slot::Input(9)]);
    let found = crossings(&entry(), &program);
    let size = |step, slot| {
        let one = found.iter().find(|c| (c.step, c.slot) == (step, slot));
        &one.unwrap_or_else(|| panic!("step {step}, slot {slot}: {found:?}")).size_bytes
    };
    let of = |size: &SizeExpr| size.eval(&[5]).expect("known");
    assert_eq!(of(size(0, 0)), 20);
    assert!(std::sync::Arc::ptr_eq(size(0, 0), size(0, 7)), "both are the first input");
    assert_eq!((of(size(1, 3)), of(size(2, 5)), of(size(5, 6))), (20, 5 * 3 * 8, 20));
    assert!(std::sync::Arc::ptr_eq(size(2, 5), size(4, 5)), "one slot twice");
    assert_eq!(of(size(4, 8)), 0, "a port that the entry lacks");
    let ports: Vec<_> = found.iter().filter(|c| c.is_port(&entry(), &program)).map(|c| (c.step, c.slot)).collect();
    assert_eq!(ports, [(0, 0), (0, 7), (4, 8), (5, 6)], "the output that the host reads in between is no port");
}

/// One memory for an input and an output: all of it goes to the device before the first step, and back at the end.
#[test]
fn states_that_grow_in_place() {
    let append = Some(Append { axis: 0, capacity: 100 });
    let entry = Entry { state: vec![StatePair { output: 0, input: 1, append }], ..entry() };
    // The old part is read, the new one written.
    let program = program(vec![launch(0, 1, 3), launch(3, 3, 6)]);
    let found = crossings(&entry, &program);
    let told: Vec<_> = found
        .iter()
        .map(|c| (c.step, c.slot, c.to, c.size_bytes.eval(&[5]).expect("known"), c.is_port(&entry, &program)))
        .collect();
    assert_eq!(told, [(0, 1, DEVICE, 400, false), (0, 0, DEVICE, 20, true), (2, 6, HOST, 400, false)]);
    // A state that is exchanged after a run is ports like others.
    let exchanged = Entry { state: vec![StatePair { output: 0, input: 1, append: None }], ..entry };
    let found = crossings(&exchanged, &program);
    assert!(found.iter().all(|c| c.is_port(&exchanged, &program) && c.size_bytes.eval(&[5]) == Ok(20)), "{found:?}");
}
