//! Tile registers.

use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::Value;
use crate::vir::tile::{TileInst, TileProduct};
use crate::wide::inst::{Address, Base, Kind, MachInst, View};
use iced_x86::Code;
use regalloc2::VReg;

impl Selector<'_> {
    pub(super) fn tile(&mut self, inst: &TileInst) -> Result<(), CodegenError> {
        let made = match *inst {
            TileInst::Configure { shapes } => {
                let shapes = self.function.tile_shapes[shapes as usize];
                let pool = self.pool.add(&shapes.to_bytes());
                // Of equal sizes the first number, so that nothing is configured twice.
                let first = self.function.tile_shapes.iter().position(|other| *other == shapes).unwrap_or(0);
                let number = u8::try_from(first + 1).map_err(|_| unsupported("so many sizes of tile registers"))?;
                MachInst::of_kind(Kind::ConfigureTiles { number, pool }, Code::INVALID)
            }
            TileInst::Zero { tile } => MachInst::new(Code::VEX_Tilezero_tmm).tile(tile),
            TileInst::Load { tile, base, disp, stride } => {
                let address = self.rows(base, disp, stride);
                MachInst::new(Code::VEX_Tileloadd_tmm_sibmem).tile(tile).mem(&address)
            }
            TileInst::Store { tile, base, disp, stride } => {
                let address = self.rows(base, disp, stride);
                MachInst::new(Code::VEX_Tilestored_sibmem_tmm).mem(&address).tile(tile)
            }
            TileInst::Multiply { product, sum, rows, columns } => {
                let code = match product {
                    TileProduct::UnsignedSigned => Code::VEX_Tdpbusd_tmm_tmm_tmm,
                    TileProduct::SignedUnsigned => Code::VEX_Tdpbsud_tmm_tmm_tmm,
                    TileProduct::Bf16 => Code::VEX_Tdpbf16ps_tmm_tmm_tmm,
                };
                MachInst::new(code).tile(sum).tile(rows).tile(columns)
            }
        };
        self.push(made);
        Ok(())
    }

    /// The address of the first row, with what lies between rows as its index.
    fn rows(&mut self, base: Value, disp: i32, stride: Value) -> Address<VReg> {
        let (base, stride) = (self.reg(base), self.reg(stride));
        Address { base: Base::Reg(base), index: Some((stride, View::R64)), scale: 1, disp, broadcast: false }
    }
}
