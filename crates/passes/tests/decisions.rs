//! Schedules that follow from other picks than the default's keep the meaning of every kernel file, too.

mod support;

use infc_ir::interp::run_kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{Decision, Machine, choose, decide};
use infc_testkit::{Random, assert_close, assert_same, random_inputs, symbol_choices};
use std::collections::HashSet;
use support::{MACHINES, run_by};

/// Picks of which most are the first alternatives, as a search makes them.
fn some_picks(random: &mut Random) -> Vec<usize> {
    (0..12).map(|_| if random.below(3) == 0 { random.below(20) as usize } else { 0 }).collect()
}

#[test]
fn whatever_is_picked_the_meaning_stays() {
    let mut random = Random::new(5);
    let (mut decided, mut refused) = (0, 0);
    for (name, kernel) in infc_testkit::kernels() {
        let normalised = infc_passes::formulate::normalise(kernel.clone());
        let symbols = symbol_choices(&kernel).pop().expect("at least one choice");
        let inputs = random_inputs(&kernel, &symbols, 3);
        let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (machine_name, machine) in &MACHINES {
            for allowed in [ErrorClass::Exact, ErrorClass::Reassociating] {
                for _ in 0..2 {
                    let picks = some_picks(&mut random);
                    let Some((schedule, _)) = decide(&normalised, machine, allowed, &picks) else {
                        refused += 1;
                        continue;
                    };
                    decided += 1;
                    let found = run_by(&normalised, &schedule, &symbols, &inputs);
                    let place = format!("{name} {symbols:?} on {machine_name}, {picks:?}: {schedule}");
                    if allowed == ErrorClass::Exact {
                        assert_same(&place, &found, &expected);
                    } else {
                        assert_close(&place, &found, &expected, 1e-5, 1e-5);
                    }
                }
            }
        }
    }
    assert!(refused * 10 <= decided, "{refused} of {} picks cannot be applied", decided + refused);
}

#[test]
fn no_picks_are_the_default() {
    for (name, kernel) in infc_testkit::kernels() {
        let normalised = infc_passes::formulate::normalise(kernel);
        for (machine_name, machine) in &MACHINES {
            let default = choose(&normalised, machine, ErrorClass::Reassociating);
            let (schedule, met) = decide(&normalised, machine, ErrorClass::Reassociating, &[])
                .unwrap_or_else(|| panic!("{name} on {machine_name}: {default} does not apply to\n{normalised}"));
            assert_eq!(schedule, default, "{name} on {machine_name}");
            assert!(met.iter().all(|d| d.picked == 0 && d.alternatives > 0), "{name}: {met:?}");
        }
    }
}

#[test]
fn picks_make_many_schedules() {
    let normalised = infc_passes::formulate::normalise(infc_testkit::kernel("matmul"));
    let (_, machine) = &MACHINES[0];
    let (_, met) = decide(&normalised, machine, ErrorClass::Reassociating, &[]).expect("it applies");
    let mut schedules = HashSet::new();
    for (n, decision) in met.iter().enumerate() {
        for pick in 0..decision.alternatives {
            let mut picks = vec![0; n];
            picks.push(pick);
            let decided = decide(&normalised, machine, ErrorClass::Reassociating, &picks);
            schedules.extend(decided.map(|(schedule, _)| schedule.to_string()));
        }
    }
    assert!(schedules.len() > 40, "{} of {met:?}", schedules.len());
}

/// How many loops threads share is decided only where there are several threads, and is nothing that results show.
#[test]
fn several_threads_share_loops_in_several_ways() {
    let kernel = infc_testkit::kernel("matmul");
    let normalised = infc_passes::formulate::normalise(kernel.clone());
    let symbols = symbol_choices(&kernel).pop().expect("at least one choice");
    let inputs = random_inputs(&kernel, &symbols, 3);
    let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
    for (machine_name, machine) in &MACHINES {
        let decided = |threads: usize, picks: &[usize]| {
            let machine = Machine { threads, ..*machine };
            decide(&normalised, &machine, ErrorClass::Reassociating, picks).expect("it applies")
        };
        let shared = |met: &[Decision]| met.iter().position(|d| d.what == "shared loops");
        let (alone, met) = decided(1, &[]);
        assert_eq!(shared(&met), None, "{machine_name}: {met:?}");
        let (default, met) = decided(2, &[]);
        assert_eq!(default, alone, "{machine_name}: the default is for any number of threads");
        let at = shared(&met).unwrap_or_else(|| panic!("{machine_name}: {met:?}"));
        let mut ways = HashSet::new();
        for pick in 0..met[at].alternatives {
            let (schedule, _) = decided(2, &[vec![0; at], vec![pick]].concat());
            assert_close(machine_name, &run_by(&normalised, &schedule, &symbols, &inputs), &expected, 1e-5, 1e-5);
            ways.insert(schedule);
        }
        assert!(ways.len() > 1 && ways.len() == met[at].alternatives, "{machine_name}: {}", ways.len());
    }
}
