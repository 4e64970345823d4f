//! Index expressions to integer values and addresses.

use super::{Lower, LowerError, VarValue};
use crate::vir::{Convert, Elem, I64, Type, Value};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::{Atom, IndexExpr, Term};

/// How an index depends on the lane.
pub(super) enum LaneForm {
    /// Not at all.
    Uniform(IndexExpr),
    /// Lane `l` is at `rest + step·l`.
    Strided { rest: IndexExpr, step: i64 },
    /// Anything else.
    Irregular(IndexExpr),
}

impl Lower<'_> {
    /// The expression with constant variables put in, simplified.
    pub(super) fn resolve(&self, e: &IndexExpr) -> IndexExpr {
        let mut constants = false;
        e.for_each_atom(&mut |atom| {
            if let Atom::Var(v) = atom {
                constants |= matches!(self.vars[v.index()], Some(VarValue::Const(_)));
            }
        });
        if !constants {
            return e.clone();
        }
        e.substitute(&|atom| match atom {
            Atom::Var(v) => match self.vars[v.index()] {
                Some(VarValue::Const(c)) => Some(IndexExpr::constant(c)),
                _ => None,
            },
            _ => None,
        })
        .simplify(&self.ranges)
    }

    /// Splits a resolved expression by its dependence on the lane.
    pub(super) fn lane_form(&self, e: IndexExpr) -> LaneForm {
        let Some(lane) = self.lane else { return LaneForm::Uniform(e) };
        if !e.uses_var(lane.var) {
            return LaneForm::Uniform(e);
        }
        if let Some((coefficient, rest)) = e.linear_in(lane.var)
            && let Some(step) = coefficient.as_const()
        {
            return LaneForm::Strided { rest, step };
        }
        LaneForm::Irregular(e)
    }

    /// Where lane 0 of an irregular index is, and a vector of how far the others are from there. Distances that are the
    /// same everywhere are constants; else all is in the vector.
    pub(super) fn irregular(&mut self, e: IndexExpr) -> Result<(IndexExpr, Value), LowerError> {
        let lane = self.lane.expect("lanes > 1");
        let at = |n: u16| {
            let number = |atom: &Atom| match atom {
                Atom::Var(v) if *v == lane.var => Some(IndexExpr::constant(i64::from(n))),
                _ => None,
            };
            e.substitute(&number).simplify(&self.ranges)
        };
        let first = at(0);
        let distance = |n: u16| (at(n) - first.clone()).as_const().filter(|&d| i32::try_from(d).is_ok());
        let distances: Option<Vec<i64>> = (0..lane.lanes).map(distance).collect();
        match distances {
            Some(distances) => Ok((first, self.b.lanes(Type::vector(Elem::I32, lane.lanes), &distances))),
            None => Ok((IndexExpr::constant(0), self.index_vector(&e)?)),
        }
    }

    /// The value of a resolved expression that does not depend on the lane.
    pub(super) fn index_value(&mut self, e: &IndexExpr) -> Result<Value, LowerError> {
        let sum = self.sum(None, e, 1)?;
        let constant = self.b.iconst(e.constant_part());
        Ok(match sum {
            Some(sum) => self.b.add(sum, constant),
            None => constant,
        })
    }

    /// `start + scale·(terms of e)`, without e's constant part, adding what is defined furthest out first, so that
    /// partial sums stay outside inner loops.
    fn sum(&mut self, start: Option<Value>, e: &IndexExpr, scale: i64) -> Result<Option<Value>, LowerError> {
        let mut parts = Vec::new();
        for term in e.terms() {
            parts.push(self.term(term, scale)?);
        }
        parts.sort_by_key(|&v| self.b.depth(v));
        Ok(parts.into_iter().fold(start, |sum, part| Some(sum.map_or(part, |s| self.b.add(s, part)))))
    }

    fn term(&mut self, term: &Term, scale: i64) -> Result<Value, LowerError> {
        let mut factors = Vec::new();
        for atom in &term.atoms {
            factors.push(self.atom(atom)?);
        }
        factors.sort_by_key(|&v| self.b.depth(v));
        let coefficient = term.coefficient.saturating_mul(scale);
        let product = factors.into_iter().reduce(|p, f| self.b.mul(p, f)).expect("a term has atoms");
        let by = self.b.iconst(coefficient);
        Ok(self.b.mul(product, by))
    }

    fn atom(&mut self, atom: &Atom) -> Result<Value, LowerError> {
        match atom {
            Atom::Symbol(s) => Ok(self.symbols[s.index()]),
            Atom::Var(v) => self.var(*v),
            Atom::FloorDiv(p) | Atom::Mod(p) => {
                let (a, d) = (self.index_value(&p.0)?, self.index_value(&p.1)?);
                let quotient = self.floor_div(a, d, p);
                if matches!(atom, Atom::FloorDiv(_)) {
                    return Ok(quotient);
                }
                let whole = self.b.mul(quotient, d);
                Ok(self.b.sub(a, whole))
            }
            Atom::Min(p) => {
                let (a, b) = (self.index_value(&p.0)?, self.index_value(&p.1)?);
                Ok(self.b.min(a, b))
            }
            Atom::Max(p) => {
                let (a, b) = (self.index_value(&p.0)?, self.index_value(&p.1)?);
                Ok(self.b.max(a, b))
            }
        }
    }

    /// Division rounding down by a positive divisor; of scalars or of vectors that have the values of `of`.
    fn floor_div(&mut self, a: Value, d: Value, of: &(IndexExpr, IndexExpr)) -> Value {
        let at_least = |e: &IndexExpr, value| self.ranges.interval(e).min.is_some_and(|min| min >= value);
        let (not_negative, positive) = (at_least(&of.0, 0), at_least(&of.1, 1));
        // Divisions move out of loops, also out of those over axes without elements, whose extents are divisors.
        let d = if positive {
            d
        } else {
            let one = self.b.constant(self.b.ty(d), 1);
            self.b.max(d, one)
        };
        if not_negative {
            return self.b.div_u(a, d);
        }
        // Truncating division is one too much for negative numbers that do not divide.
        let quotient = self.b.div(a, d);
        let whole = self.b.mul(quotient, d);
        let below = self.b.compare(crate::vir::Cond::Lt, a, whole);
        let ty = self.b.ty(a);
        let one = self.b.constant(ty, 1);
        let less = self.b.sub(quotient, one);
        self.b.select(below, less, quotient)
    }

    fn var(&mut self, var: VarId) -> Result<Value, LowerError> {
        match self.vars[var.index()] {
            Some(VarValue::Const(c)) => Ok(self.b.iconst(c)),
            Some(VarValue::Value(v)) => Ok(v),
            Some(VarValue::Lane) => self.unsupported("an index depends on the lane where it must not"),
            None => self.unsupported(format!("loop variable {var} is used outside its loop")),
        }
    }

    /// The address of a flat element index (resolved, without lane), as base and displacement.
    pub(super) fn address(
        &mut self,
        buffer: BufferId,
        flat: &IndexExpr,
        elem_bytes: u32,
    ) -> Result<(Value, i32), LowerError> {
        let Some(base) = self.bases[buffer.index()] else {
            let name = self.nest.buffers[buffer].name.clone();
            return self.unsupported(format!("buffer `{name}` is used before it is allocated"));
        };
        let scale = i64::from(elem_bytes);
        let base = self.sum(Some(base), flat, scale)?.expect("starts with a value");
        let disp = flat.constant_part().saturating_mul(scale);
        if let Ok(disp) = i32::try_from(disp) {
            return Ok((base, disp));
        }
        let far = self.b.iconst(disp);
        Ok((self.b.add(base, far), 0))
    }

    /// The value of a resolved expression in every lane, as a vector of I32 where that is wide enough, else I64.
    pub(super) fn index_vector(&mut self, e: &IndexExpr) -> Result<Value, LowerError> {
        let interval = self.ranges.interval(e);
        let narrow = |x: Option<i64>| x.is_some_and(|x| i32::try_from(x).is_ok());
        let elem = if narrow(interval.min) && narrow(interval.max) && self.parts_are_narrow(e) {
            Elem::I32
        } else {
            Elem::I64
        };
        self.index_vector_of(e, elem)
    }

    /// Whether every intermediate value of the expression fits into 32 bits.
    fn parts_are_narrow(&self, e: &IndexExpr) -> bool {
        let narrow = |e: &IndexExpr| {
            let interval = self.ranges.interval(e);
            let fits = |x: Option<i64>| x.is_some_and(|x| (-(1 << 30)..1 << 30).contains(&x));
            fits(interval.min) && fits(interval.max)
        };
        let mut all = narrow(e);
        e.for_each_atom(&mut |atom| match atom {
            Atom::FloorDiv(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => {
                all &= narrow(&p.0) && narrow(&p.1);
            }
            Atom::Var(v) => all &= narrow(&IndexExpr::var(*v)),
            Atom::Symbol(s) => all &= narrow(&IndexExpr::symbol(*s)),
        });
        all
    }

    /// See [`Lower::index_vector`], of a given element type.
    pub(super) fn index_vector_of(&mut self, e: &IndexExpr, elem: Elem) -> Result<Value, LowerError> {
        let Some(lane) = self.lane else { return self.unsupported("a vector of indices outside a vector loop") };
        let ty = Type::vector(elem, lane.lanes);
        // What does not depend on the lane is summed as a scalar and splat once.
        let mut uniform = IndexExpr::constant(e.constant_part());
        let mut sum: Option<Value> = None;
        for term in e.terms() {
            let mut depends = false;
            for atom in &term.atoms {
                depends |= atom_uses(atom, lane.var);
            }
            if !depends {
                let mut product = IndexExpr::constant(term.coefficient);
                for atom in &term.atoms {
                    product = product * atom_expr(atom);
                }
                uniform = uniform + product;
                continue;
            }
            let mut product = self.b.constant(ty, term.coefficient.cast_unsigned());
            for atom in &term.atoms {
                let value = self.atom_vector(atom, ty)?;
                product = self.b.mul(product, value);
            }
            sum = Some(sum.map_or(product, |s| self.b.add(s, product)));
        }
        let uniform = self.index_value(&uniform)?;
        let uniform = self.splat_index(uniform, ty);
        Ok(sum.map_or(uniform, |s| self.b.add(s, uniform)))
    }

    fn splat_index(&mut self, scalar: Value, ty: Type) -> Value {
        if let Some(c) = self.b.as_const(scalar) {
            return self.b.constant(ty, c.cast_unsigned());
        }
        let scalar = if ty.elem == Elem::I64 { scalar } else { self.b.convert(Convert::Truncate, scalar, ty.elem) };
        self.b.splat(scalar, ty.lanes)
    }

    fn atom_vector(&mut self, atom: &Atom, ty: Type) -> Result<Value, LowerError> {
        match atom {
            Atom::Var(v) if self.vars[v.index()] == Some(VarValue::Lane) => Ok(self.b.lane_index(ty)),
            Atom::Var(_) | Atom::Symbol(_) => {
                let scalar = self.atom(atom)?;
                Ok(self.splat_index(scalar, ty))
            }
            Atom::FloorDiv(p) | Atom::Mod(p) => {
                let (a, d) = (self.index_vector_of(&p.0, ty.elem)?, self.index_vector_of(&p.1, ty.elem)?);
                let quotient = self.floor_div(a, d, p);
                if matches!(atom, Atom::FloorDiv(_)) {
                    return Ok(quotient);
                }
                let whole = self.b.mul(quotient, d);
                Ok(self.b.sub(a, whole))
            }
            Atom::Min(p) => {
                let (a, b) = (self.index_vector_of(&p.0, ty.elem)?, self.index_vector_of(&p.1, ty.elem)?);
                Ok(self.b.min(a, b))
            }
            Atom::Max(p) => {
                let (a, b) = (self.index_vector_of(&p.0, ty.elem)?, self.index_vector_of(&p.1, ty.elem)?);
                Ok(self.b.max(a, b))
            }
        }
    }

    /// Whether reading `lanes` elements from the index on stays inside the buffer, whatever the loop variables are.
    pub(super) fn whole_vector_fits(&self, buffer: BufferId, rest: &IndexExpr, lanes: u16) -> bool {
        let buffer = &self.nest.buffers[buffer];
        let last = self.ranges.interval(rest).max.and_then(|m| m.checked_add(i64::from(lanes)));
        match (last, buffer.len_elems.as_const()) {
            (Some(last), Some(len)) => last <= len,
            _ => false,
        }
    }

    /// Whether the kernel may write the buffer.
    pub(super) fn i64_of(&mut self, value: Value) -> Value {
        if self.b.ty(value) == I64 { value } else { self.b.convert(Convert::SignExtend, value, Elem::I64) }
    }
}

fn atom_expr(atom: &Atom) -> IndexExpr {
    match atom {
        Atom::Symbol(s) => IndexExpr::symbol(*s),
        Atom::Var(v) => IndexExpr::var(*v),
        Atom::FloorDiv(p) => p.0.floor_div(&p.1),
        Atom::Mod(p) => p.0.modulo(&p.1),
        Atom::Min(p) => p.0.minimum(&p.1),
        Atom::Max(p) => p.0.maximum(&p.1),
    }
}

fn atom_uses(atom: &Atom, var: VarId) -> bool {
    atom_expr(atom).uses_var(var)
}
