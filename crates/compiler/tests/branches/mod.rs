//! Choices that are made when a model runs: branches that differ in size, and what each takes for granted.

use super::net::{self, Attr, Net};
use super::{counting, ints, truth};
use infc::CompileOptions;
use infc_runtime::{Session, Tensor};
use infc_tensor::DType;

/// Branches of an `If` whose results differ in size, and a result that is a whole input in one and a part of it in the other:
/// kernels copy what is taken, and only its size is read.
#[test]
fn branches_may_differ_in_size() {
    let then =
        Net::new(17).node("Slice", &["x", "zero", "k", "zero"], &["part"], &[]).node("Neg", &["part"], &["a"], &[]);
    let otherwise = Net::new(17).node("Concat", &["x", "x"], &["b"], &[("axis", Attr::Int(0))]);
    let (then, otherwise) = (then.output("a").graph(), otherwise.output("b").graph());
    let net = || {
        let net = Net::new(17).input("x", DType::F32, &["N", "3"]).input("k", DType::I64, &["1"]);
        let net = net.constant("zero", &ints(&[0])).constant("none", &Tensor::scalar(0f32));
        let net = net.node("ReduceSum", &["x"], &["sum"], &[("keepdims", Attr::Int(0))]);
        let net = net.node("Greater", &["sum", "none"], &["positive"], &[]);
        let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
        let net = net.node("If", &["positive"], &["chosen"], &branches);
        net.node("Add", &["chosen", "sum"], &["y"], &[]).output("y").output("chosen")
    };
    let deny = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
    let report = net().compile(&deny).unwrap_or_else(|e| panic!("{e}")).report;
    assert!(!report.told_sizes.is_empty() && report.on_host.is_empty());
    let mut session = net().session();
    for (rows, k, sign) in
        [(4, 2i64, 1.0f32), (4, 2, -1.0), (1, 1, 1.0), (1, 9, -1.0), (5, 0, 1.0), (3, -1, 1.0), (0, 1, 1.0)]
    {
        let x: Vec<f32> = (0..rows * 3).map(|n| sign * (n + 1) as f32).collect();
        let sum: f32 = x.iter().sum();
        let input = Tensor::from_elements(&[rows, 3], &x).expect("all");
        let outputs = session.run_owned(&[&input, &ints(&[k])]).unwrap_or_else(|e| panic!("{rows} rows, {k}: {e}"));
        let taken = if k < 0 { (rows as i64 + k).max(0) } else { k.min(rows as i64) } as usize;
        let expected: Vec<f32> = match sum > 0.0 {
            true => x[..taken * 3].iter().map(|x| -x).collect(),
            false => x.iter().chain(&x).copied().collect(),
        };
        assert_eq!(outputs[1].shape(), [expected.len() / 3, 3], "{rows} rows, {k}");
        assert_eq!(outputs[1].elements::<f32>().expect("floats"), expected);
        let moved: Vec<f32> = expected.iter().map(|x| x + sum).collect();
        assert_eq!(outputs[0].elements::<f32>().expect("floats"), moved);
    }
}

/// What says which branch is taken is kept until the last branch has asked for it, also where something of its kind and size
/// follows from it.
#[test]
fn conditions_are_kept_for_branches() {
    let branch = |op: &str, x: &str| Net::new(17).node(op, &[x], &["r"], &[]).output("r").graph();
    let (sine, cosine, root, negated) =
        (branch("Sin", "a"), branch("Cos", "a"), branch("Abs", "b"), branch("Neg", "b"));
    let net =
        Net::new(17).input("x", DType::F32, &[]).input("a", DType::F32, &["3"]).input("b", DType::F32, &["M", "2"]);
    let net = net.node("IsNaN", &["x"], &["none"], &[]).node("Not", &["none"], &["number"], &[]);
    let of = |net: Net, condition: &str, y: &str, then: &_, otherwise: &_| {
        net.node(
            "If",
            &[condition],
            &[y],
            &[("then_branch", Attr::Graph(then)), ("else_branch", Attr::Graph(otherwise))],
        )
    };
    let net = of(net, "none", "first", &sine, &cosine);
    let mut session = of(net, "number", "second", &root, &negated).output("first").output("second").session();
    let (a, b) = (counting(&[3]), Tensor::from_elements(&[1, 2], &[-1.5f32, 2.0]).expect("two"));
    for (x, second) in [(1.75, [1.5f32, 2.0]), (f32::NAN, [1.5, -2.0])] {
        let outputs = session.run_owned(&[&Tensor::scalar(x), &a, &b]).unwrap_or_else(|e| panic!("{x}: {e}"));
        let expected = a.elements::<f32>().expect("floats");
        let expected = expected.iter().map(|a| if x.is_nan() { a.sin() } else { a.cos() });
        for (found, expected) in outputs[0].elements::<f32>().expect("floats").iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{x}: {found}, not {expected}");
        }
        assert_eq!(outputs[1].elements::<f32>().expect("floats"), second, "{x}");
    }
}

/// The net with `if chosen` behind it, whose branches are graphs of one output; that of the net is `y`.
fn choosing(net: Net, then: Net, otherwise: Net) -> Session {
    let (then, otherwise) = (then.graph(), otherwise.graph());
    let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
    net.input("chosen", DType::Bool, &[]).node("If", &["chosen"], &["y"], &branches).output("y").session()
}

/// A decoder with a cache and one without it in one model, as exporters merge them: the mask is as long as all that is known in
/// one branch, and as long as what is new in the other.
#[test]
fn a_mask_is_as_long_as_the_branch_wants_it() {
    let net = Net::new(17)
        .input("new", DType::F32, &["N", "S", "2"])
        .input("past", DType::F32, &["N", "P", "2"])
        .input("mask", DType::F32, &["N", "T"])
        .constant("last", &ints(&[2]));
    let masked = |net: Net, keys: &str| {
        let net = net.node("ReduceSum", &[keys, "last"], &["sums"], &[("keepdims", Attr::Int(0))]);
        net.node("Add", &["sums", "mask"], &["masked"], &[]).output("masked")
    };
    let behind = Net::new(17).node("Concat", &["past", "new"], &["all"], &[("axis", Attr::Int(1))]);
    let mut session = choosing(net, masked(behind, "all"), masked(Net::new(17), "new"));
    for (batch, new, past, has_past) in
        [(2, 3, 5, true), (2, 3, 1, false), (1, 1, 4, true), (1, 9, 0, false), (3, 4, 0, true), (1, 1, 1, false)]
    {
        let total = new + if has_past { past } else { 0 };
        let (fresh, old, mask) = (counting(&[batch, new, 2]), counting(&[batch, past, 2]), counting(&[batch, total]));
        let inputs = [&fresh, &old, &mask, &truth(has_past)];
        let found = session.run_owned(&inputs).unwrap_or_else(|e| panic!("{new} behind {past}, {has_past}: {e}"));
        let sum = |row: usize, rows: usize, at: usize| (2 * (2 * (row * rows + at)) + 1) as f32;
        let expected = (0..batch * total).map(|n| {
            let (row, at) = (n / total, n % total);
            let key = match at.checked_sub(past).filter(|_| has_past) {
                _ if !has_past => sum(row, new, at),
                None => sum(row, past, at),
                Some(at) => sum(row, new, at),
            };
            key + n as f32
        });
        assert_eq!(found[0].elements::<f32>().expect("floats"), expected.collect::<Vec<_>>());
        // The mask that the other branch would want.
        let other = new + if has_past { 0 } else { past };
        if other != total && other != 1 && total != 1 {
            let mask = counting(&[batch, other]);
            let error = session.run_owned(&[&fresh, &old, &mask, &truth(has_past)]).expect_err("another length");
            assert!(error.to_string().contains("broadcast extents of `masked`"), "{error}");
        }
    }
}

/// What a condition says of dims is known in the branch that is taken where it holds, and asked of nobody else.
#[test]
fn a_condition_on_dims_tells_its_branch() {
    let net = || Net::new(17).input("x", DType::F32, &["N"]).constant("four", &counting(&[4]));
    let add = || Net::new(17).node("Add", &["x", "four"], &["sum"], &[]).output("sum").graph();
    let negate = || Net::new(17).node("Neg", &["x"], &["less"], &[]).output("less").graph();
    for is_inverted in [false, true] {
        let net = net().constant("zero", &ints(&[0])).constant("size", &ints(&[4])).constant("row", &ints(&[]));
        let net = net.node("Shape", &["x"], &["shape"], &[]).node("Gather", &["shape", "zero"], &["extent"], &[]);
        let net = net.node("Equal", &["extent", "size"], &["is four"], &[]);
        let net = net.node("Not", &["is four"], &["is not four"], &[]);
        let condition = if is_inverted { "is not four" } else { "is four" };
        let (then, otherwise) = if is_inverted { (negate(), add()) } else { (add(), negate()) };
        let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
        let net = net.node("Reshape", &[condition, "row"], &["condition"], &[]);
        let mut session = net.node("If", &["condition"], &["y"], &branches).output("y").session();
        for n in [4, 1, 3, 5, 0, 33] {
            let found = session.run_owned(&[&counting(&[n])]).unwrap_or_else(|e| panic!("{n}: {e}"));
            let expected: Vec<f32> = (0..n).map(|i| if n == 4 { 2.0 * i as f32 } else { -(i as f32) }).collect();
            assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{n}");
        }
    }
}

/// Extents that a branch would have where it is not taken may be less than none, or of no number; those of the one that is taken
/// may not.
#[test]
fn extents_of_a_branch_that_is_not_taken_are_none() {
    let net = Net::new(17).input("x", DType::F32, &["1", "1", "L"]);
    let pooled = Net::new(17).node("MaxPool", &["x"], &["p"], &[("kernel_shape", Attr::Ints(&[5]))]);
    let twice = Net::new(17).node("Concat", &["x", "x"], &["q"], &[("axis", Attr::Int(2))]);
    let mut session = choosing(net, pooled.node("Neg", &["p"], &["r"], &[]).output("r"), twice.output("q"));
    for len in [1, 4, 5, 6, 2, 40] {
        let x = counting(&[1, 1, len]);
        assert_eq!(session.run_owned(&[&x, &truth(false)]).expect("twice")[0].shape(), [1, 1, 2 * len]);
        let found = session.run_owned(&[&x, &truth(true)]);
        if len < 5 {
            // Of four there would be none, which nobody pools either.
            assert!(len == 4 || found.is_err(), "{len}");
            continue;
        }
        let expected: Vec<f32> = (4..len).map(|i| -(i as f32)).collect();
        assert_eq!(found.expect("long enough")[0].elements::<f32>().expect("floats"), expected);
    }

    // As many columns as there are elements for each row, of no rows.
    let net = Net::new(17).input("x", DType::F32, &["M"]).input("rows", DType::F32, &["N"]);
    let net = net.constant("any", &ints(&[-1])).constant("axis", &ints(&[1]));
    let net = net.node("Shape", &["rows"], &["count"], &[]);
    let net = net.node("Concat", &["count", "any"], &["target"], &[("axis", Attr::Int(0))]);
    let matrix = Net::new(17).node("Reshape", &["x", "target"], &["matrix"], &[]);
    let sums = matrix.node("ReduceSum", &["matrix", "axis"], &["sums"], &[("keepdims", Attr::Int(0))]).output("sums");
    let negated = Net::new(17).node("Neg", &["rows"], &["negated"], &[]).output("negated");
    let mut session = choosing(net, sums, negated);
    for (m, n, is_matrix) in [(6, 2, true), (6, 0, false), (7, 3, false), (0, 0, false), (12, 4, true)] {
        let inputs = [&counting(&[m]), &counting(&[n]), &truth(is_matrix)];
        let found = session.run_owned(&inputs).unwrap_or_else(|e| panic!("{m} as {n}: {e}"));
        let row = |at: usize| (0..m / n).map(|i| (at * (m / n) + i) as f32).sum();
        let expected: Vec<f32> = (0..n).map(|at| if is_matrix { row(at) } else { -(at as f32) }).collect();
        assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{m} as {n}");
    }
    assert!(session.run_owned(&[&counting(&[7]), &counting(&[3]), &truth(true)]).is_err());
}

/// Numbers that are computed for a branch need not be in their ranges where it is not taken.
#[test]
fn numbers_of_a_branch_that_is_not_taken_are_of_no_matter() {
    let net = Net::new(17).input("k", DType::I64, &["1"]).constant("five", &ints(&[5]));
    let less = Net::new(17).node("Sub", &["k", "five"], &["less"], &[]);
    let less = less.node("ConstantOfShape", &["less"], &["few"], &[]).output("few");
    let all = Net::new(17).node("ConstantOfShape", &["k"], &["many"], &[]).output("many");
    let mut session = choosing(net, less, all);
    for (k, is_less, expected) in
        [(9, true, Some(4)), (2, false, Some(2)), (5, true, Some(0)), (0, false, Some(0)), (2, true, None)]
    {
        let found = session.run_owned(&[&ints(&[k]), &truth(is_less)]);
        assert_eq!(found.ok().map(|outputs| outputs[0].shape()[0]), expected, "{k}");
    }
}

/// A branch within a branch, of whose assumptions each is asked where that one is taken.
#[test]
fn branches_within_branches_ask_for_themselves() {
    let row = |n: usize| counting(&[n]);
    let net = Net::new(17).input("x", DType::F32, &["N"]).input("inner", DType::Bool, &[]);
    let net = net.constant("three", &row(3)).constant("four", &row(4));
    let sum = |of: &str| Net::new(17).node("Add", &["x", of], &["sum"], &[]).output("sum");
    let twice = Net::new(17).node("Add", &["x", "x"], &["twice"], &[]).output("twice").graph();
    let four = sum("four").graph();
    let branches = [("then_branch", Attr::Graph(&four)), ("else_branch", Attr::Graph(&twice))];
    let chosen = Net::new(17).node("If", &["inner"], &["nested"], &branches).output("nested");
    let mut session = choosing(net, chosen, sum("three"));
    for n in [3, 4, 6] {
        for (outer, inner) in [(true, true), (true, false), (false, true), (false, false)] {
            let found = session.run_owned(&[&row(n), &truth(inner), &truth(outer)]);
            let fits = match (outer, inner) {
                (true, true) => n == 4,
                (true, false) => true,
                (false, _) => n == 3,
            };
            let found = found.ok().map(|outputs| outputs[0].elements::<f32>().expect("floats").to_vec());
            let expected = fits.then(|| (0..n).map(|i| 2.0 * i as f32).collect::<Vec<f32>>());
            assert_eq!(found, expected, "{n}: {outer}, {inner}");
        }
    }
}

/// The shape of what a branch computes relies on what that branch takes for granted, though nobody reads the values.
#[test]
fn shapes_of_what_nobody_reads_rely_on_their_branch() {
    let net = Net::new(17).input("x", DType::F32, &["N"]).input("y", DType::F32, &["K"]);
    let net = net.input("chosen", DType::Bool, &[]);
    let then = Net::new(17).node("Sub", &["x", "y"], &["less"], &[]).output("less").graph();
    let otherwise = Net::new(17).node("Identity", &["x"], &["same"], &[]).output("same").graph();
    let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
    let net = net.node("If", &["chosen"], &["result"], &branches);
    let mut session = net.node("Shape", &["result"], &["y shape"], &[]).output("y shape").session();
    for (n, k) in [(1, 4), (4, 1), (3, 3), (0, 1), (2, 5)] {
        for is_chosen in [true, false] {
            let found = session.run_owned(&[&counting(&[n]), &counting(&[k]), &truth(is_chosen)]);
            let expected = match (is_chosen, n, k) {
                (false, ..) => Some(n),
                (true, 1, other) | (true, other, 1) => Some(other),
                (true, ..) => (n == k).then_some(n),
            };
            let found = found.ok().map(|outputs| outputs[0].elements::<i64>().expect("extents")[0]);
            assert_eq!(found, expected.map(|extent| extent as i64), "{n} and {k}, {is_chosen}");
        }
    }
}

/// Where a condition is that dims are equal, the extents of what it chooses follow from them: an image is padded where it is not
/// as high as another one.
#[test]
fn a_condition_on_dims_tells_extents() {
    let pads = ints(&[0, 0, 0, 0, 0, 0, 1, 0]);
    let halved = [("kernel_shape", Attr::Ints(&[2, 2])), ("strides", Attr::Ints(&[2, 2]))];
    let net = Net::new(17)
        .input("x", DType::F32, &["1", "1", "H", "4"])
        .constant("pads", &pads)
        .constant("scales", &Tensor::from_elements(&[4], &[1.0f32, 1.0, 2.0, 2.0]).expect("four"))
        .constant("row", &ints(&[]))
        .node("MaxPool", &["x"], &["half"], &halved)
        .node(
            "Resize",
            &["half", "", "scales"],
            &["whole"],
            &[("coordinate_transformation_mode", Attr::Text("asymmetric"))],
        )
        .node("Shape", &["x"], &["own height"], &[("start", Attr::Int(2)), ("end", Attr::Int(3))])
        .node("Shape", &["whole"], &["height"], &[("start", Attr::Int(2)), ("end", Attr::Int(3))])
        .node("Equal", &["own height", "height"], &["are equal"], &[])
        .node("Reshape", &["are equal", "row"], &["fits"], &[]);
    let then = Net::new(17).node("Identity", &["whole"], &["same"], &[]).output("same").graph();
    let otherwise = Net::new(17).node("Pad", &["whole", "pads"], &["padded"], &[]).output("padded").graph();
    let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
    let net = net.node("If", &["fits"], &["fitting"], &branches);
    let net = net.node("Concat", &["x", "fitting"], &["y"], &[("axis", Attr::Int(1))]).output("y");
    let compilation = net.compile(&CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(compilation.report.told_sizes.is_empty(), "dims tell them");
    let mut session = net::session(&compilation);
    for height in [4, 5, 2, 7, 3] {
        let x = counting(&[1, 1, height, 4]);
        let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{height}: {e}")).remove(0);
        assert_eq!(found.shape(), [1, 2, height, 4]);
        let found = found.elements::<f32>().expect("floats");
        for (n, &value) in found[height * 4..].iter().enumerate() {
            let (row, column) = (n / 4, n % 4);
            let is_padded = row >= height / 2 * 2;
            let expected = if is_padded { 0 } else { (row / 2 * 2 + 1) * 4 + column / 2 * 2 + 1 };
            assert_eq!(value, expected as f32, "{height}: {row}, {column}");
        }
    }
}

/// Of tensors without elements an assumption says less than what was concluded of it: the extents that a branch sees are asked for.
#[test]
fn what_a_branch_concludes_is_asked() {
    let net = Net::new(17)
        .input("x", DType::F32, &["N", "A"])
        .input("w", DType::F32, &["N"])
        .input("p", DType::F32, &["A"])
        .input("q", DType::F32, &["B"])
        .constant("any", &ints(&[-1]))
        .constant("rows", &ints(&[0]));
    let then = Net::new(17)
        .node("Reshape", &["x", "any"], &["flat"], &[])
        .node("Shape", &["w"], &["first"], &[])
        .node("Shape", &["q"], &["second"], &[])
        .node("Concat", &["first", "second"], &["target"], &[("axis", Attr::Int(0))])
        .node("Reshape", &["flat", "target"], &["matrix"], &[])
        .node("ReduceSum", &["matrix", "rows"], &["sums"], &[("keepdims", Attr::Int(0))])
        .node("Add", &["p", "q"], &["sum"], &[])
        .node("Add", &["sum", "sums"], &["all"], &[])
        .output("all");
    let otherwise = Net::new(17).node("Neg", &["p"], &["less"], &[]).output("less");
    let mut session = choosing(net, then, otherwise);
    for (n, a, b) in [(2, 3, 3), (0, 3, 3), (0, 3, 5), (0, 5, 3), (1, 4, 2)] {
        let inputs = [counting(&[n, a]), counting(&[n]), counting(&[a]), counting(&[b])];
        let mut run = |holds: bool| {
            let condition = truth(holds);
            let inputs: Vec<&Tensor> = inputs.iter().chain([&condition]).collect();
            session.run_owned(&inputs).map(|found| found[0].elements::<f32>().expect("floats").to_vec())
        };
        let expected: Vec<f32> = (0..a).map(|i| -(i as f32)).collect();
        assert_eq!(run(false).unwrap_or_else(|e| panic!("{n}, {a}, {b}: {e}")), expected);
        let sums = (0..a).map(|i| (0..n).map(|row| (row * a + i) as f32).sum::<f32>() + 2.0 * i as f32);
        assert_eq!(run(true).ok(), (a == b).then(|| sums.collect()), "{n}, {a}, {b}");
    }
}

/// What is put in front of a truth about dims says nothing of them.
#[test]
fn a_condition_that_is_padded_tells_nothing_of_dims() {
    let yes = truth(true);
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .input("front", DType::F32, &["M"])
        .constant("four", &counting(&[4]))
        .constant("size", &ints(&[4]))
        .constant("zero", &ints(&[0]))
        .constant("at", &Tensor::scalar(0i64))
        .constant("yes", &yes)
        .node("Shape", &["x"], &["extent"], &[])
        .node("Equal", &["extent", "size"], &["is four"], &[])
        .node("Shape", &["front"], &["count"], &[])
        .node("Concat", &["count", "zero"], &["pads"], &[("axis", Attr::Int(0))])
        .node("Pad", &["is four", "pads", "yes"], &["padded"], &[])
        .node("Gather", &["padded", "at"], &["condition"], &[]);
    let then = Net::new(17).node("Add", &["x", "four"], &["sum"], &[]).output("sum").graph();
    let otherwise = Net::new(17).node("Neg", &["x"], &["less"], &[]).output("less").graph();
    let branches = [("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))];
    let mut session = net.node("If", &["condition"], &["y"], &branches).output("y").session();
    for (n, front) in [(4, 0), (4, 1), (3, 0), (2, 1), (9, 2)] {
        let found = session.run_owned(&[&counting(&[n]), &counting(&[front])]);
        let found = found.ok().map(|outputs| outputs[0].elements::<f32>().expect("floats").to_vec());
        let expected: Option<Vec<f32>> = match (n == 4, front > 0) {
            (true, _) => Some((0..n).map(|i| 2.0 * i as f32).collect()),
            (false, false) => Some((0..n).map(|i| -(i as f32)).collect()),
            // The sum of what does not fit.
            (false, true) => None,
        };
        assert_eq!(found, expected, "{n}, {front}");
    }
}

/// Sizes of a branch that is not taken need not make sense to each other, nor extents that it takes inputs to have.
#[test]
fn steps_of_a_branch_that_is_not_taken_need_not_fit() {
    let pooled = |net: Net, of: &str, kernel: &[i64]| {
        net.node("MaxPool", &[of], &["p"], &[("kernel_shape", Attr::Ints(kernel))])
    };
    let net = || Net::new(17).input("x", DType::F32, &["1", "1", "N"]).input("z", DType::F32, &["1", "1", "M"]);
    let negated = || Net::new(17).node("Neg", &["x"], &["less"], &[]).output("less");
    let axis = [("axis", Attr::Int(2))];
    let twice = pooled(Net::new(17).node("Concat", &["z", "z"], &["twice"], &axis), "twice", &[6]);
    let sum = twice.node("Add", &["x", "p"], &["sum"], &[]).output("sum");
    let behind = pooled(Net::new(17), "z", &[5]);
    let behind = behind.node("Exp", &["p"], &["e"], &[]).node("Concat", &["x", "e"], &["all"], &axis).output("all");
    for (then, sum) in [(sum, true), (behind, false)] {
        let mut session = choosing(net(), then, negated());
        for (n, m) in [(7, 1), (1, 1), (3, 4), (1, 2), (7, 6), (2, 5)] {
            let inputs = [counting(&[1, 1, n]), counting(&[1, 1, m])];
            let found = session.run_owned(&[&inputs[0], &inputs[1], &truth(false)]);
            let found = found.unwrap_or_else(|e| panic!("{n}, {m}, {sum}: {e}"));
            let expected: Vec<f32> = (0..n).map(|i| -(i as f32)).collect();
            assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{n}, {m}, {sum}");
            let found = session.run_owned(&[&inputs[0], &inputs[1], &truth(true)]);
            let fits = if sum { 2 * m > 5 && (n == 2 * m - 5 || n == 1 || 2 * m - 5 == 1) } else { m >= 5 };
            assert!(found.is_ok() == fits || (!sum && m == 4), "{n}, {m}, {sum}: {found:?}");
        }
    }
}
