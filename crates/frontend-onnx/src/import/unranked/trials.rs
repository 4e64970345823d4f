//! What a node gives, found out by importing it into graphs that are thrown away.

use super::super::Importer;
use super::super::held::is_value;
use crate::build::Builder;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host::unranked::Outcome;
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::{Contents, Tracked};
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use std::collections::HashMap;

/// A node is tried with up to so many axes, and lists of as many elements. What is found to be the only number of axes that makes
/// sense is checked when the model runs.
pub(in crate::import) const MOST_AXES: usize = 8;

/// Trials of a node.
pub(super) struct Trials {
    /// The inputs that were given one number of axes after the other, or one length.
    open: Vec<usize>,
    /// What was tried, a number per open input, and what came of it.
    all: Vec<(Vec<usize>, Trial)>,
    /// Whether all combinations were tried.
    is_whole: bool,
}

/// What a node gives if its inputs are of some numbers of axes.
enum Trial {
    Gives(Vec<Outcome>),
    /// It is no valid node then.
    Impossible(Problem),
    /// It may be one that cannot be told.
    Untold(Problem),
}

impl Trial {
    fn of(outcome: Result<Vec<Tracked>, ImportError>, build: &Builder) -> Result<Self, ImportError> {
        match outcome {
            Ok(outputs) => Ok(Self::Gives(outputs.iter().map(|output| outcome_of(output, build)).collect())),
            Err(ImportError::Node { problem, .. }) if problem.is_contradiction() => Ok(Self::Impossible(problem)),
            Err(ImportError::Node { problem, .. }) => Ok(Self::Untold(problem)),
            Err(other) => Err(other),
        }
    }
}

/// What a trial shows of an output; bounds only where nothing was taken for granted.
fn outcome_of(output: &Tracked, build: &Builder) -> Outcome {
    // What follows from the bounds of stand-ins says nothing.
    const MOST: i64 = 1 << 16;
    let ranges = build.ranges();
    let is_certain = build.graph.assumptions.is_empty() && build.graph.requires.is_empty();
    let bounds = |extent: &Dim| match extent.as_const() {
        Some(extent) => (extent, Some(extent)),
        None if is_certain => {
            let interval = ranges.interval(extent);
            (interval.min.unwrap_or(0).max(0), interval.max.filter(|&max| max < MOST))
        }
        None => (0, None),
    };
    let bounds = if output.is_unranked() { Vec::new() } else { output.shape().iter().map(bounds).collect() };
    Outcome { of: Element::of_value(output), bounds }
}

impl<'m> Importer<'m, '_> {
    /// What comes of a node with each number of axes, and each length, that open inputs may have; with more than two of them,
    /// only where all have the same, without any with two extents for all that are not known.
    pub(super) fn trials(
        &mut self,
        graph: &'m GraphProto,
        index: usize,
        node_ref: &NodeRef,
        inputs: &[Option<Tracked>],
    ) -> Result<Trials, ImportError> {
        let open = open(&graph.node[index], inputs);
        // Trials within trials are fewer.
        let is_inner = self.scopes.build().is_trial;
        let is_whole = open.len() < if is_inner { 2 } else { 3 };
        let counts: Vec<Vec<usize>> = match open.len() {
            0 if is_inner => Vec::new(),
            // Of the extents that are not known.
            0 => vec![vec![1], vec![2]],
            2 if is_whole => (0..=MOST_AXES).flat_map(|a| (0..=MOST_AXES).map(move |b| vec![a, b])).collect(),
            n => (0..=MOST_AXES).map(|count| vec![count; n]).collect(),
        };
        let mut all = Vec::with_capacity(counts.len());
        for counts in counts {
            self.scopes.begin_trial();
            let stand_ins = self.stand_ins(&graph.node[index], inputs, &open, &counts);
            let outcome = stand_ins
                .map_err(|problem| ImportError::Node { node: Box::new(node_ref.clone()), problem })
                .and_then(|stand_ins| self.operator(graph, index, node_ref, stand_ins));
            let trial = Trial::of(outcome, self.scopes.build());
            self.scopes.end_trial();
            all.push((counts, trial?));
        }
        Ok(Trials { open, all, is_whole })
    }

    /// Inputs of a graph that is thrown away, for those of a node.
    fn stand_ins(
        &mut self,
        node: &NodeProto,
        inputs: &[Option<Tracked>],
        open: &[usize],
        counts: &[usize],
    ) -> Result<Vec<Option<Tracked>>, Problem> {
        let build = self.scopes.build();
        let mut stand_ins = Vec::with_capacity(inputs.len());
        for (n, input) in inputs.iter().enumerate() {
            // A value that is read twice is the same value.
            let same = |position: &usize| node.input.get(*position) == node.input.get(n);
            let count = open.iter().position(same).and_then(|at| counts.get(at)).copied();
            stand_ins.push(match (input, count) {
                (None, _) => None,
                (Some(input), Some(rank)) if input.is_unranked() => {
                    let of = Element { shape: Some(vec![None; rank]), ..Element::of_value(input) };
                    Some(build.stand_in(&format!("x{n}"), &of)?)
                }
                (Some(input), Some(len)) => {
                    let ty = TensorType::new(input.dtype(), vec![Dim::constant(len as i64)]);
                    Some(build.input(&format!("x{n}"), ty)?)
                }
                (Some(input), None) => Some(match input.in_another_graph() {
                    Some(known) => known,
                    None if open.is_empty() => {
                        let extent = counts.first().map(|&extent| extent as i64);
                        let of = Element::of_value(input);
                        let shape = of.shape.map(|shape| shape.into_iter().map(|known| known.or(extent)).collect());
                        build.stand_in(&format!("x{n}"), &Element { shape, ..of })?
                    }
                    None => build.input(&format!("x{n}"), input.ty().clone())?.standing_for(input),
                }),
            });
        }
        Ok(stand_ins)
    }
}

impl Trials {
    /// The inputs that have one number of axes alone for which a node makes sense, of those that have any.
    pub(super) fn only_ranks(&self, inputs: &[Option<Tracked>]) -> Vec<(usize, usize)> {
        if !self.is_whole {
            return Vec::new();
        }
        let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
        for (counts, _) in self.all.iter().filter(|(_, trial)| !matches!(trial, Trial::Impossible(_))) {
            for (&position, &count) in self.open.iter().zip(counts) {
                let possible = found.entry(position).or_default();
                if !possible.contains(&count) {
                    possible.push(count);
                }
            }
        }
        let is_unranked = |position: usize| inputs[position].as_ref().is_some_and(Tracked::is_unranked);
        let only = |&position: &usize| match found.get(&position).map(Vec::as_slice) {
            Some(&[rank]) if is_unranked(position) => Some((position, rank)),
            _ => None,
        };
        self.open.iter().filter_map(only).collect()
    }

    /// What all agree on of an output; `None` if none says anything.
    pub(super) fn agreed(&self, output: usize) -> Option<Outcome> {
        let of = |limit: usize| {
            let mut known: Option<Outcome> = None;
            for (_, trial) in self.all.iter().filter(|(counts, _)| counts.iter().all(|&count| count <= limit)) {
                if let Trial::Gives(outputs) = trial {
                    let found = outputs.get(output)?;
                    known = Some(match known {
                        Some(known) => joined(&known, found)?,
                        None => found.clone(),
                    });
                }
            }
            known
        };
        let (mut known, fewer) = (of(MOST_AXES)?, of(MOST_AXES - 1));
        let is_told = self.is_whole && !self.all.iter().any(|(_, trial)| matches!(trial, Trial::Untold(_)));
        if !is_told {
            // What is no tensor has one axis.
            known.of.shape = is_value(known.of.dtype).then(|| vec![None]);
            known.bounds.clear();
        } else if self.open.is_empty() {
            // Other extents have not been tried.
            known.of.shape = known.of.shape.map(|shape| vec![None; shape.len()]);
            known.bounds.clear();
        }
        // What changes with the greatest number that was tried would change further.
        let fewer = fewer.map(|fewer| fewer.bounds).unwrap_or_default();
        for (axis, (min, max)) in known.bounds.iter_mut().enumerate() {
            let (least, most) = fewer.get(axis).copied().unwrap_or((0, None));
            *min = if least == *min { *min } else { 0 };
            *max = max.filter(|_| most == *max);
        }
        Some(known)
    }

    /// What was wrong: what keeps a valid node from being imported, if something does. That extents do not fit which were made up
    /// says nothing.
    pub(super) fn first_problem(&self) -> Option<Problem> {
        if self.open.is_empty() {
            return None;
        }
        let untold = self.all.iter().find_map(|(_, trial)| match trial {
            Trial::Untold(problem) => Some(problem),
            Trial::Gives(_) | Trial::Impossible(_) => None,
        });
        let impossible = self.all.iter().find_map(|(_, trial)| match trial {
            Trial::Impossible(problem) => Some(problem),
            Trial::Gives(_) | Trial::Untold(_) => None,
        });
        untold.or(impossible).cloned()
    }
}

/// What is true of both; `None` if nothing is.
fn joined(a: &Outcome, b: &Outcome) -> Option<Outcome> {
    let both = a.bounds.iter().zip(&b.bounds);
    let bounds = both.map(|(a, b)| (a.0.min(b.0), a.1.zip(b.1).map(|(a, b)| a.max(b)))).collect();
    Some(Outcome { of: a.of.join(&b.of).ok()?, bounds })
}

/// The inputs that have any number of axes; if there are none, lists of integers of which not even the length is known.
fn open(node: &NodeProto, inputs: &[Option<Tracked>]) -> Vec<usize> {
    let is_first = |n: usize| node.input.iter().position(|name| Some(name) == node.input.get(n)) == Some(n);
    let all = |holds: &dyn Fn(&Tracked) -> bool| -> Vec<usize> {
        (0..inputs.len()).filter(|&n| is_first(n) && inputs[n].as_ref().is_some_and(holds)).collect()
    };
    let is_list = |input: &Tracked| match input.shape() {
        [len] => input.dtype().is_int() && len.as_const().is_none() && *input.contents() == Contents::Unknown,
        _ => false,
    };
    let unranked = all(&Tracked::is_unranked);
    if unranked.is_empty() { all(&is_list) } else { unranked }
}
