//! Vectors put together of lanes of others.

use super::{GROUP, Pass};
use crate::vir::{Elem, Inst, Op, Type, Value};

impl Pass {
    /// A vector of lanes of some vectors of its type: per lane which one's, and which; lanes without may be anything.
    /// It is `result` where that is given.
    pub(super) fn together(
        &mut self,
        ty: Type,
        values: &[Value],
        from: &[Option<(usize, usize)>],
        result: Option<Value>,
        out: &mut Vec<Inst>,
    ) -> Value {
        let lanes = from.len();
        let mut so_far = values[0];
        let pairs = values.len().max(2) - 1;
        for n in 1..=pairs {
            let other = *values.get(n).unwrap_or(&so_far);
            // Lanes of earlier values are in place from the second time on.
            let numbers: Vec<u64> = from
                .iter()
                .enumerate()
                .map(|(at, from)| match *from {
                    Some((part, lane)) if part == n => (lanes + lane) as u64,
                    Some((0, lane)) if n == 1 => lane as u64,
                    _ => at as u64,
                })
                .collect();
            let is_last = n == pairs;
            let kept = (0..lanes).all(|lane| numbers[lane] == lane as u64);
            if kept && !(is_last && result.is_some()) {
                continue;
            }
            let result = result.filter(|_| is_last).unwrap_or_else(|| self.fresh(ty));
            let op = match shuffle(&numbers) {
                Some(of) => {
                    let pick = |second: bool| if second { other } else { so_far };
                    Op::Shuffle(pick(of.0[0]), pick(of.0[1]), of.1)
                }
                None => {
                    let index = self.constant(Type::vector(Elem::I32, ty.lanes), numbers);
                    Op::Permute(so_far, other, index)
                }
            };
            out.push(Inst::Op { result, op });
            so_far = result;
        }
        so_far
    }
}

/// A permutation as a shuffle within groups of four lanes, if it is one: of which vector each half of a group is
/// (the second?), and the lanes.
fn shuffle(numbers: &[u64]) -> Option<([bool; 2], [u8; GROUP])> {
    let lanes = numbers.len() as u64;
    let within = |(at, &n): (usize, &u64)| {
        let group = (at / GROUP * GROUP) as u64;
        let lane = (n % lanes).checked_sub(group).filter(|&lane| lane < GROUP as u64)?;
        Some((n >= lanes, lane as u8))
    };
    let of: Vec<(bool, u8)> = numbers.iter().enumerate().map(within).collect::<Option<_>>()?;
    let alike = of.chunks(GROUP).all(|group| group == &of[..GROUP]);
    let halves = of[0].0 == of[1].0 && of[2].0 == of[3].0;
    (alike && halves).then(|| ([of[0].0, of[2].0], [of[0].1, of[1].1, of[2].1, of[3].1]))
}
