//! Special cases: the same model at fixed values of some of its dynamic dims, beside the one that takes all values.
//!
//! Some are asked for; others are there because the general graph cannot be for these values ([`left_out`]), or because most
//! runs have them ([`usual`]).

use crate::CompileError;
use infc_artifact::{Entry, FixedSymbol, Specialization};
use infc_frontend_onnx::proto::GraphProto;
use infc_frontend_onnx::{DimChoice, ImportError, ImportOptions};
use infc_ir::entity::{SymbolId, ValueId};
use infc_ir::graph::{
    Assumption, BROADCAST_EXTENTS, Definition, Graph, LOOKED_UP_POSITION, REPEATED_EXTENT, Relation, Requirement,
    SLICE_POSITION, SymbolSource,
};
use infc_ir::index::Dim;
use infc_ir::op::Op;
use infc_ir::symbol::Symbol;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// More would be more code than anybody wants in one file: each case is compiled for every target.
pub const MAX_SPECIAL_CASES: usize = 16;

/// Nodes of graphs for which cases that nobody has asked for cost little.
const FEW_NODES: usize = 100;

/// Values of dims by name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecialCase {
    /// Names of dims with the value that each has; none of the case that takes less for granted ([`differ`]).
    pub dims: Vec<(String, i64)>,
}

impl SpecialCase {
    /// The case in which one more dim has a value.
    pub(crate) fn with(&self, (name, value): (String, i64)) -> Self {
        let mut dims = self.dims.clone();
        dims.push((name, value));
        dims.sort();
        Self { dims }
    }
}

impl fmt::Display for SpecialCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dims.is_empty() {
            return f.write_str("extents that differ");
        }
        for (n, (name, value)) in self.dims.iter().enumerate() {
            write!(f, "{}{name}={value}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// The values wanted of each dim, those of one name together, each once; sorted.
pub(crate) fn values(wanted: &[(String, Vec<i64>)]) -> BTreeMap<&str, BTreeSet<i64>> {
    let mut values: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for (name, of_name) in wanted {
        values.entry(name).or_default().extend(of_name);
    }
    values.retain(|_, values| !values.is_empty());
    values
}

/// All combinations of the values of each dim, in one order whatever the order of the wishes.
///
/// # Errors
/// `compile::too-many-special-cases`.
pub(crate) fn cases(wanted: &[(String, Vec<i64>)]) -> Result<Vec<SpecialCase>, CompileError> {
    let values = values(wanted);
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let found = values.values().fold(1usize, |count, values| count.saturating_mul(values.len()));
    if found > MAX_SPECIAL_CASES {
        return Err(CompileError::TooManySpecialCases { found, limit: MAX_SPECIAL_CASES });
    }
    let mut cases = vec![SpecialCase::default()];
    for (name, values) in values {
        let with = |case: &SpecialCase, value: i64| {
            let mut case = case.clone();
            case.dims.push((name.to_owned(), value));
            case
        };
        cases = cases.iter().flat_map(|case| values.iter().map(|&value| with(case, value))).collect();
    }
    Ok(cases)
}

/// Fails unless the dims of a case are dynamic ones of the model as it was imported, and may have the values.
///
/// # Errors
/// `compile::unknown-special-case`, `compile::bad-special-case`.
pub(crate) fn check(graph: &Graph, case: &SpecialCase) -> Result<(), CompileError> {
    let symbols = graph.symbols.iter_enumerated().filter(|(id, _)| is_dim(graph, *id));
    let symbols: Vec<&Symbol> = symbols.map(|(_, symbol)| symbol).collect();
    for (name, value) in &case.dims {
        let Some(symbol) = symbols.iter().find(|symbol| symbol.name == *name) else {
            let known = symbols.iter().map(|symbol| format!("`{}`", symbol.name)).collect();
            return Err(CompileError::UnknownSpecialCase { dim: name.clone(), known });
        };
        if *value < symbol.min || symbol.max.is_some_and(|max| *value > max) {
            let max = symbol.max.map_or_else(String::new, |max| format!("={max}"));
            let reason = format!("`{name}` is in {}..{max}", symbol.min);
            return Err(CompileError::BadSpecialCase { case: case.to_string(), reason });
        }
    }
    Ok(())
}

/// Values of dims that a graph is not for, though the model may be. Where a `Squeeze` without axes has to leave an extent, the
/// graph requires that it is not 1, since there would be an axis less. Where extents of two dims are broadcast to each other,
/// it takes them to be equal, and either may be 1 instead; that is left to who asks for it unless the model [`is_small`].
pub(crate) fn left_out(graph: &Graph, is_small: bool) -> Vec<(String, i64)> {
    let name = |dim: &Dim| dim.as_symbol().filter(|&s| is_dim(graph, s)).map(|s| graph.symbols[s].name.clone());
    let squeezed = graph.requires.iter().filter(|requirement| !requirement.equal).flat_map(|requirement| {
        let sides = [(&requirement.left, &requirement.right), (&requirement.right, &requirement.left)];
        sides.into_iter().filter_map(|(dim, value)| Some((name(dim)?, value.as_const()?)))
    });
    let repeated = graph.assumptions.iter().filter(|a| is_small && is_broadcast(a)).flat_map(|assumption| {
        let both = name(&assumption.left).zip(name(&assumption.right));
        both.into_iter().flat_map(|(left, right)| [(left, 1), (right, 1)])
    });
    let mut found = Vec::new();
    for value in squeezed.chain(repeated) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// What the second import takes nothing of for granted, whatever the dims are.
const LESS: &[&str] = &[REPEATED_EXTENT, SLICE_POSITION, LOOKED_UP_POSITION];

/// Whether there may be runs in which extents that are broadcast to each other are not equal as the graph takes them to be, where
/// no value of a dim says so ([`left_out`]): one of them is 1, which may show after the run has begun. The model is imported once
/// more then, with less taken for granted, if it [`is_small`].
pub(crate) fn differ(graph: &Graph) -> bool {
    let is_case = |dim: &Dim| dim.as_symbol().is_some_and(|symbol| is_dim(graph, symbol));
    let differ =
        |a: &Assumption| LESS.contains(&&*a.what) || (is_broadcast(a) && !(is_case(&a.left) && is_case(&a.right)));
    graph.assumptions.iter().any(differ)
        || requires_within(graph, &|r| [BROADCAST_EXTENTS].iter().chain(LESS).any(|what| r.was(what)))
}

/// Whether a branch of a graph, or one within, requires something of this kind.
fn requires_within(graph: &Graph, is_kind: &dyn Fn(&Requirement) -> bool) -> bool {
    let within = |branch: &Graph| branch.requires.iter().any(is_kind) || requires_within(branch, is_kind);
    graph.order.iter().any(|&id| match &graph.nodes[id].op {
        Op::If(branches) => within(&branches.then) || within(&branches.otherwise),
        _ => false,
    })
}

/// Whether a model has few nodes, those of graphs within among them.
pub(crate) fn is_small(graph: &GraphProto) -> bool {
    fn nodes(graph: &GraphProto) -> usize {
        let within = graph.node.iter().flat_map(|node| &node.attribute);
        let within = within.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs));
        within.fold(graph.node.len(), |sum, graph| sum.saturating_add(nodes(graph)))
    }
    nodes(graph) <= FEW_NODES
}

/// Whether an assumption is that extents which are broadcast to each other are equal.
fn is_broadcast(assumption: &Assumption) -> bool {
    assumption.what == BROADCAST_EXTENTS && assumption.relation == Relation::Equal
}

/// The case that most runs of a decoder are, for who asks for none: one token more for one sequence, behind those in a
/// cache. Rows of products and of attention are one then, for which the general code is not made.
///
/// A cache is what an operator says is one ([`Graph::usual`]), or an input of three axes or more that is an output with more
/// behind it.
pub(crate) fn usual(graph: &Graph) -> SpecialCase {
    let mut dims: BTreeMap<String, i64> = graph.usual.iter().cloned().collect();
    let of_inputs = |dim: &Dim| dim.as_symbol().filter(|&symbol| is_dim(graph, symbol));
    for output in &graph.outputs {
        let Some(Grown { before, after, axis }) = grown(graph, output.value) else { continue };
        let more = after[axis].clone() - before[axis].clone();
        let grows = of_inputs(&before[axis]).is_some() && of_inputs(&more).is_some();
        if before.len() >= 3 && grows && more != before[axis] && graph.ty(output.value).dtype.is_float() {
            let batch = before.first().filter(|_| axis > 0);
            let symbols = batch.into_iter().chain([&more]).filter_map(of_inputs);
            dims.extend(symbols.map(|symbol| (graph.symbols[symbol].name.clone(), 1)));
        }
    }
    SpecialCase { dims: dims.into_iter().collect() }
}

/// An input with more behind it.
struct Grown<'g> {
    /// Its shape.
    before: &'g [Dim],
    /// That of both.
    after: &'g [Dim],
    axis: usize,
}

/// A value that is an input with more behind it, as it is or in a branch: exporters put decoders with a cache and without one
/// into one model.
fn grown(graph: &Graph, value: ValueId) -> Option<Grown<'_>> {
    let input = |graph: &Graph, value: ValueId| match graph.values[value].definition {
        Definition::Input(n) => Some(n as usize),
        Definition::Node(..) => None,
    };
    let of = |graph: &'_ Graph, value: ValueId| -> Option<(usize, ValueId, usize)> {
        let (_, node) = graph.producer(value)?;
        let Op::Concat(concat) = &node.op else { return None };
        Some((input(graph, *node.inputs.first()?)?, value, concat.axis))
    };
    if let Some((n, value, axis)) = of(graph, value) {
        return Some(Grown { before: &graph.port_type(&graph.inputs[n]).shape, after: &graph.ty(value).shape, axis });
    }
    let Definition::Node(id, output) = graph.values[value].definition else { return None };
    let node = &graph.nodes[id];
    let Op::If(branches) = &node.op else { return None };
    [&branches.then, &branches.otherwise].into_iter().find_map(|branch| {
        let (n, value, axis) = of(branch, branch.outputs.get(output as usize)?.value)?;
        // Behind the condition the inputs are those of the branches, which have the symbols of the graph around them.
        let outer = *node.inputs.get(n + 1)?;
        input(graph, outer)?;
        Some(Grown { before: &graph.ty(outer).shape, after: &branch.ty(value).shape, axis })
    })
}

/// Whether a symbol is an extent of an input.
fn is_dim(graph: &Graph, id: SymbolId) -> bool {
    matches!(graph.source(id), Some(SymbolSource::Axis { .. }))
}

/// Why a case is none of the general graph: who runs that one could not run this one. An output of any number of axes stays
/// one, and so does one of a known number.
pub(crate) fn unlike(general: &Graph, case: &Graph) -> Option<String> {
    let outputs = general.outputs.iter().zip(&case.outputs);
    let mut unlike = outputs.filter(|(port, other)| general.is_unranked(port) != case.is_unranked(other));
    unlike
        .next()
        .map(|(port, _)| format!("only in general, or only here, output `{}` has any number of axes", port.name))
}

/// How a case is imported.
pub(crate) fn import_options(general: &ImportOptions, case: &SpecialCase) -> ImportOptions {
    let mut options = general.clone();
    // A value within a range that is given, too, narrows it.
    options.dims.extend(case.dims.iter().map(|(name, value)| (name.clone(), DimChoice::Fixed(*value))));
    options
}

/// The error about a case that the model cannot be imported for, though it can be in general.
pub(crate) fn failed(case: &SpecialCase, error: &ImportError) -> CompileError {
    CompileError::BadSpecialCase { case: case.to_string(), reason: error.to_string() }
}

/// The entry of a case, as one that stands for another.
pub(crate) fn entry(entry: Entry, general: &Entry, case: &SpecialCase) -> Result<Entry, CompileError> {
    let symbol = |name: &str| general.symbols.iter().position(|symbol| symbol.name == name);
    let mut fixed = Vec::with_capacity(case.dims.len());
    for (name, value) in &case.dims {
        let symbol = symbol(name).ok_or_else(|| CompileError::Internal { what: format!("dim `{name}` is lost") })?;
        fixed.push(FixedSymbol { symbol: symbol as u32, value: *value });
    }
    fixed.sort_by_key(|fixed| fixed.symbol);
    let specializes = Some(Specialization { general: 0, fixed });
    Ok(Entry { name: format!("{}[{case}]", general.name), specializes, ..entry })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(values: &[(&str, &[i64])]) -> Vec<(String, Vec<i64>)> {
        values.iter().map(|(name, values)| ((*name).to_owned(), values.to_vec())).collect()
    }

    fn text(values: &[(&str, &[i64])]) -> Vec<String> {
        cases(&wanted(values)).expect("few").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cases_are_all_combinations_in_one_order() {
        assert_eq!(text(&[]), [""; 0]);
        assert_eq!(text(&[("N", &[8, 1])]), ["N=1", "N=8"]);
        assert_eq!(text(&[("N", &[1]), ("N", &[8, 1])]), ["N=1", "N=8"]);
        assert_eq!(text(&[("S", &[128]), ("N", &[8, 1])]), ["N=1,S=128", "N=8,S=128"]);
    }

    #[test]
    fn a_case_has_its_dims_in_order() {
        let case = SpecialCase::default().with(("S".to_owned(), 8)).with(("N".to_owned(), 1));
        assert_eq!(case.to_string(), "N=1,S=8");
    }

    #[test]
    fn too_many_are_refused() {
        let sixteen: Vec<i64> = (1..=16).collect();
        assert_eq!(text(&[("N", &sixteen)]).len(), 16);
        let error = cases(&wanted(&[("N", &sixteen), ("S", &[1, 2])])).expect_err("32 cases");
        assert_eq!(error.code(), "compile::too-many-special-cases");
        let all: Vec<(&str, &[i64])> = vec![("N", &sixteen); 3];
        assert_eq!(text(&all).len(), 16);
    }
}
