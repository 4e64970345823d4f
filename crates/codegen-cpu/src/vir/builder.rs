//! Makes a [`Function`], keeping it in good order while it grows.
//!
//! There is no separate pass for common subexpressions, loop-invariant code or constant folding: [`Builder`] looks
//! every pure operation up before it makes it, simplifies it ([`super::simplify`]), and places it in the outermost open
//! block where its operands are defined. Three rules bound the floating:
//!
//! - loads from memory that the function writes stay where they are asked for and are never merged;
//! - loads from other memory leave a loop only if it is known to run, and never leave an [`Inst::If`];
//! - integer divisions by what may be zero obey the same rule as loads.
//!
//! Constants all live in the outermost block. That says nothing about registers: emitters make them where they are
//! used.

use super::{
    BinaryOp, Block, Cond, Convert, Elem, Function, I64, Inst, Loop, Op, Type, UnaryOp, Value, eval, simplify,
};
use std::collections::HashMap;

/// Whether the function writes the memory that a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Never written while the function runs: loads are pure.
    ReadOnly,
    /// Written by this function or by another thread of the region.
    Written,
}

/// How far an operation may move outwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Motion {
    /// Anywhere its operands are defined.
    Free,
    /// Out of loops that are known to run; not out of an `If`.
    WhereExecuted,
    /// Not at all, and not merged with its equals.
    Pinned,
}

/// A block under construction.
struct Frame {
    insts: Vec<Inst>,
    /// What is available in this block.
    known: HashMap<(Op, Type), Value>,
    /// Whether the block runs at least once whenever the enclosing one does.
    executed: bool,
    /// Whether it has a loop in it, so that what else is in it is not hot.
    has_loop: bool,
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
}

impl Builder {
    /// Starts a function.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let root = Frame { insts: Vec::new(), known: HashMap::new(), executed: true, has_loop: false };
        Self {
            name: name.into(),
            types: Vec::new(),
            ops: Vec::new(),
            depth: Vec::new(),
            frames: vec![root],
            open: Vec::new(),
        }
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

    // Leaves.

    /// The n-th parameter: 0 args, 1 begin, 2 end, 3 scratch.
    pub fn param(&mut self, n: u8) -> Value {
        assert!(n < 4, "a kernel has four parameters");
        self.pure(Op::Param(n), I64)
    }

    /// An I64 constant.
    pub fn iconst(&mut self, value: i64) -> Value {
        self.constant(I64, value.cast_unsigned())
    }

    /// A constant by the bits of one element; for a mask, bit i is lane i.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        let meaningful = match ty.elem {
            Elem::Mask if ty.lanes < 64 => (1 << ty.lanes) - 1,
            Elem::Mask => u64::MAX,
            elem => eval::lane_mask(elem),
        };
        self.pure(Op::Const(bits & meaningful), ty)
    }

    /// A constant of any integer or float type, splat over the lanes; floats round to nearest.
    pub fn fconst(&mut self, ty: Type, value: f64) -> Value {
        self.constant(ty, eval::from_f64(ty.elem, value))
    }

    /// Lane numbers 0, 1, 2, ….
    pub fn lane_index(&mut self, ty: Type) -> Value {
        if ty.lanes == 1 { self.constant(ty, 0) } else { self.pure(Op::LaneIndex, ty) }
    }

    // Arithmetic.

    /// See [`UnaryOp`].
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        let ty = self.ty(a);
        self.make(Op::Unary(op, a), ty, Motion::Free)
    }

    /// See [`BinaryOp`].
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?}");
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivU | BinaryOp::RemU);
        let traps = divides && !ty.elem.is_float() && !matches!(self.as_const(b), Some(n) if n != 0 && n != -1);
        self.make(Op::Binary(op, a, b), ty, if traps { Motion::WhereExecuted } else { Motion::Free })
    }

    /// `a·b + c` rounded once.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.elem.is_float() && ty == self.ty(b) && ty == self.ty(c), "operands of fma");
        self.make(Op::Fma(a, b, c), ty, Motion::Free)
    }

    /// Lane-wise comparison giving a mask.
    pub fn compare(&mut self, cond: Cond, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of a comparison");
        self.make(Op::Compare(cond, a, b), ty.mask(), Motion::Free)
    }

    /// `mask ? a : b`.
    pub fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of select");
        assert_eq!(ty.mask(), self.ty(mask), "mask of select");
        self.make(Op::Select(mask, a, b), ty, Motion::Free)
    }

    /// The same bits as another type of the same size, possibly of other lanes.
    pub fn bitcast(&mut self, a: Value, ty: Type) -> Value {
        assert_eq!(self.ty(a).size_bytes(), ty.size_bytes(), "a bitcast keeps all bits");
        self.make(Op::Convert(Convert::Bitcast, a), ty, Motion::Free)
    }

    /// Converts to another element type.
    pub fn convert(&mut self, kind: Convert, a: Value, to: Elem) -> Value {
        let ty = self.ty(a).with_elem(to);
        self.make(Op::Convert(kind, a), ty, Motion::Free)
    }

    /// A scalar in all lanes.
    pub fn splat(&mut self, a: Value, lanes: u16) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty.lanes, 1, "only scalars are splat");
        self.make(Op::Splat(a), Type::vector(ty.elem, lanes), Motion::Free)
    }

    /// The lower half of a vector's lanes.
    pub fn low_half(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.lanes > 1, "a scalar has no halves");
        self.make(Op::LowHalf(a), Type::vector(ty.elem, ty.lanes / 2), Motion::Free)
    }

    /// The upper half of a vector's lanes.
    pub fn high_half(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.lanes > 1, "a scalar has no halves");
        self.make(Op::HighHalf(a), Type::vector(ty.elem, ty.lanes / 2), Motion::Free)
    }

    /// One lane as a scalar.
    pub fn extract(&mut self, a: Value, lane: u16) -> Value {
        let ty = self.ty(a);
        assert!(lane < ty.lanes, "lane {lane} of {}", ty.lanes);
        self.make(Op::Extract(a, lane), Type::scalar(ty.elem), Motion::Free)
    }

    /// The mask whose first `n` lanes are set.
    pub fn first_lanes(&mut self, n: Value, lanes: u16) -> Value {
        assert_eq!(self.ty(n), I64, "a lane count is an i64");
        self.make(Op::FirstLanes(n), Type::vector(Elem::Mask, lanes), Motion::Free)
    }

    /// A mask's lanes as the bits of an I64 scalar.
    pub fn mask_bits(&mut self, mask: Value) -> Value {
        assert_eq!(self.ty(mask).elem, Elem::Mask, "mask bits of a mask");
        self.make(Op::MaskBits(mask), I64, Motion::Free)
    }

    /// Per 32-bit lane `acc + Σ₄ a(u8)·b(i8)`.
    pub fn dot4(&mut self, acc: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(acc);
        let bytes = Type::vector(Elem::I8, ty.lanes * 4);
        assert!(ty.elem == Elem::I32 && self.ty(a) == bytes && self.ty(b) == bytes, "operands of dot4");
        self.make(Op::Dot4(acc, a, b), ty, Motion::Free)
    }

    // Memory.

    /// Reads a whole value at `base + disp`.
    pub fn load(&mut self, ty: Type, base: Value, disp: i32, memory: Memory) -> Value {
        assert_ne!(ty.elem, Elem::Mask, "masks have no memory form");
        let (base, disp) = self.address(base, disp);
        self.make(Op::Load { base, disp }, ty, memory.motion())
    }

    /// Reads the lanes that the mask sets; the others are zero.
    pub fn load_masked(&mut self, ty: Type, base: Value, disp: i32, mask: Value, memory: Memory) -> Value {
        assert_eq!(ty.mask(), self.ty(mask), "mask of a load");
        match self.const_bits(mask) {
            Some(0) => return self.constant(ty, 0),
            Some(bits) if bits.count_ones() == u32::from(ty.lanes) => return self.load(ty, base, disp, memory),
            _ => {}
        }
        let (base, disp) = self.address(base, disp);
        self.make(Op::LoadMasked { base, disp, mask }, ty, memory.motion())
    }

    /// Reads one element and puts it in all lanes.
    pub fn load_splat(&mut self, ty: Type, base: Value, disp: i32, memory: Memory) -> Value {
        let (base, disp) = self.address(base, disp);
        let op = if ty.lanes == 1 { Op::Load { base, disp } } else { Op::LoadSplat { base, disp } };
        self.make(op, ty, memory.motion())
    }

    /// Reads `base + index·scale + disp` per lane; lanes off in the mask are zero.
    #[expect(clippy::too_many_arguments, reason = "an address has four parts")]
    pub fn gather(
        &mut self,
        elem: Elem,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
        memory: Memory,
    ) -> Value {
        let ty = self.ty(index).with_elem(elem);
        self.check_index(index, scale, mask);
        let (base, disp) = self.address(base, disp);
        self.make(Op::Gather { base, index, scale, disp, mask }, ty, memory.motion())
    }

    /// Writes a value at `base + disp`.
    pub fn store(&mut self, value: Value, base: Value, disp: i32) {
        assert_ne!(self.ty(value).elem, Elem::Mask, "masks have no memory form");
        let (base, disp) = self.address(base, disp);
        self.emit(Inst::Store { value, base, disp, mask: None });
    }

    /// Writes the lanes that the mask sets.
    pub fn store_masked(&mut self, value: Value, base: Value, disp: i32, mask: Value) {
        let ty = self.ty(value);
        assert_eq!(ty.mask(), self.ty(mask), "mask of a store");
        let (base, disp) = self.address(base, disp);
        let mask = match self.const_bits(mask) {
            Some(0) => return,
            Some(bits) if bits.count_ones() == u32::from(ty.lanes) => None,
            _ => Some(mask),
        };
        self.emit(Inst::Store { value, base, disp, mask });
    }

    /// Writes lane i at `base + index[i]·scale + disp`, in lane order.
    pub fn scatter(&mut self, value: Value, base: Value, index: Value, scale: u8, disp: i32, mask: Option<Value>) {
        self.check_index(index, scale, mask);
        assert_eq!(self.ty(value).lanes, self.ty(index).lanes, "lanes of a scatter");
        let (base, disp) = self.address(base, disp);
        self.emit(Inst::Scatter { value, base, index, scale, disp, mask });
    }

    /// All threads of the region meet here.
    pub fn barrier(&mut self) {
        self.emit(Inst::Barrier);
    }

    // Control.

    /// Opens `for iv in (start..end).step_by(step)`; gives the induction variable and the carried values, which begin
    /// as `inits`. A loop with constant bounds of one turn leaves no loop behind, one of no turn nothing at all.
    pub fn loop_open(
        &mut self,
        start: Value,
        end: Value,
        step: i64,
        nonempty: bool,
        inits: &[Value],
    ) -> (Value, Vec<Value>) {
        assert!(step > 0, "loops count upwards");
        assert!(self.ty(start) == I64 && self.ty(end) == I64, "loop bounds are i64");
        let turns = match (self.as_const(start), self.as_const(end)) {
            (Some(start), Some(end)) => Some(i128::from(end) - i128::from(start)).map(|n| n.max(0)),
            _ => None,
        };
        if matches!(turns, Some(n) if n > 0 && n <= i128::from(step)) {
            self.open.push(Open::OneTurn);
            return (start, inits.to_vec());
        }
        let nonempty = nonempty || turns.is_some_and(|n| n > 0);
        self.frames.push(Frame { insts: Vec::new(), known: HashMap::new(), executed: nonempty, has_loop: false });
        let iv = self.value(I64, None, self.frames.len() - 1);
        let carried: Vec<(Value, Value)> =
            inits.iter().map(|&init| (self.value(self.ty(init), None, self.frames.len() - 1), init)).collect();
        let inside = carried.iter().map(|&(value, _)| value).collect();
        let header = Header { iv, start, end, step, nonempty, carried };
        self.open.push(Open::Loop { header, dead: turns == Some(0) });
        (iv, inside)
    }

    /// Closes the innermost loop with the next turn's carried values; gives them as they are behind the loop.
    pub fn loop_close(&mut self, yields: &[Value]) -> Vec<Value> {
        let (header, dead) = match self.open.pop() {
            Some(Open::OneTurn) => return yields.to_vec(),
            Some(Open::Loop { header, dead }) => (header, dead),
            _ => panic!("no loop is open here"),
        };
        assert_eq!(yields.len(), header.carried.len(), "one yield per carried value");
        let body = self.close_frame(yields);
        let inits: Vec<Value> = header.carried.iter().map(|&(_, init)| init).collect();
        if dead {
            return inits;
        }
        let mut results = Vec::with_capacity(yields.len());
        for (&yielded, &init) in yields.iter().zip(&inits) {
            assert_eq!(self.ty(yielded), self.ty(init), "a carried value keeps its type");
            results.push(self.value(self.ty(init), None, self.frames.len() - 1));
        }
        let Header { iv, start, end, step, nonempty, carried } = header;
        let out = results.clone();
        self.emit(Inst::Loop(Box::new(Loop { iv, start, end, step, nonempty, carried, body, results })));
        out
    }

    /// Opens a branch taken when the one-lane mask holds.
    pub fn if_open(&mut self, cond: Value) {
        assert_eq!(self.ty(cond), Type::scalar(Elem::Mask), "a condition is a one-lane mask");
        self.open_branch();
        self.open.push(Open::Then { cond });
    }

    /// Ends the first way and opens the other.
    pub fn if_else(&mut self, yields: &[Value]) {
        let Some(Open::Then { cond }) = self.open.pop() else { panic!("no branch is open here") };
        let then = self.close_frame(yields);
        self.open_branch();
        self.open.push(Open::Else { cond, then });
    }

    /// Closes the branch. Without [`Builder::if_else`] the other way is empty and there are no yields.
    pub fn if_close(&mut self, yields: &[Value]) -> Vec<Value> {
        if matches!(self.open.last(), Some(Open::Then { .. })) {
            assert!(yields.is_empty(), "a one-armed branch yields nothing");
            self.if_else(&[]);
        }
        let Some(Open::Else { cond, then }) = self.open.pop() else { panic!("no branch is open here") };
        let otherwise = self.close_frame(yields);
        assert_eq!(then.yields.len(), otherwise.yields.len(), "both ways yield as many values");
        if let Some(bits) = self.const_bits(cond) {
            return self.splice(if bits & 1 == 1 { then } else { otherwise });
        }
        let mut results = Vec::with_capacity(then.yields.len());
        for (&a, &b) in then.yields.iter().zip(&otherwise.yields) {
            assert_eq!(self.ty(a), self.ty(b), "both ways yield the same type");
            results.push(self.value(self.ty(a), None, self.frames.len() - 1));
        }
        let out = results.clone();
        if !(then.insts.is_empty() && otherwise.insts.is_empty() && results.is_empty()) {
            self.emit(Inst::If { cond, then, otherwise, results });
        }
        out
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
        let mut function = Function { name: self.name, body, types: self.types, scratch_bytes: 0 };
        super::dce::run(&mut function);
        function
    }

    // Inside.

    fn check_index(&self, index: Value, scale: u8, mask: Option<Value>) {
        let ty = self.ty(index);
        assert!(matches!(ty.elem, Elem::I32 | Elem::I64), "an index is I32 or I64");
        assert!(matches!(scale, 1 | 2 | 4 | 8), "scale {scale}");
        assert!(mask.is_none_or(|mask| self.ty(mask) == ty.mask()), "mask of a gather or scatter");
    }

    /// Moves constant parts of the base into the displacement, as long as that fits.
    fn address(&mut self, base: Value, disp: i32) -> (Value, i32) {
        assert_eq!(self.ty(base), I64, "an address is an i64");
        if let Some(&Op::Binary(BinaryOp::Add, inner, constant)) = self.op(base)
            && let Some(constant) = self.as_const(constant)
            && let Some(sum) = constant.checked_add(i64::from(disp))
            && let Ok(sum) = i32::try_from(sum)
        {
            return (inner, sum);
        }
        (base, disp)
    }

    /// Makes an operation after simplification; `motion` is what it allows if nothing simpler is found.
    fn make(&mut self, op: Op, ty: Type, motion: Motion) -> Value {
        if motion != Motion::Pinned
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
            Motion::Pinned => home = innermost,
        }
        if ty.lanes > 1 && !matches!(op, Op::Const(_)) {
            // Vectors stay in blocks that hold a loop already: to move them further out would save little and keep a
            // register busy throughout that loop.
            home = (home + 1..=innermost).rev().find(|&depth| self.frames[depth].has_loop).unwrap_or(home);
        }
        // A load's or constant's type is not part of the operation.
        let key = (op, ty);
        if motion != Motion::Pinned
            && let Some(&known) = self.frames.iter().find_map(|frame| frame.known.get(&key))
        {
            return known;
        }
        let op = key.0.clone();
        let result = self.value(ty, Some(op.clone()), home);
        if motion != Motion::Pinned {
            self.frames[home].known.insert(key, result);
        }
        self.frames[home].insts.push(Inst::Op { result, op });
        result
    }

    fn value(&mut self, ty: Type, op: Option<Op>, depth: usize) -> Value {
        assert!(ty.lanes.is_power_of_two() && ty.lanes <= 64, "{} lanes", ty.lanes);
        let value = Value(u32::try_from(self.types.len()).expect("fewer than 2³² values"));
        self.types.push(ty);
        self.ops.push(op);
        self.depth.push(u32::try_from(depth).expect("nesting is shallow"));
        value
    }

    fn emit(&mut self, inst: Inst) {
        let frame = self.frames.last_mut().expect("the outermost block is always there");
        frame.has_loop |= matches!(inst, Inst::Loop(_));
        frame.insts.push(inst);
    }

    fn open_branch(&mut self) {
        self.frames.push(Frame { insts: Vec::new(), known: HashMap::new(), executed: false, has_loop: false });
    }

    fn close_frame(&mut self, yields: &[Value]) -> Block {
        let frame = self.frames.pop().expect("every open construct has a frame");
        Block { insts: frame.insts, yields: yields.to_vec() }
    }

    /// Puts the one way of a branch that is certain into the current block.
    fn splice(&mut self, block: Block) -> Vec<Value> {
        let depth = u32::try_from(self.frames.len() - 1).expect("nesting is shallow");
        for inst in &block.insts {
            inst.for_each_result(|value| self.depth[value.0 as usize] = depth);
        }
        self.frames.last_mut().expect("the outermost block is always there").insts.extend(block.insts);
        block.yields
    }
}

impl Memory {
    const fn motion(self) -> Motion {
        match self {
            Memory::ReadOnly => Motion::WhereExecuted,
            Memory::Written => Motion::Pinned,
        }
    }
}

/// Short forms of [`Builder::binary`] and [`Builder::unary`].
macro_rules! short_forms {
    (binary $($name:ident $op:ident),+) => {
        impl Builder {
            $(
                #[doc = concat!("See [`BinaryOp::", stringify!($op), "`].")]
                pub fn $name(&mut self, a: Value, b: Value) -> Value {
                    self.binary(BinaryOp::$op, a, b)
                }
            )+
        }
    };
    (unary $($name:ident $op:ident),+) => {
        impl Builder {
            $(
                #[doc = concat!("See [`UnaryOp::", stringify!($op), "`].")]
                pub fn $name(&mut self, a: Value) -> Value {
                    self.unary(UnaryOp::$op, a)
                }
            )+
        }
    };
}

short_forms!(binary add Add, sub Sub, mul Mul, div Div, rem Rem, div_u DivU, rem_u RemU, min Min, max Max, min_u MinU, max_u MaxU, and And, or Or, xor Xor, shl Shl, shr_s ShrS, shr_u ShrU);
short_forms!(unary neg Neg, abs Abs, not Not, sqrt Sqrt, round_even RoundEven, floor Floor, ceil Ceil, trunc Trunc);
