//! Products in integers: the left operand is quantised in the blocks that the right one has.
//!
//! With `s = max |x| / 127` of each block of a row, its numbers become the bytes `round(x / s)`. Of each block the products
//! are summed in 32 bits, what zero points add is taken off, and the result is the sum over blocks of that times both scales:
//! what ONNX Runtime's kernels do on processors.
//!
//! Products of four bytes at a time want four neighbours of the left operand beside the same bits of four neighbouring
//! bytes. So within a block, what is summed has three axes, of groups, of places in a byte, and of bytes in a group, and the
//! left operand is written in that order.

use super::{Packed, Packing};
use crate::build::{Builder, Result, mismatch, var};
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, CompareOp, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// Bytes that are multiplied at a time.
const GROUP: i64 = 4;

/// The largest byte that a number is rounded to.
const LARGEST: f64 = 127.0;

/// What this is divided by is no infinity: 2^−119.
const LEAST: f64 = 1.504_632_769_052_528e-36;

/// The axes of what is summed in a block: groups, places in a byte, and bytes in a group.
#[derive(Clone, Copy)]
pub(super) struct Parts([i64; 3]);

impl Parts {
    fn shape(self) -> impl Iterator<Item = Dim> {
        self.0.into_iter().map(Dim::constant)
    }

    /// Which number of its block is the one at these three coordinates, from variable `first` on.
    fn place(self, first: usize) -> IndexExpr {
        let [_, places, bytes] = self.0;
        var(first).scale(places * bytes) + var(first + 2).scale(places) + var(first + 1)
    }
}

impl Packing {
    /// How a block is summed, if bytes hold whole numbers, several bits each, blocks whole groups, and 32 bits what a block adds up
    /// to.
    pub(super) fn parts(&self) -> Option<Parts> {
        let bits = self.bits.width();
        let places = (bits > 1 && 8 % bits == 0).then_some(8 / bits)?;
        let most = (LARGEST as i64 * ((1 << bits) - 1)).saturating_mul(self.block);
        let fits = self.block % (places * GROUP) == 0 && most <= i64::from(i32::MAX);
        fits.then_some(Parts([self.block / (places * GROUP), places, GROUP]))
    }

    /// Bytes of a block of a column.
    fn block_bytes(&self) -> i64 {
        self.block * self.bits.width() / 8
    }

    /// Whether columns have their last block to its end, and as many zero points as blocks, as the operator says; products of floats
    /// do with less and with more.
    pub(super) fn has_whole_rows(&self, packed: &Packed<'_>) -> bool {
        let has = |x: &Tracked, of_column: i64| {
            x.shape().iter().cloned().product::<Dim>().is_const(self.n.saturating_mul(of_column))
        };
        let zeros =
            |zeros: &Tracked| has(zeros, if zeros.dtype() == DType::U8 { self.zero_bytes() } else { self.blocks() });
        let bytes = self.blocks().saturating_mul(self.block_bytes());
        packed.numbers.dtype() == DType::U8 && has(packed.numbers, bytes) && packed.zeros.is_none_or(zeros)
    }

    /// `x·Wᵀ`, over the leading axes of `x` and `[N]`.
    pub(super) fn product(
        &self,
        build: &mut Builder,
        x: &Tracked,
        packed: &Packed<'_>,
        parts: Parts,
        wide: DType,
    ) -> Result<Tracked> {
        let leading = x.rank().checked_sub(1).ok_or_else(|| mismatch("at least one axis", x.shape()))?;
        build.require_equal("the columns of the left operand and K", &x.shape()[leading], &Dim::constant(self.k))?;
        let (n, blocks) = (Dim::constant(self.n), Dim::constant(self.blocks()));
        let numbers = build.reshape(packed.numbers, &[n.clone(), Dim::constant(self.blocks() * self.block_bytes())])?;
        let scales = build.reshape(packed.scales, &[n.clone(), blocks.clone()])?;
        // So that nothing is divided per block of a row: the scale of a row's block is its largest number over this.
        let scales = build.map(&[&scales], |body, p| {
            let (scale, steps) = (body.cast(wide, p[0]), body.constant(wide, LARGEST));
            body.binary(BinaryOp::Div, scale, steps)
        })?;
        let zeros = packed.zeros.map(|zeros| self.zeros(build, zeros, wide)).transpose()?;
        let zero = if zeros.is_some() { 1.0 } else { self.bits.middle() };
        let [bytes, largest, sum] = self.quantised(build, x, parts, zero)?;
        let inputs: Vec<&Tracked> = [&bytes, &largest, &sum, &numbers, &scales].into_iter().chain(&zeros).collect();
        build.composite(CompositeKind::BlockProduct, &inputs, |build, inputs| {
            let [bytes, largest, sum, numbers, scales] = &inputs[..5] else {
                unreachable!("five and maybe zero points")
            };
            let mut shape = vec![n.clone(), blocks.clone()];
            shape.extend(parts.shape());
            let at = var(1).scale(self.block_bytes()) + var(2).scale(GROUP) + var(4);
            let weights = build.view(numbers, vec![var(0), at], shape)?;
            let weights = match self.bits.width() {
                8 => weights,
                _ => build.map(&[&weights], |body, p| {
                    let number = self.bits.unpack(body, p, &var(3));
                    body.cast(DType::U8, number)
                })?,
            };
            // Labels: leading axes, then the block, its three axes, and the column.
            let rows: Vec<u8> = (0..leading as u8).collect();
            let block = leading as u8;
            let column = block + 4;
            let of_block = [block, block + 1, block + 2, block + 3];
            let lhs: Vec<u8> = rows.iter().copied().chain(of_block).collect();
            let rhs: Vec<u8> = [column].into_iter().chain(of_block).collect();
            let output: Vec<u8> = rows.into_iter().chain([column, block]).collect();
            let sums = build.contract_in(DType::I32, (bytes, &lhs), (&weights, &rhs), &output)?;
            let shape = sums.shape().to_vec();
            let of_row: Vec<IndexExpr> = (0..leading).map(var).chain([var(leading + 1)]).collect();
            let of_column = vec![var(leading), var(leading + 1)];
            let mut terms = vec![sums];
            for (value, at) in [(largest, &of_row), (sum, &of_row), (scales, &of_column)] {
                terms.push(build.view(value, at.clone(), shape.clone())?);
            }
            let block = var(leading + 1);
            if let Some(zeros) = inputs.get(5) {
                let at = match zeros.dtype() {
                    DType::U8 => self.bits.bytes(&block, self.zero_bytes()),
                    _ => vec![block.clone()],
                };
                for at in at {
                    terms.push(build.view(zeros, vec![var(leading), at], shape.clone())?);
                }
            }
            let terms: Vec<&Tracked> = terms.iter().collect();
            let result = build.reduce(&terms, &[leading + 1], Reducer::sum(wide), |body, p| {
                let scale = body.binary(BinaryOp::Mul, p[1], p[3]);
                let steps = match p.get(4) {
                    Some(&zero) => {
                        let zero = match body.dtype(zero) {
                            DType::U8 => self.bits.unpack(body, &p[4..], &block),
                            _ => zero,
                        };
                        let [sums, sum, zero] = [p[0], p[2], zero].map(|x| body.cast(wide, x));
                        let off = body.binary(BinaryOp::Mul, zero, sum);
                        body.binary(BinaryOp::Sub, sums, off)
                    }
                    None => {
                        let steps = body.binary(BinaryOp::Sub, p[0], p[2]);
                        body.cast(wide, steps)
                    }
                };
                vec![body.binary(BinaryOp::Mul, steps, scale)]
            })?;
            Ok(result.into_iter().next().expect("a sum has one component"))
        })
    }

    /// The zero points of all columns: bytes `[N, bytes]`, in which they are packed, or floats `[N, blocks]`.
    fn zeros(&self, build: &mut Builder, zeros: &Tracked, wide: DType) -> Result<Tracked> {
        if zeros.dtype() != DType::U8 {
            let zeros = build.reshape(zeros, &[Dim::constant(self.n), Dim::constant(self.blocks())])?;
            return build.cast(&zeros, wide);
        }
        let row = self.zero_bytes();
        build.reshape(zeros, &[Dim::constant(self.n), Dim::constant(row)])
    }

    /// Bytes of a column's zero points.
    fn zero_bytes(&self) -> i64 {
        (self.blocks().saturating_mul(self.bits.width()) + 7) / 8
    }

    /// The bytes of the left operand, `[…, blocks, groups, places, bytes]`; per block the magnitude of its largest number, and the
    /// sum of its bytes times `zero`.
    fn quantised(&self, build: &mut Builder, x: &Tracked, parts: Parts, zero: f64) -> Result<[Tracked; 3]> {
        let wide = x.dtype();
        let leading = x.rank() - 1;
        let rows = x.shape()[..leading].to_vec();
        let blocks = || Dim::constant(self.blocks());
        let whole = self.k % self.block == 0;
        let read = |build: &mut Builder, within: IndexExpr, shape: Vec<Dim>| {
            let at = var(leading).scale(self.block) + within;
            let index = (0..leading).map(var).chain([at.clone()]).collect();
            let end = Bound { expr: at, lo: Dim::constant(0), hi: Dim::constant(self.k) };
            let valid = if whole { Vec::new() } else { vec![end] };
            let map = AccessMap { rank: shape.len(), index, valid };
            build.view_or(x, map, shape, Const::zero(x.dtype()))
        };
        let shape = rows.iter().cloned().chain([blocks(), Dim::constant(self.block)]).collect();
        let in_order = read(build, var(leading + 1), shape)?;
        let largest = build.reduce(
            &[&in_order],
            &[leading + 1],
            Reducer::binary(BinaryOp::Max, Const::zero(wide)),
            |body, p| vec![body.unary(UnaryOp::Abs, p[0])],
        )?;
        let largest = largest.into_iter().next().expect("a maximum has one component");
        let shape: Vec<Dim> = rows.into_iter().chain([blocks()]).chain(parts.shape()).collect();
        let in_groups = read(build, parts.place(leading + 1), shape.clone())?;
        let inverse = build.map(&[&largest], |body, p| {
            let (steps, zero) = (body.constant(wide, LARGEST), body.constant(wide, 0.0));
            let inverse = body.binary(BinaryOp::Div, steps, p[0]);
            // What is so little that the quotient would be infinite is nothing.
            let least = body.constant(wide, LEAST);
            let is_nothing = body.compare(CompareOp::Lt, p[0], least);
            body.select(is_nothing, zero, inverse)
        })?;
        let inverse = build.view(&inverse, (0..=leading).map(var).collect(), shape)?;
        let bytes = build.map(&[&in_groups, &inverse], |body, p| {
            let steps = body.binary(BinaryOp::Mul, p[0], p[1]);
            body.push(ScalarOp::CastSaturating(DType::I8, steps))
        })?;
        let own = [1, 2, 3].map(|n| leading + n);
        let sum = build.reduce(&[&bytes], &own, Reducer::sum(DType::I32), |body, p| {
            let (byte, zero) = (body.cast(DType::I32, p[0]), body.constant(DType::I32, zero));
            vec![body.binary(BinaryOp::Mul, byte, zero)]
        })?;
        let sum = sum.into_iter().next().expect("a sum has one component");
        Ok([bytes, largest, sum])
    }
}
