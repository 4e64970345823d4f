//! Each check fires where it should, and nothing fires on the same kernel without the fault.

use infc_ptxsim::{Argument, Buffer, Launch, Module, SimError, Stats, run};

/// A kernel of a block of `threads` and `grid` blocks over an input `%rd0` of 256 words, n at word n, and an output
/// `%rd1` of as many; 1024 bytes of shared memory from `smem`, 64 bytes of local memory from `spill`.
fn module(body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n.maxntid 256, 1, 1\n{{
        .reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<16>;\n.reg .f64 %fd<4>;
        .shared .align 16 .b8 smem[1024];\n.local .align 16 .b8 spill[64];
        ld.param.u64 %rd0, [x];\nld.param.u64 %rd1, [y];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;
        mad.wide.s32 %rd2, %r0, 4, %rd0;\nmad.wide.s32 %rd3, %r0, 4, %rd1;
        mov.u64 %rd4, smem;\nmad.wide.s32 %rd5, %r0, 4, %rd4;\n{body}\nret;\n}}\n"
    )
}

fn execute(body: &str, threads: u32, grid: u32) -> Result<(Vec<u32>, Stats), SimError> {
    let module = Module::parse(&module(body))?;
    let input: Vec<u8> = (0..256u32).flat_map(u32::to_le_bytes).collect();
    let mut last = None;
    // Whatever the order of threads and blocks.
    for seed in 0..3 {
        let mut buffers = [Buffer::input(input.clone()), Buffer::output(1024)];
        let launch = Launch {
            entry: "k",
            grid: [grid, 1, 1],
            block: [threads, 1, 1],
            arguments: &[Argument::Buffer(0), Argument::Buffer(1)],
            dynamic_shared_bytes: 0,
            seed,
            step_limit: 100_000,
        };
        let stats = run(&module, &launch, &mut buffers)?;
        let words = buffers[1].bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().expect("four bytes")));
        last = Some((words.collect(), stats));
    }
    Ok(last.expect("there are seeds"))
}

#[track_caller]
fn fault(body: &str, threads: u32, grid: u32) -> SimError {
    match execute(body, threads, grid) {
        Ok(_) => panic!("no fault in\n{body}"),
        Err(e) => e,
    }
}

#[track_caller]
fn fine(body: &str, threads: u32, grid: u32) -> Vec<u32> {
    execute(body, threads, grid).unwrap_or_else(|e| panic!("{e}\n{body}")).0
}

#[test]
fn a_copy_copies() {
    let out = fine("ld.global.nc.u32 %r2, [%rd2];\nadd.s32 %r2, %r2, 1;\nst.global.u32 [%rd3], %r2;", 64, 1);
    assert_eq!(out[..64], (1..=64).collect::<Vec<u32>>());
}

#[test]
fn addresses_outside_of_buffers() {
    let e = fault("ld.global.u32 %r2, [%rd2+4];", 256, 1);
    assert_eq!(e.code(), "ptxsim::out-of-bounds");
    assert!(e.to_string().contains("buffer 0, byte 1024, are outside of it (1024 bytes)"), "{e}");
    assert_eq!(fault("ld.global.u32 %r2, [%rd0+-4];", 1, 1).code(), "ptxsim::out-of-bounds");
    assert_eq!(fault("st.shared.u32 [%rd4+1024], %r0;", 1, 1).code(), "ptxsim::out-of-bounds");
    assert_eq!(fault("mov.u64 %rd6, spill;\nst.local.u32 [%rd6+64], %r0;", 1, 1).code(), "ptxsim::out-of-bounds");
    fine("mov.u64 %rd6, spill;\nst.local.u32 [%rd6+60], %r0;\nld.local.u32 %r2, [%rd6+60];", 1, 1);
}

#[test]
fn addresses_of_another_space() {
    assert_eq!(fault("ld.global.u32 %r2, [%rd4];", 1, 1).code(), "ptxsim::wild-address");
    assert_eq!(fault("ld.shared.u32 %r2, [%rd0];", 1, 1).code(), "ptxsim::wild-address");
}

#[test]
fn alignment() {
    let e = fault("ld.global.v2.u32 {%r2, %r3}, [%rd0+4];", 1, 1);
    assert_eq!(e.code(), "ptxsim::misaligned");
    // Buffers are aligned to 16 bytes and to no more.
    fine("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd0+16];", 1, 1);
    assert_eq!(fault("st.shared.f64 [%rd4+4], 0d0000000000000000;", 1, 1).code(), "ptxsim::misaligned");
}

#[test]
fn memory_that_nobody_wrote() {
    assert_eq!(fault("ld.global.u32 %r2, [%rd3];", 1, 1).code(), "ptxsim::uninitialised-memory");
    assert_eq!(fault("ld.shared.u32 %r2, [%rd4];", 1, 1).code(), "ptxsim::uninitialised-memory");
    let local = "mov.u64 %rd6, spill;\nst.local.u8 [%rd6], %r0;\nld.local.u32 %r2, [%rd6];";
    assert_eq!(fault(local, 1, 1).code(), "ptxsim::uninitialised-memory");
    // What one block leaves in shared memory is nothing to the next.
    let first = "setp.eq.s32 %p0, %r1, 0;\n@%p0 st.shared.u32 [%rd4], %r0;\nld.shared.u32 %r2, [%rd4];";
    assert_eq!(fault(first, 1, 2).code(), "ptxsim::uninitialised-memory");
}

#[test]
fn registers_that_nobody_wrote() {
    let e = fault("add.s32 %r2, %r3, 1;", 1, 1);
    assert_eq!(e.code(), "ptxsim::uninitialised-register");
    assert!(e.to_string().contains("%r3"), "{e}");
    // A guarded load leaves the register as it was.
    let guarded = "setp.lt.s32 %p0, %r0, 0;\n@%p0 ld.global.u32 %r2, [%rd2];\nst.global.u32 [%rd3], %r2;";
    assert_eq!(fault(guarded, 1, 1).code(), "ptxsim::uninitialised-register");
    assert_eq!(fault("@%p5 bra $L0;\n$L0:", 1, 1).code(), "ptxsim::uninitialised-register");
}

#[test]
fn writing_an_input() {
    assert_eq!(fault("st.global.u32 [%rd2], %r0;", 1, 1).code(), "ptxsim::read-only");
}

/// Each thread writes a word of shared memory and reads its neighbour's.
const NEIGHBOUR: &str =
    "st.shared.u32 [%rd5], %r0;\nbar.sync 0;\nxor.b32 %r2, %r0, 1;\nmad.wide.s32 %rd6, %r2, 4, %rd4;
    ld.shared.u32 %r3, [%rd6];\nst.global.u32 [%rd3], %r3;";

#[test]
fn races_in_shared_memory() {
    assert_eq!(fine(NEIGHBOUR, 64, 1)[..4], [1, 0, 3, 2]);
    let e = fault(&NEIGHBOUR.replace("bar.sync 0;", ""), 64, 1);
    // In one order the neighbour's word is not there yet.
    assert!(matches!(e.code(), "ptxsim::race" | "ptxsim::uninitialised-memory"), "{e}");
    // Written again before others have read it.
    let again = format!("{NEIGHBOUR}\nst.shared.u32 [%rd5], %r3;");
    assert_eq!(fault(&again, 64, 1).code(), "ptxsim::race");
    fine(&format!("{NEIGHBOUR}\nbar.sync 0;\nst.shared.u32 [%rd5], %r3;"), 64, 1);
    // Two writers.
    assert_eq!(fault("st.shared.u32 [%rd4], %r0;", 2, 1).code(), "ptxsim::race");
}

#[test]
fn races_in_global_memory() {
    assert_eq!(fault("st.global.u32 [%rd1], %r0;", 2, 1).code(), "ptxsim::race");
    let e = fault("st.global.u32 [%rd3], %r0;", 1, 2);
    assert!(e.code() == "ptxsim::race" && e.to_string().contains("block"), "{e}");
    // A barrier orders threads of a block, and not blocks.
    fine("setp.eq.s32 %p0, %r0, 0;\n@%p0 st.global.u32 [%rd1], %r0;\nbar.sync 0;\nld.global.u32 %r2, [%rd1];", 4, 1);
    let grid = "add.s32 %r3, %r0, %r1;\nsetp.eq.s32 %p0, %r3, 0;\n@%p0 st.global.u32 [%rd1], %r0;\nbar.sync 0;\nsetp.gt.s32 %p1, %r1, 0;
        @%p1 st.global.u32 [%rd1], %r0;";
    assert_eq!(fault(grid, 1, 2).code(), "ptxsim::race");
}

#[test]
fn what_is_written_is_not_constant() {
    let own = "st.global.u32 [%rd3], %r0;\nld.global.nc.u32 %r2, [%rd3];";
    assert_eq!(fault(own, 1, 1).code(), "ptxsim::race");
    fine(&own.replace(".nc", ""), 1, 1);
}

/// Not even by the thread that has read it: an input and an output in one buffer, as in place.
#[test]
fn what_is_read_as_constant_is_not_written() {
    let execute = |body: &str| {
        let module = Module::parse(&module(body)).expect("it parses");
        let mut buffers = [Buffer { writable: true, ..Buffer::input(vec![7; 1024]) }];
        let launch = Launch {
            entry: "k",
            grid: [1, 1, 1],
            block: [32, 1, 1],
            arguments: &[Argument::Buffer(0), Argument::Buffer(0)],
            dynamic_shared_bytes: 0,
            seed: 0,
            step_limit: 100_000,
        };
        run(&module, &launch, &mut buffers)
    };
    let add = "ld.global.nc.u32 %r2, [%rd2];\nadd.s32 %r2, %r2, 1;\nst.global.u32 [%rd3], %r2;";
    assert_eq!(execute(add).map_err(|e| e.code()), Err("ptxsim::race"));
    execute(&add.replace(".nc", "")).expect("a thread writes what it alone has read");
}

#[test]
fn barriers_that_some_threads_skip() {
    let some = "setp.lt.s32 %p0, %r0, 16;\n@!%p0 bra $L0;\nbar.sync 0;\n$L0:";
    let e = fault(some, 32, 1);
    assert!(e.code() == "ptxsim::divergent-barrier" && e.to_string().contains("does not reach"), "{e}");
    fine(some, 16, 1);
    let two = "setp.lt.s32 %p0, %r0, 16;\n@!%p0 bra $L0;\nbar.sync 0;\nbra $L1;\n$L0:\nbar.sync 0;\n$L1:";
    assert!(fault(two, 32, 1).to_string().contains("wait at another"));
}

#[test]
fn warps_that_are_not_whole() {
    let sum = "mov.b32 %r2, %r0;\nshfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nst.global.u32 [%rd3], %r3;";
    assert_eq!(fine(sum, 32, 1)[..4], [1, 0, 3, 2]);
    assert_eq!(fault(sum, 16, 1).code(), "ptxsim::divergent-warp");
    assert_eq!(
        fault(&format!("setp.lt.s32 %p0, %r0, 16;\n@!%p0 bra $L0;\n{sum}\n$L0:"), 32, 1).code(),
        "ptxsim::divergent-warp"
    );
    let down = "shfl.sync.down.b32 %r3|%p1, %r0, 2, 31, -1;\nselp.u32 %r3, %r3, 99, %p1;\nst.global.u32 [%rd3], %r3;";
    let out = fine(down, 32, 1);
    assert_eq!((out[0], out[29], out[30]), (2, 31, 99));
}

const COPY: &str = "shl.b32 %r2, %r0, 4;\ncvt.s64.s32 %rd6, %r2;\nadd.s64 %rd7, %rd4, %rd6;\nadd.s64 %rd8, %rd0, %rd6;
    cp.async.cg.shared.global [%rd7], [%rd8], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;
    ld.shared.u32 %r3, [%rd5];\nst.global.u32 [%rd3], %r3;";

#[test]
fn asynchronous_copies() {
    assert_eq!(fine(COPY, 64, 1)[..64], (0..64).collect::<Vec<u32>>());
    assert_eq!(fault(&COPY.replace("wait_group 0", "wait_group 1"), 64, 1).code(), "ptxsim::pending-copy");
    let no_barrier = fault(&COPY.replace("bar.sync 0;", ""), 64, 1);
    assert!(matches!(no_barrier.code(), "ptxsim::race" | "ptxsim::uninitialised-memory" | "ptxsim::pending-copy"));
    let zeros = COPY.replace("], 16;", "], 16, %r3;").replace("shl.b32", "mov.b32 %r3, 4;\nshl.b32");
    assert_eq!(fine(&zeros, 64, 1)[..8], [0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(fault("cp.async.cg.shared.global [%rd4], [%rd0], 8;", 1, 1).code(), "ptxsim::operand-type");
    assert_eq!(fault("cp.async.ca.shared.global [%rd4], [%rd0+4], 8;", 1, 1).code(), "ptxsim::misaligned");
}

#[test]
fn what_never_ends() {
    assert_eq!(fault("$L0:\nbra $L0;", 1, 1).code(), "ptxsim::step-limit");
}

#[test]
fn unknown_instructions_and_wrong_types_are_told_by_line() {
    let e = fault("frobnicate.b32 %r2, %r3;", 1, 1);
    assert_eq!(e.code(), "ptxsim::unknown-instruction");
    assert!(e.to_string().starts_with("line 23: "), "{e}");
    // What the assembler takes without a word.
    for wrong in ["add.rn.f32 %r2, %r3, %r4;", "add.s32 %f0, %f1, %f2;", "add.s32 %r0, %r1, %rd0;", "mov.u32 %r0, %f0;"]
    {
        assert_eq!(fault(wrong, 1, 1).code(), "ptxsim::operand-type", "{wrong}");
    }
    // Roundings that the instruction does not have, or has to have.
    for unknown in [
        "add.f16 %h0, %h1, %h2;",
        "cvt.f32.s32 %f0, %r0;",
        "cvt.rn.f64.f32 %fd0, %f0;",
        "max.NaN.f64 %fd0, %fd0, %fd0;",
    ] {
        assert_eq!(fault(unknown, 1, 1).code(), "ptxsim::unknown-instruction", "{unknown}");
    }
    assert_eq!(fault("mov.b32 %r99, 0;", 1, 1).code(), "ptxsim::undeclared");
    assert_eq!(fault("bra $L9;", 1, 1).code(), "ptxsim::undeclared");
    assert_eq!(fault("add.s32 %r2, %r0, 4294967296;", 1, 1).code(), "ptxsim::operand-type");
    assert_eq!(fault("add.s32 %r2, %r0 1;", 1, 1).code(), "ptxsim::syntax");
    // As for the assembler, there is no such address.
    assert_eq!(fault("ld.global.u32 %r2, [%rd0-4];", 1, 1).code(), "ptxsim::syntax");
}

#[test]
fn launches_that_no_gpu_takes() {
    assert_eq!(fault("", 0, 1).code(), "ptxsim::launch");
    assert_eq!(fault("", 1, 0).code(), "ptxsim::launch");
    // More than `.maxntid`.
    assert_eq!(fault("", 512, 1).code(), "ptxsim::launch");
    let parsed = Module::parse(&module("")).expect("parses");
    let launch = |arguments| Launch {
        entry: "k",
        grid: [1; 3],
        block: [1; 3],
        arguments,
        dynamic_shared_bytes: 0,
        seed: 0,
        step_limit: 9,
    };
    assert!(matches!(run(&parsed, &launch(&[]), &mut []), Err(SimError::Launch { .. })));
    assert!(matches!(run(&parsed, &launch(&[Argument::Buffer(0); 2]), &mut []), Err(SimError::Launch { .. })));
}

/// Several kernels in a module, and one that calls its own shared memory as others call that of launches; pragmas are nothing to
/// execute.
#[test]
fn modules_of_several_kernels() {
    let own = module(
        ".pragma \"nounroll\";\nst.shared.u32 [%rd5], 7;\nld.shared.u32 %r2, [%rd5];\nst.global.u32 [%rd3], %r2;",
    );
    let (frame, entry) = own.split_at(own.find(".visible").expect("an entry"));
    let extern_shared = ".extern .shared .align 16 .b8 smem[];\n";
    let of_launch = entry.replace(".entry k(", ".entry of_launch(").replace(".shared .align 16 .b8 smem[1024];", "");
    let parsed = Module::parse(&format!("{frame}{extern_shared}{entry}{of_launch}")).expect("parses");
    assert_eq!(parsed.entry_names().collect::<Vec<_>>(), ["k", "of_launch"]);
    for (entry, dynamic_shared_bytes) in [("k", 0), ("of_launch", 256)] {
        let launch = Launch {
            entry,
            grid: [1; 3],
            block: [64, 1, 1],
            arguments: &[Argument::Buffer(0), Argument::Buffer(1)],
            dynamic_shared_bytes,
            seed: 0,
            step_limit: 100_000,
        };
        let mut buffers = [Buffer::input(vec![0; 1024]), Buffer::output(1024)];
        run(&parsed, &launch, &mut buffers).unwrap_or_else(|e| panic!("{entry}: {e}"));
        assert_eq!(buffers[1].bytes[..8], [7, 0, 0, 0, 7, 0, 0, 0]);
    }
    let other = entry.replace("smem[1024]", "mine[1024]");
    assert_eq!(
        Module::parse(&format!("{frame}{extern_shared}{other}")).map_err(|e| e.code()).err(),
        Some("ptxsim::launch")
    );
}

#[test]
fn narrow_values_are_extended_in_words() {
    let body = "mov.b32 %r2, -2;\nmov.u64 %rd6, spill;\nst.local.u8 [%rd6], %r2;\nld.local.s8 %r3, [%rd6];\nld.local.u8 %r4, [%rd6];
        st.global.u32 [%rd1], %r3;\nst.global.u32 [%rd1+4], %r4;\ncvt.rn.f32.s32 %f0, %r3;\ncvt.rn.f16.f32 %h0, %f0;\nmov.b16 %h1, 0x0000;
        mov.b32 %r5, {%h1, %h0};\nst.global.u32 [%rd1+8], %r5;\nmov.b32 {%h2, %h3}, %r5;\ncvt.f32.f16 %f1, %h3;\nst.global.f32 [%rd1+12], %f1;";
    assert_eq!(fine(body, 1, 1)[..4], [-2i32 as u32, 0xfe, 0xc000_0000, (-2.0f32).to_bits()]);
}

/// A warp's product of halves: A is row·1 + 0 beyond the first two columns, B has ones in its first two rows.
fn product(kind: &str, a: &str, b: &str) -> String {
    let zeros: String = (2..6).map(|n| format!("mov.f32 %f{n}, 0f00000000;\n")).collect();
    let stores: String = (0..4).map(|n| format!("st.global.f32 [%rd6+{}], %f{};\n", 4 * n, n + 2)).collect();
    format!(
        "{zeros}{a}\n{b}
        mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%f2, %f3, %f4, %f5}}, {{%r4, %r5, %r6, %r7}}, {{%r8, %r9}}, {{%f2, %f3, %f4, %f5}};
        and.b32 %r2, %r0, 15;\nmad.wide.s32 %rd6, %r2, 16, %rd1;\nsetp.lt.s32 %p0, %r0, 16;\n@!%p0 bra $L0;\n{stores}$L0:"
    )
}

/// Row `lane div 4` of A is `lane div 4` ones of f16 in the lane's own two columns of the first eight.
const ROWS_OF_A: &str =
    "shr.u32 %r2, %r0, 2;\ncvt.rn.f32.s32 %f0, %r2;\ncvt.rn.f16.f32 %h0, %f0;\nmov.b32 %r4, {%h0, %h0};
    mov.b32 %r5, 0;\nmov.b32 %r6, 0;\nmov.b32 %r7, 0;";
/// All of B is 1.
const ONES_OF_B: &str = "mov.b32 %r8, 1006648320;\nmov.b32 %r9, 1006648320;";

#[test]
fn matrices_are_multiplied_by_warps() {
    let body = product("f16", ROWS_OF_A, ONES_OF_B);
    // Lane l has (l div 4, 2·(l mod 4) + {0, 1}) and the same columns of the row 8 below.
    let out: Vec<f32> = fine(&body, 32, 1)[..64].iter().map(|&bits| f32::from_bits(bits)).collect();
    for lane in 0..16 {
        let row = (lane / 4 * 8) as f32;
        assert_eq!(out[4 * lane..4 * lane + 4], [row, row, 0.0, 0.0], "lane {lane}");
    }
    // A lane that does not take part; fewer than a warp.
    let split = format!("setp.lt.s32 %p1, %r0, 31;\n@!%p1 bra $L1;\n{body}\n$L1:");
    assert_eq!(fault(&split, 32, 1).code(), "ptxsim::divergent-warp");
    assert_eq!(fault(&body, 16, 1).code(), "ptxsim::divergent-warp");
    // Registers of another type, numbers of registers, shapes and types that are none.
    assert_eq!(fault(&body.replace("{%r8, %r9}", "{%r8, %f9}"), 32, 1).code(), "ptxsim::operand-type");
    assert_eq!(fault(&body.replace("{%r8, %r9}", "{%r8}"), 32, 1).code(), "ptxsim::syntax");
    for wrong in ["m16n8k8", "m8n8k16"] {
        assert_eq!(fault(&body.replace("m16n8k16", wrong), 32, 1).code(), "ptxsim::unknown-instruction");
    }
    assert_eq!(fault(&body.replace("f16.f16", "f16.bf16"), 32, 1).code(), "ptxsim::unknown-instruction");
}

/// Thread `t` writes a word of 16-bit numbers 2t and 2t + 1 at word `t`; rows of matrices lie 16 bytes apart.
const MATRICES: &str = "shl.b32 %r2, %r0, 1;\nadd.s32 %r3, %r2, 1;\nshl.b32 %r3, %r3, 16;\nor.b32 %r2, %r2, %r3;\nst.shared.u32 [%rd5], %r2;
    add.s32 %r4, %r0, 32;\nshl.b32 %r2, %r4, 1;\nadd.s32 %r3, %r2, 1;\nshl.b32 %r3, %r3, 16;\nor.b32 %r2, %r2, %r3;\nst.shared.u32 [%rd5+128], %r2;
    bar.sync 0;\nand.b32 %r5, %r0, 15;\nmad.wide.s32 %rd6, %r5, 16, %rd4;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r6, %r7}, [%rd6];
    mad.wide.s32 %rd7, %r0, 8, %rd1;\nst.global.u32 [%rd7], %r6;\nst.global.u32 [%rd7+4], %r7;";

#[test]
fn matrices_are_loaded_by_warps() {
    let pair = |a: u32, b: u32| a | b << 16;
    let out = fine(MATRICES, 32, 1);
    for lane in 0..32 {
        let at = 8 * (lane / 4) + 2 * (lane % 4);
        assert_eq!(out[2 * lane as usize..][..2], [pair(at, at + 1), pair(64 + at, 65 + at)], "lane {lane}");
    }
    let out = fine(&MATRICES.replace("x2.shared", "x2.trans.shared"), 32, 1);
    for lane in 0..32 {
        let at = lane / 4 + 16 * (lane % 4);
        assert_eq!(out[2 * lane as usize..][..2], [pair(at, at + 8), pair(64 + at, 72 + at)], "lane {lane}");
    }
    assert_eq!(fault(&MATRICES.replace("[%rd6];", "[%rd6+8];"), 32, 1).code(), "ptxsim::misaligned");
    assert_eq!(fault(&MATRICES.replace("[%rd6];", "[%rd6+1024];"), 32, 1).code(), "ptxsim::out-of-bounds");
    let unordered = MATRICES.replace("bar.sync 0;", "").replace("x2.shared", "x2.trans.shared");
    assert_eq!(fault(&unordered, 32, 1).code(), "ptxsim::race");
    assert_eq!(fault(MATRICES, 16, 1).code(), "ptxsim::divergent-warp");
}

/// A product by a group of warps of 1 KiB of words that threads write, all lines the same eight; `between` stands in front of it.
fn group_product(between: &str, sums: &str, behind: &str) -> String {
    format!(
        "mad.wide.s32 %rd6, %r0, 8, %rd4;\nmov.b32 %r2, 0x3c003c00;\nst.shared.v2.u32 [%rd6], {{%r2, %r2}};
        fence.proxy.async.shared::cta;\nbar.sync 0;
        shr.u64 %rd7, %rd4, 4;\nor.b64 %rd7, %rd7, 4611686018427387904;
        mov.f32 %f0, 0f00000000;\nmov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;
        setp.ge.s32 %p0, %r0, 0;\n{between}\nwgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {sums}, %rd7, %rd7, %p0, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;\n{behind}\ncvt.rni.u32.f32 %r3, %f0;\nst.global.u32 [%rd3], %r3;"
    )
}

#[test]
fn products_by_groups() {
    const SUMS: &str = "{%f0, %f1, %f2, %f3}";
    const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";
    // Sixteen products of one by one.
    assert_eq!(fine(&group_product("", SUMS, WAIT), 128, 1)[..128], [16; 128]);
    let code = |body: &str| fault(body, 128, 1).code();
    assert_eq!(code(&group_product("", SUMS, "")), "ptxsim::busy-register");
    assert_eq!(code(&group_product("", SUMS, WAIT).replace("fence.proxy.async.shared::cta;", "")), "ptxsim::unfenced");
    assert_eq!(
        code(&group_product("", SUMS, WAIT).replace("wgmma.fence.sync.aligned;", "")),
        "ptxsim::unfenced-register"
    );
    // Another descriptor in one lane, in one warp; a warp that sits it out; half of a group.
    let other = |lanes: &str| format!("setp.eq.s32 %p1, %r0, {lanes};\n@%p1 or.b64 %rd7, %rd7, 65536;");
    assert_eq!(code(&group_product(&other("5"), SUMS, WAIT)), "ptxsim::group");
    let warp = "shr.u32 %r4, %r0, 5;\nsetp.eq.s32 %p1, %r4, 3;\n";
    assert_eq!(code(&group_product(&format!("{warp}@%p1 or.b64 %rd7, %rd7, 65536;"), SUMS, WAIT)), "ptxsim::group");
    assert_eq!(code(&group_product(&format!("{warp}@%p1 ret;"), SUMS, WAIT)), "ptxsim::group");
    assert_eq!(fault(&group_product("", SUMS, WAIT), 64, 1).code(), "ptxsim::group");
}

#[test]
fn kernels_that_wait_for_those_before() {
    let copy = "ld.global.u32 %r2, [%rd2];\nst.global.u32 [%rd3], %r2;";
    let out = fine(&format!("st.shared.u32 [%rd5], %r0;\ngriddepcontrol.wait;\n{copy}"), 64, 1);
    assert_eq!(out[..64], (0..64).collect::<Vec<u32>>());
    let early = [
        // Reading, writing and copying in front of it.
        "ld.global.u32 %r2, [%rd2];\ngriddepcontrol.wait;\nst.global.u32 [%rd3], %r2;".to_owned(),
        format!("st.global.u32 [%rd3], %r0;\ngriddepcontrol.wait;\n{copy}"),
        format!("cp.async.ca.shared.global [%rd5], [%rd2], 4;\ngriddepcontrol.wait;\n{copy}"),
        // Half of the threads end without it, or pass it by.
        format!("setp.lt.u32 %p0, %r0, 32;\n@%p0 ret;\ngriddepcontrol.wait;\n{copy}"),
        format!("setp.lt.u32 %p0, %r0, 32;\n@%p0 bra $L;\ngriddepcontrol.wait;\n$L:\n{copy}"),
    ];
    for body in early {
        assert_eq!(fault(&body, 64, 1).code(), "ptxsim::before-wait", "{body}");
    }
    let kernel = |body: &str| Module::parse(&module(body)).expect("well formed");
    assert!(kernel("griddepcontrol.wait;").waits("k") && !kernel("").waits("k"));
}
