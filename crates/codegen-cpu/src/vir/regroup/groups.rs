//! Lanes put in their places within groups of four, by shuffles of two vectors at a time.
//!
//! A shuffle takes two lanes of one vector and two of another, the same in each group of four. So what a result has in
//! half a group comes from one vector, or from two, of which a shuffle makes a pair first. Pairs have room for two lanes
//! of each, and results share them: a 4 by 4 transposition takes four pairs and four results, taking triples apart two
//! pairs and three results.

use super::GROUP;

/// One lane of a group of a source: its number, and the lane.
pub(super) type Element = (usize, u8);

/// A vector that results are shuffled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Source(usize),
    Pair(usize),
}

/// A shuffle of two sources: two lanes of each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) sources: [usize; 2],
    /// Lanes of the first, then of the second; equal ones where one is enough.
    lanes: [Vec<u8>; 2],
}

impl Pair {
    pub(super) fn lanes(&self) -> [u8; GROUP] {
        let lane = |source: usize, n: usize| {
            let lanes = &self.lanes[source];
            lanes[n.min(lanes.len() - 1)]
        };
        [lane(0, 0), lane(0, 1), lane(1, 0), lane(1, 1)]
    }

    /// The lane of the pair that has a lane of one of its sources, which is noted if there is room for it.
    fn take(&mut self, source: usize, lane: u8) -> Option<u8> {
        let lanes = &mut self.lanes[source];
        let place = lanes.iter().position(|&l| l == lane).or_else(|| {
            (lanes.len() < GROUP / 2).then(|| {
                lanes.push(lane);
                lanes.len() - 1
            })
        })?;
        Some((2 * source + place) as u8)
    }
}

/// How a result is made: a shuffle of two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recipe {
    pub(super) parts: [Part; 2],
    pub(super) lanes: [u8; GROUP],
}

/// Recipes for results whose groups have these elements, and the pairs that they need.
pub(super) fn recipes(results: &[[Element; GROUP]]) -> (Vec<Recipe>, Vec<Pair>) {
    let mut pairs: Vec<Pair> = Vec::new();
    let recipes = results
        .iter()
        .map(|&[a, b, c, d]| {
            let (low, [first, second]) = half([a, b], &mut pairs);
            let (high, [third, fourth]) = half([c, d], &mut pairs);
            Recipe { parts: [low, high], lanes: [first, second, third, fourth] }
        })
        .collect();
    (recipes, pairs)
}

/// The part that has two elements, and where.
fn half([a, b]: [Element; 2], pairs: &mut Vec<Pair>) -> (Part, [u8; 2]) {
    if a.0 == b.0 {
        return (Part::Source(a.0), [a.1, b.1]);
    }
    // A pair has its sources in the order of their numbers.
    let (first, second) = if a.0 < b.0 { (a, b) } else { (b, a) };
    let sources = [first.0, second.0];
    for (n, pair) in pairs.iter_mut().enumerate().filter(|(_, pair)| pair.sources == sources) {
        let mut tried = pair.clone();
        if let (Some(x), Some(y)) = (tried.take(0, first.1), tried.take(1, second.1)) {
            *pair = tried;
            return (Part::Pair(n), if a.0 < b.0 { [x, y] } else { [y, x] });
        }
    }
    pairs.push(Pair { sources, lanes: [vec![first.1], vec![second.1]] });
    let (x, y) = (0, GROUP as u8 / 2);
    (Part::Pair(pairs.len() - 1), if a.0 < b.0 { [x, y] } else { [y, x] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a recipe gives, element by element.
    fn evaluate(recipe: &Recipe, pairs: &[Pair]) -> [Element; GROUP] {
        let lane_of = |part: Part, lane: u8| match part {
            Part::Source(n) => (n, lane),
            Part::Pair(n) => (pairs[n].sources[usize::from(lane) / 2], pairs[n].lanes()[usize::from(lane)]),
        };
        let [a, b, c, d] = recipe.lanes;
        let [low, high] = recipe.parts;
        [lane_of(low, a), lane_of(low, b), lane_of(high, c), lane_of(high, d)]
    }

    /// Results of a stride: element `stride·lane + n`, out of sources of four.
    fn strided(stride: usize, results: usize) -> Vec<[Element; GROUP]> {
        let element = |at: usize| (at / GROUP, (at % GROUP) as u8);
        (0..results).map(|n| std::array::from_fn(|lane| element(stride * lane + n))).collect()
    }

    #[test]
    fn results_have_their_elements_and_share_pairs() {
        for (stride, results, most_pairs) in [(2, 2, 0), (3, 3, 2), (4, 4, 4), (5, 5, 9), (8, 8, 8), (1, 1, 0)] {
            let wanted = strided(stride, results);
            let (recipes, pairs) = recipes(&wanted);
            for (recipe, wanted) in recipes.iter().zip(&wanted) {
                assert_eq!(&evaluate(recipe, &pairs), wanted, "stride {stride}");
            }
            assert!(pairs.len() <= most_pairs, "stride {stride} takes {} pairs", pairs.len());
        }
    }

    #[test]
    fn triples_are_put_together_by_six_shuffles() {
        // x0 y0 z0 x1, y1 z1 x2 y2, z2 x3 y3 z3 of three sources.
        let element = |n: usize| (n % 3, (n / 3) as u8);
        let wanted: Vec<[Element; GROUP]> =
            (0..3).map(|n| std::array::from_fn(|lane| element(GROUP * n + lane))).collect();
        let (recipes, pairs) = recipes(&wanted);
        assert_eq!(pairs.len(), 3);
        assert!(recipes.iter().zip(&wanted).all(|(recipe, wanted)| &evaluate(recipe, &pairs) == wanted));
    }
}
