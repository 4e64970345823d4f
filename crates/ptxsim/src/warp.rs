//! Operations of a whole warp: all lanes wait until all are there, then they happen at once.

use crate::SimError;
use crate::error::Site;
use crate::instruction::{Address, Operation, Reg, Shuffle, Space, Src};
use crate::machine::Block;
use crate::matrix::{COLUMNS, Factor, ROWS, place_of_a, place_of_b, place_of_sum};
use crate::thread::{State, Thread};

/// Threads of a warp.
pub(crate) const WARP: usize = 32;

/// Bytes of a row of the 8×8 matrices of halves that `ldmatrix` loads.
const MATRIX_ROW_BYTES: u64 = 16;

impl Block<'_> {
    /// Does the operations of whole warps that wait to be done; false if none does.
    pub(crate) fn warps(&mut self, threads: &mut [Thread]) -> Result<bool, SimError> {
        let body = self.body;
        let mut any = false;
        for (number, warp) in threads.chunks_mut(WARP).enumerate() {
            let waiting = warp.iter().find_map(|t| match t.state {
                State::AtWarp(at) => Some((t.site(self), at)),
                _ => None,
            });
            let Some((site, at)) = waiting else { continue };
            match &body[at].operation {
                Operation::Shuffle { mode, dst, valid, src, lane, clamp, members } => {
                    let leader = warp.iter().position(|t| t.state == State::AtWarp(at)).expect("one was found");
                    let members = warp[leader].source(*members, self)?;
                    all_there(warp, at, site, members)?;
                    self.shuffle(warp, site, members, *mode, (*dst, *valid), [*src, *lane, *clamp])?;
                }
                Operation::Mma { a_type, b_type, sum, a, b, c } => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    self.multiply(warp, (*a_type, a), (*b_type, b), *c, *sum)?;
                }
                Operation::LoadMatrix { dsts, from, transposed } => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    self.load_matrix(warp, dsts, *from, *transposed)?;
                }
                Operation::GroupMma(mma) => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    self.start_product(warp, number, site, mma)?;
                }
                Operation::GroupFence => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    warp.iter_mut().for_each(Thread::fence_registers);
                }
                Operation::GroupCommit => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    self.commit_products(number);
                }
                Operation::GroupWait { pending } => {
                    all_there(warp, at, site, u64::from(u32::MAX))?;
                    self.wait_for_products(warp, number, *pending)?;
                }
                _ => unreachable!("threads wait at operations of warps"),
            }
            warp.iter_mut().filter(|t| t.state == State::AtWarp(at)).for_each(Thread::resume);
            any = true;
        }
        Ok(any)
    }

    fn shuffle(
        &mut self,
        warp: &mut [Thread],
        site: Site,
        members: u64,
        mode: Shuffle,
        (dst, valid): (Reg, Option<Reg>),
        [src, lane, clamp]: [Src; 3],
    ) -> Result<(), SimError> {
        let is_member = |lane: usize| members >> lane & 1 == 1;
        let mut results = Vec::with_capacity(WARP);
        for (n, thread) in warp.iter().enumerate().filter(|(n, _)| is_member(*n)) {
            let (by, c) = (thread.source(lane, self)? & 0x1f, thread.source(clamp, self)?);
            let (from, ok) = shuffle_source(mode, n as u64, by, c & 0x1f, c >> 8 & 0x1f);
            if !is_member(from as usize) {
                return Err(SimError::DivergentWarp { site, lane: from as u32 });
            }
            results.push((n, warp[from as usize].source(src, self)?, ok));
        }
        for (n, bits, ok) in results {
            warp[n].set(dst, bits);
            if let Some(valid) = valid {
                warp[n].set(valid, u64::from(ok));
            }
        }
        Ok(())
    }

    /// `D = A·B + C` of a warp (PTX ISA 9.7.14.5): every lane has its part of all four.
    fn multiply(
        &mut self,
        warp: &mut [Thread],
        (a_type, a): (Factor, &[Src]),
        (b_type, b): (Factor, &[Src]),
        c: [Src; 4],
        sum: [Reg; 4],
    ) -> Result<(), SimError> {
        let depth = a_type.depth();
        let mut left = vec![0.0; ROWS * depth];
        let mut right = vec![0.0; depth * COLUMNS];
        let mut sums = vec![0u32; ROWS * COLUMNS];
        for (lane, thread) in warp.iter().enumerate() {
            let per_register = a_type.per_register();
            for n in 0..a.len() * per_register {
                let (row, k) = place_of_a(a_type, lane, n);
                left[row * depth + k] = a_type.value(thread.source(a[n / per_register], self)?, n % per_register);
            }
            for n in 0..b.len() * per_register {
                let (k, column) = place_of_b(b_type, lane, n);
                right[k * COLUMNS + column] = b_type.value(thread.source(b[n / per_register], self)?, n % per_register);
            }
            for (n, src) in c.into_iter().enumerate() {
                let (row, column) = place_of_sum(lane, n);
                sums[row * COLUMNS + column] = thread.source(src, self)? as u32;
            }
        }
        for (lane, thread) in warp.iter_mut().enumerate() {
            for (n, &dst) in sum.iter().enumerate() {
                let (row, column) = place_of_sum(lane, n);
                let products = (0..depth).map(|k| left[row * depth + k] * right[k * COLUMNS + column]);
                let bits = a_type.add(products.sum(), sums[row * COLUMNS + column]);
                thread.set(dst, u64::from(bits));
            }
        }
        Ok(())
    }

    /// `ldmatrix` (PTX ISA 9.7.14.5.15): lanes 8·i to 8·i + 7 say where the rows of matrix `i` lie; lane `l` gets the
    /// `l mod 4`-th pair of row `l div 4` of each, or of each column if they are transposed.
    fn load_matrix(
        &mut self,
        warp: &mut [Thread],
        dsts: &[Reg],
        from: Address,
        transposed: bool,
    ) -> Result<(), SimError> {
        let mut rows = Vec::with_capacity(8 * dsts.len());
        for thread in &warp[..8 * dsts.len()] {
            let address = thread.address(from, self)?;
            rows.push(thread.place(Space::Shared, address, MATRIX_ROW_BYTES, MATRIX_ROW_BYTES, self)?);
        }
        for (lane, thread) in warp.iter_mut().enumerate() {
            for (matrix, dst) in dsts.iter().enumerate() {
                let mut bits = 0;
                for half in 0..2 {
                    let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    let mut spot = rows[8 * matrix + row];
                    spot.at += 2 * column;
                    bits |= thread.read_shared(spot, 2, self)? << (16 * half);
                }
                thread.set(*dst, bits);
            }
        }
        Ok(())
    }
}

/// Fails unless exactly the lanes of a mask wait at an instruction.
fn all_there(warp: &[Thread], at: usize, site: Site, members: u64) -> Result<(), SimError> {
    for lane in 0..WARP {
        let there = warp.get(lane).is_some_and(|t| t.state == State::AtWarp(at));
        if there != (members >> lane & 1 == 1) {
            return Err(SimError::DivergentWarp { site, lane: lane as u32 });
        }
    }
    Ok(())
}

/// The lane that `shfl.sync` reads, and whether it is in range (PTX ISA 9.7.9.6).
fn shuffle_source(mode: Shuffle, lane: u64, by: u64, clamp: u64, segment: u64) -> (u64, bool) {
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (from, ok) = match mode {
        Shuffle::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= max),
        Shuffle::Down => (lane + by, lane + by <= max),
        Shuffle::Butterfly => (lane ^ by, lane ^ by <= max),
        Shuffle::Index => {
            let from = min | (by & !segment);
            (from, from <= max)
        }
    };
    if ok { (from, true) } else { (lane, false) }
}
