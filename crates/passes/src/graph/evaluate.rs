//! Evaluation of views and maps of constants, fast enough for the weights of a large model.
//!
//! The meaning is that of `infc_ir::interp`; what is different is the order of work. A view whose flat index is a sum of
//! functions of one coordinate each (every reshape, transpose, slice, broadcast and pad) is a gather over tables; a map
//! runs one operation of its body after the other over blocks of elements ([`columns`]).

mod columns;

use super::PassError;
use columns::Columns;
use infc_ir::entity::{EntityId, NodeId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::Layout;
use infc_ir::op::{MapOp, ReduceOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Const, Scalar, eval_binary, is_computable};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// An element of a tensor of computable numbers.
#[must_use]
pub fn element(tensor: &Tensor, index: usize) -> Option<Scalar> {
    if !is_computable(tensor.dtype()) {
        return None;
    }
    let size = tensor.dtype().size_bytes()?;
    Some(Scalar::from_const(read(tensor.dtype(), tensor.bytes().get(index * size..(index + 1) * size)?)))
}

/// The value that all elements have, bit for bit.
#[must_use]
pub fn splat(tensor: &Tensor) -> Option<Const> {
    if !is_computable(tensor.dtype()) {
        return None;
    }
    let size = tensor.dtype().size_bytes()?;
    let bytes = tensor.bytes();
    let first = bytes.get(..size)?;
    bytes.chunks_exact(size).all(|c| c == first).then(|| read(tensor.dtype(), first))
}

/// The number that an element's bytes are. Weights have millions of elements, and copies of a length that is not known
/// when compiling are calls.
fn read(dtype: DType, bytes: &[u8]) -> Const {
    let bits = match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
    };
    Const { dtype, bits }
}

/// Writes an element; the counterpart of [`read`].
fn write(target: &mut [u8], bits: u64) {
    let bits = bits.to_le_bytes();
    match target.len() {
        1 => target.copy_from_slice(&bits[..1]),
        2 => target.copy_from_slice(&bits[..2]),
        4 => target.copy_from_slice(&bits[..4]),
        _ => target.copy_from_slice(&bits[..8]),
    }
}

/// What a view of a tensor holds; `None` if the shape is symbolic or too large, or the type has no whole bytes.
///
/// # Errors
/// [`PassError::OutOfBounds`] if the view reads what is not there.
pub fn view(node: NodeId, op: &ViewOp, operand: &Tensor) -> Result<Option<Tensor>, PassError> {
    let Some(shape) = usize_shape(&op.shape) else { return Ok(None) };
    let Some(size) = operand.dtype().size_bytes() else { return Ok(None) };
    let operand_shape: Vec<IndexExpr> = operand.shape().iter().map(|&d| IndexExpr::constant(d as i64)).collect();
    let flat = Layout::dense(&operand_shape).flat(&op.map.index);
    let Some(len) = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) else { return Ok(None) };
    let Some(len_bytes) = len.checked_mul(size) else { return Ok(None) };
    let Some(gather) = Gather::new(&flat, op, &shape) else { return Ok(None) };

    let mut bytes = AlignedBytes::zeroed(len_bytes);
    let padding = op.otherwise.bits.to_le_bytes();
    let failed = match size {
        1 => gather.copy::<1>(&shape, operand.bytes(), padding, &mut bytes),
        2 => gather.copy::<2>(&shape, operand.bytes(), padding, &mut bytes),
        4 => gather.copy::<4>(&shape, operand.bytes(), padding, &mut bytes),
        8 => gather.copy::<8>(&shape, operand.bytes(), padding, &mut bytes),
        16 => gather.copy::<16>(&shape, operand.bytes(), padding, &mut bytes),
        _ => return Ok(None),
    };
    if let Some(index) = failed {
        return Err(PassError::OutOfBounds { node, index, len_elems: operand.len_elems() });
    }
    Ok(Tensor::from_bytes(operand.dtype(), shape, bytes).ok())
}

fn usize_shape(shape: &[IndexExpr]) -> Option<Vec<usize>> {
    shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect()
}

/// How a view finds its elements.
enum Gather<'a> {
    /// `flat(i) = base + Σ tables[axis][iₐ]`, and the element is there if every `valid[axis][iₐ]`.
    Tables { base: i64, tables: Vec<Vec<i64>>, valid: Vec<Vec<bool>> },
    /// Point by point.
    Points { flat: &'a IndexExpr, op: &'a ViewOp },
}

impl<'a> Gather<'a> {
    fn new(flat: &'a IndexExpr, op: &'a ViewOp, shape: &[usize]) -> Option<Self> {
        let mut has_symbols = false;
        let bounds = op.map.valid.iter().flat_map(|b| [&b.expr, &b.lo, &b.hi]);
        for expr in bounds.chain([flat]) {
            expr.for_each_atom(&mut |a| has_symbols |= matches!(a, Atom::Symbol(_)));
        }
        if has_symbols {
            return None;
        }
        Some(Self::tables(flat, op, shape).unwrap_or(Self::Points { flat, op }))
    }

    fn tables(flat: &IndexExpr, op: &ViewOp, shape: &[usize]) -> Option<Self> {
        if !flat.terms().iter().all(|t| vars_of(&t.atoms).len() <= 1) {
            return None;
        }
        let along = |e: &IndexExpr, axis: usize, i: usize| {
            e.eval(&|_| None, &|v| Some(if v.index() == axis { i as i64 } else { 0 }))
        };
        let base = flat.eval(&|_| None, &|_| Some(0))?;
        let mut tables = Vec::with_capacity(shape.len());
        let mut valid: Vec<Vec<bool>> = shape.iter().map(|&d| vec![true; d]).collect();
        for (axis, &extent) in shape.iter().enumerate() {
            let table: Option<Vec<i64>> = (0..extent).map(|i| along(flat, axis, i)?.checked_sub(base)).collect();
            tables.push(table?);
        }
        for bound in &op.map.valid {
            let exprs = [&bound.expr, &bound.lo, &bound.hi];
            let mut vars: Vec<usize> = exprs.iter().flat_map(|e| e.terms()).flat_map(|t| vars_of(&t.atoms)).collect();
            vars.sort_unstable();
            vars.dedup();
            let axis = match vars[..] {
                [axis] => axis,
                // A condition without variables holds everywhere or nowhere; any axis can say so.
                [] if !shape.is_empty() => 0,
                _ => return None,
            };
            for (i, ok) in valid.get_mut(axis)?.iter_mut().enumerate() {
                let [e, lo, hi] = exprs.map(|e| along(e, axis, i));
                *ok &= lo? <= e? && e? < hi?;
            }
        }
        Some(Self::Tables { base, tables, valid })
    }

    /// Copies elements of `SIZE` bytes, or the padding where there is none; a flat index that is out of bounds, if any is.
    fn copy<const SIZE: usize>(&self, shape: &[usize], from: &[u8], padding: [u8; 8], to: &mut [u8]) -> Option<i64> {
        let (from, (to, _)) = (from.as_chunks::<SIZE>().0, to.as_chunks_mut::<SIZE>());
        let mut out = to.iter_mut();
        let mut failed = None;
        self.for_each(shape, &mut |source| {
            let Some(target) = out.next() else { return };
            let Some(index) = source else {
                let len = SIZE.min(8);
                target[..len].copy_from_slice(&padding[..len]);
                return;
            };
            match usize::try_from(index).ok().and_then(|i| from.get(i)) {
                Some(element) => *target = *element,
                None => failed = Some(index),
            }
        });
        failed
    }

    /// Calls `f` for every point in row-major order with the flat index, or `None` outside.
    fn for_each(&self, shape: &[usize], f: &mut impl FnMut(Option<i64>)) {
        if shape.contains(&0) {
            return;
        }
        match self {
            Self::Points { flat, op } => for_each_point(shape, &mut |point| {
                let var = |v: VarId| point.get(v.index()).copied();
                let holds = op.map.valid.iter().all(|b| {
                    let [e, lo, hi] = [&b.expr, &b.lo, &b.hi].map(|e| e.eval(&|_| None, &var));
                    matches!((e, lo, hi), (Some(e), Some(lo), Some(hi)) if lo <= e && e < hi)
                });
                // An index that overflows is as far out of bounds as can be.
                f(holds.then(|| flat.eval(&|_| None, &var).unwrap_or(-1)));
            }),
            Self::Tables { base, tables, valid } => {
                let Some((last, outer)) = shape.split_last() else { return f(Some(*base)) };
                for_each_point(outer, &mut |point| {
                    let mut row = *base;
                    let mut row_valid = true;
                    for (axis, &i) in point.iter().enumerate() {
                        row = row.saturating_add(tables[axis][i as usize]);
                        row_valid &= valid[axis][i as usize];
                    }
                    for i in 0..*last {
                        let ok = row_valid && valid[outer.len()][i];
                        f(ok.then(|| row.saturating_add(tables[outer.len()][i])));
                    }
                });
            }
        }
    }
}

fn vars_of(atoms: &[Atom]) -> Vec<usize> {
    let mut vars = Vec::new();
    let mut visit = |a: &Atom| {
        if let Atom::Var(v) = a
            && !vars.contains(&v.index())
        {
            vars.push(v.index());
        }
    };
    for atom in atoms {
        visit(atom);
        if let Atom::FloorDiv(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) = atom {
            p.0.for_each_atom(&mut visit);
            p.1.for_each_atom(&mut visit);
        }
    }
    vars
}

/// Calls `f` for every coordinate of a shape without zeros, in row-major order.
pub(super) fn for_each_point(shape: &[usize], f: &mut dyn FnMut(&[i64])) {
    let mut point = vec![0i64; shape.len()];
    loop {
        f(&point);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            point[axis] += 1;
            if point[axis] < shape[axis] as i64 {
                break;
            }
            point[axis] = 0;
        }
    }
}

/// The outputs of a map; `None` if a type has no scalar operations or an index is symbolic.
///
/// # Errors
/// [`PassError::Malformed`] if the operands are not all of the given shape.
pub fn map(node: NodeId, op: &MapOp, shape: &[usize], inputs: &[&Tensor]) -> Result<Option<Vec<Tensor>>, PassError> {
    if inputs.iter().any(|t| t.shape() != shape) {
        return Err(PassError::Malformed { node, expected: "operands of a map have the shape of its result" });
    }
    let dtypes: Vec<DType> = op.results.iter().map(|&r| op.body.dtype(r)).collect();
    if !inputs.iter().map(|t| t.dtype()).chain(dtypes.iter().copied()).all(is_computable) {
        return Ok(None);
    }
    let Some(len) = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) else { return Ok(None) };
    let mut outputs = Vec::new();
    for &dtype in &dtypes {
        let Some(len_bytes) = dtype.storage_bytes(len) else { return Ok(None) };
        outputs.push(AlignedBytes::zeroed(len_bytes));
    }
    let computed = Columns::new(op, shape, inputs).for_each_block(|start, results| {
        for ((bytes, &dtype), values) in outputs.iter_mut().zip(&dtypes).zip(results) {
            let size = dtype.size_bytes().unwrap_or(1);
            let targets = bytes[start * size..(start + values.len()) * size].chunks_exact_mut(size);
            let results = targets.zip(*values);
            match dtype {
                DType::F32 => results.for_each(|(to, value)| write(to, (value.to_f64() as f32).to_bits().into())),
                _ => results.for_each(|(to, value)| write(to, value.to_const(dtype).bits)),
            }
        }
    });
    if !computed {
        return Ok(None);
    }
    let tensors = outputs.into_iter().zip(&dtypes).map(|(b, &d)| Tensor::from_bytes(d, shape.to_vec(), b).ok());
    Ok(tensors.collect())
}

/// The output of a reduction that folds one number with a binary operation; `None` for others, if a type has no scalar
/// operations, or if an index is symbolic.
///
/// # Errors
/// [`PassError::Malformed`] if the operands are not all of the given shape.
pub fn reduce(node: NodeId, op: &ReduceOp, shape: &[usize], inputs: &[&Tensor]) -> Result<Option<Tensor>, PassError> {
    if inputs.iter().any(|t| t.shape() != shape) || op.axes.iter().any(|&a| a >= shape.len()) {
        return Err(PassError::Malformed { node, expected: "operands of one shape that has the axes" });
    }
    let ([element], [init], Some(combine)) = (&op.elements[..], &op.reducer.init[..], op.reducer.as_binary()) else {
        return Ok(None);
    };
    let dtype = init.dtype;
    if op.body.dtype(*element) != dtype || !inputs.iter().map(|t| t.dtype()).chain([dtype]).all(is_computable) {
        return Ok(None);
    }
    if shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none() {
        return Ok(None);
    }
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !op.axes.contains(axis)).collect();
    // How far the place in the output moves along each axis, and how long the output is.
    let mut strides = vec![0; shape.len()];
    let mut out_len = 1;
    for &axis in kept.iter().rev() {
        strides[axis] = out_len;
        out_len *= shape[axis];
    }
    let elements = MapOp { body: op.body.clone(), results: vec![*element] };
    let mut sums = vec![Scalar::from_const(*init); out_len];
    // Point by point in row-major order, which for each output is the order of its own points.
    let (mut point, mut to) = (vec![0; shape.len()], 0);
    let computed = Columns::new(&elements, shape, inputs).for_each_block(|_, results| {
        for &value in results[0] {
            sums[to] = match (combine, dtype, sums[to], value) {
                // What zero points need of weights, millions of them.
                (BinaryOp::Add, DType::I32, Scalar::Int(a), Scalar::Int(b)) => {
                    Scalar::Int((a as i32).wrapping_add(b as i32).into())
                }
                (_, _, a, b) => eval_binary(combine, dtype, a, b),
            };
            for axis in (0..shape.len()).rev() {
                point[axis] += 1;
                to += strides[axis];
                if point[axis] < shape[axis] {
                    break;
                }
                to -= strides[axis] * shape[axis];
                point[axis] = 0;
            }
        }
    });
    if !computed {
        return Ok(None);
    }
    let size = dtype.size_bytes().unwrap_or(1);
    let mut bytes = AlignedBytes::zeroed(out_len * size);
    for (target, value) in bytes.chunks_exact_mut(size).zip(&sums) {
        write(target, value.to_const(dtype).bits);
    }
    Ok(Tensor::from_bytes(dtype, kept.iter().map(|&axis| shape[axis]).collect(), bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::access::{AccessMap, Bound};

    fn iota(shape: &[usize]) -> Tensor {
        let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|x| x as f32).collect();
        Tensor::from_elements(shape, &elements).expect("fits")
    }

    fn run(index: Vec<IndexExpr>, valid: Vec<Bound>, shape: &[i64], x: &Tensor) -> Result<Vec<f32>, PassError> {
        let map = AccessMap { rank: shape.len(), index, valid };
        let shape = shape.iter().map(|&d| IndexExpr::constant(d)).collect();
        let op = ViewOp { map, shape, otherwise: Const::from_f64(DType::F32, -1.0) };
        let tensor = view(NodeId(0), &op, x)?.expect("static");
        Ok(tensor.elements::<f32>().expect("f32").to_vec())
    }

    fn i(n: u32) -> IndexExpr {
        IndexExpr::var(VarId(n))
    }

    #[test]
    fn tables_and_points_agree() {
        let x = iota(&[3, 4]);
        // Merged into one axis, a function of one coordinate: tables.
        let four = IndexExpr::constant(4);
        let merged = run(vec![i(0).floor_div(&four), i(0).modulo(&four)], vec![], &[12], &x).expect("in bounds");
        assert_eq!(merged, (0..12).map(|x| x as f32).collect::<Vec<_>>());
        // (i0 + i1) div 2 depends on both: point by point.
        let two = IndexExpr::constant(2);
        let mixed = run(vec![IndexExpr::constant(0), (i(0) + i(1)).floor_div(&two)], vec![], &[2, 3], &x);
        assert_eq!(mixed.expect("in bounds"), [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn outside_of_the_bounds_is_the_padding() {
        let bound = Bound { expr: i(0) - 1, lo: IndexExpr::constant(0), hi: IndexExpr::constant(2) };
        assert_eq!(run(vec![i(0) - 1], vec![bound], &[4], &iota(&[2])).expect("guarded"), [-1.0, 0.0, 1.0, -1.0]);
    }

    #[test]
    fn a_read_out_of_bounds_is_an_error() {
        let error = run(vec![i(0) + 1], vec![], &[2], &iota(&[2])).expect_err("element 2 of 2");
        assert_eq!(error, PassError::OutOfBounds { node: NodeId(0), index: 2, len_elems: 2 });
    }
}
