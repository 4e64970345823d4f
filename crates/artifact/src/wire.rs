//! The postcard form of the metadata sections.
//!
//! The manifest is written as it is. A Program's steps are written as `(code, body)` pairs, so that a reader can say
//! *which* step it does not know instead of failing somewhere in the bytes.

use crate::manifest::MANIFEST_SCHEMA;
use crate::{
    ArtifactError, Assumption, Binding, BindingSource, DeviceKernel, Entry, Host, KernelInfo, Launch, LoopBody,
    Manifest, MemoryPlan, PortSpec, Program, Provenance, SizeExpr, Slot, Specialization, StatePair, Step, SymbolSpec,
    VariantBody, VariantInfo, WeightRecord,
};
use infc_tensor::{DType, Subgraphs};
use serde::{Deserialize, Serialize};

/// The schema number of Program sections of machine code.
pub(crate) const PROGRAM_SCHEMA: u32 = 1;
/// The schema number of Program sections of PTX: behind what the other has stands how each kernel is started.
pub(crate) const DEVICE_PROGRAM_SCHEMA: u32 = 3;
/// The same, and behind that which kernels wait for those before them.
const WAITING_PROGRAM_SCHEMA: u32 = 4;
/// The same, of files whose kernels are PTX modules of their own. `thin` makes files of the other schema of them, without a
/// head: readers tell the two apart by whether there is one.
const MODULES_PROGRAM_SCHEMA: u32 = 2;

/// Step codes. Numbers are never reused; 4 (loop) is reserved.
const CODE_LAUNCH: u32 = 0;
const CODE_COPY: u32 = 1;
const CODE_BIND: u32 = 2;
const CODE_IF: u32 = 3;
const CODE_HOST: u32 = 5;
const CODE_REQUIRE: u32 = 6;
const CODE_GIVE: u32 = 7;
const CODE_HOST_WITH_GRAPHS: u32 = 8;
const CODE_LAUNCH_IN_STEPS: u32 = 9;
const CODE_LAUNCH_ON_GRID: u32 = 10;
const CODE_HOST_WITH_BODY: u32 = 11;

#[derive(Serialize, Deserialize)]
struct WireStep<'a> {
    code: u32,
    #[serde(borrow)]
    body: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct WireProgram<'a> {
    slots: Vec<Slot>,
    #[serde(borrow)]
    steps: Vec<WireStep<'a>>,
    static_plan: Option<MemoryPlan>,
}

#[derive(Serialize, Deserialize)]
struct WireBody<'a> {
    #[serde(borrow)]
    programs: Vec<WireProgram<'a>>,
    kernels: Vec<KernelInfo>,
}

#[derive(Serialize, Deserialize)]
struct WireDeviceBody<'a> {
    #[serde(borrow)]
    body: WireBody<'a>,
    /// Per kernel.
    devices: Vec<DeviceKernel>,
}

#[derive(Serialize, Deserialize)]
struct WireWaitingBody<'a> {
    #[serde(borrow)]
    body: WireDeviceBody<'a>,
    /// Per kernel.
    waits: Vec<bool>,
}

/// Decodes exactly all of `bytes`.
fn decode<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, ArtifactError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(ArtifactError::malformed(what, "nothing after its end", format!("{} bytes", rest.len()))),
        Err(error) => Err(ArtifactError::malformed(what, "a well-formed encoding", error)),
    }
}

fn encode<T: Serialize>(what: &str, value: &T) -> Result<Vec<u8>, ArtifactError> {
    postcard::to_allocvec(value).map_err(|error| ArtifactError::malformed(what, "an encodable value", error))
}

fn check_schema(what: &'static str, expected: u32, found: u32) -> Result<(), ArtifactError> {
    if found == expected { Ok(()) } else { Err(ArtifactError::UnknownSchema { what, expected, found }) }
}

pub(crate) fn encode_manifest(manifest: &Manifest) -> Result<Vec<u8>, ArtifactError> {
    encode("the manifest", manifest)
}

/// The manifest as schemas 1 to 6 had it.
#[derive(Deserialize)]
struct OldManifest<E> {
    entries: Vec<E>,
    variants: Vec<VariantInfo>,
    weights: Vec<WeightRecord>,
    provenance: Provenance,
    custom_ops: Vec<String>,
}

/// Schema 1: entries took nothing for granted.
#[derive(Deserialize)]
struct EntryV1 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<AxisBinding>,
    state: Vec<ApartPair>,
}

/// Schema 2: symbols came from axes of inputs only.
#[derive(Deserialize)]
struct EntryV2 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<AxisBinding>,
    state: Vec<ApartPair>,
    assumptions: Vec<Assumption>,
}

/// Schema 3: the two sides of a state lay apart.
#[derive(Deserialize)]
struct EntryV3 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<Binding>,
    state: Vec<ApartPair>,
    assumptions: Vec<Assumption>,
}

/// Schema 4: no entry was a special case of another.
#[derive(Deserialize)]
struct EntryV4 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<Binding>,
    state: Vec<StatePair>,
    assumptions: Vec<Assumption>,
}

/// Schema 5: no entry could be run in slices.
#[derive(Deserialize)]
struct EntryV5 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<Binding>,
    state: Vec<StatePair>,
    assumptions: Vec<Assumption>,
    specializes: Option<Specialization>,
}

/// Schema 6: all inputs and outputs had a known number of axes.
#[derive(Deserialize)]
struct EntryV6 {
    name: String,
    inputs: Vec<RankedPort>,
    outputs: Vec<RankedPort>,
    symbols: Vec<SymbolSpec>,
    bindings: Vec<Binding>,
    state: Vec<StatePair>,
    assumptions: Vec<Assumption>,
    specializes: Option<Specialization>,
    slices: Option<u32>,
}

#[derive(Deserialize)]
struct RankedPort {
    name: String,
    dtype: DType,
    shape: Vec<SizeExpr>,
}

#[derive(Deserialize)]
struct ApartPair {
    output: u32,
    input: u32,
}

#[derive(Deserialize)]
struct AxisBinding {
    symbol: u32,
    input: u32,
    axis: u32,
}

impl From<EntryV1> for EntryV2 {
    fn from(e: EntryV1) -> Self {
        let EntryV1 { name, inputs, outputs, symbols, bindings, state } = e;
        Self { name, inputs, outputs, symbols, bindings, state, assumptions: Vec::new() }
    }
}

impl From<EntryV2> for EntryV3 {
    fn from(e: EntryV2) -> Self {
        let EntryV2 { name, inputs, outputs, symbols, bindings, state, assumptions } = e;
        let source = |b: &AxisBinding| BindingSource::Axis { input: b.input, axis: b.axis };
        let bindings = bindings.iter().map(|b| Binding { symbol: b.symbol, source: source(b) }).collect();
        Self { name, inputs, outputs, symbols, bindings, state, assumptions }
    }
}

impl From<EntryV3> for EntryV4 {
    fn from(e: EntryV3) -> Self {
        let EntryV3 { name, inputs, outputs, symbols, bindings, state, assumptions } = e;
        let state = state.iter().map(|p| StatePair { output: p.output, input: p.input, append: None }).collect();
        Self { name, inputs, outputs, symbols, bindings, state, assumptions }
    }
}

impl From<EntryV4> for EntryV5 {
    fn from(e: EntryV4) -> Self {
        let EntryV4 { name, inputs, outputs, symbols, bindings, state, assumptions } = e;
        Self { name, inputs, outputs, symbols, bindings, state, assumptions, specializes: None }
    }
}

impl From<EntryV5> for EntryV6 {
    fn from(e: EntryV5) -> Self {
        let EntryV5 { name, inputs, outputs, symbols, bindings, state, assumptions, specializes } = e;
        Self { name, inputs, outputs, symbols, bindings, state, assumptions, specializes, slices: None }
    }
}

impl From<EntryV6> for Entry {
    fn from(e: EntryV6) -> Self {
        let EntryV6 { name, inputs, outputs, symbols, bindings, state, assumptions, specializes, slices } = e;
        let ranked =
            |ports: Vec<RankedPort>| ports.into_iter().map(|port| PortSpec::new(&port.name, port.dtype, port.shape));
        let (inputs, outputs) = (ranked(inputs).collect(), ranked(outputs).collect());
        Self { name, inputs, outputs, symbols, bindings, state, assumptions, specializes, slices }
    }
}

impl<E> OldManifest<E> {
    fn upgraded(self, entry: impl Fn(E) -> Entry) -> Manifest {
        let Self { entries, variants, weights, provenance, custom_ops } = self;
        Manifest { entries: entries.into_iter().map(entry).collect(), variants, weights, provenance, custom_ops }
    }
}

fn from_v3(e: EntryV3) -> Entry {
    EntryV6::from(EntryV5::from(EntryV4::from(e))).into()
}

pub(crate) fn decode_manifest(schema: u32, bytes: &[u8]) -> Result<Manifest, ArtifactError> {
    const WHAT: &str = "the manifest";
    match schema {
        1 => Ok(decode::<OldManifest<EntryV1>>(WHAT, bytes)?.upgraded(|e| from_v3(EntryV2::from(e).into()))),
        2 => Ok(decode::<OldManifest<EntryV2>>(WHAT, bytes)?.upgraded(|e| from_v3(e.into()))),
        3 => Ok(decode::<OldManifest<EntryV3>>(WHAT, bytes)?.upgraded(from_v3)),
        4 => Ok(decode::<OldManifest<EntryV4>>(WHAT, bytes)?.upgraded(|e| EntryV6::from(EntryV5::from(e)).into())),
        5 => Ok(decode::<OldManifest<EntryV5>>(WHAT, bytes)?.upgraded(|e| EntryV6::from(e).into())),
        6 => Ok(decode::<OldManifest<EntryV6>>(WHAT, bytes)?.upgraded(Entry::from)),
        _ => {
            check_schema(WHAT, MANIFEST_SCHEMA, schema)?;
            decode(WHAT, bytes)
        }
    }
}

pub(crate) fn encode_body(body: &VariantBody) -> Result<Vec<u8>, ArtifactError> {
    let mut bodies: Vec<Vec<(u32, Vec<u8>)>> = Vec::with_capacity(body.programs.len());
    for program in &body.programs {
        bodies.push(program.steps.iter().map(encode_step).collect::<Result<_, _>>()?);
    }
    let programs = body.programs.iter().zip(&bodies).map(|(program, steps)| WireProgram {
        slots: program.slots.clone(),
        steps: steps.iter().map(|(code, body)| WireStep { code: *code, body }).collect(),
        static_plan: program.static_plan.clone(),
    });
    let wire = WireBody { programs: programs.collect(), kernels: body.kernels.clone() };
    let devices: Option<Vec<DeviceKernel>> = body.kernels.iter().map(|kernel| kernel.device.clone()).collect();
    const WHAT: &str = "a Program section";
    match (devices, body_schema(body)) {
        (Some(devices), DEVICE_PROGRAM_SCHEMA) => encode(WHAT, &WireDeviceBody { body: wire, devices }),
        (Some(devices), WAITING_PROGRAM_SCHEMA) => {
            let waits = devices.iter().map(|device| device.waits).collect();
            encode(WHAT, &WireWaitingBody { body: WireDeviceBody { body: wire, devices }, waits })
        }
        _ => encode(WHAT, &wire),
    }
}

/// The schema that a Program section is written in.
pub(crate) fn body_schema(body: &VariantBody) -> u32 {
    let mut devices = body.kernels.iter().filter_map(|kernel| kernel.device.as_ref());
    if devices.clone().next().is_none() {
        PROGRAM_SCHEMA
    } else if devices.any(|device| device.waits) {
        WAITING_PROGRAM_SCHEMA
    } else {
        DEVICE_PROGRAM_SCHEMA
    }
}

fn encode_step(step: &Step) -> Result<(u32, Vec<u8>), ArtifactError> {
    Ok(match step {
        Step::Launch(launch) => match (&launch.step_chunks, &launch.grid) {
            (None, None) => (CODE_LAUNCH, encode("a launch step", launch)?),
            (Some(chunks), None) => (CODE_LAUNCH_IN_STEPS, encode("a launch step", &(launch, chunks))?),
            (None, Some(grid)) => (CODE_LAUNCH_ON_GRID, encode("a launch step", &(launch, grid))?),
            (Some(_), Some(_)) => {
                return Err(ArtifactError::malformed("a launch step", "steps or a grid", "both"));
            }
        },
        Step::Copy(copy) => (CODE_COPY, encode("a copy step", copy)?),
        Step::Bind(bind) => (CODE_BIND, encode("a bind step", bind)?),
        Step::If(choice) => (CODE_IF, encode("an if step", choice)?),
        Step::Host(host) if host.body.is_some() => {
            (CODE_HOST_WITH_BODY, encode("a host step", &(host, &host.graphs, &host.body))?)
        }
        Step::Host(host) if host.graphs.is_empty() => (CODE_HOST, encode("a host step", host)?),
        Step::Host(host) => (CODE_HOST_WITH_GRAPHS, encode("a host step", &(host, &host.graphs))?),
        Step::Require(require) => (CODE_REQUIRE, encode("a require step", require)?),
        Step::Give(give) => (CODE_GIVE, encode("a give step", give)?),
    })
}

/// `entry_names` only serve the messages.
pub(crate) fn decode_body(schema: u32, bytes: &[u8], entry_names: &[&str]) -> Result<VariantBody, ArtifactError> {
    const WHAT: &str = "a Program section";
    let (wire, devices): (WireBody<'_>, _) = match schema {
        MODULES_PROGRAM_SCHEMA | DEVICE_PROGRAM_SCHEMA => {
            let WireDeviceBody { body, devices } = decode(WHAT, bytes)?;
            (body, Some(devices))
        }
        WAITING_PROGRAM_SCHEMA => {
            let WireWaitingBody { body: WireDeviceBody { body, mut devices }, waits } = decode(WHAT, bytes)?;
            if waits.len() != devices.len() {
                let expected = format!("one for each of {} kernels", devices.len());
                return Err(ArtifactError::malformed("waits of kernels", expected, waits.len()));
            }
            devices.iter_mut().zip(waits).for_each(|(device, waits)| device.waits = waits);
            (body, Some(devices))
        }
        _ => {
            check_schema(WHAT, PROGRAM_SCHEMA, schema)?;
            (decode(WHAT, bytes)?, None)
        }
    };
    let mut programs = Vec::with_capacity(wire.programs.len());
    for (index, program) in wire.programs.into_iter().enumerate() {
        let entry = entry_names.get(index).copied().unwrap_or("?");
        let steps = program.steps.iter().enumerate().map(|(step, wire)| match wire.code {
            CODE_LAUNCH => Ok(Step::Launch(decode("a launch step", wire.body)?)),
            CODE_LAUNCH_IN_STEPS => {
                let (launch, chunks): (Launch, SizeExpr) = decode("a launch step", wire.body)?;
                Ok(Step::Launch(Launch { step_chunks: Some(chunks), ..launch }))
            }
            CODE_LAUNCH_ON_GRID => {
                let (launch, grid): (Launch, [SizeExpr; 3]) = decode("a launch step", wire.body)?;
                Ok(Step::Launch(Launch { grid: Some(grid), ..launch }))
            }
            CODE_COPY => Ok(Step::Copy(decode("a copy step", wire.body)?)),
            CODE_BIND => Ok(Step::Bind(decode("a bind step", wire.body)?)),
            CODE_IF => Ok(Step::If(decode("an if step", wire.body)?)),
            CODE_HOST => Ok(Step::Host(decode("a host step", wire.body)?)),
            CODE_HOST_WITH_GRAPHS => {
                let (host, graphs): (Host, Subgraphs) = decode("a host step", wire.body)?;
                Ok(Step::Host(Host { graphs, ..host }))
            }
            CODE_HOST_WITH_BODY => {
                let (host, graphs, body): (Host, Subgraphs, Option<LoopBody>) = decode("a host step", wire.body)?;
                Ok(Step::Host(Host { graphs, body, ..host }))
            }
            CODE_REQUIRE => Ok(Step::Require(decode("a require step", wire.body)?)),
            CODE_GIVE => Ok(Step::Give(decode("a give step", wire.body)?)),
            code => Err(ArtifactError::UnknownStep { entry: entry.to_owned(), step, code }),
        });
        let steps = steps.collect::<Result<_, _>>()?;
        programs.push(Program { slots: program.slots, steps, static_plan: program.static_plan });
    }
    let mut kernels = wire.kernels;
    if let Some(devices) = devices {
        if devices.len() != kernels.len() {
            let expected = format!("one for each of {} kernels", kernels.len());
            return Err(ArtifactError::malformed("launches of kernels", expected, devices.len()));
        }
        kernels.iter_mut().zip(devices).for_each(|(kernel, device)| kernel.device = Some(device));
    }
    Ok(VariantBody { programs, kernels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_named() {
        let steps = vec![WireStep { code: 77, body: &[1, 2, 3] }];
        let wire =
            WireBody { programs: vec![WireProgram { slots: vec![], steps, static_plan: None }], kernels: vec![] };
        let error = decode_body(PROGRAM_SCHEMA, &postcard::to_allocvec(&wire).unwrap(), &["main"]).unwrap_err();
        assert_eq!(error.code(), "artifact::unknown-step");
        assert!(error.to_string().contains("code 77"), "{error}");
    }

    #[test]
    fn an_unknown_schema_is_named() {
        assert_eq!(decode_body(9, &[], &[]).unwrap_err().code(), "artifact::unknown-schema");
        assert_eq!(decode_manifest(9, &[]).unwrap_err().code(), "artifact::unknown-schema");
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        let mut bytes = encode_body(&VariantBody { programs: vec![], kernels: vec![] }).unwrap();
        bytes.push(0);
        assert_eq!(decode_body(PROGRAM_SCHEMA, &bytes, &[]).unwrap_err().code(), "artifact::malformed");
    }
}
