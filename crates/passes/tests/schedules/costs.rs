//! What nests are counted to cost.

use crate::support::machine;
use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, OperandId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::{Buffer, BufferKind, Expr, LoopKind, LoopNest, LoopVar, Stmt, Target};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source, UnaryOp};
use infc_ir::symbol::Symbols;
use infc_passes::schedule::{NestCost, apply};
use infc_tensor::DType;

/// What a kernel costs by a schedule on vectors of 16 floats, where all symbols are 40.
fn cost(kernel: &str, schedule: &str) -> NestCost {
    let kernel: Kernel = kernel.parse().unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let schedule = schedule.parse().expect("a schedule");
    let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
    NestCost::of(&nest, &machine(64, 32), &|_| 40)
}

/// A product of so many rows.
fn product(rows: &str) -> NestCost {
    let symbols = if rows.parse::<i64>().is_ok() { String::new() } else { format!(" where {rows} in 1..=1000") };
    let kernel = format!(
        "kernel @product(a: f32[{rows}, 32], const b: f32[32, 64]) -> (y: f32[{rows}, 64]){symbols} {{
  stage c[m: {rows}, n: 64, reduce k: 32] = fold sum a[m, k] * b[k, n]
  stage g[m, n] = c[m, n]
  output y[m, n] = g[m, n]
}}"
    );
    let tiled = |stage: &str| format!("split {stage}.m by 8 -> mo, mi; split {stage}.n by 16 -> no, ni");
    let schedule = format!(
        "{}; reorder c: mo, no, k, mi, ni; unroll c.mi; vectorize c.ni; {}; reorder g: mo, no, mi, ni; unroll g.mi; \
         vectorize g.ni; compute c at g.no; store c in register; parallel g: mo",
        tiled("c"),
        tiled("g")
    );
    cost(&kernel, &schedule)
}

/// Rows that fill no tile are a branch of their own, which one turn takes.
#[test]
fn branches_count_as_often_as_they_are_taken() {
    let per_row = product("64").arithmetic / 64.0;
    for rows in [65, 67, 71] {
        let found = product(&rows.to_string()).arithmetic / f64::from(rows);
        assert!((found / per_row - 1.0).abs() < 0.02, "{rows} rows: {found} for one, {per_row} in whole tiles");
    }
    let [whole, ragged] = ["64", "65"].map(|rows| product(rows).beyond_l1);
    assert!(ragged < 1.3 * whole, "{ragged}, {whole}");
    // What a size of the run says decides how many turns there are.
    let found = product("M").arithmetic / 40.0;
    assert!((found / per_row - 1.0).abs() < 0.02, "{found} for one of 40 rows, {per_row} in whole tiles");
}

/// `exp` of elements of a square of 512 × 512, under conditions that its two coordinates and a number which data tells meet.
fn of_square(conditions: impl Fn([IndexExpr; 3]) -> Vec<Bound>, otherwise: bool) -> f64 {
    let [m, n, told] = [0, 1, 2].map(VarId);
    let buffer = |name: &str, argument, role| Buffer {
        name: name.to_owned(),
        dtype: DType::F32,
        kind: BufferKind::Operand { operand: OperandId(argument), argument, role },
        len_elems: Dim::constant(512 * 512),
        swizzle_bytes: None,
        panel_rows: None,
    };
    let place = IndexExpr::var(m).scale(512) + IndexExpr::var(n);
    let mut body = Body::default();
    let load = Load {
        source: Source::Buffer(BufferId(0)),
        index: vec![place.clone()],
        gather: Vec::new(),
        valid: Vec::new(),
        otherwise: Const::zero(DType::F32),
        dtype: DType::F32,
    };
    let x = body.push(ScalarOp::Load(load));
    let y = body.unary(UnaryOp::Exp, x);
    let target = Target { buffer: BufferId(1), index: place };
    let store = Stmt::Store { targets: vec![target], value: Expr { body, roots: vec![y] }, valid: Vec::new() };
    let mut number = Body::default();
    let zero = number.constant(DType::I64, 0.0);
    let number = Stmt::LetValue { var: told, value: Expr { body: number, roots: vec![zero] } };
    let (then, other) = if otherwise { (Vec::new(), vec![store]) } else { (vec![store], Vec::new()) };
    let choice = Stmt::If { cond: conditions([m, n, told].map(IndexExpr::var)), then, otherwise: other };
    let serial = |var, body| Stmt::For { var, extent: IndexExpr::constant(512), kind: LoopKind::Serial, body };
    let nest = LoopNest {
        name: "square".to_owned(),
        symbols: Symbols::default(),
        buffers: [buffer("x", 0, OperandKind::Input), buffer("y", 1, OperandKind::Output)].into_iter().collect(),
        vars: ["m", "n", "told"]
            .map(|name| LoopVar { name: name.to_owned(), range: (Some(0), Some(511)) })
            .into_iter()
            .collect(),
        parallel: None,
        body: vec![serial(m, vec![serial(n, vec![number, choice])])],
    };
    let of_exp = 14.0 * 512.0 * 512.0;
    NestCost::of(&nest, &machine(64, 32), &|_| 1).arithmetic / of_exp
}

fn bound(expr: IndexExpr, lo: i64, hi: i64) -> Bound {
    Bound { expr, lo: IndexExpr::constant(lo), hi: IndexExpr::constant(hi) }
}

/// Loops of powers of two do not keep step with each other, and what data tells may be so or not.
#[test]
fn conditions_are_looked_at_in_all_parts_of_loops() {
    let quarter = |[m, n, _]: [IndexExpr; 3]| vec![bound(m, 0, 256), bound(n, 128, 384)];
    for (otherwise, expected) in [(false, 0.25), (true, 0.75)] {
        let found = of_square(quarter, otherwise);
        assert!((found - expected).abs() < 0.08, "{found}, not {expected}");
    }
    let [rows, columns] = [0, 1].map(|axis| of_square(|vars| vec![bound(vars[axis].clone(), 1, 512)], false));
    assert!(rows > 0.95 && columns > 0.95, "{rows}, {columns}");
    for otherwise in [false, true] {
        let found = of_square(|[.., told]| vec![bound(told, 1, 2)], otherwise);
        assert!((found - 1.0).abs() < 0.05, "{found}: either may be");
    }
}

/// Turns that choose by their number have one side each, and what several of them compute is there once.
#[test]
fn unrolled_turns_share_what_is_alike() {
    let kernel = "kernel @choice(x: f32[64]) -> (y: f32[64, 4]) {
  stage o[m: 64, n: 4] = select(index(n) == 0, exp(x[m]), select(index(n) == 1, exp(x[m]) + 1, x[m] * 3))
  output y[m, n] = o[m, n]
}";
    let of = |schedule: &str| cost(kernel, schedule).arithmetic;
    let (rolled, unrolled) = (of(""), of("unroll o.n"));
    // An exponential, an addition and a product for all four, instead of all three and what chooses for each.
    assert!(unrolled < rolled / 3.0, "{unrolled} of {rolled}");
    assert!(unrolled >= 64.0 * 15.0, "{unrolled}: an exponential per row");
}
