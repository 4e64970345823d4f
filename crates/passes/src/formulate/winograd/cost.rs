//! What a correlation costs, done directly and by minimal filtering.
//!
//! In cycles of a core that does one vector multiply-add per cycle; only ratios matter. The choice is made once for all
//! targets, since they share constants: so the machine is a middling one, and what gains little is left alone.

use super::algebra::Filtering;
use super::correlation::Correlation;
use crate::form::pack::lanes_per_row;
use infc_ir::entity::SymbolId;
use infc_ir::index::Dim;
use infc_ir::kernel::Kernel;
use infc_ir::symbol::{Symbol, Symbols};

/// Lanes of a vector.
const LANES: f64 = 16.0;
/// Simple operations per cycle in the transforms.
const OPERATIONS_PER_CYCLE: f64 = 1.5;
/// Bytes per cycle in which weights arrive that do not stay in a core's own caches, as far as it shows.
const WEIGHT_BYTES_PER_CYCLE: f64 = 16.0;
/// Weights up to this size stay there.
const OWN_CACHE_BYTES: f64 = 512.0 * 1024.0;
/// Points along every axis of an image, or samples of a signal, whose number only the run tells.
const TYPICAL_SIZE: i64 = 256;
/// A multiply-add of direct code, with what is lost around it; of the small products of minimal filtering.
const DIRECT: f64 = 1.04;
const PRODUCT: f64 = 1.1;

/// What symbolic extents are taken to be: images and signals have some size, and there is one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typical {
    /// Symbols in extents that a filter slides along, with the size.
    sizes: Vec<(SymbolId, i64)>,
}

impl Typical {
    /// For a model with these symbols and correlations.
    pub(crate) fn of<'c>(symbols: &Symbols, correlations: impl Iterator<Item = &'c Correlation>) -> Self {
        let mut slid: Vec<SymbolId> =
            correlations.flat_map(|c| &c.windows).flat_map(|window| window.extent.symbols()).collect();
        slid.sort_unstable();
        slid.dedup();
        let within = |id: SymbolId| {
            let Symbol { min, max, .. } = symbols[id];
            TYPICAL_SIZE.min(max.unwrap_or(TYPICAL_SIZE)).max(min)
        };
        Self { sizes: slid.into_iter().map(|id| (id, within(id))).collect() }
    }

    fn extent(&self, dim: &Dim) -> f64 {
        let size = |symbol| self.sizes.iter().find(|(id, _)| *id == symbol).map_or(1, |&(_, size)| size);
        dim.eval(&|symbol| Some(size(symbol)), &|_| None).unwrap_or(1).max(0) as f64
    }

    /// Cycles of a kernel without any rewrite.
    pub(crate) fn cycles(&self, kernel: &Kernel) -> f64 {
        self.extent(&kernel.work()) / LANES * DIRECT
    }
}

/// The sizes that costs depend on.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// Per window: results, taps.
    windows: Vec<(f64, f64)>,
    others: f64,
    channels: f64,
    columns: f64,
}

impl Work {
    pub(crate) fn of(kernel: &Kernel, correlation: &Correlation, typical: &Typical) -> Self {
        let axes = &kernel.stages[correlation.stage].axes;
        let extent = |axis: usize| typical.extent(&axes[axis].extent);
        Self {
            windows: correlation.windows.iter().map(|w| (extent(w.axis), w.taps as f64)).collect(),
            others: correlation.others.iter().map(|&axis| extent(axis)).product(),
            channels: extent(correlation.channel),
            columns: extent(correlation.column),
        }
    }

    fn weights(&self, points: f64) -> f64 {
        let bytes = points * self.channels * self.columns * 4.0;
        if bytes > OWN_CACHE_BYTES { bytes / WEIGHT_BYTES_PER_CYCLE } else { 0.0 }
    }

    /// Cycles without any rewrite.
    pub(crate) fn direct(&self) -> f64 {
        let results: f64 = self.windows.iter().map(|(extent, _)| extent).product::<f64>() * self.others;
        let taps: f64 = self.windows.iter().map(|(_, taps)| taps).product();
        let (columns, channels) = (self.columns as i64, self.channels as i64);
        let lanes = lanes_per_row(columns, (taps * self.channels) as i64, channels) as f64;
        results * lanes / LANES * DIRECT + self.weights(taps)
    }

    /// Cycles with `outputs` results per application.
    pub(crate) fn filtered(&self, outputs: usize, filtering: &Filtering) -> f64 {
        let (m, n) = (outputs as f64, filtering.points() as f64);
        let rank = i32::try_from(self.windows.len()).unwrap_or(i32::MAX);
        let tiles: f64 = self.windows.iter().map(|(extent, _)| (extent / m).ceil()).product::<f64>() * self.others;
        let points = n.powi(rank);
        let (channels, columns) = ((self.channels / LANES).ceil(), (self.columns / LANES).ceil());
        // Sums are started and stored once per point and tile.
        let products = points * tiles * (self.channels + 6.0) * columns * PRODUCT;
        // Every element is moved twice, and passes a sum of about n terms, half of it shared, per window.
        let input = tiles * channels * points * (2.0 + 0.6 * n * f64::from(rank)) / OPERATIONS_PER_CYCLE;
        let output = tiles * columns * points * (2.0 + 0.5 * n * f64::from(rank)) / OPERATIONS_PER_CYCLE;
        products + input + output + self.weights(points)
    }
}
