//! Kernel formation: plans compute what their graphs compute, in the kernels and in the memory they were given.

#[path = "form/attention.rs"]
mod attention;
#[path = "form/branch.rs"]
mod branch;
#[path = "graph/build.rs"]
#[expect(dead_code, reason = "shared with the tests of graph passes, which use all of it")]
mod build;
#[path = "form/choices.rs"]
mod choices;
#[path = "form/filtering.rs"]
mod filtering;
#[path = "form/online.rs"]
mod online;
#[path = "form/padding.rs"]
mod padding;
#[path = "form/random.rs"]
mod random;
#[path = "form/recurrent.rs"]
mod recurrent;
#[path = "form/reshapes.rs"]
mod reshapes;
#[path = "form/run.rs"]
mod run;
#[path = "form/shape.rs"]
mod shape;
#[path = "form/slices.rs"]
mod slices;
mod support;
