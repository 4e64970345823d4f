//! Tile registers: matrices that a processor multiplies by one instruction (Intel AMX, Intel 64 and IA-32 Architectures
//! Software Developer's Manual, volume 1, chapter 18).
//!
//! Eight registers hold up to 16 rows of up to 64 bytes. How large each is has to be told before it is used
//! ([`TileInst::Configure`]), which forgets what all of them hold. They are no SSA values: there is no instruction that moves
//! one to another, so who builds a function numbers them.

use super::Value;

/// Tile registers there are.
pub const TILES: usize = 8;
/// Rows of one, at most.
pub const MOST_ROWS: u8 = 16;
/// Bytes of a row, at most.
pub const MOST_ROW_BYTES: u8 = 64;

/// The size of a tile register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TileShape {
    /// Rows; 0 if the register is not used.
    pub rows: u8,
    /// Bytes of a row.
    pub row_bytes: u8,
}

/// The sizes of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TileShapes(pub [TileShape; TILES]);

impl TileShapes {
    /// The memory operand of `ldtilecfg`, palette 1.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        const PALETTE: usize = 0;
        const ROW_BYTES: usize = 16;
        const ROWS: usize = 48;
        let mut bytes = [0; 64];
        bytes[PALETTE] = 1;
        for (n, shape) in self.0.into_iter().enumerate() {
            // A word each.
            bytes[ROW_BYTES + 2 * n] = shape.row_bytes;
            bytes[ROWS + n] = shape.rows;
        }
        bytes
    }

    /// The sizes of these and of others together, if no register has two.
    #[must_use]
    pub fn merged(self, other: Self) -> Option<Self> {
        let mut merged = self;
        for (mine, theirs) in merged.0.iter_mut().zip(other.0) {
            if mine.rows == 0 {
                *mine = theirs;
            } else if theirs.rows != 0 && *mine != theirs {
                return None;
            }
        }
        Some(merged)
    }
}

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileProduct {
    /// Groups of four bytes, without a sign in rows and with one in columns, wrapping in 32 bits (`tdpbusd`).
    UnsignedSigned,
    /// The other way round (`tdpbsud`).
    SignedUnsigned,
    /// Pairs of bfloat16 numbers in f32 (`tdpbf16ps`): the sums of first and of second numbers begin with 0, go on in order, and are
    /// added together and then to what was there. Subnormal numbers are zero everywhere.
    Bf16,
}

/// An instruction on tile registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileInst {
    /// The registers have the sizes of [`super::Function::tile_shapes`] by number; what they held is lost unless that is so already.
    Configure {
        /// Which.
        shapes: u32,
    },
    /// All elements become 0.
    Zero {
        /// Register.
        tile: u8,
    },
    /// Reads rows that begin at `base + disp + row·stride`.
    Load {
        /// Register.
        tile: u8,
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Bytes from one row to the next, an I64.
        stride: Value,
    },
    /// Writes rows, as [`TileInst::Load`] reads them.
    Store {
        /// Register.
        tile: u8,
        /// Address.
        base: Value,
        /// Constant byte displacement.
        disp: i32,
        /// Bytes from one row to the next, an I64.
        stride: Value,
    },
    /// `sum += rows × columns`: element n of row m of `sum`, all of 32 bits, takes the sums of products of the groups k of row m of `rows`
    /// and n of row k of `columns`.
    Multiply {
        /// Of which elements.
        product: TileProduct,
        /// Register.
        sum: u8,
        /// Register of the left factor.
        rows: u8,
        /// Register of the right factor.
        columns: u8,
    },
}

impl TileInst {
    /// Calls `f` with every value that it uses.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        if let TileInst::Load { base, stride, .. } | TileInst::Store { base, stride, .. } = self {
            f(*base);
            f(*stride);
        }
    }

    /// Replaces what it uses.
    pub fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        if let TileInst::Load { base, stride, .. } | TileInst::Store { base, stride, .. } = self {
            *base = f(*base);
            *stride = f(*stride);
        }
    }
}
