//! Where buffers live, and the addresses of their elements.

use crate::PtxError;
use crate::builder::{Address, Class, Reg, Space, Ty};
use crate::emitter::{Emitter, Key};
use infc_ir::entity::{BufferId, EntityId};
use infc_ir::index::{IndexExpr, Ranges};
use infc_ir::nest::{Buffer, BufferKind};
use infc_ir::schedule::Scope;
use infc_tensor::DType;

/// A place for a buffer's elements.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// One register per element.
    Registers(Vec<Reg>),
    /// From an address on.
    Memory { space: Space, base: Reg, read_only: bool },
}

/// Static shared memory may not be larger; beyond, it is asked for at the launch.
pub(crate) const STATIC_SHARED_BYTES: u64 = 48 << 10;

/// Memory is laid out at multiples of this, so that vectors of four words fit.
const ALIGN_BYTES: u64 = 16;

/// The type that a load or store of an element has.
pub(crate) fn memory_type(dtype: DType) -> Result<Ty, PtxError> {
    Ok(match dtype {
        DType::F64 => Ty::F64,
        DType::F32 => Ty::F32,
        DType::F16 | DType::BF16 => Ty::B16,
        DType::I64 => Ty::S64,
        DType::U64 => Ty::U64,
        DType::I32 => Ty::S32,
        DType::U32 => Ty::U32,
        DType::I16 => Ty::S16,
        DType::U16 => Ty::U16,
        DType::I8 => Ty::S8,
        DType::U8 | DType::Bool => Ty::U8,
        _ => return Err(PtxError::Type { dtype }),
    })
}

/// The class of registers that hold a value.
pub(crate) fn value_class(dtype: DType) -> Result<Class, PtxError> {
    if dtype == DType::Bool { Ok(Class::Pred) } else { Ok(memory_type(dtype)?.class()) }
}

/// The number of elements of a local buffer.
pub(crate) fn local_len(buffer: &Buffer, ranges: &Ranges) -> Result<usize, PtxError> {
    let len = ranges.interval(&buffer.len_elems).max.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < 1 << 24);
    len.ok_or_else(|| PtxError::LocalLength { name: buffer.name.clone(), len: buffer.len_elems.to_string() })
}

impl Emitter<'_> {
    /// Reserves memory or registers for a local buffer.
    pub(crate) fn alloc(&mut self, id: BufferId) -> Result<(), PtxError> {
        let buffer = &self.nest.buffers[id];
        let BufferKind::Local(scope) = buffer.kind else { return Ok(()) };
        if self.places[id.index()].is_some() {
            // Unrolled: the copies come one after the other, and contents are undefined.
            return Ok(());
        }
        let len = local_len(buffer, &self.ranges)?;
        let class = value_class(buffer.dtype)?;
        let size = buffer.dtype.size_bytes().ok_or(PtxError::Type { dtype: buffer.dtype })? as u64;
        let bytes = (len as u64 * size).next_multiple_of(ALIGN_BYTES);
        let place = match scope {
            Scope::Register => Place::Registers((0..len).map(|_| self.b.reg(class)).collect()),
            Scope::Stack | Scope::Scratch => {
                let base = self.entry_address("locals", self.local_bytes);
                self.local_bytes += bytes;
                Place::Memory { space: Space::Local, base, read_only: false }
            }
            Scope::Shared => {
                let base = self.entry_address("smem", self.shared_bytes);
                self.shared_bytes += bytes;
                Place::Memory { space: Space::Shared, base, read_only: false }
            }
        };
        self.places[id.index()] = Some(place);
        Ok(())
    }

    fn entry_address(&mut self, name: &str, offset_bytes: u64) -> Reg {
        let start = self.b.address_of(name);
        if offset_bytes == 0 {
            return start;
        }
        self.b.op("add", Ty::S64, &[start.into(), crate::builder::Src::Int(offset_bytes as i64)])
    }

    /// The register of an element of a register buffer, or the address of one in memory.
    pub(crate) fn element(&mut self, id: BufferId, index: &IndexExpr) -> Result<Element, PtxError> {
        let index = self.resolve(index);
        let buffer = &self.nest.buffers[id];
        let place = self.places[id.index()].clone();
        let place = place.ok_or_else(|| PtxError::Undefined { what: buffer.name.clone() })?;
        match place {
            Place::Registers(regs) => index
                .as_const()
                .and_then(|i| regs.get(usize::try_from(i).ok()?).copied())
                .map(Element::Register)
                .ok_or_else(|| PtxError::RegisterIndex {
                    name: buffer.name.clone(),
                    index: index.to_string(),
                    len: regs.len(),
                }),
            Place::Memory { space, base, read_only } => {
                let size = buffer.dtype.size_bytes().ok_or(PtxError::Type { dtype: buffer.dtype })? as i64;
                // The constant part goes into the instruction, so that unrolled copies share the rest.
                let variable = index.without_constant();
                let key = Key::Address(id, variable.clone());
                let base = match self.cached(&key) {
                    Some(reg) => reg,
                    None => {
                        let reg = self.advance(base, &variable, size)?;
                        self.cache(key, reg);
                        reg
                    }
                };
                let offset_bytes = index.constant_part().saturating_mul(size);
                Ok(Element::Memory(Address { space, base, offset_bytes, read_only }))
            }
        }
    }

    fn advance(&mut self, base: Reg, by: &IndexExpr, size: i64) -> Result<Reg, PtxError> {
        if by.is_const(0) {
            return Ok(base);
        }
        let index = self.index(by)?;
        Ok(match index.class {
            Class::B32 => self.b.mad_wide(index, size, base),
            _ => self.b.op("mad.lo", Ty::S64, &[index.into(), crate::builder::Src::Int(size), base.into()]),
        })
    }
}

/// Where an element is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element {
    Register(Reg),
    Memory(Address),
}
