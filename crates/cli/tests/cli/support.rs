//! Starting the command, and artifacts to start it on.

use infc_artifact::{
    ArenaSlot, ArtifactBuilder, Binding, BindingSource, Copy, Entry, NewWeight, PortSpec, Program, Provenance,
    SizeExpr, Slot, Step, SymbolSpec, VariantBuilder, features,
};
use infc_tensor::DType;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) stdout_bytes: Vec<u8>,
}

impl Outcome {
    /// The one JSON object on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "one line expected: {self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// That the command succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// That the command failed with this exit code and this error, which is all it said.
    #[track_caller]
    pub(crate) fn fails(self, exit: i32, code: &str) -> Self {
        assert!(self.stderr.starts_with("error["), "{self:?}");
        self.fails_after_notes(exit, code)
    }

    /// That the command failed with this exit code and this error, told on standard error alone.
    #[track_caller]
    pub(crate) fn fails_after_notes(self, exit: i32, code: &str) -> Self {
        assert_eq!(self.code, exit, "{self:?}");
        assert!(self.stderr.contains(&format!("error[{code}]:")), "expected {code}: {self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        self
    }
}

/// Runs `infc` in a folder; words are separated by single spaces.
pub(crate) fn infc(folder: &Path, arguments: &str) -> Outcome {
    infc_with(folder, arguments.split(' '), &[])
}

/// Runs `infc` in a folder, with something on its standard input.
pub(crate) fn infc_with<'a>(folder: &Path, arguments: impl Iterator<Item = &'a str>, stdin: &[u8]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_infc"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        // Where this machine's profile would be, which tests neither read nor replace.
        .env("XDG_DATA_HOME", std::path::absolute(folder).unwrap().join(".data"))
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // A command that fails early does not read it all.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Outcome {
        code: output.status.code().expect("no signal"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout_bytes: output.stdout,
    }
}

/// A folder that is removed at the end.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder with the demo's model and data in `digits`.
pub(crate) fn digits_folder() -> tempfile::TempDir {
    let folder = folder();
    infc(folder.path(), "demo --save digits").ok();
    folder
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let items = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// An artifact made by hand, without any machine code: output `y` is a copy of input `x`, `f32[N, 3]` with N in 1..=8,
/// by way of the arena; output `w` is a weight. Variants for two levels that every test machine has.
pub(crate) fn identity_artifact() -> Vec<u8> {
    let (n, bytes) = (SizeExpr::symbol(0), SizeExpr::symbol(0) * SizeExpr::constant(12));
    let port = |name: &str, shape: Vec<SizeExpr>| PortSpec::new(name, DType::F32, shape);
    let provenance = Provenance { infc_version: "0.0.0-test".to_owned(), ..Provenance::default() };
    let mut builder = ArtifactBuilder::new(provenance);
    builder.entry(Entry {
        name: "main".to_owned(),
        inputs: vec![port("x", vec![n.clone(), SizeExpr::constant(3)])],
        outputs: vec![port("y", vec![n, SizeExpr::constant(3)]), port("w", vec![SizeExpr::constant(2)])],
        symbols: vec![SymbolSpec { name: "N".to_owned(), min: 1, max: Some(8) }],
        bindings: vec![Binding { symbol: 0, source: BindingSource::Axis { input: 0, axis: 0 } }],
        state: vec![],
        assumptions: vec![],
        specializes: None,
        slices: None,
    });
    for (name, value) in [("weight", 1.5f32), ("unused", 0.0)] {
        let weight = NewWeight {
            name: name.to_owned(),
            original_names: vec![name.to_owned()],
            dtype: DType::F32,
            shape: vec![2],
            recipe: String::new(),
            layout: String::new(),
        };
        builder.weight(weight, [value, -value].map(f32::to_le_bytes).concat());
    }
    let levels: [&str; 2] = if cfg!(target_arch = "x86_64") { ["x86-64-v2", "x86-64"] } else { ["aarch64", "x86-64"] };
    // The level that does more also carries a weight of its own.
    for (level, target) in levels.into_iter().enumerate() {
        let mut variant = VariantBuilder::new(target, &features::required_by(target).unwrap());
        let arena = ArenaSlot { size_bytes: bytes.clone(), first_step: 0, last_step: 1, alias: None };
        let mut slots = vec![Slot::Input(0), Slot::Output(0), Slot::Arena(arena), Slot::Weight(0), Slot::Output(1)];
        if level == 0 {
            slots.push(Slot::Weight(1));
        }
        let copy = |src, dst, size_bytes: &SizeExpr| Step::Copy(Copy { src, dst, size_bytes: size_bytes.clone() });
        let steps = vec![copy(0, 2, &bytes), copy(2, 1, &bytes), copy(3, 4, &SizeExpr::constant(8))];
        variant.program(Program { slots, steps, static_plan: None });
        builder.variant(variant);
    }
    builder.finish().unwrap().to_vec().unwrap()
}

/// A folder with the artifact as `id.infa`.
pub(crate) fn identity_folder() -> tempfile::TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("id.infa"), identity_artifact()).unwrap();
    folder
}

/// A `.npy` file as NumPy writes it, of `f32` elements.
pub(crate) fn npy(shape: &[usize], elements: &[f32]) -> Vec<u8> {
    let dims: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}");
    let padding = (10 + header.len() + 1).next_multiple_of(64) - (10 + header.len() + 1);
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(elements.iter().flat_map(|x| x.to_le_bytes()));
    file
}

/// A `TensorProto` file of `f32` elements.
pub(crate) fn pb(shape: &[usize], elements: &[f32]) -> Vec<u8> {
    let tensor = infc_tensor::Tensor::from_elements(shape, elements).unwrap();
    infc_frontend_onnx::encode_tensor("any name", &tensor)
}
