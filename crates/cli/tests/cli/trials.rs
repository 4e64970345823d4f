//! Trials of schedules: what is wrong with code is found out, in the process of a trial.
#![cfg(all(unix, target_arch = "x86_64"))]

use crate::support::folder;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// The text of the kernel `y = x + ADDED`.
fn sum(points: usize, added: i32) -> String {
    format!(
        "kernel @\"\"(x: f32[{points}]) -> (y: f32[{points}]) {{ stage o[n: {points}] = x[n] + {added} output y[n] = o[n] }}"
    )
}

/// An artifact of `y = x + 1` whose code is for so many numbers, and whose ports say that there are so many.
fn claiming(points: usize, claimed: i64) -> Vec<u8> {
    of_code(&code(points, 1), claimed, 0)
}

/// Code of [`sum`].
fn code(points: usize, added: i32) -> Vec<u8> {
    // Plain loops: one chunk.
    let schedule = Some("".parse().unwrap());
    let options =
        infc::KernelOptions { schedule, ..infc::KernelOptions::new("x86-64-v2".parse::<infc::Target>().unwrap()) };
    infc::compile_kernel(&sum(points, added).parse().unwrap(), &options).unwrap().code
}

/// An artifact that runs some code on `x` and `y` of so many numbers, with so many bytes of scratch memory.
fn of_code(code: &[u8], claimed: i64, scratch_bytes: i64) -> Vec<u8> {
    use infc_artifact as artifact;
    let target: infc::Target = "x86-64-v2".parse().unwrap();
    let port = |name: &str| {
        artifact::PortSpec::new(name, infc_tensor::DType::F32, vec![artifact::SizeExpr::constant(claimed)])
    };
    let mut builder = artifact::ArtifactBuilder::new(artifact::Provenance::default());
    builder.entry(artifact::Entry {
        name: "main".to_owned(),
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        symbols: Vec::new(),
        bindings: Vec::new(),
        state: Vec::new(),
        assumptions: Vec::new(),
        specializes: None,
        slices: None,
    });
    let mut variant = artifact::VariantBuilder::new("x86-64-v2", &target.required_features());
    let info = artifact::KernelInfo { name: "k".to_owned(), ..artifact::KernelInfo::default() };
    variant.kernel(info, code);
    let launch = artifact::Launch {
        kernel: 0,
        args: vec![artifact::Arg::read(0), artifact::Arg::write(1)],
        values: Vec::new(),
        chunks: artifact::SizeExpr::constant(1),
        grid: None,
        step_chunks: None,
        scratch_bytes: artifact::SizeExpr::constant(scratch_bytes),
    };
    let slots = vec![artifact::Slot::Input(0), artifact::Slot::Output(0)];
    variant.program(artifact::Program { slots, steps: vec![artifact::Step::Launch(launch)], static_plan: None });
    builder.variant(variant);
    builder.finish().unwrap().to_vec().unwrap()
}

/// A trial of an artifact beside another, by the definition in `kernel`.
fn beside(at: &Path, candidate: &str, incumbent: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infc"));
    command.current_dir(at).args(["tune", "--definition", "kernel", "--trial", candidate, incumbent]);
    command.args(["--format", "json"]).args(arguments).output().unwrap()
}

/// Whether a trial was made, and found that both compute the same.
fn agrees(trial: &Output) -> bool {
    let said = String::from_utf8_lossy(&trial.stdout);
    assert!(trial.status.success(), "{trial:?}");
    said.contains("\"agrees\":true")
}

/// Whether a trial ended by SIGSEGV, or SIGBUS as other systems say.
fn crashed(trial: &Output) -> bool {
    matches!(trial.status.signal(), Some(10 | 11 | 7)) && trial.stdout.is_empty()
}

/// A candidate that touches a single element beyond its operands does not survive its trial, one that leaves an element
/// unwritten is found out, and so is either where only other extents are proven.
#[test]
fn candidates_stay_within_their_operands() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("kernel"), sum(67, 1)).unwrap();
    fs::write(at.join("right.infa"), claiming(67, 67)).unwrap();
    fs::write(at.join("wild.infa"), claiming(68, 67)).unwrap();
    fs::write(at.join("lazy.infa"), claiming(66, 67)).unwrap();
    for proof in [&[][..], &["--proof", ""]] {
        let trial = |candidate: &str| beside(at, candidate, "right.infa", proof);
        assert!(agrees(&trial("right.infa")));
        let wild = trial("wild.infa");
        assert!(crashed(&wild), "{wild:?}");
        // What neither writes, as between rows that lie apart, is no disagreement.
        assert!(agrees(&beside(at, "lazy.infa", "lazy.infa", proof)));
        assert!(!agrees(&trial("lazy.infa")));
    }
}

/// The same of scratch memory: a byte before or behind it is read or written, or what nobody has written there is a result.
#[test]
fn candidates_stay_within_their_scratch_memory() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("kernel"), sum(1, 1)).unwrap();
    fs::write(at.join("right.infa"), claiming(1, 1)).unwrap();
    // Scratch memory is what `rcx` points to, operands what the words at `rdi` do: y = x + 1.
    #[rustfmt::skip]
    let right = [
        0x48, 0x8b, 0x07, // mov rax, [rdi]
        0xf3, 0x0f, 0x10, 0x00, // movss xmm0, [rax]
        0xb8, 0x00, 0x00, 0x80, 0x3f, // mov eax, 1.0
        0x66, 0x0f, 0x6e, 0xc8, // movd xmm1, eax
        0xf3, 0x0f, 0x58, 0xc1, // addss xmm0, xmm1
        0x48, 0x8b, 0x47, 0x08, // mov rax, [rdi + 8]
        0xf3, 0x0f, 0x11, 0x00, // movss [rax], xmm0
    ];
    for (what, planted, is_wild) in [
        ("mov byte [rcx + 67], 1", &[0xc6, 0x41, 0x43, 0x01][..], false),
        ("mov byte [rcx + 68], 1", &[0xc6, 0x41, 0x44, 0x01], true),
        ("mov byte [rcx - 1], 1", &[0xc6, 0x41, 0xff, 0x01], true),
        ("mov al, [rcx]", &[0x8a, 0x01], false),
        ("mov al, [rcx + 68]", &[0x8a, 0x41, 0x44], true),
        ("mov al, [rcx - 1]", &[0x8a, 0x41, 0xff], true),
    ] {
        let code = [&right[..], planted, &[0xc3]].concat();
        fs::write(at.join("planted.infa"), of_code(&code, 1, 68)).unwrap();
        let trial = beside(at, "planted.infa", "right.infa", &[]);
        assert!(if is_wild { crashed(&trial) } else { agrees(&trial) }, "{what}: {trial:?}");
    }
    // mov rax, [rdi + 8]; mov ecx, [rcx]; mov [rax], ecx
    let unwritten = of_code(&[0x48, 0x8b, 0x47, 0x08, 0x8b, 0x09, 0x89, 0x08, 0xc3], 1, 68);
    fs::write(at.join("unwritten.infa"), unwritten).unwrap();
    assert!(!agrees(&beside(at, "unwritten.infa", "unwritten.infa", &[])));
}

/// A default choice that computes something else than the kernel is found out, which no comparison with itself would do; and
/// so is a candidate that does what the default wrongly does.
#[test]
fn wrong_defaults_are_found() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("kernel"), sum(67, 1)).unwrap();
    fs::write(at.join("right.infa"), claiming(67, 67)).unwrap();
    fs::write(at.join("wrong.infa"), of_code(&code(67, 2), 67, 0)).unwrap();
    fs::write(at.join("lazy.infa"), claiming(66, 67)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_infc"));
    command.current_dir(at).args(["tune", "--definition", "kernel", "--points", "points", "--tiles", "8,16"]);
    let told = command.output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let points = &["--points", "points"];
    assert!(agrees(&beside(at, "right.infa", "right.infa", points)));
    assert!(agrees(&beside(at, "wrong.infa", "wrong.infa", &[])), "nothing to hold them against");
    for (wrong, said) in [("wrong.infa", "of `y` has to be"), ("lazy.infa", "element 66 of `y` has to be")] {
        let trial = beside(at, wrong, wrong, points);
        let text = String::from_utf8_lossy(&trial.stdout);
        assert!(!agrees(&trial) && text.contains(said), "{wrong}: {text}");
    }
    // The definition is not what candidate and default agree on, either.
    assert!(!agrees(&beside(at, "wrong.infa", "right.infa", points)));
}

/// A search that is killed leaves no artifacts behind, and what it has found stays.
#[test]
fn killed_searches_leave_nothing_behind() {
    let folder = folder();
    let at = folder.path();
    crate::support::infc(at, "demo --save .").ok();
    let temporary = at.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let there = || fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    for signal in ["INT", "KILL"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_infc"));
        command.current_dir(at).args(["tune", "digits.onnx", "--budget", "10m", "--trials", "1000000"]);
        let mut search = command.env("TMPDIR", &temporary).stderr(std::process::Stdio::null()).spawn().unwrap();
        let is_begun = || there().iter().any(|path| fs::read_dir(path).is_ok_and(|files| files.count() > 2));
        assert!(waited(is_begun), "{:?}", there());
        assert!(Command::new("kill").args([format!("-{signal}"), search.id().to_string()]).status().unwrap().success());
        assert!(search.wait().unwrap().signal().is_some());
        assert!(waited(|| there().is_empty()), "{signal}: {:?}", there());
    }
    // Nobody else's folder is removed.
    let mut command = Command::new(env!("CARGO_BIN_EXE_infc"));
    let other =
        command.args(["tune", "--removes"]).arg(&temporary).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(other.status.code() == Some(2) && temporary.exists(), "{other:?}");
}

/// Waits for something to become true, for as long as nobody would wait.
fn waited(is_true: impl Fn() -> bool) -> bool {
    (0..600).any(|_| is_true() || (std::thread::sleep(std::time::Duration::from_millis(100)), false).1)
}
