//! Growing groups: who takes in whom, and who is refused.

use super::{Group, Grouping, Home, Tail, Unit, identity};
use crate::form::bijection::{bijection, reads_once};
use crate::graph::movement;
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, NodeId, ValueId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::Op;
use std::collections::BTreeSet;

impl Grouping<'_> {
    /// True if only the unit reads the value, directly or through views.
    fn is_sole_reader(&self, value: ValueId, unit: Unit) -> bool {
        let mut work = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(value) = work.pop() {
            if self.readers.is_output(value) {
                return false;
            }
            for &reader in self.readers.nodes(value) {
                let reading_unit = self.flat.region(reader).map_or(Unit::Node(reader), Unit::Region);
                if reading_unit == unit {
                    continue;
                }
                let node = &self.flat.graph.nodes[reader];
                if self.flat.region(reader).is_some() || !matches!(node.op, Op::View(_)) {
                    return false;
                }
                if seen.insert(reader) {
                    work.extend(&node.outputs);
                }
            }
        }
        true
    }

    /// A map, a look-up, or a composite of such.
    pub(super) fn pointwise(&mut self, unit: Unit) {
        let outputs = self.unit_outputs(unit);
        let mut nodes = self.unit_nodes(unit);
        if nodes.iter().any(|node| self.flat.apart.contains(node)) {
            self.begin(None, &nodes, &outputs);
            return;
        }
        let shape = self.flat.graph.ty(outputs[0]).shape.clone();
        let mut chosen: Option<(usize, AccessMap)> = None;
        let mut taken = Vec::new();
        let mut together = nodes.clone();
        let first = nodes[0];
        let elementwise = self.is_elementwise(unit, &shape);
        for (root, maps) in self.accesses(unit) {
            let Some(id) = self.sole_group(root, first) else { continue };
            if !self.is_sole_reader(root, unit) {
                self.refuse(first, "what it reads is also needed elsewhere");
                continue;
            }
            let Some(group) = &self.groups[id] else { continue };
            if !self.fits_a_kernel(&together, &group.nodes) {
                self.refuse(first, "the kernel would be too large");
                continue;
            }
            let operand = &self.flat.graph.ty(root).shape;
            if !elementwise {
                self.refuse(first, "a composite mixes its points");
            } else if group.anchor.is_none() {
                if maps.len() == 1 && reads_once(&maps[0], &shape, operand) {
                    together.extend(&group.nodes);
                    taken.push(id);
                } else {
                    self.refuse(first, "what it reads would be computed more than once per element");
                }
            } else if maps.len() != 1 || !self.can_follow(group, &maps[0], &shape, operand) {
                self.refuse(first, "the view between is not a renaming of coordinates");
            } else if chosen.as_ref().is_none_or(|(best, _)| *best < id) {
                together.extend(&group.nodes);
                chosen = Some((id, maps.into_iter().next().unwrap_or_else(|| AccessMap::identity(0))));
            } else {
                self.refuse(first, "it follows another contraction or reduction already");
            }
        }
        for id in taken {
            nodes.extend(self.dissolve(id));
        }
        match chosen.filter(|(id, _)| self.joins(*id, &nodes)) {
            Some((id, map)) => self.follow(id, &map, &nodes, &outputs),
            None => {
                self.begin(None, &nodes, &outputs);
            }
        }
    }

    /// What a contraction among some nodes multiplies in the end: what they convert for it is a factor as it was.
    fn factor(&self, value: ValueId, nodes: &[NodeId]) -> ValueId {
        let (root, _) = self.trace(value);
        match self.flat.graph.producer(root) {
            Some((id, node)) if nodes.contains(&id) && node.inputs.len() == 1 && matches!(node.op, Op::Map(_)) => {
                self.factor(node.inputs[0], nodes)
            }
            _ => root,
        }
    }

    /// True if every point of the unit reads its operands at its own coordinates only.
    fn is_elementwise(&self, unit: Unit, shape: &[Dim]) -> bool {
        let graph = &self.flat.graph;
        let Unit::Region(region) = unit else { return true };
        self.flat.regions[region].nodes.iter().all(|&n| {
            let node = &graph.nodes[n];
            match &node.op {
                Op::Map(_) => graph.ty(node.outputs[0]).shape == shape,
                Op::View(_) => {
                    let (root, _) = self.trace(node.inputs[0]);
                    matches!(graph.producer(root), Some((_, n)) if matches!(n.op, Op::Constant(_) | Op::DimValue(_)))
                }
                _ => false,
            }
        })
    }

    /// What a unit reads in the end, and through which different maps.
    fn accesses(&self, unit: Unit) -> Vec<(ValueId, Vec<AccessMap>)> {
        let mut accesses: Vec<(ValueId, Vec<AccessMap>)> = Vec::new();
        for input in self.unit_inputs(unit) {
            let (root, map) = self.trace(input);
            match accesses.iter_mut().find(|(r, _)| *r == root) {
                None => accesses.push((root, vec![map])),
                Some((_, maps)) if maps.contains(&map) => {}
                Some((_, maps)) => maps.push(map),
            }
        }
        accesses
    }

    pub(super) fn can_follow(&self, group: &Group, map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> bool {
        let Some(bijection) = bijection(map, shape, operand) else { return false };
        // The kernel of a recurrence is that of its body.
        if matches!(group.anchor, Some(Unit::Node(n)) if matches!(self.flat.graph.nodes[n].op, Op::Recurrence(_))) {
            return false;
        }
        let tail = &group.tails[0];
        let is_plain = tail.index == identity(tail.space.len());
        let is_scan = matches!(group.anchor, Some(Unit::Node(n))
            if matches!(self.flat.graph.nodes[n].op, Op::Scan(_)));
        bijection.inverse.is_some() || (bijection.forward_is_affine && is_plain && !is_scan)
    }

    /// Makes the group write `outputs`, which read its present value through `map`.
    pub(super) fn follow(&mut self, id: usize, map: &AccessMap, nodes: &[NodeId], outputs: &[ValueId]) {
        let shape = self.flat.graph.ty(outputs[0]).shape.clone();
        let symbols = &self.flat.graph.symbols;
        let Some(group) = &mut self.groups[id] else { return };
        let old = group.tails.remove(0);
        let operand = &self.flat.graph.ty(old.value).shape;
        self.homes[old.value.index()] = None;
        let inverse = bijection(map, &shape, operand).and_then(|b| b.inverse);
        let (space, index) = match inverse {
            Some(inverse) => {
                let ranges = movement::ranges(symbols, &old.space);
                let through = |e: &IndexExpr| e.substitute_vars(&old.index).simplify(&ranges);
                (old.space, inverse.iter().map(through).collect())
            }
            None => {
                let ranges = movement::ranges(symbols, &shape);
                for coordinate in &mut group.anchor_coords {
                    *coordinate = coordinate.substitute_vars(&map.index).simplify(&ranges);
                }
                (shape.clone(), identity(shape.len()))
            }
        };
        for &value in outputs {
            group.tails.push(Tail { value, space: space.clone(), index: index.clone() });
            self.homes[value.index()] = Some(Home::Group(id));
        }
        group.nodes.extend_from_slice(nodes);
    }

    /// A reduction, scan, or composite with such: takes in what it reads if it needs each element once.
    pub(super) fn reduction(&mut self, unit: Unit) {
        let outputs = self.unit_outputs(unit);
        let mut nodes = self.unit_nodes(unit);
        let mut together = nodes.clone();
        let first = nodes[0];
        let mut taken = Vec::new();
        let is_region = matches!(unit, Unit::Region(_));
        let multiplied: Vec<ValueId> = nodes
            .iter()
            .map(|&n| &self.flat.graph.nodes[n])
            .filter(|node| matches!(node.op, Op::Contract(_)))
            .flat_map(|node| node.inputs.iter().map(|&v| self.factor(v, &nodes)))
            .collect();
        for (root, maps) in self.accesses(unit) {
            let Some(id) = self.sole_group(root, first) else { continue };
            if !self.is_sole_reader(root, unit) {
                self.refuse(first, "what it reads is also needed elsewhere");
                continue;
            }
            if multiplied.contains(&root) {
                self.refuse(first, "a contraction reads what it reads again and again");
                continue;
            }
            let Some(group) = &self.groups[id] else { continue };
            let small = self.fits_a_kernel(&together, &group.nodes);
            let input_shape = |map: &AccessMap| {
                // The unit's operand has as many axes as the map takes coordinates.
                self.unit_inputs(unit)
                    .into_iter()
                    .find(|&v| self.trace(v) == (root, map.clone()))
                    .map(|v| self.flat.graph.ty(v).shape.clone())
            };
            let operand = &self.flat.graph.ty(root).shape;
            let once =
                maps.len() == 1 && input_shape(&maps[0]).is_some_and(|shape| reads_once(&maps[0], &shape, operand));
            // A composite may read it several times: it becomes a stage, if it is not much smaller than its reader.
            let len = |shape: &[Dim]| shape.iter().cloned().product::<Dim>();
            let whole =
                is_region && maps.iter().all(|m| input_shape(m).is_some_and(|shape| len(&shape) == len(operand)));
            if group.anchor.is_some() {
                self.refuse(first, "what it reads is computed by a contraction or reduction of its own");
            } else if !small {
                self.refuse(first, "the kernel would be too large");
            } else if !(whole || once) {
                self.refuse(first, "what it reads would be computed more than once per element");
            } else {
                together.extend(&group.nodes);
                taken.push(id);
            }
        }
        let unit_nodes = nodes.clone();
        for id in taken {
            if self.joins(id, &unit_nodes) {
                nodes.extend(self.dissolve(id));
            }
        }
        self.begin(Some(unit), &nodes, &outputs);
    }
}
