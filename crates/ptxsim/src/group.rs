//! Products of matrices by groups of four warps, which read their factors from shared memory while the warps go on
//! (PTX ISA 9.7.15, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! A warp has 16 of a group's 64 rows, so each is done by itself. It happens as late as it may: when it is waited for. From its start
//! until then its sums belong to it, and what it reads counts as read both times.

use crate::SimError;
use crate::error::Site;
use crate::instruction::{Reg, Space, Src};
use crate::machine::Block;
use crate::matrix::{Factor, place_of_sum};
use crate::module::SHARED_START;
use crate::thread::{Spot, Thread};
use std::collections::VecDeque;

/// Rows of a group, and of a warp.
const ROWS: usize = 64;
const WARP_ROWS: usize = 16;
/// Warps of a group.
const WARPS: usize = 4;
/// Bytes of a line, lines that a swizzle goes over, and bytes of what changes places.
const LINE_BYTES: u64 = 128;
const LINES: u64 = 8;
const PIECE_BYTES: u64 = 16;
/// Bytes of a row that one instruction takes.
const SLICE_BYTES: u64 = 32;

/// `wgmma.mma_async`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupMma {
    pub(crate) types: (Factor, Factor),
    pub(crate) columns: usize,
    pub(crate) sum: Vec<Reg>,
    /// Descriptors.
    pub(crate) factors: [Src; 2],
    /// Whether the sum is added to.
    pub(crate) adds: Src,
    /// Whether neighbours of a factor are rows, or columns, not what is summed.
    pub(crate) across: [bool; 2],
}

/// Where a factor lies: "Matrix Descriptor Format".
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    /// From a panel to the next, and from eight lines to the next eight.
    panel: u64,
    stride: u64,
    across: bool,
}

impl Place {
    fn of(descriptor: u64, across: bool) -> Result<Self, &'static str> {
        let field = |from: u32| ((descriptor >> from) & 0x3fff) << 4;
        if descriptor >> 62 != 1 {
            return Err("lines are not swizzled by 128 bytes, which is all that the simulator knows");
        }
        if descriptor >> 49 & 7 != 0 {
            return Err("its matrix does not begin where the swizzle does");
        }
        Ok(Self { start: field(0), panel: field(16), stride: field(32), across })
    }

    /// The address of an element of so many bytes, by row (or column) and place along what is summed.
    fn address(self, row: u64, k: u64, size: u64) -> u64 {
        let plain = if self.across {
            let per_line = LINE_BYTES / size;
            self.start
                + row / per_line * self.panel
                + k / LINES * self.stride
                + k % LINES * LINE_BYTES
                + row % per_line * size
        } else {
            self.start + row / LINES * self.stride + row % LINES * LINE_BYTES + k * size
        };
        plain ^ (plain / LINE_BYTES % LINES * PIECE_BYTES)
    }
}

/// A product that was started.
#[derive(Clone, Debug)]
struct Product {
    site: Site,
    types: (Factor, Factor),
    columns: usize,
    sum: Vec<Reg>,
    places: [Place; 2],
    adds: bool,
}

/// Those of a warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Products {
    open: Vec<Product>,
    groups: VecDeque<Vec<Product>>,
    /// Descriptors of all that were started, which the warps of a group have alike.
    started: Vec<[u64; 2]>,
}

impl Block<'_> {
    /// Starts a product of the warp with this number.
    pub(crate) fn start_product(
        &mut self,
        warp: &mut [Thread],
        number: usize,
        site: Site,
        mma: &GroupMma,
    ) -> Result<(), SimError> {
        let fail = |reason: &str| Err(SimError::Group { site, reason: reason.to_owned() });
        let mut common = None;
        for thread in warp.iter() {
            let found = (
                [thread.source(mma.factors[0], self)?, thread.source(mma.factors[1], self)?],
                thread.source(mma.adds, self)?,
            );
            if *common.get_or_insert(found) != found {
                return fail("lanes have different descriptors");
            }
        }
        let Some((descriptors, adds)) = common else { return Ok(()) };
        let first = number / WARPS * WARPS;
        if first + WARPS > self.products.len() {
            return fail("not all four warps exist");
        }
        let turn = self.products[number].started.len();
        for other in &self.products[first..first + WARPS] {
            if other.started.get(turn).is_some_and(|other| *other != descriptors) {
                return fail("warps of a group have different descriptors");
            }
        }
        self.products[number].started.push(descriptors);
        let mut places = [Place { start: 0, panel: 0, stride: 0, across: false }; 2];
        for (side, place) in places.iter_mut().enumerate() {
            *place = match Place::of(descriptors[side], mma.across[side]) {
                Ok(place) => place,
                Err(reason) => return fail(reason),
            };
        }
        for thread in warp.iter_mut() {
            for &reg in &mma.sum {
                thread.give_away(reg, adds != 0, self)?;
            }
        }
        let product =
            Product { site, types: mma.types, columns: mma.columns, sum: mma.sum.clone(), places, adds: adds != 0 };
        // From now on nobody may write what it reads.
        self.factors(&product, number, &warp[0])?;
        self.products[number].open.push(product);
        Ok(())
    }

    /// In the end, the warps of every group have started as many products.
    pub(crate) fn check_products(&self, site: Site) -> Result<(), SimError> {
        let alike = |group: &[Products]| group.iter().all(|warp| warp.started.len() == group[0].started.len());
        if self.products.chunks(WARPS).all(alike) {
            return Ok(());
        }
        Err(SimError::Group { site, reason: "not all four warps take part".to_owned() })
    }

    /// What a warp has started becomes a group.
    pub(crate) fn commit_products(&mut self, number: usize) {
        let products = &mut self.products[number];
        let group = std::mem::take(&mut products.open);
        products.groups.push_back(group);
    }

    /// All but the last groups of a warp happen.
    pub(crate) fn wait_for_products(
        &mut self,
        warp: &mut [Thread],
        number: usize,
        pending: usize,
    ) -> Result<(), SimError> {
        while self.products[number].groups.len() > pending {
            let group = self.products[number].groups.pop_front().unwrap_or_default();
            for product in group {
                self.multiply_in_group(warp, number, &product)?;
            }
            // Sums that later products take go on being theirs.
            let later: Vec<Reg> = {
                let products = &self.products[number];
                products.groups.iter().flatten().chain(&products.open).flat_map(|p| p.sum.iter().copied()).collect()
            };
            for thread in warp.iter_mut() {
                thread.take_back(&later);
            }
        }
        Ok(())
    }

    fn multiply_in_group(&mut self, warp: &mut [Thread], number: usize, product: &Product) -> Result<(), SimError> {
        let [left, right] = self.factors(product, number, &warp[0])?;
        let depth = product.types.0.depth();
        for (lane, thread) in warp.iter_mut().enumerate() {
            for (n, &reg) in product.sum.iter().enumerate() {
                let (row, column) = place_of_sum(lane, n % 4);
                let column = column + n / 4 * 8;
                let before = if product.adds { thread.given(reg, product.site, self)? } else { 0 };
                let products = (0..depth).map(|k| left[row * depth + k] * right[column * depth + k]);
                thread.set_given(reg, u64::from(product.types.0.add(products.sum(), before as u32)));
            }
        }
        Ok(())
    }

    /// The rows of a warp of the left factor, and all columns of the right one, as a thread reads them.
    fn factors(&mut self, product: &Product, number: usize, thread: &Thread) -> Result<[Vec<f64>; 2], SimError> {
        let first = number % WARPS * WARP_ROWS;
        debug_assert!(first + WARP_ROWS <= ROWS, "four warps are a group");
        let types = [product.types.0, product.types.1];
        let rows = [first..first + WARP_ROWS, 0..product.columns];
        let mut found = [Vec::new(), Vec::new()];
        for side in 0..2 {
            let (ty, place) = (types[side], product.places[side]);
            let size = SLICE_BYTES / ty.depth() as u64;
            for row in rows[side].clone() {
                for k in 0..ty.depth() {
                    let address = place.address(row as u64, k as u64, size);
                    let bits = self.read_as_factor(address, size, thread, product.site)?;
                    found[side].push(ty.value(bits, 0));
                }
            }
        }
        Ok(found)
    }

    fn read_as_factor(&mut self, address: u64, size: u64, thread: &Thread, site: Site) -> Result<u64, SimError> {
        // Descriptors have no bits for more.
        let window = SHARED_START & !0x3ffff;
        let spot: Spot = thread.place(Space::Shared, window + address, size, size, self)?;
        let bits = thread.read_shared(spot, size as usize, self)?;
        if !self.shared.is_shown(spot.at, size as usize) {
            return Err(SimError::Unfenced { site, place: spot.to_string() });
        }
        Ok(bits)
    }
}
