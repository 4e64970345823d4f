//! Launches: blocks one after the other, their threads between barriers in an order that is drawn.

use crate::SimError;
use crate::group::Products;
use crate::instruction::{Instruction, Operation};
use crate::memory::{Argument, Buffer, Tracked, buffer_address};
use crate::module::{Entry, LOCAL_START, Module, SHARED_START};
use crate::thread::{State, Thread};
use crate::types::Ty;
use crate::warp::WARP;

/// Threads of a block at most.
const MAX_THREADS: u64 = 1024;

/// How a kernel is started.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// One per parameter.
    pub arguments: &'a [Argument],
    /// Shared memory for a module that declares it as `.extern`.
    pub dynamic_shared_bytes: u64,
    /// What the order of blocks and threads and the errors of approximations are drawn from.
    pub seed: u64,
    /// Instructions that all threads together may execute.
    pub step_limit: u64,
}

/// What an execution took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions executed, counted per thread.
    pub steps: u64,
    /// Barriers, counted per block.
    pub barriers: u64,
}

/// What the threads of a block share.
pub(crate) struct Block<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) body: &'a [Instruction],
    pub(crate) register_types: &'a [Ty],
    pub(crate) number: u32,
    pub(crate) epoch: u32,
    pub(crate) threads: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) parameters: Vec<u64>,
    pub(crate) shared: Tracked,
    /// Per warp.
    pub(crate) products: Vec<Products>,
    /// Whether there are any, so that it counts who has shown what it has written.
    pub(crate) has_products: bool,
    /// Whether it may begin before the launches before it have ended, for which each thread waits.
    pub(crate) waits: bool,
    pub(crate) global: Vec<Tracked>,
    pub(crate) writable: Vec<bool>,
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) step_limit: u64,
}

/// Executes a launch; afterwards the buffers hold what the kernel has written.
///
/// # Errors
/// [`SimError::Launch`] for a launch that no GPU takes, and every fault that the crate's header lists.
pub fn run(module: &Module, launch: &Launch<'_>, buffers: &mut [Buffer]) -> Result<Stats, SimError> {
    let entry = check(module, launch, buffers)?;
    let take = |b: &mut Buffer| Tracked::new(std::mem::take(&mut b.bytes), std::mem::take(&mut b.initialised));
    let shared = (entry.shared_bytes + launch.dynamic_shared_bytes) as usize;
    let register_types = entry.registers.types();
    let mut block = Block {
        entry,
        body: &entry.body,
        register_types: &register_types,
        number: 0,
        epoch: 0,
        threads: launch.block,
        grid: launch.grid,
        parameters: launch.arguments.iter().map(|a| parameter(*a)).collect(),
        products: Vec::new(),
        has_products: entry.body.iter().any(|i| matches!(i.operation, Operation::GroupMma(_))),
        waits: entry.waits(),
        shared: Tracked::new(vec![0xff; shared], vec![false; shared]),
        writable: buffers.iter().map(|b| b.writable).collect(),
        global: buffers.iter_mut().map(take).collect(),
        seed: launch.seed,
        steps: 0,
        step_limit: launch.step_limit,
    };
    let mut order = Order(launch.seed);
    let blocks: u32 = launch.grid.iter().product();
    let mut stats = Stats::default();
    let mut result = Ok(());
    for number in order.shuffled(blocks) {
        block.number = number;
        block.epoch = 0;
        block.shared.clear();
        result = block.run(&mut order);
        stats.barriers += u64::from(block.epoch);
        if result.is_err() {
            break;
        }
    }
    stats.steps = block.steps;
    for (buffer, tracked) in buffers.iter_mut().zip(block.global) {
        (buffer.bytes, buffer.initialised) = (tracked.bytes, tracked.initialised);
    }
    result.map(|()| stats)
}

fn parameter(argument: Argument) -> u64 {
    match argument {
        Argument::Buffer(n) => buffer_address(n),
        Argument::Value(bits) => bits,
    }
}

fn check<'m>(module: &'m Module, launch: &Launch<'_>, buffers: &[Buffer]) -> Result<&'m Entry, SimError> {
    let fail = |reason: String| Err(SimError::Launch { reason });
    let Some(entry) = module.entries.iter().find(|e| e.name == launch.entry) else {
        return fail(format!("there is no entry `{}`", launch.entry));
    };
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    if threads == 0 || threads > MAX_THREADS {
        return fail(format!("a block of {threads} threads: 1 to {MAX_THREADS} may be"));
    }
    if entry.max_threads.is_some_and(|max| launch.block.iter().zip(max).any(|(&n, max)| n > max)) {
        return fail(format!("the block {:?} is larger than the entry's `.maxntid`", launch.block));
    }
    // CUDA's limits: 2³¹ − 1 blocks along x, 65535 along y and z.
    let [x, y, z] = launch.grid;
    let blocks = u64::from(x) * u64::from(y) * u64::from(z);
    if blocks == 0 || x > i32::MAX as u32 || y > 0xffff || z > 0xffff || blocks > u64::from(u32::MAX / 2) {
        return fail(format!("a grid of {:?}", launch.grid));
    }
    if launch.arguments.len() != entry.parameters.len() {
        return fail(format!("{} arguments for {} parameters", launch.arguments.len(), entry.parameters.len()));
    }
    if launch.arguments.iter().any(|a| matches!(a, Argument::Buffer(n) if *n >= buffers.len())) {
        return fail("an argument names a buffer that there is not".to_owned());
    }
    let start = if entry.dynamic_shared { 0 } else { launch.dynamic_shared_bytes };
    if start > 0 {
        return fail("the module declares no dynamic shared memory".to_owned());
    }
    if entry.shared_bytes + launch.dynamic_shared_bytes > LOCAL_START - SHARED_START {
        return fail("more shared memory than any GPU has".to_owned());
    }
    Ok(entry)
}

impl Block<'_> {
    fn run(&mut self, order: &mut Order) -> Result<(), SimError> {
        let count: u32 = self.threads.iter().product();
        let registers = self.entry.registers.len();
        self.products = vec![Products::default(); (count as usize).div_ceil(WARP)];
        let mut threads: Vec<Thread> = (0..count).map(|n| Thread::new(n, registers, self.entry.local_bytes)).collect();
        loop {
            for n in order.shuffled(count) {
                threads[n as usize].run(self)?;
            }
            if self.warps(&mut threads)? {
                continue;
            }
            if threads.iter().all(|t| t.state == State::Ended) {
                return threads.first().map_or(Ok(()), |first| self.check_products(first.site(self)));
            }
            // All that go on wait at a barrier: it must be the same one, and nobody may be missing.
            let Some(first) = threads.iter().find(|t| t.state != State::Ended) else { return Ok(()) };
            if let Some(other) = threads.iter().find(|t| t.state != first.state) {
                let state =
                    if other.state == State::Ended { "does not reach" } else { "passes by, to wait at another" };
                return Err(SimError::DivergentBarrier { site: first.site(self), other: other.number, state });
            }
            self.epoch += 1;
            threads.iter_mut().for_each(Thread::resume);
        }
    }
}

/// Draws orders (SplitMix64).
struct Order(u64);

impl Order {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for n in (1..order.len()).rev() {
            let other = (self.next() % (n as u64 + 1)) as usize;
            order.swap(n, other);
        }
        order
    }
}
