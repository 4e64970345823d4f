//! What some elements of a kernel's outputs have to be, by its definition in `f64` ([`Oracle`]): computed once per kernel, in a
//! process of its own, and held against every trial.

use super::definition::Definition;
use crate::error::CliError;
use crate::failure::Failure;
use infc_ir::entity::EntityId;
use infc_ir::interp::{Expected, Oracle};
use infc_ir::kernel::{AxisKind, OperandKind};
use infc_ir::scalar::Const;
use infc_tensor::Tensor;
use infc_tune::Random;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Positions that are drawn of a kernel that is measured, and of one that is proven for other extents.
pub(super) const DRAWN: [usize; 2] = [256, 32];
/// Operations of scalars that may be computed for all that: some tenths of a second.
const BUDGET: [u64; 2] = [12_000_000, 600_000];
/// Positions at the edges of tiles, of each output at most.
const EDGES: usize = 256;

/// For some values of a kernel's symbols.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Points {
    sets: Vec<Set>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Set {
    symbols: Vec<i64>,
    /// Per output operand.
    outputs: Vec<Vec<Known>>,
}

/// An element. Numbers are told by their bits, which text changes nothing about.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    position: usize,
    /// Those of the least and of the greatest number that it may be; or those of the element.
    bits: [u64; 2],
    is_exact: bool,
}

/// Computes them in a thread that has room for points that stand on many others; for `sets` of values of symbols, or, if there
/// are none, for those with which a kernel is measured.
pub(super) fn compute(
    definition: &Definition,
    symbols: &[i64],
    sets: &[Vec<i64>],
    tiles: &[i64],
) -> Result<Points, Failure> {
    const STACK_BYTES: usize = 256 << 20;
    let measured = [symbols.to_vec()];
    let of = || Points::of(definition, if sets.is_empty() { &measured } else { sets }, tiles, sets.is_empty());
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, of);
        let thread = thread.map_err(|error| CliError::usage(format!("--points: {error}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Points {
    /// Computes them for these values of symbols, of which those are left out that operands have no sizes for. `tiles` are
    /// sizes of tiles whose edges are of interest.
    pub(super) fn of(
        definition: &Definition,
        sets: &[Vec<i64>],
        tiles: &[i64],
        is_measured: bool,
    ) -> Result<Self, Failure> {
        let effort = usize::from(!is_measured);
        let mut points = Self::default();
        for symbols in sets {
            let Ok(operands) = definition.operands(symbols) else { continue };
            let found = Set::of(definition, symbols, &operands, tiles, effort);
            points.sets.push(found.map_err(|error| CliError::usage(format!("--points: {error}")))?);
        }
        Ok(points)
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrap = |source| CliError::CannotRead { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(wrap)?;
        Ok(serde_json::from_str(&text).map_err(|error| CliError::usage(format!("--points: {error}")))?)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(|error| CliError::usage(format!("--points: {error}")))?;
        Ok(std::fs::write(path, text).map_err(|source| CliError::CannotWrite { path: path.to_owned(), source })?)
    }

    /// What is wrong with the outputs that code computes, if anything is.
    pub(super) fn refuted(&self, definition: &Definition, symbols: &[i64], outputs: &[Tensor]) -> Option<String> {
        let set = self.sets.iter().find(|set| set.symbols == symbols)?;
        let operands = definition.kernel.operands.iter().filter(|operand| operand.kind == OperandKind::Output);
        operands.zip(outputs).zip(&set.outputs).find_map(|((operand, output), known)| {
            let width = operand.dtype.size_bytes()?;
            known.iter().find_map(|known| {
                let element = output.bytes().get(known.position * width..(known.position + 1) * width)?;
                let mut bits = [0; 8];
                bits.get_mut(..width)?.copy_from_slice(element);
                let found = Const { dtype: operand.dtype, bits: u64::from_le_bytes(bits) };
                let [low, high] = known.bits;
                let expected = if known.is_exact {
                    Expected::Bits(Const { dtype: operand.dtype, bits: low })
                } else {
                    Expected::Within(f64::from_bits(low), f64::from_bits(high))
                };
                let said = match expected {
                    Expected::Bits(bits) => bits.to_f64().to_string(),
                    Expected::Within(low, high) => format!("{low} to {high}"),
                };
                let (name, position, found_f64) = (&operand.name, known.position, found.to_f64());
                (!expected.allows(found))
                    .then(|| format!("element {position} of `{name}` has to be {said}, and is {found_f64}"))
            })
        })
    }

    #[cfg(test)]
    fn known(&self) -> usize {
        self.sets.iter().flat_map(|set| &set.outputs).map(Vec::len).sum()
    }
}

impl Set {
    fn of(
        definition: &Definition,
        symbols: &[i64],
        operands: &[Tensor],
        tiles: &[i64],
        effort: usize,
    ) -> Result<Self, infc_ir::interp::InterpError> {
        let kernel = &definition.kernel;
        let oracle = Oracle::new(kernel, symbols, operands, BUDGET[effort])?.by_matrices(definition.by_matrices);
        let written = kernel.operands.iter_enumerated().filter(|(_, operand)| operand.kind == OperandKind::Output);
        let written: Vec<_> = written.map(|(id, _)| id).collect();
        let mut outputs: Vec<Vec<Known>> = written.iter().map(|_| Vec::new()).collect();
        let in_order = kernel.stages.iter().any(|s| s.axes.iter().any(|axis| axis.kind == AxisKind::Sequential));
        let each = DRAWN[effort].div_ceil(kernel.outputs.len().max(1));
        for (n, extents) in oracle.extents().iter().enumerate() {
            let Some(operand) = written.iter().position(|&id| id == kernel.outputs[n].operand) else { continue };
            let mut places = edges(extents, tiles, EDGES >> (2 * effort));
            places.extend(drawn(extents, each, n as u64));
            if in_order {
                // Later steps stand on earlier ones, which are kept.
                places.sort_unstable();
            }
            for place in places {
                let Some(point) = oracle.point(n, &place)? else { continue };
                debug_assert_eq!(point.operand.index(), written[operand].index());
                let (bits, is_exact) = match point.expected {
                    Expected::Bits(bits) => ([bits.bits; 2], true),
                    Expected::Within(low, high) => ([low.to_bits(), high.to_bits()], false),
                };
                outputs[operand].push(Known { position: point.position, bits, is_exact });
            }
        }
        Ok(Self { symbols: symbols.to_vec(), outputs })
    }
}

/// Places where tiles begin and end, and the last ones: of every axis, and of neighbouring ones that are gone through as one.
/// The coordinates along the others are of all kinds.
fn edges(extents: &[i64], tiles: &[i64], most: usize) -> Vec<Vec<i64>> {
    if extents.contains(&0) {
        return Vec::new();
    }
    let mut random = Random::new(7);
    let mut places: Vec<Vec<i64>> = vec![vec![0; extents.len()], extents.iter().map(|extent| extent - 1).collect()];
    for first in 0..extents.len() {
        for end in first + 1..=extents.len() {
            let Some(extent) = extents[first..end].iter().try_fold(1i64, |n, &e| n.checked_mul(e)) else { continue };
            let mut at: Vec<i64> = vec![0, extent - 1];
            for &tile in tiles.iter().filter(|&&tile| tile > 1) {
                // The first tile's end, the last whole one's, and what is left behind it.
                let whole = extent / tile * tile;
                at.extend([tile - 1, tile, whole - 1, whole, whole / tile / 2 * tile]);
            }
            at.retain(|n| (0..extent).contains(n));
            at.sort_unstable();
            at.dedup();
            for flat in at {
                let mut place: Vec<i64> = extents.iter().map(|&extent| below(&mut random, extent)).collect();
                let mut rest = flat;
                for axis in (first..end).rev() {
                    place[axis] = rest % extents[axis];
                    rest /= extents[axis];
                }
                places.push(place);
            }
        }
    }
    let step = places.len().div_ceil(most.max(1)).max(1);
    places.into_iter().step_by(step).collect()
}

/// Places anywhere.
fn drawn(extents: &[i64], count: usize, seed: u64) -> Vec<Vec<i64>> {
    if extents.contains(&0) {
        return Vec::new();
    }
    let mut random = Random::new(seed);
    (0..count).map(|_| extents.iter().map(|&extent| below(&mut random, extent)).collect()).collect()
}

/// A position along an axis.
fn below(random: &mut Random, extent: i64) -> i64 {
    ((random.next_u64() >> 2) % extent.max(1).unsigned_abs()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends, both sides of an edge, and what is left behind whole tiles, along each axis and along two as one.
    #[test]
    fn edges_of_all_tiles() {
        let places = edges(&[50, 30], &[16], 256);
        let along = |axis: usize| places.iter().map(|place| place[axis]).collect::<std::collections::BTreeSet<_>>();
        for n in [0, 15, 16, 47, 48, 49] {
            assert!(along(0).contains(&n), "{n}: {places:?}");
        }
        for n in [0, 15, 16, 29] {
            assert!(along(1).contains(&n), "{n}: {places:?}");
        }
        let joined = places.iter().map(|place| place[0] * 30 + place[1]).collect::<Vec<_>>();
        assert!([0, 15, 16, 1487, 1488, 1499].iter().all(|n| joined.contains(n)), "{joined:?}");
        assert!(edges(&[50, 30], &[2, 3, 4, 5, 6, 7, 8, 9], 20).len() <= 20);
        assert!(edges(&[3, 0], &[2], 9).is_empty() && drawn(&[0], 9, 0).is_empty());
        assert_eq!((edges(&[], &[2], 9), drawn(&[], 1, 0)), (vec![vec![], vec![]], vec![vec![]]));
    }

    /// A large product is looked at where it counts, without computing all of it.
    #[test]
    fn large_kernels_are_sampled() {
        let text = "kernel @k(a: f32[4000, 1000], b: f32[1000, 2000]) -> (y: f32[4000, 2000]) {\n  \
                    stage p[m: 4000, n: 2000, reduce k: 1000] = fold sum a[m, k] * b[k, n]\n  \
                    stage o[m: 4000, n: 2000] = p[m, n]\n  output y[m, n] = o[m, n]\n}\n";
        let kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let points = Points::of(&Definition::of(kernel), &[vec![]], &[16, 6], true).expect("points");
        assert!(points.known() >= 256, "{}", points.known());
    }
}
