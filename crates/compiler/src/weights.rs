//! Constants as they lie in the file: each arrangement once, however many kernels read it.

use crate::CompileError;
use infc_artifact::{ArtifactBuilder, NewWeight};
use infc_ir::entity::ValueId;
use infc_passes::form::{GraphPlan, OperandSource, PackedConstant, Packing};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Where each constant operand's weight is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    index_of: HashMap<(ValueId, Option<Packing>), u32>,
    /// Bytes stored.
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

/// Packs all constants of the plan and adds them to the artifact.
pub(crate) fn add(plan: &GraphPlan, builder: &mut ArtifactBuilder<'static>) -> Result<Weights, CompileError> {
    let mut distinct: Vec<&PackedConstant> = Vec::new();
    let mut seen: HashMap<(ValueId, Option<&Packing>), ()> = HashMap::new();
    let operands = plan.kernels.iter().flat_map(|k| &k.operands).chain(plan.hosts.iter().flat_map(|h| &h.inputs));
    for source in operands {
        if let OperandSource::Constant(constant) = source
            && seen.insert((constant.value, constant.packing.as_ref()), ()).is_none()
        {
            distinct.push(constant);
        }
    }
    let packed: Vec<Vec<u8>> = distinct
        .par_iter()
        .map(|constant| {
            let tensor = constant
                .tensor()
                .map_err(|source| CompileError::Weight { name: constant.constant.name.clone(), source })?;
            Ok(tensor.bytes().to_vec())
        })
        .collect::<Result<_, CompileError>>()?;
    let mut weights = Weights::default();
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    for (constant, bytes) in distinct.into_iter().zip(packed) {
        let original = &constant.constant.tensor;
        let base = &constant.constant.name;
        let count = names.entry(base.clone()).or_default();
        let name = if *count == 0 { base.clone() } else { format!("{base}#{count}") };
        *count += 1;
        weights.bytes += bytes.len() as u64;
        weights.original_bytes += original.bytes().len() as u64;
        let transform = constant.packing.as_ref().and_then(|p| p.transform.as_ref());
        let weight = NewWeight {
            name,
            original_names: vec![base.clone()],
            dtype: original.dtype(),
            shape: original.shape().iter().map(|&d| d as u64).collect(),
            recipe: transform.map_or_else(String::new, ToString::to_string),
            layout: constant.packing.as_ref().map_or_else(String::new, |p| p.layout.clone()),
        };
        let index = builder.weight(weight, bytes);
        weights.index_of.insert((constant.value, constant.packing.clone()), index);
    }
    Ok(weights)
}
