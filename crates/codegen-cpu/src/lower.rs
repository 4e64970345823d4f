//! Loop nests to `vir`.
//!
//! The walk over statements ([`stmt`]) keeps register buffers as SSA values, unrolls, and runs at most one vector loop
//! at a time. Index expressions become addresses with constant displacements ([`address`]); conditions become masks
//! ([`mask`]); scalar expressions become vector operations ([`expr`], [`ops`]). What is invariant moves outwards by
//! itself, since the builder places every pure operation as far out as its operands allow.

mod address;
mod dot;
mod expr;
mod known;
mod mask;
mod ops;
mod quantize;
mod stmt;
mod tile;
mod unpack;

use crate::target::{Feature, Level, Target};
use crate::vir::builder::{Builder, Memory};
use crate::vir::{Elem, Function, I64, Type, Value};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::{Dim, IndexExpr, Ranges};
use infc_ir::nest::{BufferKind, LoopNest};
use infc_tensor::DType;
use std::collections::{BTreeMap, HashMap};

/// A nest that cannot be lowered for a CPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LowerError {
    #[error("kernel `{kernel}`: {reason}")]
    Unsupported { kernel: String, reason: String },
}

/// A kernel body in `vir`.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The code.
    pub function: Function,
    /// Bytes of scratch that each thread needs, over the kernel's symbols.
    pub scratch_bytes: Dim,
    /// Loops over tiles ([`infc_ir::schedule::Intrinsic::is_tile`]) that run over memory, since they fit no registers or there are
    /// none.
    pub tiles_in_memory: usize,
}

/// Lowers a whole nest for a target: only what elementary functions and quotients are expanded into depends on it.
///
/// # Errors
/// [`LowerError::Unsupported`] for GPU constructs, and for register buffers whose index does not become constant.
pub fn lower(nest: &LoopNest, target: &Target) -> Result<Lowered, LowerError> {
    let mut lower = Lower::new(nest, target);
    lower.kernel()?;
    let tiles_in_memory = lower.tiles_in_memory;
    Ok(Lowered { function: lower.b.finish(), scratch_bytes: lower.scratch_peak, tiles_in_memory })
}

/// What a loop variable stands for at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum VarValue {
    Const(i64),
    Value(Value),
    /// The lane number of the vector loop.
    Lane,
}

/// The vector loop that is being lowered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lane {
    var: VarId,
    lanes: u16,
    /// Lanes from here on are off.
    extent: i64,
}

struct Lower<'a> {
    nest: &'a LoopNest,
    b: Builder,
    /// Whether the target has fused multiply-adds.
    fuses: bool,
    /// Whether it has tile registers.
    has_tiles: bool,
    /// The sums that are in tile registers at the moment.
    tiled: Option<tile::Tiled>,
    /// See [`Lowered::tiles_in_memory`].
    tiles_in_memory: usize,
    /// Inverses of the scales that numbers are quantised by, by their bits.
    inverses: HashMap<u32, Option<quantize::Inverse>>,
    ranges: Ranges,
    vars: Vec<Option<VarValue>>,
    lane: Option<Lane>,
    symbols: Vec<Value>,
    /// Addresses of buffers in memory.
    bases: Vec<Option<Value>>,
    /// Contents of register buffers by flat element index (of lane 0, for vectors).
    registers: BTreeMap<BufferId, BTreeMap<i64, Value>>,
    scratch_next: IndexExpr,
    scratch_peak: IndexExpr,
}

impl<'a> Lower<'a> {
    fn new(nest: &'a LoopNest, target: &Target) -> Self {
        let (scales, fuses) = (target.level() == Level::X86V4, target.level() != Level::X86V2);
        let mut b = Builder::new(nest.name.clone()).with_scale(scales).with_fma(fuses);
        let args = b.param(0);
        let arguments = nest.buffers.iter().filter(|b| matches!(b.kind, BufferKind::Operand { .. })).count();
        let slot = |n: usize| i32::try_from(8 * n).expect("a kernel has fewer than 2^28 arguments");
        let bases = nest
            .buffers
            .iter()
            .map(|buffer| match buffer.kind {
                BufferKind::Operand { argument, .. } => {
                    Some(b.load(I64, args, slot(argument as usize), Memory::ReadOnly))
                }
                BufferKind::Local(_) => None,
            })
            .collect();
        let symbols =
            (0..nest.symbols.len()).map(|s| b.load(I64, args, slot(arguments + s), Memory::ReadOnly)).collect();
        let mut ranges = Ranges::of_symbols(&nest.symbols);
        for (id, var) in nest.vars.iter_enumerated() {
            ranges.set_var(id, var.interval());
        }
        Self {
            nest,
            b,
            fuses: target.level() != Level::X86V2,
            has_tiles: target.has(Feature::Amx),
            tiled: None,
            tiles_in_memory: 0,
            inverses: HashMap::new(),
            ranges,
            vars: vec![None; nest.vars.len()],
            lane: None,
            symbols,
            bases,
            registers: BTreeMap::new(),
            scratch_next: IndexExpr::constant(0),
            scratch_peak: IndexExpr::constant(0),
        }
    }

    fn unsupported<T>(&self, reason: impl Into<String>) -> Result<T, LowerError> {
        Err(LowerError::Unsupported { kernel: self.nest.name.clone(), reason: reason.into() })
    }

    /// The chunk loop around the body.
    fn kernel(&mut self) -> Result<(), LowerError> {
        let nest = self.nest;
        let Some(parallel) = &nest.parallel else { return self.stmts(&nest.body) };
        let (begin, end) = (self.b.param(1), self.b.param(2));
        let (chunk, _) = self.b.loop_open(begin, end, 1, false, &[]);
        self.vars[parallel.var.index()] = Some(VarValue::Value(chunk));
        self.stmts(&nest.body)?;
        self.b.loop_close(&[]);
        Ok(())
    }

    /// Lanes of values at this point: 1 outside vector loops.
    fn lanes(&self) -> u16 {
        self.lane.map_or(1, |l| l.lanes)
    }
}

/// How elements of a type are held in registers: integers narrower than 32 bits are extended, halves widened, bools
/// are masks.
fn register_elem(dtype: DType) -> Option<Elem> {
    Some(match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Elem::F32,
        DType::F64 => Elem::F64,
        DType::I64 | DType::U64 => Elem::I64,
        DType::I32 | DType::U32 | DType::I16 | DType::U16 | DType::I8 | DType::U8 => Elem::I32,
        DType::Bool => Elem::Mask,
        _ => return None,
    })
}

/// How elements of a type lie in memory.
fn memory_elem(dtype: DType) -> Option<Elem> {
    Some(match dtype {
        DType::F32 => Elem::F32,
        DType::F64 => Elem::F64,
        DType::F16 => Elem::F16,
        DType::BF16 => Elem::BF16,
        DType::I64 | DType::U64 => Elem::I64,
        DType::I32 | DType::U32 => Elem::I32,
        DType::I16 | DType::U16 => Elem::I16,
        DType::I8 | DType::U8 | DType::Bool => Elem::I8,
        _ => return None,
    })
}

/// The register type of `lanes` elements.
fn register_type(dtype: DType, lanes: u16) -> Option<Type> {
    Some(Type::vector(register_elem(dtype)?, lanes))
}
