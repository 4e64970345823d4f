//! What cost models learn of logs that were damaged, or written by others.

use infc::KernelKey;
use infc_testkit::Random;
use infc_tune::{Logged, lessons};
use std::ops::Range;

/// What a damaged or hostile file may have in place of a number.
const NUMBERS: [&str; 9] =
    ["0", "1", "2", "7", "65536", "4294967295", "1000000000", "4611686018427387904", "9223372036854775807"];

fn log() -> Vec<Logged> {
    let log = include_str!("replay/digits.jsonl");
    log.lines().map(|line| serde_json::from_str(line).expect("a line of a log")).collect()
}

fn text(lines: &[Logged]) -> String {
    lines.iter().map(Logged::to_line).collect()
}

/// Whole numbers, but not those that names end in.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let begins = |at: usize| {
        let before = at.checked_sub(1).map_or(b' ', |at| text.as_bytes()[at]);
        is_digit(at) && !(before.is_ascii_alphanumeric() || before == b'_' || before == b'.')
    };
    let end = |at: usize| (at..).find(|&at| !is_digit(at)).unwrap_or(at);
    (0..text.len()).filter(|&at| begins(at)).map(|at| at..end(at)).collect()
}

fn damaged(text: &str, random: &mut Random) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(2) {
        let numbers = numbers(&text);
        if !numbers.is_empty() {
            let place = numbers[random.below(numbers.len() as u64) as usize].clone();
            text.replace_range(place, NUMBERS[random.below(NUMBERS.len() as u64) as usize]);
        }
    }
    text
}

/// Neither kernels nor schedules with other numbers than were ever measured take anything down.
#[test]
fn damaged_numbers_are_survived() {
    let log = log();
    let mut random = Random::new(3);
    let mut taught = 0;
    for line in log.iter().filter(|line| matches!(line, Logged::Kernel { .. })) {
        let Logged::Kernel { kernel: key, text: planned, .. } = line else { continue };
        let of_kernel = log.iter().filter(|line| matches!(line, Logged::Trial { kernel, .. } if kernel == key));
        let trials: Vec<&Logged> = of_kernel.take(3).collect();
        for _ in 0..12 {
            let mut lines = vec![line.clone()];
            let Logged::Kernel { kernel, text: planned_now, .. } = &mut lines[0] else { continue };
            *planned_now = damaged(planned, &mut random);
            *kernel = KernelKey::of_text(planned_now).to_string();
            let key_now = kernel.clone();
            for trial in &trials {
                let mut trial = (*trial).clone();
                if let Logged::Trial { kernel, schedule, .. } = &mut trial {
                    *kernel = key_now.clone();
                    if random.below(2) == 0 {
                        *schedule = damaged(schedule, &mut random);
                    }
                }
                lines.push(trial);
            }
            taught += lessons(&text(&lines), None, 1).len();
        }
    }
    assert!(taught > 0, "some of the damage leaves kernels");
}

#[test]
fn a_text_that_is_not_the_keys_teaches_nothing() {
    let lines = log();
    let before = lessons(&text(&lines), None, 1).len();
    assert!(before > 1);
    let mut lines = lines;
    if let Logged::Kernel { kernel, .. } = &mut lines[0] {
        *kernel = KernelKey::of_text("another").to_string();
    }
    assert_eq!(lessons(&text(&lines), None, 1).len(), before - 1);
}
