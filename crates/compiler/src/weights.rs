//! Constants as they lie in the file: each arrangement once, however many kernels read it.

use crate::CompileError;
use crate::bodies;
use infc_artifact::{ArtifactBuilder, NewWeight};
use infc_ir::entity::{EntityId, ValueId};
use infc_ir::op::HostBody;
use infc_ir::scalar::Source;
use infc_passes::form::{GraphPlan, OperandSource, PackedConstant, Packing};
use infc_tensor::DType;
use rayon::prelude::*;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Where each constant operand's weight is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    index_of: HashMap<(ValueId, Option<Packing>), u32>,
    /// Bytes stored, of all plans.
    pub(crate) bytes: u64,
    /// Bytes the constants have as they are in the model.
    pub(crate) original_bytes: u64,
}

impl Weights {
    /// The index of a constant's weight.
    pub(crate) fn index(&self, constant: &PackedConstant) -> Result<u32, CompileError> {
        let key = (constant.value, constant.packing.clone());
        self.index_of.get(&key).copied().ok_or_else(|| CompileError::Internal {
            what: format!("constant `{}` has no weight", constant.constant.name),
        })
    }
}

/// Packs all constants of some plans of one model and adds them to the artifact; gives the weights of each plan. What
/// lies the same way in several plans is there once.
pub(crate) fn add(
    plans: &[&GraphPlan],
    bodies: &[Arc<HostBody>],
    builder: &mut ArtifactBuilder<'static>,
) -> Result<Vec<Weights>, CompileError> {
    let of_plans: Vec<Vec<&PackedConstant>> = plans.iter().map(|plan| distinct(plan, bodies)).collect();
    let hashed: Vec<Vec<Identity<'_>>> = of_plans
        .iter()
        .map(|constants| constants.par_iter().map(|constant| Identity::new(constant, plans.len() > 1)).collect())
        .collect();
    let mut places: HashMap<&Identity<'_>, usize> = HashMap::new();
    let mut stored: Vec<&PackedConstant> = Vec::new();
    let mut is_table: Vec<bool> = Vec::new();
    for ((plan, constants), identities) in plans.iter().zip(&of_plans).zip(&hashed) {
        let read_whole = read_whole(plan, bodies);
        for (constant, identity) in constants.iter().zip(identities) {
            let looked_up = !read_whole.contains(&(constant.value, constant.packing.as_ref()));
            match places.entry(identity) {
                Entry::Vacant(place) => {
                    place.insert(stored.len());
                    stored.push(constant);
                    is_table.push(looked_up);
                }
                Entry::Occupied(place) => is_table[*place.get()] &= looked_up,
            }
        }
    }
    let packed: Vec<Vec<u8>> = stored
        .par_iter()
        .map(|constant| {
            let tensor = constant
                .tensor()
                .map_err(|source| CompileError::Weight { name: constant.constant.name.clone(), source })?;
            Ok(tensor.bytes().to_vec())
        })
        .collect::<Result<_, CompileError>>()?;
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut indices = Vec::with_capacity(stored.len());
    let (mut bytes_stored, mut original_bytes) = (0, 0);
    for ((constant, bytes), is_table) in stored.into_iter().zip(packed).zip(is_table) {
        let original = &constant.constant.tensor;
        let base = &constant.constant.name;
        let count = names.entry(base.clone()).or_default();
        let name = if *count == 0 { base.clone() } else { format!("{base}#{count}") };
        *count += 1;
        bytes_stored += bytes.len() as u64;
        original_bytes += original.bytes().len() as u64;
        let transform = constant.packing.as_ref().and_then(|p| p.transform.as_ref());
        let weight = NewWeight {
            name,
            original_names: vec![base.clone()],
            dtype: original.dtype(),
            shape: original.shape().iter().map(|&d| d as u64).collect(),
            recipe: transform.map_or_else(String::new, ToString::to_string),
            layout: constant.packing.as_ref().map_or_else(String::new, |p| p.layout.clone()),
        };
        indices.push(if is_table { builder.table(weight, bytes) } else { builder.weight(weight, bytes) });
    }
    let weights = of_plans.iter().zip(&hashed).map(|(constants, identities)| Weights {
        index_of: constants
            .iter()
            .zip(identities)
            .filter_map(|(c, id)| Some(((c.value, c.packing.clone()), *indices.get(*places.get(id)?)?)))
            .collect(),
        bytes: bytes_stored,
        original_bytes,
    });
    Ok(weights.collect())
}

/// The constants of which something reads more than the elements that data names.
fn read_whole<'p>(plan: &'p GraphPlan, bodies: &[Arc<HostBody>]) -> HashSet<(ValueId, Option<&'p Packing>)> {
    let of_kernels = plan.kernels.iter().flat_map(|planned| {
        let mut read = HashSet::new();
        for stage in planned.kernel.stages.iter() {
            stage.for_each_load(&mut |_, load| {
                if let (Source::Operand(operand), []) = (load.source, &load.gather[..]) {
                    read.insert(operand.index());
                }
            });
        }
        planned.operands.iter().enumerate().filter(move |(n, _)| read.contains(n)).map(|(_, source)| source)
    });
    let sources = of_kernels.chain(plan.hosts.iter().flat_map(|host| bodies::operands(bodies, host)));
    sources
        .filter_map(|source| match source {
            OperandSource::Constant(constant) => Some((constant.value, constant.packing.as_ref())),
            _ => None,
        })
        .collect()
}

/// The constants of a plan, each once per arrangement.
fn distinct<'p>(plan: &'p GraphPlan, bodies: &[Arc<HostBody>]) -> Vec<&'p PackedConstant> {
    let mut distinct: Vec<&PackedConstant> = Vec::new();
    let mut seen: HashSet<(ValueId, Option<&Packing>)> = HashSet::new();
    let operands = plan
        .kernels
        .iter()
        .flat_map(|k| &k.operands)
        .chain(plan.hosts.iter().flat_map(|host| bodies::operands(bodies, host)));
    for source in operands {
        if let OperandSource::Constant(constant) = source
            && seen.insert((constant.value, constant.packing.as_ref()))
        {
            distinct.push(constant);
        }
    }
    distinct
}

/// What makes two arranged constants of different plans the same.
#[derive(PartialEq, Eq, Hash)]
struct Identity<'p> {
    name: &'p str,
    dtype: DType,
    shape: &'p [usize],
    packing: Option<&'p Packing>,
    /// Of the bytes, if there are several plans; else the constant's number in the only one.
    contents: Result<blake3::Hash, ValueId>,
}

impl<'p> Identity<'p> {
    fn new(constant: &'p PackedConstant, by_contents: bool) -> Self {
        let tensor = &constant.constant.tensor;
        let contents = if by_contents { Ok(blake3::hash(tensor.bytes())) } else { Err(constant.value) };
        Self {
            name: &constant.constant.name,
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            packing: constant.packing.as_ref(),
            contents,
        }
    }
}
