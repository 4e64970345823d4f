//! Index expressions in registers: 32 bits wide wherever ranges show that nothing overflows.

use crate::PtxError;
use crate::builder::{Class, Reg, Src, Ty};
use crate::emitter::{Binding, Emitter, Key};
use infc_ir::access::Bound;
use infc_ir::entity::EntityId;
use infc_ir::index::{Atom, IndexExpr, Interval, Proof};

impl Emitter<'_> {
    /// The expression with unrolled loops' numbers put in, simplified.
    pub(crate) fn resolve(&self, expr: &IndexExpr) -> IndexExpr {
        let replaced = expr.substitute(&|atom| match atom {
            Atom::Var(var) => match self.vars[var.index()] {
                Some(Binding::Number(n)) => Some(IndexExpr::constant(n)),
                _ => None,
            },
            _ => None,
        });
        replaced.simplify(&self.ranges)
    }

    /// The value of a resolved expression, in a register of the width that it needs.
    pub(crate) fn index(&mut self, expr: &IndexExpr) -> Result<Reg, PtxError> {
        let ty = if self.fits_32(expr) { Ty::S32 } else { Ty::S64 };
        self.index_as(expr, ty)
    }

    /// The value in a register of the given type.
    pub(crate) fn index_as(&mut self, expr: &IndexExpr, ty: Ty) -> Result<Reg, PtxError> {
        let key = Key::Index(expr.clone(), ty.class());
        if let Some(reg) = self.cached(&key) {
            return Ok(reg);
        }
        let reg = self.compute(expr, ty)?;
        self.cache(key, reg);
        Ok(reg)
    }

    fn compute(&mut self, expr: &IndexExpr, ty: Ty) -> Result<Reg, PtxError> {
        if ty == Ty::S64 && self.fits_32(expr) && expr.as_const().is_none() && expr.as_symbol().is_none() {
            let narrow = self.index_as(expr, Ty::S32)?;
            return Ok(self.b.cvt("", Ty::S64, Ty::S32, narrow));
        }
        // A result within 32 bits may come from parts that are not, such as the bounded part of a far position.
        if ty == Ty::S32 && !self.fits_32(expr) {
            let wide = self.index_as(expr, Ty::S64)?;
            return Ok(self.b.cvt("", Ty::S32, Ty::S64, wide));
        }
        // What was computed in front of the loop.
        let (known, rest) = self.split_known(expr);
        let mut sum = if known.is_const(0) { None } else { self.cached(&Key::Index(known, ty.class())) };
        let terms = if sum.is_some() { rest.terms() } else { expr.terms() };
        for term in terms {
            let mut product: Option<Reg> = None;
            for atom in &term.atoms {
                let factor = self.atom(atom, ty)?;
                product = Some(match product {
                    None => factor,
                    Some(p) => self.b.op("mul.lo", ty, &[p.into(), factor.into()]),
                });
            }
            let product = product.ok_or_else(|| PtxError::Undefined { what: expr.to_string() })?;
            let coefficient = Src::Int(term.coefficient);
            sum = Some(match (sum, term.coefficient) {
                (None, 1) => product,
                (None, -1) => self.b.op("neg", ty, &[product.into()]),
                (None, _) => self.b.op("mul.lo", ty, &[product.into(), coefficient]),
                (Some(s), 1) => self.b.op("add", ty, &[s.into(), product.into()]),
                (Some(s), -1) => self.b.op("sub", ty, &[s.into(), product.into()]),
                (Some(s), _) => self.b.op("mad.lo", ty, &[product.into(), coefficient, s.into()]),
            });
        }
        Ok(match (sum, expr.constant_part()) {
            (None, constant) => self.constant(ty.class(), constant as u64),
            (Some(s), 0) => s,
            (Some(s), constant) => self.b.op("add", ty, &[s.into(), Src::Int(constant)]),
        })
    }

    fn atom(&mut self, atom: &Atom, ty: Ty) -> Result<Reg, PtxError> {
        match atom {
            Atom::Symbol(symbol) => {
                let wide = self
                    .symbols
                    .get(symbol.index())
                    .copied()
                    .ok_or_else(|| PtxError::Undefined { what: symbol.to_string() })?;
                Ok(self.convert(wide, ty))
            }
            Atom::Var(var) => match self.vars.get(var.index()).copied().flatten() {
                Some(Binding::Register(reg)) => Ok(self.convert(reg, ty)),
                Some(Binding::Number(n)) => Ok(self.constant(ty.class(), n as u64)),
                None => Err(PtxError::Unbound { var: *var }),
            },
            Atom::FloorDiv(p) | Atom::Mod(p) => {
                let key = Key::Index(IndexExpr::from(atom.clone()), ty.class());
                if let Some(reg) = self.cached(&key) {
                    return Ok(reg);
                }
                let reg = self.divide(&p.0, &p.1, ty, matches!(atom, Atom::FloorDiv(_)))?;
                self.cache(key, reg);
                Ok(reg)
            }
            Atom::Min(p) | Atom::Max(p) => {
                let (a, b) = (self.index_as(&p.0, ty)?, self.index_as(&p.1, ty)?);
                let opcode = if matches!(atom, Atom::Min(_)) { "min" } else { "max" };
                Ok(self.b.op(opcode, ty, &[a.into(), b.into()]))
            }
        }
    }

    fn convert(&mut self, reg: Reg, ty: Ty) -> Reg {
        match (reg.class, ty) {
            (Class::B64, Ty::S32) => self.b.cvt("", Ty::S32, Ty::S64, reg),
            (Class::B32, Ty::S64) => self.b.cvt("", Ty::S64, Ty::S32, reg),
            _ => reg,
        }
    }

    /// Floor division or modulo. Divisors are positive.
    fn divide(&mut self, a: &IndexExpr, b: &IndexExpr, ty: Ty, quotient: bool) -> Result<Reg, PtxError> {
        let non_negative = self.ranges.le(&IndexExpr::constant(0), a) == Proof::Yes;
        let x = self.index_as(a, ty)?;
        if let Some(d) = b.as_const().filter(|d| d.count_ones() == 1) {
            // An arithmetic shift rounds down, and the low bits are the remainder, for negative numbers too.
            return Ok(if quotient {
                let shift = self.constant(Class::B32, u64::from(d.trailing_zeros()));
                self.b.shift_right(ty, x, shift)
            } else {
                let bits = if ty == Ty::S32 { Ty::B32 } else { Ty::B64 };
                self.b.op("and", bits, &[x.into(), Src::Int(d - 1)])
            });
        }
        let y = match b.as_const() {
            Some(d) => Src::Int(d),
            None => self.index_as(b, ty)?.into(),
        };
        let unsigned = if ty == Ty::S32 { Ty::U32 } else { Ty::U64 };
        if non_negative {
            let opcode = if quotient { "div" } else { "rem" };
            return Ok(self.b.op(opcode, unsigned, &[x.into(), y]));
        }
        // Truncated division, corrected where the remainder is negative.
        let r = self.b.op("rem", ty, &[x.into(), y]);
        let negative = self.b.setp("lt", ty, r.into(), Src::Int(0));
        if quotient {
            let q = self.b.op("div", ty, &[x.into(), y]);
            let less = self.b.op("sub", ty, &[q.into(), Src::Int(1)]);
            return Ok(self.b.selp(ty, less.into(), q.into(), negative));
        }
        let more = self.b.op("add", ty, &[r.into(), y]);
        Ok(self.b.selp(ty, more.into(), r.into(), negative))
    }

    /// True if no step of computing the expression in 32 bits overflows.
    fn fits_32(&self, expr: &IndexExpr) -> bool {
        self.peak(expr).is_some_and(|peak| peak <= i64::from(i32::MAX))
    }

    /// A bound on the magnitude of everything that computing the expression goes through.
    fn peak(&self, expr: &IndexExpr) -> Option<i64> {
        let magnitude = |i: Interval| Some(i.min?.checked_abs()?.max(i.max?.checked_abs()?));
        let mut sum = expr.constant_part().checked_abs()?;
        let mut peak = 0;
        for term in expr.terms() {
            let mut product = term.coefficient.checked_abs()?;
            peak = peak.max(product);
            for atom in &term.atoms {
                let (inner, value) = match atom {
                    Atom::Symbol(s) => (0, magnitude(self.ranges.symbol(*s))?),
                    Atom::Var(v) => (0, magnitude(self.ranges.var(*v))?),
                    Atom::FloorDiv(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => {
                        let inner = self.peak(&p.0)?.max(self.peak(&p.1)?).checked_add(1)?;
                        (inner, inner)
                    }
                };
                peak = peak.max(inner);
                product = product.checked_mul(value)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(peak.max(sum))
    }

    /// A predicate: all the conditions hold, and the guard. `None` if that is always so.
    pub(crate) fn all(&mut self, bounds: &[Bound], guard: Option<Reg>) -> Result<Option<Reg>, PtxError> {
        let mut all = guard;
        for bound in bounds {
            let bound = bound.map(|e| self.resolve(e));
            for (low, high, or_equal) in [(&bound.lo, &bound.expr, true), (&bound.expr, &bound.hi, false)] {
                let proof = if or_equal { self.ranges.le(low, high) } else { self.ranges.lt(low, high) };
                if proof == Proof::Yes {
                    continue;
                }
                let p = self.below(low, high, or_equal)?;
                all = Some(match all {
                    None => p,
                    Some(q) => self.b.op("and", Ty::Pred, &[q.into(), p.into()]),
                });
            }
        }
        Ok(all)
    }

    fn below(&mut self, low: &IndexExpr, high: &IndexExpr, or_equal: bool) -> Result<Reg, PtxError> {
        let key = Key::Below { low: low.clone(), high: high.clone(), or_equal };
        if let Some(p) = self.cached(&key) {
            return Ok(p);
        }
        let ty = if self.fits_32(low) && self.fits_32(high) { Ty::S32 } else { Ty::S64 };
        let a = self.index_as(low, ty)?;
        let b: Src = match high.as_const() {
            Some(n) => Src::Int(n),
            None => self.index_as(high, ty)?.into(),
        };
        let p = self.b.setp(if or_equal { "le" } else { "lt" }, ty, a.into(), b);
        self.cache(key, p);
        Ok(p)
    }
}
