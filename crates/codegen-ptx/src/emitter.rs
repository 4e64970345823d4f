//! The state of printing one kernel, and the frame around its body.

use crate::builder::{Builder, Class, Reg, Space, Ty};
use crate::group::{self, has_groups};
use crate::matrix::Turn;
use crate::memory::{self, Place, STATIC_SHARED_BYTES, is_in_scratch};
use crate::{Launch, PtxError, PtxTarget};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::{Dim, IndexExpr, Ranges};
use infc_ir::kernel::OperandKind;
use infc_ir::nest::{BufferKind, LoopNest};
use infc_ir::schedule::GpuDim;
use std::collections::HashMap;
use std::fmt::Write as _;

/// What an entry begins with.
pub(crate) const ENTRY: &str = ".visible .entry ";

/// Shared memory that is asked for at the launch.
pub(crate) fn dynamic_shared(target: PtxTarget) -> String {
    format!(".extern .shared .align {} .b8 smem[];\n\n", shared_align(target))
}

/// Where shared memory begins: at a multiple of so many bytes.
fn shared_align(target: PtxTarget) -> u64 {
    if target.multiplies_in_groups() { group::ALIGN_BYTES } else { memory::ALIGN_BYTES }
}

/// A parameter of a kernel, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// The device address of a buffer.
    Buffer(BufferId),
    /// The device address of memory for the launch, of [`PtxModule::scratch_bytes`].
    Scratch,
    /// The value of a symbol, as `s64`.
    Symbol(infc_ir::entity::SymbolId),
}

/// A kernel as PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// The whole module.
    pub text: String,
    /// The name of its only entry.
    pub entry: String,
    /// What the entry takes.
    pub params: Vec<Param>,
    /// How it is launched.
    pub launch: Launch,
    /// Global memory that the launch needs for itself, 16-byte aligned, with unknown contents; over the nest's symbols. There
    /// is a parameter for it unless this is 0.
    pub scratch_bytes: Dim,
    /// Shared memory of a block.
    pub shared_bytes: u64,
    /// The shared memory is more than a module may declare: it is asked for at the launch, after raising
    /// `MAX_DYNAMIC_SHARED_SIZE_BYTES` of the function.
    pub dynamic_shared: bool,
    /// The kernel itself waits for those before it, before it touches what they may write: it may be started before they have
    /// ended.
    pub waits: bool,
}

/// What a loop variable is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    Register(Reg),
    /// In one copy of an unrolled loop.
    Number(i64),
}

/// What is computed once per scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Index(IndexExpr, Class),
    Address(BufferId, IndexExpr),
    /// Bytes from where rows of a swizzled buffer begin.
    Swizzled(BufferId, IndexExpr),
    Constant(Class, u64),
    /// The first is below the second, or may also be equal.
    Below {
        low: IndexExpr,
        high: IndexExpr,
        or_equal: bool,
    },
}

pub(crate) struct Emitter<'a> {
    pub(crate) nest: &'a LoopNest,
    pub(crate) target: PtxTarget,
    pub(crate) launch: &'a Launch,
    pub(crate) ranges: Ranges,
    pub(crate) b: Builder,
    /// Per variable.
    pub(crate) vars: Vec<Option<Binding>>,
    /// Per variable: differs between the threads of a block.
    pub(crate) per_thread: Vec<bool>,
    /// Per variable that follows from the thread: its value over the coordinates of the block, which variables 0 to 2
    /// stand for.
    pub(crate) coordinates: Vec<Option<IndexExpr>>,
    /// Per symbol, 64 bits wide.
    pub(crate) symbols: Vec<Reg>,
    /// Per buffer.
    pub(crate) places: Vec<Option<Place>>,
    /// Where the launch's own memory begins, if it has some.
    pub(crate) scratch: Option<Reg>,
    pub(crate) scratch_bytes: IndexExpr,
    pub(crate) shared_bytes: u64,
    pub(crate) local_bytes: u64,
    /// Enclosing loops in whose turns the threads of a block meet.
    pub(crate) meetings: u32,
    /// Enclosing branches that not all threads of a block take together.
    pub(crate) divergence: u32,
    /// Whether groups of warps multiply matrices in this kernel.
    pub(crate) multiplies_in_groups: bool,
    /// Whether a loop that is being printed says where that is waited for.
    pub(crate) waits_for_products: bool,
    /// In loops that products of matrices alone are in: what has been loaded for them.
    pub(crate) fragments: Option<HashMap<(BufferId, IndexExpr), Vec<Reg>>>,
    /// Turns of those loops that are being taken apart, the outermost first.
    pub(crate) turns: Vec<Turn>,
    /// Per variable, while a loop is printed in front of which something was computed: whether it was known there. Empty elsewhere.
    pub(crate) fixed: Vec<bool>,
    scopes: Vec<HashMap<Key, Reg>>,
}

impl Emitter<'_> {
    /// A register computed before, in this scope or one around it.
    pub(crate) fn cached(&self, key: &Key) -> Option<Reg> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).copied())
    }

    /// Remembers a register until the scope ends.
    pub(crate) fn cache(&mut self, key: Key, reg: Reg) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, reg);
        }
    }

    /// Runs `f` in a scope: what it computes is not defined, or not the same, after it.
    pub(crate) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, PtxError>) -> Result<T, PtxError> {
        self.scopes.push(HashMap::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// A constant by its bits.
    pub(crate) fn constant(&mut self, class: Class, bits: u64) -> Reg {
        let key = Key::Constant(class, bits);
        self.cached(&key).unwrap_or_else(|| {
            let reg = self.b.constant(class, bits);
            self.cache(key, reg);
            reg
        })
    }
}

/// Prints a kernel.
///
/// # Errors
/// [`PtxError`] if the nest asks for what this backend, or a GPU, does not do.
pub fn emit(nest: &LoopNest, target: &PtxTarget) -> Result<PtxModule, PtxError> {
    let mut ranges = Ranges::of_symbols(&nest.symbols);
    for (var, info) in nest.vars.iter_enumerated() {
        ranges.set_var(var, info.interval());
    }
    let launch = Launch::of(nest, &ranges)?;
    let multiplies_in_groups = target.multiplies_in_groups() && has_groups(nest);
    let mut e = Emitter {
        nest,
        target: *target,
        launch: &launch,
        ranges,
        b: Builder::default(),
        vars: vec![None; nest.vars.len()],
        per_thread: vec![false; nest.vars.len()],
        coordinates: vec![None; nest.vars.len()],
        symbols: Vec::new(),
        places: vec![None; nest.buffers.len()],
        scratch: None,
        scratch_bytes: IndexExpr::constant(0),
        shared_bytes: 0,
        local_bytes: 0,
        meetings: 0,
        divergence: 0,
        multiplies_in_groups,
        waits_for_products: false,
        fragments: None,
        turns: Vec::new(),
        fixed: Vec::new(),
        scopes: vec![HashMap::new()],
    };
    let entry = entry_name(&nest.name);
    let has_scratch = nest.buffers.iter().any(|buffer| is_in_scratch(buffer, &launch, &e.ranges));
    let params = params(nest, has_scratch);
    e.prologue(&entry, &params)?;
    e.block(&nest.body)?;
    e.b.plain("ret");
    e.check_registers()?;

    let limit = target.shared_limit_bytes();
    if e.shared_bytes > limit {
        return Err(PtxError::SharedMemory { bytes: e.shared_bytes, limit, target: target.to_string() });
    }
    let dynamic_shared = e.shared_bytes > STATIC_SHARED_BYTES;
    let text = frame(&e, &entry, &params, *target, dynamic_shared);
    let shared_bytes = e.shared_bytes;
    let scratch_bytes = e.scratch_bytes.clone();
    let waits = target.starts_early();
    Ok(PtxModule { text, entry, params, launch, scratch_bytes, shared_bytes, dynamic_shared, waits })
}

/// The operand buffers by their argument numbers, then the launch's own memory, then the symbols.
fn params(nest: &LoopNest, has_scratch: bool) -> Vec<Param> {
    let mut buffers: Vec<(u32, BufferId)> = nest
        .buffers
        .iter_enumerated()
        .filter_map(|(id, buffer)| match buffer.kind {
            BufferKind::Operand { argument, .. } => Some((argument, id)),
            BufferKind::Local(_) => None,
        })
        .collect();
    buffers.sort_unstable();
    let buffers = buffers.into_iter().map(|(_, id)| Param::Buffer(id));
    let scratch = has_scratch.then_some(Param::Scratch);
    buffers.chain(scratch).chain(nest.symbols.ids().map(Param::Symbol)).collect()
}

/// A name that PTX takes: letters, digits and underscores.
fn entry_name(name: &str) -> String {
    let safe = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("k_{}", safe.collect::<String>())
}

impl Emitter<'_> {
    /// Parameters, places of all buffers, and the chunk number.
    fn prologue(&mut self, entry: &str, params: &[Param]) -> Result<(), PtxError> {
        for (n, param) in params.iter().enumerate() {
            let reg = self.b.param(&format!("{entry}_param_{n}"));
            match param {
                Param::Symbol(_) => self.symbols.push(reg),
                Param::Scratch => self.scratch = Some(self.b.global_address(reg)),
                Param::Buffer(id) => {
                    let base = self.b.global_address(reg);
                    // An input may lie where an output does, so it may change while the kernel runs.
                    let kind = self.nest.buffers[*id].kind;
                    let constant = matches!(kind, BufferKind::Operand { role: OperandKind::Constant, .. });
                    self.places[id.index()] = Some(Place::Memory { space: Space::Global, base, constant });
                }
            }
        }
        // Places do not depend on where in the nest a buffer begins to exist.
        for id in self.nest.buffers.ids() {
            self.alloc(id)?;
        }
        if let Some(parallel) = &self.nest.parallel {
            self.bind(parallel.var, GpuDim::BlockX);
        }
        if self.target.starts_early() {
            // Behind this all kernels before have ended, and what they have written is there. They let this one begin when their
            // last block ends: blocks that begin earlier are spread over processors as there is place, not evenly.
            self.b.plain("griddepcontrol.wait");
        }
        Ok(())
    }

    /// Makes a variable the coordinate along a GPU dimension.
    pub(crate) fn bind(&mut self, var: infc_ir::entity::VarId, dim: GpuDim) {
        let name = match dim {
            GpuDim::BlockX => "%ctaid.x",
            GpuDim::BlockY => "%ctaid.y",
            GpuDim::BlockZ => "%ctaid.z",
            GpuDim::ThreadX => "%tid.x",
            GpuDim::ThreadY => "%tid.y",
            GpuDim::ThreadZ => "%tid.z",
        };
        let reg = self.b.special(name);
        // The register is 32 bits wide; variables that need 64 are widened once, here.
        let max = self.ranges.var(var).max;
        let wide = max.is_none_or(|m| m > i64::from(i32::MAX));
        let reg = if wide { self.b.cvt("", Ty::U64, Ty::U32, reg) } else { reg };
        self.vars[var.index()] = Some(Binding::Register(reg));
        let is_thread = crate::launch::is_thread(dim);
        self.per_thread[var.index()] = is_thread;
        self.coordinates[var.index()] =
            is_thread.then(|| IndexExpr::var(VarId::from_index(crate::launch::position(dim))));
    }
}

/// What a module begins with.
pub(crate) fn header(target: PtxTarget) -> String {
    format!(".version {}\n.target {target}\n.address_size 64\n\n", target.version())
}

fn frame(e: &Emitter<'_>, entry: &str, params: &[Param], target: PtxTarget, dynamic_shared: bool) -> String {
    // As registers of the wrong class, a mistake of this crate's.
    let unwritten = crate::verify::unwritten(e.b.text());
    assert!(unwritten.is_none(), "`{entry}` reads what is not written: {}", unwritten.unwrap_or_default());
    let mut text = header(target);
    if dynamic_shared {
        text.push_str(&self::dynamic_shared(target));
    }
    let list: Vec<String> = params
        .iter()
        .enumerate()
        .map(|(n, param)| match param {
            Param::Buffer(_) | Param::Scratch => format!("\t.param .u64 {entry}_param_{n}"),
            Param::Symbol(_) => format!("\t.param .s64 {entry}_param_{n}"),
        })
        .collect();
    let [x, y, z] = e.launch.block;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{ENTRY}{entry}(\n{}\n)\n.maxntid {x}, {y}, {z}", list.join(",\n"));
    // Or the assembler keeps room for several blocks beside each other, at the price of registers that it spills.
    let _ = writeln!(text, ".minnctapersm 1\n{{");
    text.push_str(&e.b.declarations());
    if e.shared_bytes > 0 && !dynamic_shared {
        let _ = writeln!(text, "\t.shared .align {} .b8 smem[{}];", shared_align(target), e.shared_bytes);
    }
    if e.local_bytes > 0 {
        let _ = writeln!(text, "\t.local .align 16 .b8 locals[{}];", e.local_bytes);
    }
    let _ = write!(text, "\n{}}}\n", e.b.text());
    text
}
