//! File tests: a command, IR text, and what is expected, in one file.
//!
//! ```text
//! test interpret
//!
//! kernel @double(x: f32[N]) -> (y: f32[N]) where N in 0.. { … }
//!
//! // run N = 2
//! //   x = 1 0.5
//! //   y == 2 1
//! ```
//!
//! A run gives the symbols, then one line per operand in row-major order: `=` for inputs, `==` for outputs that must be
//! exact, `~` for outputs within a few roundings of their type.

use crate::inputs::operand_shape;
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::scalar::Const;
use infc_tensor::{AlignedBytes, DType, Tensor};

/// One file.
#[derive(Clone, Debug)]
pub struct FileTest {
    /// The name of the file.
    pub name: String,
    /// What follows `test` in the first line.
    pub command: String,
    /// All that follows the first line; the number of lines is kept.
    pub text: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// One evaluation.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The line, from 1.
    pub line: usize,
    /// Values of symbols by name.
    pub symbols: Vec<(String, i64)>,
    /// Elements of operands by name.
    pub inputs: Vec<(String, Vec<f64>)>,
    /// What the outputs must be.
    pub outputs: Vec<Expectation>,
}

/// What one output must be.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The operand.
    pub name: String,
    /// Its elements.
    pub elements: Vec<f64>,
    /// To the last bit.
    pub exact: bool,
}

impl FileTest {
    /// Reads a file.
    ///
    /// # Panics
    /// If the first line is no command or a run cannot be read; the message says where.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        let (first, _) = text.split_once('\n').unwrap_or((text, ""));
        let command = first.strip_prefix("test ");
        let command = command.unwrap_or_else(|| panic!("{name}: the first line is not `test COMMAND`")).trim();
        let mut runs: Vec<Run> = Vec::new();
        let mut open = false;
        for (n, line) in text.lines().enumerate() {
            let Some(comment) = line.trim().strip_prefix("//") else {
                open = false;
                continue;
            };
            let fail = |what: &str| -> ! { panic!("{name}:{}: {what}", n + 1) };
            if let Some(symbols) = comment.trim().strip_prefix("run") {
                let symbols = symbols.split(',').filter(|s| !s.trim().is_empty()).map(|assignment| {
                    let (symbol, value) = assignment.split_once('=').unwrap_or_else(|| fail("expected SYMBOL = VALUE"));
                    let value = value.trim().parse().unwrap_or_else(|_| fail("expected a whole number"));
                    (symbol.trim().to_owned(), value)
                });
                runs.push(Run { line: n + 1, symbols: symbols.collect(), ..Run::default() });
                open = true;
            } else if let (true, Some(run)) = (open, runs.last_mut()) {
                let (left, right) = comment.split_once(['=', '~']).unwrap_or_else(|| fail("expected = or == or ~"));
                let exact = right.starts_with('=');
                let elements = right.trim_start_matches('=').split_whitespace();
                let elements = elements.map(|e| e.parse().unwrap_or_else(|_| fail("expected a number"))).collect();
                let name = left.trim().to_owned();
                if exact || comment.contains('~') {
                    run.outputs.push(Expectation { name, elements, exact });
                } else {
                    run.inputs.push((name, elements));
                }
            }
        }
        let text = format!("\n{}", text.split_once('\n').map_or("", |(_, rest)| rest));
        Self { name: name.to_owned(), command: command.to_owned(), text, runs }
    }

    /// The kernel in the file.
    ///
    /// # Panics
    /// If it does not parse.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.text.parse().unwrap_or_else(|e| panic!("{}.infc:{e}", self.name))
    }

    /// Interprets the kernel for every run and compares.
    ///
    /// # Panics
    /// If anything differs.
    pub fn interpret(&self) {
        let kernel = self.kernel();
        for run in &self.runs {
            let place = format!("{}.infc:{}", self.name, run.line);
            let symbols = run.symbol_values(&kernel, &place);
            let inputs = run.input_tensors(&kernel, &symbols, &place);
            let outputs = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{place}: {e}"));
            run.check(&kernel, &outputs, &place);
        }
    }
}

impl Run {
    /// The values of the kernel's symbols.
    ///
    /// # Panics
    /// If one is missing.
    #[must_use]
    pub fn symbol_values(&self, kernel: &Kernel, place: &str) -> Vec<i64> {
        let value = |name: &str| self.symbols.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        let values = kernel.symbols.iter().map(|s| value(&s.name));
        values.map(|v| v.unwrap_or_else(|| panic!("{place}: a symbol has no value"))).collect()
    }

    /// The inputs in operand order.
    ///
    /// # Panics
    /// If one is missing or has another number of elements.
    #[must_use]
    pub fn input_tensors(&self, kernel: &Kernel, symbols: &[i64], place: &str) -> Vec<Tensor> {
        let inputs = kernel.operands.iter().filter(|o| o.kind != OperandKind::Output);
        inputs
            .map(|operand| {
                let given = self.inputs.iter().find(|(n, _)| *n == operand.name);
                let (_, elements) = given.unwrap_or_else(|| panic!("{place}: no input `{}`", operand.name));
                tensor(operand.dtype, &operand_shape(operand, symbols), elements)
            })
            .collect()
    }

    fn check(&self, kernel: &Kernel, outputs: &[Tensor], place: &str) {
        let operands: Vec<_> = kernel.operands.iter().filter(|o| o.kind == OperandKind::Output).collect();
        assert_eq!(self.outputs.len(), operands.len(), "{place}: outputs checked");
        for (operand, output) in operands.iter().zip(outputs) {
            let expected = self.outputs.iter().find(|e| e.name == operand.name);
            let expected = expected.unwrap_or_else(|| panic!("{place}: output `{}` is not checked", operand.name));
            let found: Vec<f64> = (0..output.len_elems()).filter_map(|i| output.get_f64(i)).collect();
            assert_eq!(found.len(), expected.elements.len(), "{place}: elements of `{}`", operand.name);
            let bound = if expected.exact { 0.0 } else { rounding(operand.dtype) };
            for (i, (&a, &b)) in found.iter().zip(&expected.elements).enumerate() {
                let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound * (1.0 + b.abs());
                assert!(same, "{place}: `{}` is {a} at {i}, expected {b}", operand.name);
            }
        }
    }
}

/// What `~` allows: a few roundings.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F16 => 1e-3,
        DType::BF16 => 1e-2,
        _ => 1e-6,
    }
}

fn tensor(dtype: DType, shape: &[usize], elements: &[f64]) -> Tensor {
    let size = dtype.size_bytes().expect("whole bytes");
    let mut bytes = AlignedBytes::zeroed(elements.len() * size);
    for (to, &x) in bytes.chunks_exact_mut(size).zip(elements) {
        to.copy_from_slice(&Const::from_f64(dtype, x).bits.to_le_bytes()[..size]);
    }
    Tensor::from_bytes(dtype, shape.to_vec(), bytes).expect("as many elements as the shape has")
}
