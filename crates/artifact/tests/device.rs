//! Variants for GPUs: PTX in a section of its own, launches with grids, and what must hold of them.

mod support;

use infc_artifact::container::{ContainerWriter, Piece, SectionKind};
use infc_artifact::{
    Artifact, ArtifactBuilder, ArtifactError, Copy, DeviceKernel, Give, KernelInfo, Launch, Program, SizeExpr, Slot,
    Step, VariantBuilder, features,
};

const HEAD: &[u8] = b".version 7.0\n.target sm_80\n.address_size 64\n";
const ENTRY: &[u8] = b".visible .entry k_add() { ret; }\n";

fn device() -> DeviceKernel {
    DeviceKernel { entry: "k_add".to_owned(), block: [32, 4, 1], dynamic_shared_bytes: 65536, waits: false }
}

fn on_grid(mut program: Program) -> Program {
    for step in &mut program.steps {
        if let Step::Launch(launch) = step {
            let one = || SizeExpr::constant(1);
            launch.grid = Some([launch.chunks.clone(), one(), one()]);
        }
    }
    program
}

fn variant(info: KernelInfo, programs: [Program; 2]) -> VariantBuilder {
    let needed = features::required_by_ptx(80, false, 70);
    let mut variant = VariantBuilder::new("cuda:sm_80", &needed.each_ref().map(String::as_str));
    variant.head(HEAD);
    variant.kernel(info, ENTRY);
    for program in programs {
        variant.program(program);
    }
    variant
}

fn info() -> KernelInfo {
    KernelInfo { name: "k0_add".to_owned(), device: Some(device()), ..KernelInfo::default() }
}

fn built(variants: Vec<VariantBuilder>) -> Result<Vec<u8>, ArtifactError> {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    artifact.weight(support::weight("w"), vec![0u8; 16]);
    artifact.entry(support::main_entry());
    artifact.entry(support::pair_entry());
    for variant in variants {
        artifact.variant(variant);
    }
    artifact.finish()?.to_vec()
}

fn programs() -> [Program; 2] {
    [on_grid(support::main_program()), on_grid(support::pair_program())]
}

#[test]
fn a_variant_for_gpus_is_read_as_it_was_written() {
    let bytes = built(vec![variant(info(), programs()), support::variant("x86-64-v3")]).expect("well formed");
    let artifact = Artifact::read(&bytes).expect("well formed");
    artifact.verify_all().expect("nothing is damaged");
    assert_eq!(artifact.manifest().variants[0].required_features, ["sm_80", "ptx7.0"]);
    let body = artifact.variant(0).expect("well formed");
    assert_eq!(body.kernels[0].device, Some(device()));
    assert_eq!(body.programs, programs());
    let (ptx, section) = artifact.code(0).expect("a section");
    assert_eq!((ptx, section.kind), ([HEAD, ENTRY].concat().as_slice(), SectionKind::PTX));
    assert_eq!((body.head(ptx), body.kernels[0].code_offset as usize), (HEAD, HEAD.len()));
    assert_eq!(body.head(b"another's"), b"");
    let cpu = artifact.variant(1).expect("well formed");
    assert!(cpu.kernels[0].device.is_none());
    assert_eq!(artifact.code(1).expect("a section").1.kind, SectionKind::CODE);
    // Alone, with all that it had.
    let thin = artifact.thin("cuda:sm_80").expect("a variant").to_vec().expect("bytes");
    let thin = Artifact::read(&thin).expect("well formed");
    assert_eq!(thin.variant(0).expect("well formed"), body);
    assert_eq!(thin.code(0).expect("a section").0, ptx);
}

#[test]
fn which_kernels_wait_is_read_as_it_was_written() {
    let waiting = KernelInfo { device: Some(DeviceKernel { waits: true, ..device() }), ..info() };
    let schema = |info: &KernelInfo| {
        let bytes = built(vec![variant(info.clone(), programs())]).expect("well formed");
        let artifact = Artifact::read(&bytes).expect("well formed");
        assert_eq!(artifact.variant(0).expect("well formed").kernels[0].device, info.device);
        let sections = artifact.container().sections();
        sections.iter().find(|s| s.kind == SectionKind::PROGRAM).expect("a section").schema
    };
    // What waits for nothing is read by older versions, too.
    assert_eq!((schema(&waiting), schema(&info())), (4, 3));
}

/// A text, not code: nothing but entries stands behind the head.
#[test]
fn kernels_for_gpus_are_one_module() {
    let mut two = VariantBuilder::new("cuda:sm_80", &["sm_80", "ptx7.0"]);
    two.head(HEAD);
    two.kernel(info(), ENTRY);
    two.kernel(KernelInfo { name: "k1_add".to_owned(), ..info() }, ENTRY);
    for program in programs() {
        two.program(program);
    }
    let bytes = built(vec![two]).expect("well formed");
    let artifact = Artifact::read(&bytes).expect("well formed");
    assert_eq!(artifact.code(0).expect("a section").0, [HEAD, ENTRY, ENTRY].concat());
}

#[test]
fn cubins_belong_to_a_variant_and_none_is_required() {
    let mut first = variant(info(), programs());
    first.cubin(80, vec![1; 70]);
    first.cubin(86, vec![2; 5]);
    let mut second = VariantBuilder::new("cuda:sm_90", &["sm_90", "ptx7.8"]);
    second.head(HEAD);
    second.kernel(info(), ENTRY);
    for program in programs() {
        second.program(program);
    }
    second.cubin(90, vec![3; 9]);
    let bytes = built(vec![second, first, support::variant("x86-64-v3")]).expect("well formed");
    let artifact = Artifact::read(&bytes).expect("well formed");
    artifact.verify_all().expect("nothing is damaged");
    let images = |artifact: &Artifact<'_>, variant| -> Vec<(u32, Vec<u8>)> {
        let cubins = artifact.cubins(variant).expect("well formed");
        cubins.iter().map(|cubin| (cubin.capability, cubin.image.to_vec())).collect()
    };
    assert_eq!(images(&artifact, 0), [(90, vec![3; 9])]);
    assert_eq!(images(&artifact, 1), [(80, vec![1; 70]), (86, vec![2; 5])]);
    assert_eq!(images(&artifact, 2), []);
    let sections = artifact.container().sections();
    assert!(sections.iter().filter(|s| s.kind == SectionKind::CUBIN).all(|s| s.flags == 0), "older runtimes skip them");
    let thin = artifact.thin("cuda:sm_80").expect("a variant").to_vec().expect("bytes");
    assert_eq!(images(&Artifact::read(&thin).expect("well formed"), 0), images(&artifact, 1));
}

/// Files that only a container's writer makes: what is too short is refused, what a later version wrote is left out.
#[test]
fn cubins_that_are_none() {
    let bytes = built(vec![variant(info(), programs())]).expect("well formed");
    let whole = Artifact::read(&bytes).expect("well formed");
    let with = |schema: u32, cubin: &'static [u8]| {
        let mut writer = ContainerWriter::default();
        for (n, section) in whole.container().sections().iter().enumerate() {
            let bytes = whole.container().section_bytes(n).expect("a section").to_vec();
            writer.section(section.kind, section.flags, section.schema, vec![Piece::new(bytes)]);
        }
        writer.section(SectionKind::CUBIN, 0, schema, vec![Piece::new(cubin)]);
        let mut bytes = Vec::new();
        writer.write_to(&mut bytes).expect("a vector");
        let artifact = Artifact::read(&bytes).expect("well formed");
        artifact.cubins(0).map_or_else(|error| error.code(), |found| if found.is_empty() { "none" } else { "some" })
    };
    let mut header = [0; 64];
    assert_eq!(with(1, Box::leak(Box::new(header))), "none", "section 0 is no program");
    header[0] = 2;
    assert_eq!(with(1, Box::leak(Box::new(header))), "some");
    assert_eq!(with(2, b"whatever comes later"), "none");
    assert_eq!(with(1, &[0; 63]), "artifact::malformed");
}

/// What another variant says of its code and launches does not fit, whatever else is right.
#[test]
fn what_cannot_be_launched_is_refused() {
    let code = |variant: VariantBuilder| built(vec![variant]).map_or_else(|error| error.code(), |_| "accepted");
    let of = |change: &dyn Fn(&mut DeviceKernel)| {
        let mut device = device();
        change(&mut device);
        code(variant(KernelInfo { device: Some(device), ..info() }, programs()))
    };
    let malformed = "artifact::malformed";
    assert_eq!(of(&|_| {}), "accepted");
    assert_eq!(of(&|d| d.block = [1024, 1, 1]), "accepted");
    assert_eq!(of(&|d| d.block = [1025, 1, 1]), malformed);
    assert_eq!(of(&|d| d.block = [32, 0, 1]), malformed);
    assert_eq!(of(&|d| d.block = [u32::MAX; 3]), malformed);
    assert_eq!(of(&|d| d.dynamic_shared_bytes = u32::MAX), malformed);
    for entry in ["", "k add", "k\0", "k;"] {
        assert_eq!(of(&|d| d.entry = entry.to_owned()), malformed, "{entry:?}");
    }
    assert_eq!(of(&|d| d.entry = "k".repeat(5000)), malformed);

    let with = |change: &dyn Fn(&mut Program)| {
        let [main, mut pair] = programs();
        change(&mut pair);
        code(variant(info(), [main, pair]))
    };
    let launch = |program: &mut Program, change: &dyn Fn(&mut Launch)| match &mut program.steps[0] {
        Step::Launch(launch) => change(launch),
        _ => panic!("the sample has launches only"),
    };
    assert_eq!(with(&|_| {}), "accepted");
    assert_eq!(with(&|p| launch(p, &|l| l.grid = None)), malformed);
    let unknown = [SizeExpr::symbol(9), SizeExpr::constant(1), SizeExpr::constant(1)];
    assert_eq!(with(&|p| launch(p, &|l| l.grid = Some(unknown.clone()))), malformed);
    assert_eq!(with(&|p| launch(p, &|l| l.step_chunks = Some(SizeExpr::constant(2)))), malformed);
    // A copy is done there, other steps on the host.
    let copy = Step::Copy(Copy { src: 0, dst: 3, size_bytes: SizeExpr::constant(0) });
    assert_eq!(with(&|p| p.steps.push(copy.clone())), "accepted");
    assert_eq!(with(&|p| p.steps.push(Step::Give(Give { slot: 0, output: 0 }))), "accepted");
    assert_eq!(with(&|p| p.slots[0] = Slot::Input(9)), malformed);

    // Kernels and launches of a processor in a variant for GPUs, and the other way round.
    assert_eq!(code(variant(KernelInfo { device: None, ..info() }, programs())), malformed);
    let mut cpu = VariantBuilder::new("x86-64", &[]);
    cpu.kernel(info(), ENTRY);
    for program in programs() {
        cpu.program(program);
    }
    assert_eq!(code(cpu), malformed);
}

#[test]
fn every_byte_of_ptx_counts() {
    let bytes = built(vec![variant(info(), programs())]).expect("well formed");
    let range = Artifact::read(&bytes).expect("well formed").code(0).expect("a section").1.range.clone();
    for at in [range.start, range.start + 40, range.end - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let error = Artifact::read(&damaged).expect("the head is whole").verify_all().expect_err("it is damaged");
        assert_eq!(error.code(), "artifact::hash-mismatch");
    }
}
