//! Runs of large batches as several runs of fewer points, where every point is computed by itself.
//!
//! What lies between kernels is as large as the batch, and beyond the caches it comes from memory. A run takes as many points
//! at once as keep it near: the arena is smaller, and a point takes about as long as alone.

use super::{Destination, RunOptions, Session};
use crate::arena::Span;
use crate::binding::{Place, wrong_shape};
use crate::error::RuntimeError;
use crate::state::Port;
use infc_artifact::{PortSpec, Step};

/// Arena of a slice: what several kernels in a row find in second caches, or near them in a third. The same for any number of
/// threads, on which results must not depend.
const SLICE_BYTES: usize = 8 << 20;
/// Of the weights, which every slice reads again, there are at most this many times as many bytes as of the slice's arena.
const WEIGHTS_PER_ARENA: usize = 4;

/// The runs that a batch is taken apart into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slices {
    /// The symbol that says how many points there are.
    symbol: usize,
    /// How many there are.
    points: usize,
    /// How many a slice has; the last one may have fewer.
    each: usize,
}

/// What a run in slices remembers of the whole. Kept for its memory.
#[derive(Debug, Default)]
pub(super) struct Whole {
    symbols: Vec<i64>,
    inputs: Vec<Span>,
    outputs: Vec<Span>,
    /// The parts of the outputs that belong to the slice in progress.
    parts: Vec<Span>,
}

impl Session {
    /// How the run whose dims were bound last is taken apart; `None` if it is run as it is. Whoever observes runs sees them
    /// whole.
    pub(super) fn slices(&mut self) -> Result<Option<Slices>, RuntimeError> {
        let entry = &self.model.manifest.entries[self.form().entry];
        let Some(symbol) = entry.slices.map(|symbol| symbol as usize) else { return Ok(None) };
        let lone = self.form().bindings.len() == 1 && entry.state.is_empty();
        let plain = |step: &Step| matches!(step, Step::Launch(_) | Step::Copy { .. } | Step::Require { .. });
        if !lone || self.observer.is_some() || self.on_gpu.is_some() || !self.program().steps.iter().all(plain) {
            return Ok(None);
        }
        let points = self.form().symbols.get(symbol).and_then(|&points| usize::try_from(points).ok()).unwrap_or(0);
        let whole_bytes = self.form().binding(0).arena_bytes;
        if points < 2 || whole_bytes <= SLICE_BYTES {
            return Ok(None);
        }
        self.bind_points(symbol, 1)?;
        let one = self.form().binding(0);
        let weights = one.slots.iter().zip(&one.lens).filter(|(slot, _)| matches!(slot, Some(Place::Weight(_))));
        let weights = weights.fold(0usize, |sum, (_, &len)| sum.saturating_add(len));
        // Not all of it need be the points'.
        let point_bytes = whole_bytes.saturating_sub(one.arena_bytes) / (points - 1);
        let each = points_of_slice(points, point_bytes, weights);
        self.bind_points(symbol, points)?;
        Ok((each < points).then_some(Slices { symbol, points, each }))
    }

    fn bind_points(&mut self, symbol: usize, points: usize) -> Result<(), RuntimeError> {
        if let Some(value) = self.forms.current_mut().symbols.get_mut(symbol) {
            *value = points as i64;
        }
        self.use_binding(0)
    }

    /// Runs all slices; the inputs are staged. The dims are those of the whole again behind it.
    pub(super) fn run_slices(
        &mut self,
        slices: Slices,
        options: &RunOptions<'_>,
        destination: &mut Destination<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let mut whole = std::mem::take(&mut self.whole);
        let done = self.run_slices_of(&mut whole, slices, options, destination);
        // No address outlives the borrow of the buffers.
        [&mut whole.inputs, &mut whole.outputs, &mut whole.parts].into_iter().for_each(Vec::clear);
        self.whole = whole;
        done
    }

    fn run_slices_of(
        &mut self,
        whole: &mut Whole,
        slices: Slices,
        options: &RunOptions<'_>,
        destination: &mut Destination<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let Slices { symbol, points, each } = slices;
        whole.symbols.clone_from(&self.form().symbols);
        whole.inputs.clone_from(&self.inputs);
        self.place_outputs(&mut whole.outputs, destination)?;
        let mut done = Ok(());
        for begin in (0..points).step_by(each) {
            let end = points.min(begin + each);
            done = self.run_slice(whole, (symbol, points), begin..end, options);
            if done.is_err() {
                break;
            }
        }
        self.forms.current_mut().symbols.clone_from(&whole.symbols);
        self.use_binding(0)?;
        done
    }

    fn run_slice(
        &mut self,
        whole: &mut Whole,
        (symbol, points): (usize, usize),
        range: std::ops::Range<usize>,
        options: &RunOptions<'_>,
    ) -> Result<(), RuntimeError> {
        self.bind_points(symbol, range.len())?;
        let entry = &self.model.manifest.entries[self.form().entry];
        let part = |port: &PortSpec, span: Span| {
            let is_sliced = port.shape.first().and_then(infc_artifact::SizeExpr::as_symbol) == Some(symbol as u32);
            let point_bytes = span.len_bytes() / points;
            let bytes = range.start * point_bytes..range.end * point_bytes;
            let fits = span.len_bytes().is_multiple_of(points);
            let part = if is_sliced { span.get(bytes).filter(|_| fits) } else { Some(span) };
            part.ok_or_else(|| wrong_shape(entry, port, "input or output", &[], None))
        };
        self.inputs.clear();
        for (port, &span) in entry.inputs.iter().zip(&whole.inputs) {
            self.inputs.push(part(port, span)?);
        }
        whole.parts.clear();
        for (port, &span) in entry.outputs.iter().zip(&whole.outputs) {
            whole.parts.push(part(port, span)?);
        }
        self.slots.clear();
        self.slots.resize(self.program().slots.len(), Span::EMPTY);
        self.run_steps(options, &mut Destination::Spans(&whole.parts))
    }

    /// Where all outputs go, for the dims that were bound last.
    fn place_outputs(
        &mut self,
        outputs: &mut Vec<Span>,
        destination: &mut Destination<'_, '_>,
    ) -> Result<(), RuntimeError> {
        if let Destination::Caller(outputs) = &destination {
            self.check_outputs(0, outputs)?;
        }
        outputs.clear();
        let (form, memory) = self.forms.with_memory(0);
        let binding = form.binding(0);
        if let Destination::Session = destination {
            memory.outputs.reserve(binding.outputs_bytes)?;
        }
        let kept = memory.outputs.span();
        for (index, place) in binding.outputs.iter().enumerate() {
            let span = match (self.states.output(index), &mut *destination, place) {
                (Port::Caller(n), Destination::Caller(views), _) => Some(Span::writable(views[n].bytes_mut())),
                (_, Destination::Session, Some(place)) => kept.get(place.range.clone()),
                _ => None,
            };
            outputs.push(span.unwrap_or(Span::EMPTY));
        }
        Ok(())
    }
}

/// How many of so many points a slice has, given what one needs of the arena: equal parts, as few as can be.
fn points_of_slice(points: usize, point_bytes: usize, weights_bytes: usize) -> usize {
    let arena = point_bytes.max(1);
    let near = SLICE_BYTES / arena;
    let worth = weights_bytes / WEIGHTS_PER_ARENA / arena;
    let most = near.max(worth).clamp(1, points);
    points.div_ceil(points.div_ceil(most))
}

#[cfg(test)]
mod tests {
    use super::points_of_slice;

    const MIB: usize = 1 << 20;

    #[test]
    fn slices_stay_near_and_share_weights() {
        // Large images, few weights: one at a time.
        assert_eq!(points_of_slice(64, 7 * MIB, 14 * MIB), 1);
        // Weights are read once for several.
        assert_eq!(points_of_slice(64, 6 * MIB, 100 * MIB), 4);
        // Parts are equal: 9 of at most 4 are three of 3.
        assert_eq!(points_of_slice(9, 2 * MIB, 0), 3);
        // Everything at once where it is small.
        assert_eq!(points_of_slice(64, 4096, 0), 64);
        assert_eq!(points_of_slice(5, 0, 0), 5);
    }
}
