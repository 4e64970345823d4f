//! How the parts of stages that a point of a root needs follow the root's axes.

use super::access::{Move, Step, cost, points_per_point};
use super::chooser::Chooser;
use super::tile::Tile;
use crate::schedule::reads::reads_neighbours;
use infc_ir::entity::{EntityId, StageId, VarId};

/// A stage that a root reads, and per value axis of it the root's axis that it moves along; `None` where the part that a point
/// needs is not a plain box of coordinates.
pub(super) type Followed = (StageId, Option<Vec<Option<usize>>>);

impl Chooser<'_> {
    /// For each axis of `root`, whether the part of `stage` that a point needs moves with it; `None` if that part is
    /// not a plain box of coordinates.
    pub(super) fn depends(
        &self,
        root: StageId,
        stage: StageId,
        memo: &mut Vec<Option<Option<Vec<Option<usize>>>>>,
    ) -> Option<Vec<Option<usize>>> {
        if let Some(known) = &memo[stage.index()] {
            return known.clone();
        }
        // Per value axis of `stage`: the axis of `root` it follows, or `None` for all of it.
        let rank = self.kernel.stages[stage].value_axes().count();
        let mut result: Option<Vec<Option<usize>>> = None;
        let mut possible = true;
        for reader in self.kernel.stages.ids().filter(|&r| r > stage && !self.inlined[r.index()]) {
            for access in self.accesses[reader.index()].iter().filter(|a| a.stage == Some(stage)) {
                let axes = || access.axes.iter().zip(&access.own).map(|(axis, own)| axis.or(*own));
                let through: Vec<Option<usize>> = if reader == root {
                    axes().collect()
                } else {
                    let Some(outer) = self.depends(root, reader, memo) else { continue };
                    let reader_stage = &self.kernel.stages[reader];
                    let value: Vec<usize> = reader_stage.value_axes().map(|(n, _)| n).collect();
                    let follow = |axis: usize| value.iter().position(|&v| v == axis).and_then(|p| outer[p]);
                    axes().map(|a| a.and_then(follow)).collect()
                };
                match &mut result {
                    None => result = Some(through),
                    Some(r) => {
                        for (a, b) in r.iter_mut().zip(through) {
                            if *a != b {
                                *a = None;
                            }
                        }
                    }
                }
            }
        }
        if result.as_ref().is_some_and(|r| r.len() != rank) {
            possible = false;
        }
        let axes: Vec<usize> = self.kernel.stages[stage].value_axes().map(|(n, _)| n).collect();
        if let Some(follow) = &mut result {
            for (position, axis) in axes.into_iter().enumerate() {
                if reads_neighbours(self.kernel, stage, VarId::from_index(axis)) {
                    follow[position] = None;
                }
            }
        }
        let answer = if possible { result } else { None };
        memo[stage.index()] = Some(answer.clone());
        answer
    }

    /// Points of a stage's axis that each point of the root's axis which it follows has to itself.
    pub(super) fn own_points(&self, root: StageId, root_axis: usize, stage: StageId, axis: usize) -> i64 {
        let extent = |stage: StageId, axis: usize| &self.kernel.stages[stage].axes[axis].extent;
        points_per_point(extent(stage, axis), extent(root, root_axis)).unwrap_or(1)
    }

    /// Whether the points of a root have several of a stage's to themselves.
    pub(super) fn has_own_points(&self, root: StageId, stage: StageId, follow: &[Option<usize>]) -> bool {
        let axes = self.kernel.stages[stage].value_axes().map(|(axis, _)| axis).zip(follow);
        axes.into_iter().any(|(axis, root_axis)| root_axis.is_some_and(|r| self.own_points(root, r, stage, axis) > 1))
    }

    /// The tile of a reduction, in terms of the axes of the root that reads it.
    pub(super) fn tile_through(&mut self, root: StageId, main: StageId, followed: &[Followed]) -> Tile {
        let follow = followed
            .iter()
            .find(|(id, _)| *id == main)
            .and_then(|(_, f)| f.clone())
            .expect("a stage in step follows the root");
        let root_moves = self.store_moves(root);
        let main_stage = &self.kernel.stages[main];
        let value: Vec<usize> = main_stage.value_axes().map(|(n, _)| n).collect();
        // Movement of the root's stores, along the reduction's axes.
        let mut store = vec![Move { step: Step::Zero, stride: Some(0) }; main_stage.axes.len()];
        let mut finishing = vec![None; main_stage.axes.len()];
        for (position, axis) in value.iter().enumerate() {
            if let Some(root_axis) = follow[position] {
                store[*axis] = root_moves[root_axis];
                finishing[*axis] = self.accesses[root.index()].iter().find_map(|a| a.periods[root_axis]);
            }
        }
        let axes = value.iter().zip(&follow);
        let own: i64 =
            axes.filter_map(|(&axis, root_axis)| Some(self.own_points(root, (*root_axis)?, main, axis))).product();
        let finishing_cost = cost(&self.kernel.stages[root]) / own.max(1) as f64;
        let tile = self.tile_to_finish(main, Some(store), self.extents(main), (finishing, finishing_cost));
        let to_root = |axis: usize| value.iter().position(|&v| v == axis).and_then(|p| follow[p]);
        let vector_axis = tile.vector_axis.and_then(to_root);
        let mut of_root = Tile {
            vector_axis,
            rows: tile.rows.iter().filter_map(|&(a, n)| to_root(a).map(|r| (r, n))).collect(),
            ..tile
        };
        if let (Some(axis), Some(root_axis)) = (tile.vector_axis, vector_axis) {
            let points = self.own_points(root, root_axis, main, axis);
            of_root.with_points_of_vectors((of_root.points_along_vectors() / points).max(1));
        }
        of_root
    }
}
