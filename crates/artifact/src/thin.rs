//! One variant of an artifact as an artifact of its own.

use crate::{
    Artifact, ArtifactBuilder, ArtifactError, EncodedArtifact, NewWeight, Program, Slot, VariantBody, VariantBuilder,
};
use std::collections::BTreeMap;

impl<'a> Artifact<'a> {
    /// The artifact with the variant for `target` alone, and only the weights that this variant uses. Weights are not
    /// copied until the result is written.
    ///
    /// # Errors
    /// `artifact::no-such-target`, or what is wrong with the variant.
    pub fn thin(&self, target: &str) -> Result<EncodedArtifact<'a>, ArtifactError> {
        let manifest = self.manifest();
        let Some(index) = manifest.variants.iter().position(|variant| variant.target == target) else {
            let available: Vec<&str> = manifest.variants.iter().map(|variant| variant.target.as_str()).collect();
            return Err(ArtifactError::NoSuchTarget { wanted: target.to_owned(), available: available.join(", ") });
        };
        let body = self.variant(index)?;
        let code = self.container().verified(manifest.variants[index].code_section as usize)?;

        let mut builder = ArtifactBuilder::new(manifest.provenance.clone());
        for op in &manifest.custom_ops {
            builder.custom_op(op.clone());
        }
        for entry in &manifest.entries {
            builder.entry(entry.clone());
        }
        let kept = self.keep_weights(&body, &mut builder)?;

        let features: Vec<&str> = manifest.variants[index].required_features.iter().map(String::as_str).collect();
        let mut variant = VariantBuilder::new(target, &features);
        variant.head(body.head(code));
        for kernel in &body.kernels {
            // The range was checked when the variant was read.
            let range = kernel.code_offset as usize..(kernel.code_offset + kernel.code_len) as usize;
            variant.kernel(kernel.clone(), &code[range]);
        }
        for program in body.programs {
            variant.program(renumber(program, &kept));
        }
        for cubin in self.cubins(index)? {
            self.container().verified(cubin.section)?;
            variant.cubin(cubin.capability, cubin.image.to_vec());
        }
        builder.variant(variant);
        builder.finish()
    }

    /// Adds the weights that `body` uses, and returns their new indices by the old ones.
    fn keep_weights(
        &self,
        body: &VariantBody,
        builder: &mut ArtifactBuilder<'a>,
    ) -> Result<BTreeMap<u32, u32>, ArtifactError> {
        let slots = body.programs.iter().flat_map(|program| &program.slots);
        let mut kept: BTreeMap<u32, u32> =
            slots.filter_map(|slot| if let Slot::Weight(old) = slot { Some((*old, 0)) } else { None }).collect();
        for (&old, new) in &mut kept {
            let record = &self.manifest().weights[old as usize];
            let bytes = self.weight_bytes(old as usize).ok_or_else(|| {
                ArtifactError::malformed("a weight", format!("below {}", self.manifest().weights.len()), old)
            })?;
            let weight = NewWeight {
                name: record.name.clone(),
                original_names: record.original_names.clone(),
                dtype: record.dtype,
                shape: record.shape.clone(),
                recipe: record.recipe.clone(),
                layout: record.layout.clone(),
            };
            *new = builder.weight(weight, bytes);
        }
        Ok(kept)
    }
}

fn renumber(mut program: Program, kept: &BTreeMap<u32, u32>) -> Program {
    for slot in &mut program.slots {
        if let Slot::Weight(index) = slot {
            // Every weight slot's index was put into the map.
            *index = kept.get(index).copied().unwrap_or(*index);
        }
    }
    program
}
