//! Laws of the IR on random structures.

use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::graph::Graph;
use infc_ir::index::{IndexExpr, Proof};
use infc_ir::interp::{run_graph, run_kernel};
use infc_ir::kernel::Kernel;
use infc_ir::text::canonical::{canonical_graph, canonical_kernel};
use infc_ir::text::{constants_by_hash, parse_graph};
use infc_ir::verify::{verify_graph, verify_kernel};
use infc_testkit::{random_inputs, random_tensor, strategies};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arithmetic_on_expressions_is_arithmetic_on_values(case in strategies::index_exprs()) {
        let [a, b] = &case.exprs;
        let (Some(x), Some(y)) = (case.eval(a), case.eval(b)) else { return Ok(()) };
        prop_assert_eq!(case.eval(&(a.clone() + b.clone())), Some(x + y));
        prop_assert_eq!(case.eval(&(a.clone() - b.clone())), Some(x - y));
        prop_assert_eq!(case.eval(&(a.clone() * b.clone())), x.checked_mul(y));
        prop_assert_eq!(case.eval(&a.minimum(b)), Some(x.min(y)));
        prop_assert_eq!(case.eval(&a.maximum(b)), Some(x.max(y)));
        for d in [1i64, 2, 3, 4, 16] {
            prop_assert_eq!(case.eval(&a.floor_div(&d.into())), Some(x.div_euclid(d)));
            prop_assert_eq!(case.eval(&a.modulo(&d.into())), Some(x.rem_euclid(d)));
        }
        let n = IndexExpr::symbol(infc_ir::entity::SymbolId(0));
        prop_assert_eq!(case.eval(&a.floor_div(&n)), Some(x.div_euclid(case.symbols[0])));
        prop_assert_eq!(case.eval(&a.modulo(&n)), Some(x.rem_euclid(case.symbols[0])));
    }

    #[test]
    fn simplification_keeps_values(case in strategies::index_exprs()) {
        for e in &case.exprs {
            let simple = e.simplify(&case.ranges);
            prop_assert_eq!(case.eval(&simple), case.eval(e), "{} became {}", e, simple);
        }
    }

    #[test]
    fn intervals_contain_values_and_proofs_hold(case in strategies::index_exprs()) {
        let [a, b] = &case.exprs;
        let (Some(x), Some(y)) = (case.eval(a), case.eval(b)) else { return Ok(()) };
        let interval = case.ranges.interval(a);
        prop_assert!(interval.min.is_none_or(|min| min <= x) && interval.max.is_none_or(|max| x <= max));
        for (proof, holds) in [(case.ranges.le(a, b), x <= y), (case.ranges.lt(a, b), x < y), (case.ranges.eq(a, b), x == y)] {
            prop_assert!(proof == Proof::Unknown || (proof == Proof::Yes) == holds, "{} and {}: {:?}", a, b, proof);
        }
    }

    #[test]
    fn composed_access_maps_read_through_both((inner, outer) in strategies::access_maps(), at in prop::array::uniform3(-5i64..5)) {
        let apply = |map: &AccessMap, at: &[i64]| -> Option<Vec<i64>> {
            let eval = |e: &IndexExpr| e.eval(&|_| None, &|v: VarId| at.get(v.0 as usize).copied()).expect("small");
            let valid = map.valid.iter().all(|b| eval(&b.lo) <= eval(&b.expr) && eval(&b.expr) < eval(&b.hi));
            valid.then(|| map.index.iter().map(eval).collect())
        };
        let at = &at[..inner.rank];
        let expected = apply(&inner, at).and_then(|middle| apply(&outer, &middle));
        prop_assert_eq!(apply(&outer.compose(&inner), at), expected);
        let identity = AccessMap::identity(inner.rank);
        prop_assert_eq!(apply(&inner.compose(&identity), at), apply(&inner, at));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kernels_are_valid_and_text_round_trips(kernel in strategies::kernels()) {
        verify_kernel(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        let canonical = canonical_kernel(&kernel);
        let text = kernel.to_string();
        let again: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        prop_assert!(again == canonical, "{}\nbecame\n{}", text, again);
        prop_assert!(canonical_kernel(&canonical) == canonical);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn the_canonical_kernel_computes_the_same(kernel in strategies::kernels(), seed: u64) {
        let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (seed % 4) as i64).collect();
        let inputs = random_inputs(&kernel, &symbols, seed);
        let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        let found = run_kernel(&canonical_kernel(&kernel), &symbols, &inputs).unwrap_or_else(|e| panic!("{e}"));
        for (a, b) in expected.iter().zip(&found) {
            prop_assert_eq!(a.bytes(), b.bytes());
        }
    }

    #[test]
    fn graphs_are_valid_and_text_round_trips(graph in strategies::graphs()) {
        verify_graph(&graph).unwrap_or_else(|e| panic!("{e}\n{graph}"));
        let canonical = canonical_graph(&graph);
        let constants = constants_by_hash(&graph);
        let text = graph.to_string();
        let again: Graph =
            parse_graph(&text, &|hash| constants.get(hash).cloned()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        prop_assert!(again == canonical, "{}\nbecame\n{}", text, again);
        prop_assert_eq!(again.to_string(), canonical.to_string());
    }

    #[test]
    fn graphs_compute_what_they_declare(graph in strategies::graphs(), seed: u64) {
        let symbols = [1 + (seed % 4) as i64];
        let inputs: Vec<_> = graph.inputs.iter().enumerate().map(|(n, port)| {
            let ty = graph.ty(port.value);
            let extent = |d: &IndexExpr| d.eval(&|_| Some(symbols[0]), &|_| None).expect("a dim") as usize;
            random_tensor(ty.dtype, ty.shape.iter().map(extent).collect(), seed ^ n as u64)
        }).collect();
        // Shapes and types of every node are checked inside.
        let outputs = run_graph(&graph, &symbols, &inputs).unwrap_or_else(|e| panic!("{e}\n{graph}"));
        let again = run_graph(&canonical_graph(&graph), &symbols, &inputs).unwrap_or_else(|e| panic!("{e}"));
        for (a, b) in outputs.iter().zip(&again) {
            prop_assert_eq!(a.bytes(), b.bytes());
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[ -~]{0,60}") {
        let _ = text.parse::<Kernel>();
        let _ = text.parse::<Graph>();
        let _ = format!("kernel @k(x: f32[4]) {{ stage s[i: 4] = {text} }}").parse::<Kernel>();
    }
}
