//! A GPU with what is loaded onto it and kept there, given back in the end.

use anyhow::Result;
use infc_runtime::artifact::DeviceKernel;
use infc_runtime::{Gpu, GpuAddress, GpuFunction, GpuGraph, GpuImage, GpuModule, GpuOperation};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A GPU.
#[derive(Clone, Debug)]
pub struct Device {
    gpu: Arc<dyn Gpu>,
}

/// Memory of a GPU.
#[derive(Debug)]
pub struct Buffer {
    gpu: Arc<dyn Gpu>,
    address: GpuAddress,
    len_bytes: usize,
}

/// A kernel that is loaded.
#[derive(Debug)]
pub struct Code {
    gpu: Arc<dyn Gpu>,
    module: GpuModule,
    function: GpuFunction,
    kernel: DeviceKernel,
}

/// How long something takes that is done again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Seconds of one, the median of several measurements of many.
    pub seconds: f64,
    /// The most that one of these measurements is off, over the median.
    pub spread: f64,
}

impl Device {
    /// What runs on a GPU.
    #[must_use]
    pub fn new(gpu: Arc<dyn Gpu>) -> Self {
        Self { gpu }
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.gpu
    }

    /// Memory that holds bytes; one at least is allocated.
    ///
    /// # Errors
    /// The GPU's.
    pub fn buffer(&self, bytes: &[u8]) -> Result<Buffer> {
        let address = self.gpu.allocate(bytes.len().max(1))?;
        let buffer = Buffer { gpu: Arc::clone(&self.gpu), address, len_bytes: bytes.len() };
        if !bytes.is_empty() {
            self.gpu.write(address, bytes)?;
        }
        Ok(buffer)
    }

    /// Loads the module that a kernel is in.
    ///
    /// # Errors
    /// The GPU's: it refuses the module, or there is no such kernel in it.
    pub fn load(&self, image: GpuImage<'_>, kernel: DeviceKernel) -> Result<Code> {
        let module = self.gpu.load(image)?;
        let function = self.gpu.function(module, &kernel).inspect_err(|_| self.gpu.unload(module))?;
        Ok(Code { gpu: Arc::clone(&self.gpu), module, function, kernel })
    }

    /// Starts a kernel, unless its grid is empty.
    ///
    /// # Errors
    /// The GPU's.
    pub fn launch(&self, code: &Code, grid: [u32; 3], parameters: &[u64]) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        Ok(self.gpu.start(&code.operation(grid, parameters))?)
    }

    /// How long operations take, done after each other, by the GPU's clock: as a graph of many times all of them, if it makes
    /// graphs. `least` is the time that one measurement takes, about.
    ///
    /// # Errors
    /// The GPU's.
    pub fn time(&self, operations: &[GpuOperation<'_>], least: Duration) -> Result<Times> {
        const MEASUREMENTS: usize = 5;
        let once = |start: &dyn Fn() -> Result<()>| -> Result<f64> {
            let from = self.gpu.mark()?;
            let to = start().and_then(|()| Ok(self.gpu.mark()?)).inspect_err(|_| self.gpu.unmark(from))?;
            let took = self.gpu.between(from, to);
            self.gpu.unmark(from);
            self.gpu.unmark(to);
            Ok(took?.as_secs_f64())
        };
        let one_by_one = || operations.iter().try_for_each(|operation| Ok(self.gpu.start(operation)?));
        once(&one_by_one)?;
        let first = once(&one_by_one)?.max(1e-9);
        let times = (least.as_secs_f64() / first).ceil().clamp(1.0, 500.0) as usize;
        let repeated: Vec<GpuOperation<'_>> = (0..times).flat_map(|_| operations.iter().copied()).collect();
        let graph = self.gpu.record(&repeated);
        let all = || match graph {
            Some(graph) => Ok(self.gpu.replay(graph)?),
            None => repeated.iter().try_for_each(|operation| Ok(self.gpu.start(operation)?)),
        };
        let measured: Result<Vec<f64>> = (0..=MEASUREMENTS).map(|_| once(&all)).collect();
        if let Some(graph) = graph {
            self.gpu.forget(graph);
        }
        // The first warms up.
        let mut seconds: Vec<f64> = measured?.split_off(1).into_iter().map(|all| all / times as f64).collect();
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let off = seconds.iter().map(|s| (s - median).abs()).fold(0.0, f64::max);
        Ok(Times { seconds: median, spread: if median > 0.0 { off / median } else { 0.0 } })
    }

    /// Seconds from one operation to the next, and those that the host takes to start one, of many started one by one.
    ///
    /// # Errors
    /// The GPU's.
    pub fn one_by_one(&self, operation: &GpuOperation<'_>, times: usize) -> Result<(f64, f64)> {
        self.gpu.synchronize()?;
        let from = self.gpu.mark()?;
        let begun = Instant::now();
        let started = (0..times).try_for_each(|_| self.gpu.start(operation));
        let host = begun.elapsed().as_secs_f64();
        let to = started.and_then(|()| self.gpu.mark()).inspect_err(|_| self.gpu.unmark(from))?;
        let between = self.gpu.between(from, to);
        self.gpu.unmark(from);
        self.gpu.unmark(to);
        Ok((between?.as_secs_f64() / times as f64, host / times as f64))
    }

    /// Seconds from one operation to the next of a graph of so many, each of which is changed to the other of two in front of each
    /// start, and those that the host takes to change one.
    ///
    /// `None` if the GPU makes no graphs, or changes none.
    ///
    /// # Errors
    /// The GPU's.
    pub fn changed(&self, operations: [GpuOperation<'_>; 2], times: usize) -> Result<Option<(f64, f64)>> {
        let Some(graph) = self.gpu.record(&vec![operations[0]; times]) else { return Ok(None) };
        let measured = self.changing(graph, operations, times);
        self.gpu.synchronize()?;
        self.gpu.forget(graph);
        measured
    }

    fn changing(&self, graph: GpuGraph, operations: [GpuOperation<'_>; 2], times: usize) -> Result<Option<(f64, f64)>> {
        const STARTS: usize = 20;
        self.gpu.replay(graph)?;
        self.gpu.synchronize()?;
        let (begun, mut host) = (Instant::now(), Duration::ZERO);
        for start in 0..STARTS {
            let asked = Instant::now();
            let is_changed = self.gpu.change(graph, &mut (0..times).map(|n| (n, operations[(start + 1) % 2])));
            if !is_changed {
                return Ok(None);
            }
            host += asked.elapsed();
            self.gpu.replay(graph)?;
        }
        self.gpu.synchronize()?;
        let each = |time: Duration| time.as_secs_f64() / (STARTS * times) as f64;
        Ok(Some((each(begun.elapsed()), each(host))))
    }
}

impl Buffer {
    /// Where it is.
    #[must_use]
    pub fn address(&self) -> GpuAddress {
        self.address
    }

    /// What it holds.
    ///
    /// # Errors
    /// The GPU's, also of launches before.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len_bytes];
        if !bytes.is_empty() {
            self.gpu.read(self.address, &mut bytes)?;
        }
        Ok(bytes)
    }
}

impl Code {
    /// A launch.
    #[must_use]
    pub fn operation<'a>(&'a self, grid: [u32; 3], parameters: &'a [u64]) -> GpuOperation<'a> {
        GpuOperation::Launch { function: self.function, kernel: &self.kernel, grid, parameters }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.gpu.synchronize();
        self.gpu.free(self.address);
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let _ = self.gpu.synchronize();
        self.gpu.unload(self.module);
    }
}
