//! What of the places of asynchronous copies is the same in all turns of a loop, computed in front of it.
//!
//! Threads copy pieces of a tile in every turn, most often under the condition that there still is one, and an assembler takes
//! nothing out of a branch: it would compute addresses anew from the thread's coordinates on, for each piece, while tensor cores wait
//! for what is copied. So all that follows from coordinates and what is known in front of the loop becomes a register there, under the
//! same keys that the turns look for.

use crate::PtxError;
use crate::emitter::{Emitter, Key};
use crate::launch::is_thread;
use crate::memory::Place;
use infc_ir::entity::{BufferId, EntityId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::nest::{LoopKind, Stmt};

/// Whether statements copy asynchronously.
pub(crate) fn has_copies(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match stmt {
        Stmt::AsyncCopy { .. } => true,
        Stmt::For { body, .. } => has_copies(body),
        Stmt::If { then, otherwise, .. } => has_copies(then) || has_copies(otherwise),
        _ => false,
    })
}

impl Emitter<'_> {
    /// Prints, in front of a loop, what is the same in all of its turns; in the current scope, which has to end with the loop.
    /// Until then, what is known now is taken as fixed.
    pub(crate) fn hoist(&mut self, body: &[Stmt]) -> Result<(), PtxError> {
        self.name_coordinates(body)?;
        self.fixed = self.vars.iter().map(Option::is_some).collect();
        self.hoist_places(body)
    }

    /// Gives coordinates of threads, and what follows from them and from what is known, a value.
    fn name_coordinates(&mut self, stmts: &[Stmt]) -> Result<(), PtxError> {
        for stmt in stmts {
            match stmt {
                Stmt::For { var, kind, body, .. } => {
                    if let (LoopKind::Bound(dim), None) = (kind, self.vars[var.index()])
                        && is_thread(*dim)
                    {
                        self.bind(*var, *dim);
                    }
                    if has_copies(body) {
                        self.name_coordinates(body)?;
                    }
                }
                Stmt::If { then, otherwise, .. } => {
                    self.name_coordinates(then)?;
                    self.name_coordinates(otherwise)?;
                }
                Stmt::Let { value, .. } if self.is_known(&self.resolve(value)) => self.stmt(stmt)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn hoist_places(&mut self, stmts: &[Stmt]) -> Result<(), PtxError> {
        for stmt in stmts {
            match stmt {
                Stmt::For { body, .. } => self.hoist_places(body)?,
                Stmt::If { then, otherwise, .. } => {
                    self.hoist_places(then)?;
                    self.hoist_places(otherwise)?;
                }
                Stmt::AsyncCopy { target, source, valid, .. } => {
                    for bound in valid {
                        for side in [&bound.expr, &bound.lo, &bound.hi] {
                            self.hoist_parts(&self.resolve(side))?;
                        }
                    }
                    for place in [target, source] {
                        self.hoist_place(place.buffer, &place.index)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Quotients and remainders of what is known, in an expression that is not known as a whole.
    fn hoist_parts(&mut self, expr: &IndexExpr) -> Result<(), PtxError> {
        for term in expr.terms() {
            for atom in &term.atoms {
                if let Atom::FloorDiv(parts) | Atom::Mod(parts) = atom {
                    let whole = IndexExpr::from(atom.clone());
                    if self.is_known(&whole) {
                        self.index(&whole)?;
                    } else {
                        self.hoist_parts(&parts.0)?;
                    }
                }
            }
        }
        let (known, _) = self.split_known(expr);
        if known.terms().len() > 1 {
            self.index(&known)?;
        }
        Ok(())
    }

    fn hoist_place(&mut self, id: BufferId, index: &IndexExpr) -> Result<(), PtxError> {
        let index = self.resolve(index);
        let buffer = &self.nest.buffers[id];
        let Some(Place::Memory { base, .. }) = self.places[id.index()] else { return Ok(()) };
        let Some(size) = buffer.dtype.size_bytes() else { return Ok(()) };
        if let Some(rows) = self.rows(id) {
            return self.hoist_swizzled(id, &index, size as i64, rows);
        }
        self.hoist_parts(&index)?;
        let (known, _) = self.split_known(&index);
        let key = Key::Address(id, known.clone());
        if !known.is_const(0) && self.cached(&key).is_none() {
            let at = self.advance(base, &known, size as i64)?;
            self.cache(key, at);
        }
        Ok(())
    }

    /// Whether an expression follows from variables that are known, or from those that are fixed while a loop is printed.
    pub(crate) fn is_known(&self, expr: &IndexExpr) -> bool {
        let mut known = true;
        expr.for_each_atom(&mut |atom| {
            if let Atom::Var(var) = atom {
                known &= self.vars[var.index()].is_some() && self.fixed.get(var.index()).is_none_or(|&fixed| fixed);
            }
        });
        known
    }

    /// The terms of an expression that are fixed, and all others with the constant part.
    pub(crate) fn split_known(&self, expr: &IndexExpr) -> (IndexExpr, IndexExpr) {
        if self.fixed.is_empty() {
            return (IndexExpr::constant(0), expr.clone());
        }
        expr.partition(|term| self.is_known(term))
    }
}
