//! Every invariant of kernels, broken once.

use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::scalar::{ScalarOp, UnaryOp};
use infc_ir::verify::{ViolationKind, verify_kernel};
use infc_tensor::{DType, Tensor};

fn violations(kernel: &Kernel) -> Vec<ViolationKind> {
    verify_kernel(kernel).expect_err("invalid").violations.into_iter().map(|v| v.kind).collect()
}

/// The violations of a kernel with the usual operands and the given stages and outputs.
fn broken(items: &str) -> Vec<ViolationKind> {
    violations(&kernel(items))
}

fn kernel(items: &str) -> Kernel {
    let head = "kernel @k(x: f32[N, 4], n: i32[4]) -> (y: f32[N, 4]) where N in 1..=8";
    format!("{head} {{ {items} }}").parse().unwrap_or_else(|e| panic!("{e}"))
}

const COPY: &str = "stage o[r: N, c: 4] = x[r, c] output y[r, c] = o[r, c]";

#[test]
fn a_valid_kernel_has_no_violations() {
    assert_eq!(verify_kernel(&kernel(COPY)), Ok(()));
}

#[test]
fn types_are_checked() {
    let mixed = broken("stage o[r: N, c: 4] = x[r, c] + n[c] output y[r, c] = o[r, c]");
    assert!(matches!(mixed[..], [ViolationKind::WrongType { .. }]), "{mixed:?}");
    let exp = broken("stage o[r: N, c: 4] = f32(exp(n[c])) output y[r, c] = o[r, c]");
    assert!(matches!(exp[..], [ViolationKind::UnsupportedType { .. }]), "{exp:?}");
    let saturating = broken("stage o[r: N, c: 4] = f32(sat_i8(n[c])) output y[r, c] = o[r, c]");
    assert!(matches!(saturating[..], [ViolationKind::UnsupportedType { .. }]), "{saturating:?}");
    let output = broken("stage o[r: N, c: 4] = n[c] output y[r, c] = o[r, c]");
    assert!(matches!(output[..], [ViolationKind::WrongType { .. }]), "{output:?}");
    let gathered = broken("stage o[r: N, c: 4] = x[r, {x[r, c]}] output y[r, c] = o[r, c]");
    assert!(matches!(gathered[..], [ViolationKind::UnsupportedType { .. }]), "{gathered:?}");
}

#[test]
fn ranks_are_checked() {
    let load = broken("stage o[r: N, c: 4] = x[r] output y[r, c] = o[r, c]");
    assert_eq!(load, [ViolationKind::WrongCount { what: "indices", expected: 2, found: 1 }]);
    let output = broken("stage o[r: N, c: 4] = x[r, c] output y[r] = o[r, c]");
    assert_eq!(output, [ViolationKind::WrongCount { what: "indices", expected: 2, found: 1 }]);
}

/// An output in the memory of an input, which nothing else may touch.
#[test]
fn what_is_written_onto_is_read_in_its_place_alone() {
    let onto = |value: &str| format!("stage o[r: N, c: 4] = {value} output y[r, c] = o[r, c] onto x");
    assert_eq!(verify_kernel(&kernel(&onto("select(n[c] > 0, x[r, c], 1)"))), Ok(()));
    let refused = |items: &str| {
        let found = broken(items);
        assert!(matches!(found[..], [ViolationKind::NotAllowed { .. }]), "{items}: {found:?}");
    };
    refused(&onto("x[r, c] + x[r, 0]"));
    refused(&onto("x[r, mod(c + 1, 4)]"));
    refused(&onto("(x[r, c] if 1 <= c < 4 else 0)"));
    refused(&onto("x[r, {max(min(n[c], 3), 0)}]"));
    refused("stage s[r: N, c: 4] = x[r, c] stage o[r, c] = s[r, c] output y[r, c] = o[r, c] onto x");
    let mut elsewhere = kernel(&onto("x[r, c]"));
    let place = elsewhere.operands.iter_mut().next().expect("three operands");
    place.layout.offset = 1.into();
    assert!(matches!(violations(&elsewhere)[..], [ViolationKind::NotAllowed { .. }]));
}

#[test]
fn reducers_belong_to_reduction_axes() {
    let without = broken("stage s[r: N, reduce c: 4] = x[r, c] stage o[r, k: 4] = s[r] output y[r, k] = o[r, k]");
    assert!(matches!(without[..], [ViolationKind::Missing { .. }]), "{without:?}");
    let needless = broken("stage s[r: N, c: 4] = fold sum x[r, c] stage o[r, c] = s[r, c] output y[r, c] = o[r, c]");
    assert!(matches!(needless[..], [ViolationKind::NotAllowed { .. }]), "{needless:?}");
    let written = broken("stage s[r: N, k: 4, reduce c: 4] = fold sum x[r, c] output y[r, k] = s[r, k]");
    assert!(matches!(written[..], [ViolationKind::NotAllowed { .. }]), "{written:?}");
    let mut mistyped =
        kernel("stage s[r: N, reduce c: 4] = fold sum x[r, c] stage o[r, k: 4] = s[r] output y[r, k] = o[r, k]");
    let stage = mistyped.stages.iter_mut().next().expect("two stages");
    stage.reducer = Some(infc_ir::kernel::Reducer::sum(DType::F64));
    assert!(matches!(violations(&mistyped)[..], [ViolationKind::WrongType { .. }]));
}

#[test]
fn a_stage_reads_itself_at_earlier_steps_only() {
    let read = |index: &str, axes: &str| {
        kernel(&format!(
            "stage s[{axes}]: f32 = (s[{index}] if 1 <= t < 4 and 1 <= r < N else 0) + x[r, t]
             stage o[r, t] = s[r, t] output y[r, t] = o[r, t]"
        ))
    };
    assert_eq!(verify_kernel(&read("r, t - 1", "r: N, seq t: 4")), Ok(()));
    assert_eq!(verify_kernel(&read("r - 1, t", "seq r: N, t: 4")), Ok(()));
    // Along two sequential axes, a step back along the first allows any step along the second.
    assert_eq!(verify_kernel(&read("r - 1, 3", "seq r: N, seq t: 4")), Ok(()));
    assert_eq!(verify_kernel(&read("r, t - 1", "seq r: N, seq t: 4")), Ok(()));
    for (index, axes) in [
        ("r, t", "r: N, seq t: 4"),
        ("r, t + 1", "r: N, seq t: 4"),
        ("r, t - 1", "r: N, t: 4"),
        ("r + 1, t - 1", "seq r: N, seq t: 4"),
    ] {
        assert_eq!(violations(&read(index, axes)), [ViolationKind::ReadsItself], "{index}");
    }
}

#[test]
fn names_are_unique_and_outputs_written() {
    let mut twice = kernel(COPY);
    twice.operands.iter_mut().for_each(|o| o.name = "o".to_owned());
    let found = violations(&twice);
    assert!(found.contains(&ViolationKind::DuplicateName { name: "o".to_owned() }), "{found:?}");
    assert_eq!(broken("stage o[r: N] = x[r, 0]"), [ViolationKind::NeverWritten { name: "y".to_owned() }]);
    let mut input = kernel(COPY);
    input.operands.iter_mut().for_each(|o| o.kind = OperandKind::Input);
    assert!(matches!(violations(&input)[..], [ViolationKind::NotAllowed { .. }]));
}

#[test]
fn what_does_not_exist_is_reported_without_panic() {
    let mut kernel = kernel(COPY);
    let empty = Kernel { outputs: kernel.outputs.clone(), ..Kernel::default() };
    assert!(matches!(violations(&empty)[..], [ViolationKind::Dangling { .. }]));
    for stage in kernel.stages.iter_mut() {
        stage.axes.clear();
        stage.results = vec![infc_ir::entity::ScalarId(9)];
    }
    let found = violations(&kernel);
    assert!(found.iter().any(|v| matches!(v, ViolationKind::VariableOutOfScope { .. })), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, ViolationKind::Dangling { .. })), "{found:?}");
    // Printing survives it, too.
    assert!(kernel.to_string().contains("v9"));
}

#[test]
fn ranges_extents_and_divisors_are_checked() {
    let parse = |text: &str| text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}"));
    let empty = parse("kernel @k(x: f32[N]) where N in 4..=2 {}");
    assert_eq!(violations(&empty), [ViolationKind::BadRange { name: "N".to_owned() }]);
    let negative = parse("kernel @k(x: f32[N - 9]) where N in 0..=2 {}");
    assert!(matches!(violations(&negative)[..], [ViolationKind::NegativeExtent { .. }]));
    let zero = parse("kernel @k(x: f32[div(7, N)]) where N in 0..=0 {}");
    assert!(matches!(violations(&zero)[..], [ViolationKind::BadDivisor { .. }, ..]));
    let halo = parse("kernel @k(x: f32[4] layout(halo [-1:0])) {}");
    assert!(matches!(violations(&halo)[..], [ViolationKind::NotAllowed { .. }]));
}

#[test]
fn operations_that_stand_on_themselves_are_reported() {
    let mut kernel = kernel("stage a[r: N, c: 4] = -x[r, c] stage o[r, c] = -a[r, c] output y[r, c] = o[r, c]");
    for stage in kernel.stages.iter_mut() {
        let root = stage.results[0];
        stage.body.ops[root] = ScalarOp::Unary(UnaryOp::Neg, root);
    }
    let found = violations(&kernel);
    assert_eq!(found.iter().filter(|v| matches!(v, ViolationKind::OutOfOrder { .. })).count(), 2, "{found:?}");
    // Printing and interpreting survive it, too.
    assert!(!kernel.to_string().is_empty());
    let inputs = [Tensor::zeros(DType::F32, &[1, 4]), Tensor::zeros(DType::I32, &[4])].map(|t| t.expect("small"));
    assert!(run_kernel(&kernel, &[1], &inputs).is_err());
}
