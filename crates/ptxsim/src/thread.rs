//! One thread, from where it stands to where it must wait for others.

use crate::SimError;
use crate::error::Site;
use crate::instruction::{Address, Compute, Operation, Reg, Space, Special, Src};
use crate::machine::Block;
use crate::memory::{Refusal, Tracked, buffer_at};
use crate::module::{LOCAL_START, SHARED_START};
use crate::shadow::Toucher;
use crate::types::{Kind, Ty};
use crate::value;

/// A copy that has been asked for and may happen any time.
#[derive(Clone, Debug)]
struct Copy {
    to: usize,
    from: u64,
    bytes: u64,
    source_bytes: u64,
    line: u32,
}

/// Why a thread does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// At the barrier that is the instruction with this number.
    AtBarrier(usize),
    /// At an operation of its whole warp.
    AtWarp(usize),
    Ended,
}

/// What belongs to one thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) number: u32,
    pub(crate) state: State,
    at: usize,
    /// Whether it has waited for the launches before.
    has_waited: bool,
    registers: Vec<u64>,
    defined: Vec<bool>,
    local: Vec<u8>,
    local_initialised: Vec<bool>,
    groups: Vec<Vec<Copy>>,
    open: Vec<Copy>,
    /// Registers that belong to products, and those that were not written since the last fence.
    busy: Vec<bool>,
    fenced: Vec<bool>,
    /// Bytes of shared memory that were written since the last fence, from where and how many.
    written: Vec<(usize, usize)>,
}

impl Thread {
    pub(crate) fn new(number: u32, registers: usize, local_bytes: u64) -> Self {
        let local = local_bytes as usize;
        Self {
            number,
            state: State::Ready,
            at: 0,
            has_waited: false,
            registers: vec![0; registers],
            defined: vec![false; registers],
            local: vec![0; local],
            local_initialised: vec![false; local],
            groups: Vec::new(),
            open: Vec::new(),
            busy: vec![false; registers],
            fenced: vec![false; registers],
            written: Vec::new(),
        }
    }

    /// Goes on behind the instruction that the thread waits at.
    pub(crate) fn resume(&mut self) {
        self.state = State::Ready;
        self.at += 1;
    }

    fn read(&self, reg: Reg, b: &Block<'_>) -> Result<u64, SimError> {
        if self.busy[reg as usize] {
            let register = b.entry.registers.name(reg);
            return Err(SimError::BusyRegister { site: self.site(b), register });
        }
        if !self.defined[reg as usize] {
            let register = b.entry.registers.name(reg);
            return Err(SimError::UninitialisedRegister { site: self.site(b), register });
        }
        Ok(self.registers[reg as usize])
    }

    pub(crate) fn source(&self, src: Src, b: &Block<'_>) -> Result<u64, SimError> {
        match src {
            Src::Bits(bits) => Ok(bits),
            Src::Reg(reg) => self.read(reg, b),
        }
    }

    pub(crate) fn set(&mut self, reg: Reg, bits: u64) {
        self.registers[reg as usize] = bits;
        self.defined[reg as usize] = true;
        (self.busy[reg as usize], self.fenced[reg as usize]) = (false, false);
    }

    /// A product gets a register, whose value it takes if it `adds` to it.
    pub(crate) fn give_away(&mut self, reg: Reg, adds: bool, b: &Block<'_>) -> Result<(), SimError> {
        let n = reg as usize;
        let register = || b.entry.registers.name(reg);
        if !self.busy[n] && adds && !self.defined[n] {
            return Err(SimError::UninitialisedRegister { site: self.site(b), register: register() });
        }
        if self.defined[n] && !self.busy[n] && !self.fenced[n] {
            return Err(SimError::UnfencedRegister { site: self.site(b), register: register() });
        }
        self.busy[n] = true;
        Ok(())
    }

    /// The value of a register that a product got.
    pub(crate) fn given(&self, reg: Reg, site: Site, b: &Block<'_>) -> Result<u64, SimError> {
        if !self.busy[reg as usize] {
            let register = b.entry.registers.name(reg);
            return Err(SimError::BusyRegister { site: Site { thread: self.number, ..site }, register });
        }
        Ok(self.registers[reg as usize])
    }

    /// Gives it a value.
    pub(crate) fn set_given(&mut self, reg: Reg, bits: u64) {
        self.registers[reg as usize] = bits;
        (self.defined[reg as usize], self.fenced[reg as usize]) = (true, true);
    }

    /// All registers are the thread's own again but for some.
    pub(crate) fn take_back(&mut self, but: &[Reg]) {
        self.busy.fill(false);
        but.iter().for_each(|&reg| self.busy[reg as usize] = true);
    }

    /// All that was written to registers is there for products.
    pub(crate) fn fence_registers(&mut self) {
        self.fenced.fill(true);
    }

    pub(crate) fn site(&self, b: &Block<'_>) -> Site {
        let line = b.entry.body.get(self.at).map_or(0, |i| i.line);
        Site { line, block: u64::from(b.number), thread: self.number }
    }

    fn toucher(&self, b: &Block<'_>) -> Toucher {
        Toucher { block: b.number, thread: self.number, epoch: b.epoch }
    }

    /// Runs until the thread ends or must wait.
    pub(crate) fn run(&mut self, b: &mut Block<'_>) -> Result<(), SimError> {
        let body = b.body;
        while self.state == State::Ready {
            let Some(instruction) = body.get(self.at) else {
                self.end(b)?;
                break;
            };
            b.steps += 1;
            if b.steps > b.step_limit {
                return Err(SimError::StepLimit { site: self.site(b), limit: b.step_limit });
            }
            if let Some((p, wanted)) = instruction.guard
                && (self.read(p, b)? != 0) != wanted
            {
                self.at += 1;
                continue;
            }
            self.step(&instruction.operation, b)?;
        }
        Ok(())
    }

    fn step(&mut self, operation: &Operation, b: &mut Block<'_>) -> Result<(), SimError> {
        match operation {
            Operation::Return => {
                return self.end(b);
            }
            Operation::Barrier => {
                self.state = State::AtBarrier(self.at);
                return Ok(());
            }
            Operation::Shuffle { .. }
            | Operation::Mma { .. }
            | Operation::LoadMatrix { .. }
            | Operation::GroupMma(_)
            | Operation::GroupFence
            | Operation::GroupCommit
            | Operation::GroupWait { .. } => {
                self.state = State::AtWarp(self.at);
                return Ok(());
            }
            Operation::Branch { to } => {
                self.at = *to;
                return Ok(());
            }
            Operation::Compute { op, ty, dst, srcs } => {
                let mut values = [0; 3];
                let count = sources(*op);
                for (value, src) in values.iter_mut().zip(srcs).take(count) {
                    *value = self.source(*src, b)?;
                }
                let result = value::compute(*op, *ty, values, b.seed);
                self.set(*dst, result);
            }
            Operation::Compare { compare, ty, dst, a, b: other } => {
                let (x, y) = (self.source(*a, b)?, self.source(*other, b)?);
                self.set(*dst, u64::from(value::compare(*compare, *ty, x, y)));
            }
            Operation::Convert { round, to, from, dst, src } => {
                let bits = value::convert(*round, *to, *from, self.source(*src, b)?);
                let wide = b.register_types[*dst as usize];
                self.set(*dst, value::extend(bits, *to, wide));
            }
            Operation::Pack { dst, parts, part_bits } => {
                let mut bits = 0;
                for (n, part) in parts.iter().enumerate() {
                    bits |= self.source(*part, b)? << (*part_bits as usize * n);
                }
                self.set(*dst, bits);
            }
            Operation::Unpack { dsts, src, part_bits } => {
                let bits = self.source(*src, b)?;
                let part = Ty { kind: Kind::Bits, bits: *part_bits };
                for (n, dst) in dsts.iter().enumerate() {
                    self.set(*dst, (bits >> (*part_bits as usize * n)) & part.mask());
                }
            }
            Operation::Special { dst, what } => {
                let value = b.special(*what, self.number);
                self.set(*dst, value);
            }
            Operation::LoadParameter { dst, parameter } => {
                let value = b.parameters[*parameter];
                self.set(*dst, value);
            }
            Operation::Load { space, read_only, ty, dsts, from } => {
                self.load(*space, *read_only, *ty, dsts, *from, b)?
            }
            Operation::Store { space, ty, srcs, to } => self.store(*space, *ty, srcs, *to, b)?,
            Operation::CopyAsync { to, from, bytes, source_bytes } => {
                self.copy_async(*to, *from, *bytes, *source_bytes, b)?;
            }
            Operation::ProxyFence => {
                self.written.drain(..).for_each(|(at, len)| b.shared.show(at, len));
            }
            Operation::GridWait => self.has_waited = true,
            Operation::CommitGroup => {
                let group = std::mem::take(&mut self.open);
                self.groups.push(group);
            }
            Operation::WaitGroup { pending } => {
                let landing = self.groups.len().saturating_sub(*pending);
                for group in self.groups.drain(..landing).collect::<Vec<_>>() {
                    for copy in group {
                        self.land(&copy, b)?;
                    }
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    /// No thread may end without having waited: that the next launch waits for this one says nothing of those before, otherwise.
    fn end(&mut self, b: &Block<'_>) -> Result<(), SimError> {
        self.state = State::Ended;
        self.check_waited("the end of a thread", b)
    }

    fn check_waited(&self, what: &str, b: &Block<'_>) -> Result<(), SimError> {
        if b.waits && !self.has_waited {
            return Err(SimError::BeforeWait { site: self.site(b), what: what.to_owned() });
        }
        Ok(())
    }

    // -------------------------------------------------------------------------------------------------- memory --

    pub(crate) fn address(&self, address: Address, b: &Block<'_>) -> Result<u64, SimError> {
        Ok(self.source(address.base, b)?.wrapping_add(address.offset as u64))
    }

    /// Where an access begins: which buffer (0 for shared and local memory) and the byte in it.
    pub(crate) fn place(
        &self,
        space: Space,
        address: u64,
        bytes: u64,
        align: u64,
        b: &Block<'_>,
    ) -> Result<Spot, SimError> {
        if space == Space::Global {
            self.check_waited("global memory", b)?;
        }
        let site = self.site(b);
        let wild = || SimError::WildAddress { site, address, space: space.name() };
        let (buffer, at, len) = match space {
            Space::Global => {
                let (buffer, at) = buffer_at(address, b.global.len()).ok_or_else(wild)?;
                (buffer, at, b.global[buffer].bytes.len() as u64)
            }
            // No buffer of global memory is where these are.
            Space::Shared if address < LOCAL_START => {
                (0, address.wrapping_sub(SHARED_START) as i64, b.shared.bytes.len() as u64)
            }
            Space::Local if address < 1 << 32 => (0, address.wrapping_sub(LOCAL_START) as i64, self.local.len() as u64),
            Space::Shared | Space::Local => return Err(wild()),
        };
        let spot = Spot { space, buffer, at: at as usize };
        if !address.is_multiple_of(align) {
            return Err(SimError::Misaligned { site, place: spot.to_string(), align });
        }
        if at < 0 || (at as u64).checked_add(bytes).is_none_or(|end| end > len) {
            let place = format!("{}, byte {at},", Spot { at: 0, ..spot }.whole());
            return Err(SimError::OutOfBounds { site, place, bytes, len });
        }
        Ok(spot)
    }

    /// Bytes of shared memory that this thread reads.
    pub(crate) fn read_shared(&self, spot: Spot, bytes: usize, b: &mut Block<'_>) -> Result<u64, SimError> {
        let read = b.shared.read(spot.at, bytes, self.toucher(b), false);
        read.map_err(|r| self.refused(r, spot, "read", b))
    }

    fn refused(&self, refusal: Refusal, spot: Spot, access: &'static str, b: &Block<'_>) -> SimError {
        let (site, place) = (self.site(b), spot.to_string());
        match refusal {
            Refusal::Uninitialised => SimError::UninitialisedMemory { site, place },
            Refusal::Pending => SimError::PendingCopy { site, place },
            Refusal::Written => {
                let (other, other_access) = ("the kernel".to_owned(), "writes");
                SimError::Race { site, place, access: "read as constant", other, other_access }
            }
            Refusal::Constant => {
                let (other, other_access) = ("the kernel".to_owned(), "reads as constant");
                SimError::Race { site, place, access: "written", other, other_access }
            }
            Refusal::Race(c) => SimError::Race { site, place, access, other: c.other, other_access: c.other_access },
        }
    }

    fn load(
        &mut self,
        space: Space,
        read_only: bool,
        ty: Ty,
        dsts: &[Reg],
        from: Address,
        b: &mut Block<'_>,
    ) -> Result<(), SimError> {
        let address = self.address(from, b)?;
        let (size, all) = (ty.bytes(), ty.bytes() * dsts.len() as u64);
        let spot = self.place(space, address, all, all, b)?;
        let who = self.toucher(b);
        for (n, dst) in dsts.iter().enumerate() {
            let at = spot.at + n * size as usize;
            let bits = match space {
                Space::Local => {
                    let range = at..at + size as usize;
                    if !self.local_initialised[range.clone()].iter().all(|&i| i) {
                        return Err(self.refused(Refusal::Uninitialised, Spot { at, ..spot }, "read", b));
                    }
                    self.local[range].iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
                }
                Space::Global | Space::Shared => {
                    let read = b.memory(spot).read(at, size as usize, who, read_only);
                    read.map_err(|r| self.refused(r, Spot { at, ..spot }, "read", b))?
                }
            };
            let wide = b.register_types[*dst as usize];
            self.set(*dst, value::extend(bits, ty, wide));
        }
        Ok(())
    }

    fn store(&mut self, space: Space, ty: Ty, srcs: &[Src], to: Address, b: &mut Block<'_>) -> Result<(), SimError> {
        let address = self.address(to, b)?;
        let (size, all) = (ty.bytes(), ty.bytes() * srcs.len() as u64);
        let spot = self.place(space, address, all, all, b)?;
        if space == Space::Global && !b.writable[spot.buffer] {
            return Err(SimError::ReadOnly { site: self.site(b), place: spot.to_string() });
        }
        let who = self.toucher(b);
        for (n, src) in srcs.iter().enumerate() {
            let bits = self.source(*src, b)?;
            let at = spot.at + n * size as usize;
            match space {
                Space::Local => {
                    for byte in 0..size as usize {
                        self.local[at + byte] = (bits >> (8 * byte)) as u8;
                        self.local_initialised[at + byte] = true;
                    }
                }
                Space::Global | Space::Shared => {
                    let written = b.memory(spot).write(at, size as usize, bits, who);
                    written.map_err(|r| self.refused(r, Spot { at, ..spot }, "written", b))?;
                    if space == Space::Shared && b.has_products {
                        self.written.push((at, size as usize));
                    }
                }
            }
        }
        Ok(())
    }

    fn copy_async(
        &mut self,
        to: Address,
        from: Address,
        bytes: u64,
        source_bytes: Option<Src>,
        b: &mut Block<'_>,
    ) -> Result<(), SimError> {
        let source_bytes = match source_bytes {
            Some(src) => self.source(src, b)?.min(bytes),
            None => bytes,
        };
        let to = self.place(Space::Shared, self.address(to, b)?, bytes, bytes, b)?;
        let from = self.address(from, b)?;
        if source_bytes > 0 {
            self.place(Space::Global, from, source_bytes, bytes, b)?;
        }
        let who = self.toucher(b);
        b.shared.expect(to.at, bytes as usize, who).map_err(|r| self.refused(r, to, "written", b))?;
        let line = self.site(b).line;
        self.open.push(Copy { to: to.at, from, bytes, source_bytes, line });
        Ok(())
    }

    /// The copy happens, at the latest moment: now.
    fn land(&mut self, copy: &Copy, b: &mut Block<'_>) -> Result<(), SimError> {
        let who = self.toucher(b);
        let mut data = Vec::with_capacity(copy.bytes as usize);
        if copy.source_bytes > 0 {
            let from = self.place(Space::Global, copy.from, copy.source_bytes, 1, b)?;
            for n in 0..copy.source_bytes as usize {
                let byte = b.global[from.buffer].read(from.at + n, 1, who, false);
                let site = Site { line: copy.line, ..self.site(b) };
                let byte = byte.map_err(|r| match self.refused(r, Spot { at: from.at + n, ..from }, "read", b) {
                    SimError::UninitialisedMemory { place, .. } => SimError::UninitialisedMemory { site, place },
                    other => other,
                })?;
                data.push(byte as u8);
            }
        }
        data.resize(copy.bytes as usize, 0);
        let to = Spot { space: Space::Shared, buffer: 0, at: copy.to };
        if b.has_products {
            self.written.push((copy.to, data.len()));
        }
        b.shared.land(copy.to, &data, who).map_err(|r| self.refused(r, to, "written", b))
    }
}

/// A byte of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) space: Space,
    pub(crate) buffer: usize,
    pub(crate) at: usize,
}

impl Spot {
    fn whole(self) -> String {
        match self.space {
            Space::Global => format!("buffer {}", self.buffer),
            space => format!("{} memory", space.name()),
        }
    }
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, byte {}", self.whole(), self.at)
    }
}

impl Block<'_> {
    fn memory(&mut self, spot: Spot) -> &mut Tracked {
        match spot.space {
            Space::Global => &mut self.global[spot.buffer],
            Space::Shared | Space::Local => &mut self.shared,
        }
    }

    fn special(&self, what: Special, thread: u32) -> u64 {
        let [x, y, _] = self.threads;
        let [gx, gy, _] = self.grid;
        u64::from(match what {
            Special::Tid(0) => thread % x,
            Special::Tid(1) => thread / x % y,
            Special::Tid(_) => thread / x / y,
            Special::Ntid(axis) => self.threads[axis],
            Special::Ctaid(0) => self.number % gx,
            Special::Ctaid(1) => self.number / gx % gy,
            Special::Ctaid(_) => self.number / gx / gy,
            Special::Nctaid(axis) => self.grid[axis],
            Special::LaneId => thread % 32,
        })
    }
}

/// How many sources an operation reads.
fn sources(op: Compute) -> usize {
    match op {
        Compute::MadLo | Compute::MadWide | Compute::Fma | Compute::Selp => 3,
        Compute::Mov
        | Compute::Neg
        | Compute::Abs
        | Compute::Not
        | Compute::Sqrt
        | Compute::Reciprocal
        | Compute::Exp2
        | Compute::Log2
        | Compute::Tanh => 1,
        _ => 2,
    }
}
