//! Which records a compilation has taken, for its report and the artifact's provenance.

use crate::code::VariantTarget;
use crate::kernels::{ChosenBy, Kernels, Scheduled};
use crate::{Records, Report};
use infc_passes::form::{GraphPlan, Way};

/// Counts the kernels that run by records, and says which records were not taken.
pub(crate) fn describe(report: &mut Report, kernels: &Kernels, scheduled: &[(VariantTarget, Vec<Scheduled>)]) {
    for (target, schedules) in scheduled {
        let chosen_by = |by| schedules.iter().filter(|scheduled| scheduled.chosen_by == by).count();
        report.recorded_schedules += chosen_by(ChosenBy::Record);
        report.builtin_schedules += chosen_by(ChosenBy::BuiltinRecord);
        for (distinct, scheduled) in kernels.distinct.iter().zip(schedules) {
            let refused = scheduled.refused.iter();
            report.refused_records.extend(refused.map(|why| format!("{} for {target}: {why}", distinct.kernel.name)));
        }
    }
}

/// Counts what records have settled of how kernels are formed, and says what was not taken.
pub(crate) fn describe_choices<'p>(report: &mut Report, plans: impl Iterator<Item = &'p GraphPlan>) {
    for choice in plans.flat_map(|plan| &plan.log.choices) {
        let Some(answer) = choice.answer else { continue };
        if answer == choice.taken {
            report.recorded_choices += 1;
        } else {
            let what = format!("{} of {}", choice.kind(), choice.origins.join(", "));
            let ways: Vec<String> = choice.ways.iter().map(ToString::to_string).collect();
            let why = match answer {
                Way::Filtered(_) => "it is no way here, or constants would grow by more than they may",
                _ => "it is no way here",
            };
            let refused = format!("{what}: `{answer}`: {why}; there are {}", ways.join(", "));
            report.refused_records.push(refused);
        }
    }
}

/// A hash of the built-in records that were taken; `None` if none was. Those that were not make no difference, so that an
/// artifact without any is the same wherever it was compiled, and whatever else ships.
pub(crate) fn builtin_fingerprint(kernels: &Kernels, scheduled: &[(VariantTarget, Vec<Scheduled>)]) -> Option<String> {
    let mut taken = Records::default();
    for (target, schedules) in scheduled {
        for (distinct, scheduled) in kernels.distinct.iter().zip(schedules) {
            if let (ChosenBy::BuiltinRecord, Some(&key)) = (scheduled.chosen_by, distinct.keys.first()) {
                taken.insert(key, target, false, scheduled.schedule.clone());
            }
        }
    }
    (!taken.is_empty()).then(|| format!("built-in:{}", taken.fingerprint()))
}
