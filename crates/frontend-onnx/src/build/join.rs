//! Many values one after the other, each of an extent that only the run tells.
//!
//! The sum of so many extents, and where each part begins, are long expressions. So parts are put together in groups
//! first, and the extent of a group is a symbol of its own.

use super::{Builder, Result, is_long, var};
use crate::tracked::Tracked;
use infc_ir::index::Dim;

/// So many values are a group.
const GROUP: usize = 16;

impl Builder {
    /// The values one after the other along `axis`, if it takes groups to say their whole extent; it does not hold that
    /// other extents are equal, which is known already.
    pub(super) fn concat_in_groups(
        &mut self,
        inputs: &[&Tracked],
        axis: usize,
        whole: &Dim,
    ) -> Result<Option<Tracked>> {
        if inputs.len() <= GROUP || !is_long(whole) {
            return Ok(None);
        }
        let mut groups = Vec::new();
        for group in inputs.chunks(GROUP) {
            let joined = self.concat(group, axis)?;
            groups.push(self.named_along(&joined, axis)?);
        }
        self.concat(&groups.iter().collect::<Vec<_>>(), axis).map(Some)
    }

    /// The same value with a symbol for its extent along an axis.
    fn named_along(&mut self, x: &Tracked, axis: usize) -> Result<Tracked> {
        let mut shape = x.shape().to_vec();
        shape[axis] = self.named_extent("an extent of a concatenation", &shape[axis]);
        self.view(x, (0..shape.len()).map(var).collect(), shape)
    }
}
