//! Four turns of a reduction as one dot product of bytes per lane.

use super::address::LaneForm;
use super::{Lower, LowerError};
use crate::vir::{Elem, Type, Value};
use infc_ir::entity::{ScalarId, VarId};
use infc_ir::nest::Stmt;
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp};
use infc_tensor::DType;

/// The load behind a conversion to i32.
fn byte(body: &Body, id: ScalarId) -> Option<&Load> {
    let ScalarOp::Cast(DType::I32, inner) = body.ops[id] else { return None };
    match &body.ops[inner] {
        ScalarOp::Load(load) if load.gather.is_empty() && load.valid.is_empty() => Some(load),
        _ => None,
    }
}

impl Lower<'_> {
    /// The loop over `turn` as a dot product; false (and nothing done) if that is not what it computes, or its bytes do
    /// not lie next to each other.
    pub(super) fn dot4(&mut self, turn: VarId, body: &[Stmt]) -> Result<bool, LowerError> {
        let [Stmt::Reduce { targets, value, reducer, valid }] = body else { return Ok(false) };
        let ([target], [root]) = (&targets[..], &value.roots[..]) else { return Ok(false) };
        let sums = reducer.as_binary() == Some(BinaryOp::Add) && valid.is_empty();
        if !sums || self.lanes() == 1 || self.resolve(&target.index).uses_var(turn) {
            return Ok(false);
        }
        let ScalarOp::Binary(BinaryOp::Mul, a, b) = value.body.ops[*root] else { return Ok(false) };
        let (Some(a), Some(b)) = (byte(&value.body, a), byte(&value.body, b)) else { return Ok(false) };
        let (unsigned, signed) = match (a.dtype, b.dtype) {
            (DType::U8, DType::I8) => (a, b),
            (DType::I8, DType::U8) => (b, a),
            _ => return Ok(false),
        };
        let Some(unsigned) = self.bytes(turn, unsigned)? else { return Ok(false) };
        let Some(signed) = self.bytes(turn, signed)? else { return Ok(false) };
        let old = self.read(target)?;
        if self.b.ty(old) != Type::vector(Elem::I32, self.lanes()) {
            return Ok(false);
        }
        let new = self.b.dot4(old, unsigned, signed);
        if self.is_register(target.buffer) {
            self.set_register(target, new, None, false)?;
        } else {
            let extent = self.extent_mask();
            self.write(target, new, extent, false)?;
        }
        Ok(true)
    }

    /// The bytes of all four turns, lane after lane; `None` if they are not neighbours in memory.
    fn bytes(&mut self, turn: VarId, load: &Load) -> Result<Option<Value>, LowerError> {
        let buffer = self.buffer_of(load)?;
        if self.is_register(buffer) {
            return Ok(None);
        }
        let flat = self.resolve(&load.index[0]);
        let Some((step, rest)) = flat.linear_in(turn) else { return Ok(None) };
        if !step.is_const(1) {
            return Ok(None);
        }
        let (lanes, memory) = (self.lanes(), self.memory(buffer));
        let bytes = Type::vector(Elem::I8, lanes * 4);
        Ok(match self.lane_form(rest) {
            LaneForm::Uniform(e) => {
                let (base, disp) = self.address(buffer, &e, 1)?;
                let words = self.b.load_splat(Type::vector(Elem::I32, lanes), base, disp, memory);
                Some(self.b.bitcast(words, bytes))
            }
            LaneForm::Strided { rest, step: 4 } if self.whole_vector_fits(buffer, &rest, lanes * 4) => {
                let (base, disp) = self.address(buffer, &rest, 1)?;
                Some(self.b.load(bytes, base, disp, memory))
            }
            _ => None,
        })
    }
}
