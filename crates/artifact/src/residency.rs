//! Where the contents of slots are while a Program for a GPU runs: on the host, on the device, or on both.
//!
//! Launches and copies happen on the device, all other steps on the host. What a step reads is brought to its side before
//! it; what it writes is on that side alone behind it. The runtime asks [`Residency`] before every step which slots it has
//! to copy, and [`crossings`] tells beforehand, by the same rules, so that what is shown of an artifact is what happens.

use crate::{Entry, PortSpec, Program, SizeExpr, Slot, StatePair, Step};
use infc_tensor::DType;
use std::sync::Arc;

/// A side of the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The processor and its memory.
    Host,
    /// The GPU and its memory.
    Device,
}

impl Side {
    /// Where a step of a Program for a GPU happens.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        match step {
            Step::Launch(_) | Step::Copy(_) => Self::Device,
            Step::Bind(_) | Step::If(_) | Step::Host(_) | Step::Require(_) | Step::Give(_) => Self::Host,
        }
    }
}

/// On which sides the contents of a slot are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    host: bool,
    device: bool,
}

impl Held {
    fn on(&mut self, side: Side) -> &mut bool {
        match side {
            Side::Host => &mut self.host,
            Side::Device => &mut self.device,
        }
    }
}

/// Where the contents of all slots are at some step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    held: Vec<Held>,
}

impl Residency {
    /// The state before the first step: inputs are on the host, weights on both sides, all else is nowhere. Makes no heap
    /// call if it has been as large before.
    pub fn begin(&mut self, program: &Program) {
        self.held.clear();
        self.held.extend(program.slots.iter().map(|slot| match slot {
            Slot::Input(_) => Held { host: true, device: false },
            Slot::Weight(_) => Held { host: true, device: true },
            Slot::Output(_) | Slot::Arena(_) | Slot::Host(_) => Held::default(),
        }));
    }

    /// Notes that the contents of a slot are on a side, too.
    pub fn note(&mut self, slot: usize, side: Side) {
        if let Some(held) = self.held.get_mut(slot) {
            *held.on(side) = true;
        }
    }

    /// Whether the contents of a slot are on a side.
    #[must_use]
    pub fn is_on(&self, slot: usize, side: Side) -> bool {
        self.held.get(slot).is_some_and(|&held| *{ held }.on(side))
    }

    /// Has `copy` bring over what the next step needs: the slots that it reads, and those of which other steps have already
    /// written parts. The shapes that a [`Step::Bind`] looks at are not contents.
    ///
    /// # Errors
    /// What `copy` gives.
    pub fn before<E>(&mut self, step: &Step, mut copy: impl FnMut(usize, Side) -> Result<(), E>) -> Result<(), E> {
        if let Step::Bind(_) = step {
            return Ok(());
        }
        step.accesses().try_for_each(|(slot, _)| self.bring(slot as usize, Side::of(step), &mut copy))
    }

    /// Notes what a step has written.
    pub fn after(&mut self, step: &Step) {
        let side = Side::of(step);
        for (slot, _) in step.accesses().filter(|(_, access)| access.writes()) {
            if let Some(held) = self.held.get_mut(slot as usize) {
                *held = Held::default();
                *held.on(side) = true;
            }
        }
    }

    /// Has `copy` bring the outputs to the host.
    ///
    /// # Errors
    /// What `copy` gives.
    pub fn end<E>(&mut self, program: &Program, mut copy: impl FnMut(usize, Side) -> Result<(), E>) -> Result<(), E> {
        let outputs = program.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Output(_)));
        outputs.map(|(slot, _)| slot).try_for_each(|slot| self.bring(slot, Side::Host, &mut copy))
    }

    fn bring<E>(
        &mut self,
        slot: usize,
        to: Side,
        copy: &mut impl FnMut(usize, Side) -> Result<(), E>,
    ) -> Result<(), E> {
        // What is nowhere is written first.
        let Some(held) = self.held.get_mut(slot).filter(|held| held.host || held.device) else { return Ok(()) };
        if !std::mem::replace(held.on(to), true) {
            copy(slot, to)?;
        }
        Ok(())
    }

    /// What is so whichever of two ways was taken. What is on different sides then is taken to be on the first one's.
    fn join(&mut self, other: &Self) {
        for (a, &b) in self.held.iter_mut().zip(&other.held) {
            let both = Held { host: a.host && b.host, device: a.device && b.device };
            if *a == Held::default() {
                *a = b;
            } else if both != Held::default() {
                *a = both;
            }
        }
    }
}

/// A copy between the host and the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The step that it happens before; the number of steps if that is the end of the run.
    pub step: usize,
    /// Index of the slot.
    pub slot: usize,
    /// Where its contents are brought.
    pub to: Side,
    /// How many bytes that are; slots of one port, and copies of one slot, share it.
    pub size_bytes: Arc<SizeExpr>,
}

impl Crossing {
    /// Whether it brings an input of the entry to the device or an output from there, as every run has to. The memory of a
    /// state that grows in place is more than that.
    #[must_use]
    pub fn is_port(&self, entry: &Entry, program: &Program) -> bool {
        match program.slots.get(self.slot) {
            Some(slot) if growing(entry, slot).is_some() => false,
            Some(Slot::Input(_)) => self.to == Side::Device,
            Some(Slot::Output(_)) => self.to == Side::Host && self.step == program.steps.len(),
            _ => false,
        }
    }
}

/// The state that grows in place, on both sides, of which a slot is a port: input and output are one memory.
fn growing<'e>(entry: &'e Entry, slot: &Slot) -> Option<&'e StatePair> {
    let mut growing = entry.state.iter().filter(|state| state.append.is_some());
    match slot {
        Slot::Input(n) => growing.find(|state| state.input == *n),
        Slot::Output(n) => growing.find(|state| state.output == *n),
        Slot::Weight(_) | Slot::Arena(_) | Slot::Host(_) => None,
    }
}

fn dense_bytes(dtype: DType, shape: &[SizeExpr]) -> SizeExpr {
    let element = SizeExpr::constant(dtype.size_bytes().unwrap_or(0) as i64);
    shape.iter().cloned().fold(element, |size, extent| size * extent)
}

/// The sizes of all slots. Dims may be long, and a file can name a port in as many slots as it likes: they share its size.
fn sizes_bytes(entry: &Entry, program: &Program) -> Vec<Arc<SizeExpr>> {
    // Of a state that grows in place, all the memory that there is.
    let of_port = |port: &PortSpec, slot: &Slot| {
        let mut shape = port.shape.clone();
        if let Some(append) = growing(entry, slot).and_then(|state| state.append)
            && let Some(extent) = shape.get_mut(append.axis as usize)
        {
            *extent = SizeExpr::constant(i64::try_from(append.capacity).unwrap_or(i64::MAX));
        }
        Arc::new(dense_bytes(port.dtype, &shape))
    };
    let of_ports = |ports: &[PortSpec], slot: &dyn Fn(u32) -> Slot| -> Vec<Arc<SizeExpr>> {
        (0..).zip(ports).map(|(n, port)| of_port(port, &slot(n))).collect()
    };
    let (inputs, outputs) = (of_ports(&entry.inputs, &Slot::Input), of_ports(&entry.outputs, &Slot::Output));
    let none = Arc::new(SizeExpr::constant(0));
    let of_port = |ports: &[Arc<SizeExpr>], n: u32| Arc::clone(ports.get(n as usize).unwrap_or(&none));
    let of_slot = |slot: &Slot| match slot {
        Slot::Input(n) => of_port(&inputs, *n),
        Slot::Output(n) => of_port(&outputs, *n),
        Slot::Arena(arena) => Arc::new(arena.size_bytes.clone()),
        Slot::Host(host) => Arc::new(dense_bytes(host.dtype, &host.shape)),
        // On both sides from the beginning.
        Slot::Weight(_) => Arc::clone(&none),
    };
    program.slots.iter().map(of_slot).collect()
}

/// The copies of a run of an entry's Program for a GPU, in order. States that grow in place are brought to the device as a
/// whole before anything else. Of the ways of an [`If`](crate::If) both are taken to be
/// taken; what is left on different sides by them may be copied once more, or once less.
#[must_use]
pub fn crossings(entry: &Entry, program: &Program) -> Vec<Crossing> {
    let mut walk = Walk { program, sizes_bytes: sizes_bytes(entry, program), found: Vec::new() };
    let mut residency = Residency::default();
    residency.begin(program);
    for state in entry.state.iter().filter(|state| state.append.is_some()) {
        let is_port = |slot: &Slot| growing(entry, slot) == Some(state);
        for (nth, (slot, _)) in program.slots.iter().enumerate().filter(|(_, slot)| is_port(slot)).enumerate() {
            if nth == 0 {
                let _ = walk.note(0, slot, Side::Device);
            }
            residency.note(slot, Side::Host);
            residency.note(slot, Side::Device);
        }
    }
    walk.range(0, program.steps.len(), &mut residency);
    let _ = residency.end(program, |slot, to| walk.note(program.steps.len(), slot, to));
    walk.found
}

struct Walk<'p> {
    program: &'p Program,
    /// Per slot.
    sizes_bytes: Vec<Arc<SizeExpr>>,
    found: Vec<Crossing>,
}

impl Walk<'_> {
    fn note(&mut self, step: usize, slot: usize, to: Side) -> Result<(), std::convert::Infallible> {
        let size_bytes = Arc::clone(&self.sizes_bytes[slot]);
        self.found.push(Crossing { step, slot, to, size_bytes });
        Ok(())
    }

    fn range(&mut self, start: usize, end: usize, residency: &mut Residency) {
        let mut next = start;
        while next < end {
            let (index, step) = (next, &self.program.steps[next]);
            next += 1;
            let _ = residency.before(step, |slot, to| self.note(index, slot, to));
            residency.after(step);
            if let Step::If(choice) = step {
                let middle = next.saturating_add(choice.then_steps as usize).min(end);
                let behind = middle.saturating_add(choice.else_steps as usize).min(end);
                let mut otherwise = residency.clone();
                self.range(next, middle, residency);
                self.range(middle, behind, &mut otherwise);
                residency.join(&otherwise);
                next = behind;
            }
        }
    }
}
