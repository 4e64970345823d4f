//! Inputs and outputs with as many axes as a run gives them: carried through a file, and refused where something is not as it
//! has to be.

mod support;

use infc_artifact::{
    Artifact, ArtifactBuilder, Binding, BindingSource, Entry, Give, HostSlot, PortSpec, Program, SizeExpr, Slot, Step,
    SymbolSpec, VariantBuilder, features,
};
use infc_tensor::DType;

/// An input, given out as it is.
fn entry() -> Entry {
    let (inputs, outputs) =
        (vec![PortSpec::of_any_rank("x", DType::F32)], vec![PortSpec::of_any_rank("y", DType::F32)]);
    Entry { inputs, outputs, ..support::main_entry() }
}

fn program() -> Program {
    Program { slots: vec![Slot::Input(0)], steps: vec![Step::Give(Give { slot: 0, output: 0 })], static_plan: None }
}

fn written(entry: Entry, program: Program) -> Result<Vec<u8>, &'static str> {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    let mut variant = VariantBuilder::new("x86-64", &features::required_by("x86-64").unwrap());
    artifact.entry(entry);
    variant.program(program);
    artifact.variant(variant);
    artifact.finish().map_err(|error| error.code()).map(|artifact| artifact.to_vec().unwrap())
}

#[test]
fn ports_of_any_rank_are_read_as_they_were_written() {
    let bytes = written(entry(), program()).unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    artifact.verify_all().unwrap();
    assert_eq!(artifact.manifest().entries, [entry()]);
    let port = &artifact.manifest().entries[0].inputs[0];
    assert_eq!((port.type_text(&[]), port.element_type()), ("f32[..]".to_owned(), DType::F32));
}

#[test]
fn ports_that_are_no_sequence_of_one_tensor_are_refused() {
    let refused = |change: &dyn Fn(&mut Entry, &mut Program)| {
        let (mut entry, mut program) = (entry(), program());
        change(&mut entry, &mut program);
        written(entry, program).err().unwrap_or("accepted")
    };
    let malformed = "artifact::malformed";
    assert_eq!(refused(&|_, _| ()), "accepted");
    assert_eq!(refused(&|e, _| e.inputs[0].dtype = DType::F32), malformed);
    assert_eq!(refused(&|e, _| e.inputs[0].shape = vec![SizeExpr::constant(2)]), malformed);
    assert_eq!(refused(&|e, _| e.inputs[0].shape.clear()), malformed);
    assert_eq!(refused(&|e, _| e.outputs[0].unranked = Some(DType::Sequence)), malformed);
    // Nobody knows how many bytes there are.
    assert_eq!(refused(&|_, p| p.slots.push(Slot::Output(0))), malformed);
    assert_eq!(
        refused(&|_, p| p.slots.push(Slot::Host(HostSlot { dtype: DType::F32, shape: Vec::new() }))),
        "accepted"
    );
    // The axis is that of the sequence.
    let bound = |entry: &mut Entry| {
        entry.symbols.push(SymbolSpec { name: "N".to_owned(), min: 0, max: None });
        entry.bindings.push(Binding { symbol: 0, source: BindingSource::Axis { input: 0, axis: 0 } });
    };
    assert_eq!(refused(&|e, _| bound(e)), malformed);
}
