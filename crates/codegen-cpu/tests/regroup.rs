//! Gathers and scatters at known distances: what whole loads, stores and shuffles make of them is the same, lane by lane,
//! and touches no byte outside of what the lanes touch.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::vir::regroup::{self, Permutes};
use infc_codegen_cpu::vir::{Builder, Elem, Function, I64, Inst, Memory, Op, Type, interp};
use infc_codegen_cpu::wide::{self, Isa};
use support::Executable;

/// Some gathers from one address and as many scatters to another, in elements; lanes that are off move nothing.
#[derive(Clone, Debug)]
struct Case {
    gathers: Vec<Vec<i64>>,
    scatters: Vec<Vec<i64>>,
    /// Lanes that are on.
    on: u64,
    /// All scatters are of what the first gather gives.
    same: bool,
}

impl Case {
    fn lanes(&self) -> usize {
        self.gathers[0].len()
    }

    fn is_on(&self, lane: usize) -> bool {
        self.on >> lane & 1 == 1
    }

    fn len(&self, places: &[Vec<i64>]) -> usize {
        let on = |of: &Vec<i64>| of.iter().enumerate().filter(|&(lane, _)| self.is_on(lane)).map(|(_, &p)| p).max();
        places.iter().filter_map(on).max().map_or(1, |last| last as usize + 1)
    }

    /// The gather whose lanes a scatter writes.
    fn source(&self, scatter: usize) -> usize {
        if self.same { 0 } else { scatter }
    }

    /// `y[scatters[n][lane]] = x[gathers[n][lane]] + n`
    fn function(&self) -> Function {
        let lanes = self.lanes();
        let (ty, index) = (Type::vector(Elem::F32, lanes as u16), Type::vector(Elem::I32, lanes as u16));
        let mut b = Builder::new("regroup");
        let args = b.param(0);
        let (x, y) = (b.load(I64, args, 0, Memory::ReadOnly), b.load(I64, args, 8, Memory::ReadOnly));
        let all = self.on.trailing_ones() as usize >= lanes;
        let mask = (!all).then(|| b.constant(ty.mask(), self.on));
        let mut values = Vec::new();
        for places in &self.gathers {
            let places = b.lanes(index, places);
            values.push(b.gather(Elem::F32, x, places, 4, 0, mask, Memory::ReadOnly));
        }
        let add = |b: &mut Builder, (n, value)| {
            let amount = b.fconst(ty, n as f64);
            b.add(value, amount)
        };
        let sums: Vec<_> = values.into_iter().enumerate().map(|value| add(&mut b, value)).collect();
        for (n, places) in self.scatters.iter().enumerate() {
            let places = b.lanes(index, places);
            b.scatter(sums[self.source(n)], y, places, 4, 0, mask);
        }
        b.finish()
    }

    fn input(&self) -> Vec<f32> {
        (0..self.len(&self.gathers)).map(|n| 100.0 + n as f32).collect()
    }

    fn expected(&self) -> Vec<f32> {
        let (x, mut y) = (self.input(), vec![-1.0; self.len(&self.scatters)]);
        for (n, to) in self.scatters.iter().enumerate() {
            let source = self.source(n);
            for lane in (0..self.lanes()).filter(|&lane| self.is_on(lane)) {
                y[to[lane] as usize] = x[self.gathers[source][lane] as usize] + source as f32;
            }
        }
        y
    }

    /// Regrouped for either kind of permutation and interpreted in memory that ends where the lanes do.
    fn check_interpreted(&self) {
        for permutes in [Permutes::OfTwo, Permutes::OfOne] {
            let mut function = self.function();
            regroup::run(&mut function, permutes);
            let mut memory = interp::AddressSpace::new();
            let x = memory.add(bytes(&self.input()));
            let y = memory.add(bytes(&vec![-1.0; self.len(&self.scatters)]));
            let args = memory.add([x, y].iter().flat_map(|a| a.to_le_bytes()).collect());
            interp::run(&function, [args, 0, 0, 0], &mut memory, 10_000).unwrap_or_else(|e| panic!("{e}: {self:?}"));
            assert_eq!(memory.region(y), bytes(&self.expected()), "{permutes:?}: {self:?}");
        }
    }

    fn check_run(&self, isa: Isa) {
        let compiled = wide::emit(&self.function(), isa).expect("it compiles");
        let (x, mut y) = (self.input(), vec![-1.0f32; self.len(&self.scatters)]);
        let args = [x.as_ptr() as u64, y.as_mut_ptr() as u64];
        Executable::new(&compiled.code).call(&args, 0, 0, &mut []);
        assert_eq!(bytes(&y), bytes(&self.expected()), "{isa:?}: {self:?}");
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `results` neighbours at lanes `stride` apart.
fn strided(lanes: usize, stride: i64, results: i64) -> Vec<Vec<i64>> {
    (0..results).map(|n| (0..lanes as i64).map(|lane| lane * stride + n).collect()).collect()
}

/// Rows of `period` lanes each: `across` elements from one to the next, `within` from lane to lane.
fn periodic(lanes: usize, first: i64, period: i64, across: i64, within: i64) -> Vec<i64> {
    (first..first + lanes as i64).map(|lane| lane / period * across + lane % period * within).collect()
}

/// What three columns need of rows of three elements: each element for all columns, and rows are begun within vectors.
fn rows_of_three(lanes: usize) -> Case {
    let elements =
        |n: i64| (0..3).map(move |c| periodic(lanes, n * lanes as i64, 3, 3, 0).iter().map(|p| p + c).collect());
    let scatters = (0..9).map(|n| (0..lanes as i64).map(|lane| n * lanes as i64 + lane).collect()).collect();
    Case { gathers: (0..3).flat_map(elements).collect(), scatters, on: (1 << lanes) - 1, same: false }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for lanes in [4, 8, 16] {
        let all = (1u64 << lanes) - 1;
        let side_by_side =
            |n: usize| (0..n).map(|k| (0..lanes as i64).map(|lane| (k * lanes) as i64 + lane).collect()).collect();
        for stride in [1, 2, 3, 4, 5, 7, 8, 17, 24] {
            for results in [1, 2, 3, 4, 6, 8] {
                let gathers = strided(lanes, stride, results);
                for on in [all, all >> 1, 0x1f & all, 0b1011 & all, 1] {
                    let scatters = side_by_side(results as usize);
                    cases.push(Case { gathers: gathers.clone(), scatters, on, same: false });
                    // Stores meet unless lanes leave room for all.
                    if results <= stride {
                        let gathers = side_by_side(results as usize);
                        for same in [false, true] {
                            let gathers = gathers.clone();
                            cases.push(Case { gathers, scatters: strided(lanes, stride, results), on, same });
                        }
                    }
                }
            }
        }
        // Rows and columns joined: three columns in lanes, operands of rows, of columns, and of windows two apart.
        for (period, across, within) in [(3, 0, 1), (3, 5, 0), (3, 6, 1), (8, 0, 1), (8, 40, 0), (5, 1, 7)] {
            let gathers: Vec<Vec<i64>> =
                (0..3).map(|n| periodic(lanes, n * lanes as i64, period, across, within)).collect();
            cases.push(Case { gathers, scatters: side_by_side(3), on: all, same: false });
        }
        cases.push(rows_of_three(lanes));
    }
    cases
}

#[test]
fn lanes_come_from_where_they_did_and_nothing_else_is_touched() {
    cases().iter().for_each(Case::check_interpreted);
}

#[test]
fn machine_code_moves_the_same_lanes() {
    let isas = [
        (Isa { avx512: true, vnni: false, bf16: false, flush_bf16: false }, support::has_avx512(), "AVX-512"),
        (Isa { avx512: false, vnni: false, bf16: false, flush_bf16: false }, support::has_avx2(), "AVX2"),
    ];
    for (isa, is_here, name) in isas {
        if !is_here {
            eprintln!("skipped: no {name} here");
            continue;
        }
        // Vectors that do not fit registers are cut first.
        cases().iter().for_each(|case| case.check_run(isa));
    }
}

/// Gathers and scatters are gone where it pays: the point of it all.
#[test]
fn few_instructions_are_left() {
    let rows = |lanes: usize, stride: i64, results: i64| Case {
        gathers: strided(lanes, stride, results),
        scatters: strided(lanes, results, results),
        on: (1 << lanes) - 1,
        same: false,
    };
    // Loads, joins, shuffles and permutations, and stores.
    for (case, permutes, most) in [
        (rows(16, 3, 3), Permutes::OfTwo, 3 + 6 + 6 + 3),
        (rows(8, 3, 3), Permutes::OfOne, 9 + 5 + 6 + 9),
        (rows(8, 24, 4), Permutes::OfOne, 12 + 8 + 8 + 12),
        // A vector of these begins and ends within a row, so that what it reads lies in three of those that all read, but
        // in two of its own.
        (rows_of_three(8), Permutes::OfOne, 9 + 12 + 9),
    ] {
        let mut function = case.function();
        regroup::run(&mut function, permutes);
        let mut count = 0;
        function.body.for_each_inst(&mut |inst| match inst {
            Inst::Op { op: Op::Gather { .. }, .. } | Inst::Scatter { .. } => panic!("lane by lane: {function}"),
            Inst::Op { op: Op::Load { .. }, result } => count += usize::from(function.ty(*result) != I64),
            Inst::Op { op: Op::Join(..) | Op::Shuffle(..) | Op::Permute(..), .. } | Inst::Store { .. } => count += 1,
            _ => {}
        });
        assert!(count <= most, "{count} instructions, at most {most} are expected: {function}");
    }
}
