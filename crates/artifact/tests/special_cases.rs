//! Entries that are special cases of others: carried through a file, and refused if they are not what they say.

mod support;

use infc_artifact::{
    Append, Artifact, ArtifactBuilder, BindingSource, Entry, FixedSymbol, SizeExpr, Specialization, StatePair,
    SymbolSpec, VariantBuilder, features,
};
use infc_tensor::DType;

/// `pair` for `N = 4`.
fn case() -> Entry {
    let fixed = vec![FixedSymbol { symbol: 0, value: 4 }];
    let mut entry = support::pair_entry();
    entry.name = "pair[N=4]".to_owned();
    entry.specializes = Some(Specialization { general: 0, fixed });
    entry
}

fn written(entries: &[Entry]) -> Result<Vec<u8>, &'static str> {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    let bytes: Vec<u8> = [1f32, 2., 3., 4.].into_iter().flat_map(f32::to_le_bytes).collect();
    artifact.weight(support::weight("fc.bias"), bytes);
    let mut variant = VariantBuilder::new("x86-64", &features::required_by("x86-64").unwrap());
    variant.kernel(infc_artifact::KernelInfo { name: "k0_add".to_owned(), ..Default::default() }, &support::ADD);
    for entry in entries {
        artifact.entry(entry.clone());
        variant.program(support::pair_program());
    }
    artifact.variant(variant);
    artifact.finish().map_err(|error| error.code()).map(|artifact| artifact.to_vec().unwrap())
}

#[test]
fn special_cases_are_read_as_they_were_written() {
    let entries = [support::pair_entry(), case()];
    let bytes = written(&entries).unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    artifact.verify_all().unwrap();
    let manifest = artifact.manifest();
    assert_eq!(manifest.entries, entries);
    assert_eq!(manifest.special_cases(0).map(|(index, _)| index).collect::<Vec<_>>(), [1]);
    assert_eq!(manifest.special_cases(1).count(), 0);
    assert_eq!((manifest.special_case_text(0), manifest.special_case_text(1)), (None, Some("N=4".to_owned())));
    let (_, case) = manifest.special_cases(0).next().unwrap();
    assert!(case.fits(&[4]) && !case.fits(&[5]) && !case.fits(&[]));
    // A thin artifact has all entries.
    let thin = artifact.thin("x86-64").unwrap().to_vec().unwrap();
    assert_eq!(Artifact::read(&thin).unwrap().manifest().entries, entries);
}

/// The same model with less taken for granted is for no values, and comes last.
#[test]
fn an_entry_may_take_less_for_granted() {
    let mut less = case();
    less.name = "pair[extents that differ]".to_owned();
    less.specializes = Some(Specialization { general: 0, fixed: Vec::new() });
    let entries = [support::pair_entry(), less.clone()];
    let bytes = written(&entries).unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    assert_eq!(artifact.manifest().entries, entries);
    assert_eq!(artifact.manifest().special_case_text(1).as_deref(), Some("extents that differ"));
    let (_, case) = artifact.manifest().special_cases(0).next().unwrap();
    assert!(case.takes_less() && !case.fits(&[4]) && !case.fits(&[]));
    // A run that begins anew would find states changed.
    let pair = StatePair { output: 0, input: 1, append: None };
    let [mut general, mut special] = entries;
    general.state.push(pair);
    special.state.push(pair);
    assert_eq!(written(&[general, special]).err(), Some("artifact::malformed"));
}

#[test]
fn what_is_no_special_case_is_refused() {
    let refused = |change: &dyn Fn(&mut Entry, &mut Entry)| {
        let (mut general, mut special) = (support::pair_entry(), case());
        change(&mut general, &mut special);
        written(&[general, special]).err().unwrap_or("accepted")
    };
    let fixed = |entry: &mut Entry, change: &dyn Fn(&mut Specialization)| {
        change(entry.specializes.as_mut().unwrap());
    };
    assert_eq!(refused(&|_, _| ()), "accepted");
    let malformed = "artifact::malformed";
    // Of what.
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.general = 1)), malformed);
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.general = 2)), malformed);
    assert_eq!(refused(&|g, _| g.specializes = case().specializes), malformed);
    // Which values.
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.fixed[0].symbol = 1)), malformed);
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.fixed[0].value = 4097)), malformed);
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.fixed[0].value = -1)), malformed);
    assert_eq!(refused(&|_, s| fixed(s, &|case| case.fixed.push(case.fixed[0]))), malformed);
    let element = BindingSource::Element { input: 0, index: 0 };
    assert_eq!(refused(&|g, _| g.bindings[0].source = element.clone()), malformed);
    // Inputs, outputs and states.
    assert_eq!(refused(&|_, s| s.inputs[1].name = "c".to_owned()), malformed);
    assert_eq!(refused(&|_, s| s.inputs[1].dtype = DType::F64), malformed);
    assert_eq!(refused(&|_, s| s.outputs[0].name = "c".to_owned()), malformed);
    assert_eq!(refused(&|_, s| s.inputs[0].shape.push(SizeExpr::constant(1))), malformed);
    // A result may have another number of axes.
    assert_eq!(refused(&|_, s| s.outputs[0].shape.push(SizeExpr::constant(1))), "accepted");
    let pair = StatePair { output: 0, input: 1, append: None };
    assert_eq!(refused(&|g, _| g.state.push(pair)), malformed);
    assert_eq!(refused(&|_, s| s.state.push(pair)), malformed);
    let growing = StatePair { append: Some(Append { axis: 0, capacity: 9 }), ..pair };
    let both = |g: &mut Entry, s: &mut Entry| {
        g.state.push(growing);
        s.state.push(pair);
    };
    assert_eq!(refused(&both), "accepted");
    // Symbols of its own are as they like.
    let more = |_: &mut Entry, s: &mut Entry| s.symbols[0] = SymbolSpec { name: "M".to_owned(), min: 4, max: Some(4) };
    assert_eq!(refused(&more), "accepted");
}

/// An entry that may be run in slices is what slices of inputs and outputs can be made of.
#[test]
fn what_is_no_batch_is_refused() {
    let refused = |change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry { slices: Some(0), ..support::pair_entry() };
        change(&mut entry);
        written(&[entry]).err().unwrap_or("accepted")
    };
    let (n, malformed) = (|| SizeExpr::symbol(0), "artifact::malformed");
    assert_eq!(refused(&|_| ()), "accepted");
    assert_eq!(refused(&|e| e.outputs[0].shape.push(SizeExpr::constant(3))), "accepted");
    assert_eq!(refused(&|e| e.inputs[1].shape[0] = SizeExpr::constant(3)), "accepted");
    assert_eq!(refused(&|e| e.slices = Some(1)), malformed);
    assert_eq!(refused(&|e| e.symbols[0].min = 2), malformed);
    // Points elsewhere.
    assert_eq!(refused(&|e| e.outputs[0].shape = vec![SizeExpr::constant(3), n()]), malformed);
    assert_eq!(refused(&|e| e.outputs[0].shape = vec![n(), n()]), malformed);
    assert_eq!(refused(&|e| e.outputs[0].shape = vec![n() * SizeExpr::constant(2)]), malformed);
    assert_eq!(refused(&|e| e.outputs[0].shape = vec![SizeExpr::constant(3)]), malformed);
    assert_eq!(refused(&|e| e.inputs[1].dtype = DType::String), malformed);
    let along = |axis| BindingSource::Axis { input: 0, axis };
    let beside = |e: &mut Entry| e.inputs[0].shape = vec![SizeExpr::constant(3), n()];
    assert_eq!(refused(&|e| (beside(e), e.bindings[0].source = along(1)).1), malformed);
    // Asked for, or carried.
    let twice = || BindingSource::Computed(n() * SizeExpr::constant(2));
    let second = |e: &mut Entry| {
        e.symbols.push(SymbolSpec { name: "M".to_owned(), min: 0, max: None });
        e.bindings.push(infc_artifact::Binding { symbol: 1, source: twice() });
    };
    assert_eq!(refused(&|e| second(e)), malformed);
    assert_eq!(refused(&|e| e.state.push(StatePair { output: 0, input: 1, append: None })), malformed);
    let assumed = || infc_artifact::Assumption {
        what: "rows".to_owned(),
        left: n(),
        relation: infc_artifact::Relation::AtMost,
        right: SizeExpr::constant(9),
        origins: vec![],
    };
    assert_eq!(refused(&|e| e.assumptions.push(assumed())), malformed);
}
