//! Runs on a GPU.
//!
//! Launches happen there, listed until the host needs a result ([`Stretches`]), all other steps on the host. Every segment has a block of the
//! GPU's memory for its arena, and for the inputs, outputs and results of host steps that have their place from it on; it
//! grows to the largest run so far. What a step reads is copied to its side if it is not there ([`Residency`]).

use super::Session;
use super::ports::{DevicePorts, is_used_on_host};
use crate::arena::Span;
use crate::binding::{BoundCode, BoundLaunch, Place};
use crate::error::RuntimeError;
use crate::gpu::{GpuAddress, GpuBlock, GpuCode, Stretches};
use infc_artifact::{KernelInfo, Program, Residency, Side, Slot, Step};
use std::sync::Arc;
use std::time::Duration;

/// Regions begin at multiples of this within a block, as allocations of a driver do.
const REGION_ALIGN: usize = 256;

/// The memory of a session on a GPU.
#[derive(Debug)]
pub(super) struct OnGpu {
    /// Per segment of the Program that has most.
    blocks: Vec<GpuBlock>,
    /// Per segment, memory for its launches, one after the other.
    scratch: Vec<GpuAddress>,
    /// Per slot of the Program.
    places: Vec<GpuPlace>,
    /// States that grow in place during the run in progress.
    growing: Vec<Growing>,
    /// Inputs and outputs of the run in progress that are in tensors of the GPU's.
    pub(super) ports: DevicePorts,
    residency: Residency,
    /// What has not been started.
    stretches: Stretches,
}

/// Where a slot is on the GPU.
#[derive(Clone, Copy, Debug, Default)]
struct GpuPlace {
    address: GpuAddress,
    /// What is copied from the host and to it.
    len_bytes: usize,
    /// Whether others had the same memory before, in the same run.
    is_shared: bool,
}

/// A state that grows in place: an input and an output in one memory, on the host and on the GPU.
#[derive(Clone, Copy, Debug)]
struct Growing {
    host: u64,
    address: GpuAddress,
}

impl OnGpu {
    pub(super) fn new(code: &GpuCode, segments: usize, is_timed: bool) -> Self {
        Self {
            blocks: (0..segments).map(|_| GpuBlock::empty(Arc::clone(&code.gpu))).collect(),
            scratch: vec![0; segments],
            places: Vec::new(),
            growing: Vec::new(),
            ports: DevicePorts::default(),
            residency: Residency::default(),
            stretches: Stretches::new(Arc::clone(&code.gpu), is_timed),
        }
    }

    /// Bytes of the GPU's memory.
    pub(super) fn len_bytes(&self) -> usize {
        self.blocks.iter().map(GpuBlock::len_bytes).sum()
    }
}

/// Copies slots between the sides.
struct Copies<'s> {
    places: &'s [GpuPlace],
    slots: &'s [Span],
    code: &'s GpuCode,
    kernels: &'s [KernelInfo],
    stretches: &'s mut Stretches,
}

impl Copies<'_> {
    /// Copies a slot's contents to a side.
    fn copy(&mut self, slot: usize, to: Side) -> Result<(), RuntimeError> {
        let GpuPlace { address, len_bytes, is_shared } = self.places[slot];
        let host = self.slots[slot].get(0..len_bytes.min(self.slots[slot].len_bytes())).unwrap_or(Span::EMPTY);
        if host.len_bytes() == 0 {
            return Ok(());
        }
        let gpu = &*self.code.gpu;
        // Memory that is a slot's alone nothing that is listed touches before it is written: what the host has newer than the
        // GPU was read from there first. So the list may go on.
        if to == Side::Host || is_shared {
            self.stretches.start(self.kernels).map_err(|source| RuntimeError::gpu(gpu, source))?;
        }
        let copied = match to {
            Side::Device => gpu.write(address, host.bytes()),
            Side::Host => host.fill(|bytes| gpu.read(address, bytes)),
        };
        copied.map_err(|source| RuntimeError::gpu(gpu, source))
    }
}

/// The slots of a Program in a GPU's memory, for whoever observes its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSlots<'s> {
    on_gpu: &'s OnGpu,
    code: &'s GpuCode,
}

impl DeviceSlots<'_> {
    /// Whether the contents of a slot are on the GPU and not on the host.
    pub(crate) fn alone_has(self, slot: usize) -> bool {
        let residency = &self.on_gpu.residency;
        residency.is_on(slot, Side::Device) && !residency.is_on(slot, Side::Host)
    }

    /// A copy of a slot's contents; `None` if the GPU does not give them.
    pub(crate) fn read(self, slot: usize) -> Option<Vec<u8>> {
        let GpuPlace { address, len_bytes, .. } = *self.on_gpu.places.get(slot)?;
        let mut bytes = vec![0; len_bytes];
        if len_bytes > 0 {
            self.code.gpu.read(address, &mut bytes).ok()?;
        }
        Some(bytes)
    }
}

/// Whether steps on the host touch slots of the arena, which have a place there only then.
pub(super) fn reads_arena(program: &Program) -> bool {
    program.steps.iter().any(|step| matches!(step, Step::Host(_) | Step::If(_) | Step::Give(_)))
}

impl Session {
    /// Notes that nothing has been computed yet.
    pub(super) fn begin_on_gpu(&mut self) {
        let program = &self.model.body.programs[self.forms.current().entry];
        if let Some(on_gpu) = &mut self.on_gpu {
            on_gpu.residency.begin(program);
            on_gpu.stretches.clear();
            on_gpu.places.clear();
            on_gpu.places.resize(program.slots.len(), GpuPlace::default());
            on_gpu.growing.clear();
        }
    }

    /// Finds a place in the GPU's memory for every slot of a segment; those on the host are known.
    pub(super) fn place_on_gpu(&mut self, segment: usize) -> Result<(), RuntimeError> {
        let model = Arc::clone(&self.model);
        let (Some(code), Some(on_gpu)) = (model.gpu(), &mut self.on_gpu) else { return Ok(()) };
        let form = self.forms.current();
        let binding = form.binding(segment);
        let entry = &model.manifest.entries[form.entry];
        let grows = |state: Option<usize>| state.is_some_and(|state| entry.state[state].append.is_some());
        let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
        // Until the block has its place, addresses count from its beginning.
        let mut end = binding.arena_bytes;
        for (index, place) in binding.slots.iter().enumerate() {
            let Some(place) = place else { continue };
            let program = &model.body.programs[form.entry];
            if let Some(address) = on_gpu.ports.place(&program.slots[index]) {
                if is_used_on_host(program, index) {
                    let (inputs, outputs) = (&entry.inputs, &entry.outputs);
                    let port = match &program.slots[index] {
                        Slot::Input(input) => format!("input `{}`", inputs[*input as usize].name),
                        Slot::Output(output) => format!("output `{}`", outputs[*output as usize].name),
                        _ => String::new(),
                    };
                    return Err(RuntimeError::GpuTensor { port, reason: "a step on the host needs it".to_owned() });
                }
                // Nothing is copied, since there is nothing on the host.
                on_gpu.places[index] = GpuPlace { address, len_bytes: binding.lens[index], is_shared: false };
                continue;
            }
            let grows = match place {
                Place::Input(input) => grows(entry.state_of_input(*input)),
                Place::Output(output) => grows(entry.state_of_output(*output)),
                Place::Arena(range) => {
                    let (address, len_bytes) = (range.start as GpuAddress, range.len());
                    on_gpu.places[index] = GpuPlace { address, len_bytes, is_shared: true };
                    continue;
                }
                Place::Weight(_) => continue,
                Place::Host { .. } => false,
            };
            // What grows in place keeps what is there, between rows that end with room for more. Of other memory there may
            // be more than is used.
            let len_bytes = if grows { self.slots[index].len_bytes() } else { binding.lens[index] };
            if grows && on_gpu.growing.iter().any(|known| known.host == self.slots[index].address()) {
                on_gpu.places[index].len_bytes = len_bytes;
                continue;
            }
            let start = end.checked_next_multiple_of(REGION_ALIGN).ok_or_else(too_large)?;
            end = start.checked_add(len_bytes).ok_or_else(too_large)?;
            on_gpu.places[index] = GpuPlace { address: start as GpuAddress, len_bytes, is_shared: false };
            if grows {
                let host = self.slots[index].address();
                on_gpu.growing.push(Growing { host, address: GpuAddress::MAX });
            }
        }
        let scratch = end.checked_next_multiple_of(REGION_ALIGN).ok_or_else(too_large)?;
        let end = scratch.checked_add(binding.scratch_bytes).ok_or_else(too_large)?;
        on_gpu.blocks[segment].reserve(end)?;
        let base = on_gpu.blocks[segment].start();
        on_gpu.scratch[segment] = base + scratch as GpuAddress;
        for (index, place) in binding.slots.iter().enumerate() {
            let Some(place) = place else { continue };
            if let Place::Weight(weight) = place {
                on_gpu.places[index].address = code.weight(model.weight_range(*weight));
                continue;
            }
            if on_gpu.ports.place(&model.body.programs[form.entry].slots[index]).is_some() {
                continue;
            }
            let host = self.slots[index];
            let is_growing = |known: &&mut Growing| known.host == host.address();
            let grows = matches!(place, Place::Input(_) | Place::Output(_));
            let OnGpu { growing, places, stretches, residency, .. } = &mut *on_gpu;
            match growing.iter_mut().find(is_growing).filter(|_| grows) {
                None => places[index].address += base,
                Some(known) => {
                    if known.address == GpuAddress::MAX {
                        known.address = base + places[index].address;
                        places[index].address = known.address;
                        let (slots, kernels) = (&self.slots[..], &model.body.kernels[..]);
                        Copies { places, slots, code, kernels, stretches }.copy(index, Side::Device)?;
                    }
                    places[index].address = known.address;
                    residency.note(index, Side::Host);
                    residency.note(index, Side::Device);
                }
            }
        }
        Ok(())
    }

    /// Brings what a step needs to where it happens.
    pub(super) fn bring(&mut self, code: &GpuCode, step: usize) -> Result<(), RuntimeError> {
        let body = &self.model.body;
        let program = &body.programs[self.forms.current().entry];
        let (Some(on_gpu), slots) = (&mut self.on_gpu, &self.slots) else { return Ok(()) };
        let OnGpu { residency, places, stretches, .. } = on_gpu;
        let mut copies = Copies { places, slots, code, kernels: &body.kernels, stretches };
        residency.before(&program.steps[step], |slot, to| copies.copy(slot, to))
    }

    /// What of the Program's slots is on the GPU, if it runs there.
    pub(super) fn device_slots<'s>(&'s self, code: Option<&'s GpuCode>) -> Option<DeviceSlots<'s>> {
        Some(DeviceSlots { on_gpu: self.on_gpu.as_ref()?, code: code? })
    }

    /// Notes what a step has written.
    pub(super) fn has_written(&mut self, step: usize) {
        let program = &self.model.body.programs[self.forms.current().entry];
        if let Some(on_gpu) = &mut self.on_gpu {
            on_gpu.residency.after(&program.steps[step]);
        }
    }

    /// Waits for all launches, and brings the outputs to the host.
    pub(super) fn end_on_gpu(&mut self, code: &GpuCode) -> Result<(), RuntimeError> {
        let body = &self.model.body;
        let program = &body.programs[self.forms.current().entry];
        let (Some(on_gpu), slots) = (&mut self.on_gpu, &self.slots) else { return Ok(()) };
        let OnGpu { residency, places, stretches, .. } = on_gpu;
        let mut copies = Copies { places, slots, code, kernels: &body.kernels, stretches };
        residency.end(program, |slot, to| copies.copy(slot, to))?;
        self.wait_for_gpu(code)
    }

    /// Starts all that is listed, and waits for it.
    pub(super) fn wait_for_gpu(&mut self, code: &GpuCode) -> Result<(), RuntimeError> {
        let kernels = &self.model.body.kernels;
        let started = self.on_gpu.as_mut().map_or(Ok(()), |on_gpu| on_gpu.stretches.start(kernels));
        started.and_then(|()| code.gpu.synchronize()).map_err(|source| RuntimeError::gpu(&*code.gpu, source))
    }

    /// Starts all that is listed; gives its number among what was timed since the times were asked for last, if anything was listed.
    pub(super) fn start_on_gpu(&mut self, code: &GpuCode) -> Result<Option<usize>, RuntimeError> {
        let kernels = &self.model.body.kernels;
        let Some(OnGpu { stretches, .. }) = &mut self.on_gpu else { return Ok(None) };
        let before = stretches.timed();
        stretches.start(kernels).map_err(|source| RuntimeError::gpu(&*code.gpu, source))?;
        Ok((stretches.timed() > before).then_some(before))
    }

    /// When what was timed since this was asked for last began, from the beginning of the first of it, and how long it took.
    pub(super) fn times_on_gpu(&mut self, times: &mut Vec<(Duration, Duration)>) -> Result<(), RuntimeError> {
        let (Some(OnGpu { stretches, .. }), Some(code)) = (&mut self.on_gpu, self.model.gpu()) else { return Ok(()) };
        stretches.times(times).map_err(|source| RuntimeError::gpu(&*code.gpu, source))
    }

    /// Lists a kernel of a segment.
    pub(super) fn launch_on_gpu(&mut self, code: &GpuCode, segment: usize, launch: &BoundLaunch) {
        let BoundLaunch { code: BoundCode::Gpu { grid }, kernel, args, values, takes_scratch, .. } = launch else {
            return;
        };
        let binding = self.forms.current().binding(segment);
        let (Some(function), Some(on_gpu)) = (code.kernel(*kernel), &mut self.on_gpu) else { return };
        if grid.contains(&0) {
            return;
        }
        let OnGpu { places, stretches, scratch, .. } = on_gpu;
        let args = binding.args[args.clone()].iter();
        let addresses = args.map(|arg| places[arg.slot].address + arg.offset_bytes as u64);
        let values = binding.values[values.clone()].iter().map(|value| value.cast_unsigned());
        stretches.launch(
            (function, *kernel),
            *grid,
            addresses.chain(takes_scratch.then_some(scratch[segment])).chain(values),
        );
    }

    /// Lists a copy from one slot to another.
    pub(super) fn copy_on_gpu(&mut self, (from, to): (usize, usize), len_bytes: usize) {
        let Some(on_gpu) = &mut self.on_gpu else { return };
        let (from, to) = (on_gpu.places[from].address, on_gpu.places[to].address);
        if len_bytes > 0 && from != to {
            on_gpu.stretches.copy(from, to, len_bytes);
        }
    }
}
