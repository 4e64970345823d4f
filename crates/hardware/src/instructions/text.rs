//! What small modules have in common.

use infc_tensor::DType;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A type of PTX, as far as instructions have it in their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    /// What declares a register that holds it, and what such a register is called.
    class: (&'static str, &'static str),
}

const B16: (&str, &str) = (".b16", "%h");
const B32: (&str, &str) = (".b32", "%r");
const B64: (&str, &str) = (".b64", "%rd");
const F32: (&str, &str) = (".f32", "%f");
const F64: (&str, &str) = (".f64", "%fd");
const PRED: (&str, &str) = (".pred", "%p");

const TYPES: [Type; 15] = [
    Type { name: "pred", bytes: 4, class: PRED },
    Type { name: "b16", bytes: 2, class: B16 },
    Type { name: "f16", bytes: 2, class: B16 },
    Type { name: "bf16", bytes: 2, class: B16 },
    Type { name: "b32", bytes: 4, class: B32 },
    Type { name: "tf32", bytes: 4, class: B32 },
    Type { name: "s32", bytes: 4, class: B32 },
    Type { name: "u32", bytes: 4, class: B32 },
    // In the low bytes of a wider register.
    Type { name: "s8", bytes: 1, class: B32 },
    Type { name: "u8", bytes: 1, class: B32 },
    Type { name: "b64", bytes: 8, class: B64 },
    Type { name: "s64", bytes: 8, class: B64 },
    Type { name: "u64", bytes: 8, class: B64 },
    Type { name: "f32", bytes: 4, class: F32 },
    Type { name: "f64", bytes: 8, class: F64 },
];

impl Type {
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.into_iter().find(|ty| ty.name == name)
    }

    /// As a type of tensors, if it is one of floats.
    pub(super) fn float(self) -> Option<DType> {
        match self.name {
            "f16" => Some(DType::F16),
            "bf16" => Some(DType::BF16),
            // The same numbers, of which there are fewer.
            "f32" | "tf32" => Some(DType::F32),
            "f64" => Some(DType::F64),
            _ => None,
        }
    }

    /// As what memory holds it: conditions are numbers there.
    pub(super) fn in_memory(self) -> &'static str {
        match self.name {
            "pred" | "tf32" => "u32",
            "f16" | "bf16" => "b16",
            name => name,
        }
    }
}

/// What an instruction takes, of what there is code for.
#[derive(Clone, Copy)]
pub(super) struct Needed {
    version: &'static str,
    /// The compute capability, major·10 + minor, and whether it must be that one.
    capability: u32,
    only: bool,
}

const TURING: Needed = Needed { version: "6.5", capability: 75, only: false };
const AMPERE: Needed = Needed { version: "7.0", capability: 80, only: false };
const HOPPER: Needed = Needed { version: "8.4", capability: 90, only: true };

impl Needed {
    pub(super) fn runs_on(self, capability: u32) -> bool {
        if self.only { capability == self.capability } else { capability >= self.capability }
    }
}

pub(super) fn needed(instruction: &str) -> Needed {
    const OF_AMPERE: [&str; 6] = ["mma.", "cp.async.", "max.NaN.", "min.NaN.", "cvt.rn.bf16.", "cvt.rna.tf32."];
    const OF_HOPPER: [&str; 3] = ["wgmma.", "fence.proxy.async", "griddepcontrol."];
    let is_of = |starts: &[&str]| starts.iter().any(|start| instruction.starts_with(start));
    match instruction {
        _ if is_of(&OF_HOPPER) => HOPPER,
        _ if is_of(&OF_AMPERE) => AMPERE,
        _ => TURING,
    }
}

/// The register that every module has the thread's number in.
pub(super) const THREAD: &str = "%r0";

/// A module in the making: a single block, addresses of inputs and of an output.
pub(super) struct Text {
    declarations: String,
    body: String,
    /// How many registers there are, by class.
    registers: BTreeMap<&'static str, (&'static str, usize)>,
    /// Registers with the addresses of the inputs, and of the output.
    parameters: Vec<String>,
}

impl Text {
    /// With so many inputs, and the output behind them.
    pub(super) fn new(inputs: usize) -> Self {
        let mut this = Self {
            declarations: String::new(),
            body: String::new(),
            registers: BTreeMap::new(),
            parameters: Vec::new(),
        };
        let thread = this.register(Type::named("u32").expect("listed"));
        debug_assert_eq!(thread, THREAD);
        this.line(&format!("mov.u32 {THREAD}, %tid.x"));
        for n in 0..=inputs {
            let (generic, global) = (this.address(), this.address());
            this.line(&format!("ld.param.u64 {generic}, [param_{n}]"));
            this.line(&format!("cvta.to.global.u64 {global}, {generic}"));
            this.parameters.push(global);
        }
        this
    }

    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.body, "\t{line};");
    }

    /// Something in front of the first instruction.
    pub(super) fn declare(&mut self, line: &str) {
        let _ = writeln!(self.declarations, "\t{line};");
    }

    /// A new register.
    pub(super) fn register(&mut self, ty: Type) -> String {
        let (class, name) = ty.class;
        let (_, count) = self.registers.entry(class).or_insert((name, 0));
        *count += 1;
        format!("{name}{}", *count - 1)
    }

    pub(super) fn address(&mut self) -> String {
        self.register(Type::named("u64").expect("listed"))
    }

    /// The address of what is the thread's own, so many bytes each, in a parameter's memory.
    pub(super) fn own(&mut self, parameter: usize, bytes: usize) -> String {
        let address = self.address();
        let base = &self.parameters[parameter];
        let line = format!("mad.wide.s32 {address}, {THREAD}, {bytes}, {base}");
        self.line(&line);
        address
    }

    /// A register with the thread's own element of an input.
    pub(super) fn load(&mut self, parameter: usize, ty: Type) -> String {
        let address = self.own(parameter, ty.bytes);
        if ty.name != "pred" {
            let register = self.register(ty);
            self.line(&format!("ld.global.{} {register}, [{address}]", ty.in_memory()));
            return register;
        }
        let number = self.register(Type::named("u32").expect("listed"));
        self.line(&format!("ld.global.u32 {number}, [{address}]"));
        let condition = self.register(ty);
        self.line(&format!("setp.ne.s32 {condition}, {number}, 0"));
        condition
    }

    /// Writes the thread's own element of the output.
    pub(super) fn store(&mut self, ty: Type, register: &str) {
        let address = self.own(self.parameters.len() - 1, ty.bytes);
        if ty.name != "pred" {
            self.line(&format!("st.global.{} [{address}], {register}", ty.in_memory()));
            return;
        }
        let number = self.register(Type::named("u32").expect("listed"));
        self.line(&format!("selp.u32 {number}, 1, 0, {register}"));
        self.line(&format!("st.global.u32 [{address}], {number}"));
    }

    /// The module that shows an instruction.
    pub(super) fn finish(mut self, threads: u32, instruction: &str) -> String {
        self.line("ret");
        let parameters: Vec<String> = (0..self.parameters.len()).map(|n| format!("\t.param .u64 param_{n}")).collect();
        let declare = |(class, (name, count)): (&&str, &(&str, usize))| format!("\t.reg {class} {name}<{count}>;\n");
        let registers: String = self.registers.iter().map(declare).collect();
        let Needed { version, capability, only } = needed(instruction);
        let target = format!("{capability}{}", if only { "a" } else { "" });
        format!(
            ".version {version}\n.target sm_{target}\n.address_size 64\n\n.visible .entry micro(\n{}\n)\n.maxntid {threads}, 1, 1\n{{\n\
             {registers}{}\n{}}}\n",
            parameters.join(",\n"),
            self.declarations,
            self.body
        )
    }
}
