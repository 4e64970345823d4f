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

mod compare;
mod convert;
mod flow;
mod int;
mod lane;
mod lookup;
mod mask;
mod memory;
mod pieces;
mod tile;
mod values;
mod vector;
mod vector_int;

use super::inst::{BlockId, Encoding, INT, Kind, MachBlock, MachFunction, MachInst, View, Width};
use super::pool::Pool;
use crate::CodegenError;
use crate::vir::{Block, Elem, Function, Inst, Op, Value, dce};
use iced_x86::Code;
use regalloc2::{Operand, PReg, VReg};

/// What selection makes.
pub(super) struct Selected {
    /// Ready for register allocation.
    pub function: MachFunction,
    /// Of the widest vectors.
    pub width: Width,
}

/// Selects instructions for a function whose vectors all fit the registers. What innermost loops leave in vector registers is
/// copied behind them if that is asked for: the allocator, which sees one value through all that a loop hands on, then may
/// keep in memory what it finds no register for behind the loop without keeping it there within.
///
/// # Errors
/// [`CodegenError::Unsupported`] for the few operations that the other emitter has to take.
pub(super) fn select(function: &Function, encoding: Encoding, copies: bool) -> Result<Selected, CodegenError> {
    let mut selector = Selector { copies, ..Selector::new(function, encoding) };
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
    /// Copies what innermost loops leave.
    copies: bool,
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
    /// Registers of constant masks by their bits, with AVX-512.
    mask_constants: std::collections::BTreeMap<u64, VReg>,
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
    fn new(function: &'a Function, encoding: Encoding) -> Self {
        let count = function.types.len();
        Self {
            function,
            encoding,
            copies: false,
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
            mask_constants: std::collections::BTreeMap::new(),
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
                Inst::Prefetch { .. } | Inst::Store { .. } | Inst::Scatter { .. } | Inst::Tile(_) => {
                    self.inst_epochs.insert(inst, (self.survey_epoch, [0; 2]));
                    self.survey_epoch += u32::from(inst.writes_memory());
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
        self.make_mask_constants();
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
                Inst::Prefetch { base, disp, write } => {
                    self.prefetch(*base, *disp, *write);
                    self.flush();
                    self.retire(&|f| inst.for_each_use(f))?;
                }
                Inst::Tile(tile) => {
                    self.tile(tile)?;
                    self.flush();
                    self.retire(&|f| inst.for_each_use(f))?;
                }
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

    fn emit(&mut self, result: Value, op: &Op) -> Result<(), CodegenError> {
        if self.alias(result).is_some() {
            return Err(unsupported("a register under two names"));
        }
        let ty = self.ty(result);
        let dst = self.vreg(result);
        match *op {
            Op::Param(_) | Op::Const(_) => Ok(()),
            Op::Lanes(ref lanes) => {
                self.lanes(dst, ty, lanes);
                Ok(())
            }
            Op::Load { base, disp, .. } => self.load(dst, ty, base, disp),
            Op::LoadSplat { base, disp, period, .. } => self.load_splat(dst, ty, base, disp, period),
            Op::LoadMasked { base, disp, mask } => self.load_masked(dst, ty, base, disp, mask),
            Op::Gather { base, index, scale, disp, mask } => self.gather(dst, ty, base, index, scale, disp, mask),
            Op::Lookup { base, disp, index } => {
                self.lookup(dst, ty, base, disp, index);
                Ok(())
            }
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
}

/// The error for what the other emitter has to take.
fn unsupported(what: &'static str) -> CodegenError {
    CodegenError::Unsupported { what }
}
