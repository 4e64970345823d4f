//! The command as its users see it: exit codes, streams, files. One test binary, a module per command.

mod support;
mod trials;
mod tune;

mod bad_models;
mod bench;
mod check;
mod compare;
mod compile;
mod conformance;
mod custom_ops;
mod demo;
mod docs;
mod explain;
mod gpu;
mod help;
mod inspect;
mod profile;
mod records;
mod run;
mod simplify;
mod special_cases;
mod streams;
