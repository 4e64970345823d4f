//! Makes a [`Function`], keeping it in good order while it grows.
//!
//! There is no separate pass for common subexpressions, loop-invariant code or constant folding: [`Builder`] looks
//! every pure operation up before it makes it, simplifies it ([`super::simplify`]), and places it in the outermost open
//! block where its operands are defined. Four rules bound the floating:
//!
//! - nothing but constants leaves a branch that is rarely taken;
//! - loads from memory that the function writes stay where they are asked for; those from scratch memory are merged
//!   within a block until something is stored, others never;
//! - loads from other memory leave a loop only if it is known to run, and never leave an [`Inst::If`];
//! - integer divisions by what may be zero obey the same rule as loads.
//!
//! Constants all live in the outermost block. That says nothing about registers: emitters make them where they are
//! used.

mod arithmetic;
mod control;
mod memory;
mod operations;

use super::{Block, Elem, Function, Inst, Op, Type, Value, eval, fresh, simplify};
use std::collections::HashMap;

/// Whether the function writes the memory that a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Never written while the function runs: loads are pure.
    ReadOnly,
    /// Written by this function or by another thread of the region.
    Written,
    /// This thread's own scratch memory, which nobody else writes.
    Scratch,
}

/// How far an operation may move outwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Motion {
    /// Anywhere its operands are defined.
    Free,
    /// Out of loops that are known to run; not out of an `If`.
    WhereExecuted,
    /// Not at all, but merged with its equals until something is stored.
    UntilStored,
    /// Not at all, and not merged with its equals.
    Pinned,
}

/// A block under construction.
struct Frame {
    insts: Vec<Inst>,
    /// What is available in this block.
    known: HashMap<(Op, Type), Value>,
    /// Loads from scratch memory that hold what is there now.
    scratch: HashMap<(Op, Type), Value>,
    /// Whether the block runs at least once whenever the enclosing one does.
    executed: bool,
    /// Whether it hardly ever runs, so that what is in it had better stay there.
    rare: bool,
    /// Whether it has a loop in it, so that what else is in it is not hot.
    has_loop: bool,
}

impl Frame {
    fn new(executed: bool) -> Self {
        Self {
            insts: Vec::new(),
            known: HashMap::new(),
            scratch: HashMap::new(),
            executed,
            rare: false,
            has_loop: false,
        }
    }
}

/// A construct that is not closed yet.
enum Open {
    /// Has a frame of its own.
    Loop {
        header: Header,
        dead: bool,
    },
    /// A loop of exactly one turn, dissolved into the enclosing block.
    OneTurn,
    Then {
        cond: Value,
    },
    Else {
        cond: Value,
        then: Block,
    },
}

/// A [`Loop`] without body and results.
struct Header {
    iv: Value,
    start: Value,
    end: Value,
    step: i64,
    nonempty: bool,
    carried: Vec<(Value, Value)>,
}

/// Builds one function; see the module.
///
/// Methods panic when operands do not fit together (types, blocks that are not open): that is a bug in the lowering.
pub struct Builder {
    name: String,
    types: Vec<Type>,
    /// Per value: what defines it, if an operation does.
    ops: Vec<Option<Op>>,
    /// Per value: the depth of its block. Values of closed blocks keep theirs, and must not be used any more.
    depth: Vec<u32>,
    frames: Vec<Frame>,
    open: Vec<Open>,
    /// Whether the target has instructions for [`super::BinaryOp::Scale`] and [`super::UnaryOp::Table`].
    scales: bool,
    /// Whether the target rounds [`super::Op::Fma`] once.
    fuses: bool,
    /// What [`super::TileInst::Configure`] numbers, known when all of a function is.
    pub tile_shapes: Vec<super::TileShapes>,
}

impl Builder {
    /// Starts a function.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let root = Frame::new(true);
        Self {
            name: name.into(),
            types: Vec::new(),
            ops: Vec::new(),
            depth: Vec::new(),
            frames: vec![root],
            open: Vec::new(),
            scales: false,
            fuses: false,
            tile_shapes: Vec::new(),
        }
    }

    /// Whether the target has instructions for [`super::BinaryOp::Scale`] and [`super::UnaryOp::Table`], without which neither
    /// is made; by default it has not.
    #[must_use]
    pub fn with_scale(mut self, scales: bool) -> Self {
        self.scales = scales;
        self
    }

    /// Whether the target rounds [`super::Op::Fma`] once; by default it may not.
    #[must_use]
    pub fn with_fma(mut self, fuses: bool) -> Self {
        self.fuses = fuses;
        self
    }

    /// The type of a value.
    #[must_use]
    pub fn ty(&self, value: Value) -> Type {
        self.types[value.0 as usize]
    }

    /// The operation that defines a value; `None` for results and carried values of loops and branches.
    #[must_use]
    pub fn op(&self, value: Value) -> Option<&Op> {
        self.ops[value.0 as usize].as_ref()
    }

    /// The bits of a constant, one element's worth (a mask: one bit per lane).
    #[must_use]
    pub fn const_bits(&self, value: Value) -> Option<u64> {
        match self.op(value) {
            Some(&Op::Const(bits)) => Some(bits),
            _ => None,
        }
    }

    /// The signed value of an integer constant (of each lane, for a vector).
    #[must_use]
    pub fn as_const(&self, value: Value) -> Option<i64> {
        let elem = self.ty(value).elem;
        match elem {
            Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64 => {
                self.const_bits(value).map(|bits| eval::sign_extend(elem, bits))
            }
            _ => None,
        }
    }

    /// How many open blocks enclose the definition of a value; 0 is the outermost block.
    #[must_use]
    pub fn depth(&self, value: Value) -> usize {
        self.depth[value.0 as usize] as usize
    }

    /// The finished function.
    ///
    /// # Panics
    /// If a loop or branch is still open.
    #[must_use]
    pub fn finish(mut self) -> Function {
        assert!(self.open.is_empty(), "a loop or branch is still open");
        let root = self.frames.pop().expect("the outermost block is always there");
        let body = Block { insts: root.insts, yields: Vec::new() };
        let tile_shapes = self.tile_shapes;
        let mut function = Function { name: self.name, body, types: self.types, scratch_bytes: 0, tile_shapes };
        super::dce::run(&mut function);
        function
    }

    /// Makes an operation after simplification; `motion` is what it allows if nothing simpler is found.
    fn make(&mut self, op: Op, ty: Type, motion: Motion) -> Value {
        if !matches!(motion, Motion::Pinned | Motion::UntilStored)
            && let Some(simpler) = simplify::rewrite(self, &op, ty)
        {
            assert_eq!(self.ty(simpler), ty, "a rewrite keeps the type of {op:?}");
            return simpler;
        }
        self.place(op, ty, motion)
    }

    /// An operation that may go anywhere and needs no simplification.
    pub(super) fn pure(&mut self, op: Op, ty: Type) -> Value {
        self.place(op, ty, Motion::Free)
    }

    fn place(&mut self, op: Op, ty: Type, motion: Motion) -> Value {
        let innermost = self.frames.len() - 1;
        let mut home = 0;
        op.for_each_operand(|operand| home = home.max(self.depth(operand)));
        assert!(home <= innermost, "an operand of {op:?} belongs to a closed block");
        match motion {
            Motion::Free => {}
            Motion::WhereExecuted => {
                // Walk outwards while each block left is certain to run.
                let mut depth = innermost;
                while depth > home && self.frames[depth].executed {
                    depth -= 1;
                }
                home = depth;
            }
            Motion::Pinned | Motion::UntilStored => home = innermost,
        }
        let is_const = matches!(op, Op::Const(_));
        if !is_const && let Some(rare) = self.frames.iter().rposition(|frame| frame.rare) {
            home = home.max(rare);
        }
        if ty.lanes > 1 && !is_const {
            // Vectors stay in blocks that hold a loop already: to move them further out would save little and keep a
            // register busy throughout that loop.
            home = (home + 1..=innermost).rev().find(|&depth| self.frames[depth].has_loop).unwrap_or(home);
        }
        // A load's or constant's type is not part of the operation.
        let key = (op, ty);
        let known = match motion {
            Motion::Pinned => None,
            Motion::UntilStored => self.frames[innermost].scratch.get(&key),
            Motion::Free | Motion::WhereExecuted => self.frames.iter().find_map(|frame| frame.known.get(&key)),
        };
        if let Some(&known) = known {
            return known;
        }
        let op = key.0.clone();
        let result = self.value(ty, Some(op.clone()), home);
        match motion {
            Motion::Pinned => {}
            Motion::UntilStored => drop(self.frames[home].scratch.insert(key, result)),
            Motion::Free | Motion::WhereExecuted => drop(self.frames[home].known.insert(key, result)),
        }
        self.frames[home].insts.push(Inst::Op { result, op });
        result
    }

    fn value(&mut self, ty: Type, op: Option<Op>, depth: usize) -> Value {
        assert!(ty.lanes.is_power_of_two() && ty.lanes <= 64, "{} lanes", ty.lanes);
        let value = fresh(&mut self.types, ty);
        self.ops.push(op);
        self.depth.push(u32::try_from(depth).expect("nesting is shallow"));
        value
    }

    fn emit(&mut self, inst: Inst) {
        let frame = self.frames.last_mut().expect("the outermost block is always there");
        frame.has_loop |= matches!(inst, Inst::Loop(_));
        // Stores, and whatever may have some inside.
        frame.scratch.clear();
        frame.insts.push(inst);
    }

    /// Emits stores to other memory than scratch.
    pub fn outside_scratch(&mut self, stores: impl FnOnce(&mut Self)) {
        let innermost = self.frames.len() - 1;
        let loads = std::mem::take(&mut self.frames[innermost].scratch);
        stores(self);
        self.frames[innermost].scratch = loads;
    }
}

impl Memory {
    const fn motion(self) -> Motion {
        match self {
            Memory::ReadOnly => Motion::WhereExecuted,
            Memory::Written => Motion::Pinned,
            Memory::Scratch => Motion::UntilStored,
        }
    }
}
