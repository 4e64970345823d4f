//! Size expressions mean what their tree means, whatever folding and encoding do.

use infc_artifact::{EvalError, SizeExpr, SizeOp};
use proptest::prelude::*;

/// A tree to build an expression from, and its plain meaning.
#[derive(Clone, Debug)]
enum Tree {
    Const(i64),
    Symbol(u32),
    Node(SizeOp, Box<Tree>, Box<Tree>),
}

impl Tree {
    fn build(&self) -> SizeExpr {
        match self {
            Tree::Const(value) => SizeExpr::constant(*value),
            Tree::Symbol(index) => SizeExpr::symbol(*index),
            Tree::Node(op, a, b) => {
                let (a, b) = (a.build(), b.build());
                match op {
                    SizeOp::Add => a + b,
                    SizeOp::Mul => a * b,
                    SizeOp::FloorDiv => a.floor_div(b),
                    SizeOp::CeilDiv => a.ceil_div(b),
                    SizeOp::Mod => a.modulo(b),
                    SizeOp::Min => a.min(b),
                    _ => a.max(b),
                }
            }
        }
    }

    fn value(&self, symbols: &[i64]) -> Option<i128> {
        Some(match self {
            Tree::Const(value) => i128::from(*value),
            Tree::Symbol(index) => i128::from(symbols[*index as usize]),
            Tree::Node(op, a, b) => {
                let (a, b) = (a.value(symbols)?, b.value(symbols)?);
                let quotient = || (b > 0).then(|| a.div_euclid(b));
                let value = match op {
                    SizeOp::Add => a + b,
                    SizeOp::Mul => a * b,
                    SizeOp::FloorDiv => quotient()?,
                    SizeOp::CeilDiv => -((b > 0).then(|| (-a).div_euclid(b))?),
                    SizeOp::Mod => a - b * quotient()?,
                    SizeOp::Min => a.min(b),
                    _ => a.max(b),
                };
                i64::try_from(value).ok()?.into()
            }
        })
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    use SizeOp::{Add, CeilDiv, FloorDiv, Max, Min, Mod, Mul};
    let number = prop_oneof![-3i64..40, Just(i64::MAX), Just(i64::MIN)];
    let leaf = prop_oneof![2 => number.prop_map(Tree::Const), 3 => (0u32..3).prop_map(Tree::Symbol)];
    let op = prop::sample::select(vec![Add, Mul, FloorDiv, CeilDiv, Mod, Min, Max]);
    leaf.prop_recursive(5, 48, 2, move |inner| {
        (op.clone(), inner.clone(), inner).prop_map(|(op, a, b)| Tree::Node(op, Box::new(a), Box::new(b)))
    })
}

proptest! {
    #[test]
    fn values_are_those_of_the_tree(tree in tree(), symbols in prop::array::uniform3(-2i64..5000)) {
        let found = tree.build().eval(&symbols);
        match tree.value(&symbols) {
            Some(value) => prop_assert_eq!(found.map(i128::from), Ok(value)),
            // `0 * e` and `e / 1` fold without looking at e, so an error may also vanish.
            None => prop_assert!(found.is_err() || tree.build().ops() != build_unfolded(&tree)),
        }
    }

    #[test]
    fn encoding_round_trips(tree in tree()) {
        let expr = tree.build();
        let bytes = postcard::to_allocvec(&expr).unwrap();
        prop_assert_eq!(postcard::from_bytes::<SizeExpr>(&bytes).unwrap(), expr.clone());
        prop_assert_eq!(SizeExpr::from_ops(&expr.ops()), Some(expr));
    }

    #[test]
    fn random_code_never_panics(bytes in prop::collection::vec(0u8..9, 0..64)) {
        let Ok(expr) = postcard::from_bytes::<SizeExpr>(&bytes) else { return Ok(()) };
        let _ = (expr.eval(&[1, 2]), expr.eval_size(&[]), expr.to_string(), expr.max_symbol());
    }
}

fn build_unfolded(tree: &Tree) -> Vec<SizeOp> {
    match tree {
        Tree::Const(value) => vec![SizeOp::Const(*value)],
        Tree::Symbol(index) => vec![SizeOp::Symbol(*index)],
        Tree::Node(op, a, b) => [build_unfolded(a), build_unfolded(b), vec![*op]].concat(),
    }
}

#[test]
fn malformed_code_is_refused() {
    use SizeOp::{Add, Const, Symbol};
    for code in [&[][..], &[Add], &[Const(1), Add], &[Symbol(0), Symbol(1)], &[Const(1); 100], &[Symbol(0); 1]] {
        let expected = code.len() == 1 && code != [Add];
        assert_eq!(SizeExpr::from_ops(code).is_some(), expected, "{code:?}");
    }
    let mut long = vec![Symbol(0)];
    long.extend([Symbol(0), Add].repeat(5000));
    assert_eq!(SizeExpr::from_ops(&long), None);
    let mut deep = vec![Symbol(0); 33];
    deep.extend([Add; 32]);
    assert_eq!(SizeExpr::from_ops(&deep), None);
    assert_eq!(SizeExpr::from_ops(&deep[1..64]).unwrap().eval(&[2]), Ok(64));
}

#[test]
fn errors_say_what_is_wrong() {
    let (n, m) = (SizeExpr::symbol(0), SizeExpr::symbol(1));
    assert_eq!((n.clone() * m.clone()).eval(&[i64::MAX, 2]), Err(EvalError::Overflow));
    assert_eq!(n.clone().floor_div(m.clone()).eval(&[1, 0]), Err(EvalError::Divisor { divisor: 0 }));
    assert_eq!(m.eval(&[1]), Err(EvalError::UnknownSymbol { symbol: 1, known: 1 }));
    assert_eq!((n - SizeExpr::constant(5)).eval_size(&[3]), Err(EvalError::Negative { value: -2 }));
}

#[test]
fn text_is_readable() {
    let (n, c) = (SizeExpr::symbol(0), |value| SizeExpr::constant(value));
    let rows = (n.clone() + c(3)).floor_div(c(2)) * c(4);
    assert_eq!(rows.to_text(&["N"]), "floor((N + 3) / 2) * 4");
    assert_eq!(rows.to_string(), "floor((s0 + 3) / 2) * 4");
    assert_eq!((n.clone() * c(0) + c(2) * c(3)).to_string(), "6");
    assert_eq!(n.min(c(7)).max(c(1)).to_string(), "max(min(s0, 7), 1)");
}
