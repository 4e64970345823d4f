//! Putting an artifact together.

use crate::container::{ContainerWriter, PAGE, Piece, REQUIRED, Section, SectionKind};
use crate::cubin::{self, CUBIN_SCHEMA};
use crate::manifest::MANIFEST_SCHEMA;
use crate::wire;
use crate::{
    ArtifactError, Entry, Hash, KernelInfo, Manifest, Program, Provenance, VariantBody, VariantInfo, WeightRecord,
    validate,
};
use infc_tensor::DType;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

/// Weights begin at multiples of this within the file.
const WEIGHT_ALIGN: usize = 64;
/// Kernels begin at multiples of this within the code section.
const CODE_ALIGN: usize = 64;
/// The section that holds the weights: right after the manifest.
const WEIGHTS_SECTION: u32 = 1;

/// Collects the parts of an artifact. Indices returned are those of the manifest's lists.
#[derive(Clone, Debug)]
pub struct ArtifactBuilder<'a> {
    manifest: Manifest,
    weights: Vec<Piece<'a>>,
    weights_len: usize,
    /// Where bytes of this hash and length are stored already.
    stored: BTreeMap<(Hash, usize), u64>,
    variants: Vec<VariantBuilder>,
}

/// What is known of a weight besides its bytes; see [`WeightRecord`] for the fields.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of WeightRecord")]
pub struct NewWeight {
    pub name: String,
    pub original_names: Vec<String>,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub recipe: String,
    pub layout: String,
}

impl<'a> ArtifactBuilder<'a> {
    /// An artifact without contents.
    #[must_use]
    pub fn new(provenance: Provenance) -> Self {
        let manifest =
            Manifest { entries: vec![], variants: vec![], weights: vec![], provenance, custom_ops: Vec::new() };
        Self { manifest, weights: vec![], weights_len: 0, stored: BTreeMap::new(), variants: vec![] }
    }

    /// Adds an entry.
    pub fn entry(&mut self, entry: Entry) -> u32 {
        self.manifest.entries.push(entry);
        index_of_last(&self.manifest.entries)
    }

    /// Adds a weight. Bytes that are equal to those of an earlier weight are stored once.
    pub fn weight(&mut self, weight: NewWeight, bytes: impl Into<Cow<'a, [u8]>>) -> u32 {
        self.store(weight, bytes.into(), false)
    }

    /// As [`ArtifactBuilder::weight`], of a table in which runs look up few rows: what they do not read shall not become
    /// resident ([`Piece::scattered`]).
    pub fn table(&mut self, weight: NewWeight, bytes: impl Into<Cow<'a, [u8]>>) -> u32 {
        self.store(weight, bytes.into(), true)
    }

    fn store(&mut self, weight: NewWeight, bytes: Cow<'a, [u8]>, scattered: bool) -> u32 {
        let hash = Hash::of(&bytes);
        let len_bytes = bytes.len() as u64;
        let offset_bytes = *self.stored.entry((hash, bytes.len())).or_insert_with(|| {
            let offset = self.weights_len.next_multiple_of(WEIGHT_ALIGN);
            let padding = offset - self.weights_len;
            self.weights_len = offset + bytes.len();
            self.weights.push(Piece { padding, bytes, scattered });
            offset as u64
        });
        let NewWeight { name, original_names, dtype, shape, recipe, layout } = weight;
        let (section, encoding) = (WEIGHTS_SECTION, "raw".to_owned());
        self.manifest.weights.push(WeightRecord {
            name,
            original_names,
            dtype,
            shape,
            section,
            offset_bytes,
            len_bytes,
            hash,
            recipe,
            layout,
            encoding,
        });
        index_of_last(&self.manifest.weights)
    }

    /// Adds a variant; add the best first.
    pub fn variant(&mut self, variant: VariantBuilder) -> u32 {
        self.variants.push(variant);
        index_of_last(&self.variants)
    }

    /// Names a custom operator (`domain::Op@version`) that the host must provide.
    pub fn custom_op(&mut self, name: String) {
        self.manifest.custom_ops.push(name);
    }

    /// Checks everything a reader would, and lays out the file.
    ///
    /// # Errors
    /// `artifact::malformed` or `too-large` if the parts do not fit together.
    pub fn finish(mut self) -> Result<EncodedArtifact<'a>, ArtifactError> {
        for (index, variant) in (0u32..).zip(&self.variants) {
            self.manifest.variants.push(VariantInfo {
                target: variant.target.clone(),
                required_features: variant.required_features.clone(),
                program_section: WEIGHTS_SECTION + 1 + 2 * index,
                code_section: WEIGHTS_SECTION + 2 + 2 * index,
            });
        }
        // The sections as a reader will see them, for the same checks (their places do not matter there).
        let section = |kind, len| Section { kind, flags: REQUIRED, range: 0..len, schema: 0, hash: Hash([0; 32]) };
        let mut sections = vec![section(SectionKind::MANIFEST, 0), section(SectionKind::WEIGHTS, self.weights_len)];
        for variant in &self.variants {
            sections.push(section(SectionKind::PROGRAM, 0));
            sections.push(section(validate::code_kind(&variant.target), variant.code.len()));
        }
        validate::manifest(&self.manifest, &sections)?;

        let mut writer = ContainerWriter::default();
        let manifest = wire::encode_manifest(&self.manifest)?;
        writer.section(SectionKind::MANIFEST, REQUIRED, MANIFEST_SCHEMA, vec![Piece::new(manifest)]);
        writer.section(SectionKind::WEIGHTS, REQUIRED, 0, self.weights);
        let mut cubins = Vec::new();
        for (index, variant) in (0u32..).zip(self.variants) {
            let kind = validate::code_kind(&variant.target);
            validate::body(&variant.body, &self.manifest, kind, variant.code.len() as u64)?;
            let body = wire::encode_body(&variant.body)?;
            let schema = wire::body_schema(&variant.body);
            writer.section(SectionKind::PROGRAM, REQUIRED, schema, vec![Piece::new(body)]);
            writer.section(kind, REQUIRED, 0, vec![Piece::new(variant.code)]);
            let program = self.manifest.variants[index as usize].program_section;
            cubins.extend(variant.cubins.into_iter().map(|(capability, image)| (program, capability, image)));
        }
        // Behind what is numbered above.
        for (program, capability, image) in cubins {
            let header = cubin::header(program, capability);
            writer.section(SectionKind::CUBIN, 0, CUBIN_SCHEMA, vec![Piece::new(header), Piece::new(image)]);
        }
        Ok(EncodedArtifact { writer, manifest: self.manifest })
    }
}

fn index_of_last<T>(list: &[T]) -> u32 {
    // More than 2³² parts are refused by `finish`.
    u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
}

/// Collects the code of one variant.
#[derive(Clone, Debug)]
pub struct VariantBuilder {
    target: String,
    required_features: Vec<String>,
    body: VariantBody,
    code: Vec<u8>,
    /// Compute capabilities and images.
    cubins: Vec<(u32, Vec<u8>)>,
}

impl VariantBuilder {
    /// A variant for `target` that needs the given [`features`](crate::features).
    #[must_use]
    pub fn new(target: impl Into<String>, required_features: &[&str]) -> Self {
        Self {
            target: target.into(),
            required_features: required_features.iter().map(|&f| f.to_owned()).collect(),
            body: VariantBody { programs: vec![], kernels: vec![] },
            code: vec![],
            cubins: vec![],
        }
    }

    /// What stands before all kernels: the head of the PTX module whose entries they are. Machine code has none. To be
    /// called before the first kernel is added.
    pub fn head(&mut self, text: &[u8]) {
        debug_assert!(self.body.kernels.is_empty(), "what stands before all kernels comes before them");
        self.code.extend_from_slice(text);
    }

    /// Adds a kernel: its code, position-independent, entered at the first byte, constants included; or the text of an
    /// entry of the variant's PTX module. The place in `info` is filled in.
    pub fn kernel(&mut self, info: KernelInfo, code: &[u8]) -> u32 {
        if validate::code_kind(&self.target) == SectionKind::CODE {
            self.code.resize(self.code.len().next_multiple_of(CODE_ALIGN), 0);
        }
        let (code_offset, code_len) = (self.code.len() as u64, code.len() as u64);
        self.code.extend_from_slice(code);
        self.body.kernels.push(KernelInfo { code_offset, code_len, ..info });
        index_of_last(&self.body.kernels)
    }

    /// Adds all kernels as machine code of the GPUs of one compute capability, major·10 + minor.
    pub fn cubin(&mut self, capability: u32, image: Vec<u8>) {
        self.cubins.push((capability, image));
    }

    /// Adds the Program of the next entry.
    pub fn program(&mut self, program: Program) -> u32 {
        self.body.programs.push(program);
        index_of_last(&self.body.programs)
    }
}

/// An artifact that only needs to be written.
#[derive(Clone, Debug)]
pub struct EncodedArtifact<'a> {
    writer: ContainerWriter<'a>,
    manifest: Manifest,
}

impl EncodedArtifact<'_> {
    /// The manifest as written.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The length of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.writer.len_bytes()
    }

    /// Streams the file; weights are not copied.
    ///
    /// # Errors
    /// `artifact::cannot-write` with what the writer said.
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), ArtifactError> {
        self.writer.write_to(out)
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As [`EncodedArtifact::write_to`].
    pub fn to_vec(&self) -> Result<Vec<u8>, ArtifactError> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.len_bytes()).unwrap_or(0));
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

const _: () = assert!(PAGE.is_multiple_of(WEIGHT_ALIGN as u64), "section starts keep the alignment of what is inside");
