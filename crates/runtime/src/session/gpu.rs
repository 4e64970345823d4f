//! Runs on a GPU.
//!
//! Arena, inputs and outputs lie in one block of its memory, which grows to the largest run so far. A run copies the
//! inputs there, launches one kernel after the other without waiting, and copies the outputs back.

use super::{RunOptions, Session, steps::check_interruption};
use crate::arena::Span;
use crate::binding::{BoundCode, BoundLaunch, BoundStep, Place};
use crate::error::RuntimeError;
use crate::gpu::{GpuAddress, GpuBlock, GpuCode, GpuError};
use crate::observer::{Event, StepEvent};
use infc_artifact::Access;
use std::sync::Arc;
use std::time::Instant;

/// Regions begin at multiples of this within the block, as allocations of a driver do.
const REGION_ALIGN: usize = 256;

/// The memory of a session on a GPU.
#[derive(Debug)]
pub(super) struct OnGpu {
    block: GpuBlock,
    /// Memory of the host that has a place in the block during the run in progress.
    regions: Vec<Region>,
    /// Per slot.
    addresses: Vec<GpuAddress>,
    /// The parameters of the launch in progress.
    parameters: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    host: Span,
    /// Where it begins in the block.
    start: usize,
    is_read: bool,
    is_written: bool,
}

impl Region {
    fn is_both(self) -> bool {
        self.is_read && self.is_written
    }
}

impl OnGpu {
    pub(super) fn new(code: &GpuCode) -> Self {
        let block = GpuBlock::empty(Arc::clone(&code.gpu));
        Self { block, regions: Vec::new(), addresses: Vec::new(), parameters: Vec::new() }
    }

    /// Bytes of the GPU's memory.
    pub(super) fn len_bytes(&self) -> usize {
        self.block.len_bytes()
    }

    /// The place of some memory of the host, from `end` on.
    fn region(&mut self, host: Span, access: Access, end: &mut usize) -> Result<usize, RuntimeError> {
        let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
        let (is_read, is_written) = (access.reads(), access.writes());
        // A state that grows in place has one, whether it is asked for as an input or as an output.
        if access == Access::ReadWrite
            && let Some(known) = self.regions.iter().find(|r| r.is_both() && r.host.address() == host.address())
        {
            return Ok(known.start);
        }
        let start = end.checked_next_multiple_of(REGION_ALIGN).ok_or_else(too_large)?;
        *end = start.checked_add(host.len_bytes()).ok_or_else(too_large)?;
        self.regions.push(Region { host, start, is_read, is_written });
        Ok(start)
    }
}

impl Session {
    /// Runs all steps; the slots have their places on the host.
    pub(super) fn run_on_gpu(&mut self, options: &RunOptions<'_>) -> Result<(), RuntimeError> {
        let model = Arc::clone(&self.model);
        // Apart from the session for as long as both are needed.
        let (Some(code), Some(mut on_gpu)) = (model.gpu(), self.on_gpu.take()) else { return Ok(()) };
        let done = self.place_on_gpu(code, &mut on_gpu).and_then(|()| self.steps_on_gpu(code, &mut on_gpu, options));
        self.on_gpu = Some(on_gpu);
        done
    }

    /// Copies the inputs, runs the steps, and copies the outputs.
    fn steps_on_gpu(&self, code: &GpuCode, on_gpu: &mut OnGpu, options: &RunOptions<'_>) -> Result<(), RuntimeError> {
        let (model, gpu) = (&self.model, &*code.gpu);
        let failed = |source: GpuError| RuntimeError::gpu(gpu, source);
        let base = on_gpu.block.start();
        for region in on_gpu.regions.iter().filter(|region| region.is_read && region.host.len_bytes() > 0) {
            gpu.write(base + region.start as u64, region.host.bytes()).map_err(failed)?;
        }
        let form = self.forms.current();
        let binding = form.binding(0);
        let steps = binding.steps.len();
        for (index, step) in binding.steps.iter().enumerate() {
            check_interruption(options, index, steps)?;
            let started = self.observer.is_some().then(Instant::now);
            match step {
                BoundStep::Launch(launch) => {
                    let BoundLaunch { code: BoundCode::Gpu { grid }, kernel, args, values, .. } = launch else {
                        continue;
                    };
                    let loaded = code.kernel(*kernel).zip(model.body.kernels[*kernel].device.as_ref());
                    let Some((function, device)) = loaded.filter(|_| !grid.contains(&0)) else { continue };
                    on_gpu.parameters.clear();
                    let args = binding.args[args.clone()].iter();
                    on_gpu.parameters.extend(args.map(|arg| on_gpu.addresses[arg.slot] + arg.offset_bytes as u64));
                    on_gpu.parameters.extend(binding.values[values.clone()].iter().map(|value| value.cast_unsigned()));
                    gpu.launch(function, device, *grid, &on_gpu.parameters).map_err(failed)?;
                }
                BoundStep::Copy { src, dst, len_bytes } => {
                    let (from, to) = (on_gpu.addresses[*src], on_gpu.addresses[*dst]);
                    if *len_bytes > 0 && from != to {
                        gpu.copy(from, to, *len_bytes).map_err(failed)?;
                    }
                }
                BoundStep::Require { unmet: Some((left, right)) } => return Err(self.unmet(index, *left, *right)),
                BoundStep::Require { unmet: None } => {}
                // Artifacts with such steps for GPUs are refused when they are read.
                BoundStep::If { .. } | BoundStep::Bind | BoundStep::Give { .. } | BoundStep::Host { .. } => {}
            }
            if let (Some(observer), Some(started)) = (&self.observer, started) {
                // Who wants to know how long a step takes waits for it.
                gpu.synchronize().map_err(failed)?;
                let (kernel, chunks) = match step {
                    BoundStep::Launch(l) => (Some((l.kernel, model.body.kernels[l.kernel].name.as_str())), l.chunks),
                    _ => (None, 1),
                };
                let (entry, took, slots) = (form.entry, started.elapsed(), &self.slots);
                observer.event(&Event::Step(StepEvent { entry, step: index, kernel, chunks, threads: 1, took, slots }));
            }
        }
        for region in on_gpu.regions.iter().filter(|region| region.is_written && region.host.len_bytes() > 0) {
            region.host.fill(|bytes| gpu.read(base + region.start as u64, bytes)).map_err(failed)?;
        }
        gpu.synchronize().map_err(failed)
    }

    /// Finds a place in the GPU's memory for every slot.
    fn place_on_gpu(&self, code: &GpuCode, on_gpu: &mut OnGpu) -> Result<(), RuntimeError> {
        let binding = self.forms.current().binding(0);
        on_gpu.regions.clear();
        on_gpu.addresses.clear();
        let mut end = binding.arena_bytes;
        let entry = &self.model.manifest.entries[self.forms.current().entry];
        let grows = |state: Option<usize>| state.is_some_and(|state| entry.state[state].append.is_some());
        // Until the block has its place, addresses count from its beginning.
        for (index, place) in binding.slots.iter().enumerate() {
            let (access, grows) = match place {
                Some(Place::Input(input)) => (Access::Read, grows(entry.state_of_input(*input))),
                Some(Place::Output(output)) => (Access::Write, grows(entry.state_of_output(*output))),
                Some(Place::Arena(range)) => {
                    on_gpu.addresses.push(range.start as GpuAddress);
                    continue;
                }
                Some(Place::Weight(_) | Place::Host { .. }) | None => {
                    on_gpu.addresses.push(0);
                    continue;
                }
            };
            // What grows in place keeps what is there, between rows that end with room for more. Of other memory there may
            // be more than is used.
            let (host, access) = if grows {
                (Some(self.slots[index]), Access::ReadWrite)
            } else {
                (self.slots[index].get(0..binding.lens[index]), access)
            };
            let start = on_gpu.region(host.unwrap_or(Span::EMPTY), access, &mut end)?;
            on_gpu.addresses.push(start as GpuAddress);
        }
        on_gpu.block.reserve(end)?;
        let base = on_gpu.block.start();
        for (place, address) in binding.slots.iter().zip(&mut on_gpu.addresses) {
            *address = match place {
                Some(Place::Weight(weight)) => code.weight(self.model.weight_range(*weight)),
                _ => base + *address,
            };
        }
        Ok(())
    }
}
