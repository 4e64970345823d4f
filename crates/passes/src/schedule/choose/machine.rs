//! What the default schedule needs to know of a machine.

use infc_ir::schedule::Intrinsic;

/// What dot products of one kind take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DotCost {
    /// Vector arithmetic instructions of one.
    pub cost: f64,
    /// Vector arithmetic instructions that a vector takes before it can be an operand. Such a vector takes two registers;
    /// where elements are operands as they are, this is 0.
    pub operand_cost: f64,
    /// Cycles from the sum that goes in to the one that comes out.
    pub latency_cycles: f64,
}

impl DotCost {
    /// Where there is an instruction for it.
    #[must_use]
    pub const fn of_instruction(latency_cycles: f64) -> Self {
        Self { cost: 1.0, operand_cost: 0.0, latency_cycles }
    }
}

/// A CPU core, as far as loops care.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes per vector register.
    pub vector_bytes: u32,
    /// Number of vector registers.
    pub vector_registers: u32,
    /// Whether results of comparisons have registers of their own, rather than vector registers.
    pub mask_registers: bool,
    /// Vector arithmetic instructions per cycle.
    pub arithmetic_per_cycle: f64,
    /// Dot products of bytes ([`Intrinsic::Dot4`]).
    pub byte_dot: DotCost,
    /// Dot products of bfloat16 pairs ([`Intrinsic::Dot2`]).
    pub pair_dot: DotCost,
    /// Whether it multiplies matrices in tile registers ([`Intrinsic::Tile4`], [`Intrinsic::Tile2`]).
    pub tile_registers: bool,
    /// Vectors whose lanes of 32 bits one instruction puts together by number; 0 if none does.
    pub permuted_vectors: u32,
    /// Vector loads per cycle.
    pub loads_per_cycle: f64,
    /// Cycles from a multiply-add's operands to its result.
    pub latency_cycles: f64,
    /// Bytes per cycle that the second-level cache delivers, sustained.
    pub l2_bytes_per_cycle: f64,
    /// Bytes per cycle from beyond the second-level cache, sustained.
    pub l3_bytes_per_cycle: f64,
    /// First-level data cache of a core.
    pub l1_bytes: u64,
    /// Second-level cache of a core.
    pub l2_bytes: u64,
    /// A core's share of the last cache.
    pub l3_bytes: u64,
    /// Threads that a kernel is measured with. The default choice makes chunks enough for any number; with several, which
    /// loops are shared is a decision.
    pub threads: usize,
}

impl Machine {
    /// What a dot product takes.
    #[must_use]
    pub fn dot(&self, intrinsic: Intrinsic) -> DotCost {
        match intrinsic {
            Intrinsic::Dot4 => self.byte_dot,
            Intrinsic::Dot2 => self.pair_dot,
            // Of GPUs, or no dot products.
            Intrinsic::Mma16
            | Intrinsic::Mma32
            | Intrinsic::Mma8
            | Intrinsic::Wgmma16
            | Intrinsic::Wgmma32
            | Intrinsic::Tile4
            | Intrinsic::Tile2 => DotCost { cost: f64::INFINITY, operand_cost: 0.0, latency_cycles: f64::INFINITY },
        }
    }

    /// Elements of the given size in a vector.
    #[must_use]
    pub fn lanes(&self, elem_bytes: usize) -> i64 {
        (i64::from(self.vector_bytes) / elem_bytes.max(1) as i64).max(1)
    }
}
