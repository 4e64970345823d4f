//! What must hold between the parts of an artifact, checked before it is written and after it is read.
//!
//! A value that passes here can be interpreted without further index checks: every id refers to something of the right
//! kind, every symbol is bound, every range lies inside its section, every slot is only touched while it lives, and
//! nothing writes to an input or a weight.

mod device;
mod loops;

use crate::container::{Section, SectionKind};
use crate::{
    ArtifactError, BindFrom, BindingSource, Entry, Manifest, MemoryPlan, Program, Segments, SizeExpr, SizeOp, Slot,
    Step, VariantBody, features,
};
use infc_tensor::{DType, DTypeClass};
use std::collections::BTreeSet;

/// Entries, variants, inputs or outputs.
const MAX_FEW: usize = 4096;
/// Slots or steps of a Program, weights, kernels. Planning takes quadratic time in the worst case.
const MAX_MANY: usize = 1 << 16;
/// Axes of a tensor; symbols of an entry.
const MAX_RANK: usize = 64;
/// Choices inside of choices.
const MAX_NESTED: usize = 64;
/// Words of a kernel's argument block.
const MAX_WORDS: usize = 1024;

type Checked = Result<(), ArtifactError>;

/// `Ok` if `holds`; else an error made of the three texts.
fn ensure(
    holds: bool,
    what: impl FnOnce() -> String,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> Checked {
    if holds { Ok(()) } else { Err(ArtifactError::malformed(what(), expected, found)) }
}

fn limit(what: &str, found: usize, limit: usize) -> Checked {
    if found <= limit {
        return Ok(());
    }
    Err(ArtifactError::TooLarge { what: what.to_owned(), limit: limit as u64, found: found as u64 })
}

/// The element `index` of a list, or an error that names the list.
fn lookup<T>(list: &[T], index: u32, what: impl FnOnce() -> String) -> Result<&T, ArtifactError> {
    list.get(index as usize).ok_or_else(|| ArtifactError::malformed(what(), format!("below {}", list.len()), index))
}

/// Checks the manifest against the sections it refers to.
pub(crate) fn manifest(manifest: &Manifest, sections: &[Section]) -> Checked {
    limit("entries", manifest.entries.len(), MAX_FEW)?;
    limit("variants", manifest.variants.len(), MAX_FEW)?;
    limit("weights", manifest.weights.len(), MAX_MANY)?;
    ensure(!manifest.entries.is_empty(), || "entries".into(), "at least one", 0)?;
    let mut names = BTreeSet::new();
    for e in &manifest.entries {
        ensure(names.insert(&e.name), || "entry names".into(), "distinct names", format!("`{}` twice", e.name))?;
        entry(e)?;
    }
    manifest.entries.iter().enumerate().try_for_each(|(index, e)| special_case(index, e, &manifest.entries))?;
    for variant in &manifest.variants {
        let of_kind = |index: u32, kind: SectionKind| {
            let found = sections.get(index as usize).map(|s| s.kind);
            ensure(
                found == Some(kind),
                || format!("a section of variant `{}`", variant.target),
                format!("a {} section", kind.name().unwrap_or("known")),
                format!("section {index}"),
            )
        };
        of_kind(variant.program_section, SectionKind::PROGRAM)?;
        of_kind(variant.code_section, code_kind(&variant.target))?;
    }
    manifest.weights.iter().try_for_each(|record| weight(record, sections))
}

/// The kind of section that the code of a target is in.
pub(crate) fn code_kind(target: &str) -> SectionKind {
    if features::arch_of(target) == Some("cuda") { SectionKind::PTX } else { SectionKind::CODE }
}

fn weight(record: &crate::WeightRecord, sections: &[Section]) -> Checked {
    let what = || format!("weight `{}`", record.name);
    if record.encoding != "raw" {
        let (weight, encoding) = (record.name.clone(), record.encoding.clone());
        return Err(ArtifactError::UnknownEncoding { weight, encoding });
    }
    limit("axes of a weight", record.shape.len(), MAX_RANK)?;
    ensure(record.dtype.has_bytes(), what, "numbers", record.dtype)?;
    ensure(record.offset_bytes.is_multiple_of(64), what, "an offset that is a multiple of 64", record.offset_bytes)?;
    let section = lookup(sections, record.section, || format!("the section of weight `{}`", record.name))?;
    ensure(section.kind == SectionKind::WEIGHTS, what, "a weights section", format!("section {}", record.section))?;
    let end = record.offset_bytes.checked_add(record.len_bytes);
    ensure(
        end.is_some_and(|end| end <= section.range.len() as u64),
        what,
        format!("a range within the {} bytes of its section", section.range.len()),
        format!("{} bytes from {}", record.len_bytes, record.offset_bytes),
    )
}

/// Checks one entry by itself.
fn entry(entry: &Entry) -> Checked {
    let what = |part: &str| format!("{part} of entry `{}`", entry.name);
    limit("inputs of an entry", entry.inputs.len(), MAX_FEW)?;
    limit("outputs of an entry", entry.outputs.len(), MAX_FEW)?;
    limit("symbols of an entry", entry.symbols.len(), MAX_FEW)?;
    for symbol in &entry.symbols {
        let sane = symbol.max.is_none_or(|max| max >= symbol.min);
        let range = format!("{}..={:?}", symbol.min, symbol.max);
        ensure(sane, || what(&format!("the range of symbol `{}`", symbol.name)), "min <= max", range)?;
    }
    for (kind, ports) in [("input", &entry.inputs), ("output", &entry.outputs)] {
        let mut names = BTreeSet::new();
        for port in ports {
            let name = || what(&format!("{kind} `{}`", port.name));
            ensure(names.insert(&port.name), name, "a name of its own", "the same name twice")?;
            limit("axes of an input or output", port.shape.len(), MAX_RANK)?;
            port.shape.iter().try_for_each(|dim| expr(dim, entry, "a dim"))?;
            let is_one_value =
                port.dtype == DType::Sequence && matches!(&port.shape[..], [one] if one.as_const() == Some(1));
            let of_any_rank = port.unranked.is_none_or(|of| of.class() != DTypeClass::Value && is_one_value);
            ensure(of_any_rank, name, "a sequence of one tensor", port.type_text(&[]))?;
        }
    }
    let mut bound = vec![false; entry.symbols.len()];
    // Symbols without a binding are bound by steps.
    let is_late = |s: u32| !entry.bindings.iter().any(|binding| binding.symbol == s);
    for binding in &entry.bindings {
        let symbol = lookup(&entry.symbols, binding.symbol, || what("the symbol of a binding"))?;
        match &binding.source {
            BindingSource::Axis { input, axis } => {
                let input = lookup(&entry.inputs, *input, || what("the input of a binding"))?;
                lookup(&input.shape, *axis, || what("the axis of a binding"))?;
                ensure(
                    input.unranked.is_none(),
                    || what("the input of a binding"),
                    "known axes",
                    input.type_text(&[]),
                )?;
                let range = || what(&format!("the range of symbol `{}`", symbol.name));
                ensure(symbol.min >= 0, range, "a dim that is not negative", symbol.min)?;
            }
            BindingSource::Element { input, .. } | BindingSource::Nearest { input, .. } => {
                let input = lookup(&entry.inputs, *input, || what("the input of a binding"))?;
                let sized = input.dtype.size_bytes().is_some();
                ensure(sized, || what("the input of a binding"), "numbers of whole bytes", input.dtype)?;
            }
            BindingSource::State { input, axis, begin: value } => {
                let state = lookup(&entry.inputs, *input, || what("the input of a binding"))?;
                lookup(&state.shape, *axis, || what("the axis of a binding"))?;
                let is_state = entry.state_of_input(*input as usize).is_some();
                ensure(is_state, || what("a binding"), "an input that is a state", format!("input {input}"))?;
                expr(value, entry, "a binding")?;
                let early = value.ops().iter().all(|op| !matches!(op, SizeOp::Symbol(s) if !bound[*s as usize]));
                ensure(early, || what("a binding"), "symbols that are bound before", value)?;
            }
            BindingSource::Computed(value) => {
                expr(value, entry, "a binding")?;
                let early = value
                    .ops()
                    .iter()
                    .all(|op| !matches!(op, SizeOp::Symbol(s) if !bound[*s as usize] && !is_late(*s)));
                ensure(early, || what("a binding"), "symbols that are bound before", value)?;
            }
        }
        let first = !std::mem::replace(&mut bound[binding.symbol as usize], true);
        ensure(first, || what("bindings"), "one per symbol", format!("two of s{}", binding.symbol))?;
    }
    limit("assumptions of an entry", entry.assumptions.len(), MAX_MANY)?;
    for assumption in &entry.assumptions {
        expr(&assumption.left, entry, "an assumption")?;
        expr(&assumption.right, entry, "an assumption")?;
    }
    slices(entry)?;
    states(entry)
}

/// Checks that an entry can be run in slices, if it says so: inputs and outputs have the points along their first axes or not at
/// all, nothing is asked of how many there are, and nothing is carried from run to run.
fn slices(entry: &Entry) -> Checked {
    let Some(symbol) = entry.slices else { return Ok(()) };
    let what = |part: &str| format!("{part} of entry `{}`, which may be run in slices", entry.name);
    let batch = lookup(&entry.symbols, symbol, || what("the symbol"))?;
    let uses = |size: &SizeExpr| size.ops().iter().any(|op| matches!(op, SizeOp::Symbol(s) if *s == symbol));
    ensure(batch.min <= 1, || what("the range of the symbol"), "one that 1 is in", batch.min)?;
    ensure(entry.state.is_empty(), || what("states"), "none", entry.state.len())?;
    for (is_output, port) in entry.inputs.iter().map(|p| (false, p)).chain(entry.outputs.iter().map(|p| (true, p))) {
        let first = port.shape.first().and_then(SizeExpr::as_symbol) == Some(symbol);
        let others = port.shape.iter().skip(usize::from(first)).any(uses);
        let fits = !others && (first || !is_output) && port.dtype.size_bytes().is_some();
        ensure(fits, || what(&format!("port `{}`", port.name)), "points along the first axis", port.type_text(&[]))?;
    }
    let first = |b: &crate::Binding| match &b.source {
        BindingSource::Axis { axis, .. } => b.symbol != symbol || *axis == 0,
        BindingSource::Computed(value) => b.symbol != symbol && !uses(value),
        _ => b.symbol != symbol,
    };
    ensure(entry.bindings.iter().all(first), || what("bindings"), "the symbol only as a first extent", "others")?;
    let asked = entry.assumptions.iter().any(|a| uses(&a.left) || uses(&a.right));
    ensure(!asked, || what("assumptions"), "none of the symbol", "one")
}

/// Checks that an entry is a special case of another one, if it says so: whoever runs that one can run this one.
fn special_case(index: usize, entry: &Entry, entries: &[Entry]) -> Checked {
    let Some(case) = &entry.specializes else { return Ok(()) };
    let what = |part: &str| format!("{part} of entry `{}`, a special case", entry.name);
    let general = lookup(entries, case.general, || what("the general entry"))?;
    let apart = case.general as usize != index && general.specializes.is_none();
    ensure(apart, || what("the general entry"), "one that is no special case", format!("`{}`", general.name))?;
    // A run begins anew with what takes less for granted, and a state may have changed by then.
    let may_begin_anew = !case.takes_less() || general.state.is_empty();
    ensure(may_begin_anew, || what("the general entry"), "one without states", format!("`{}`", general.name))?;
    let ascend = case.fixed.windows(2).all(|pair| pair[0].symbol < pair[1].symbol);
    ensure(ascend, || what("values"), "symbols that ascend", "others")?;
    for fixed in &case.fixed {
        let symbol = lookup(&general.symbols, fixed.symbol, || what("the symbol of a value"))?;
        let in_range = fixed.value >= symbol.min && symbol.max.is_none_or(|max| fixed.value <= max);
        ensure(in_range, || what(&format!("the value of symbol `{}`", symbol.name)), "one in its range", fixed.value)?;
        let of_input = |b: &crate::Binding| {
            b.symbol == fixed.symbol && matches!(b.source, BindingSource::Axis { .. } | BindingSource::State { .. })
        };
        let is_extent = general.bindings.iter().any(of_input);
        ensure(is_extent, || what("the symbol of a value"), "an extent of an input", format!("`{}`", symbol.name))?;
    }
    // How many axes an output has may follow from the values: a `Squeeze` leaves no axis of extent 1.
    let ports =
        [("inputs", &entry.inputs, &general.inputs, true), ("outputs", &entry.outputs, &general.outputs, false)];
    for (kind, own, others, ranks) in ports {
        let same = |(a, b): (&crate::PortSpec, &crate::PortSpec)| {
            a.name == b.name
                && a.dtype == b.dtype
                && a.unranked == b.unranked
                && (!ranks || a.shape.len() == b.shape.len())
        };
        let all = own.len() == others.len() && own.iter().zip(others).all(same);
        let expected = format!("those of `{}`, but for {}", general.name, if ranks { "extents" } else { "shapes" });
        ensure(all, || what(kind), expected, "others")?;
    }
    let pairs = |entry: &Entry| entry.state.iter().map(|pair| (pair.output, pair.input)).collect::<Vec<_>>();
    let same = pairs(entry) == pairs(general);
    ensure(same, || what("states"), format!("those of `{}`", general.name), "others")
}

/// Checks the pairs of outputs and inputs that are carried from run to run.
fn states(entry: &Entry) -> Checked {
    let what = |part: &str| format!("{part} of entry `{}`", entry.name);
    let (mut outputs, mut inputs) = (BTreeSet::new(), BTreeSet::new());
    for pair in &entry.state {
        let output = lookup(&entry.outputs, pair.output, || what("the output of a state pair"))?;
        let input = lookup(&entry.inputs, pair.input, || what("the input of a state pair"))?;
        let found = || format!("{} and {}", output.type_text(&[]), input.type_text(&[]));
        let same = output.dtype == input.dtype && output.shape.len() == input.shape.len();
        ensure(same, || what("a state pair"), "one type and rank on both sides", found())?;
        ensure(input.dtype.has_bytes(), || what("a state pair"), "numbers", input.dtype)?;
        let first = outputs.insert(pair.output) && inputs.insert(pair.input);
        let twice = format!("`{}` and `{}`, one of them again", output.name, input.name);
        ensure(first, || what("state pairs"), "outputs and inputs that occur once", twice)?;
        if let Some(append) = pair.append {
            let has_axis = (append.axis as usize) < input.shape.len() && input.dtype.size_bytes().is_some();
            let expected = "an axis, of elements of whole bytes";
            ensure(has_axis, || what("a state that grows"), expected, format!("axis {} of {}", append.axis, found()))?;
        }
    }
    Ok(())
}

/// Checks that an expression is within limits and uses only symbols of `entry`.
fn expr(expr: &SizeExpr, entry: &Entry, what: &str) -> Checked {
    let what = || format!("{what} of entry `{}`", entry.name);
    ensure(expr.is_within_limits(), what, "an expression within the limits of the format", "a deeper or longer one")?;
    let known = expr.max_symbol().is_none_or(|s| (s as usize) < entry.symbols.len());
    ensure(known, what, format!("symbols below s{}", entry.symbols.len()), expr)
}

/// Checks Programs and kernels of a variant against the manifest, and the kind and length of its code.
pub(crate) fn body(body: &VariantBody, manifest: &Manifest, code: SectionKind, code_len: u64) -> Checked {
    let (programs, entries) = (body.programs.len(), manifest.entries.len());
    ensure(programs == entries, || "Programs of a variant".into(), format!("one per entry, {entries}"), programs)?;
    limit("kernels", body.kernels.len(), MAX_MANY)?;
    for kernel in &body.kernels {
        let end = kernel.code_offset.checked_add(kernel.code_len);
        ensure(
            kernel.code_len > 0 && end.is_some_and(|end| end <= code_len),
            || format!("the code of kernel `{}`", kernel.name),
            format!("a non-empty range within {code_len} bytes"),
            format!("{} bytes from {}", kernel.code_len, kernel.code_offset),
        )?;
        device::kernel(kernel, code)?;
    }
    let pairs = body.programs.iter().zip(&manifest.entries);
    loops::programs(&body.programs, manifest)?;
    pairs.into_iter().try_for_each(|(p, entry)| {
        program(p, entry, manifest, body.kernels.len())?;
        device::program(p, entry, code)
    })
}

fn program(program: &Program, entry: &Entry, manifest: &Manifest, kernels: usize) -> Checked {
    let what = |part: &str| format!("{part} of entry `{}`", entry.name);
    limit("slots of a Program", program.slots.len(), MAX_MANY)?;
    limit("steps of a Program", program.steps.len(), MAX_MANY)?;
    for (index, slot) in program.slots.iter().enumerate() {
        let place = || what(&format!("slot {index}"));
        match slot {
            Slot::Input(i) => drop(lookup(&entry.inputs, *i, place)?),
            Slot::Output(i) => {
                let port = lookup(&entry.outputs, *i, place)?;
                // What nobody knows the size of is given when it is there.
                ensure(port.unranked.is_none(), place, "an output of a known size", port.type_text(&[]))?;
            }
            Slot::Weight(i) => drop(lookup(&manifest.weights, *i, place)?),
            Slot::Arena(slot) => {
                expr(&slot.size_bytes, entry, "a slot's size")?;
                let (first, last) = (slot.first_step, slot.last_step);
                let lives = first <= last && (last as usize) < program.steps.len();
                let steps = program.steps.len();
                ensure(lives, place, format!("a lifetime within {steps} steps"), format!("{first}..={last}"))?;
                let earlier = slot.alias.is_none_or(|alias| {
                    (alias as usize) < index && matches!(program.slots[alias as usize], Slot::Arena(_))
                });
                ensure(earlier, place, "an alias of an earlier arena slot", format!("{:?}", slot.alias))?;
            }
            Slot::Host(slot) => {
                limit("axes of what a host step makes", slot.shape.len(), MAX_RANK)?;
                slot.shape.iter().try_for_each(|dim| expr(dim, entry, "a dim"))?;
            }
        }
    }
    nesting(program, entry)?;
    let segments = Segments::new(entry, program);
    bindings(program, entry, &segments)?;
    let mut made = vec![false; program.slots.len()];
    let mut written = vec![false; entry.outputs.len()];
    for (index, step) in program.steps.iter().enumerate() {
        check_step(index, step, program, entry, kernels)?;
        if let Step::Give(give) = step {
            written[give.output as usize] = true;
        }
        for (slot, access) in step.accesses() {
            if let (Slot::Output(i), true) = (&program.slots[slot as usize], access.writes()) {
                written[*i as usize] = true;
            }
            let is_made = matches!((&program.slots[slot as usize], step), (Slot::Host(_), Step::Host(_)));
            if is_made && access.writes() {
                // Each branch of a choice may make what the choice gives.
                made[slot as usize] = true;
            } else if let Slot::Host(_) = &program.slots[slot as usize] {
                let made = made[slot as usize];
                ensure(made, || what(&format!("step {index}")), "a slot that a host step has made", slot)?;
            }
            // Only a bind step may look at what has no size yet.
            let (at, known) = (segments.of_step(index), segments.of_slot[slot as usize]);
            let ready = known <= at || is_made || matches!(step, Step::Bind(_));
            ensure(ready, || what(&format!("step {index}")), "slots whose size is known", format!("slot {slot}"))?;
        }
    }
    if let Some(output) = written.iter().position(|written| !written) {
        let name = &entry.outputs[output].name;
        return Err(ArtifactError::malformed(what("outputs"), "a step that writes each", format!("none for `{name}`")));
    }
    program.static_plan.as_ref().map_or(Ok(()), |plan| static_plan(plan, program, entry))
}

/// Every symbol is bound once, and what is placed in a segment has a size there.
fn bindings(program: &Program, entry: &Entry, segments: &Segments) -> Checked {
    let mut bound = vec![false; entry.symbols.len()];
    let what = || format!("bindings of entry `{}`", entry.name);
    let steps = program.steps.iter().filter_map(|step| if let Step::Bind(bind) = step { Some(bind) } else { None });
    let late = steps.flat_map(|bind| bind.symbols.iter().map(|b| b.symbol));
    for symbol in entry.bindings.iter().map(|b| b.symbol).chain(late) {
        lookup(&entry.symbols, symbol, what)?;
        let first = !std::mem::replace(&mut bound[symbol as usize], true);
        ensure(first, what, "one per symbol", format!("two of s{symbol}"))?;
    }
    if let Some(symbol) = bound.iter().position(|bound| !bound) {
        return Err(ArtifactError::malformed(what(), "one per symbol", format!("none of s{symbol}")));
    }
    for (index, slot) in program.slots.iter().enumerate() {
        let Slot::Arena(arena) = slot else { continue };
        let place = || format!("slot {index} of entry `{}`", entry.name);
        let (own, known) = (segments.of_slot[index], segments.knows(std::slice::from_ref(&arena.size_bytes)));
        ensure(known <= own, place, "a size that is known where it is first touched", &arena.size_bytes)?;
        let same = own == segments.of_step(arena.first_step as usize);
        ensure(same, place, "an alias of a slot of the same segment", format!("{:?}", arena.alias))?;
    }
    let static_only = program.static_plan.is_none() || segments.steps.len() == 1;
    ensure(static_only, what, "no finished memory plan", "one")
}

/// The steps of every choice lie within those of the choice around it.
fn nesting(program: &Program, entry: &Entry) -> Checked {
    // Where the parts that are open end.
    let mut ends: Vec<usize> = vec![program.steps.len()];
    for (index, step) in program.steps.iter().enumerate() {
        while ends.len() > 1 && ends[ends.len() - 1] <= index {
            ends.pop();
        }
        let Step::If(choice) = step else { continue };
        let end = ends[ends.len() - 1];
        let middle = index + 1 + choice.then_steps as usize;
        let last = middle + choice.else_steps as usize;
        let what = || format!("step {index} of entry `{}`", entry.name);
        ensure(last <= end, what, format!("a choice between steps before {end}"), format!("steps up to {last}"))?;
        ends.extend([last, middle]);
        limit("choices inside of choices", ends.len(), 2 * MAX_NESTED)?;
    }
    Ok(())
}

/// Ids, lifetimes and accesses of one step.
fn check_step(index: usize, step: &Step, program: &Program, entry: &Entry, kernels: usize) -> Checked {
    let what = || format!("step {index} of entry `{}`", entry.name);
    match step {
        Step::Launch(launch) => {
            let known = (launch.kernel as usize) < kernels;
            ensure(known, what, format!("a kernel below {kernels}"), launch.kernel)?;
            // The reserved barrier word counts.
            limit("words of a kernel's argument block", launch.args.len() + launch.values.len() + 1, MAX_WORDS)?;
            for arg in &launch.args {
                expr(&arg.offset_bytes, entry, "an argument's offset")?;
            }
            for value in launch.values.iter().chain([&launch.chunks, &launch.scratch_bytes]).chain(&launch.step_chunks)
            {
                expr(value, entry, "a launch")?;
            }
        }
        Step::Copy(copy) => expr(&copy.size_bytes, entry, "a copy's size")?,
        Step::If(_) => {}
        Step::Require(require) => {
            expr(&require.left, entry, "a requirement")?;
            expr(&require.right, entry, "a requirement")?;
        }
        Step::Bind(bind) => {
            limit("symbols of a step", bind.symbols.len(), MAX_FEW)?;
            for bound in &bind.symbols {
                let BindFrom::Axis { slot, axis } = bound.from;
                let found = lookup(&program.slots, slot, what)?;
                let has_axis = matches!(found, Slot::Host(slot) if (axis as usize) < slot.shape.len());
                ensure(has_axis, what, "an axis of what a host step makes", format!("axis {axis} of slot {slot}"))?;
            }
        }
        Step::Give(give) => {
            lookup(&entry.outputs, give.output, what)?;
            let has_value = matches!(lookup(&program.slots, give.slot, what)?, Slot::Host(_) | Slot::Input(_));
            ensure(has_value, what, "an input, or what a host step makes", format!("slot {}", give.slot))?;
        }
        Step::Host(host) => {
            if let Some(problem) = host.graphs.problem() {
                ensure(false, what, "graphs in order", problem)?;
            }
            limit("operands of a host step", host.inputs.len() + host.outputs.len(), MAX_FEW)?;
            for arg in host.inputs.iter().flatten() {
                limit("axes of an operand", arg.shape.len(), MAX_RANK)?;
                arg.shape.iter().try_for_each(|dim| expr(dim, entry, "an operand"))?;
            }
            for &slot in host.outputs.iter().flatten() {
                let is_host = matches!(lookup(&program.slots, slot, what)?, Slot::Host(_));
                ensure(is_host, what, "results in slots for host steps", format!("slot {slot}"))?;
            }
        }
    }
    for (id, access) in step.accesses() {
        match lookup(&program.slots, id, what)? {
            Slot::Arena(slot) => {
                let lives = (slot.first_step as usize..=slot.last_step as usize).contains(&index);
                let life = format!("only steps {}..={} to touch slot {id}", slot.first_step, slot.last_step);
                ensure(lives, what, life, format!("step {index}"))?;
            }
            Slot::Output(_) => {}
            Slot::Input(_) | Slot::Weight(_) => {
                ensure(!access.writes(), what, "no writes to inputs and weights", format!("a write to slot {id}"))?;
            }
            Slot::Host(_) => {
                let may = !access.writes() || matches!(step, Step::Host(_));
                ensure(may, what, "no writes but by host steps", format!("a write to slot {id}"))?;
            }
        }
    }
    Ok(())
}

/// A plan from the file must place every arena slot inside the arena. (That live slots do not overlap is the
/// planner's property; the code that uses them is trusted as far as the plan is.)
fn static_plan(plan: &MemoryPlan, program: &Program, entry: &Entry) -> Checked {
    let what = |slot: usize| move || format!("the memory plan of entry `{}`, slot {slot}", entry.name);
    let (slots, planned) = (program.slots.len(), plan.offsets.len());
    ensure(slots == planned, what(0), format!("{slots} offsets"), planned)?;
    for (index, (slot, &offset)) in program.slots.iter().zip(&plan.offsets).enumerate() {
        match (slot, offset) {
            (Slot::Arena(slot), Some(offset)) => {
                let size = slot.size_bytes.as_const().and_then(|size| u64::try_from(size).ok());
                let end = size.and_then(|size| offset.checked_add(size));
                let fits = offset.is_multiple_of(crate::ARENA_ALIGN) && end.is_some_and(|end| end <= plan.arena_bytes);
                let expected = format!("a constant size at an aligned offset within {} bytes", plan.arena_bytes);
                ensure(fits, what(index), expected, format!("{} at {offset}", slot.size_bytes))?;
            }
            (Slot::Arena(_), None) => ensure(false, what(index), "an offset", "none")?,
            (_, Some(_)) => ensure(false, what(index), "no offset outside the arena", "one")?,
            (_, None) => {}
        }
    }
    Ok(())
}
