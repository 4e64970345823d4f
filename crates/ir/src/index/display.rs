//! How index expressions print: `2·i0 + $1 - 3` as `2*i0 + $1 - 3`.

use super::{Atom, IndexExpr};
use std::fmt;

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(s) => write!(f, "{s}"),
            Atom::Var(v) => write!(f, "{v}"),
            Atom::FloorDiv(p) => write!(f, "div({}, {})", p.0, p.1),
            Atom::Mod(p) => write!(f, "mod({}, {})", p.0, p.1),
            Atom::Min(p) => write!(f, "min({}, {})", p.0, p.1),
            Atom::Max(p) => write!(f, "max({}, {})", p.0, p.1),
        }
    }
}

impl fmt::Display for IndexExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for term in self.terms() {
            let magnitude = term.coefficient.unsigned_abs();
            match (first, term.coefficient < 0) {
                (true, true) => write!(f, "-")?,
                (true, false) => {}
                (false, true) => write!(f, " - ")?,
                (false, false) => write!(f, " + ")?,
            }
            first = false;
            if magnitude != 1 {
                write!(f, "{magnitude}*")?;
            }
            for (i, atom) in term.atoms.iter().enumerate() {
                if i > 0 {
                    write!(f, "*")?;
                }
                write!(f, "{atom}")?;
            }
        }
        let c = self.constant_part();
        if first {
            write!(f, "{c}")
        } else if c > 0 {
            write!(f, " + {c}")
        } else if c < 0 {
            write!(f, " - {}", c.unsigned_abs())
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for IndexExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
