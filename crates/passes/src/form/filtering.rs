//! Which correlations are computed by minimal filtering.
//!
//! It pays where there are many channels, and where there are enough results to share the filter, which grows: 1.8
//! times for `F(2×2, 3×3)`, 4 times for `F(4×4, 3×3)`. What all constants together may grow by is limited, so it is
//! spent where a byte saves most time, and not where it saves next to none. Every correlation has a list of ways, each
//! dearer and quicker than the one before; going on to the next one is a step with a gain and a price, and the best
//! steps are taken until nothing more fits. Where measuring has settled a correlation, that is taken first.

use super::Finished;
use super::FormOptions;
use super::budget::FREE_BYTES;
use super::choices::{self, Choices, Way as Answer};
use super::group::Grouping;
use super::layout::Placement;
use super::lower::Lowered;
use super::pack::{Packs, pack};
use super::plan::{OperandSource, Packing};
use crate::ErrorClass;
use crate::formulate::winograd::{self, Correlation, Filtering, Typical, Work};
use infc_ir::entity::{EntityId, OperandId, VarId};
use infc_ir::kernel::{Kernel, OperandKind, Stage};
use infc_ir::op::Op;
use infc_ir::scalar::Source;

/// Results per application that are tried.
const OUTPUTS: [usize; 2] = [2, 4];

/// The part of a correlation's time that has to be saved at least, for the estimate is rough.
const LEAST_GAIN: f64 = 0.15;

/// Cycles that a further byte of constants has to save in every run, for it costs memory and a read from the disk also
/// where the limit on growth would allow it; or else see [`LEAST_EXCHANGE`].
const LEAST_CYCLES_PER_BYTE: f64 = 1.25;

/// The same of the first [`FREE_BYTES`], which no process notices: a byte is read once, which takes about a cycle, and saves
/// these in each run.
const LEAST_CYCLES_PER_FREE_BYTE: f64 = 0.3;

/// The share of the time that has to be saved for every share that constants grow by, if bytes do not save enough each.
const LEAST_EXCHANGE: f64 = 0.65;

/// A way to compute a correlation.
#[derive(Clone)]
struct Way {
    outputs: usize,
    /// Cycles less than done directly.
    gain: f64,
    /// Bytes more.
    bytes: f64,
}

/// What is known of a correlation before anything is estimated.
enum Known {
    Nothing,
    /// Measuring has settled the results per application, or that there are none.
    Settled(Option<usize>),
}

/// What the whole model takes.
#[derive(Clone, Copy)]
struct Total {
    cycles: f64,
    /// Of constants.
    bytes: f64,
}

/// A kernel that can be rewritten.
struct Candidate {
    kernel: usize,
    correlation: Correlation,
    /// All that there are, whether they pay or not.
    all: Vec<Way>,
    /// Those that pay, each dearer than the one before, with falling gain per byte from one to the next.
    ways: Vec<Way>,
}

impl Candidate {
    fn question(&self, kernels: &[Lowered]) -> String {
        format!("correlation\n{}", kernels[self.kernel].kernel)
    }
}

/// The kernels with the correlations rewritten that are worth it; `None` if there are none.
pub(super) fn filter(
    grouping: &Grouping<'_>,
    placement: &Placement,
    options: &FormOptions,
    kernels: &[Lowered],
    direct: &Finished,
    choices: &mut Choices,
) -> Option<Vec<Lowered>> {
    if options.allowed < ErrorClass::Reassociating || !options.filters {
        return None;
    }
    let correlation = |lowered: &Lowered| {
        let kernel = &lowered.kernel;
        first(kernel).filter(|c| options.keeps_any_size || is_known(&kernel.stages[c.stage]))
    };
    let correlations: Vec<Option<Correlation>> = kernels.iter().map(correlation).collect();
    let typical = Typical::of(&grouping.flat.graph.symbols, correlations.iter().flatten());
    let mut candidates = Vec::new();
    for (n, correlation) in correlations.into_iter().enumerate() {
        let all = choices.are_asked();
        candidates
            .extend(correlation.and_then(|c| candidate(grouping, placement, kernels, direct, (n, c), &typical, all)));
    }
    let total = Total {
        cycles: kernels.iter().map(|lowered| typical.cycles(&lowered.kernel)).sum(),
        bytes: direct.budget.original_bytes() as f64,
    };
    let mut left = Left { total, bytes: direct.budget.left_bytes() as f64, grown: 0.0 };
    let known: Vec<Known> = candidates.iter().map(|c| settled(grouping, kernels, c, &mut left, choices)).collect();
    let open = |(candidate, known): (&'_ Candidate, &Known)| match known {
        Known::Settled(_) => Vec::new(),
        Known::Nothing => candidate.ways.clone(),
    };
    let ways: Vec<Vec<Way>> = candidates.iter().zip(&known).map(open).collect();
    let ways: Vec<&[Way]> = ways.iter().map(Vec::as_slice).collect();
    let estimated = spend(&ways, left);
    let chosen = known.into_iter().zip(estimated).map(|(known, estimated)| match known {
        Known::Settled(outputs) => outputs,
        Known::Nothing => estimated,
    });
    let chosen: Vec<Option<usize>> = chosen.collect();
    if choices.are_asked() {
        for (candidate, outputs) in candidates.iter().zip(&chosen) {
            choices.took(&candidate.question(kernels), answer_of(*outputs));
        }
    }
    let mut filtered = kernels.to_vec();
    let mut any = false;
    for (candidate, outputs) in candidates.iter().zip(chosen) {
        let lowered = &mut filtered[candidate.kernel];
        if let Some(result) = outputs.and_then(|m| winograd::filtered(&lowered.kernel, &candidate.correlation, m)) {
            lowered.kernel = result.kernel;
            lowered.filters.push(result.filter);
            lowered.space_stage = None;
            any = true;
        }
    }
    any.then_some(filtered)
}

/// What may still be spent.
#[derive(Clone, Copy)]
struct Left {
    total: Total,
    bytes: f64,
    /// What was spent.
    grown: f64,
}

impl Left {
    fn spend(&mut self, gain: f64, price: f64) {
        self.bytes -= price;
        self.grown += price;
        self.total = Total { cycles: self.total.cycles - gain, bytes: self.total.bytes + price };
    }
}

/// What measuring has settled for a correlation, if constants may grow by so much: that is spent then.
fn settled(
    grouping: &Grouping<'_>,
    kernels: &[Lowered],
    candidate: &Candidate,
    left: &mut Left,
    choices: &mut Choices,
) -> Known {
    let fitting = candidate.all.iter().filter(|way| way.bytes <= left.bytes);
    let mut ways = vec![Answer::Direct];
    ways.extend(fitting.map(|way| answer_of(Some(way.outputs))));
    let group = grouping.groups[kernels[candidate.kernel].group].as_ref();
    let origins = group.map_or_else(Vec::new, |group| choices::origins_of(grouping.flat, &group.nodes));
    let answer = choices.answer(|| candidate.question(kernels), &ways, Answer::Direct, &origins);
    let Some(answer) = answer else { return Known::Nothing };
    let way = candidate.all.iter().find(|way| answer_of(Some(way.outputs)) == answer);
    if let Some(way) = way {
        left.spend(way.gain, way.bytes);
    }
    Known::Settled(way.map(|way| way.outputs))
}

/// The answer that means so many results per application, or none.
fn answer_of(outputs: Option<usize>) -> Answer {
    match outputs.and_then(|outputs| u8::try_from(outputs).ok()) {
        Some(outputs) => Answer::Filtered(outputs),
        None => Answer::Direct,
    }
}

/// The first correlation of a kernel.
fn first(kernel: &Kernel) -> Option<Correlation> {
    kernel.stages.ids().find_map(|stage| Correlation::of(kernel, stage))
}

/// Whether it is known when compiling how much lies between the steps of minimal filtering.
fn is_known(stage: &Stage) -> bool {
    stage.axes.iter().all(|axis| axis.extent.as_const().is_some())
}

/// A kernel's correlation, if there is a way to filter it: one that pays, unless all are asked for.
fn candidate(
    grouping: &Grouping<'_>,
    placement: &Placement,
    kernels: &[Lowered],
    direct: &Finished,
    (n, correlation): (usize, Correlation),
    typical: &Typical,
    lists_all: bool,
) -> Option<Candidate> {
    let lowered = &kernels[n];
    let kernel = &lowered.kernel;
    if crate::formulate::has_empty_axis(kernel)
        || !streams_channels(placement, lowered, &correlation)
        || !writes_whole_vectors(placement, lowered, &correlation)
    {
        return None;
    }
    let filter = correlation.filter_operand;
    let value = lowered.values[filter.index()];
    let is_stored =
        matches!(grouping.flat.graph.producer(value), Some((_, node)) if matches!(node.op, Op::Constant(_)));
    if !is_stored {
        return None;
    }
    // What is stored of the filter now, if nobody else reads it.
    let readers = kernels.iter().flat_map(|k| &k.values).filter(|&&v| v == value).count();
    let stored = match &direct.planned[n].operands[filter.index()] {
        OperandSource::Constant(c) if readers == 1 => {
            c.packing.as_ref().map_or(Some(c.constant.tensor.bytes().len() as u64), |p| p.len_bytes(4))
        }
        _ => Some(0),
    }? as f64;
    let work = Work::of(kernel, &correlation, typical);
    let slowest = work.direct() * (1.0 - LEAST_GAIN);
    let mut all: Vec<Way> = Vec::new();
    for outputs in OUTPUTS {
        let taps = usize::try_from(correlation.windows[0].taps).ok();
        let Some(filtering) = taps.and_then(|taps| Filtering::new(outputs, taps)) else { continue };
        let cycles = work.filtered(outputs, &filtering);
        if cycles > slowest && !lists_all {
            continue;
        }
        let Some(filtered) = winograd::filtered(kernel, &correlation, outputs) else { continue };
        let Some(bytes) = packed_bytes(filtered.kernel, filter) else { continue };
        all.push(Way { outputs, gain: work.direct() - cycles, bytes: (bytes - stored).max(0.0) });
    }
    let mut ways: Vec<Way> = all.iter().filter(|way| work.direct() - way.gain <= slowest).cloned().collect();
    hull(&mut ways);
    (!all.is_empty()).then_some(Candidate { kernel: n, correlation, all, ways })
}

/// The bytes of the transformed filter in panels.
fn packed_bytes(mut kernel: Kernel, filter: OperandId) -> Option<f64> {
    let rows = Packing::rows(&kernel.operands[filter].shape);
    let packings = pack(&mut kernel, Packs { reorders: true, line_bytes: None }, &mut |operand, _| operand == filter);
    let packing = packings.into_iter().find(|(operand, _)| *operand == filter).map_or(rows, |(_, packing)| packing);
    Some(packing.len_bytes(4)? as f64)
}

/// Whether what lies next to each other in memory where results are written are columns, of which tiles have as many as
/// there are: rows of an image that are cut into tiles would be written element by element, and where neighbours are another
/// axis of the image, what is transformed for all columns is transformed for each.
fn writes_whole_vectors(placement: &Placement, lowered: &Lowered, correlation: &Correlation) -> bool {
    let kernel = &lowered.kernel;
    let sum = &kernel.stages[correlation.stage];
    let Some(column) = sum.value_axes().position(|(axis, _)| axis == correlation.column) else { return false };
    kernel.outputs.iter().all(|output| {
        let Some(planned) = placement.values.get(&lowered.values[output.operand.index()]) else { return false };
        let flat = planned.layout.flat(&output.index);
        let stage = &kernel.stages[output.stage];
        let is_neighbour = |axis: &VarId| flat.linear_in(*axis).is_some_and(|(step, _)| step.is_const(1));
        let Some(neighbour) = (0..stage.axes.len()).map(VarId::from_index).find(is_neighbour) else { return false };
        if output.stage == correlation.stage {
            return neighbour.index() == correlation.column;
        }
        let mut is_column = true;
        stage.for_each_load(&mut |_, load| {
            let of_sum = matches!(load.source, Source::Stage(source, _) if source == correlation.stage);
            is_column &= !of_sum || load.index[column].uses_var(neighbour);
        });
        is_column
    })
}

/// Whether channels are neighbours in memory, so that the transforms are vectors of them.
fn streams_channels(placement: &Placement, lowered: &Lowered, correlation: &Correlation) -> bool {
    let Source::Operand(operand) = correlation.input.source else { return false };
    let channel = infc_ir::entity::VarId::from_index(correlation.channel);
    let Some(axis) = correlation.input.index.iter().position(|e| e.as_var() == Some(channel)) else { return false };
    lowered.kernel.operands[operand].kind == OperandKind::Input
        && placement
            .values
            .get(&lowered.values[operand.index()])
            .is_some_and(|planned| planned.layout.strides[axis].is_const(1))
}

/// Leaves the ways from which no other gives more for less, the steps between them falling in gain per byte.
fn hull(ways: &mut Vec<Way>) {
    ways.sort_by(|a, b| a.bytes.total_cmp(&b.bytes).then(b.gain.total_cmp(&a.gain)));
    let mut kept: Vec<Way> = Vec::new();
    for way in ways.drain(..) {
        if kept.last().is_some_and(|last| last.gain >= way.gain) {
            continue;
        }
        let rate = |from: Option<&Way>, to: &Way| {
            let (gain, bytes) = from.map_or((0.0, 0.0), |w| (w.gain, w.bytes));
            (to.gain - gain) / (to.bytes - bytes).max(1.0)
        };
        while let Some(last) = kept.last()
            && rate(kept.iter().rev().nth(1), last) <= rate(Some(last), &way)
        {
            kept.pop();
        }
        kept.push(way);
    }
    *ways = kept;
}

/// Per list of ways, the results per application of the one that is taken.
fn spend(candidates: &[&[Way]], mut left: Left) -> Vec<Option<usize>> {
    let mut chosen = vec![None; candidates.len()];
    let mut taken = vec![0; candidates.len()];
    loop {
        // The best next step that fits. Of equals the first one, so that equal models are compiled equally.
        let mut best: Option<(f64, usize, f64, f64)> = None;
        for (n, ways) in candidates.iter().enumerate() {
            let Some(next) = ways.get(taken[n]) else { continue };
            let before = taken[n].checked_sub(1).map(|last| &ways[last]);
            let price = next.bytes - before.map_or(0.0, |w| w.bytes);
            let gain = next.gain - before.map_or(0.0, |w| w.gain);
            let rate = gain / price.max(1.0);
            let share = gain * left.total.bytes / (price * left.total.cycles).max(1.0);
            let is_free = left.grown + price <= FREE_BYTES as f64;
            let least = if is_free { LEAST_CYCLES_PER_FREE_BYTE } else { LEAST_CYCLES_PER_BYTE };
            let pays = rate >= least || share >= LEAST_EXCHANGE;
            if pays && price <= left.bytes && best.is_none_or(|(r, ..)| rate > r) {
                best = Some((rate, n, gain, price));
            }
        }
        let Some((_, n, gain, price)) = best else { return chosen };
        left.spend(gain, price);
        chosen[n] = Some(candidates[n][taken[n]].outputs);
        taken[n] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(outputs: usize, gain: f64, bytes: f64) -> Way {
        Way { outputs, gain, bytes }
    }

    fn left(total: Total, bytes: f64) -> Left {
        Left { total, bytes, grown: 0.0 }
    }

    fn kept(mut ways: Vec<Way>) -> Vec<usize> {
        hull(&mut ways);
        ways.iter().map(|w| w.outputs).collect()
    }

    #[test]
    fn ways_that_pay_less_per_byte_than_a_dearer_one_are_left_out() {
        assert_eq!(kept(vec![way(2, 50.0, 10.0), way(4, 70.0, 40.0)]), [2, 4]);
        assert_eq!(kept(vec![way(2, 5.0, 10.0), way(4, 70.0, 40.0)]), [4]);
        assert_eq!(kept(vec![way(2, 50.0, 10.0), way(4, 40.0, 40.0)]), [2]);
    }

    #[test]
    fn bytes_are_spent_where_they_save_most_and_not_for_next_to_nothing() {
        // 5 and then 1 cycle per byte; 2 and then a tenth. Mega of all, so that few are free.
        let mega = |outputs: usize, gain: f64, bytes: f64| way(outputs, gain * 1e6, bytes * 1e6);
        let (rich, poor) = ([mega(2, 50.0, 10.0), mega(4, 80.0, 40.0)], [mega(2, 20.0, 10.0), mega(4, 23.0, 40.0)]);
        let total = Total { cycles: 1e9, bytes: 1e9 };
        let spent = |bytes: f64| spend(&[&rich, &poor], left(total, bytes * 1e6));
        assert_eq!(spent(5.0), [None, None]);
        assert_eq!(spent(15.0), [Some(2), None]);
        assert_eq!(spent(20.0), [Some(2), Some(2)]);
        assert_eq!(spent(50.0), [Some(4), Some(2)]);
        assert_eq!(spent(1e3), [Some(4), Some(2)], "a tenth of a cycle is not worth a byte");
        // One cycle per byte is, only if that is much of the time.
        let slow = Total { cycles: 1e10, ..total };
        assert_eq!(spend(&[&rich], left(slow, 1e9)), [Some(2)]);
    }

    /// What a process does not notice is spent for less, but not for nothing.
    #[test]
    fn the_first_bytes_are_cheap() {
        let half = |bytes: f64| [way(4, 0.5 * bytes, bytes)];
        let total = Total { cycles: 1e12, bytes: 1e9 };
        let (small, large) = (half(FREE_BYTES as f64), half(FREE_BYTES as f64 + 1.0));
        assert_eq!(spend(&[&small], left(total, 1e9)), [Some(4)]);
        assert_eq!(spend(&[&large], left(total, 1e9)), [None]);
        assert_eq!(spend(&[&small, &small], left(total, 1e9)), [Some(4), None], "all together");
        assert_eq!(spend(&[&[way(4, 1e5, 1e6)]], left(total, 1e9)), [None]);
        let spent = Left { grown: 1.0, ..left(total, 1e9) };
        assert_eq!(spend(&[&small], spent), [None], "what was settled counts");
    }
}
