//! Register allocation: the view of a [`MachFunction`] that `regalloc2` wants, and the registers there are.

use super::inst::{Encoding, INT, Kind, MASK, MachFunction, MachInst, VECTOR};
use regalloc2::{
    Algorithm, Block, Function, Inst, InstRange, MachineEnv, Operand, Output, PReg, PRegSet, RegAllocError, RegClass,
    RegallocOptions, VReg,
};

/// General-purpose registers by their number in the encoding.
pub(super) const RAX: usize = 0;
pub(super) const RCX: usize = 1;
pub(super) const RDX: usize = 2;
pub(super) const RBX: usize = 3;
pub(super) const RSP: usize = 4;
pub(super) const RBP: usize = 5;
pub(super) const RSI: usize = 6;
pub(super) const RDI: usize = 7;

/// Registers that a function must leave as it found them, `rsp` aside.
pub(super) const CALLEE_SAVED: [usize; 6] = [RBX, RBP, 12, 13, 14, 15];

/// Allocates registers.
///
/// # Errors
/// What the allocator says; a bug in selection.
pub(super) fn allocate(function: &MachFunction, encoding: Encoding) -> Result<(Output, Layout<'_>), RegAllocError> {
    let layout = Layout::new(function, encoding);
    let options =
        RegallocOptions { verbose_log: false, validate_ssa: cfg!(debug_assertions), algorithm: Algorithm::Ion };
    let output = regalloc2::run(&layout, &environment(encoding), &options)?;
    Ok((output, layout))
}

fn environment(encoding: Encoding) -> MachineEnv {
    let set = |numbers: &mut dyn Iterator<Item = usize>, class: RegClass| {
        numbers.fold(PRegSet::empty(), |set, n| set.with(PReg::new(n, class)))
    };
    let vectors = match encoding {
        Encoding::Vex => 16,
        Encoding::Evex => 32,
    };
    let caller_saved = set(&mut [RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11].into_iter(), INT);
    let callee_saved = set(&mut CALLEE_SAVED.into_iter(), INT);
    // k0 can not predicate.
    let masks = match encoding {
        Encoding::Vex => PRegSet::empty(),
        Encoding::Evex => set(&mut (1..8), MASK),
    };
    MachineEnv {
        preferred_regs_by_class: [caller_saved, set(&mut (0..vectors), VECTOR), masks],
        non_preferred_regs_by_class: [callee_saved, PRegSet::empty(), PRegSet::empty()],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// The control-flow graph with instructions numbered through.
pub(super) struct Layout<'a> {
    function: &'a MachFunction,
    insts: Vec<&'a MachInst>,
    ranges: Vec<InstRange>,
    succs: Vec<Vec<Block>>,
    preds: Vec<Vec<Block>>,
    /// Per instruction: the block it ends, for branches.
    encoding: Encoding,
}

impl<'a> Layout<'a> {
    fn new(function: &'a MachFunction, encoding: Encoding) -> Self {
        let mut insts = Vec::new();
        let mut ranges = Vec::new();
        let mut succs = Vec::new();
        let mut preds = vec![Vec::new(); function.blocks.len()];
        for (n, block) in function.blocks.iter().enumerate() {
            let start = insts.len();
            insts.extend(block.insts.iter());
            ranges.push(InstRange::new(Inst::new(start), Inst::new(insts.len())));
            let targets: Vec<Block> = match block.insts.last().map(|inst| &inst.kind) {
                Some(Kind::Jump(to)) => vec![Block::new(to.0 as usize)],
                Some(Kind::Branch(_, yes, no)) => vec![Block::new(yes.0 as usize), Block::new(no.0 as usize)],
                _ => Vec::new(),
            };
            for target in &targets {
                preds[target.index()].push(Block::new(n));
            }
            succs.push(targets);
        }
        Self { function, insts, ranges, succs, preds, encoding }
    }

    /// An instruction by its number.
    pub(super) fn inst(&self, inst: Inst) -> &'a MachInst {
        self.insts[inst.index()]
    }
}

impl Function for Layout<'_> {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.ranges.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.function.blocks[block.index()].params
    }

    fn is_ret(&self, inst: Inst) -> bool {
        matches!(self.inst(inst).kind, Kind::Return)
    }

    fn is_branch(&self, inst: Inst) -> bool {
        matches!(self.inst(inst).kind, Kind::Jump(_) | Kind::Branch(..))
    }

    fn branch_blockparams(&self, block: Block, _inst: Inst, successor: usize) -> &[VReg] {
        &self.function.blocks[block.index()].args[successor]
    }

    fn inst_operands(&self, inst: Inst) -> &[Operand] {
        &self.inst(inst).operands
    }

    fn inst_clobbers(&self, inst: Inst) -> PRegSet {
        self.inst(inst).clobbers
    }

    fn num_vregs(&self) -> usize {
        self.function.vregs
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        match (class, self.encoding) {
            (RegClass::Int | RegClass::Vector, _) => 1,
            (RegClass::Float, Encoding::Vex) => 4,
            (RegClass::Float, Encoding::Evex) => 8,
        }
    }
}
