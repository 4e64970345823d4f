//! How fast single kernels are, by the GPU's clock; the first one, which copies, tells what memory allows.
//!
//! Weights lie in panels of a line of memory, and bytes one column after the other, as formation packs them. Many launches are one graph, so that none waits for the host.

use crate::device::{Device, Times};
use crate::kernels::Compiled;
use anyhow::{Context, Result};
use infc_codegen_ptx::PtxTarget;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::GpuMachine;
use infc_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A kernel to be timed.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is called in the table.
    pub name: String,
    /// For a library that does the same.
    pub same: Same,
    text: String,
    /// Multiply-adds, and bytes that must be read and written.
    macs: u64,
    bytes: u64,
}

/// What a kernel computes, as far as `library.py` has to know.
#[derive(Clone, Debug, Serialize)]
pub struct Same {
    /// The operation.
    pub op: &'static str,
    /// Of its operands; `tf32` are f32 that may be rounded.
    pub dtype: &'static str,
    /// Rows, columns and summed points of a product; heads, rows, keys and columns of attention; size and channels of a convolution; extents of what is elementwise.
    pub dims: Vec<u64>,
}

/// How fast it was.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Speed {
    /// The case.
    pub name: String,
    /// Microseconds of a launch, the median.
    pub us: f64,
    /// The most that a measurement is off, over the median.
    pub spread: f64,
    /// Of multiply-adds, which are two operations.
    pub tflops: f64,
    /// Of bytes that must be read and written.
    pub gb_per_s: f64,
    /// Microseconds that a library takes, if one was asked.
    pub library_us: Option<f64>,
}

/// What starting kernels costs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Launches {
    /// Microseconds between two kernels of a graph that do next to nothing, their own time included.
    pub graph_us: f64,
    /// The same of kernels that are started one by one.
    pub single_us: f64,
    /// Microseconds that the host takes to start one.
    pub host_us: f64,
    /// Microseconds that the host takes to change one of a graph; `None` where the driver changes none.
    pub change_us: Option<f64>,
    /// From kernel to kernel of a graph, all of which are changed in front of each start.
    pub changed_us: Option<f64>,
}

/// Bytes of a row of a panel of weights.
const LINE_BYTES: u64 = 128;

fn product(name: &str, dtype: &'static str, [m, n, k]: [u64; 3]) -> Case {
    let (sum, wide, bytes) = match dtype {
        "i8" => ("i32", "i32", 1),
        "f32" => ("f32", "", 4),
        "tf32" => ("f32", "tf32", 4),
        _ => ("f32", "f32", 2),
    };
    let stored = if dtype == "tf32" { "f32" } else { dtype };
    let cast = |load: String| if wide.is_empty() { load } else { format!("{wide}({load})") };
    let columns = LINE_BYTES / bytes;
    let (place, shape) = if dtype == "i8" {
        ("n, k".to_owned(), format!("{n}, {k}"))
    } else {
        (format!("div(n, {columns}), k, mod(n, {columns})"), format!("{}, {k}, {columns}", n.div_ceil(columns)))
    };
    let (a, b) = (cast("a[m, k]".to_owned()), cast(format!("w[{place}]")));
    let result = if dtype == "i8" { "i32" } else { stored };
    let written = if dtype == "i8" || stored == "f32" { "s[m, n]".to_owned() } else { format!("{dtype}(s[m, n])") };
    let result_bytes = if dtype == "i8" { 4 } else { bytes };
    Case {
        name: format!("{name} {m}×{n}×{k} {dtype}"),
        same: Same { op: "product", dtype, dims: vec![m, n, k] },
        text: format!(
            "kernel @product(a: {stored}[{m}, {k}], const w: {stored}[{shape}]) -> (y: {result}[{m}, {n}]) {{
  stage s[m: {m}, n: {n}, reduce k: {k}]: {sum} = fold sum {a} * {b}
  stage o[m, n] = {written}
  output y[m, n] = o[m, n]
}}
"
        ),
        macs: m * n * k,
        bytes: (m * k + k * n) * bytes + m * n * result_bytes,
    }
}

/// A 3×3 convolution of an image with a border of zeros, as a model's are.
fn convolution(dtype: &'static str, [size, c, n]: [u64; 3]) -> Case {
    let (outer, columns) = (size + 2, LINE_BYTES / 2);
    Case {
        name: format!("3×3 {size}²×{c}→{n} {dtype}"),
        same: Same { op: "convolution", dtype, dims: vec![size, c, n] },
        text: format!(
            "kernel @convolution(a: {dtype}[{outer}, {outer}, {c}], const w: {dtype}[{}, 3, 3, {c}, {columns}]) -> (y: {dtype}[{size}, {size}, {n}]) {{
  stage s[p: {size}, q: {size}, n: {n}, reduce r: 3, reduce t: 3, reduce c: {c}]: f32 =
    fold sum f32(a[p + r, q + t, c]) * f32(w[div(n, {columns}), r, t, c, mod(n, {columns})])
  stage o[p, q, n] = {dtype}(max(s[p, q, n], 0))
  output y[p, q, n] = o[p, q, n]
}}
",
            n.div_ceil(columns)
        ),
        macs: size * size * n * c * 9,
        bytes: 2 * (outer * outer * c + 9 * c * n + size * size * n),
    }
}

/// Attention of some heads without a mask, keys and values as projections leave them.
fn attention(dtype: &'static str, [heads, rows, keys, columns]: [u64; 4]) -> Case {
    let all = heads * columns;
    let is_half = dtype == "f16";
    let (stored, bytes) = if is_half { ("f16", 2) } else { ("f32", 4) };
    // Of halves, exponentials are rounded to such.
    let rounded = |x: &str| if is_half { format!("f32(f16({x}))") } else { x.to_owned() };
    let number = |x: String| if is_half { format!("f32({x})") } else { x };
    let q = number(format!("q[m, {columns}*c + k]"));
    let k = number(format!("k[l, {columns}*c + k]"));
    let v = number(format!("v[l, {columns}*c + e]"));
    let p = rounded("exp(s[c, m, l] * 0.125 - most[c, m])");
    let o = if is_half { "f16(a[m, c, e] / z[c, m])" } else { "a[m, c, e] / z[c, m]" };
    Case {
        name: format!("attention {heads}×{rows}×{keys}×{columns} {dtype}"),
        same: Same { op: "attention", dtype, dims: vec![heads, rows, keys, columns] },
        text: format!(
            "kernel @attention(q: {stored}[{rows}, {all}], k: {stored}[{keys}, {all}], v: {stored}[{keys}, {all}]) -> (y: {stored}[{rows}, {all}]) {{
  stage s[c: {heads}, m: {rows}, l: {keys}, reduce k: {columns}] = fold sum {q} * {k}
  stage most[c, m, reduce l: {keys}] = fold max s[c, m, l] * 0.125
  stage p[c, m, l] = {p}
  stage z[c, m, reduce l] = fold sum p[c, m, l]
  stage a[m, c, e: {columns}, reduce l: {keys}] = fold sum p[c, m, l] * {v}
  stage o[m, c, e] = {o}
  output y[m, {columns}*c + e] = o[m, c, e]
}}
"
        ),
        macs: 2 * heads * rows * keys * columns,
        bytes: 2 * bytes * all * (rows + keys),
    }
}

fn copy(elements: u64) -> Case {
    Case {
        name: format!("copy {} MB", elements >> 18),
        same: Same { op: "copy", dtype: "f32", dims: vec![elements / 1024, 1024] },
        text: format!(
            "kernel @copy(x: f32[{0}, 1024]) -> (y: f32[{0}, 1024]) {{
  stage o[m: {0}, n: 1024] = -x[m, n]
  output y[m, n] = o[m, n]
}}
",
            elements / 1024
        ),
        macs: 0,
        bytes: 8 * elements,
    }
}

fn softmax(rows: u64, columns: u64) -> Case {
    Case {
        name: format!("softmax {rows}×{columns} f32"),
        same: Same { op: "softmax", dtype: "f32", dims: vec![rows, columns] },
        text: format!(
            "kernel @softmax(x: f32[{rows}, {columns}]) -> (y: f32[{rows}, {columns}]) {{
  stage m[n: {rows}, reduce c: {columns}] = fold max x[n, c]
  stage s[n, reduce c: {columns}] = fold sum exp(x[n, c] - m[n])
  stage o[n, c: {columns}] = exp(x[n, c] - m[n]) / s[n]
  output y[n, c] = o[n, c]
}}
"
        ),
        macs: 0,
        bytes: 8 * rows * columns,
    }
}

fn depthwise(size: u64, c: u64) -> Case {
    let outer = size + 2;
    Case {
        name: format!("depthwise 3×3 {size}²×{c} f32"),
        same: Same { op: "depthwise", dtype: "f32", dims: vec![size, c] },
        text: format!(
            "kernel @depthwise(a: f32[{outer}, {outer}, {c}], const w: f32[3, 3, {c}]) -> (y: f32[{size}, {size}, {c}]) {{
  stage s[p: {size}, q: {size}, c: {c}, reduce r: 3, reduce t: 3] = fold sum a[p + r, q + t, c] * w[r, t, c]
  stage o[p, q, c] = max(s[p, q, c], 0)
  output y[p, q, c] = o[p, q, c]
}}
"
        ),
        macs: size * size * c * 9,
        bytes: 4 * (outer * outer * c + 9 * c + size * size * c),
    }
}

/// What is timed; the first is what memory is measured by.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        copy(1 << 27),
        product("product", "f16", [4096, 4096, 4096]),
        product("product", "bf16", [4096, 4096, 4096]),
        product("product", "i8", [4096, 4096, 4096]),
        product("product", "f32", [2048, 2048, 2048]),
        product("product", "tf32", [2048, 2048, 2048]),
        product("product", "f16", [128, 768, 768]),
        product("product", "f16", [128, 3072, 768]),
        product("product", "f16", [128, 768, 3072]),
        product("one row", "f16", [1, 8192, 8192]),
        product("one row", "f32", [1, 3072, 768]),
        convolution("f16", [56, 64, 64]),
        convolution("f16", [28, 128, 128]),
        convolution("f16", [14, 256, 256]),
        convolution("f16", [7, 512, 512]),
        depthwise(112, 96),
        attention("tf32", [12, 128, 128, 64]),
        attention("tf32", [12, 2048, 2048, 64]),
        attention("f32", [12, 512, 512, 64]),
        attention("f16", [12, 128, 128, 64]),
        attention("f16", [12, 197, 197, 64]),
        attention("f16", [12, 2048, 2048, 64]),
        softmax(4096, 1024),
        softmax(12 * 128, 128),
    ]
}

/// The same of a size that a simulator has done in seconds.
#[must_use]
pub fn small_cases() -> Vec<Case> {
    vec![
        copy(1 << 12),
        product("product", "f16", [64, 48, 64]),
        product("product", "bf16", [32, 32, 32]),
        product("product", "i8", [32, 32, 64]),
        product("product", "f32", [32, 32, 32]),
        product("product", "tf32", [32, 32, 32]),
        product("one row", "f16", [1, 64, 64]),
        convolution("f16", [8, 16, 16]),
        depthwise(6, 8),
        attention("tf32", [2, 16, 64, 16]),
        attention("f32", [2, 16, 64, 16]),
        attention("f16", [2, 16, 64, 16]),
        softmax(8, 64),
    ]
}

impl Case {
    /// The kernel.
    ///
    /// # Errors
    /// Its text is none.
    pub fn kernel(&self) -> Result<Kernel> {
        self.text.parse().map_err(|e| anyhow::anyhow!("{e}\n{}", self.text))
    }

    /// What its schedule is chosen for.
    #[must_use]
    pub fn machine(&self, target: PtxTarget) -> GpuMachine {
        let rounds_to_tf32 = self.same.dtype == "tf32";
        GpuMachine { rounds_to_tf32, ..GpuMachine::for_target(target.capability(), target.multiplies_in_groups()) }
    }

    /// Times it.
    ///
    /// # Errors
    /// It cannot be compiled, or the GPU's.
    pub fn time(&self, device: &Device, target: PtxTarget, least: Duration) -> Result<Speed> {
        let (kernel, machine) = (self.kernel()?, self.machine(target));
        let compiled = Compiled::by(&kernel, ErrorClass::Reassociating, target, &machine)?;
        let inputs = infc_testkit::random_inputs(&kernel, &[], 3);
        let operands: Vec<Tensor> = infc_testkit::buffers_of(&kernel, &[], &inputs);
        let ready = compiled.ready(device, &[], &operands)?;
        let operation = ready.code.operation(ready.grid, &ready.parameters);
        let Times { seconds, spread } = device.time(&[operation], least).with_context(|| self.name.clone())?;
        let per_second = |count: u64| count as f64 / seconds.max(1e-12);
        Ok(Speed {
            name: self.name.clone(),
            us: seconds * 1e6,
            spread,
            tflops: 2.0 * per_second(self.macs) / 1e12,
            gb_per_s: per_second(self.bytes) / 1e9,
            library_us: None,
        })
    }
}

impl Launches {
    /// Measures it.
    ///
    /// # Errors
    /// The GPU's.
    pub fn measure(device: &Device, target: PtxTarget, times: usize) -> Result<Self> {
        let text = "kernel @little(x: f32[32]) -> (y: f32[32]) {\n  stage o[n: 32] = -x[n]\n  output y[n] = o[n]\n}\n";
        let kernel: Kernel = text.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
        let compiled = Compiled::new(&kernel, ErrorClass::Exact, target)?;
        let operands = infc_testkit::buffers_of(&kernel, &[], &infc_testkit::random_inputs(&kernel, &[], 1));
        let ready = compiled.ready(device, &[], &operands)?;
        let operation = ready.code.operation(ready.grid, &ready.parameters);
        let graph = device.time(&vec![operation; times], Duration::ZERO)?;
        let (single, host) = device.one_by_one(&operation, times)?;
        // The same kernel at other addresses.
        let other = compiled.ready(device, &[], &operands)?;
        let other = ready.code.operation(other.grid, &other.parameters);
        let (changed, change) = device.changed([operation, other], times)?.unzip();
        let us = |seconds: f64| seconds * 1e6;
        Ok(Self {
            graph_us: us(graph.seconds / times as f64),
            single_us: us(single),
            host_us: us(host),
            change_us: change.map(us),
            changed_us: changed.map(us),
        })
    }
}
