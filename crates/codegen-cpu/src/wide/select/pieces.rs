//! Vectors moved in pieces, where the instruction that would move them as a whole is slow.
//!
//! A gather reads lane by lane inside of the processor, and slower than ordinary loads would; one whose lanes lie at
//! distances known here is made of them. A store under a mask costs AVX2 processors of some makers as much as twenty
//! stores; one of the first lanes, as remainders make, is at most three.

use super::Selector;
use crate::vir::regroup::known_lanes;
use crate::vir::{Type, Value};
use crate::wide::codes;
use crate::wide::inst::{MachInst, VECTOR, View, Width};
use regalloc2::VReg;

/// Bytes of the vectors that single elements are inserted into.
const PIECE_BYTES: u32 = 16;

impl Selector<'_> {
    /// Displacements of the lanes of an indexed access, `None` for lanes that are off; if they are known.
    pub(super) fn known_places(
        &self,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) -> Option<Vec<Option<i32>>> {
        let on = match mask {
            Some(mask) => self.constant(mask)?,
            None => u64::MAX,
        };
        let numbers = known_lanes(self.ops[index.0 as usize].as_ref(), self.ty(index))?;
        numbers
            .iter()
            .enumerate()
            .map(|(lane, number)| {
                let place = number.checked_mul(i64::from(scale))?.checked_add(i64::from(disp))?;
                let place = i32::try_from(place).ok()?;
                Some((on >> lane & 1 == 1).then_some(place))
            })
            .collect()
    }

    /// A vector of elements at the given displacements from an address; lanes without one are zero.
    pub(super) fn collect(&mut self, dst: VReg, ty: Type, base: Value, places: &[Option<i32>]) {
        let per_piece = (PIECE_BYTES / ty.elem.size_bytes()) as usize;
        let pieces: Vec<&[Option<i32>]> = places.chunks(per_piece).collect();
        // What narrower vector instructions leave above their results is zero.
        let used = pieces.iter().rposition(|piece| piece.iter().any(Option::is_some)).map_or(1, |last| last + 1);
        match used {
            1 => self.collect_piece(dst, ty, base, pieces[0]),
            2 => self.collect_pair(dst, ty, base, &pieces[..2]),
            _ => {
                let (low, high) = (self.fresh(VECTOR), self.fresh(VECTOR));
                self.collect_pair(low, ty, base, &pieces[..2]);
                match &pieces[2..used] {
                    [piece] => self.collect_piece(high, ty, base, piece),
                    pair => self.collect_pair(high, ty, base, pair),
                }
                let code = codes::INSERT256_Z.code(self.encoding);
                self.push(MachInst::new(code).def(dst, View::Z).reg(low, View::Z).reg(high, View::Y).imm8(1));
            }
        }
    }

    /// 256 bits.
    fn collect_pair(&mut self, dst: VReg, ty: Type, base: Value, pieces: &[&[Option<i32>]]) {
        let (low, high) = (self.fresh(VECTOR), self.fresh(VECTOR));
        self.collect_piece(low, ty, base, pieces[0]);
        self.collect_piece(high, ty, base, pieces[1]);
        let code = codes::INSERT128_Y.code(self.encoding);
        self.push(MachInst::new(code).def(dst, View::Y).reg(low, View::Y).reg(high, View::X).imm8(1));
    }

    /// 128 bits: the first element is loaded, which clears the others, and those that follow are inserted; elements that no
    /// load clears the others for are inserted into zeros.
    fn collect_piece(&mut self, dst: VReg, ty: Type, base: Value, places: &[Option<i32>]) {
        let last = places.iter().rposition(Option::is_some);
        let load = match ty.elem.size_bytes() {
            4 => Some(codes::LOAD_SF32),
            8 => Some(codes::LOAD_SF64),
            _ => None,
        };
        let first = usize::from(load.is_some());
        let mut so_far = if last.is_none_or(|last| last < first) { dst } else { self.fresh(VECTOR) };
        match places[0].zip(load) {
            Some((disp, load)) => {
                let address = self.address(base, disp);
                self.push(MachInst::new(load.code(self.encoding)).def(so_far, View::X).mem(&address));
            }
            None => self.zero(so_far),
        }
        for (lane, place) in places.iter().enumerate().skip(first) {
            let Some(disp) = *place else { continue };
            let next = if Some(lane) == last { dst } else { self.fresh(VECTOR) };
            let address = self.address(base, disp);
            // What says which lane to replace.
            let (insert, at) = match ty.elem.size_bytes() {
                1 => (codes::PINSR_I8, Some(lane as u8)),
                2 => (codes::PINSR_I16, Some(lane as u8)),
                4 => (codes::INSERT_F32, Some((lane as u8) << 4)),
                _ => (codes::LOAD_HIGH_F64, None),
            };
            let inst = MachInst::new(insert.code(self.encoding)).def(next, View::X).reg(so_far, View::X).mem(&address);
            self.push(at.into_iter().fold(inst, MachInst::imm8));
            so_far = next;
        }
    }

    /// Stores the first lanes of a vector of 32- or 64-bit elements, if those are what the mask sets.
    pub(super) fn store_first(&mut self, reg: VReg, ty: Type, base: Value, disp: i32, mask: u64) -> bool {
        let lanes = mask.trailing_ones();
        let on = mask & (u64::MAX >> (64 - u32::from(ty.lanes).min(64)));
        if lanes == 0 || lanes >= u32::from(ty.lanes) || on >> lanes != 0 || disp.checked_add(64).is_none() {
            return false;
        }
        let mut bytes = lanes * ty.elem.size_bytes();
        let (mut reg, mut disp) = (reg, disp);
        if bytes >= PIECE_BYTES {
            let address = self.address(base, disp);
            let code = codes::STORE_F32.code(self.encoding, Width::X);
            self.push(MachInst::new(code).mem(&address).reg(reg, View::X));
            bytes -= PIECE_BYTES;
            disp += PIECE_BYTES.cast_signed();
            if bytes > 0 {
                let high = self.fresh(VECTOR);
                let code = codes::EXTRACT128_Y.code(self.encoding);
                self.push(MachInst::new(code).def(high, View::X).reg(reg, View::Y).imm8(1));
                reg = high;
            }
        }
        let mut lane = 0;
        if bytes >= 8 {
            let address = self.address(base, disp);
            let code = codes::MOVQ_FROM_XMM.code(self.encoding);
            self.push(MachInst::new(code).mem(&address).reg(reg, View::X));
            bytes -= 8;
            disp += 8;
            lane = 2;
        }
        if bytes > 0 {
            let address = self.address(base, disp);
            let code = codes::PEXTR_I32.code(self.encoding);
            self.push(MachInst::new(code).mem(&address).reg(reg, View::X).imm8(lane));
        }
        true
    }
}
