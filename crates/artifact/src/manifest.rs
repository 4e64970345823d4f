//! What a file holds, independent of the processor: entries, weights, provenance, and where the variants are.
//!
//! Field order is wire order (postcard): a change needs a new [`MANIFEST_SCHEMA`] and a decoder for the old one.

use crate::{Hash, SizeExpr};
use infc_tensor::DType;
use serde::{Deserialize, Serialize};

/// The schema number of the manifest section written by this version.
pub(crate) const MANIFEST_SCHEMA: u32 = 7;

/// The table of contents of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The functions that can be run; the default one is named `main`. Some are special cases of others
    /// ([`Entry::specializes`]).
    pub entries: Vec<Entry>,
    /// Code for one processor level each, best first: a loader takes the first that the machine can run.
    pub variants: Vec<VariantInfo>,
    /// The constants all variants share, each a range of a weights section.
    pub weights: Vec<WeightRecord>,
    /// Where the artifact comes from.
    pub provenance: Provenance,
    /// Custom operators the host must register before a run, as `domain::Op@version`.
    pub custom_ops: Vec<String>,
}

impl Manifest {
    /// The special cases of an entry, by index, in the order in which a session looks for one that fits.
    pub fn special_cases(&self, general: usize) -> impl Iterator<Item = (usize, &Specialization)> {
        let cases = self.entries.iter().enumerate();
        let cases = cases.filter_map(|(index, entry)| Some((index, entry.specializes.as_ref()?)));
        cases.filter(move |(_, case)| case.general as usize == general)
    }

    /// The values that an entry is made for, as `N=1, S=128`; `None` of one that is no special case.
    #[must_use]
    pub fn special_case_text(&self, entry: usize) -> Option<String> {
        let case = self.entries.get(entry)?.specializes.as_ref()?;
        Some(case.text(&self.entries.get(case.general as usize)?.symbol_names(), ", "))
    }
}

/// One function of the model: what goes in, what comes out, and how the symbolic dims are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Unique among the entries.
    pub name: String,
    /// In the order of the ONNX graph inputs that are not initializers.
    pub inputs: Vec<PortSpec>,
    /// In the order of the ONNX graph outputs.
    pub outputs: Vec<PortSpec>,
    /// The dims, and other numbers, only known at run time; [`SizeExpr`]s of this entry refer to them by position.
    pub symbols: Vec<SymbolSpec>,
    /// Where each symbol is read from: exactly one binding per symbol, in an order in which they can be evaluated. Every
    /// dim of every input is then checked against its expression, so a symbol that occurs twice must agree.
    pub bindings: Vec<Binding>,
    /// Outputs that become inputs of the next run: the session keeps them, and nobody gives or takes them.
    pub state: Vec<StatePair>,
    /// What must hold of the symbols for the entry to be right; checked before anything runs.
    pub assumptions: Vec<Assumption>,
    /// If this is another entry at fixed values of some of its dims, which. A run of that entry whose inputs have these
    /// values takes this one instead. An entry of no values is the same model with less taken for granted: a run takes it
    /// if extents are not as the entry that it takes otherwise says, which may show in the midst of it.
    pub specializes: Option<Specialization>,
    /// The symbol that is the first extent of outputs and of inputs that have it, if every point along that axis is computed
    /// of the same point of those inputs, of other inputs, and of symbols: a run may then be several runs of fewer
    /// points each, with all other symbols as they are bound for the whole. Index into [`Entry::symbols`].
    pub slices: Option<u32>,
}

/// Which special case of another entry an entry is. Both have the same inputs and states, but for
/// extents, and the same outputs, but for shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Specialization {
    /// Index into [`Manifest::entries`] of the other entry, which is no special case itself.
    pub general: u32,
    /// Symbols of the other entry that are extents of inputs, ascending, and the value that each has here; none if this entry
    /// takes less for granted.
    pub fixed: Vec<FixedSymbol>,
}

/// A symbol and the one value that it has in a special case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedSymbol {
    /// Index into the general entry's [`Entry::symbols`].
    pub symbol: u32,
    /// Within the symbol's range.
    pub value: i64,
}

impl Specialization {
    /// Whether the symbols of the general entry have the values of this case.
    #[must_use]
    pub fn fits(&self, symbols: &[i64]) -> bool {
        !self.takes_less() && self.fixed.iter().all(|fixed| symbols.get(fixed.symbol as usize) == Some(&fixed.value))
    }

    /// Whether it is no case of values, but takes less for granted.
    #[must_use]
    pub fn takes_less(&self) -> bool {
        self.fixed.is_empty()
    }

    /// `N=1, S=128`, given the names of the general entry's symbols.
    #[must_use]
    pub fn text(&self, symbol_names: &[&str], separator: &str) -> String {
        if self.takes_less() {
            return "extents that differ".to_owned();
        }
        let name = |symbol: u32| symbol_names.get(symbol as usize).copied().unwrap_or("?");
        let values: Vec<String> = self.fixed.iter().map(|f| format!("{}={}", name(f.symbol), f.value)).collect();
        values.join(separator)
    }
}

impl Entry {
    /// The names of the symbols, as [`SizeExpr::to_text`] takes them.
    #[must_use]
    pub fn symbol_names(&self) -> Vec<&str> {
        self.symbols.iter().map(|s| s.name.as_str()).collect()
    }

    /// Whether a state is one of which a run replaces a part where it lies: it has one memory, which is full.
    #[must_use]
    pub fn is_replaced_in_place(&self, pair: &StatePair) -> bool {
        let extent = |append: Append| self.inputs.get(pair.input as usize)?.shape.get(append.axis as usize)?.as_const();
        pair.append.is_some_and(|append| extent(append).is_some_and(|extent| extent as u64 == append.capacity))
    }

    /// The number of the state that an input is, into [`Entry::state`].
    #[must_use]
    pub fn state_of_input(&self, input: usize) -> Option<usize> {
        self.state.iter().position(|pair| pair.input as usize == input)
    }

    /// The number of the state that an output is, into [`Entry::state`].
    #[must_use]
    pub fn state_of_output(&self, output: usize) -> Option<usize> {
        self.state.iter().position(|pair| pair.output as usize == output)
    }
}

/// The name, element type and shape of an input or output. Data is dense and row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSpec {
    /// The ONNX name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first.
    pub shape: Vec<SizeExpr>,
    /// Of a tensor with as many axes as each run has, the type of its elements. Whoever runs the model gives and takes the
    /// tensor; in the Program it is a sequence of that one tensor, which is what the other fields say.
    pub unranked: Option<DType>,
}

impl PortSpec {
    /// One of a known number of axes.
    #[must_use]
    pub fn new(name: &str, dtype: DType, shape: Vec<SizeExpr>) -> Self {
        Self { name: name.to_owned(), dtype, shape, unranked: None }
    }

    /// One with as many axes as each run has.
    #[must_use]
    pub fn of_any_rank(name: &str, dtype: DType) -> Self {
        let shape = vec![SizeExpr::constant(1)];
        Self { name: name.to_owned(), dtype: DType::Sequence, shape, unranked: Some(dtype) }
    }

    /// The element type of what is given or taken.
    #[must_use]
    pub fn element_type(&self) -> DType {
        self.unranked.unwrap_or(self.dtype)
    }

    /// `f32[N, 3, 224, 224]`, symbols by name; `f32[..]` with any number of axes.
    #[must_use]
    pub fn type_text(&self, symbol_names: &[&str]) -> String {
        if let Some(dtype) = self.unranked {
            return format!("{dtype}[..]");
        }
        let dims: Vec<String> = self.shape.iter().map(|dim| dim.to_text(symbol_names)).collect();
        format!("{}[{}]", self.dtype, dims.join(", "))
    }
}

/// A dim, or another number, known only at run time, and the values it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolSpec {
    /// The ONNX `dim_param`, or `INPUT[AXIS]`; of what is not a dim, a description.
    pub name: String,
    /// The smallest value allowed; not negative for dims.
    pub min: i64,
    /// The largest value allowed; `None` for no limit.
    pub max: Option<i64>,
}

impl SymbolSpec {
    /// The value allowed that is nearest to a number.
    #[must_use]
    pub fn nearest(&self, value: i64) -> i64 {
        value.max(self.min).min(self.max.unwrap_or(i64::MAX))
    }
}

/// How a symbol gets its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Index into [`Entry::symbols`].
    pub symbol: u32,
    /// Where the value comes from.
    pub source: BindingSource,
}

/// Where the value of a symbol comes from. The order of the variants is part of the file format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingSource {
    /// One axis of one input. The dim there is the symbol itself, or what an assumption says that it is equal to.
    Axis {
        /// Index into [`Entry::inputs`].
        input: u32,
        /// Axis of that input.
        axis: u32,
    },
    /// An element of an input, as an integer: floats are truncated toward zero.
    Element {
        /// Index into [`Entry::inputs`].
        input: u32,
        /// Position in row-major order.
        index: u32,
    },
    /// An expression of symbols that are bound before, or by a step of the Program; then it is computed after that step.
    Computed(SizeExpr),
    /// One axis of an input that is a state.
    State {
        /// Index into [`Entry::inputs`].
        input: u32,
        /// Axis of that input.
        axis: u32,
        /// The extent that a state begins with, of symbols that are bound before.
        begin: SizeExpr,
    },
    /// The number within the symbol's range that is nearest to an element of an input of integers.
    Nearest {
        /// Index into [`Entry::inputs`].
        input: u32,
        /// Position in row-major order.
        index: u32,
    },
}

/// An output whose value is an input of the next run. Both are of one type and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePair {
    /// Index into [`Entry::outputs`].
    pub output: u32,
    /// Index into [`Entry::inputs`].
    pub input: u32,
    /// If both lie in the same memory, how; `None` if the session has memory for each and exchanges them after a run.
    pub append: Option<Append>,
}

/// Memory of a state that grows along one axis: a run leaves what is there and writes behind it. One that is full from the
/// beginning, as its extent there is its capacity, has elements replaced.
///
/// Input and output begin at the same address. Elements lie in row-major order of the shape whose extent along `axis`
/// is `capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The axis that grows.
    pub axis: u32,
    /// The largest extent there.
    pub capacity: u64,
}

/// How two sizes relate. The order of the variants is part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// They are the same.
    Equal,
    /// The first is at most the second.
    AtMost,
}

/// What the compiler took for granted of the symbols, since the model says it nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumption {
    /// What the sizes are, for people: `broadcast extents`.
    pub what: String,
    /// One size.
    pub left: SizeExpr,
    /// What must hold.
    pub relation: Relation,
    /// The other.
    pub right: SizeExpr,
    /// The ONNX nodes that need it.
    pub origins: Vec<String>,
}

/// One variant's place in the file; its [`VariantBody`](crate::VariantBody) is decoded only when chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantInfo {
    /// The target it was compiled for, such as `x86-64-v4+vnni`.
    pub target: String,
    /// Every feature of a processor, or of a GPU and its driver, that its code needs; see [`features`](crate::features).
    pub required_features: Vec<String>,
    /// Index of the section with Programs and kernel descriptions.
    pub program_section: u32,
    /// Index of the section with machine code, or PTX.
    pub code_section: u32,
}

/// How an artifact came to be; equal inputs give equal provenance (no times, no host names, no paths).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of infc that compiled it.
    pub infc_version: String,
    /// BLAKE3 of the model file (and its external data), in hexadecimal.
    pub model_hash: String,
    /// The model's own description of its maker.
    pub producer: String,
    /// The flags that influenced the result, in canonical order.
    pub flags: Vec<String>,
    /// Identifiers of the tuning records used.
    pub records: Vec<String>,
    /// Version of an external assembler that took part, if any.
    pub assembler: Option<String>,
}

/// A constant tensor, as it lies in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightRecord {
    /// Unique among the weights.
    pub name: String,
    /// The ONNX initializers it was made from.
    pub original_names: Vec<String>,
    /// The element type before packing and quantising.
    pub dtype: DType,
    /// The shape before packing.
    pub shape: Vec<u64>,
    /// Index of the section it lies in.
    pub section: u32,
    /// Start within the section, a multiple of 64.
    pub offset_bytes: u64,
    /// Stored length.
    pub len_bytes: u64,
    /// Hash of the stored bytes.
    pub hash: Hash,
    /// How it was made from the originals: `folded(…)`, `quantised(…)`; empty if taken as it was.
    pub recipe: String,
    /// Physical order, such as `panels[N/16][K][16]`; empty for row-major.
    pub layout: String,
    /// `raw`, or the name of the coding that must be undone at load.
    pub encoding: String,
}
