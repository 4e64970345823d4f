//! Tile registers of the interpreter.

use super::{Machine, Trap};
use crate::vir::tile::{MOST_ROW_BYTES, MOST_ROWS, TILES, TileInst, TileProduct, TileShape, TileShapes};
use crate::vir::{Elem, Value};

/// Elements of 32 bits in a row, at most.
const ELEMS: usize = MOST_ROW_BYTES as usize / 4;

/// Rows of 32-bit elements.
type Matrix = [[u32; ELEMS]; MOST_ROWS as usize];

/// What the registers hold, and how large they are.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    shapes: TileShapes,
    registers: [Matrix; TILES],
}

impl Default for Tiles {
    fn default() -> Self {
        Self { shapes: TileShapes::default(), registers: [Matrix::default(); TILES] }
    }
}

impl Tiles {
    fn shape(&self, tile: u8) -> Result<TileShape, Trap> {
        let shape = self.shapes.0.get(usize::from(tile)).copied().filter(|shape| shape.rows > 0);
        shape.ok_or(Trap::Tile { tile })
    }

    fn multiply(&mut self, product: TileProduct, [sum, rows, columns]: [u8; 3]) -> Result<(), Trap> {
        let [of_sum, of_rows, of_columns] = [self.shape(sum)?, self.shape(rows)?, self.shape(columns)?];
        let fits = of_sum.rows == of_rows.rows
            && of_sum.row_bytes == of_columns.row_bytes
            && of_rows.row_bytes == 4 * of_columns.rows;
        if !fits {
            return Err(Trap::Tile { tile: sum });
        }
        let (a, b) = (self.registers[usize::from(rows)], self.registers[usize::from(columns)]);
        let (columns, groups) = (usize::from(of_sum.row_bytes / 4), usize::from(of_columns.rows));
        let into = &mut self.registers[usize::from(sum)];
        for (sums, row) in into.iter_mut().zip(&a).take(usize::from(of_sum.rows)) {
            for (n, sum) in sums.iter_mut().enumerate().take(columns) {
                let pairs = row.iter().zip(b.iter().map(|groups| groups[n])).take(groups);
                *sum = sum_of(product, *sum, pairs.map(|(&a, b)| (a, b)));
            }
        }
        Ok(())
    }
}

/// One element more the products of its groups.
fn sum_of(product: TileProduct, sum: u32, groups: impl Iterator<Item = (u32, u32)>) -> u32 {
    let signed = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
    let unsigned = |word: u32| word.to_le_bytes().map(i32::from);
    let bytes = |sum: u32, a: [i32; 4], b: [i32; 4]| {
        a.into_iter().zip(b).fold(sum, |sum, (a, b)| sum.wrapping_add((a * b).cast_unsigned()))
    };
    match product {
        TileProduct::UnsignedSigned => groups.fold(sum, |sum, (a, b)| bytes(sum, unsigned(a), signed(b))),
        TileProduct::SignedUnsigned => groups.fold(sum, |sum, (a, b)| bytes(sum, signed(a), unsigned(b))),
        TileProduct::Bf16 => {
            let normal = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
            let halves = |word: u32| [word << 16, word & 0xffff_0000].map(|bits| normal(f32::from_bits(bits)));
            let [first, second] = groups.fold([0f32; 2], |sums, (a, b)| {
                let (a, b) = (halves(a), halves(b));
                [0, 1].map(|n| normal(a[n].mul_add(b[n], sums[n])))
            });
            let both = normal(first + second);
            normal(normal(f32::from_bits(sum)) + both).to_bits()
        }
    }
}

impl Machine<'_> {
    pub(super) fn tile(&mut self, inst: &TileInst) -> Result<(), Trap> {
        match *inst {
            TileInst::Configure { shapes } => {
                let shapes = self.function.tile_shapes.get(shapes as usize).copied().unwrap_or_default();
                if self.tiles.shapes != shapes {
                    self.tiles = Tiles { shapes, ..Tiles::default() };
                }
            }
            TileInst::Zero { tile } => {
                self.tiles.shape(tile)?;
                self.tiles.registers[usize::from(tile)] = Matrix::default();
            }
            TileInst::Load { tile, base, disp, stride } => {
                let mut matrix = Matrix::default();
                let shape = self.tiles.shape(tile)?;
                for (row, elems) in matrix.iter_mut().enumerate().take(usize::from(shape.rows)) {
                    let start = self.row(base, disp, stride, row);
                    for (elem, at) in elems.iter_mut().zip((start..).step_by(4)).take(usize::from(shape.row_bytes / 4))
                    {
                        *elem = self.memory.read(at, Elem::I32)? as u32;
                    }
                }
                self.tiles.registers[usize::from(tile)] = matrix;
            }
            TileInst::Store { tile, base, disp, stride } => {
                let shape = self.tiles.shape(tile)?;
                let matrix = self.tiles.registers[usize::from(tile)];
                for (row, elems) in matrix.iter().enumerate().take(usize::from(shape.rows)) {
                    let start = self.row(base, disp, stride, row);
                    for (&elem, at) in elems.iter().zip((start..).step_by(4)).take(usize::from(shape.row_bytes / 4)) {
                        self.memory.write(at, Elem::I32, u64::from(elem))?;
                    }
                }
            }
            TileInst::Multiply { product, sum, rows, columns } => self.tiles.multiply(product, [sum, rows, columns])?,
        }
        Ok(())
    }

    fn row(&self, base: Value, disp: i32, stride: Value, row: usize) -> u64 {
        self.address(base, disp).wrapping_add(self.scalar(stride).wrapping_mul(row as u64))
    }
}
