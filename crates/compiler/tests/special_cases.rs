//! `--specialize`: code for single values of dynamic dims beside the general one, in one artifact.

#[path = "special_cases/differ.rs"]
mod differ;
mod net;

use infc::{Compilation, CompileOptions, DimChoice};
use infc_runtime::{LoadOptions, Model, Session, SessionOptions, Tensor};
use infc_tensor::DType;
use net::{Attr, Net, session};

fn floats(shape: &[usize], seed: usize) -> Tensor {
    let len: usize = shape.iter().product();
    let elements: Vec<f32> = (0..len).map(|n| ((n * 7919 + seed * 31) % 257) as f32 / 64.0 - 2.0).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

fn specialized(values: &[(&str, &[i64])]) -> CompileOptions {
    let specialize = values.iter().map(|(name, values)| ((*name).to_owned(), values.to_vec())).collect();
    CompileOptions { specialize, ..CompileOptions::default() }
}

fn fixed(dims: &[(&str, i64)]) -> CompileOptions {
    let dims = dims.iter().map(|(name, value)| ((*name).to_owned(), DimChoice::Fixed(*value))).collect();
    CompileOptions { dims, ..CompileOptions::default() }
}

/// Two dense layers with a softmax over what comes out, of `N` rows, and beside them a look-up that knows nothing of
/// `N`.
fn layers() -> Net {
    Net::new(18)
        .input("x", DType::F32, &["N", "48"])
        .input("z", DType::F32, &["S", "16"])
        .constant("w1", &floats(&[48, 64], 1))
        .constant("w2", &floats(&[64, 40], 2))
        .constant("b", &floats(&[40], 3))
        .node("MatMul", &["x", "w1"], &["h"], &[])
        .node("Relu", &["h"], &["r"], &[])
        .node("MatMul", &["r", "w2"], &["m"], &[])
        .node("Add", &["m", "b"], &["a"], &[])
        .node("Softmax", &["a"], &["y"], &[("axis", Attr::Int(-1))])
        .node("Exp", &["z"], &["e"], &[])
        .output("y")
        .output("e")
}

fn compiled(net: Net, options: &CompileOptions) -> Compilation {
    net.compile(options).unwrap_or_else(|error| panic!("{error}"))
}

fn bytes(compilation: &Compilation) -> Vec<u8> {
    compilation.to_bytes().expect("an artifact")
}

fn case(session: &Session, model: &Model) -> String {
    model.manifest().special_case_text(session.entry_in_use()).unwrap_or_default()
}

#[test]
fn a_run_takes_the_case_that_its_inputs_fit() {
    let compilation = compiled(layers(), &specialized(&[("N", &[8, 1])]));
    let model = Model::from_vec(bytes(&compilation)).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    assert_eq!(session.entry().name, "main");
    let z = floats(&[3, 16], 9);
    for (n, expected) in [(1, "N=1"), (2, ""), (8, "N=8"), (7, ""), (1, "N=1"), (8, "N=8"), (0, "")] {
        let x = floats(&[n, 48], n);
        let found = session.run_owned(&[&x, &z]).expect("runs");
        assert_eq!(case(&session, &model), expected, "N = {n}");
        // The same bits as an artifact that is for this value, or for all values, alone.
        let alone = if expected.is_empty() { CompileOptions::default() } else { fixed(&[("N", n as i64)]) };
        let mut alone = net::session(&compiled(layers(), &alone));
        assert_eq!(found, alone.run_owned(&[&x, &z]).expect("runs"), "N = {n}");
        assert_eq!(session.output_shapes(&[&[n, 48], &[3, 16]]).expect("shapes"), [vec![n, 40], vec![3, 16]]);
    }
    let options = SessionOptions { general_only: true, ..SessionOptions::default() };
    let mut general = model.session(&options).expect("a session");
    general.run_owned(&[&floats(&[1, 48], 1), &z]).expect("runs");
    assert_eq!(general.entry_in_use(), 0);
    // A case is an entry by itself, which takes nothing else.
    let options = SessionOptions { entry: Some("main[N=8]".to_owned()), ..SessionOptions::default() };
    let mut eight = model.session(&options).expect("a session");
    eight.run_owned(&[&floats(&[8, 48], 1), &z]).expect("runs");
    assert_eq!(eight.run_owned(&[&floats(&[7, 48], 1), &z]).expect_err("7 rows").code(), "runtime::wrong-shape");
    assert_eq!(session.run_owned(&[&floats(&[8, 47], 1), &z]).expect_err("47").code(), "runtime::wrong-shape");
}

#[test]
fn every_variant_has_the_cases() {
    let compilation = compiled(layers(), &specialized(&[("N", &[1])]));
    let file = bytes(&compilation);
    let (x, z) = (floats(&[1, 48], 4), floats(&[2, 16], 9));
    for target in infc::DEFAULT_TARGETS {
        let options = LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
        let Ok(model) = Model::from_vec_with(file.clone(), &options) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let special = session.run_owned(&[&x, &z]).expect("runs");
        assert_eq!(case(&session, &model), "N=1");
        let options = SessionOptions { general_only: true, ..SessionOptions::default() };
        let general = model.session(&options).expect("a session").run_owned(&[&x, &z]).expect("runs");
        let elements = |tensor: &Tensor| tensor.elements::<f32>().expect("floats").to_vec();
        for (a, b) in elements(&special[0]).into_iter().zip(elements(&general[0])) {
            assert!((a - b).abs() <= 1e-6, "{target}: {a} and {b}");
        }
        assert_eq!(special[1], general[1]);
    }
}

#[test]
fn weights_and_equal_kernels_are_there_once() {
    let plain = compiled(layers(), &CompileOptions::default());
    let special = compiled(layers(), &specialized(&[("N", &[1, 8])]));
    let report = &special.report;
    assert_eq!(report.special_cases.iter().map(|c| c.case.to_string()).collect::<Vec<_>>(), ["N=1", "N=8"]);
    // Both cases know the same symbols, so the second has the first one's kernel for what knows nothing of N.
    let [one, eight] = report.special_cases.as_slice() else { panic!("{report:?}") };
    assert_eq!(one.launches, plain.report.launches);
    assert!(eight.own_kernels < eight.launches, "{report:?}");
    assert!(report.distinct_kernels < 3 * plain.report.distinct_kernels, "{report:?}");
    // Layouts of weights may differ between few rows and many, contents do not.
    let names = |compilation: &Compilation| {
        let weights = &compilation.artifact.as_ref().expect("an artifact").manifest().weights;
        weights.iter().map(|w| (w.name.clone(), w.layout.clone())).collect::<Vec<_>>()
    };
    let mut seen = names(&special);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), names(&special).len());
    assert!(report.weight_bytes < 2 * plain.report.weight_bytes, "{report:?}");
    let (a, b) = (bytes(&plain).len(), bytes(&special).len());
    assert!(b < 3 * a, "{b} bytes, and {a} without cases");
}

#[test]
fn a_model_without_the_dim_in_its_kernels_shares_them_all() {
    // What is computed has no dim that is specialised: the number of rows only decides how the input is cut.
    let net = || {
        Net::new(18)
            .input("x", DType::F32, &["N", "32"])
            .input("y", DType::F32, &["4", "32"])
            .constant("w", &floats(&[32, 32], 5))
            .node("MatMul", &["y", "w"], &["m"], &[])
            .node("Tanh", &["m"], &["t"], &[])
            .node("ReduceSum", &["x"], &["s"], &[("keepdims", Attr::Int(0))])
            .output("t")
            .output("s")
    };
    let special = compiled(net(), &specialized(&[("N", &[1, 2, 4])]));
    for of_case in &special.report.special_cases {
        // The sum alone depends on N.
        assert!(of_case.own_kernels < of_case.launches, "{:?}", special.report);
    }
    let plain = compiled(net(), &CompileOptions::default());
    assert_eq!(special.report.weight_bytes, plain.report.weight_bytes);
}

#[test]
fn several_dims_give_all_combinations_and_the_same_bytes_in_any_order() {
    let wishes = specialized(&[("S", &[3]), ("N", &[8, 1])]);
    let compilation = compiled(layers(), &wishes);
    let cases: Vec<String> = compilation.report.special_cases.iter().map(|c| c.case.to_string()).collect();
    assert_eq!(cases, ["N=1,S=3", "N=8,S=3"]);
    // All dims have values: the memory of a case is planned when compiling.
    assert!(compilation.report.special_cases.iter().all(|c| c.arena_bytes.is_some()));
    assert_eq!(compilation.report.arena_bytes, None);
    let model = Model::from_vec(bytes(&compilation)).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    for (n, s, expected) in [(8, 3, "N=8, S=3"), (8, 4, ""), (1, 3, "N=1, S=3"), (2, 3, "")] {
        let (x, z) = (floats(&[n, 48], n), floats(&[s, 16], 9));
        let found = session.run_owned(&[&x, &z]).expect("runs");
        assert_eq!(case(&session, &model), expected);
        if !expected.is_empty() {
            let mut alone = net::session(&compiled(layers(), &fixed(&[("N", n as i64), ("S", s as i64)])));
            assert_eq!(found, alone.run_owned(&[&x, &z]).expect("runs"));
        }
    }
    let again = compiled(layers(), &specialized(&[("N", &[1]), ("N", &[8, 1]), ("S", &[3])]));
    assert!(bytes(&again) == bytes(&compilation), "two compilations differ");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let refused = |net: Net, options: &CompileOptions| {
        let error = net.compile(options).expect_err("it makes no sense");
        (error.code(), error.to_string())
    };
    let (code, message) = refused(layers(), &specialized(&[("M", &[1])]));
    assert_eq!(code, "compile::unknown-special-case");
    assert!(message.contains("`M`") && message.contains("`N`") && message.contains("`S`"), "{message}");
    let dims = vec![("N".to_owned(), DimChoice::Range(1, Some(8)))];
    let (code, message) = refused(layers(), &CompileOptions { dims, ..specialized(&[("N", &[4, 9])]) });
    assert_eq!(code, "compile::bad-special-case");
    assert!(message.contains("N=9") && message.contains("1..=8"), "{message}");
    assert_eq!(refused(layers(), &specialized(&[("N", &[-1])])).0, "compile::bad-special-case");
    let dims = vec![("N".to_owned(), DimChoice::Fixed(4))];
    let (code, _) = refused(layers(), &CompileOptions { dims, ..specialized(&[("N", &[4])]) });
    assert_eq!(code, "compile::unknown-special-case");
    let many: Vec<i64> = (1..=17).collect();
    assert_eq!(refused(layers(), &specialized(&[("N", &many)])).0, "compile::too-many-special-cases");
    // In general N is taken to be such that the product has 12 rows; for 5 it is not.
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "3"])
        .constant("y", &floats(&[4, 3], 1))
        .node("Add", &["x", "y"], &["a"], &[])
        .output("a");
    let (code, message) = refused(net, &specialized(&[("N", &[5])]));
    assert_eq!(code, "compile::bad-special-case");
    assert!(message.contains("N=5"), "{message}");
}

/// How large a dim may be decides about tiles, and not about results; what is larger is refused.
#[test]
fn bounds_of_dims_choose_schedules() {
    let of = |most: Option<i64>| {
        let dims = vec![("N".to_owned(), DimChoice::Range(1, most))];
        compiled(layers(), &CompileOptions { dims, ..CompileOptions::default() })
    };
    let (few, any) = (of(Some(4)), of(None));
    let schedules = |compilation: &Compilation| -> Vec<Vec<String>> {
        let of_variant =
            |kernels: &[infc::KernelReport]| kernels.iter().map(|kernel| kernel.schedule.clone()).collect();
        compilation.report.variants.iter().map(|variant| of_variant(&variant.kernels)).collect()
    };
    for (target, (few, any)) in schedules(&few).iter().zip(&schedules(&any)).enumerate() {
        assert_ne!(few, any, "target {target}");
    }
    let z = floats(&[2, 16], 5);
    let (mut few, mut any) = (session(&few), session(&any));
    for rows in 1..=4 {
        let x = floats(&[rows, 48], 4);
        let [few, any] =
            [&mut few, &mut any].map(|session| session.run_owned(&[&x, &z]).expect("it runs").swap_remove(0));
        infc_testkit::assert_close(&format!("{rows} rows"), &[few], &[any], 1e-5, 1e-6);
    }
    let error = few.run_owned(&[&floats(&[5, 48], 4), &z]).expect_err("more than there may be");
    assert_eq!(error.code(), "runtime::dim-out-of-range", "{error}");
}

#[test]
fn a_squeeze_that_drops_another_axis_may_show_only_within() {
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "3"])
        .node("Squeeze", &["x"], &["s"], &[])
        .node("ReduceSum", &["s"], &["y"], &[("keepdims", Attr::Int(0))])
        .output("y");
    // In general N is not 1; what is made for 1 runs where it is, asked for or not.
    let mut session = session(&compiled(net, &specialized(&[("N", &[2])])));
    for rows in [1, 2, 1, 3] {
        let x = Tensor::from_elements(&[rows, 3], &vec![1.0f32; rows * 3]).expect("as many");
        let found = session.run_owned(&[&x]).expect("it runs").swap_remove(0);
        assert_eq!((found.shape(), found.get_f64(0)), (&[][..], Some(3.0 * rows as f64)));
    }
}

// -------------------------------------------------------------------------------------------------------- states --

/// `present` is `past` with `new` behind it, `total` the sum over what is present.
fn cache() -> Net {
    Net::new(18)
        .input("new", DType::F32, &["N", "S", "2"])
        .input("past", DType::F32, &["N", "P", "2"])
        .node("Add", &["new", "new"], &["twice"], &[])
        .node("Concat", &["past", "twice"], &["present"], &[("axis", Attr::Int(1))])
        .node("ReduceSum", &["present"], &["total"], &[])
        .output("total")
        .output("present")
}

fn with_cache(capacity: Option<i64>, values: &[(&str, &[i64])]) -> CompileOptions {
    let states = vec![("present".to_owned(), "past".to_owned())];
    let dims = vec![("P".to_owned(), DimChoice::Range(0, capacity))];
    CompileOptions { states, dims, ..specialized(values) }
}

#[test]
fn states_go_from_one_case_to_another() {
    // The first call begins with nothing, others take one step; capacities, and where a case has none of its own.
    for capacity in [Some(16), None] {
        for values in [&[("P", &[0][..])][..], &[("S", &[1])], &[("S", &[1]), ("P", &[0, 4])], &[("P", &[4, 7])]] {
            let compilation = compiled(cache(), &with_cache(capacity, values));
            let model = Model::from_vec(bytes(&compilation)).expect("a model");
            let mut special = model.session(&SessionOptions::default()).expect("a session");
            let mut plain = session(&compiled(cache(), &with_cache(capacity, &[])));
            let mut taken: Vec<usize> = Vec::new();
            for round in 0..2 {
                for (n, length) in [4usize, 1, 2, 1, 1, 3].into_iter().enumerate() {
                    let new = floats(&[2, length, 2], 10 * round + n);
                    let found = special.run_owned(&[&new]).expect("runs");
                    let what = format!("{values:?}, capacity {capacity:?}, call {n} of round {round}");
                    assert_eq!(found, plain.run_owned(&[&new]).expect("runs"), "{what}");
                    let state = |session: &Session| {
                        session.state("past").expect("known").expect("set").to_tensor().expect("small")
                    };
                    assert_eq!(state(&special), state(&plain), "{what}");
                    taken.push(special.entry_in_use());
                }
                special.reset_states();
                plain.reset_states();
            }
            assert!(taken.contains(&0) && taken.iter().any(|&entry| entry > 0), "{values:?}: {taken:?}");
        }
    }
}

#[test]
fn a_state_that_has_no_room_in_the_next_case_is_told() {
    let compilation = compiled(cache(), &with_cache(Some(6), &[("P", &[0])]));
    let mut session = session(&compilation);
    // The case has nothing that is past, but knows the room of what comes after it.
    let error = session.run_owned(&[&floats(&[1, 7, 2], 1)]).expect_err("7 of 6");
    assert_eq!(error.code(), "runtime::assumption-failed");
    assert!(session.state("past").expect("known").is_none());
    session.run_owned(&[&floats(&[1, 5, 2], 1)]).expect("5 of 6");
    assert_eq!(session.run_owned(&[&floats(&[1, 2, 2], 2)]).expect_err("7 of 6").code(), error.code());
    assert_eq!(session.state("past").expect("known").expect("set").shape(), [1, 5, 2]);
    session.run_owned(&[&floats(&[1, 1, 2], 2)]).expect("6 of 6");
}

/// One token behind those of a cache is what most runs of a decoder are: there is code for it unless others are asked for.
#[test]
fn decoders_have_code_for_one_token() {
    let cases = |net: Net, options: &CompileOptions| {
        let compilation = compiled(net, options);
        compilation.report.special_cases.iter().map(|c| c.case.to_string()).collect::<Vec<_>>()
    };
    let general = CompileOptions::default();
    assert_eq!(cases(cache(), &general), ["N=1,S=1"]);
    assert_eq!(cases(cache(), &specialized(&[("N", &[4])])), ["N=4"]);
    assert_eq!(cases(cache(), &specialized(&[("P", &[0])])), ["P=0"]);
    assert_eq!(cases(cache(), &fixed(&[("N", 2)])), ["S=1"]);
    assert_eq!(cases(cache(), &fixed(&[("N", 2), ("S", 3)])), [""; 0]);
    let range = CompileOptions { dims: vec![("S".to_owned(), DimChoice::Range(2, None))], ..CompileOptions::default() };
    assert_eq!(cases(cache(), &range), [""; 0]);

    // A decoder with a cache and one without it, in one model.
    let begun = Net::new(18).node("Identity", &["new"], &["whole"], &[]).output("whole");
    let behind = Net::new(18).node("Concat", &["past", "new"], &["both"], &[("axis", Attr::Int(1))]).output("both");
    let branches = [("then_branch", Attr::Graph(&behind.graph())), ("else_branch", Attr::Graph(&begun.graph()))];
    let merged = Net::new(18)
        .input("has_past", DType::Bool, &[])
        .input("new", DType::F32, &["N", "S", "2"])
        .input("past", DType::F32, &["N", "P", "2"])
        .node("If", &["has_past"], &["present"], &branches)
        .output("present");
    assert_eq!(cases(merged, &general), ["N=1,S=1"]);
    // Rows that are replaced in a cache of one size.
    let replaced = Net::new(24)
        .input("new", DType::F32, &["N", "S", "3"])
        .input("at", DType::I64, &["N"])
        .input("past", DType::F32, &["N", "T", "3"])
        .node("TensorScatter", &["past", "new", "at"], &["present"], &[("axis", Attr::Int(1))])
        .output("present");
    assert_eq!(cases(replaced, &general), ["N=1,S=1"]);
    // What keeps its size, or is as long again, is no cache; nor is what has two axes.
    let state = Net::new(18)
        .input("x", DType::F32, &["N", "S", "3"])
        .input("h", DType::F32, &["N", "S", "3"])
        .node("Add", &["x", "h"], &["y"], &[])
        .node("Concat", &["h", "h"], &["twice"], &[("axis", Attr::Int(1))])
        .output("y")
        .output("twice");
    assert_eq!(cases(state, &general), [""; 0]);
    let rows = Net::new(18)
        .input("x", DType::F32, &["S", "3"])
        .input("h", DType::F32, &["T", "3"])
        .node("Concat", &["h", "x"], &["y"], &[("axis", Attr::Int(0))])
        .output("y");
    assert_eq!(cases(rows, &general), [""; 0]);

    // The run of one token takes it, and its results are those of the general code.
    let compilation = compiled(cache(), &general);
    let mut session = session(&compilation);
    let mut of_all = Model::from_vec(bytes(&compilation))
        .expect("a model")
        .session(&SessionOptions { general_only: true, ..SessionOptions::default() })
        .expect("a session");
    for (batch, length, past, entry) in [(1, 1, 5, 1), (1, 1, 0, 1), (1, 2, 5, 0), (2, 1, 5, 0)] {
        let (new, past) = (floats(&[batch, length, 2], 1), floats(&[batch, past, 2], 7));
        let found = session.run_owned(&[&new, &past]).expect("runs");
        assert_eq!(found, of_all.run_owned(&[&new, &past]).expect("runs"));
        assert_eq!(session.entry_in_use(), entry);
    }
}

/// Without axes `Squeeze` leaves no axis of extent 1, so the results of one row have an axis less than those of many.
#[test]
fn what_a_squeeze_leaves_out_is_a_case_of_its_own() {
    let net = || {
        Net::new(13)
            .input("x", DType::F32, &["N", "1", "S", "3"])
            .node("Relu", &["x"], &["r"], &[])
            .node("Squeeze", &["r"], &["y"], &[])
            .output("y")
    };
    let compilation = compiled(net(), &CompileOptions::default());
    let cases = compilation.report.special_cases.iter().map(|c| c.case.to_string()).collect::<Vec<_>>();
    assert_eq!(cases, ["N=1,S=1", "N=1", "S=1"]);
    let mut session = net::session(&compilation);
    for (n, s) in [(1, 2), (2, 2), (2, 1), (1, 1), (0, 1), (3, 4)] {
        let x = floats(&[n, 1, s, 3], n + s);
        let relu: Vec<f32> = x.elements::<f32>().expect("floats").iter().map(|x| x.max(0.0)).collect();
        let left: Vec<usize> = [n, s, 3].into_iter().filter(|&extent| extent != 1).collect();
        let found = session.run_owned(&[&x]).expect("runs");
        assert_eq!(found, [Tensor::from_elements(&left, &relu).expect("as many")], "{n}, {s}");
    }
    // Where the user says that there is one row, and where the model does, there is nothing to choose.
    for dims in [fixed(&[("N", 1), ("S", 2)]), fixed(&[("N", 1), ("S", 1)])] {
        assert!(compiled(net(), &dims).report.special_cases.is_empty());
    }
    let asked_for = compiled(net(), &specialized(&[("S", &[2])]));
    let cases = asked_for.report.special_cases.iter().map(|c| c.case.to_string()).collect::<Vec<_>>();
    assert_eq!(cases, ["N=1,S=2", "N=1,S=1", "S=2", "N=1", "S=1"]);
}

/// Extents of two dims that meet are taken to be equal, and either may be 1.
#[test]
fn what_is_broadcast_has_cases_in_which_it_repeats() {
    let net = || {
        Net::new(17)
            .input("x", DType::F32, &["A", "B"])
            .input("y", DType::F32, &["C", "D"])
            .node("Mul", &["x", "y"], &["z"], &[])
            .output("z")
    };
    let compilation = compiled(net(), &CompileOptions::default());
    let mut cases = compilation.report.special_cases.iter().map(|c| c.case.to_string()).collect::<Vec<_>>();
    cases.sort();
    assert_eq!(cases, ["A=1", "A=1,B=1", "A=1,D=1", "B=1", "B=1,C=1", "C=1", "C=1,D=1", "D=1"]);
    let mut session = net::session(&compilation);
    for ([a, b], [c, d]) in [([3, 4], [3, 4]), ([3, 4], [1, 4]), ([3, 1], [1, 4]), ([1, 1], [3, 4]), ([1, 4], [3, 1])] {
        let (x, y) = (floats(&[a, b], 1), floats(&[c, d], 2));
        let at = |t: &Tensor, shape: [usize; 2], [i, j]: [usize; 2]| {
            t.elements::<f32>().expect("floats")[i.min(shape[0] - 1) * shape[1] + j.min(shape[1] - 1)]
        };
        let shape = [a.max(c), b.max(d)];
        let expected = (0..shape[0] * shape[1]).map(|n| [n / shape[1], n % shape[1]]);
        let expected: Vec<f32> = expected.map(|n| at(&x, [a, b], n) * at(&y, [c, d], n)).collect();
        let found = session.run_owned(&[&x, &y]).expect("runs");
        assert_eq!(found, [Tensor::from_elements(&shape, &expected).expect("as many")], "{a}x{b} and {c}x{d}");
    }
    // Neither is 1.
    let error = session.run_owned(&[&floats(&[3, 4], 1), &floats(&[2, 4], 2)]).expect_err("it does not fit");
    assert_eq!(error.code(), "runtime::assumption-failed");
}

/// A large batch is run in slices, in a smaller arena, as if each point had been run by itself; who observes a run sees it
/// whole.
#[test]
fn large_batches_are_run_in_slices() {
    let net = || {
        Net::new(17)
            .input("x", DType::F32, &["N", "S", "32"])
            .constant("w1", &floats(&[32, 1024], 1))
            .constant("w2", &floats(&[1024, 8], 2))
            .node("MatMul", &["x", "w1"], &["h"], &[])
            .node("Tanh", &["h"], &["r"], &[])
            .node("MatMul", &["r", "w2"], &["y"], &[])
            .node("ReduceMax", &["y"], &["z"], &[("axes", Attr::Ints(&[1, 2])), ("keepdims", Attr::Int(0))])
            .output("y")
            .output("z")
    };
    // Cases of other dims, too.
    let compilation = compiled(net(), &specialized(&[("S", &[64])]));
    let model = Model::from_vec(bytes(&compilation)).expect("a model");
    assert!(model.manifest().entries.iter().all(|entry| entry.slices.is_some()));
    let mut one = model.session(&SessionOptions::default()).expect("a session");
    let mut session =
        model.session(&SessionOptions { max_threads: Some(1), ..SessionOptions::default() }).expect("one");
    // 256 KiB a point: 41 of them are two slices of at most 32, and 3 fit one.
    for n in [3, 41, 0, 64, 41] {
        let x = floats(&[n, 64, 32], n + 1);
        let found = session.run_owned(&[&x]).expect("runs");
        assert_eq!(case(&session, &model), "S=64");
        assert_eq!(session.output_shapes(&[&[n, 64, 32]]).expect("shapes"), [vec![n, 64, 8], vec![n]]);
        let (y, z) = (found[0].elements::<f32>().expect("floats"), found[1].elements::<f32>().expect("floats"));
        for point in 0..n {
            let part = &x.elements::<f32>().expect("floats")[point * 64 * 32..][..64 * 32];
            let part = Tensor::from_elements(&[1, 64, 32], part).expect("one point");
            let expected = one.run_owned(&[&part]).expect("runs");
            assert_eq!(&y[point * 512..][..512], expected[0].elements::<f32>().expect("floats"), "{point} of {n}");
            assert_eq!(z[point..][..1], expected[1].elements::<f32>().expect("floats")[..], "{point} of {n}");
        }
    }
    assert!(session.arena_bytes() <= 9 << 20, "{} bytes", session.arena_bytes());
    let observed = SessionOptions { observer: Some(std::sync::Arc::new(Whole)), ..SessionOptions::default() };
    let mut observed = model.session(&observed).expect("a session");
    observed.run_owned(&[&floats(&[64, 64, 32], 1)]).expect("runs");
    assert!(observed.arena_bytes() > 9 << 20, "{} bytes", observed.arena_bytes());
}

/// Elements of half a byte have no place where a point begins.
#[test]
fn packed_inputs_are_not_run_in_slices() {
    let net = Net::new(21)
        .input("x", DType::I4, &["N", "2"])
        .node("Cast", &["x"], &["y"], &[("to", Attr::Int(1))])
        .output("y");
    let model = Model::from_vec(bytes(&compiled(net, &CompileOptions::default()))).expect("a model");
    assert_eq!(model.manifest().entries[0].slices, None);
}

/// Looks on.
struct Whole;

impl infc_runtime::Observer for Whole {
    fn event(&self, _event: &infc_runtime::Event<'_>) {}
}
