//! What a turn of a tile's loop reads, and the registers that keep it.

use super::access::{Access, Step};
use super::lines::{self, Lines};
use super::machine::Machine;
use super::regroup;
use super::tile::{Tile, View};
use super::window::{self, Window, window};
use infc_ir::kernel::{AxisKind, Reducer};
use infc_ir::scalar::BinaryOp;
use infc_tensor::DTypeClass;

/// Loads that one lane of a gather or scatter is worth: processors with mitigations are slow at them.
pub(super) const GATHER_LANE: f64 = 3.0;

/// Vector arithmetic instructions that convert a vector of halves as it is loaded.
const WIDENED: f64 = 1.0;

/// The same for a half that all lanes get: one more moves it, and one spreads it.
const WIDENED_BROADCAST: f64 = 3.0;

/// Ways of a cache set that rows of a tile may take; the others are for what streams by.
const CACHE_WAYS_FOR_ROWS: i64 = 6;

/// Rows whose addresses do not differ by constants: each takes a register, of which there are 15 for all purposes.
const ADDRESS_ROWS: i64 = 8;

/// A tile of certain extents: a full one, or a remainder.
pub(super) struct SizedTile<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) machine: &'a Machine,
    pub(super) tile: &'a Tile,
    pub(super) vector_axis: usize,
    /// Lanes are summed.
    pub(super) reduces: bool,
    /// Per row axis of the tile, its points.
    pub(super) sizes: &'a [i64],
    /// Vectors side by side.
    pub(super) vectors: f64,
    /// Points of all row axes together.
    pub(super) rows: f64,
    /// Registers for accumulators, and for what they are added to.
    pub(super) sums: f64,
    /// Registers for looking at operands.
    pub(super) watched: f64,
}

impl<'a> SizedTile<'a> {
    /// A tile of so many vectors, and points along each of its row axes.
    pub(super) fn new(view: &'a View<'a>, machine: &'a Machine, tile: &'a Tile, sizes: &'a [i64]) -> Self {
        let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
        let (vectors, sizes) = (sizes[0] as f64, &sizes[1..]);
        let rows: f64 = sizes.iter().map(|&n| n as f64).product();
        let components = view.stage.results.len() as f64;
        Self {
            view,
            machine,
            tile,
            vector_axis,
            reduces: view.stage.axes[vector_axis].kind == AxisKind::Reduce,
            sizes,
            vectors,
            rows,
            sums: vectors * rows * (components + view.totals as f64),
            watched: watched(view, machine),
        }
    }

    /// The row axes of the tile with their points.
    pub(super) fn row_axes(&self) -> impl Iterator<Item = (usize, i64)> {
        self.tile.rows.iter().zip(self.sizes).map(|(&(axis, _), &size)| (axis, size))
    }

    fn size_of(&self, axis: usize) -> i64 {
        self.row_axes().find(|&(a, _)| a == axis).map_or(1, |(_, size)| size)
    }

    /// The window that an access slides over the tile's rows.
    fn sliding(&self, access: &Access) -> Option<Window> {
        self.tile.slides.and_then(|taps| window(self.view, access, &self.tile.rows, taps))
    }

    /// Vectors of a window.
    fn elements(&self, access: &Access, window: Window) -> f64 {
        let moves = self.row_axes().filter(|&(axis, _)| access.steps[axis] != Step::Zero);
        let rows: f64 = moves.map(|(_, size)| size as f64).product();
        let size = self.size_of(window.row_axis);
        self.vectors * rows / size as f64 * window.elements(size) as f64
    }
}

/// Extrema of floats keep NaN: an operand waits for the next one to be looked at, and what was seen is remembered. Both the
/// comparison's result and what is remembered are vectors where masks have no registers.
fn watched(view: &View<'_>, machine: &Machine) -> f64 {
    let extremum = |op| matches!(op, BinaryOp::Min | BinaryOp::Max);
    let floats = || view.stage.dtypes().iter().any(|dtype| dtype.class() == DTypeClass::Float);
    let reducer = view.stage.reducer.as_ref().and_then(Reducer::as_binary);
    match reducer.is_some_and(extremum) && floats() {
        true if machine.mask_registers => 2.0,
        true => 4.0,
        false => 0.0,
    }
}

/// How the windows of a tile stand in registers: either all elements stay there; or what is read beside them at each tap, while
/// they pass by one after the other, those of one vector after those of another.
pub(super) struct Windows {
    pub(super) pass_by: bool,
    /// Vectors of what is read beside them that are needed at once.
    at_once: f64,
    /// Registers for their elements.
    free: f64,
    /// Vectors that are read beside them at each tap.
    beside: f64,
    /// The part of these that stays; the rest is read again for every row.
    beside_kept: f64,
}

impl Windows {
    fn of(tile: &SizedTile<'_>) -> Self {
        let beside = |taps| window::read_beside(tile.view, tile.vector_axis, taps, &tile.tile.rows);
        let beside = tile.tile.slides.map_or(0.0, beside);
        // Beside accumulators and a row of weights.
        let free_beside =
            |weights: f64| f64::from(tile.machine.vector_registers) - tile.sums - weights - 2.0 - tile.watched;
        let most = |found: f64, access: &Access| {
            tile.sliding(access).map_or(found, |window| tile.elements(access, window).max(found))
        };
        let widest = tile.view.accesses.iter().fold(0.0, most);
        let pass_by = widest > free_beside(tile.vectors).max(1.0 + beside);
        let at_once = if pass_by { 1.0 } else { tile.vectors };
        let free = free_beside(at_once);
        Self { pass_by, at_once, free, beside, beside_kept: (free / (1.0 + beside)).clamp(0.0, 1.0) }
    }
}

/// What is read in a turn of a tile's loop, per point of the reduction that is not along lanes.
pub(super) struct Traffic {
    pub(super) windows: Windows,
    /// Loads.
    pub(super) loads: f64,
    /// Registers for what is read.
    pub(super) held: f64,
    /// Bytes from beyond the first cache.
    pub(super) streamed: f64,
    /// Bytes of all that is streamed, in all turns.
    pub(super) streamed_total: f64,
    /// Cache lines that loads wait for.
    pub(super) lines: Lines,
    /// Lanes of gathers, in loads.
    pub(super) gathers: f64,
    /// Instructions that move lanes.
    pub(super) moved: f64,
    /// Such instructions that nothing waits for.
    pub(super) others: f64,
    /// Loads that a single multiply-add each is waiting for.
    pub(super) own: f64,
    /// Instructions that convert what is loaded.
    pub(super) widened: f64,
    /// Accesses that are vectors.
    vector_accesses: usize,
    /// The loads of the one that has fewest.
    fewest_loads: f64,
}

impl Traffic {
    /// `None` if there are more addresses than registers for them, or gathers that pass by.
    pub(super) fn of(tile: &SizedTile<'_>) -> Option<Self> {
        let mut traffic = Self {
            windows: Windows::of(tile),
            loads: 0.0,
            held: 0.0,
            streamed: 0.0,
            streamed_total: 0.0,
            lines: Lines::default(),
            gathers: 0.0,
            moved: 0.0,
            others: 0.0,
            own: 0.0,
            widened: 0.0,
            vector_accesses: 0,
            fewest_loads: f64::INFINITY,
        };
        for access in tile.view.accesses {
            let irregular = tile.row_axes().filter(|&(axis, _)| access.irregular[axis]);
            if irregular.map(|(_, size)| size).product::<i64>() > ADDRESS_ROWS {
                return None;
            }
            let mut rows = 1.0;
            for (axis, size) in tile.row_axes() {
                if access.steps[axis] != Step::Zero {
                    // More rows than a cache set has ways evict each other before their lines are used up.
                    let evicted = size > CACHE_WAYS_FOR_ROWS * access.cache_sets[axis];
                    rows *= size as f64 * if evicted { 3.0 } else { 1.0 };
                }
            }
            match access.steps[tile.vector_axis] {
                Step::Zero => traffic.broadcast(access, rows),
                Step::One => traffic.vectors(tile, access, rows),
                Step::Far => traffic.gathered(tile, access, rows)?,
            }
        }
        if tile.reduces {
            // What has one use is an operand of the arithmetic. Of two that are both vectors, the fewer stay until all
            // accumulators have had them.
            traffic.held = if traffic.vector_accesses > 1 { traffic.fewest_loads } else { 0.0 };
        }
        Some(traffic)
    }

    /// How often what stays beside windows that pass by is read, as far as it finds no registers.
    fn again(&self, tile: &SizedTile<'_>, rows: f64) -> f64 {
        let Windows { pass_by, beside_kept, .. } = self.windows;
        if pass_by && rows == 1.0 { beside_kept + (1.0 - beside_kept) * tile.rows } else { 1.0 }
    }

    /// Elements that all lanes get. Out of windows they cost twice their number, tested or not: so it was measured.
    fn broadcast(&mut self, access: &Access, rows: f64) {
        self.loads += rows * if access.guards.any { 2.0 } else { 1.0 };
        self.widened += rows * if access.widened { WIDENED_BROADCAST } else { 0.0 };
    }

    /// Vectors as they lie in memory.
    fn vectors(&mut self, tile: &SizedTile<'_>, access: &Access, rows: f64) {
        let (view, lanes, bytes) = (tile.view, tile.tile.lanes, access.elem_bytes as f64);
        let size_of = |axis| tile.size_of(axis);
        let mut each = if access.guards.tested { 2.0 } else { 1.0 };
        if rows > 1.0 {
            each *= 1.0 + access.crossing(tile.vector_axis, lanes);
            let lines = lines::of_rows(view, tile.machine, access, tile.tile, &size_of);
            self.lines = self.lines.and(lines);
        }
        // Rows that the first cache does not hold.
        let spills = |vectors: f64| vectors * summed_points(view, access) * bytes > tile.machine.l1_bytes as f64;
        let found = rows * tile.vectors;
        if let Some(window) = tile.sliding(access) {
            let elements = tile.elements(access, window);
            // What slides is read once for all taps.
            let once = elements / window.taps as f64;
            self.widened += once * if access.widened { WIDENED } else { 0.0 };
            if tile.reduces && spills(once) {
                self.streamed += once * lanes as f64 * bytes;
            }
            if self.windows.pass_by {
                self.loads += once * each;
                self.held += (1.0 + self.windows.beside) * self.windows.beside_kept;
            } else {
                // What finds no register is read again.
                let kept = (self.windows.free / elements).clamp(0.0, 1.0);
                self.loads += (found + (once - found) * kept) * each;
                self.held += elements * kept;
            }
            return;
        }
        let again = self.again(tile, rows);
        self.loads += found * each * again;
        self.widened += found * again * if access.widened { WIDENED } else { 0.0 };
        self.vector_accesses += 1;
        self.fewest_loads = self.fewest_loads.min(found);
        // Where lanes sum, rows and columns share their loads.
        let is_own = rows > 1.0 && (!tile.reduces || rows >= tile.rows);
        self.own += if is_own { found } else { 0.0 };
        if tile.reduces && rows > 1.0 && spills(rows) {
            self.streamed += found * lanes as f64 * bytes;
        }
        if rows == 1.0 {
            self.held += self.windows.at_once;
            let of_turn = tile.vectors * lanes as f64 * bytes * view.points_at_once();
            self.streamed += lines::streamed(view, access, tile.tile, of_turn, &size_of);
            let moving = (0..view.extents.len()).filter(|&axis| access.steps[axis] != Step::Zero);
            self.streamed_total += bytes * moving.map(|axis| view.extents[axis] as f64).product::<f64>();
        }
    }

    /// Lanes that lie apart.
    fn gathered(&mut self, tile: &SizedTile<'_>, access: &Access, rows: f64) -> Option<()> {
        let found = rows * tile.vectors;
        match regroup::gather(tile.machine, tile.view, access, tile.tile) {
            // What slides is put together once for all taps, long before the last of them wants it.
            Some(gather) if let Some(window) = tile.sliding(access) => {
                let elements = tile.elements(access, window);
                // Only whole loads pass by.
                if self.windows.pass_by {
                    return None;
                }
                self.others += elements / window.taps as f64 * gather.instructions;
                self.held += elements + regroup::BESIDE_WINDOW;
            }
            Some(gather) => {
                self.moved += found * gather.instructions * self.again(tile, rows);
                // Vectors with several points come one after the other.
                self.held += if gather.together > 1 { gather.together as f64 } else { self.windows.at_once };
                // Where elements pass by, the weights of one tap are put together while those of others wait.
                self.held += if self.windows.pass_by { 0.0 } else { regroup::ON_THE_WAY };
            }
            None => self.gathers += found * tile.tile.lanes as f64 * GATHER_LANE,
        }
        Some(())
    }
}

/// Points of the reduction axes at which an access reads different elements.
fn summed_points(view: &View<'_>, access: &Access) -> f64 {
    let moving = view.stage.reduce_axes().filter(|&(axis, _)| access.steps[axis] != Step::Zero);
    moving.map(|(axis, _)| view.extents[axis] as f64).product()
}
