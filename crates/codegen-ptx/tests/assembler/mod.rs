//! NVIDIA's assembler, where there is one.

#![allow(dead_code, reason = "each test file uses its part")]

use infc_codegen_ptx::{PtxModule, PtxTarget, link};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The generations that modules are assembled for.
const GENERATIONS: [&str; 6] = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// `ptxas` on PATH, or where the variable that CI sets says.
fn assembler() -> Option<PathBuf> {
    let named = std::env::var_os("INFC_PTXAS").map(PathBuf::from);
    let on_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|dir| dir.join("ptxas")).find(|file| file.is_file()));
    named.or(on_path)
}

/// Assembles what `modules` gives for each generation, warnings and spilled registers being errors.
///
/// # Panics
/// If the assembler refuses anything. Without one a line says that nothing was assembled.
pub(crate) fn assemble(modules: impl Fn(&PtxTarget) -> Vec<PtxModule>) {
    let count = modules(&PtxTarget::default()).len();
    assemble_text(count, |target| {
        // Of several models: told apart by number.
        let numbered = |(n, module): (usize, PtxModule)| {
            let text = module.text.replace(&module.entry, &format!("{}_{n}", module.entry));
            PtxModule { text, ..module }
        };
        link(modules(target).into_iter().enumerate().map(numbered), *target)
    });
}

/// The same of a module with so many kernels.
///
/// # Panics
/// As of [`assemble`].
pub(crate) fn assemble_text(count: usize, text: impl Fn(&PtxTarget) -> String) {
    assemble_for(&GENERATIONS, count, text);
}

/// The same for some generations.
///
/// # Panics
/// As of [`assemble`].
#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
pub(crate) fn assemble_for(generations: &[&str], count: usize, text: impl Fn(&PtxTarget) -> String) {
    let Some(ptxas) = assembler() else {
        eprintln!("skipped: no ptxas on PATH nor in INFC_PTXAS; {count} kernels not assembled");
        return;
    };
    for sm in generations {
        let text = text(&sm.parse().expect("a listed target"));
        let mut child = Command::new(&ptxas)
            .args(["-Werror", "-warn-spills", &format!("-arch={sm}"), "-o", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ptxas starts");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("ptxas reads");
        let output = child.wait_with_output().expect("ptxas ends");
        assert!(output.status.success(), "{sm}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
