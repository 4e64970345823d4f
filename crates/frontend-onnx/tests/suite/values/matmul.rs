//! Matrix products.

use super::{Case, counting, floats, halves};
use infc_ir::op::Op;

#[test]
fn matmul_broadcasts_batches() {
    let shapes: &[(&[usize], &[usize])] = &[
        (&[3, 4], &[4, 5]),
        (&[4], &[4, 5]),
        (&[3, 4], &[4]),
        (&[4], &[4]),
        (&[2, 3, 4], &[4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[1, 3, 4], &[2, 4, 5]),
        (&[2, 3, 4], &[1, 4, 5]),
        (&[6, 1, 3, 4], &[2, 4, 5]),
        (&[3, 4], &[6, 2, 4, 5]),
        (&[4], &[2, 4, 5]),
        (&[2, 3, 4], &[4]),
        (&[1, 3, 4], &[1, 4, 5]),
    ];
    for (a, b) in shapes {
        Case::new("MatMul", 13).data(floats(a)).data(floats(b)).dynamic(&[0, 1, 2, 3]).agrees();
    }
    Case::new("MatMul", 13).data(counting(&[2, 3])).data(counting(&[3, 2])).agrees();
    Case::new("MatMul", 13).data(halves(&[3, 4])).data(halves(&[4, 5])).tolerance(2e-3).agrees();
}

#[test]
fn gemm_transposes_and_scales() {
    for (trans_a, trans_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let a = if trans_a == 1 { [4, 3] } else { [3, 4] };
        let b = if trans_b == 1 { [5, 4] } else { [4, 5] };
        let case = || {
            let case = Case::new("Gemm", 13).data(floats(&a)).data(floats(&b));
            case.int("transA", trans_a).int("transB", trans_b)
        };
        case().dynamic(&[0, 1]).agrees();
        case().data(floats(&[5])).float("alpha", 0.5).float("beta", 2.0).agrees();
        case().constant(floats(&[3, 1])).agrees();
        case().constant(floats(&[])).float("beta", 0.0).agrees();
    }
}

#[test]
fn a_product_with_constant_weights_is_one_contraction() {
    let graph = Case::new("Gemm", 13).data(floats(&[3, 4])).constant(floats(&[5, 4])).int("transB", 1).agrees();
    let ops: Vec<&str> = graph.order.iter().map(|&n| graph.nodes[n].op.name()).collect();
    assert_eq!(ops, ["const", "contract"]);
    assert!(matches!(&graph.nodes[graph.order[0]].op, Op::Constant(c) if c.name == "x1"));
}
