//! The report for people.

use super::report::{CrossingReport, KernelReport, ProgramReport, Report, VariantReport, Work};
use crate::console::{Console, Style};
use crate::failure::Failure;
use crate::tables::{Side, bytes, count, few, percent, table};

/// Origins of a kernel that are named in the table.
const ORIGINS_SHOWN: usize = 3;

pub(super) fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let heading = |text: &str| console.line(format!("\n{}", console.paint(Style::Label, text)));
    let verified = if report.verified { ", all hashes are right" } else { "" };
    console.line(format!(
        "{}  {}, format {}, made by infc {}{verified}",
        report.artifact,
        bytes(report.bytes),
        report.format,
        report.provenance.infc_version
    ))?;
    print_entries(report, console)?;
    if !report.custom_ops.is_empty() {
        heading("Custom operators")?;
        for name in &report.custom_ops {
            console.line(format!("  {name}"))?;
        }
    }

    heading("Sections")?;
    let rows = report.sections.iter().map(|section| {
        let target = section.target.clone().unwrap_or_default();
        let share = percent(section.bytes, report.bytes);
        let kind = match &section.generation {
            Some(generation) => format!("{} {generation}", section.kind),
            None => section.kind.clone(),
        };
        vec![section.index.to_string(), kind, target, bytes(section.bytes), share]
    });
    let columns =
        [("#", Side::Right), ("kind", Side::Left), ("target", Side::Left), ("size", Side::Right), ("", Side::Right)];
    console.write(table(&columns, rows).as_bytes())?;

    heading("Variants")?;
    let rows = report.variants.iter().map(|variant| {
        let here = if variant.runs_here { "yes" } else { "no" };
        let code = bytes(variant.code_bytes);
        let Work { all_macs, wide_macs, all_bytes, wide_bytes } = variant.work;
        let (macs, moved) = (percent(wide_macs, all_macs), percent(wide_bytes, all_bytes));
        vec![variant.target.clone(), here.to_owned(), code, macs, moved, variant.required_features.join(" ")]
    });
    let columns = [
        ("target", Side::Left),
        ("runs here", Side::Left),
        ("code", Side::Right),
        ("MACs wide", Side::Right),
        ("bytes wide", Side::Right),
        ("needs", Side::Left),
    ];
    console.write(table(&columns, rows).as_bytes())?;
    if let Some(variant) = &report.variant {
        print_variant(report, variant, console)?;
    }
    print_weights(report, console)?;
    print_provenance(report, console)
}

fn print_entries(report: &Report, console: &Console) -> Result<(), Failure> {
    for entry in &report.entries {
        console.line(format!("\n{}", console.paint(Style::Label, &format!("Entry {}", entry.name))))?;
        if let Some(case) = &entry.special_case {
            let values: Vec<String> = case.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            console.line(format!("  taken by runs with {}", values.join(", ")))?;
        }
        for (word, ports) in [("in", &entry.inputs), ("out", &entry.outputs)] {
            for port in ports {
                console.line(format!("  {word:<4} {}  {}", port.name, port.r#type))?;
            }
        }
        for symbol in &entry.symbols {
            let max = symbol.max.map_or_else(String::new, |max| max.to_string());
            let from = if symbol.from.is_empty() { "what is computed".to_owned() } else { symbol.from.join(", ") };
            let (name, min) = (&symbol.name, symbol.min);
            let sliced = if entry.slices.as_ref() == Some(name) { "; large ones run in slices" } else { "" };
            console.line(format!("  dim  {name} in {min}..={max}, from {from}{sliced}"))?;
        }
        for state in &entry.states {
            let place = match state.append {
                Some((axis, capacity)) => format!(", in place up to {capacity} along axis {axis}"),
                None if state.in_place => ", in place".to_owned(),
                None => String::new(),
            };
            console.line(format!("  state {} → {}{place}", state.output, state.input))?;
        }
    }
    Ok(())
}

fn print_variant(report: &Report, variant: &VariantReport, console: &Console) -> Result<(), Failure> {
    let dims: Vec<String> = variant.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let dims = if dims.is_empty() { String::new() } else { format!(" at {}", dims.join(", ")) };
    let title = format!("Kernels of {}{dims}", variant.target);
    console.line(format!("\n{}", console.paint(Style::Label, &title)))?;
    let columns = [
        ("kernel", Side::Left),
        ("emitter", Side::Left),
        ("bits", Side::Right),
        ("vector", Side::Right),
        ("code", Side::Right),
        ("MACs", Side::Right),
        ("", Side::Right),
        ("bytes", Side::Right),
        ("", Side::Right),
        ("runs", Side::Right),
        ("from", Side::Left),
    ];
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let optional = |value: Option<u64>, print: fn(u64) -> String| value.map_or_else(|| "-".to_owned(), print);
    let row = |kernel: &KernelReport| {
        vec![
            kernel.name.clone(),
            kernel.emitter.clone(),
            kernel.vector_bits.to_string(),
            percent(kernel.vector_insts, kernel.total_insts),
            bytes(kernel.code_bytes),
            optional(kernel.macs, count),
            kernel.macs_share.map_or_else(String::new, share),
            optional(kernel.bytes, bytes),
            kernel.bytes_share.map_or_else(String::new, share),
            kernel.launches.to_string(),
            few(&kernel.origins, ORIGINS_SHOWN),
        ]
    };
    console.write(table(&columns, variant.kernels.iter().map(row)).as_bytes())?;
    console.line(format!(
        "  in wide kernels: {} of the MACs, {} of the bytes",
        percent(variant.work.wide_macs, variant.work.all_macs),
        percent(variant.work.wide_bytes, variant.work.all_bytes)
    ))?;
    if console.is_verbose() {
        for kernel in &variant.kernels {
            console.line(format!("\n  {}  from {}", kernel.name, kernel.origins.join(", ")))?;
            kernel.schedule.lines().try_for_each(|line| console.line(format!("    {line}")))?;
        }
    }
    variant.programs.iter().try_for_each(|program| print_host(report, program, console))?;
    variant.programs.iter().try_for_each(|program| print_crossings(program, console))?;
    variant.programs.iter().try_for_each(|program| print_memory(program, console))
}

/// What is copied between host and GPU beside inputs and outputs: for steps on the host, conditions, and states that grow.
fn print_crossings(program: &ProgramReport, console: &Console) -> Result<(), Failure> {
    let within: Vec<&CrossingReport> = program.crossings.iter().filter(|copy| !copy.is_port).collect();
    if within.is_empty() {
        return Ok(());
    }
    let title = format!("Copied between host and GPU in {}", program.entry);
    console.line(format!("\n{}", console.paint(Style::Label, &title)))?;
    let columns = [("before step", Side::Right), ("slot", Side::Right), ("to", Side::Left), ("size", Side::Right)];
    let rows = within.into_iter().map(|copy| {
        let size = copy.bytes.map_or_else(|| "?".to_owned(), bytes);
        vec![copy.step.to_string(), copy.slot.to_string(), copy.to.to_owned(), size]
    });
    console.write(table(&columns, rows).as_bytes())
}

/// What runs on the host, and why.
fn print_host(report: &Report, program: &ProgramReport, console: &Console) -> Result<(), Failure> {
    if program.host.is_empty() {
        return Ok(());
    }
    let title = format!("On the host in {}", program.entry);
    console.line(format!("\n{}", console.paint(Style::Label, &title)))?;
    let columns = [
        ("step", Side::Right),
        ("operator", Side::Left),
        ("opset", Side::Right),
        ("node", Side::Left),
        ("why", Side::Left),
    ];
    let rows = program.host.iter().map(|host| {
        let name =
            if host.domain.is_empty() { host.op_type.clone() } else { format!("{}.{}", host.domain, host.op_type) };
        let node = few(&host.origins, ORIGINS_SHOWN);
        let reason = match host.steps.and_then(|entry| report.entries.get(entry as usize)) {
            Some(entry) => format!("steps are {}: {}", entry.name, host.reason),
            None => host.reason.clone(),
        };
        vec![host.step.to_string(), name, host.opset.to_string(), node, reason]
    });
    console.write(table(&columns, rows).as_bytes())
}

fn print_memory(program: &ProgramReport, console: &Console) -> Result<(), Failure> {
    let memory = &program.memory;
    let title = format!("Memory plan of {}", program.entry);
    console.line(format!("\n{}", console.paint(Style::Label, &title)))?;
    let copies = if program.copies > 0 { format!(" and {} copies", program.copies) } else { String::new() };
    console.line(format!("  {} launches{copies} over {} values", program.launches, memory.slots.len()))?;
    console.line(format!(
        "  arena {}, at least {} are needed at once, {} without sharing",
        bytes(memory.arena_bytes),
        bytes(memory.lower_bound_bytes),
        bytes(memory.unshared_bytes)
    ))?;
    if console.is_verbose() {
        let columns = [
            ("slot", Side::Right),
            ("offset", Side::Right),
            ("size", Side::Right),
            ("steps", Side::Left),
            ("in place of", Side::Left),
        ];
        let rows = memory.slots.iter().map(|slot| {
            vec![
                slot.slot.to_string(),
                slot.offset.to_string(),
                bytes(slot.bytes),
                format!("{}…{}", slot.first_step, slot.last_step),
                slot.alias.map_or_else(String::new, |alias| alias.to_string()),
            ]
        });
        console.write(table(&columns, rows).as_bytes())?;
    }
    Ok(())
}

fn print_weights(report: &Report, console: &Console) -> Result<(), Failure> {
    let weights = &report.weights;
    let title = format!("Weights: {} in {}, shared by all variants", weights.count, bytes(weights.bytes));
    console.line(format!("\n{}", console.paint(Style::Label, &title)))?;
    if !console.is_verbose() {
        return Ok(());
    }
    let columns = [
        ("name", Side::Left),
        ("type", Side::Left),
        ("size", Side::Right),
        ("layout", Side::Left),
        ("made by", Side::Left),
        ("encoding", Side::Left),
    ];
    let rows = weights.records.iter().map(|weight| {
        let (dtype, shape) = (weight.dtype, &weight.shape);
        vec![
            weight.name.clone(),
            format!("{dtype}{shape:?}"),
            bytes(weight.bytes),
            weight.layout.clone(),
            weight.recipe.clone(),
            weight.encoding.clone(),
        ]
    });
    console.write(table(&columns, rows).as_bytes())
}

fn print_provenance(report: &Report, console: &Console) -> Result<(), Failure> {
    let provenance = &report.provenance;
    console.line(format!("\n{}", console.paint(Style::Label, "Provenance")))?;
    console.line(format!("  model      {}", provenance.model_hash))?;
    if !provenance.producer.is_empty() {
        console.line(format!("  producer   {}", provenance.producer))?;
    }
    if !provenance.flags.is_empty() {
        console.line(format!("  flags      {}", provenance.flags.join(" ")))?;
    }
    if !provenance.records.is_empty() {
        console.line(format!("  records    {}", provenance.records.join(" ")))?;
    }
    if let Some(assembler) = &provenance.assembler {
        console.line(format!("  assembler  {assembler}"))?;
    }
    Ok(())
}
