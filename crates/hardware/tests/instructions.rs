//! The small kernels: there is one for every instruction that the backend prints, the simulator runs them all, and does what was
//! recorded on hardware.

#[path = "../../codegen-ptx/tests/assembler/mod.rs"]
mod assembler;

use infc_codegen_ptx::PtxTarget;
use infc_hardware::device::Device;
use infc_hardware::instructions::{EVERYWHERE, Micro, Record, all};
use infc_hardware::kernels::Compiled;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::GpuMachine;
use infc_simgpu::Simulator;
use infc_testkit::strategies;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

fn simulator(seed: u64) -> Device {
    Device::new(Arc::new(Simulator::new(seed).with_generation(90, 84)))
}

/// The instructions of a module, as far as the blank in front of their operands; of copies also how many bytes. Products by groups of
/// warps are alike whatever the number of columns.
fn instructions(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let line = if line.starts_with('@') { line.split_once(' ')?.1 } else { line };
        let name = line.split([' ', ';']).next().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))?;
        let size = line.split(", ").nth(2).filter(|_| name.starts_with("cp.async.c") && name.ends_with("global"));
        if let Some((head, shape)) = name.split_once(".m64n") {
            return Some(format!("{head}.m64{}", shape.trim_start_matches(|c: char| c.is_ascii_digit())));
        }
        Some(size.map_or_else(|| name.to_owned(), |size| format!("{name} {}", size.trim_end_matches(';'))))
    })
}

fn recorded(device: &Device) -> Record {
    let (record, failed) = Record::of(device, "2026-11-25".to_owned());
    assert!(failed.is_empty(), "{failed:?}");
    record
}

fn product(dtypes: [&str; 2]) -> Kernel {
    let [a, b] = dtypes;
    let sum = if a.ends_with('8') { "i32" } else { "f32" };
    let [of_a, of_b] = [a, b].map(|dtype| if dtype == "f32" { "tf32" } else { sum });
    // Groups of warps take bytes side by side along what is summed, a line of them.
    let (k, shape, at) = match sum {
        "i32" => (128, "64, 128", "n, k"),
        _ => (64, "4, 64, 16", "div(n, 16), k, mod(n, 16)"),
    };
    let text = format!(
        "kernel @product(x: {a}[64, {k}], const w: {b}[{shape}]) -> (y: {sum}[64, 64]) {{
  stage s[m: 64, n: 64, reduce k: {k}] = fold sum {of_a}(x[m, k]) * {of_b}(w[{at}])
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_instruction_that_is_printed_has_one() {
    let mut kernels: Vec<Kernel> = infc_testkit::kernels().into_iter().map(|(_, kernel)| kernel).collect();
    let mut runner = TestRunner::deterministic();
    for _ in 0..600 {
        kernels.push(strategies::kernels().new_tree(&mut runner).expect("a kernel").current());
    }
    kernels.extend(
        [["u8", "u8"], ["i8", "i8"], ["i8", "u8"], ["u8", "i8"], ["f16", "f16"], ["bf16", "bf16"], ["f32", "f32"]]
            .map(product),
    );
    let known: BTreeSet<String> = all()
        .into_iter()
        .flat_map(|micro| instructions(&micro.instruction).chain([micro.instruction.clone()]).collect::<Vec<_>>())
        .chain(EVERYWHERE.map(str::to_owned))
        .collect();
    let mut missing = BTreeSet::new();
    let specific: PtxTarget = "sm_90a".parse().expect("a listed target");
    let busy = GpuMachine { busy_blocks: 1, ..GpuMachine::for_target(90, true) };
    let mut groups = 0;
    for kernel in kernels {
        for (target, machine) in [(PtxTarget::default(), GpuMachine::default()), (specific, busy)] {
            let compiled = Compiled::by(&kernel, ErrorClass::Reassociating, target, &machine);
            let compiled = compiled.unwrap_or_else(|e| panic!("{e:#}\n{kernel}"));
            groups += usize::from(compiled.text().contains("wgmma.mma_async"));
            missing.extend(instructions(compiled.text()).filter(|name| !known.contains(name)));
        }
    }
    assert!(groups >= 6, "{groups}");
    assert!(missing.is_empty(), "no small kernel shows {missing:?}");
}

/// Whatever the order of threads, the same comes out; and not what was there before.
#[test]
fn the_simulator_runs_them_all() {
    let first = recorded(&simulator(1));
    let second = first.compare(&simulator(2));
    assert_eq!((second.same, &second.different[..], &second.unknown[..]), (first.outputs.len(), &[][..], &[][..]));
    assert_eq!(first.outputs.len(), all().len(), "no name is there twice");
    for micro in all() {
        let output = micro.run(&simulator(1)).unwrap_or_else(|e| panic!("{}: {e:#}", micro.instruction));
        let untouched = output.chunks(16).filter(|piece| piece.iter().all(|&byte| byte == 0xa5)).count();
        assert_eq!(untouched, 0, "{} leaves bytes as they were", micro.instruction);
    }
    let again = Record::parse(&first.text()).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(again, first);
}

/// Before Ampere there are no products of matrices; what there is does the same.
#[test]
fn an_older_gpu_has_fewer_instructions() {
    let old = Device::new(Arc::new(Simulator::new(1).with_generation(75, 65)));
    let (few, many) = (recorded(&old), recorded(&simulator(1)));
    assert!(few.outputs.len() + 10 < many.outputs.len() && few.outputs.len() > 200);
    assert!(few.outputs.iter().all(|(name, hash)| many.outputs[name] == *hash));
}

/// A record of another device is noticed: what differs, what is missing.
#[test]
fn a_record_is_compared_instruction_by_instruction() {
    let mut record = recorded(&simulator(1));
    *record.outputs.get_mut("fma.rn.f32").expect("there is one") = "0".repeat(32);
    record.outputs.remove("div.rn.f32");
    let found = record.compare(&simulator(1));
    let different: Vec<&str> = found.different.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((&different[..], &found.unknown[..]), (&["fma.rn.f32"][..], &["div.rn.f32".to_owned()][..]));
    assert!(Record::parse("{}").is_err() && Record::parse(&record.text().replace("instructions/1", "more/1")).is_err());
}

#[test]
fn the_assembler_takes_small_kernels() {
    let header = |text: &str| text.find(".visible").expect("an entry");
    let (specific, others): (Vec<_>, Vec<_>) =
        all().into_iter().partition(|micro| micro.text.contains(".target sm_90a"));
    let together = |micros: &[Micro], head: &str| {
        let kernels = micros.iter().enumerate().map(|(n, micro)| {
            let kernel = &micro.text[header(&micro.text)..];
            kernel.replace(" micro(", &format!(" micro_{n}(")).replace("param_", &format!("param_{n}_"))
        });
        format!("{head}\n.address_size 64\n\n{}", kernels.collect::<String>())
    };
    assembler::assemble_text(others.len(), |_| together(&others, ".version 7.0\n.target sm_80"));
    assembler::assemble_for(&["sm_90a"], specific.len(), |_| together(&specific, ".version 8.4\n.target sm_90a"));
}

/// What hardware did, if it was recorded.
#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
#[test]
fn the_simulator_does_what_hardware_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hardware");
    let files = folder.read_dir().into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let records: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    if records.is_empty() {
        eprintln!(
            "skipped: unverified on hardware: {} instructions (there is no record in tests/hardware)",
            all().len()
        );
    }
    for path in records {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let record = Record::parse(&text).unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
        let found = record.compare(&simulator(1));
        assert!(found.different.is_empty(), "{} ({}): {:?}", record.gpu, path.display(), found.different);
        if !found.unknown.is_empty() {
            eprintln!("skipped: unverified on {}: {:?}", record.gpu, found.unknown);
        }
    }
}
