//! Some turns of a reduction as one dot product per lane.

use super::address::LaneForm;
use super::{Lower, LowerError};
use crate::vir::{Elem, Type, Value};
use infc_ir::entity::{ScalarId, VarId};
use infc_ir::nest::Stmt;
use infc_ir::scalar::{BinaryOp, BitsOfByte, Body, Load, ScalarOp};
use infc_ir::schedule::Intrinsic;
use infc_tensor::DType;

/// The load behind a conversion to the type of the sum.
pub(super) fn widened(body: &Body, id: ScalarId, sum: DType) -> Option<&Load> {
    let ScalarOp::Cast(to, inner) = body.ops[id] else { return None };
    match &body.ops[inner] {
        ScalarOp::Load(load) if to == sum && load.gather.is_empty() && load.valid.is_empty() => Some(load),
        _ => None,
    }
}

/// What is multiplied: elements as they are loaded, or bits of bytes.
struct Factor<'b> {
    load: &'b Load,
    bits: Option<BitsOfByte<'b>>,
}

/// What is behind a conversion to the type of the sum.
fn factor(body: &Body, id: ScalarId, sum: DType) -> Option<Factor<'_>> {
    if let Some(load) = widened(body, id, sum) {
        return Some(Factor { load, bits: None });
    }
    match body.ops[id] {
        ScalarOp::Cast(to, inner) if to == sum => {
            body.bits_of_byte(inner).map(|bits| Factor { load: bits.load, bits: Some(bits) })
        }
        _ => None,
    }
}

impl Lower<'_> {
    /// The loop over `turn` as a dot product; false (and nothing done) if that is not what it computes, or its elements
    /// do not lie next to each other.
    pub(super) fn dot(&mut self, intrinsic: Intrinsic, turn: VarId, body: &[Stmt]) -> Result<bool, LowerError> {
        let [Stmt::Reduce { targets, value, reducer, valid }] = body else { return Ok(false) };
        let ([target], [root]) = (&targets[..], &value.roots[..]) else { return Ok(false) };
        let sums = reducer.as_binary() == Some(BinaryOp::Add) && valid.is_empty();
        if !sums || self.lanes() == 1 || self.resolve(&target.index).uses_var(turn) {
            return Ok(false);
        }
        let (sum, elem) = match intrinsic {
            Intrinsic::Dot4 => (DType::I32, Elem::I32),
            Intrinsic::Dot2 => (DType::F32, Elem::F32),
            _ => return Ok(false),
        };
        let ScalarOp::Binary(BinaryOp::Mul, a, b) = value.body.ops[*root] else { return Ok(false) };
        let (Some(a), Some(b)) = (factor(&value.body, a, sum), factor(&value.body, b, sum)) else { return Ok(false) };
        if Intrinsic::of(sum, [a.load.dtype, b.load.dtype]) != Some(intrinsic) {
            return Ok(false);
        }
        // Of bytes, those without a sign come first.
        let (a, b) = if a.load.dtype == DType::I8 { (b, a) } else { (a, b) };
        let Some(a) = self.elements(intrinsic, turn, &a)? else { return Ok(false) };
        let Some(b) = self.elements(intrinsic, turn, &b)? else { return Ok(false) };
        let old = self.read(target)?;
        if self.b.ty(old) != Type::vector(elem, self.lanes()) {
            return Ok(false);
        }
        let new = match intrinsic {
            Intrinsic::Dot4 => self.b.dot4(old, a, b),
            Intrinsic::Dot2 => self.b.dot2_bf16(old, a, b),
            _ => return Ok(false),
        };
        if self.is_register(target.buffer) {
            self.set_register(target, new, None, false)?;
        } else {
            let extent = self.extent_mask();
            self.write(target, new, extent, false)?;
        }
        Ok(true)
    }

    /// The elements of all turns, 32 bits per lane, out of what is loaded; `None` if that is not neighbours in memory, or turns
    /// take different bits of it.
    fn elements(
        &mut self,
        intrinsic: Intrinsic,
        turn: VarId,
        factor: &Factor<'_>,
    ) -> Result<Option<Value>, LowerError> {
        let Some(bits) = &factor.bits else { return self.groups(intrinsic, turn, factor.load) };
        let Some(shift) = bits.constant_shift(|e| self.resolve(e)) else { return Ok(None) };
        let Some(bytes) = self.groups(intrinsic, turn, factor.load)? else { return Ok(None) };
        let groups = self.b.ty(bytes);
        let words = Type::vector(Elem::I32, self.lanes());
        let words = self.b.bitcast(bytes, words);
        let unpacked = self.take_bits(words, shift, bits.mask);
        Ok(Some(self.b.bitcast(unpacked, groups)))
    }

    /// The elements of all turns, 32 bits per lane; `None` if they are not neighbours in memory.
    fn groups(&mut self, intrinsic: Intrinsic, turn: VarId, load: &Load) -> Result<Option<Value>, LowerError> {
        let buffer = self.buffer_of(load)?;
        if self.is_register(buffer) {
            return Ok(None);
        }
        let flat = self.resolve(&load.index[0]);
        let Some((step, rest)) = flat.linear_in(turn) else { return Ok(None) };
        if !step.is_const(1) {
            return Ok(None);
        }
        let turns = intrinsic.turns();
        let (lanes, memory) = (self.lanes(), self.memory(buffer));
        let words = Type::vector(Elem::I32, lanes);
        let (groups, elem_bytes) = match intrinsic {
            Intrinsic::Dot4 => (Type::vector(Elem::I8, lanes * 4), 1),
            Intrinsic::Dot2 => (words, 2),
            _ => return Ok(None),
        };
        Ok(match self.lane_form(rest) {
            LaneForm::Uniform(e) => {
                let (base, disp) = self.address(buffer, &e, elem_bytes)?;
                let words = self.b.load_splat(words, base, disp, memory);
                Some(self.b.bitcast(words, groups))
            }
            LaneForm::Strided { rest, step }
                if step == turns && self.whole_vector_fits(buffer, &rest, lanes * turns as u16) =>
            {
                let (base, disp) = self.address(buffer, &rest, elem_bytes)?;
                Some(self.b.load(groups, base, disp, memory))
            }
            _ => None,
        })
    }
}
