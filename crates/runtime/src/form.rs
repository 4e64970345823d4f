//! The forms that an entry runs in: itself, and the special cases of it that the artifact has; each with what its runs
//! need, and all with the same memory, since one of them runs at a time.

use crate::arena::Arena;
use crate::binding::{Binding, OutputPlace};
use crate::host::HostValues;
use crate::model::Loaded;
use infc_artifact::{Program, Segments, Specialization, Step};

/// Bindings kept for the next run with the same dims.
const KEPT_BINDINGS: usize = 8;

/// An entry with what its runs need besides memory.
#[derive(Debug)]
pub(crate) struct Form {
    /// Index of the entry in the manifest.
    pub(crate) entry: usize,
    pub(crate) segments: Segments,
    /// Per segment of the Program; the last used comes first.
    pub(crate) bindings: Vec<Vec<Binding>>,
    /// The symbol values of the run in progress; 0 where they are not known yet.
    pub(crate) symbols: Vec<i64>,
    /// What host steps of the run in progress have made.
    pub(crate) host: HostValues,
}

impl Form {
    fn new(model: &Loaded, entry: usize) -> Self {
        let (spec, program) = (&model.manifest.entries[entry], &model.body.programs[entry]);
        let segments = Segments::new(spec, program);
        Self {
            entry,
            bindings: segments.steps.iter().map(|_| Vec::with_capacity(KEPT_BINDINGS)).collect(),
            segments,
            symbols: Vec::new(),
            host: HostValues::new(spec, program),
        }
    }

    /// The binding of a segment that is in use. There is one once the segment has begun.
    pub(crate) fn binding(&self, segment: usize) -> &Binding {
        &self.bindings[segment][0]
    }

    /// A binding of a segment to fill: the one that was not used for longest makes room, and its memory is used again.
    pub(crate) fn spare(&mut self, segment: usize) -> Binding {
        let bindings = &mut self.bindings[segment];
        let oldest = if bindings.len() < KEPT_BINDINGS { None } else { bindings.pop() };
        oldest.unwrap_or_default()
    }

    /// Shape and place of an output after a run.
    pub(crate) fn output_place(&self, output: usize) -> Option<(&[usize], &OutputPlace)> {
        let binding = self.bindings[*self.segments.of_output.get(output)?].first()?;
        Some((binding.output_shape(output)?, binding.outputs.get(output)?.as_ref()?))
    }
}

/// Memory of one segment of a Program, whichever form runs.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    /// Outputs the session keeps.
    pub(crate) outputs: Arena,
}

/// An entry in all its forms.
#[derive(Debug)]
pub(crate) struct Forms {
    /// The entry itself comes first.
    forms: Vec<Form>,
    /// The one in use.
    at: usize,
    /// Per segment, of the form that has most.
    pub(crate) memory: Vec<Memory>,
}

impl Forms {
    /// The entry of this index, and its special cases if they are wanted.
    pub(crate) fn new(model: &Loaded, entry: usize, with_special_cases: bool) -> Self {
        let special = model.manifest.special_cases(entry).filter(|_| with_special_cases).map(|(index, _)| index);
        let forms: Vec<Form> = std::iter::once(entry).chain(special).map(|entry| Form::new(model, entry)).collect();
        let segments = forms.iter().map(|form| form.bindings.len()).max().unwrap_or(0);
        let memory = || Memory { arena: Arena::empty(), outputs: Arena::empty() };
        Self { forms, at: 0, memory: (0..segments).map(|_| memory()).collect() }
    }

    /// The form in use.
    pub(crate) fn current(&self) -> &Form {
        &self.forms[self.at]
    }

    /// As [`Forms::current`].
    pub(crate) fn current_mut(&mut self) -> &mut Form {
        &mut self.forms[self.at]
    }

    /// The form that takes all values of the entry's dims.
    pub(crate) fn general_mut(&mut self) -> &mut Form {
        &mut self.forms[0]
    }

    /// Takes the form that fits the values which the general one's symbols have: the first special case, else that one.
    pub(crate) fn choose<'s>(&mut self, case_of: impl Fn(usize) -> Option<&'s Specialization>) {
        let (general, special) = (&self.forms[0], &self.forms[1..]);
        let fits = |form: &Form| case_of(form.entry).is_some_and(|case| case.fits(&general.symbols));
        self.at = special.iter().position(fits).map_or(0, |index| index + 1);
    }

    /// Takes the form that takes less for granted, and gives which one was taken before; `None` if there is none, or that one was
    /// taken already.
    pub(crate) fn take_less<'s>(&mut self, case_of: impl Fn(usize) -> Option<&'s Specialization>) -> Option<usize> {
        let takes_less = |form: &Form| case_of(form.entry).is_some_and(Specialization::takes_less);
        let found = self.forms.iter().position(takes_less).filter(|&at| at != self.at)?;
        Some(std::mem::replace(&mut self.at, found))
    }

    /// Takes the form that [`Forms::take_less`] gave.
    pub(crate) fn return_to(&mut self, before: usize) {
        self.at = before;
    }

    /// The form in use, and the memory of one of its segments.
    pub(crate) fn with_memory(&mut self, segment: usize) -> (&mut Form, &mut Memory) {
        (&mut self.forms[self.at], &mut self.memory[segment])
    }

    /// The indices of the entries of all forms, that of the general one first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = usize> {
        self.forms.iter().map(|form| form.entry)
    }

    /// Whether this is so of any form.
    pub(crate) fn any(&self, is_so: impl Fn(&Form) -> bool) -> bool {
        self.forms.iter().any(is_so)
    }

    /// How many bindings are kept.
    pub(crate) fn kept_bindings(&self) -> usize {
        self.forms.iter().filter_map(|form| form.bindings.first()).map(Vec::len).sum()
    }
}

/// The longest argument block of a Program's launches, the reserved word included.
pub(crate) fn argument_words(program: &Program) -> usize {
    let words = program.steps.iter().map(|step| match step {
        Step::Launch(launch) => launch.args.len() + launch.values.len() + 1,
        _ => 0,
    });
    words.max().unwrap_or(0)
}
