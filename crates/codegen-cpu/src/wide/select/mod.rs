//! Instruction selection: from `vir` to machine instructions on virtual registers.
//!
//! Selection walks backwards, so that when an operation is reached all its uses are known. An operation whose result
//! nobody asked for in a register is not emitted: it was unused, or folded into all its users (loads into arithmetic,
//! sums into addresses, comparisons into branches). Loads are emitted just before their first use, as long as nothing
//! in between writes memory, which keeps few of them in registers at a time. Constants are made where they are used,
//! or read as memory operands.
//!
//! Instructions of one operation are collected in order in a *group*; groups are put behind each other and reversed
//! per block at the end.

mod convert;
mod int;
mod mask;
mod memory;
mod vector;

use super::inst::{
    Address, Base, BlockId, Encoding, Flag, INT, Kind, MASK, MachBlock, MachFunction, MachInst, RegMem, VECTOR, View,
    Width,
};
use super::pool::Pool;
use crate::CodegenError;
use crate::vir::{Block, Convert, Elem, Function, Inst, Loop, Op, Type, Value, dce, eval};
use iced_x86::Code;
use regalloc2::{Operand, PReg, RegClass, VReg};

/// What selection makes.
pub(super) struct Selected {
    /// Ready for register allocation.
    pub function: MachFunction,
    /// Of the widest vectors.
    pub width: Width,
}

/// Selects instructions for a function whose vectors all fit the registers.
///
/// # Errors
/// [`CodegenError::Unsupported`] for the few operations that the other emitter has to take.
pub(super) fn select(function: &Function, encoding: Encoding, dot: bool) -> Result<Selected, CodegenError> {
    let mut selector = Selector::new(function, encoding, dot);
    selector.survey(&function.body);
    selector.entry()?;
    let width = selector.width;
    // Blocks were made from the last to the first.
    let count = selector.blocks.len() as u32;
    let mut blocks: Vec<MachBlock> = std::mem::take(&mut selector.blocks);
    blocks.reverse();
    for block in &mut blocks {
        block.insts.reverse();
        let turn = |id: &mut BlockId| id.0 = count - 1 - id.0;
        if let Some(last) = block.insts.last_mut() {
            match &mut last.kind {
                Kind::Jump(to) => turn(to),
                Kind::Branch(_, yes, no) => {
                    turn(yes);
                    turn(no);
                }
                _ => {}
            }
        }
    }
    Ok(Selected { function: MachFunction { blocks, vregs: selector.next_vreg, pool: selector.pool }, width })
}

/// Calls its argument with every value that an instruction uses.
type Operands<'a> = dyn Fn(&mut dyn FnMut(Value)) + 'a;

/// Where a value is defined.
#[derive(Clone, Copy, Default)]
struct Home {
    /// The `vir` block, numbered in the order of the survey.
    block: u32,
    /// How many writes and nested constructs came before it in all.
    epoch: u32,
}

struct Selector<'a> {
    function: &'a Function,
    encoding: Encoding,
    /// Whether there is a dot-product instruction for bytes.
    dot: bool,
    ops: Vec<Option<Op>>,
    home: Vec<Home>,
    /// Per block number: contains no loop.
    straight: Vec<bool>,
    uses: Vec<u32>,
    /// Uses that the backward walk has not met yet.
    left: Vec<u32>,
    /// Somebody wants the value in a register.
    needed: Vec<bool>,
    /// Emitted ahead of its place, for its first user.
    emitted: Vec<bool>,
    vregs: Vec<Option<VReg>>,
    next_vreg: usize,
    pool: Pool,
    width: Width,
    /// Finished blocks, last one first, their instructions last one first.
    blocks: Vec<MachBlock>,
    current: MachBlock,
    group: Vec<MachInst>,
    here: Home,
    survey_block: u32,
    survey_epoch: u32,
    /// Epochs of the nested constructs and writes, found again when walking backwards.
    inst_epochs: std::collections::HashMap<*const Inst, (u32, [u32; 2])>,
}

impl<'a> Selector<'a> {
    fn new(function: &'a Function, encoding: Encoding, dot: bool) -> Self {
        let count = function.types.len();
        Self {
            function,
            encoding,
            dot,
            ops: dce::definitions(function),
            home: vec![Home::default(); count],
            straight: vec![true],
            uses: vec![0; count],
            left: Vec::new(),
            needed: vec![false; count],
            emitted: vec![false; count],
            vregs: vec![None; count],
            next_vreg: 0,
            pool: Pool::default(),
            width: Width::X,
            blocks: Vec::new(),
            current: MachBlock::default(),
            group: Vec::new(),
            here: Home::default(),
            survey_block: 0,
            survey_epoch: 0,
            inst_epochs: std::collections::HashMap::new(),
        }
    }

    // Before the walk: where values are defined and how often they are used.

    fn survey(&mut self, block: &Block) {
        let number = self.survey_block;
        for inst in &block.insts {
            inst.for_each_use(|value| self.uses[value.0 as usize] += 1);
            match inst {
                Inst::Op { result, .. } => {
                    self.home[result.0 as usize] = Home { block: number, epoch: self.survey_epoch };
                }
                Inst::Loop(l) => {
                    self.straight[number as usize] = false;
                    let inside = self.new_block();
                    self.inst_epochs.insert(inst, (self.survey_epoch, [inside, 0]));
                    self.survey_epoch += 1;
                    let into = Home { block: inside, epoch: self.survey_epoch };
                    self.home[l.iv.0 as usize] = into;
                    l.carried.iter().for_each(|(value, _)| self.home[value.0 as usize] = into);
                    self.nested(&l.body, inside);
                    l.results.iter().for_each(|v| self.home[v.0 as usize] = self.at(number));
                }
                Inst::If { then, otherwise, results, .. } => {
                    let numbers = [self.new_block(), self.new_block()];
                    self.inst_epochs.insert(inst, (self.survey_epoch, numbers));
                    self.survey_epoch += 1;
                    self.nested(then, numbers[0]);
                    self.nested(otherwise, numbers[1]);
                    if !(self.straight[numbers[0] as usize] && self.straight[numbers[1] as usize]) {
                        self.straight[number as usize] = false;
                    }
                    results.iter().for_each(|v| self.home[v.0 as usize] = self.at(number));
                }
                Inst::Store { .. } | Inst::Scatter { .. } | Inst::Barrier => {
                    self.inst_epochs.insert(inst, (self.survey_epoch, [0; 2]));
                    self.survey_epoch += 1;
                }
            }
        }
        if number == 0 {
            self.left.clone_from(&self.uses);
        }
    }

    fn at(&self, block: u32) -> Home {
        Home { block, epoch: self.survey_epoch }
    }

    fn new_block(&mut self) -> u32 {
        self.straight.push(true);
        self.straight.len() as u32 - 1
    }

    fn nested(&mut self, block: &Block, number: u32) {
        let outer = std::mem::replace(&mut self.survey_block, number);
        self.survey(block);
        self.survey_block = outer;
        self.survey_epoch += 1;
    }

    // The walk.

    fn entry(&mut self) -> Result<(), CodegenError> {
        self.push(MachInst::of_kind(Kind::Return, Code::INVALID));
        self.flush();
        self.block(&self.function.body, 0)?;
        let mut params = MachInst::of_kind(Kind::Params, Code::INVALID);
        const REGISTERS: [usize; 4] = [super::alloc::RDI, super::alloc::RSI, super::alloc::RDX, super::alloc::RCX];
        for n in 0..self.ops.len() {
            if let Some(Op::Param(which)) = self.ops[n]
                && self.needed[n]
            {
                let reg = self.vreg(Value(n as u32));
                params.operand(Operand::reg_fixed_def(reg, PReg::new(REGISTERS[usize::from(which)], INT)));
            }
        }
        self.push(params);
        self.flush();
        self.finish_block(Vec::new());
        Ok(())
    }

    fn block(&mut self, block: &'a Block, number: u32) -> Result<(), CodegenError> {
        for inst in block.insts.iter().rev() {
            self.here.block = number;
            self.here.epoch = match inst {
                Inst::Op { result, .. } => self.home[result.0 as usize].epoch,
                _ => self.inst_epochs[&std::ptr::from_ref(inst)].0,
            };
            match inst {
                Inst::Op { result, op } => self.operation(*result, op)?,
                Inst::Loop(l) => {
                    let [inside, _] = self.inst_epochs[&std::ptr::from_ref(inst)].1;
                    self.counted_loop(l, inside)?;
                }
                Inst::If { cond, then, otherwise, results } => {
                    let numbers = self.inst_epochs[&std::ptr::from_ref(inst)].1;
                    self.branch(*cond, [then, otherwise], results, numbers)?;
                }
                Inst::Store { value, base, disp, mask } => {
                    self.store(*value, *base, *disp, *mask)?;
                    self.flush();
                    self.retire(&|f| inst.for_each_use(f))?;
                }
                Inst::Scatter { value, base, index, scale, disp, mask } => {
                    self.scatter(*value, *base, *index, *scale, *disp, *mask)?;
                    self.flush();
                    self.retire(&|f| inst.for_each_use(f))?;
                }
                Inst::Barrier => return Err(unsupported("barriers")),
            }
        }
        Ok(())
    }

    fn operation(&mut self, result: Value, op: &Op) -> Result<(), CodegenError> {
        let n = result.0 as usize;
        if self.emitted[n] || matches!(op, Op::Const(_) | Op::Param(_)) {
            return Ok(());
        }
        if self.needed[n] {
            self.emit(result, op)?;
            self.flush();
        }
        self.retire(&|f| op.for_each_operand(f))
    }

    /// Counts the operands of what was just emitted (or left out) as met; loads that have no earlier user come here.
    fn retire(&mut self, operands: &Operands<'_>) -> Result<(), CodegenError> {
        let mut met = smallvec::SmallVec::<[Value; 4]>::new();
        operands(&mut |value| met.push(value));
        for value in met {
            let n = value.0 as usize;
            self.left[n] -= 1;
            let home = self.home[n];
            let movable = self.left[n] == 0
                && self.needed[n]
                && !self.emitted[n]
                && home.block == self.here.block
                && home.epoch == self.here.epoch;
            if !movable {
                continue;
            }
            if let Some(op @ (Op::Load { .. } | Op::LoadSplat { .. } | Op::LoadMasked { .. })) = self.ops[n].clone() {
                self.emitted[n] = true;
                self.emit(value, &op)?;
                self.flush();
                self.retire(&|f| op.for_each_operand(f))?;
            }
        }
        Ok(())
    }

    fn counted_loop(&mut self, l: &'a Loop, inside: u32) -> Result<(), CodegenError> {
        let outer = self.here;
        let innermost = self.straight[inside as usize];
        // What nobody reads behind the loop is not handed out of it.
        let wanted: Vec<usize> = (0..l.results.len()).filter(|&n| self.needed[l.results[n].0 as usize]).collect();
        let results: Vec<VReg> = wanted.iter().map(|&n| self.vreg(l.results[n])).collect();
        let exit = self.finish_block(results);
        let args = |s: &mut Self, values: &[Value]| -> Vec<VReg> { values.iter().map(|&v| s.reg(v)).collect() };
        let inits: Vec<Value> = l.carried.iter().map(|&(_, init)| init).collect();
        let wanted_of = |values: &[Value]| -> Vec<Value> { wanted.iter().map(|&n| values[n]).collect() };

        // What follows is made from the last block to the first. The way out of the loop, the way around the loop when
        // it does not run at all, and the way back each have a block of their own for the moves they may need.
        self.here.block = inside;
        let carried_out = wanted_of(&l.body.yields);
        let leave = self.edge(exit, |s| Ok(args(s, &carried_out)))?;
        let not_run = wanted_of(&inits);
        let skip = if l.nonempty { None } else { Some(self.edge(exit, |s| Ok(args(s, &not_run)))?) };

        // The header's number is not known before the body is made: the way back is patched below.
        let next_iv = self.fresh(INT);
        let yields = l.body.yields.clone();
        let back = self.edge(BlockId(u32::MAX), |s| {
            let mut values = vec![next_iv];
            values.extend(args(s, &yields));
            Ok(values)
        })?;
        self.blocks[back.0 as usize].innermost = innermost;

        self.terminate(Kind::Branch(Flag::Less, back, leave), vec![Vec::new(), Vec::new()]);
        let iv = self.vreg(l.iv);
        self.add_step(iv, next_iv, l.step);
        self.compare_to(next_iv, l.end);
        self.flush();
        let first_inside = self.blocks.len();
        self.block(&l.body, inside)?;
        let mut params = vec![iv];
        params.extend(l.carried.iter().map(|&(value, _)| self.vreg(value)).collect::<Vec<_>>());
        self.current.innermost_header = innermost;
        let header = self.finish_block(params);
        if let Some(Kind::Jump(to)) = self.blocks[back.0 as usize].insts.first_mut().map(|inst| &mut inst.kind) {
            *to = header;
        }
        if innermost {
            (first_inside..self.blocks.len()).for_each(|n| self.blocks[n].innermost = true);
        }

        // In front of the loop.
        self.here = outer;
        let enter = |s: &mut Self| {
            let mut values = vec![s.reg(l.start)];
            values.extend(args(s, &inits));
            Ok(values)
        };
        match skip {
            None => self.jump_to(header, enter)?,
            Some(skip) => {
                let into = self.edge(header, enter)?;
                self.terminate(Kind::Branch(Flag::Less, into, skip), vec![Vec::new(), Vec::new()]);
                let start = self.reg(l.start);
                self.compare_to(start, l.end);
                self.flush();
            }
        }
        self.retire(&|f| {
            f(l.start);
            f(l.end);
            l.carried.iter().for_each(|&(_, init)| f(init));
            l.body.yields.iter().for_each(|&value| f(value));
        })
    }

    fn branch(
        &mut self,
        cond: Value,
        ways: [&'a Block; 2],
        results: &[Value],
        numbers: [u32; 2],
    ) -> Result<(), CodegenError> {
        let here = self.here;
        let params: Vec<VReg> = results.iter().map(|&value| self.vreg(value)).collect();
        let join = self.finish_block(params);
        let mut targets = [join; 2];
        // Made from the last to the first: the second way lies behind the first.
        for n in [1, 0] {
            let way = ways[n];
            self.here.block = numbers[n];
            self.jump_to(join, |s| Ok(way.yields.iter().map(|&value| s.reg(value)).collect()))?;
            self.block(way, numbers[n])?;
            targets[n] = self.finish_block(Vec::new());
        }
        self.here = here;
        let flag = self.condition(cond)?;
        let group = std::mem::take(&mut self.group);
        self.terminate(Kind::Branch(flag, targets[0], targets[1]), vec![Vec::new(), Vec::new()]);
        self.group = group;
        self.flush();
        self.retire(&|f| {
            f(cond);
            ways.iter().for_each(|way| way.yields.iter().for_each(|&value| f(value)));
        })
    }

    // Blocks.

    /// Starts the current block, which is made backwards, with its terminator.
    fn terminate(&mut self, kind: Kind, args: Vec<Vec<VReg>>) {
        self.current.args = args;
        self.current.insts.push(MachInst::of_kind(kind, Code::INVALID));
    }

    /// Ends the current block with a jump. Constants among the arguments are made in front of it.
    fn jump_to(
        &mut self,
        to: BlockId,
        args: impl FnOnce(&mut Self) -> Result<Vec<VReg>, CodegenError>,
    ) -> Result<(), CodegenError> {
        debug_assert!(self.group.is_empty(), "a group is flushed before the next begins");
        let args = args(self)?;
        let group = std::mem::take(&mut self.group);
        self.terminate(Kind::Jump(to), vec![args]);
        self.group = group;
        self.flush();
        Ok(())
    }

    /// A whole block that only jumps on.
    fn edge(
        &mut self,
        to: BlockId,
        args: impl FnOnce(&mut Self) -> Result<Vec<VReg>, CodegenError>,
    ) -> Result<BlockId, CodegenError> {
        self.jump_to(to, args)?;
        Ok(self.finish_block(Vec::new()))
    }

    /// Ends the current block (that is, its beginning is reached) and gives its number, counted from the last block.
    fn finish_block(&mut self, params: Vec<VReg>) -> BlockId {
        let mut block = std::mem::take(&mut self.current);
        block.params = params;
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    fn push(&mut self, inst: MachInst) {
        for arg in &inst.args {
            if let super::inst::Arg::Reg(_, view) = arg {
                let width = match view {
                    View::Y => Width::Y,
                    View::Z => Width::Z,
                    _ => Width::X,
                };
                self.width = self.width.max(width);
            }
        }
        self.group.push(inst);
    }

    /// Puts the group in front of the current block.
    fn flush(&mut self) {
        self.current.insts.extend(self.group.drain(..).rev());
    }

    // Values.

    fn ty(&self, value: Value) -> Type {
        self.function.ty(value)
    }

    fn class(&self, ty: Type) -> RegClass {
        match ty {
            Type { elem: Elem::Mask, lanes } if lanes > 1 => match self.encoding {
                Encoding::Vex => VECTOR,
                Encoding::Evex => MASK,
            },
            Type { elem, lanes: 1 } if !elem.is_float() => INT,
            _ => VECTOR,
        }
    }

    fn fresh(&mut self, class: RegClass) -> VReg {
        let reg = VReg::new(self.next_vreg, class);
        self.next_vreg += 1;
        reg
    }

    /// The register of a value that is no constant.
    fn vreg(&mut self, value: Value) -> VReg {
        let value = self.root(value);
        if let Some(reg) = self.vregs[value.0 as usize] {
            return reg;
        }
        let reg = self.fresh(self.class(self.ty(value)));
        self.vregs[value.0 as usize] = Some(reg);
        reg
    }

    /// Follows operations that only give another name to (part of) a register.
    fn root(&self, mut value: Value) -> Value {
        while let Some(source) = self.alias(value) {
            value = source;
        }
        value
    }

    /// What a value shares its register with.
    fn alias(&self, value: Value) -> Option<Value> {
        let ty = self.ty(value);
        match *self.ops[value.0 as usize].as_ref()? {
            Op::LowHalf(a) if self.vex_mask(ty) => (ty.lanes == 2).then_some(a),
            // The low lane of an integer vector has to move to a general-purpose register.
            Op::LowHalf(a) => (self.class(ty) == self.class(self.ty(a))).then_some(a),
            Op::Extract(a, 0) if ty.elem.is_float() => Some(a),
            Op::Convert(Convert::Bitcast, a) => (self.class(ty) == self.class(self.ty(a))).then_some(a),
            Op::Convert(Convert::MaskToInt, a) if ty.lanes == 1 => Some(a),
            Op::Convert(Convert::Truncate, a) if ty.lanes == 1 => Some(a),
            _ => None,
        }
    }

    fn vex_mask(&self, ty: Type) -> bool {
        ty.elem == Elem::Mask && ty.lanes > 1 && self.encoding == Encoding::Vex
    }

    /// The bits of one element of a constant (a mask: all lanes).
    fn constant(&self, value: Value) -> Option<u64> {
        match self.ops[value.0 as usize] {
            Some(Op::Const(bits)) => Some(bits),
            _ => None,
        }
    }

    /// The signed value of a scalar integer constant that fits 32 bits.
    fn small_constant(&self, value: Value) -> Option<i32> {
        let ty = self.ty(value);
        if ty.lanes != 1 || ty.elem.is_float() {
            return None;
        }
        i32::try_from(eval::sign_extend(ty.elem, self.constant(value)?)).ok()
    }

    /// The value in a register: constants are made in front of the group's next instruction.
    fn reg(&mut self, value: Value) -> VReg {
        let root = self.root(value);
        if let Some(bits) = self.constant(root) {
            return self.make_constant(self.ty(root), bits);
        }
        self.needed[root.0 as usize] = true;
        self.vreg(root)
    }

    /// The last use in program order is the present one, and the value does not live on around a loop.
    fn dies_here(&self, value: Value) -> bool {
        let root = self.root(value).0 as usize;
        !self.needed[root] && self.home[root].block == self.here.block
    }

    fn make_constant(&mut self, ty: Type, bits: u64) -> VReg {
        let class = self.class(ty);
        let reg = self.fresh(class);
        if class == INT {
            self.load_int(reg, eval::sign_extend(ty.elem, bits));
            return reg;
        }
        if ty.elem == Elem::Mask {
            self.make_mask(reg, ty, bits);
            return reg;
        }
        if bits == 0 {
            self.zero(reg);
            return reg;
        }
        let width = Width::of_bits(ty.size_bytes() * 8);
        if ty.lanes == 1 {
            let code = match ty.elem {
                Elem::F32 => super::codes::LOAD_SF32,
                _ => super::codes::LOAD_SF64,
            };
            let address = self.pool_scalar(ty.elem, bits);
            self.push(MachInst::new(code.code(self.encoding)).def(reg, View::X).mem(&address));
            return reg;
        }
        let address = self.pool_scalar(ty.elem, bits);
        let code = self.splat_from_memory(ty.elem).code(self.encoding, width);
        self.push(MachInst::new(code).def(reg, width.view()).mem(&address));
        reg
    }

    /// All bits zero, by the idiom that costs no execution unit.
    fn zero(&mut self, reg: VReg) {
        // Reads of the register are undefined on purpose, which the allocator need not know: the result replaces it.
        let code = super::codes::PXOR.code(self.encoding, Width::X);
        let mut inst = MachInst::new(code).def(reg, View::X);
        let own = inst.args[0];
        inst.args.push(own);
        inst.args.push(own);
        self.push(inst);
    }

    fn pool_scalar(&mut self, elem: Elem, bits: u64) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        self.pool_bytes(&bits.to_le_bytes()[..size])
    }

    fn pool_splat(&mut self, elem: Elem, bits: u64, width: Width) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        let entry = bits.to_le_bytes()[..size].repeat(width.bytes() as usize / size);
        self.pool_bytes(&entry)
    }

    fn pool_bytes(&mut self, entry: &[u8]) -> Address<VReg> {
        let offset = self.pool.add(entry);
        Address { base: Base::Pool(offset), index: None, scale: 1, disp: 0, broadcast: false }
    }

    /// A vector or float operand that may also be memory: constants, and loads with no other use.
    fn rm(&mut self, value: Value) -> RegMem {
        self.rm_with(value, true)
    }

    /// As [`Self::rm`]; `broadcast` tells whether the instruction can splat one element of 32 or 64 bits.
    fn rm_with(&mut self, value: Value, broadcast: bool) -> RegMem {
        let ty = self.ty(value);
        let broadcast = broadcast && self.encoding == Encoding::Evex && ty.elem.size_bytes() >= 4;
        let width = Width::of_bits(ty.size_bytes() * 8);
        if let Some(bits) = self.constant(value) {
            if ty.lanes == 1 {
                return RegMem::Mem(self.pool_scalar(ty.elem, bits));
            }
            if broadcast {
                return RegMem::Mem(Address { broadcast: true, ..self.pool_scalar(ty.elem, bits) });
            }
            return RegMem::Mem(self.pool_splat(ty.elem, bits, width));
        }
        if self.foldable(value) {
            let whole = ty.lanes == 1 || ty.size_bytes() == width.bytes();
            match self.ops[value.0 as usize] {
                Some(Op::Load { base, disp }) if whole => return RegMem::Mem(self.address(base, disp)),
                Some(Op::LoadSplat { base, disp }) if broadcast => {
                    return RegMem::Mem(Address { broadcast: true, ..self.address(base, disp) });
                }
                _ => {}
            }
        }
        RegMem::Reg(self.reg(value))
    }

    /// A load whose only use is the present one, with no write in between.
    fn foldable(&self, value: Value) -> bool {
        let n = value.0 as usize;
        let home = self.home[n];
        matches!(self.ops[n], Some(Op::Load { .. } | Op::LoadSplat { .. }))
            && self.uses[n] == 1
            && !self.needed[n]
            && home.block == self.here.block
            && home.epoch == self.here.epoch
    }

    /// Whether an operand would become memory, so that operands are best exchanged to fold it.
    fn prefers_memory(&self, value: Value) -> bool {
        self.constant(value).is_some() || self.foldable(value)
    }

    fn emit(&mut self, result: Value, op: &Op) -> Result<(), CodegenError> {
        if self.alias(result).is_some() {
            return Err(unsupported("a register under two names"));
        }
        let ty = self.ty(result);
        let dst = self.vreg(result);
        match *op {
            Op::Param(_) | Op::Const(_) => Ok(()),
            Op::LaneIndex => self.lane_index(dst, ty),
            Op::Load { base, disp } => self.load(dst, ty, base, disp),
            Op::LoadSplat { base, disp } => self.load_splat(dst, ty, base, disp),
            Op::LoadMasked { base, disp, mask } => self.load_masked(dst, ty, base, disp, mask),
            Op::Gather { base, index, scale, disp, mask } => self.gather(dst, ty, base, index, scale, disp, mask),
            Op::Convert(kind, a) => self.convert(dst, ty, kind, a),
            Op::Compare(cond, a, b) => self.compare(dst, cond, a, b),
            Op::FirstLanes(n) => self.first_lanes(dst, ty, n),
            Op::MaskBits(mask) => self.mask_to_bits(dst, mask),
            _ if ty.elem == Elem::Mask && ty.lanes > 1 => self.mask_operation(dst, ty, op),
            Op::Extract(a, lane) => self.extract(dst, ty, a, lane),
            _ if ty.lanes == 1 && !ty.elem.is_float() => self.int_operation(dst, ty, op),
            _ => self.vector_operation(dst, ty, op),
        }
    }

    /// A value that only the address arithmetic of the present instruction uses: sums and shifts made in this block
    /// become base, index and scale.
    fn address(&mut self, base: Value, disp: i32) -> Address<VReg> {
        let here = |s: &Self, value: Value| s.home[value.0 as usize].block == s.here.block;
        if let Some(Op::Binary(crate::vir::BinaryOp::Add, p, q)) = self.ops[base.0 as usize]
            && here(self, base)
            && self.constant(q).is_none()
            && !self.needed[base.0 as usize]
        {
            for (whole, part) in [(p, q), (q, p)] {
                if let Some(Op::Binary(crate::vir::BinaryOp::Shl, index, amount)) = self.ops[part.0 as usize]
                    && here(self, part)
                    && !self.needed[part.0 as usize]
                    && let Some(amount @ 1..=3) = self.constant(amount)
                {
                    let (base, index) = (self.reg(whole), self.reg(index));
                    let index = Some((index, View::R64));
                    return Address { base: Base::Reg(base), index, scale: 1 << amount, disp, broadcast: false };
                }
            }
            let (base, index) = (self.reg(p), self.reg(q));
            return Address {
                base: Base::Reg(base),
                index: Some((index, View::R64)),
                scale: 1,
                disp,
                broadcast: false,
            };
        }
        Address { base: Base::Reg(self.reg(base)), index: None, scale: 1, disp, broadcast: false }
    }
}

/// The error for what the other emitter has to take.
fn unsupported(what: &'static str) -> CodegenError {
    CodegenError::Unsupported { what }
}
