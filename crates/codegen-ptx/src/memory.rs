//! Where buffers live, and the addresses of their elements.

use crate::builder::{Address, Class, Reg, Space, Src, Ty};
use crate::emitter::{Emitter, Key};
use crate::{Launch, PtxError, group};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::{Atom, IndexExpr, Interval, Ranges};
use infc_ir::nest::{Buffer, BufferKind};
use infc_ir::schedule::Scope;
use infc_tensor::DType;
use std::collections::BTreeMap;

/// A place for a buffer's elements.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// One register per element that a thread has.
    Registers(Spread),
    /// From an address on.
    Memory { space: Space, base: Reg, constant: bool },
}

/// A register buffer, perhaps spread over the threads of a block: thread `t` has the elements `of_thread(t) + offset`.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    len: usize,
    class: Class,
    /// Over the coordinates of the block; 0 where every thread has all of the buffer for itself. `None` before the first
    /// access.
    of_thread: Option<IndexExpr>,
    registers: BTreeMap<i64, Reg>,
}

/// Static shared memory may not be larger; beyond, it is asked for at the launch.
pub(crate) const STATIC_SHARED_BYTES: u64 = 48 << 10;

/// Memory is laid out at multiples of this, so that vectors of four words fit.
pub(crate) const ALIGN_BYTES: u64 = 16;

/// Bytes of a piece that keeps together where rows are swizzled, and rows after which it begins anew.
const PIECE_BYTES: i64 = 16;
pub(crate) const SWIZZLED_ROWS: i64 = 8;
/// Bytes of a line, which is a row of a panel.
pub(crate) const LINE_BYTES: i64 = 128;

/// How swizzled rows lie: [`Buffer::swizzle_bytes`], [`Buffer::panel_rows`].
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    bytes: i64,
    panel_rows: Option<i64>,
}

impl Rows {
    /// Where a byte of a tile is.
    fn place(self, byte: i64) -> i64 {
        let (row, column) = (byte / self.bytes, byte % self.bytes);
        let swizzled = column ^ (row % SWIZZLED_ROWS * PIECE_BYTES);
        match self.panel_rows {
            None => row * self.bytes + swizzled,
            Some(rows) => (column / LINE_BYTES * rows + row) * LINE_BYTES + swizzled % LINE_BYTES,
        }
    }
}

/// Buffers of a single thread that are longer lie in global memory.
const LOCAL_LIMIT_BYTES: usize = 64 << 10;

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

/// Whether a buffer of a launch of one thread is kept in global memory: local memory has a size that is known, and is small.
pub(crate) fn is_in_scratch(buffer: &Buffer, launch: &Launch, ranges: &Ranges) -> bool {
    let one_thread = launch.block == [1; 3] && launch.grid.iter().all(|blocks| blocks.is_const(1));
    let own = matches!(buffer.kind, BufferKind::Local(Scope::Stack | Scope::Scratch));
    let size = buffer.dtype.size_bytes().unwrap_or(1);
    let is_small = local_len(buffer, ranges).is_ok_and(|len| len.saturating_mul(size) <= LOCAL_LIMIT_BYTES);
    one_thread && own && !is_small && !buffer.len_elems.uses_vars()
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
        if let Some(start) = self.scratch.filter(|_| is_in_scratch(buffer, self.launch, &self.ranges)) {
            let size = buffer.dtype.size_bytes().ok_or(PtxError::Type { dtype: buffer.dtype })? as i64;
            let offset = self.scratch_bytes.clone();
            let base = self.advance(start, &offset, 1)?;
            let align = ALIGN_BYTES as i64;
            let bytes =
                (buffer.len_elems.scale(size) + (align - 1)).floor_div(&IndexExpr::constant(align)).scale(align);
            self.scratch_bytes = offset + bytes;
            self.places[id.index()] = Some(Place::Memory { space: Space::Global, base, constant: false });
            return Ok(());
        }
        let len = local_len(buffer, &self.ranges)?;
        let class = value_class(buffer.dtype)?;
        let size = buffer.dtype.size_bytes().ok_or(PtxError::Type { dtype: buffer.dtype })? as u64;
        // Even what has no elements has an address.
        let bytes = (len as u64 * size).next_multiple_of(ALIGN_BYTES).max(ALIGN_BYTES);
        let place = match scope {
            Scope::Register => Place::Registers(Spread { len, class, of_thread: None, registers: BTreeMap::new() }),
            Scope::Stack | Scope::Scratch => {
                let base = self.entry_address("locals", self.local_bytes);
                self.local_bytes += bytes;
                Place::Memory { space: Space::Local, base, constant: false }
            }
            Scope::Shared => {
                if self.multiplies_in_groups && buffer.swizzle_bytes.is_some() {
                    self.shared_bytes = self.shared_bytes.next_multiple_of(group::ALIGN_BYTES);
                }
                let base = self.entry_address("smem", self.shared_bytes);
                self.shared_bytes += bytes;
                Place::Memory { space: Space::Shared, base, constant: false }
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
        self.b.op("add", Ty::S64, &[start.into(), Src::Int(offset_bytes as i64)])
    }

    /// The register of an element of a register buffer, or the address of one in memory.
    pub(crate) fn element(&mut self, id: BufferId, index: &IndexExpr) -> Result<Element, PtxError> {
        let index = self.resolve(index);
        let buffer = &self.nest.buffers[id];
        let undefined = || PtxError::Undefined { what: buffer.name.clone() };
        match *self.places[id.index()].as_ref().ok_or_else(undefined)? {
            Place::Registers(_) => self.register(id, &index).map(Element::Register),
            Place::Memory { space, base, constant } => {
                let size = buffer.dtype.size_bytes().ok_or(PtxError::Type { dtype: buffer.dtype })? as i64;
                if let Some(rows) = self.rows(id) {
                    let address = self.swizzled(id, base, &index, size, rows)?;
                    return Ok(Element::Memory(Address { space, constant, ..address }));
                }
                // The constant part goes into the instruction, so that unrolled copies share the rest.
                let variable = index.without_constant();
                let key = Key::Address(id, variable.clone());
                let base = match self.cached(&key) {
                    Some(reg) => reg,
                    None => {
                        // What was computed in front of the loop.
                        let (known, rest) = self.split_known(&variable);
                        let from = self.cached(&Key::Address(id, known));
                        let reg = match from {
                            Some(from) => self.advance(from, &rest, size)?,
                            None => self.advance(base, &variable, size)?,
                        };
                        self.cache(key, reg);
                        reg
                    }
                };
                let offset_bytes = index.constant_part().saturating_mul(size);
                Ok(Element::Memory(Address { space, base, offset_bytes, constant }))
            }
        }
    }

    /// How the rows of a buffer lie, if they are swizzled.
    pub(crate) fn rows(&self, id: BufferId) -> Option<Rows> {
        let buffer = &self.nest.buffers[id];
        let bytes = i64::from(buffer.swizzle_bytes?);
        Some(Rows { bytes, panel_rows: buffer.panel_rows.map(i64::from) })
    }

    /// Where an element of a buffer with swizzled rows is: what changes no piece's number, as a plain index, and the rest, of one of eight
    /// rows. In panels the former has whole tiles, rows by eights, and lines.
    fn parts_of_swizzled(&self, index: &IndexExpr, size: i64, rows: Rows) -> (IndexExpr, IndexExpr) {
        let group = SWIZZLED_ROWS * rows.bytes / size;
        let Some(panel_rows) = rows.panel_rows else { return index.split_multiples(group) };
        let (row, line) = (rows.bytes / size, LINE_BYTES / size);
        let (tiles, inside) = index.split_multiples(panel_rows * row);
        let (groups, near) = inside.split_multiples(group);
        let plain = tiles + groups.floor_div(&group.into()).scale(SWIZZLED_ROWS * line);
        // Whole lines of a row, where what is left of it ends with one.
        let (whole_rows, in_row) = near.split_multiples(row);
        let (lines, in_line) = in_row.split_multiples(line);
        let [of_lines, of_line] = [&lines, &in_line].map(|part| self.ranges.interval(part));
        let inside =
            |range: Interval, end: i64| range.min.is_some_and(|min| min >= 0) && range.max.is_some_and(|max| max < end);
        if inside(of_lines, row) && inside(of_line, line) {
            return (plain + lines.floor_div(&line.into()).scale(panel_rows * line), whole_rows + in_line);
        }
        (plain, near)
    }

    /// The address of an element of a buffer whose rows are swizzled: its piece's number is changed by the last three bits of the
    /// row's, and in panels its line's. What lies whole groups of eight rows on changes neither, and goes the plain way.
    fn swizzled(
        &mut self,
        id: BufferId,
        base: Reg,
        index: &IndexExpr,
        size: i64,
        rows: Rows,
    ) -> Result<Address, PtxError> {
        let (groups, near) = self.parts_of_swizzled(index, size, rows);
        let far = groups.without_constant();
        let offset_bytes = groups.constant_part().saturating_mul(size);
        let key = Key::Address(id, far.clone());
        let start = match self.cached(&key) {
            Some(start) => start,
            None => {
                let start = self.advance(base, &far, size)?;
                self.cache(key, start);
                start
            }
        };
        if let Some(near) = near.as_const() {
            let offset_bytes = offset_bytes.saturating_add(rows.place(near * size));
            return Ok(Address { space: Space::Shared, base: start, offset_bytes, constant: false });
        }
        let bytes = self.swizzled_place(id, &near, size, rows)?;
        let base = self.b.op("add", Ty::S64, &[start.into(), bytes.into()]);
        Ok(Address { space: Space::Shared, base, offset_bytes, constant: false })
    }

    /// In front of a loop: where an element is among eight rows, if that is known.
    pub(crate) fn hoist_swizzled(
        &mut self,
        id: BufferId,
        index: &IndexExpr,
        size: i64,
        rows: Rows,
    ) -> Result<(), PtxError> {
        let (_, near) = self.parts_of_swizzled(index, size, rows);
        if near.as_const().is_none() && self.is_known(&near) {
            self.swizzled_place(id, &near, size, rows)?;
        }
        Ok(())
    }

    /// Bytes from where eight swizzled rows begin.
    fn swizzled_place(&mut self, id: BufferId, near: &IndexExpr, size: i64, rows: Rows) -> Result<Reg, PtxError> {
        let key = Key::Swizzled(id, near.clone());
        Ok(match self.cached(&key) {
            Some(bytes) => bytes,
            None => {
                let bytes = self.index_as(&near.scale(size), Ty::S32)?;
                let shift = |this: &mut Self, what, value: Reg, by: i64| {
                    this.b.op(what, if what == "shr" { Ty::S32 } else { Ty::B32 }, &[value.into(), Src::Int(by)])
                };
                let mask =
                    |this: &mut Self, value: Reg, mask: i64| this.b.op("and", Ty::B32, &[value.into(), Src::Int(mask)]);
                let row = shift(self, "shr", bytes, i64::from(rows.bytes.ilog2()));
                let of_eight = mask(self, row, SWIZZLED_ROWS - 1);
                let by = shift(self, "shl", of_eight, i64::from(PIECE_BYTES.ilog2()));
                let swizzled = match rows.panel_rows {
                    None => self.b.op("xor", Ty::B32, &[bytes.into(), by.into()]),
                    Some(panel_rows) => {
                        let in_line = mask(self, bytes, LINE_BYTES - 1);
                        let in_line = self.b.op("xor", Ty::B32, &[in_line.into(), by.into()]);
                        let line = self.b.op("mad.lo", Ty::S32, &[row.into(), Src::Int(LINE_BYTES), in_line.into()]);
                        let panel = shift(self, "shr", bytes, i64::from(LINE_BYTES.ilog2()));
                        let panel = mask(self, panel, rows.bytes / LINE_BYTES - 1);
                        self.b.op("mad.lo", Ty::S32, &[panel.into(), Src::Int(panel_rows * LINE_BYTES), line.into()])
                    }
                };
                let wide = self.b.cvt("", Ty::S64, Ty::S32, swizzled);
                self.cache(key, wide);
                wide
            }
        })
    }

    /// The register of an element that this thread has.
    fn register(&mut self, id: BufferId, index: &IndexExpr) -> Result<Reg, PtxError> {
        let of_thread = self.of_thread(&index.without_constant());
        let offset = index.constant_part();
        let Some(Place::Registers(spread)) = &mut self.places[id.index()] else {
            return Err(PtxError::Undefined { what: self.nest.buffers[id].name.clone() });
        };
        let known = of_thread.filter(|e| spread.of_thread.as_ref().is_none_or(|first| first == e));
        let inside =
            !known.as_ref().is_some_and(|e| e.is_const(0)) || usize::try_from(offset).is_ok_and(|o| o < spread.len);
        let Some(of_thread) = known.filter(|_| inside) else {
            let (name, index) = (self.nest.buffers[id].name.clone(), index.to_string());
            return Err(PtxError::RegisterIndex { name, index, len: spread.len });
        };
        spread.of_thread = Some(of_thread);
        let class = spread.class;
        Ok(*spread.registers.entry(offset).or_insert_with(|| self.b.reg(class)))
    }

    /// An expression in terms of the coordinates of the block alone, whichever loops they are called by; `None` if it
    /// depends on anything else.
    fn of_thread(&self, expr: &IndexExpr) -> Option<IndexExpr> {
        let mut known = true;
        let replaced = expr.substitute(&|atom| match atom {
            Atom::Var(var) => self.coordinates[var.index()].clone(),
            _ => None,
        });
        expr.for_each_atom(&mut |atom| match atom {
            Atom::Var(var) => known &= self.coordinates[var.index()].is_some(),
            Atom::Symbol(_) => known = false,
            _ => {}
        });
        known.then_some(replaced)
    }

    /// The value of a variable in terms of the block's coordinates, if it has one.
    pub(crate) fn note_coordinate(&mut self, var: VarId, value: &IndexExpr) {
        self.coordinates[var.index()] = self.of_thread(value);
    }

    /// Holds every register buffer to this: no two threads share an element.
    pub(crate) fn check_registers(&self) -> Result<(), PtxError> {
        for (id, place) in self.places.iter().enumerate() {
            let Some(Place::Registers(Spread { of_thread: Some(of_thread), registers, .. })) = place else { continue };
            if of_thread.is_const(0) {
                continue;
            }
            let [x, y, z] = self.launch.block;
            let mut owners = std::collections::HashMap::new();
            let used = |dim: u32| of_thread.uses_var(VarId(dim));
            for thread in 0..x * y * z {
                // Threads that differ in what the index does not use have copies.
                let coordinates = [thread % x, thread / x % y, thread / x / y];
                if (0..3).any(|dim| !used(dim as u32) && coordinates[dim] != 0) {
                    continue;
                }
                let at = of_thread.eval(&|_| None, &|var| coordinates.get(var.index()).map(|&c| i64::from(c)));
                let shared = |offset: &i64| owners.insert(at.map(|at| at + offset), thread).is_some();
                if at.is_none() || registers.keys().any(shared) {
                    let buffer = &self.nest.buffers[BufferId::from_index(id)];
                    let index = of_thread.to_string();
                    return Err(PtxError::RegisterIndex { name: buffer.name.clone(), index, len: registers.len() });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn advance(&mut self, base: Reg, by: &IndexExpr, size: i64) -> Result<Reg, PtxError> {
        if by.is_const(0) {
            return Ok(base);
        }
        let index = self.index(by)?;
        Ok(match index.class {
            Class::B32 => self.b.mad_wide(index, size, base),
            _ => self.b.op("mad.lo", Ty::S64, &[index.into(), Src::Int(size), base.into()]),
        })
    }
}

/// Where an element is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element {
    Register(Reg),
    Memory(Address),
}
