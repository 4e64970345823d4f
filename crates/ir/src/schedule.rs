//! Schedules: how to compute a kernel, as data.
//!
//! A [`Schedule`] is a list of steps that `passes::schedule::apply` turns into a loop nest. Loops are named per stage;
//! splitting makes new names. Steps are ordered, comparable, hashable, and print as text that parses back.

use crate::text::{Name, separated};
use infc_tensor::DType;
use std::fmt;

/// Where the value of a stage lives between its computation and its uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Vector or scalar registers; every index must become a constant.
    Register,
    /// A small per-thread array, expected to stay in the first cache.
    Stack,
    /// Per-thread memory of any size.
    Scratch,
    /// Memory shared by a GPU thread block.
    Shared,
}

/// A dimension of a GPU launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the well-known CUDA dimensions")]
pub enum GpuDim {
    BlockX,
    BlockY,
    BlockZ,
    ThreadX,
    ThreadY,
    ThreadZ,
}

/// An operation of the machine that does several turns of a loop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Intrinsic {
    /// Four products of an unsigned and a signed byte, summed in i32, per lane.
    Dot4,
    /// Two products of bfloat16 numbers, summed in f32, per lane: the second before the first. Subnormal numbers may
    /// count as zero.
    Dot2,
    /// A product of two matrices of halves whose rows and columns are spread over the 32 threads of a warp: `mma.sync` of a
    /// GPU. The sum's points of a thread are those that the instruction gives it; the loop is along what is summed.
    Mma16,
    /// As [`Intrinsic::Mma16`], of bytes in i32.
    Mma32,
    /// As [`Intrinsic::Mma16`], of TF32 numbers ([`crate::scalar::UnaryOp::Tf32`]).
    Mma8,
    /// As [`Intrinsic::Mma16`], by four warps at once, 16 rows each, which read both matrices from shared memory while they go on:
    /// `wgmma` of a GPU. The loop over fragments of columns around it is part of the instruction.
    Wgmma16,
    /// As [`Intrinsic::Wgmma16`], of bytes in i32.
    Wgmma32,
    /// A product of two matrices of bytes in i32, by the tile registers of a processor (Intel AMX): of the four innermost loops,
    /// of at most 16 turns each, the outermost two are over rows and columns of the sum, the others over groups of four
    /// neighbours that are summed.
    Tile4,
    /// As [`Intrinsic::Tile4`], of pairs of bfloat16 numbers in f32. First and second numbers of pairs are summed apart and in
    /// order, then added; subnormal numbers count as zero.
    Tile2,
}

impl Intrinsic {
    /// All of them.
    pub const ALL: [Intrinsic; 9] = [
        Intrinsic::Dot4,
        Intrinsic::Dot2,
        Intrinsic::Mma16,
        Intrinsic::Mma32,
        Intrinsic::Mma8,
        Intrinsic::Wgmma16,
        Intrinsic::Wgmma32,
        Intrinsic::Tile4,
        Intrinsic::Tile2,
    ];
    /// Turns of the three loops around the innermost one of a [`Intrinsic::Tile4`], at most: rows of a tile register, and its
    /// columns of 32 bits.
    pub const TILE_TURNS: i64 = 16;

    /// Turns of a loop that are done at once; of several loops, the innermost one's.
    #[must_use]
    pub const fn turns(self) -> i64 {
        match self {
            Intrinsic::Dot4 | Intrinsic::Tile4 => 4,
            Intrinsic::Dot2 | Intrinsic::Tile2 => 2,
            Intrinsic::Mma16 | Intrinsic::Wgmma16 => 16,
            Intrinsic::Mma32 | Intrinsic::Wgmma32 => 32,
            Intrinsic::Mma8 => 8,
        }
    }

    /// What sums products of elements of two types, either first, in a third, per lane.
    #[must_use]
    pub const fn of(sum: DType, factors: [DType; 2]) -> Option<Intrinsic> {
        match (sum, factors) {
            (DType::I32, [DType::U8, DType::I8] | [DType::I8, DType::U8]) => Some(Intrinsic::Dot4),
            (DType::F32, [DType::BF16, DType::BF16]) => Some(Intrinsic::Dot2),
            _ => None,
        }
    }

    /// The product of matrices that does what this dot product does, for many rows and columns at once.
    #[must_use]
    pub const fn in_tiles(self) -> Option<Intrinsic> {
        match self {
            Intrinsic::Dot4 => Some(Intrinsic::Tile4),
            Intrinsic::Dot2 => Some(Intrinsic::Tile2),
            _ => None,
        }
    }

    /// Whether it takes four loops: rows, columns, groups, and what is in a group.
    #[must_use]
    pub const fn is_tile(self) -> bool {
        matches!(self, Intrinsic::Tile4 | Intrinsic::Tile2)
    }

    /// Whether four warps do it together, and go on before it is done.
    #[must_use]
    pub const fn is_of_group(self) -> bool {
        matches!(self, Intrinsic::Wgmma16 | Intrinsic::Wgmma32)
    }

    /// The same product of matrices by four warps together.
    #[must_use]
    pub const fn of_group(self) -> Option<Intrinsic> {
        match self {
            Intrinsic::Mma16 => Some(Intrinsic::Wgmma16),
            Intrinsic::Mma32 => Some(Intrinsic::Wgmma32),
            _ => None,
        }
    }

    /// Whether the result is that of the turns one after the other, to the bit.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        match self {
            Intrinsic::Dot4 | Intrinsic::Mma32 | Intrinsic::Wgmma32 | Intrinsic::Tile4 => true,
            Intrinsic::Dot2 | Intrinsic::Mma16 | Intrinsic::Wgmma16 | Intrinsic::Mma8 | Intrinsic::Tile2 => false,
        }
    }
}

/// One step. Stages and loops are named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Two axes become one, here and in all stages in step with this one: the coordinates are the quotient and the
    /// remainder of the joined one by the extent of `inner`. It comes before all steps of other kinds but `Part` and `Bring`.
    Join {
        /// Stage.
        stage: String,
        /// The axis whose coordinate is the quotient.
        outer: String,
        /// The axis whose coordinate is the remainder.
        inner: String,
        /// New axis, in the place of `inner`.
        joined: String,
    },
    /// An axis becomes two, of the stage and of nobody else: the coordinate is that of `outer` times `points` and that of
    /// `inner`. Readers read at the quotient and the remainder. It comes before all steps of other kinds but `Join` and `Bring`.
    Part {
        /// Stage; not an output of the kernel.
        stage: String,
        /// A parallel axis of constant extent, a multiple of `points`.
        axis: String,
        /// Extent of `inner`.
        points: u32,
        /// New axis, in the place of the old one.
        outer: String,
        /// New axis behind it.
        inner: String,
    },
    /// What the stage loads of an operand, with its conversion, is made by a stage of its own in front, over those axes of
    /// the stage that it moves along: first those that are reduced. It comes before all steps of other kinds but `Join` and
    /// `Part`.
    Bring {
        /// Stage; it loads the operand once, without conditions.
        stage: String,
        /// Of the kernel.
        operand: String,
        /// The new stage.
        into: String,
    },
    /// Sums along an axis are taken apart: `points` neighbours are summed each for themselves, beside the columns along
    /// another axis, and readers add them up. It comes before all steps of other kinds but `Join`, `Part` and `Bring`.
    Interleave {
        /// Stage; it sums, and is no output of the kernel.
        stage: String,
        /// A reduced axis of constant extent, a multiple of `points`.
        axis: String,
        /// Sums that one becomes.
        points: u32,
        /// A parallel axis of constant extent.
        columns: String,
        /// New axis, in the place of `columns`, over the sums of each column.
        joined: String,
    },
    /// A reduction is folded in two: a new stage in front folds every `parts`-th point along an axis, once for each of so
    /// many beginnings, and the stage folds these (`rfactor`: Suriana, Adams and Kamil, "Parallel Associative Reductions in
    /// Halide", 2017). As [`Step::Join`], it comes before the steps that change no axes or stages.
    Rfactor {
        /// Stage.
        stage: String,
        /// A reduced axis.
        axis: String,
        /// Results that one becomes.
        parts: u32,
        /// The new stage.
        into: String,
        /// New axis over the parts, in both.
        part: String,
    },
    /// A reduced axis becomes as long as the next multiple of a number; what lies beyond its end is read as 0, so that a sum
    /// of products stays what it is. As [`Step::Join`], it comes before the steps that change no axes or stages.
    Pad {
        /// Stage; all that it loads moves along the axis, and is 0 where it is not read.
        stage: String,
        /// Axis.
        axis: String,
        /// The number.
        to: u32,
    },
    /// A load is rounded to TF32 ([`crate::scalar::UnaryOp::Tf32`]) wherever its stage uses it, which changes results. As
    /// [`Step::Join`], it comes before the steps that change no axes or stages.
    Round {
        /// Stage.
        stage: String,
        /// The number of the load among those of the stage, in the order of its text, from 0.
        load: u32,
    },
    /// A load becomes a stage of its own in front (TVM's `cache_read`), over those axes of its reader that it moves along, in
    /// their order. As [`Step::Join`], it comes before the steps that change no axes or stages.
    Cache {
        /// Stage.
        stage: String,
        /// As in [`Step::Round`].
        load: u32,
        /// The new stage.
        into: String,
    },
    /// A stage of one point gets an axis of one point, so that there is a loop. As [`Step::Join`], it comes before the steps that
    /// change no axes or stages.
    Single {
        /// Stage without parallel axes.
        stage: String,
        /// New axis, behind all others.
        axis: String,
    },
    /// A softmax and the sum that it weighs, which a kernel begins with, go through keys so many at a time. As [`Step::Join`], it
    /// comes before the steps that change no axes or stages.
    Online {
        /// Keys.
        keys: u32,
    },
    /// The loop becomes two: `outer` over tiles of `factor`, `inner` within a tile. A remainder gets code of its own.
    Split {
        /// Stage.
        stage: String,
        /// Loop that is split.
        axis: String,
        /// Points per tile, at least 1.
        factor: u32,
        /// New loop over tiles.
        outer: String,
        /// New loop within a tile.
        inner: String,
    },
    /// The named loops take each other's places so that they nest in the given order; others stay where they are.
    Reorder {
        /// Stage.
        stage: String,
        /// From outermost to innermost.
        order: Vec<String>,
    },
    /// The stage is computed where it is read, each time.
    Inline {
        /// Stage; it must have no reducer.
        stage: String,
    },
    /// The part of the stage that one turn of a consumer's loop needs is computed at the start of that turn.
    ComputeAt {
        /// Stage.
        stage: String,
        /// Consumer.
        consumer: String,
        /// Loop of the consumer.
        axis: String,
    },
    /// Where the stage's value lives.
    StoreIn {
        /// Stage.
        stage: String,
        /// See [`Scope`].
        scope: Scope,
    },
    /// The loop, which must be innermost but for a tensorized one, runs as vector lanes. Its extent is at most the factor it was split by.
    Vectorize {
        /// Stage.
        stage: String,
        /// Loop.
        axis: String,
    },
    /// The loop's turns become straight-line code.
    Unroll {
        /// Stage.
        stage: String,
        /// Loop.
        axis: String,
    },
    /// The reduction loop folds into accumulators of its own per turn, combined in order after the reduction.
    Partial {
        /// Stage.
        stage: String,
        /// A reduction loop of constant extent.
        axis: String,
    },
    /// Turns of the reduction loop in which a tile only meets padding are left out: one factor of what is summed is zero there,
    /// the other one a weight.
    Skip {
        /// Stage.
        stage: String,
        /// A reduction loop.
        axis: String,
    },
    /// The loop over an axis of a reduction turns once for each reduced point, where data says: of
    /// `fold select(target = index(axis), value, neutral)` all other points are folded with what changes nothing.
    Scatter {
        /// Stage.
        stage: String,
        /// The axis: parallel, not split, inside of all that is reduced and of all that the target depends on.
        axis: String,
    },
    /// The loop's turns become one operation of the machine. The loop is innermost, inside of the vector loop if there
    /// is one. Of [`Intrinsic::Tile4`] and [`Intrinsic::Tile2`] the three loops around it are part, in the order that they have at
    /// this step.
    Tensorize {
        /// Stage.
        stage: String,
        /// A reduction loop, split off with as many turns as the operation takes.
        axis: String,
        /// See [`Intrinsic`].
        intrinsic: Intrinsic,
    },
    /// The stage, which is computed at a loop of its reader and only copies, is copied asynchronously so many turns of that
    /// loop ahead, into as many tiles of shared memory and one more in turn.
    Stream {
        /// Stage; its innermost loop is a vector of 4, 8 or 16 bytes that are neighbours and aligned as one.
        stage: String,
        /// Turns, at least 1.
        ahead: u32,
    },
    /// While a stage is computed, the memory is asked for that a stage which reads it at points near its own writes
    /// after it.
    Prefetch {
        /// The stage that writes; an output of the kernel.
        stage: String,
        /// The stage that is computed meanwhile.
        during: String,
    },
    /// While a stage is computed, the memory is asked for that its vectors read of an operand, or write to it, some points
    /// later.
    Fetch {
        /// Of the kernel.
        operand: String,
        /// The stage that reads or writes it.
        during: String,
        /// An axis of the stage.
        axis: String,
        /// By how many points of the axis.
        ahead: u32,
    },
    /// The named outermost loops become the kernel's one parallel axis. If the first is a recurrence's loop over steps,
    /// chunks of a step run when those of all steps before have.
    Parallel {
        /// Stage.
        stage: String,
        /// From outermost inwards.
        axes: Vec<String>,
    },
    /// The loop becomes a dimension of a GPU launch.
    Bind {
        /// Stage.
        stage: String,
        /// Loop.
        axis: String,
        /// See [`GpuDim`].
        dim: GpuDim,
    },
}

impl Step {
    /// Whether it changes axes or stages of the kernel. Such steps come before all others.
    #[must_use]
    pub const fn is_rewrite(&self) -> bool {
        matches!(
            self,
            Step::Join { .. }
                | Step::Part { .. }
                | Step::Bring { .. }
                | Step::Interleave { .. }
                | Step::Rfactor { .. }
                | Step::Pad { .. }
                | Step::Round { .. }
                | Step::Cache { .. }
                | Step::Single { .. }
                | Step::Online { .. }
        )
    }
}

/// A list of steps, applied in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// See [`Step`].
    pub steps: Vec<Step>,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Register => "register",
            Scope::Stack => "stack",
            Scope::Scratch => "scratch",
            Scope::Shared => "shared",
        })
    }
}

impl fmt::Display for Intrinsic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Intrinsic::Dot4 => "dot4",
            Intrinsic::Dot2 => "dot2",
            Intrinsic::Mma16 => "mma16",
            Intrinsic::Mma32 => "mma32",
            Intrinsic::Mma8 => "mma8",
            Intrinsic::Wgmma16 => "wgmma16",
            Intrinsic::Wgmma32 => "wgmma32",
            Intrinsic::Tile4 => "tile4",
            Intrinsic::Tile2 => "tile2",
        })
    }
}

impl fmt::Display for GpuDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GpuDim::BlockX => "block.x",
            GpuDim::BlockY => "block.y",
            GpuDim::BlockZ => "block.z",
            GpuDim::ThreadX => "thread.x",
            GpuDim::ThreadY => "thread.y",
            GpuDim::ThreadZ => "thread.z",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |text| Name(text);
        match self {
            Step::Join { stage, outer, inner, joined } => {
                write!(f, "join {}.{}, {} -> {}", name(stage), name(outer), name(inner), name(joined))
            }
            Step::Part { stage, axis, points, outer, inner } => {
                let (outer, inner) = (name(outer), name(inner));
                write!(f, "part {}.{} by {points} -> {outer}, {inner}", name(stage), name(axis))
            }
            Step::Bring { stage, operand, into } => {
                write!(f, "bring {} to {} -> {}", name(operand), name(stage), name(into))
            }
            Step::Interleave { stage, axis, points, columns, joined } => {
                let (columns, joined) = (name(columns), name(joined));
                write!(f, "interleave {}.{} by {points} with {columns} -> {joined}", name(stage), name(axis))
            }
            Step::Rfactor { stage, axis, parts, into, part } => {
                let (into, part) = (name(into), name(part));
                write!(f, "rfactor {}.{} by {parts} -> {into}, {part}", name(stage), name(axis))
            }
            Step::Pad { stage, axis, to } => write!(f, "pad {}.{} to {to}", name(stage), name(axis)),
            Step::Round { stage, load } => write!(f, "round {} load {load}", name(stage)),
            Step::Cache { stage, load, into } => write!(f, "cache {} load {load} -> {}", name(stage), name(into)),
            Step::Single { stage, axis } => write!(f, "single {} -> {}", name(stage), name(axis)),
            Step::Online { keys } => write!(f, "online by {keys}"),
            Step::Split { stage, axis, factor, outer, inner } => {
                let (outer, inner) = (name(outer), name(inner));
                write!(f, "split {}.{} by {factor} -> {outer}, {inner}", name(stage), name(axis))
            }
            Step::Reorder { stage, order } => write!(f, "reorder {}: {}", name(stage), Names(order)),
            Step::Inline { stage } => write!(f, "inline {}", name(stage)),
            Step::ComputeAt { stage, consumer, axis } => {
                write!(f, "compute {} at {}.{}", name(stage), name(consumer), name(axis))
            }
            Step::StoreIn { stage, scope } => write!(f, "store {} in {scope}", name(stage)),
            Step::Vectorize { stage, axis } => write!(f, "vectorize {}.{}", name(stage), name(axis)),
            Step::Unroll { stage, axis } => write!(f, "unroll {}.{}", name(stage), name(axis)),
            Step::Partial { stage, axis } => write!(f, "partial {}.{}", name(stage), name(axis)),
            Step::Skip { stage, axis } => write!(f, "skip {}.{}", name(stage), name(axis)),
            Step::Scatter { stage, axis } => write!(f, "scatter {}.{}", name(stage), name(axis)),
            Step::Tensorize { stage, axis, intrinsic } => {
                write!(f, "tensorize {}.{} to {intrinsic}", name(stage), name(axis))
            }
            Step::Stream { stage, ahead } => write!(f, "stream {} by {ahead}", name(stage)),
            Step::Prefetch { stage, during } => write!(f, "prefetch {} during {}", name(stage), name(during)),
            Step::Fetch { operand, during, axis, ahead } => {
                write!(f, "fetch {} during {}.{} by {ahead}", name(operand), name(during), name(axis))
            }
            Step::Parallel { stage, axes } => write!(f, "parallel {}: {}", name(stage), Names(axes)),
            Step::Bind { stage, axis, dim } => write!(f, "bind {}.{} to {dim}", name(stage), name(axis)),
        }
    }
}

/// Names with commas in between.
struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, ", ", self.0, |f, name| write!(f, "{}", Name(name)))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{step}")?;
        }
        Ok(())
    }
}
