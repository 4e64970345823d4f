//! What the kernel of a trial computes, and the operands that it is tried with.

use crate::error::CliError;
use crate::failure::Failure;
use crate::inputs::{Fill, made_up};
use infc_artifact::PortSpec;
use infc_ir::entity::{EntityId, OperandId, ScalarId, StageId, SymbolId};
use infc_ir::index::Dim;
use infc_ir::kernel::{Kernel, Operand, OperandKind};
use infc_ir::scalar::{ScalarOp, Source};
use infc_tensor::{AlignedBytes, DType, DTypeClass, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A kernel by which trials are judged.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) kernel: Kernel,
    /// Whether instructions for matrices may make its sums.
    pub(super) by_matrices: bool,
}

impl Definition {
    pub(super) fn of(kernel: Kernel) -> Self {
        Self { kernel, by_matrices: false }
    }

    /// Reads the text of a kernel.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrap = |source| CliError::CannotRead { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(wrap)?;
        let kernel = text.parse().map_err(|error| CliError::usage(format!("--definition: {error}")))?;
        Ok(Self::of(kernel))
    }

    /// Whether there are numbers in it that GPUs multiply as matrices.
    pub(super) fn reads_halves(&self) -> bool {
        self.kernel.operands.iter().any(|operand| matches!(operand.dtype, DType::F16 | DType::BF16))
    }

    /// Buffers of all operands that are read, made up, in their order: floats in [0,1), bools both ways, integers of all kinds,
    /// but those by which something is looked up lie within its extent. Gaps and halos hold what layouts say.
    pub(super) fn operands(&self, symbols: &[i64]) -> Result<Vec<Tensor>, Failure> {
        let limits = self.limits(symbols);
        let read = self.kernel.operands.iter_enumerated().filter(|(_, operand)| operand.kind != OperandKind::Output);
        read.enumerate()
            .map(|(n, (id, operand))| {
                let too_large = || CliError::TooLarge { what: format!("operand `{}`", operand.name) };
                let len = size(&operand.layout.len_elems, symbols).ok_or_else(too_large)?;
                let port = PortSpec::new(&operand.name, operand.dtype, Vec::new());
                let is_number = matches!(operand.dtype.class(), DTypeClass::Signed | DTypeClass::Unsigned);
                let fill = limits.get(&id).filter(|_| is_number).map_or(Fill::Varied, |&extent| Fill::Below(extent));
                let tensor = made_up(&port, &[len], n as u64, fill)?;
                Ok(laid_out(operand, symbols, tensor).ok_or_else(too_large)?)
            })
            .collect()
    }

    /// The extents of what elements of operands say the place in, the least of each.
    fn limits(&self, symbols: &[i64]) -> BTreeMap<OperandId, u64> {
        let mut limits = BTreeMap::new();
        for (id, stage) in self.kernel.stages.iter_enumerated() {
            stage.for_each_load(&mut |_, load| {
                for (axis, value, _) in &load.gather {
                    let extent = match load.source {
                        Source::Operand(of) => self.kernel.operands[of].shape.get(usize::from(*axis)).cloned(),
                        Source::Stage(of, _) => self.kernel.stages[of].value_shape().get(usize::from(*axis)).cloned(),
                        Source::Buffer(_) => None,
                    };
                    let Some(extent) = extent.and_then(|extent| size(&extent, symbols)) else { continue };
                    for operand in self.read_by(id, *value) {
                        let limit = limits.entry(operand).or_insert(extent as u64);
                        *limit = (*limit).min(extent as u64);
                    }
                }
            });
        }
        limits
    }

    /// The operands that a value of a stage depends on.
    fn read_by(&self, stage: StageId, value: ScalarId) -> BTreeSet<OperandId> {
        let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![(stage, value)]);
        while let Some((stage, value)) = open.pop() {
            if !seen.insert((stage.index(), value.index())) {
                continue;
            }
            let op = &self.kernel.stages[stage].body.ops[value];
            op.for_each_operand(&mut |operand| open.push((stage, operand)));
            let ScalarOp::Load(load) = op else { continue };
            match load.source {
                Source::Operand(operand) => drop(found.insert(operand)),
                Source::Stage(of, component) => {
                    open.extend(self.kernel.stages[of].results.get(usize::from(component)).map(|&root| (of, root)));
                }
                Source::Buffer(_) => {}
            }
        }
        found
    }
}

/// A size for these values of symbols.
fn size(dim: &Dim, symbols: &[i64]) -> Option<usize> {
    let value = dim.eval(&|symbol: SymbolId| symbols.get(symbol.index()).copied(), &|_| None);
    value.and_then(|value| usize::try_from(value).ok())
}

/// A buffer's elements where the layout has some, and what fills it elsewhere; `None` if sizes are none. Elements of less than a
/// byte stay as they are.
fn laid_out(operand: &Operand, symbols: &[i64], buffer: Tensor) -> Option<Tensor> {
    let layout = &operand.layout;
    let shape = operand.shape.iter().map(|dim| size(dim, symbols)).collect::<Option<Vec<usize>>>()?;
    let strides = layout.strides.iter().map(|dim| size(dim, symbols)).collect::<Option<Vec<usize>>>()?;
    let offset = size(&layout.offset, symbols)?;
    let points = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
    let Some(width) = operand.dtype.size_bytes().filter(|_| points != buffer.len_elems()) else { return Some(buffer) };
    let mut bytes = AlignedBytes::zeroed(buffer.bytes().len());
    let fill = layout.fill.to_le_bytes();
    bytes.chunks_exact_mut(width).for_each(|element| element.copy_from_slice(&fill[..width.min(8)]));
    for flat in 0..points {
        let (mut rest, mut at) = (flat, offset);
        for (extent, stride) in shape.iter().zip(&strides).rev() {
            at += rest % extent * stride;
            rest /= extent;
        }
        let range = at * width..(at + 1) * width;
        bytes.get_mut(range.clone())?.copy_from_slice(&buffer.bytes()[range]);
    }
    Tensor::from_bytes(buffer.dtype(), vec![buffer.len_elems()], bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operands(text: &str, symbols: &[i64]) -> Vec<Tensor> {
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
        Definition::of(kernel).operands(symbols).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// A look-up reads all over the table, by whatever comes between it and the operand that says where.
    #[test]
    fn what_looks_up_lies_within_what_is_looked_up() {
        let text = "kernel @k(ids: i64[500], shift: i32[500], const table: f32[V, 3]) -> (y: f32[500, 3]) where V in 1.. {\n  \
                    stage place[t: 500] = ids[t]\n  \
                    stage o[t: 500, d: 3] =\n    let id = place[t];\n    \
                    let wrapped = select(id < 0, id + index(V), id);\n    \
                    table[{max(min(wrapped, index(V - 1)), 0)}, d]\n  output y[t, d] = o[t, d]\n}\n";
        for extent in [1, 2, 50] {
            let made = operands(text, &[extent]);
            let which = made[0].elements::<i64>().expect("integers");
            assert!(which.iter().all(|n| (0..extent).contains(n)), "{extent}: {which:?}");
            let distinct: BTreeSet<i64> = which.iter().copied().collect();
            assert!(distinct.len() as i64 >= extent.min(40), "{extent}: {distinct:?}");
            // Nothing is looked up by these.
            let shift = made[1].elements::<i32>().expect("integers");
            assert!(shift.iter().any(|n| *n < 0) && shift.iter().any(|n| *n > 50), "{shift:?}");
        }
    }

    #[test]
    fn halos_hold_what_layouts_say() {
        let made = operands("kernel @k(x: f32[2, 3] layout(order [1, 0], halo [1:0, 0:1])) {}", &[]);
        let x = made[0].elements::<f32>().expect("floats");
        let is_gap = |at: usize| [0, 3, 6, 9, 10, 11].contains(&at);
        assert!((0..12).all(|at| (x[at] == 0.0) == is_gap(at)), "{x:?}");
        assert_eq!(made[0].dtype(), DType::F32);
    }
}
