//! The walk over a function: control flow, and where values are kept.
//!
//! `vir` is structured and its values dominate their uses already, so blocks are made directly: a loop's carried values
//! and a branch's results are block parameters.

use super::repr;
use crate::CodegenError;
use crate::vir::{self, Block, Elem, Inst, Loop, Op, Value, dce};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, MemFlagsData, Signature, UserFuncName, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Translates a function whose values all fit registers.
pub(super) fn function(
    function: &vir::Function,
    isa: &dyn TargetIsa,
    machine: Machine,
) -> Result<ir::Function, CodegenError> {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params = vec![AbiParam::new(types::I64); 4];
    let mut translated = ir::Function::with_name_signature(UserFuncName::default(), signature);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut translated, &mut context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).to_vec();
    let mut translator = Translator {
        function,
        definitions: dce::definitions(function),
        values: vec![None; function.types.len()],
        parameters,
        b: builder,
        machine,
    };
    translator.block(&function.body)?;
    translator.b.ins().return_(&[]);
    translator.b.seal_all_blocks();
    translator.b.finalize(isa.frontend_config());
    Ok(translated)
}

/// What translations depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// x86-64 without AVX.
    Sse,
    /// x86-64 with AVX.
    Avx,
    Aarch64,
}

pub(super) struct Translator<'a, 'f> {
    function: &'a vir::Function,
    definitions: Vec<Option<Op>>,
    values: Vec<Option<ir::Value>>,
    parameters: Vec<ir::Value>,
    pub(super) b: FunctionBuilder<'f>,
    pub(super) machine: Machine,
}

impl Translator<'_, '_> {
    /// The type of a value in `vir`.
    pub(super) fn ty(&self, value: Value) -> vir::Type {
        self.function.ty(value)
    }

    /// The operation behind a value.
    pub(super) fn definition(&self, value: Value) -> Option<&Op> {
        self.definitions[value.0 as usize].as_ref()
    }

    /// A value for use at this point. Constants are made where they are used, from memory if they are no
    /// integers, so that they hold no registers in between.
    pub(super) fn get(&mut self, value: Value) -> ir::Value {
        if let Some(&Op::Const(bits)) = self.definition(value) {
            return self.constant(self.ty(value), bits);
        }
        self.values[value.0 as usize].expect("the verifier saw the definition before this use")
    }

    fn set(&mut self, value: Value, translated: ir::Value) {
        self.values[value.0 as usize] = Some(translated);
    }

    fn get_all(&mut self, values: &[Value]) -> Vec<BlockArg> {
        values.iter().map(|&value| BlockArg::Value(self.get(value))).collect()
    }

    /// A block with one parameter per value, which stands for it from now on.
    fn block_for(&mut self, values: &[Value]) -> ir::Block {
        let block = self.b.create_block();
        for &value in values {
            let parameter = self.b.append_block_param(block, repr::of(self.ty(value)));
            self.set(value, parameter);
        }
        block
    }

    fn block(&mut self, block: &Block) -> Result<(), CodegenError> {
        block.insts.iter().try_for_each(|inst| self.inst(inst))
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), CodegenError> {
        match inst {
            Inst::Op { op: Op::Const(_), .. } => {}
            Inst::Op { result, op } => {
                let value = self.operation(self.ty(*result), op);
                self.set(*result, value);
            }
            Inst::Store { value, base, disp, mask } => self.store(*value, *base, *disp, *mask),
            Inst::Scatter { value, base, index, scale, disp, mask } => {
                self.scatter(*value, *base, *index, *scale, *disp, *mask);
            }
            Inst::Loop(l) => self.counted_loop(l)?,
            Inst::If { cond, then, otherwise, results } => self.branch(*cond, then, otherwise, results)?,
            // A hint, which Cranelift has no instruction for.
            Inst::Prefetch { .. } => {}
            Inst::Tile(_) => return Err(CodegenError::Unsupported { what: "tile registers" }),
        }
        Ok(())
    }

    fn branch(&mut self, cond: Value, then: &Block, otherwise: &Block, results: &[Value]) -> Result<(), CodegenError> {
        let cond = self.get(cond);
        let (then_block, else_block) = (self.b.create_block(), self.b.create_block());
        let join = self.block_for(results);
        self.b.ins().brif(cond, then_block, &[], else_block, &[]);
        for (start, way) in [(then_block, then), (else_block, otherwise)] {
            self.b.switch_to_block(start);
            self.block(way)?;
            let yields = self.get_all(&way.yields);
            self.b.ins().jump(join, &yields);
        }
        self.b.switch_to_block(join);
        Ok(())
    }

    /// Tested at the bottom, and in front unless the loop is known to run.
    fn counted_loop(&mut self, l: &Loop) -> Result<(), CodegenError> {
        let (start, end) = (self.get(l.start), self.get(l.end));
        let inits: Vec<Value> = l.carried.iter().map(|&(_, init)| init).collect();
        let inits = self.get_all(&inits);
        let inside: Vec<Value> = std::iter::once(l.iv).chain(l.carried.iter().map(|&(value, _)| value)).collect();
        let body = self.block_for(&inside);
        let exit = self.block_for(&l.results);
        let first = after(start, &inits);
        if l.nonempty {
            self.b.ins().jump(body, &first);
        } else {
            let runs = self.b.ins().icmp(IntCC::SignedLessThan, start, end);
            self.b.ins().brif(runs, body, &first, exit, &inits);
        }
        self.b.switch_to_block(body);
        self.block(&l.body)?;
        let yields = self.get_all(&l.body.yields);
        let iv = self.get(l.iv);
        let next = self.b.ins().iadd_imm_s(iv, l.step);
        let runs = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        self.b.ins().brif(runs, body, &after(next, &yields), exit, &yields);
        self.b.switch_to_block(exit);
        Ok(())
    }

    fn operation(&mut self, ty: vir::Type, op: &Op) -> ir::Value {
        match *op {
            Op::Param(n) => self.parameters[usize::from(n)],
            Op::Const(bits) => self.constant(ty, bits),
            Op::Lanes(ref lanes) => self.lanes(ty.elem, lanes),
            Op::Unary(kind, a) => self.unary(kind, a),
            Op::Binary(kind, a, b) => self.binary(kind, a, b),
            Op::Fma(a, b, c) => {
                let (a, b, c) = (self.get(a), self.get(b), self.get(c));
                self.b.ins().fma(a, b, c)
            }
            Op::Compare(cond, a, b) => self.compare(cond, a, b),
            Op::Select(mask, a, b) => self.select(mask, a, b),
            Op::Convert(kind, a) => self.convert(kind, a, ty),
            Op::Splat(a) => self.splat(a, ty),
            Op::LowHalf(a) => self.half(a, ty, 0),
            Op::HighHalf(a) => self.half(a, ty, ty.lanes),
            Op::Extract(a, lane) => self.extract(a, lane),
            Op::Join(..) | Op::Permute(..) => unreachable!("made for the other emitter"),
            Op::Shuffle(a, b, lanes) => {
                let from = [a, a, b, b].map(|value| self.get(value));
                let mut result = from[0];
                for (to, (&lane, &value)) in lanes.iter().zip(&from).enumerate() {
                    let lane = self.b.ins().extractlane(value, lane);
                    result = self.b.ins().insertlane(result, lane, to as u8);
                }
                result
            }
            Op::FirstLanes(n) => self.first_lanes(n, ty.lanes),
            Op::MaskBits(a) => self.mask_bits(a),
            Op::Load { base, disp, .. } => self.load(ty, base, disp),
            Op::LoadMasked { base, disp, mask } => self.load_masked(ty, base, disp, mask),
            Op::LoadSplat { base, disp, period, .. } => self.load_splat(ty, base, disp, period),
            Op::Gather { base, index, scale, disp, mask } => self.gather(ty, base, index, scale, disp, mask),
            Op::Lookup { base, disp, index } => self.lookup(ty, base, disp, index),
            Op::Dot4(..) | Op::Dot2Bf16(..) => unreachable!("these dot products are taken apart before"),
            Op::Dot2(a, b) => self.dot2(a, b),
        }
    }

    /// A constant: the same bits in all lanes, or one bit per lane of a mask.
    pub(super) fn constant(&mut self, ty: vir::Type, bits: u64) -> ir::Value {
        match (ty.elem, ty.lanes) {
            (Elem::F32, 1) => self.b.ins().f32const(Ieee32::with_bits(bits as u32)),
            (Elem::F64, 1) => self.b.ins().f64const(Ieee64::with_bits(bits)),
            (Elem::Mask, 1) => self.b.ins().iconst(types::I8, i64::from(bits & 1 == 1)),
            (elem, 1) => self.integer(repr::scalar(elem), bits),
            (Elem::Mask, lanes) => {
                let width = repr::mask_lane_bytes(lanes) as usize;
                let bytes: Vec<u8> = (0..16).map(|n| if bits >> (n / width) & 1 == 1 { 0xff } else { 0 }).collect();
                self.vector(repr::of(ty), &bytes)
            }
            (elem, _) => {
                let lane = &bits.to_le_bytes()[..elem.size_bytes() as usize];
                self.vector(repr::container(elem), &lane.repeat(16 / lane.len()))
            }
        }
    }

    /// An integer constant of which the type's bits count.
    pub(super) fn integer(&mut self, ty: ir::Type, bits: u64) -> ir::Value {
        let kept = if ty.bits() == 64 { bits } else { bits & ((1 << ty.bits()) - 1) };
        self.b.ins().iconst(ty, kept.cast_signed())
    }

    /// A vector constant from its sixteen bytes.
    pub(super) fn vector(&mut self, ty: ir::Type, bytes: &[u8]) -> ir::Value {
        let constant = self.b.func.dfg.constants.insert(bytes.to_vec().into());
        self.b.ins().vconst(ty, constant)
    }

    /// The same bits as another type.
    pub(super) fn bitcast(&mut self, value: ir::Value, ty: ir::Type) -> ir::Value {
        if self.held_as(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(ir::Endianness::Little);
        self.b.ins().bitcast(ty, flags, value)
    }

    /// The type of a value in Cranelift.
    pub(super) fn held_as(&self, value: ir::Value) -> ir::Type {
        self.b.func.dfg.value_type(value)
    }
}

fn after(first: ir::Value, rest: &[BlockArg]) -> Vec<BlockArg> {
    std::iter::once(BlockArg::Value(first)).chain(rest.iter().copied()).collect()
}
