//! The kernels scheduled by hand, executed by the simulator: they compute what the interpreter says on whole and ragged
//! shapes, whatever the order of threads, and faults planted in their text are found.

mod device;
mod nests;

use device::execute;
use infc_codegen_ptx::{PtxModule, PtxTarget, emit};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_ptxsim::SimError;
use infc_tensor::Tensor;

struct Case {
    kernel: Kernel,
    nest: LoopNest,
    module: PtxModule,
    symbols: Vec<i64>,
    inputs: Vec<Tensor>,
}

impl Case {
    fn new((kernel, nest): (Kernel, LoopNest), symbols: &[i64]) -> Self {
        let module = emit(&nest, &PtxTarget::default()).expect("the nest suits a GPU");
        let inputs = infc_testkit::random_inputs(&kernel, symbols, 3);
        Self { kernel, nest, module, symbols: symbols.to_vec(), inputs }
    }

    fn run(&self, text: &str, seed: u64) -> Result<Vec<Tensor>, SimError> {
        execute(&self.kernel, &self.nest, &self.module, text, &self.symbols, &self.inputs, seed)
    }

    #[track_caller]
    fn agrees(&self) {
        let expected = run_kernel(&self.kernel, &self.symbols, &self.inputs).expect("it can be interpreted");
        for seed in 0..2 {
            let found = self.run(&self.module.text, seed).unwrap_or_else(|e| panic!("{e}\n{}", self.module.text));
            let place = format!("{} {:?} seed {seed}", self.kernel.name, self.symbols);
            infc_testkit::assert_close(&place, &found, &expected, 1e-5, 1e-6);
        }
    }

    /// Changes lines of the text that hold `wanted`, one at a time; each change must show as a fault, or as numbers that
    /// differ. Gives the codes of the faults.
    #[track_caller]
    fn mutants(&self, wanted: &str, change: impl Fn(&str) -> String) -> Vec<&'static str> {
        let expected = self.run(&self.module.text, 0).expect("it runs unchanged");
        let lines: Vec<&str> = self.module.text.lines().collect();
        let mut codes = Vec::new();
        for n in (0..lines.len()).filter(|&n| lines[n].contains(wanted)) {
            let mut changed: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
            changed[n] = change(lines[n]);
            codes.push(match self.run(&changed.join("\n"), 0) {
                Err(e) => e.code(),
                Ok(out) => {
                    let same = out.iter().zip(&expected).all(|(a, b)| a.bytes() == b.bytes());
                    assert!(!same, "line {} of {} may as well be {:?}", n + 1, self.kernel.name, changed[n]);
                    "wrong numbers"
                }
            });
        }
        assert!(!codes.is_empty(), "no line of {} has {wanted:?}", self.kernel.name);
        codes
    }
}

#[test]
fn element_wise() {
    Case::new(nests::element_wise(1024), &[1]).agrees();
    for rows in [1, 20, 41] {
        Case::new(nests::element_wise(50), &[rows]).agrees();
    }
}

#[test]
fn softmax() {
    for rows in [1, 3] {
        Case::new(nests::softmax(), &[rows]).agrees();
    }
}

#[test]
fn matrix_products() {
    for (m, n, k) in [(64, 96, 48), (33, 50, 17), (1, 1, 1), (31, 5, 40)] {
        Case::new(nests::plain_matmul(m, n, k), &[]).agrees();
        Case::new(nests::matmul(m, n, k), &[]).agrees();
    }
}

#[test]
fn barriers_that_are_removed_are_missed() {
    for case in [Case::new(nests::softmax(), &[1]), Case::new(nests::matmul(33, 50, 17), &[])] {
        for code in case.mutants("bar.sync", |_| String::new()) {
            assert!(matches!(code, "ptxsim::race" | "ptxsim::uninitialised-memory"), "{code}");
        }
    }
}

/// Single bounds of a load may be equivalent where the other factor is masked, or where the place exists by luck; all of
/// them together are not.
#[test]
fn bounds_that_are_too_wide_are_found() {
    let matmul = Case::new(nests::matmul(33, 50, 17), &[]);
    for bound in ["33", "50"] {
        let wider = |line: &str| {
            if line.contains("setp") { line.replace(&format!(", {bound};"), ", 64;") } else { line.to_owned() }
        };
        let text: Vec<String> = matmul.module.text.lines().map(wider).collect();
        let code = matmul.run(&text.join("\n"), 0).map_err(|e| e.code());
        assert_eq!(code, Err("ptxsim::out-of-bounds"), "{bound}");
    }
    let chain = Case::new(nests::element_wise(50), &[1]);
    let text = chain.module.text.replace("setp.lt", "setp.le");
    assert_eq!(chain.run(&text, 0).map_err(|e| e.code()), Err("ptxsim::out-of-bounds"));
}

#[test]
fn stores_that_are_not_masked_are_found() {
    let unmasked = |l: &str| {
        if l.contains("st.global") { l[l.find("st.").expect("it is there")..].to_owned() } else { l.to_owned() }
    };
    for case in [Case::new(nests::element_wise(50), &[1]), Case::new(nests::matmul(33, 50, 17), &[])] {
        let text: Vec<String> = case.module.text.lines().map(unmasked).collect();
        let code = case.run(&text.join("\n"), 0).map_err(|e| e.code());
        assert!(matches!(code, Err("ptxsim::out-of-bounds" | "ptxsim::race")), "{code:?}");
    }
}

/// From Hopper on kernels wait for those before them, in front of all that these may have written.
#[test]
fn waits_that_are_missing_or_late_are_found() {
    let hopper: PtxTarget = "sm_90".parse().expect("a listed target");
    for (kernel, nest) in [nests::softmax(), nests::matmul(33, 50, 17)] {
        let symbols = vec![1; kernel.symbols.len()];
        let module = emit(&nest, &hopper).expect("the nest suits a GPU");
        let inputs = infc_testkit::random_inputs(&kernel, &symbols, 3);
        let case = Case { kernel, nest, module, symbols, inputs };
        case.agrees();
        let wait = "\tgriddepcontrol.wait;\n";
        let text = &case.module.text;
        assert!(case.module.waits && text.matches(wait).count() == 1, "{text}");
        // Behind any access of global memory, or for some threads alone.
        let without = text.replace(wait, "");
        for (start, line) in without.match_indices("\tld.global").chain(without.match_indices("\tst.global")) {
            let end = start + without[start..].find('\n').expect("a line") + 1;
            let late = format!("{}{wait}{}", &without[..end], &without[end..]);
            assert_eq!(case.run(&late, 0).map_err(|e| e.code()), Err("ptxsim::before-wait"), "{line} at {start}");
        }
        let some = text.replace(wait, &format!("\tsetp.eq.u32 %p0, 0, 1;\n\t@%p0 {}", wait.trim_start()));
        assert_eq!(case.run(&some, 0).map_err(|e| e.code()), Err("ptxsim::before-wait"));
    }
}
