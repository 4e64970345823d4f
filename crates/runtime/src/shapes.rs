//! A list of shapes in one piece of memory, which can be filled again and again without asking for more.

/// Shapes, by number.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// Extents of all, one after the other.
    extents: Vec<usize>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Shapes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.extents.clear();
        self.ends.clear();
    }

    /// Adds a shape; gives its number.
    ///
    /// # Errors
    /// The first of its extents that is one; there is no such shape then.
    pub(crate) fn push<E>(&mut self, extents: impl Iterator<Item = Result<usize, E>>) -> Result<usize, E> {
        let start = self.extents.len();
        for extent in extents {
            match extent {
                Ok(extent) => self.extents.push(extent),
                Err(error) => {
                    self.extents.truncate(start);
                    return Err(error);
                }
            }
        }
        self.ends.push(self.extents.len());
        Ok(self.ends.len() - 1)
    }

    /// The shape of a number that [`Shapes::push`] has given.
    pub(crate) fn get(&self, number: usize) -> &[usize] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.extents[start..self.ends[number]]
    }
}
