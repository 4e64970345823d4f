//! Machine code beside PTX: an assembler's part in compiling, and which of both a GPU runs. The assembler is a script that
//! gives its input back, which the simulator can execute; and NVIDIA's, where there is one.

#![cfg(unix)]

use crate::artifacts::{on, options};
use crate::net::Net;
use crate::networks;
use infc::{Compilation, CompileOptions, Ptxas};
use infc_runtime::artifact::Artifact;
use infc_runtime::{Model, Selection, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use infc_testkit::random_tensor;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Knows all generations but one. What declares more registers for floats than `$LIMIT` spills four bytes of each.
const SCRIPT: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo 'Cuda compilation tools, release 0.1, V0.1.23'; exit; fi
[ "$1 $2 $4 $5 $6" = '-v -arch -o kernels.cubin kernels.ptx' ] || { echo "fatal   : $*" >&2; exit 1; }
if [ "$3" = sm_100 ]; then
  echo "ptxas fatal   : Value 'sm_100' is not defined for option 'gpu-name'" >&2; exit 255
fi
awk -v limit=LIMIT '
  /^.visible .entry/ { name = $3; sub(/[(].*/, "", name); print "ptxas info : Compiling entry function \47" name "\47" }
  /.reg .f32/ {
    count = $3; gsub(/[^0-9]/, "", count)
    count += 0; if (count > limit) print "    0 bytes stack frame, " (count - limit) * 4 " bytes spill stores, 0 bytes spill loads"
  }' kernels.ptx >&2
cp kernels.ptx kernels.cubin
"#;

/// A folder with the script.
fn script(limit: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ptxas");
    std::fs::write(&path, SCRIPT.replace("LIMIT", &limit.to_string())).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    (folder, path)
}

fn with(path: &Path, targets: &[&str]) -> CompileOptions {
    CompileOptions { ptxas: Some(Ptxas::at(path).unwrap_or_else(|e| panic!("{e}"))), ..options(targets) }
}

/// A result per row, so that blocks have rows of both factors in shared memory.
fn product() -> Net {
    Net::new(17)
        .input("x", DType::F32, &["96", "64"])
        .constant("w", &random_tensor(DType::F32, vec![64, 80], 1))
        .node("MatMul", &["x", "w"], &["p"], &[])
        .node("Softmax", &["p"], &["y"], &[])
        .output("y")
}

fn compile(net: Net, options: &CompileOptions) -> Compilation {
    net.compile(options).unwrap_or_else(|e| panic!("{e}"))
}

/// What a GPU makes of the residual network, by what, and how many modules of machine code it took.
fn run(bytes: &[u8], gpu: Simulator) -> (Selection, usize, Vec<Tensor>) {
    let gpu = Arc::new(gpu);
    let model = Model::from_vec_with(bytes.to_vec(), &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let input = random_tensor(DType::F32, vec![1, 3, 13, 11], 3);
    let outputs = session.run_owned(&[&input]).unwrap_or_else(|e| panic!("{e}"));
    let selection = model.selection().clone();
    drop((session, model));
    assert!(gpu.is_empty(), "nothing of the model is left on the GPU");
    (selection, gpu.cubins(), outputs)
}

#[test]
fn a_gpu_runs_machine_code_of_its_own_generation() {
    let (_folder, path) = script(1000);
    let compilation = compile(networks::residual(), &with(&path, &["cuda"]));
    let report = &compilation.report.variants[0];
    let generations: Vec<&str> = report.cubins.iter().map(|cubin| cubin.generation.as_str()).collect();
    assert_eq!(generations, ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]);
    assert_eq!(report.unknown_generations, ["sm_100"]);
    let bytes = compilation.to_bytes().expect("an artifact");
    let artifact = Artifact::read(&bytes).expect("well formed");
    assert_eq!(artifact.manifest().provenance.assembler.as_deref(), Some("ptxas 0.1.23"));

    let (_, _, expected) = run(&bytes, Simulator::new(0));
    for (capability, is_machine_code) in [(80, true), (86, true), (87, false), (100, false), (120, true)] {
        let gpu = Simulator::new(1).with_generation(capability, 87).with_text_as_cubin();
        let (selection, cubins, outputs) = run(&bytes, gpu);
        let gpu = selection.gpu.expect("it ran on one");
        assert_eq!((gpu.capability, gpu.is_machine_code, gpu.refused), (capability, is_machine_code, None));
        assert_eq!(cubins, usize::from(is_machine_code), "all kernels are one module");
        assert_eq!(outputs, expected);
    }
    // One that does not take it: there is PTX.
    let (selection, cubins, outputs) = run(&bytes, Simulator::new(1));
    let gpu = selection.gpu.expect("it ran on one");
    assert!(!gpu.is_machine_code && gpu.refused.is_some_and(|reason| reason.contains("executes PTX")));
    assert_eq!((cubins, outputs), (0, expected));
}

/// Nothing of the place where it was assembled is in the file, and what is without an assembler is as it ever was.
#[test]
fn the_same_assembler_gives_the_same_bytes() {
    let (_first, first) = script(1000);
    let (_second, second) = script(1000);
    let bytes = |path| compile(networks::branches(), &with(path, &["cuda"])).to_bytes().expect("an artifact");
    assert!(bytes(&first) == bytes(&second));
    let plain = compile(networks::branches(), &options(&["cuda"]));
    assert!(plain.report.variants[0].cubins.is_empty());
}

/// Each generation's machine code is of the newest code that it runs.
#[test]
fn generations_of_several_targets() {
    let (_folder, path) = script(1000);
    let compilation = compile(networks::residual(), &with(&path, &["cuda", "x86-64-v2", "cuda:sm_89"]));
    let generations: Vec<(&str, Vec<&str>)> = compilation
        .report
        .variants
        .iter()
        .map(|v| (v.target.as_str(), v.cubins.iter().map(|cubin| cubin.generation.as_str()).collect()))
        .collect();
    let expected = [
        ("cuda:sm_89", vec!["sm_89", "sm_90", "sm_120"]),
        ("cuda:sm_80", vec!["sm_80", "sm_86"]),
        ("x86-64-v2", vec![]),
    ];
    assert_eq!(generations, expected);
    let bytes = compilation.to_bytes().expect("an artifact");
    for (capability, target) in [(86, "cuda:sm_80"), (90, "cuda:sm_89")] {
        let (selection, cubins, _) =
            run(&bytes, Simulator::new(0).with_generation(capability, 80).with_text_as_cubin());
        assert_eq!((selection.target.as_str(), cubins), (target, 1));
    }
}

/// A schedule that keeps more in registers than there are gives way to one with less.
#[test]
fn schedules_that_spill_are_not_taken() {
    let kernels = |limit: u32| {
        let (_folder, path) = script(limit);
        let mut report = compile(product(), &with(&path, &["cuda"])).report;
        report.variants.remove(0).kernels
    };
    let roomy = kernels(1000);
    let product = |kernels: &[infc::KernelReport]| {
        let product = kernels.iter().find(|kernel| kernel.name.contains("contract")).expect("a product");
        (product.schedule.clone(), product.spill_bytes)
    };
    let (schedule, spills) = product(&roomy);
    assert_eq!(spills, 0);
    let (tighter, spills) = product(&kernels(100));
    assert!(tighter != schedule && spills == 0, "{tighter}\n{spills} bytes\n{schedule}");
    // Whatever is taken, there are too few: the best of what spills is.
    let (best, spills) = product(&kernels(1));
    assert!(best != schedule && spills > 0, "{best}");
}

#[test]
fn what_the_assembler_refuses() {
    let (_folder, path) = script(1000);
    let options = with(&path, &["cuda"]);
    std::fs::write(&path, "#!/bin/sh\necho 'kernels.ptx, line 7; error : poison' >&2\nexit 255\n").expect("a file");
    let error = networks::branches().compile(&options).expect_err("it fails");
    assert_eq!(error.code(), "compile::ptxas");
    assert!(error.to_string().contains("line 7; error : poison"), "{error}");
}

/// NVIDIA's own, if it is installed.
#[test]
#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
fn the_assembler_takes_whole_models() {
    let Some(path) = std::env::var_os("INFC_PTXAS").map(PathBuf::from) else {
        eprintln!("skipped: no ptxas in INFC_PTXAS; nothing was assembled");
        return;
    };
    for net in
        [networks::residual(), networks::transformer(), networks::detector(), networks::recurrent("B"), product()]
    {
        let compilation = compile(net, &with(&path, &["cuda", "cuda:sm_90", "cuda:sm_90a"]));
        for variant in &compilation.report.variants {
            // Code for the generation 9.0 alone, and those of both others.
            let count = if variant.target == "cuda:sm_90a" { 1 } else { 3 };
            assert!(variant.unknown_generations.is_empty(), "{variant:?}");
            let generations: Vec<&str> = variant.cubins.iter().map(|cubin| cubin.generation.as_str()).collect();
            assert_eq!(generations.len(), count, "{generations:?} of {}", variant.target);
            assert!(variant.kernels.iter().all(|kernel| kernel.spill_bytes == 0), "{variant:?}");
        }
        let bytes = compilation.to_bytes().expect("an artifact");
        let artifact = Artifact::read(&bytes).expect("well formed");
        let cubins = artifact.cubins(1).expect("well formed");
        assert!(cubins.iter().all(|cubin| cubin.image.starts_with(b"\x7fELF")), "machine code is an ELF file");
    }
}
