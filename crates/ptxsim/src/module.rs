//! A module's frame: directives, declarations, labels.

use crate::SimError;
use crate::decode::decode;
use crate::instruction::{Instruction, Operation, Reg};
use crate::token::Cursor;
use crate::types::{Kind, Ty};
use std::collections::HashMap;

/// Addresses of shared memory begin here, so that 0 is none.
pub(crate) const SHARED_START: u64 = 0x400;
/// Addresses of local memory begin here.
pub(crate) const LOCAL_START: u64 = 0x10_0000;
/// Shared memory that a module may declare itself.
const STATIC_SHARED_BYTES: u64 = 48 << 10;

/// A parsed module of one target.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) entries: Vec<Entry>,
    /// `(major, minor)` of `.version`.
    pub version: (u32, u32),
    /// The number in `.target`.
    pub sm: u32,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, Ty)>,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) registers: Registers,
    pub(crate) shared_bytes: u64,
    pub(crate) dynamic_shared: bool,
    pub(crate) local_bytes: u64,
    pub(crate) body: Vec<Instruction>,
}

impl Entry {
    /// Whether its threads wait for the launches before it.
    pub(crate) fn waits(&self) -> bool {
        self.body.iter().any(|i| i.operation == Operation::GridWait)
    }
}

/// The registers of a function, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    /// Prefix, first number, how many, type.
    ranges: Vec<(String, Reg, Reg, Ty)>,
    count: Reg,
}

/// Registers that a function may declare; each thread of a block has all of them.
const MAX_REGISTERS: Reg = 1 << 20;

impl Registers {
    fn declare(&mut self, prefix: &str, count: Reg, ty: Ty) {
        self.ranges.push((prefix.to_owned(), self.count, count, ty));
        self.count += count;
    }

    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// A register and its type.
    pub(crate) fn find(&self, name: &str) -> Option<(Reg, Ty)> {
        self.ranges.iter().find_map(|(prefix, first, count, ty)| {
            let number: Reg = name.strip_prefix(prefix.as_str())?.parse().ok()?;
            (number < *count).then_some((first + number, *ty))
        })
    }

    pub(crate) fn name(&self, reg: Reg) -> String {
        let range = self.ranges.iter().find(|(_, first, count, _)| (*first..first + count).contains(&reg));
        range.map_or_else(|| format!("#{reg}"), |(prefix, first, ..)| format!("{prefix}{}", reg - first))
    }

    /// The types of all of them, by number.
    pub(crate) fn types(&self) -> Vec<Ty> {
        self.ranges.iter().flat_map(|&(_, _, count, ty)| (0..count).map(move |_| ty)).collect()
    }
}

/// What names stand for inside of a function.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) registers: Registers,
    /// Addresses of shared and local arrays.
    pub(crate) addresses: HashMap<String, u64>,
    /// Arrays of the entry's own.
    arrays: Vec<String>,
    pub(crate) parameters: Vec<(String, Ty)>,
    /// Numbers of labels, and where they stand once they are placed.
    labels: HashMap<String, usize>,
    placed: Vec<Option<usize>>,
}

impl Names {
    /// The number of a label, which may come later.
    pub(crate) fn label(&mut self, name: &str) -> usize {
        let next = self.placed.len();
        let number = *self.labels.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.placed.push(None);
        }
        number
    }
}

impl Module {
    /// Reads PTX text.
    ///
    /// # Errors
    /// [`SimError`] that names the line: of what is no PTX, of instructions that the simulator does not know, and of
    /// registers that do not have the type of their instruction.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let mut c = Cursor::new(text)?;
        let mut module = Module { entries: Vec::new(), version: (0, 0), sm: 0 };
        let mut extern_shared: Option<String> = None;
        while let Some(word) = c.peek() {
            match word {
                ".version" => {
                    c.expect(".version")?;
                    let error = c.error("a version such as 7.0");
                    let (major, minor) = c.next("a version")?.split_once('.').ok_or_else(|| error.clone())?;
                    let number = |n: &str| n.parse().map_err(|_| error.clone());
                    module.version = (number(major)?, number(minor)?);
                }
                ".target" => {
                    c.expect(".target")?;
                    let error = c.error("a target such as sm_80");
                    let digits = c.next("a target")?.strip_prefix("sm_").map(|n| n.trim_end_matches(['a', 'f']));
                    module.sm = digits.and_then(|n| n.parse().ok()).ok_or(error)?;
                }
                ".address_size" => {
                    c.expect(".address_size")?;
                    c.expect("64")?;
                }
                ".extern" => {
                    for word in [".extern", ".shared", ".align"] {
                        c.expect(word)?;
                    }
                    c.integer()?;
                    c.expect(".b8")?;
                    extern_shared = Some(c.next("a name")?.to_owned());
                    for word in ["[", "]", ";"] {
                        c.expect(word)?;
                    }
                }
                ".visible" => {
                    c.expect(".visible")?;
                    module.entries.push(entry(&mut c, extern_shared.as_deref())?);
                }
                _ => return Err(c.error("a directive")),
            }
        }
        Ok(module)
    }

    /// Whether the threads of a kernel wait for the launches before it; `false` if there is none of that name.
    #[must_use]
    pub fn waits(&self, entry: &str) -> bool {
        self.entries.iter().any(|e| e.name == entry && e.waits())
    }

    /// The names of the kernels.
    pub fn entry_names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }
}

fn entry(c: &mut Cursor<'_>, extern_shared: Option<&str>) -> Result<Entry, SimError> {
    c.expect(".entry")?;
    let name = c.next("a name")?.to_owned();
    let mut names = Names::default();
    c.expect("(")?;
    while !c.eat(")") {
        c.expect(".param")?;
        let ty = ty(c)?;
        names.parameters.push((c.next("a name")?.to_owned(), ty));
        if c.peek() != Some(")") {
            c.expect(",")?;
        }
    }
    let mut max_threads = None;
    while let Some(directive @ (".maxntid" | ".reqntid" | ".minnctapersm")) = c.peek() {
        c.expect(directive)?;
        let mut extents = [1; 3];
        for (n, extent) in extents.iter_mut().enumerate() {
            if n == 0 || c.eat(",") {
                *extent = u32::try_from(c.integer()?).map_err(|_| c.error("a number of threads"))?;
            }
        }
        if directive != ".minnctapersm" {
            max_threads = Some(extents);
        }
    }
    c.expect("{")?;
    if let Some(name) = extern_shared {
        names.addresses.insert(name.to_owned(), SHARED_START);
    }
    let (mut shared_bytes, mut local_bytes) = (0, 0);
    let mut body = Vec::new();
    while !c.eat("}") {
        match c.peek() {
            Some(".reg") => registers(c, &mut names)?,
            // About how an assembler arranges code, not about what that does.
            Some(".pragma") => {
                c.expect(".pragma")?;
                c.next("a pragma")?;
                c.expect(";")?;
            }
            Some(space @ (".shared" | ".local")) => {
                let is_shared = space == ".shared";
                let (start, used) =
                    if is_shared { (SHARED_START, &mut shared_bytes) } else { (LOCAL_START, &mut local_bytes) };
                array(c, space, start, used, &mut names)?;
            }
            Some(_) if c.second() == Some(":") => {
                let label = names.label(c.next("a label")?);
                c.expect(":")?;
                names.placed[label] = Some(body.len());
            }
            Some(_) => body.push(decode(c, &mut names)?),
            None => return Err(c.error("}")),
        }
    }
    // An array of its own of the same name hides that of launches.
    let dynamic_shared = extern_shared.is_some_and(|name| !names.arrays.iter().any(|own| own == name));
    if dynamic_shared && shared_bytes > 0 {
        let reason = format!("`{name}` has shared memory of its own beside what a launch gives it");
        return Err(SimError::Launch { reason });
    }
    if shared_bytes > STATIC_SHARED_BYTES {
        let reason = format!("`{name}` declares {shared_bytes} bytes of shared memory; {STATIC_SHARED_BYTES} may be");
        return Err(SimError::Launch { reason });
    }
    for instruction in &mut body {
        if let Operation::Branch { to } = &mut instruction.operation {
            let undeclared = || SimError::Undeclared {
                line: instruction.line,
                name: names.labels.iter().find(|(_, n)| **n == *to).map_or_else(String::new, |(name, _)| name.clone()),
            };
            *to = names.placed[*to].ok_or_else(undeclared)?;
        }
    }
    Ok(Entry {
        name,
        parameters: names.parameters,
        max_threads,
        registers: names.registers,
        shared_bytes,
        dynamic_shared,
        local_bytes,
        body,
    })
}

fn ty(c: &mut Cursor<'_>) -> Result<Ty, SimError> {
    let error = c.error("a type");
    c.next("a type")?.strip_prefix('.').and_then(Ty::named).ok_or(error)
}

/// `.reg .b32 %r<8>;`
fn registers(c: &mut Cursor<'_>, names: &mut Names) -> Result<(), SimError> {
    c.expect(".reg")?;
    let ty = ty(c)?;
    if ty.kind == Kind::Bf16 || ty.bits == 8 {
        return Err(c.error("a type that registers have"));
    }
    let prefix = c.next("a name")?;
    c.expect("<")?;
    let count = Reg::try_from(c.integer()?).ok().filter(|n| names.registers.count + n <= MAX_REGISTERS);
    let count = count.ok_or_else(|| c.error("a number of registers"))?;
    c.expect(">")?;
    c.expect(";")?;
    names.registers.declare(prefix, count, ty);
    Ok(())
}

/// `.shared .align 16 .b8 smem[1024];`
fn array(c: &mut Cursor<'_>, space: &str, start: u64, used: &mut u64, names: &mut Names) -> Result<(), SimError> {
    c.expect(space)?;
    c.expect(".align")?;
    let align = u64::try_from(c.integer()?).ok().filter(|a| a.is_power_of_two());
    let align = align.ok_or_else(|| c.error("an alignment"))?;
    c.expect(".b8")?;
    let name = c.next("a name")?.to_owned();
    c.expect("[")?;
    let bytes = u64::try_from(c.integer()?).map_err(|_| c.error("a size"))?;
    c.expect("]")?;
    c.expect(";")?;
    *used = used.next_multiple_of(align);
    names.arrays.push(name.clone());
    names.addresses.insert(name, start + *used);
    *used += bytes;
    Ok(())
}
