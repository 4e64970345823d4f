//! Graph passes: each rule on a small graph, and random graphs whose meaning must stay.

#[path = "graph/blocked_scan.rs"]
mod blocked_scan;
#[path = "graph/branches.rs"]
mod branches;
#[path = "graph/build.rs"]
mod build;
#[path = "graph/composites.rs"]
mod composites;
#[path = "graph/folding.rs"]
mod folding;
#[path = "graph/halves.rs"]
mod halves;
#[path = "graph/lifted.rs"]
mod lifted;
#[path = "graph/random.rs"]
mod random;
#[path = "graph/requantized.rs"]
mod requantized;
#[path = "graph/rules.rs"]
mod rules;
#[path = "graph/scales.rs"]
mod scales;
#[path = "graph/split_k.rs"]
mod split_k;
#[path = "graph/tables.rs"]
mod tables;
