//! Instruction codes by operation, encoding and vector width.
//!
//! One [`Packed`] is one operation in up to five forms: VEX with 128 and 256 bits (AVX2), EVEX with 128, 256 and 512
//! bits (AVX-512). Forms that do not exist are [`Code::INVALID`]; selection never asks for them. The names follow the
//! instructions, without their `V`, with the lane type spelled as in `vir`.

use super::inst::{Encoding, Width};
use iced_x86::Code;

/// An operation on whole vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed([Code; 5]);

/// An operation on the low lane, or one that has a single width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single([Code; 2]);

impl Packed {
    /// The form for an encoding and a width.
    pub(super) const fn code(self, encoding: Encoding, width: Width) -> Code {
        match (encoding, width) {
            (Encoding::Vex, Width::X) => self.0[0],
            (Encoding::Vex, Width::Y) => self.0[1],
            (Encoding::Vex, Width::Z) => Code::INVALID,
            (Encoding::Evex, Width::X) => self.0[2],
            (Encoding::Evex, Width::Y) => self.0[3],
            (Encoding::Evex, Width::Z) => self.0[4],
        }
    }
}

impl Single {
    /// The form for an encoding.
    pub(super) const fn code(self, encoding: Encoding) -> Code {
        match encoding {
            Encoding::Vex => self.0[0],
            Encoding::Evex => self.0[1],
        }
    }
}

macro_rules! packed {
    ($($name:ident = $($code:ident),+;)+) => {
        $(pub(super) const $name: Packed = Packed([$(Code::$code),+]);)+
    };
}

macro_rules! single {
    ($($name:ident = $($code:ident),+;)+) => {
        $(pub(super) const $name: Single = Single([$(Code::$code),+]);)+
    };
}

// Float arithmetic.
packed! {
    ADD_F32 =
        VEX_Vaddps_xmm_xmm_xmmm128, VEX_Vaddps_ymm_ymm_ymmm256, EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
    ADD_F64 =
        VEX_Vaddpd_xmm_xmm_xmmm128, VEX_Vaddpd_ymm_ymm_ymmm256, EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vaddpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er;
    SUB_F32 =
        VEX_Vsubps_xmm_xmm_xmmm128, VEX_Vsubps_ymm_ymm_ymmm256, EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32, EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
    SUB_F64 =
        VEX_Vsubpd_xmm_xmm_xmmm128, VEX_Vsubpd_ymm_ymm_ymmm256, EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vsubpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er;
    MUL_F32 =
        VEX_Vmulps_xmm_xmm_xmmm128, VEX_Vmulps_ymm_ymm_ymmm256, EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
    MUL_F64 =
        VEX_Vmulpd_xmm_xmm_xmmm128, VEX_Vmulpd_ymm_ymm_ymmm256, EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vmulpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er;
    DIV_F32 =
        VEX_Vdivps_xmm_xmm_xmmm128, VEX_Vdivps_ymm_ymm_ymmm256, EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32, EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
    DIV_F64 =
        VEX_Vdivpd_xmm_xmm_xmmm128, VEX_Vdivpd_ymm_ymm_ymmm256, EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
    MIN_F32 =
        VEX_Vminps_xmm_xmm_xmmm128, VEX_Vminps_ymm_ymm_ymmm256, EVEX_Vminps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vminps_ymm_k1z_ymm_ymmm256b32, EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
    MIN_F64 =
        VEX_Vminpd_xmm_xmm_xmmm128, VEX_Vminpd_ymm_ymm_ymmm256, EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vminpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae;
    MAX_F32 =
        VEX_Vmaxps_xmm_xmm_xmmm128, VEX_Vmaxps_ymm_ymm_ymmm256, EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
    MAX_F64 =
        VEX_Vmaxpd_xmm_xmm_xmmm128, VEX_Vmaxpd_ymm_ymm_ymmm256, EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vmaxpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae;
    SQRT_F32 =
        VEX_Vsqrtps_xmm_xmmm128, VEX_Vsqrtps_ymm_ymmm256, EVEX_Vsqrtps_xmm_k1z_xmmm128b32,
        EVEX_Vsqrtps_ymm_k1z_ymmm256b32, EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er;
    ROUND_F32 =
        VEX_Vroundps_xmm_xmmm128_imm8, VEX_Vroundps_ymm_ymmm256_imm8,
        EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8, EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8,
        EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
    FMADD132_F32 =
        VEX_Vfmadd132ps_xmm_xmm_xmmm128, VEX_Vfmadd132ps_ymm_ymm_ymmm256,
        EVEX_Vfmadd132ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd132ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er;
    FNMADD132_F32 =
        VEX_Vfnmadd132ps_xmm_xmm_xmmm128, VEX_Vfnmadd132ps_ymm_ymm_ymmm256,
        EVEX_Vfnmadd132ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfnmadd132ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er;
    FMADD213_F32 =
        VEX_Vfmadd213ps_xmm_xmm_xmmm128, VEX_Vfmadd213ps_ymm_ymm_ymmm256,
        EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
    FNMADD213_F32 =
        VEX_Vfnmadd213ps_xmm_xmm_xmmm128, VEX_Vfnmadd213ps_ymm_ymm_ymmm256,
        EVEX_Vfnmadd213ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfnmadd213ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
    FMADD231_F32 =
        VEX_Vfmadd231ps_xmm_xmm_xmmm128, VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
    FNMADD231_F32 =
        VEX_Vfnmadd231ps_xmm_xmm_xmmm128, VEX_Vfnmadd231ps_ymm_ymm_ymmm256,
        EVEX_Vfnmadd231ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfnmadd231ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
    CMP_F32 =
        VEX_Vcmpps_xmm_xmm_xmmm128_imm8, VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
        EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
    SQRT_F64 =
        VEX_Vsqrtpd_xmm_xmmm128, VEX_Vsqrtpd_ymm_ymmm256, EVEX_Vsqrtpd_xmm_k1z_xmmm128b64,
        EVEX_Vsqrtpd_ymm_k1z_ymmm256b64, EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er;
    ROUND_F64 =
        VEX_Vroundpd_xmm_xmmm128_imm8, VEX_Vroundpd_ymm_ymmm256_imm8,
        EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8, EVEX_Vrndscalepd_ymm_k1z_ymmm256b64_imm8,
        EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae;
    FMADD132_F64 =
        VEX_Vfmadd132pd_xmm_xmm_xmmm128, VEX_Vfmadd132pd_ymm_ymm_ymmm256,
        EVEX_Vfmadd132pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd132pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er;
    FNMADD132_F64 =
        VEX_Vfnmadd132pd_xmm_xmm_xmmm128, VEX_Vfnmadd132pd_ymm_ymm_ymmm256,
        EVEX_Vfnmadd132pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfnmadd132pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfnmadd132pd_zmm_k1z_zmm_zmmm512b64_er;
    FMADD213_F64 =
        VEX_Vfmadd213pd_xmm_xmm_xmmm128, VEX_Vfmadd213pd_ymm_ymm_ymmm256,
        EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd213pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er;
    FNMADD213_F64 =
        VEX_Vfnmadd213pd_xmm_xmm_xmmm128, VEX_Vfnmadd213pd_ymm_ymm_ymmm256,
        EVEX_Vfnmadd213pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfnmadd213pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er;
    FMADD231_F64 =
        VEX_Vfmadd231pd_xmm_xmm_xmmm128, VEX_Vfmadd231pd_ymm_ymm_ymmm256,
        EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd231pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
    FNMADD231_F64 =
        VEX_Vfnmadd231pd_xmm_xmm_xmmm128, VEX_Vfnmadd231pd_ymm_ymm_ymmm256,
        EVEX_Vfnmadd231pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfnmadd231pd_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
    CMP_F64 =
        VEX_Vcmppd_xmm_xmm_xmmm128_imm8, VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vcmppd_kr_k1_ymm_ymmm256b64_imm8,
        EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
}

// Integer arithmetic.
packed! {
    PADD_I8 =
        VEX_Vpaddb_xmm_xmm_xmmm128, VEX_Vpaddb_ymm_ymm_ymmm256, EVEX_Vpaddb_xmm_k1z_xmm_xmmm128,
        EVEX_Vpaddb_ymm_k1z_ymm_ymmm256, EVEX_Vpaddb_zmm_k1z_zmm_zmmm512;
    PSUB_I8 =
        VEX_Vpsubb_xmm_xmm_xmmm128, VEX_Vpsubb_ymm_ymm_ymmm256, EVEX_Vpsubb_xmm_k1z_xmm_xmmm128,
        EVEX_Vpsubb_ymm_k1z_ymm_ymmm256, EVEX_Vpsubb_zmm_k1z_zmm_zmmm512;
    PABS_I8 =
        VEX_Vpabsb_xmm_xmmm128, VEX_Vpabsb_ymm_ymmm256, EVEX_Vpabsb_xmm_k1z_xmmm128,
        EVEX_Vpabsb_ymm_k1z_ymmm256, EVEX_Vpabsb_zmm_k1z_zmmm512;
    PMINS_I8 =
        VEX_Vpminsb_xmm_xmm_xmmm128, VEX_Vpminsb_ymm_ymm_ymmm256, EVEX_Vpminsb_xmm_k1z_xmm_xmmm128,
        EVEX_Vpminsb_ymm_k1z_ymm_ymmm256, EVEX_Vpminsb_zmm_k1z_zmm_zmmm512;
    PMAXS_I8 =
        VEX_Vpmaxsb_xmm_xmm_xmmm128, VEX_Vpmaxsb_ymm_ymm_ymmm256, EVEX_Vpmaxsb_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmaxsb_ymm_k1z_ymm_ymmm256, EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512;
    PMINU_I8 =
        VEX_Vpminub_xmm_xmm_xmmm128, VEX_Vpminub_ymm_ymm_ymmm256, EVEX_Vpminub_xmm_k1z_xmm_xmmm128,
        EVEX_Vpminub_ymm_k1z_ymm_ymmm256, EVEX_Vpminub_zmm_k1z_zmm_zmmm512;
    PMAXU_I8 =
        VEX_Vpmaxub_xmm_xmm_xmmm128, VEX_Vpmaxub_ymm_ymm_ymmm256, EVEX_Vpmaxub_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmaxub_ymm_k1z_ymm_ymmm256, EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512;
    PCMPEQ_I8 =
        VEX_Vpcmpeqb_xmm_xmm_xmmm128, VEX_Vpcmpeqb_ymm_ymm_ymmm256, EVEX_Vpcmpeqb_kr_k1_xmm_xmmm128,
        EVEX_Vpcmpeqb_kr_k1_ymm_ymmm256, EVEX_Vpcmpeqb_kr_k1_zmm_zmmm512;
    PCMPGT_I8 =
        VEX_Vpcmpgtb_xmm_xmm_xmmm128, VEX_Vpcmpgtb_ymm_ymm_ymmm256, EVEX_Vpcmpgtb_kr_k1_xmm_xmmm128,
        EVEX_Vpcmpgtb_kr_k1_ymm_ymmm256, EVEX_Vpcmpgtb_kr_k1_zmm_zmmm512;
    PCMP_I8 =
        INVALID, INVALID, EVEX_Vpcmpb_kr_k1_xmm_xmmm128_imm8, EVEX_Vpcmpb_kr_k1_ymm_ymmm256_imm8,
        EVEX_Vpcmpb_kr_k1_zmm_zmmm512_imm8;
    PCMPU_I8 =
        INVALID, INVALID, EVEX_Vpcmpub_kr_k1_xmm_xmmm128_imm8, EVEX_Vpcmpub_kr_k1_ymm_ymmm256_imm8,
        EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8;
    PADD_I16 =
        VEX_Vpaddw_xmm_xmm_xmmm128, VEX_Vpaddw_ymm_ymm_ymmm256, EVEX_Vpaddw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpaddw_ymm_k1z_ymm_ymmm256, EVEX_Vpaddw_zmm_k1z_zmm_zmmm512;
    PSUB_I16 =
        VEX_Vpsubw_xmm_xmm_xmmm128, VEX_Vpsubw_ymm_ymm_ymmm256, EVEX_Vpsubw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpsubw_ymm_k1z_ymm_ymmm256, EVEX_Vpsubw_zmm_k1z_zmm_zmmm512;
    PMULL_I16 =
        VEX_Vpmullw_xmm_xmm_xmmm128, VEX_Vpmullw_ymm_ymm_ymmm256, EVEX_Vpmullw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmullw_ymm_k1z_ymm_ymmm256, EVEX_Vpmullw_zmm_k1z_zmm_zmmm512;
    PABS_I16 =
        VEX_Vpabsw_xmm_xmmm128, VEX_Vpabsw_ymm_ymmm256, EVEX_Vpabsw_xmm_k1z_xmmm128,
        EVEX_Vpabsw_ymm_k1z_ymmm256, EVEX_Vpabsw_zmm_k1z_zmmm512;
    PMINS_I16 =
        VEX_Vpminsw_xmm_xmm_xmmm128, VEX_Vpminsw_ymm_ymm_ymmm256, EVEX_Vpminsw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpminsw_ymm_k1z_ymm_ymmm256, EVEX_Vpminsw_zmm_k1z_zmm_zmmm512;
    PMAXS_I16 =
        VEX_Vpmaxsw_xmm_xmm_xmmm128, VEX_Vpmaxsw_ymm_ymm_ymmm256, EVEX_Vpmaxsw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmaxsw_ymm_k1z_ymm_ymmm256, EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512;
    PMINU_I16 =
        VEX_Vpminuw_xmm_xmm_xmmm128, VEX_Vpminuw_ymm_ymm_ymmm256, EVEX_Vpminuw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpminuw_ymm_k1z_ymm_ymmm256, EVEX_Vpminuw_zmm_k1z_zmm_zmmm512;
    PMAXU_I16 =
        VEX_Vpmaxuw_xmm_xmm_xmmm128, VEX_Vpmaxuw_ymm_ymm_ymmm256, EVEX_Vpmaxuw_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmaxuw_ymm_k1z_ymm_ymmm256, EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512;
    PCMPEQ_I16 =
        VEX_Vpcmpeqw_xmm_xmm_xmmm128, VEX_Vpcmpeqw_ymm_ymm_ymmm256, EVEX_Vpcmpeqw_kr_k1_xmm_xmmm128,
        EVEX_Vpcmpeqw_kr_k1_ymm_ymmm256, EVEX_Vpcmpeqw_kr_k1_zmm_zmmm512;
    PCMPGT_I16 =
        VEX_Vpcmpgtw_xmm_xmm_xmmm128, VEX_Vpcmpgtw_ymm_ymm_ymmm256, EVEX_Vpcmpgtw_kr_k1_xmm_xmmm128,
        EVEX_Vpcmpgtw_kr_k1_ymm_ymmm256, EVEX_Vpcmpgtw_kr_k1_zmm_zmmm512;
    PCMP_I16 =
        INVALID, INVALID, EVEX_Vpcmpw_kr_k1_xmm_xmmm128_imm8, EVEX_Vpcmpw_kr_k1_ymm_ymmm256_imm8,
        EVEX_Vpcmpw_kr_k1_zmm_zmmm512_imm8;
    PCMPU_I16 =
        INVALID, INVALID, EVEX_Vpcmpuw_kr_k1_xmm_xmmm128_imm8, EVEX_Vpcmpuw_kr_k1_ymm_ymmm256_imm8,
        EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
    PADD_I32 =
        VEX_Vpaddd_xmm_xmm_xmmm128, VEX_Vpaddd_ymm_ymm_ymmm256, EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
    PSUB_I32 =
        VEX_Vpsubd_xmm_xmm_xmmm128, VEX_Vpsubd_ymm_ymm_ymmm256, EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
    PMULL_I32 =
        VEX_Vpmulld_xmm_xmm_xmmm128, VEX_Vpmulld_ymm_ymm_ymmm256, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
    PABS_I32 =
        VEX_Vpabsd_xmm_xmmm128, VEX_Vpabsd_ymm_ymmm256, EVEX_Vpabsd_xmm_k1z_xmmm128b32,
        EVEX_Vpabsd_ymm_k1z_ymmm256b32, EVEX_Vpabsd_zmm_k1z_zmmm512b32;
    PMINS_I32 =
        VEX_Vpminsd_xmm_xmm_xmmm128, VEX_Vpminsd_ymm_ymm_ymmm256, EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32;
    PMAXS_I32 =
        VEX_Vpmaxsd_xmm_xmm_xmmm128, VEX_Vpmaxsd_ymm_ymm_ymmm256, EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32;
    PMINU_I32 =
        VEX_Vpminud_xmm_xmm_xmmm128, VEX_Vpminud_ymm_ymm_ymmm256, EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32, EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32;
    PMAXU_I32 =
        VEX_Vpmaxud_xmm_xmm_xmmm128, VEX_Vpmaxud_ymm_ymm_ymmm256, EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32;
    PCMPEQ_I32 =
        VEX_Vpcmpeqd_xmm_xmm_xmmm128, VEX_Vpcmpeqd_ymm_ymm_ymmm256, EVEX_Vpcmpeqd_kr_k1_xmm_xmmm128b32,
        EVEX_Vpcmpeqd_kr_k1_ymm_ymmm256b32, EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32;
    PCMPGT_I32 =
        VEX_Vpcmpgtd_xmm_xmm_xmmm128, VEX_Vpcmpgtd_ymm_ymm_ymmm256, EVEX_Vpcmpgtd_kr_k1_xmm_xmmm128b32,
        EVEX_Vpcmpgtd_kr_k1_ymm_ymmm256b32, EVEX_Vpcmpgtd_kr_k1_zmm_zmmm512b32;
    PCMP_I32 =
        INVALID, INVALID, EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
    PCMPU_I32 =
        INVALID, INVALID, EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vpcmpud_kr_k1_ymm_ymmm256b32_imm8,
        EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
    PADD_I64 =
        VEX_Vpaddq_xmm_xmm_xmmm128, VEX_Vpaddq_ymm_ymm_ymmm256, EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpaddq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
    PSUB_I64 =
        VEX_Vpsubq_xmm_xmm_xmmm128, VEX_Vpsubq_ymm_ymm_ymmm256, EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpsubq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
    PMULL_I64 =
        INVALID, INVALID, EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmullq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
    PABS_I64 =
        INVALID, INVALID, EVEX_Vpabsq_xmm_k1z_xmmm128b64, EVEX_Vpabsq_ymm_k1z_ymmm256b64,
        EVEX_Vpabsq_zmm_k1z_zmmm512b64;
    PMINS_I64 =
        INVALID, INVALID, EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpminsq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64;
    PMAXS_I64 =
        INVALID, INVALID, EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmaxsq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64;
    PMINU_I64 =
        INVALID, INVALID, EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpminuq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64;
    PMAXU_I64 =
        INVALID, INVALID, EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmaxuq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64;
    PCMPEQ_I64 =
        VEX_Vpcmpeqq_xmm_xmm_xmmm128, VEX_Vpcmpeqq_ymm_ymm_ymmm256, EVEX_Vpcmpeqq_kr_k1_xmm_xmmm128b64,
        EVEX_Vpcmpeqq_kr_k1_ymm_ymmm256b64, EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64;
    PCMPGT_I64 =
        VEX_Vpcmpgtq_xmm_xmm_xmmm128, VEX_Vpcmpgtq_ymm_ymm_ymmm256, EVEX_Vpcmpgtq_kr_k1_xmm_xmmm128b64,
        EVEX_Vpcmpgtq_kr_k1_ymm_ymmm256b64, EVEX_Vpcmpgtq_kr_k1_zmm_zmmm512b64;
    PCMP_I64 =
        INVALID, INVALID, EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vpcmpq_kr_k1_ymm_ymmm256b64_imm8,
        EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8;
    PCMPU_I64 =
        INVALID, INVALID, EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vpcmpuq_kr_k1_ymm_ymmm256b64_imm8,
        EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
    PMULUDQ =
        VEX_Vpmuludq_xmm_xmm_xmmm128, VEX_Vpmuludq_ymm_ymm_ymmm256, EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpmuludq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64;
    PMADDWD =
        VEX_Vpmaddwd_xmm_xmm_xmmm128, VEX_Vpmaddwd_ymm_ymm_ymmm256, EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128,
        EVEX_Vpmaddwd_ymm_k1z_ymm_ymmm256, EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512;
    PDPBUSD =
        VEX_Vpdpbusd_xmm_xmm_xmmm128, VEX_Vpdpbusd_ymm_ymm_ymmm256, EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpdpbusd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
}

// Logic.
packed! {
    PAND =
        VEX_Vpand_xmm_xmm_xmmm128, VEX_Vpand_ymm_ymm_ymmm256, EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
    PAND_Q =
        VEX_Vpand_xmm_xmm_xmmm128, VEX_Vpand_ymm_ymm_ymmm256, EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpandq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
    POR =
        VEX_Vpor_xmm_xmm_xmmm128, VEX_Vpor_ymm_ymm_ymmm256, EVEX_Vpord_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
    POR_Q =
        VEX_Vpor_xmm_xmm_xmmm128, VEX_Vpor_ymm_ymm_ymmm256, EVEX_Vporq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vporq_ymm_k1z_ymm_ymmm256b64, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
    PXOR =
        VEX_Vpxor_xmm_xmm_xmmm128, VEX_Vpxor_ymm_ymm_ymmm256, EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
    PXOR_Q =
        VEX_Vpxor_xmm_xmm_xmmm128, VEX_Vpxor_ymm_ymm_ymmm256, EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpxorq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
}

// Shifts by a constant, and per lane.
packed! {
    PSLLI_I16 =
        VEX_Vpsllw_xmm_xmm_imm8, VEX_Vpsllw_ymm_ymm_imm8, EVEX_Vpsllw_xmm_k1z_xmmm128_imm8,
        EVEX_Vpsllw_ymm_k1z_ymmm256_imm8, EVEX_Vpsllw_zmm_k1z_zmmm512_imm8;
    PSLLV_I16 =
        INVALID, INVALID, EVEX_Vpsllvw_xmm_k1z_xmm_xmmm128, EVEX_Vpsllvw_ymm_k1z_ymm_ymmm256,
        EVEX_Vpsllvw_zmm_k1z_zmm_zmmm512;
    PSLLI_I32 =
        VEX_Vpslld_xmm_xmm_imm8, VEX_Vpslld_ymm_ymm_imm8, EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8,
        EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
    PSLLV_I32 =
        VEX_Vpsllvd_xmm_xmm_xmmm128, VEX_Vpsllvd_ymm_ymm_ymmm256, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
    PSLLI_I64 =
        VEX_Vpsllq_xmm_xmm_imm8, VEX_Vpsllq_ymm_ymm_imm8, EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8,
        EVEX_Vpsllq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
    PSLLV_I64 =
        VEX_Vpsllvq_xmm_xmm_xmmm128, VEX_Vpsllvq_ymm_ymm_ymmm256, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpsllvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64;
    PSRLI_I16 =
        VEX_Vpsrlw_xmm_xmm_imm8, VEX_Vpsrlw_ymm_ymm_imm8, EVEX_Vpsrlw_xmm_k1z_xmmm128_imm8,
        EVEX_Vpsrlw_ymm_k1z_ymmm256_imm8, EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8;
    PSRLV_I16 =
        INVALID, INVALID, EVEX_Vpsrlvw_xmm_k1z_xmm_xmmm128, EVEX_Vpsrlvw_ymm_k1z_ymm_ymmm256,
        EVEX_Vpsrlvw_zmm_k1z_zmm_zmmm512;
    PSRLI_I32 =
        VEX_Vpsrld_xmm_xmm_imm8, VEX_Vpsrld_ymm_ymm_imm8, EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8,
        EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
    PSRLV_I32 =
        VEX_Vpsrlvd_xmm_xmm_xmmm128, VEX_Vpsrlvd_ymm_ymm_ymmm256, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32;
    PSRLI_I64 =
        VEX_Vpsrlq_xmm_xmm_imm8, VEX_Vpsrlq_ymm_ymm_imm8, EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8,
        EVEX_Vpsrlq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
    PSRLV_I64 =
        VEX_Vpsrlvq_xmm_xmm_xmmm128, VEX_Vpsrlvq_ymm_ymm_ymmm256, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64,
        EVEX_Vpsrlvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64;
    PSRAI_I16 =
        VEX_Vpsraw_xmm_xmm_imm8, VEX_Vpsraw_ymm_ymm_imm8, EVEX_Vpsraw_xmm_k1z_xmmm128_imm8,
        EVEX_Vpsraw_ymm_k1z_ymmm256_imm8, EVEX_Vpsraw_zmm_k1z_zmmm512_imm8;
    PSRAV_I16 =
        INVALID, INVALID, EVEX_Vpsravw_xmm_k1z_xmm_xmmm128, EVEX_Vpsravw_ymm_k1z_ymm_ymmm256,
        EVEX_Vpsravw_zmm_k1z_zmm_zmmm512;
    PSRAI_I32 =
        VEX_Vpsrad_xmm_xmm_imm8, VEX_Vpsrad_ymm_ymm_imm8, EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8,
        EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
    PSRAV_I32 =
        VEX_Vpsravd_xmm_xmm_xmmm128, VEX_Vpsravd_ymm_ymm_ymmm256, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32,
        EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32;
    PSRAI_I64 =
        INVALID, INVALID, EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsraq_ymm_k1z_ymmm256b64_imm8,
        EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8;
    PSRAV_I64 =
        INVALID, INVALID, EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsravq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64;
    PSRLDQ =
        VEX_Vpsrldq_xmm_xmm_imm8, VEX_Vpsrldq_ymm_ymm_imm8, EVEX_Vpsrldq_xmm_xmmm128_imm8,
        EVEX_Vpsrldq_ymm_ymmm256_imm8, EVEX_Vpsrldq_zmm_zmmm512_imm8;
}

// Blends and shuffles.
packed! {
    BLENDM_I8 =
        INVALID, INVALID, EVEX_Vpblendmb_xmm_k1z_xmm_xmmm128, EVEX_Vpblendmb_ymm_k1z_ymm_ymmm256,
        EVEX_Vpblendmb_zmm_k1z_zmm_zmmm512;
    BLENDM_I16 =
        INVALID, INVALID, EVEX_Vpblendmw_xmm_k1z_xmm_xmmm128, EVEX_Vpblendmw_ymm_k1z_ymm_ymmm256,
        EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512;
    BLENDM_I32 =
        INVALID, INVALID, EVEX_Vpblendmd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpblendmd_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32;
    BLENDM_I64 =
        INVALID, INVALID, EVEX_Vpblendmq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpblendmq_ymm_k1z_ymm_ymmm256b64,
        EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64;
    SHUF_F32 =
        VEX_Vshufps_xmm_xmm_xmmm128_imm8, VEX_Vshufps_ymm_ymm_ymmm256_imm8, EVEX_Vshufps_xmm_k1z_xmm_xmmm128b32_imm8,
        EVEX_Vshufps_ymm_k1z_ymm_ymmm256b32_imm8, EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8;
    PSHUFB =
        VEX_Vpshufb_xmm_xmm_xmmm128, VEX_Vpshufb_ymm_ymm_ymmm256, EVEX_Vpshufb_xmm_k1z_xmm_xmmm128,
        EVEX_Vpshufb_ymm_k1z_ymm_ymmm256, EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
}

// Conversions, by destination width unless said otherwise.
packed! {
    CVT_I32_F32 =
        VEX_Vcvtdq2ps_xmm_xmmm128, VEX_Vcvtdq2ps_ymm_ymmm256, EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32,
        EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32, EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er;
    CVT_I64_F64 =
        INVALID, INVALID, EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64, EVEX_Vcvtqq2pd_ymm_k1z_ymmm256b64,
        EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er;
    CVTT_F32_I32 =
        VEX_Vcvttps2dq_xmm_xmmm128, VEX_Vcvttps2dq_ymm_ymmm256, EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32,
        EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32, EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae;
    CVT_F32_I32 =
        VEX_Vcvtps2dq_xmm_xmmm128, VEX_Vcvtps2dq_ymm_ymmm256, EVEX_Vcvtps2dq_xmm_k1z_xmmm128b32,
        EVEX_Vcvtps2dq_ymm_k1z_ymmm256b32, EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er;
    CVTT_F64_I64 =
        INVALID, INVALID, EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64, EVEX_Vcvttpd2qq_ymm_k1z_ymmm256b64,
        EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae;
    CVT_F64_I64 =
        INVALID, INVALID, EVEX_Vcvtpd2qq_xmm_k1z_xmmm128b64, EVEX_Vcvtpd2qq_ymm_k1z_ymmm256b64,
        EVEX_Vcvtpd2qq_zmm_k1z_zmmm512b64_er;
    CVT_I32_F64 =
        VEX_Vcvtdq2pd_xmm_xmmm64, VEX_Vcvtdq2pd_ymm_xmmm128, EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32,
        EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er;
    CVT_F32_F64 =
        VEX_Vcvtps2pd_xmm_xmmm64, VEX_Vcvtps2pd_ymm_xmmm128, EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32,
        EVEX_Vcvtps2pd_ymm_k1z_xmmm128b32, EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae;
    CVTT_F32_I64 =
        INVALID, INVALID, EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32, EVEX_Vcvttps2qq_ymm_k1z_xmmm128b32,
        EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae;
    CVT_F32_I64 =
        INVALID, INVALID, EVEX_Vcvtps2qq_xmm_k1z_xmmm64b32, EVEX_Vcvtps2qq_ymm_k1z_xmmm128b32,
        EVEX_Vcvtps2qq_zmm_k1z_ymmm256b32_er;
    CVT_F16_F32 =
        VEX_Vcvtph2ps_xmm_xmmm64, VEX_Vcvtph2ps_ymm_xmmm128, EVEX_Vcvtph2ps_xmm_k1z_xmmm64,
        EVEX_Vcvtph2ps_ymm_k1z_xmmm128, EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
    PMOVSX_I8_I16 =
        VEX_Vpmovsxbw_xmm_xmmm64, VEX_Vpmovsxbw_ymm_xmmm128, EVEX_Vpmovsxbw_xmm_k1z_xmmm64,
        EVEX_Vpmovsxbw_ymm_k1z_xmmm128, EVEX_Vpmovsxbw_zmm_k1z_ymmm256;
    PMOVSX_I8_I32 =
        VEX_Vpmovsxbd_xmm_xmmm32, VEX_Vpmovsxbd_ymm_xmmm64, EVEX_Vpmovsxbd_xmm_k1z_xmmm32,
        EVEX_Vpmovsxbd_ymm_k1z_xmmm64, EVEX_Vpmovsxbd_zmm_k1z_xmmm128;
    PMOVSX_I8_I64 =
        VEX_Vpmovsxbq_xmm_xmmm16, VEX_Vpmovsxbq_ymm_xmmm32, EVEX_Vpmovsxbq_xmm_k1z_xmmm16,
        EVEX_Vpmovsxbq_ymm_k1z_xmmm32, EVEX_Vpmovsxbq_zmm_k1z_xmmm64;
    PMOVSX_I16_I32 =
        VEX_Vpmovsxwd_xmm_xmmm64, VEX_Vpmovsxwd_ymm_xmmm128, EVEX_Vpmovsxwd_xmm_k1z_xmmm64,
        EVEX_Vpmovsxwd_ymm_k1z_xmmm128, EVEX_Vpmovsxwd_zmm_k1z_ymmm256;
    PMOVSX_I16_I64 =
        VEX_Vpmovsxwq_xmm_xmmm32, VEX_Vpmovsxwq_ymm_xmmm64, EVEX_Vpmovsxwq_xmm_k1z_xmmm32,
        EVEX_Vpmovsxwq_ymm_k1z_xmmm64, EVEX_Vpmovsxwq_zmm_k1z_xmmm128;
    PMOVSX_I32_I64 =
        VEX_Vpmovsxdq_xmm_xmmm64, VEX_Vpmovsxdq_ymm_xmmm128, EVEX_Vpmovsxdq_xmm_k1z_xmmm64,
        EVEX_Vpmovsxdq_ymm_k1z_xmmm128, EVEX_Vpmovsxdq_zmm_k1z_ymmm256;
    PMOVZX_I8_I16 =
        VEX_Vpmovzxbw_xmm_xmmm64, VEX_Vpmovzxbw_ymm_xmmm128, EVEX_Vpmovzxbw_xmm_k1z_xmmm64,
        EVEX_Vpmovzxbw_ymm_k1z_xmmm128, EVEX_Vpmovzxbw_zmm_k1z_ymmm256;
    PMOVZX_I8_I32 =
        VEX_Vpmovzxbd_xmm_xmmm32, VEX_Vpmovzxbd_ymm_xmmm64, EVEX_Vpmovzxbd_xmm_k1z_xmmm32,
        EVEX_Vpmovzxbd_ymm_k1z_xmmm64, EVEX_Vpmovzxbd_zmm_k1z_xmmm128;
    PMOVZX_I8_I64 =
        VEX_Vpmovzxbq_xmm_xmmm16, VEX_Vpmovzxbq_ymm_xmmm32, EVEX_Vpmovzxbq_xmm_k1z_xmmm16,
        EVEX_Vpmovzxbq_ymm_k1z_xmmm32, EVEX_Vpmovzxbq_zmm_k1z_xmmm64;
    PMOVZX_I16_I32 =
        VEX_Vpmovzxwd_xmm_xmmm64, VEX_Vpmovzxwd_ymm_xmmm128, EVEX_Vpmovzxwd_xmm_k1z_xmmm64,
        EVEX_Vpmovzxwd_ymm_k1z_xmmm128, EVEX_Vpmovzxwd_zmm_k1z_ymmm256;
    PMOVZX_I16_I64 =
        VEX_Vpmovzxwq_xmm_xmmm32, VEX_Vpmovzxwq_ymm_xmmm64, EVEX_Vpmovzxwq_xmm_k1z_xmmm32,
        EVEX_Vpmovzxwq_ymm_k1z_xmmm64, EVEX_Vpmovzxwq_zmm_k1z_xmmm128;
    PMOVZX_I32_I64 =
        VEX_Vpmovzxdq_xmm_xmmm64, VEX_Vpmovzxdq_ymm_xmmm128, EVEX_Vpmovzxdq_xmm_k1z_xmmm64,
        EVEX_Vpmovzxdq_ymm_k1z_xmmm128, EVEX_Vpmovzxdq_zmm_k1z_ymmm256;
}

// Conversions to narrower lanes, by source width.
packed! {
    CVT_F64_F32 =
        VEX_Vcvtpd2ps_xmm_xmmm128, VEX_Vcvtpd2ps_xmm_ymmm256, EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64,
        EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64, EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er;
    CVTT_F64_I32 =
        VEX_Vcvttpd2dq_xmm_xmmm128, VEX_Vcvttpd2dq_xmm_ymmm256, EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64,
        EVEX_Vcvttpd2dq_xmm_k1z_ymmm256b64, EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae;
    CVT_F64_I32 =
        VEX_Vcvtpd2dq_xmm_xmmm128, VEX_Vcvtpd2dq_xmm_ymmm256, EVEX_Vcvtpd2dq_xmm_k1z_xmmm128b64,
        EVEX_Vcvtpd2dq_xmm_k1z_ymmm256b64, EVEX_Vcvtpd2dq_ymm_k1z_zmmm512b64_er;
    CVT_I64_F32 =
        INVALID, INVALID, EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64, EVEX_Vcvtqq2ps_xmm_k1z_ymmm256b64,
        EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er;
    CVT_F32_F16 =
        VEX_Vcvtps2ph_xmmm64_xmm_imm8, VEX_Vcvtps2ph_xmmm128_ymm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8,
        EVEX_Vcvtps2ph_xmmm128_k1z_ymm_imm8, EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae;
    PMOV_I16_I8 =
        INVALID, INVALID, EVEX_Vpmovwb_xmmm64_k1z_xmm, EVEX_Vpmovwb_xmmm128_k1z_ymm,
        EVEX_Vpmovwb_ymmm256_k1z_zmm;
    PMOV_I32_I8 =
        INVALID, INVALID, EVEX_Vpmovdb_xmmm32_k1z_xmm, EVEX_Vpmovdb_xmmm64_k1z_ymm,
        EVEX_Vpmovdb_xmmm128_k1z_zmm;
    PMOV_I64_I8 =
        INVALID, INVALID, EVEX_Vpmovqb_xmmm16_k1z_xmm, EVEX_Vpmovqb_xmmm32_k1z_ymm,
        EVEX_Vpmovqb_xmmm64_k1z_zmm;
    PMOV_I32_I16 =
        INVALID, INVALID, EVEX_Vpmovdw_xmmm64_k1z_xmm, EVEX_Vpmovdw_xmmm128_k1z_ymm,
        EVEX_Vpmovdw_ymmm256_k1z_zmm;
    PMOV_I64_I16 =
        INVALID, INVALID, EVEX_Vpmovqw_xmmm32_k1z_xmm, EVEX_Vpmovqw_xmmm64_k1z_ymm,
        EVEX_Vpmovqw_xmmm128_k1z_zmm;
    PMOV_I64_I32 =
        INVALID, INVALID, EVEX_Vpmovqd_xmmm64_k1z_xmm, EVEX_Vpmovqd_xmmm128_k1z_ymm,
        EVEX_Vpmovqd_ymmm256_k1z_zmm;
}

// Moves.
packed! {
    LOAD_F32 =
        VEX_Vmovups_xmm_xmmm128, VEX_Vmovups_ymm_ymmm256, EVEX_Vmovups_xmm_k1z_xmmm128,
        EVEX_Vmovups_ymm_k1z_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512;
    STORE_F32 =
        VEX_Vmovups_xmmm128_xmm, VEX_Vmovups_ymmm256_ymm, EVEX_Vmovups_xmmm128_k1z_xmm,
        EVEX_Vmovups_ymmm256_k1z_ymm, EVEX_Vmovups_zmmm512_k1z_zmm;
    MOVE =
        VEX_Vmovaps_xmm_xmmm128, VEX_Vmovaps_ymm_ymmm256, EVEX_Vmovaps_xmm_k1z_xmmm128,
        EVEX_Vmovaps_ymm_k1z_ymmm256, EVEX_Vmovaps_zmm_k1z_zmmm512;
    LOAD_I8 =
        VEX_Vmovdqu_xmm_xmmm128, VEX_Vmovdqu_ymm_ymmm256, EVEX_Vmovdqu8_xmm_k1z_xmmm128,
        EVEX_Vmovdqu8_ymm_k1z_ymmm256, EVEX_Vmovdqu8_zmm_k1z_zmmm512;
    STORE_I8 =
        VEX_Vmovdqu_xmmm128_xmm, VEX_Vmovdqu_ymmm256_ymm, EVEX_Vmovdqu8_xmmm128_k1z_xmm,
        EVEX_Vmovdqu8_ymmm256_k1z_ymm, EVEX_Vmovdqu8_zmmm512_k1z_zmm;
    LOAD_I16 =
        VEX_Vmovdqu_xmm_xmmm128, VEX_Vmovdqu_ymm_ymmm256, EVEX_Vmovdqu16_xmm_k1z_xmmm128,
        EVEX_Vmovdqu16_ymm_k1z_ymmm256, EVEX_Vmovdqu16_zmm_k1z_zmmm512;
    STORE_I16 =
        VEX_Vmovdqu_xmmm128_xmm, VEX_Vmovdqu_ymmm256_ymm, EVEX_Vmovdqu16_xmmm128_k1z_xmm,
        EVEX_Vmovdqu16_ymmm256_k1z_ymm, EVEX_Vmovdqu16_zmmm512_k1z_zmm;
    LOAD_I32 =
        VEX_Vmovdqu_xmm_xmmm128, VEX_Vmovdqu_ymm_ymmm256, EVEX_Vmovdqu32_xmm_k1z_xmmm128,
        EVEX_Vmovdqu32_ymm_k1z_ymmm256, EVEX_Vmovdqu32_zmm_k1z_zmmm512;
    STORE_I32 =
        VEX_Vmovdqu_xmmm128_xmm, VEX_Vmovdqu_ymmm256_ymm, EVEX_Vmovdqu32_xmmm128_k1z_xmm,
        EVEX_Vmovdqu32_ymmm256_k1z_ymm, EVEX_Vmovdqu32_zmmm512_k1z_zmm;
    LOAD_I64 =
        VEX_Vmovdqu_xmm_xmmm128, VEX_Vmovdqu_ymm_ymmm256, EVEX_Vmovdqu64_xmm_k1z_xmmm128,
        EVEX_Vmovdqu64_ymm_k1z_ymmm256, EVEX_Vmovdqu64_zmm_k1z_zmmm512;
    STORE_I64 =
        VEX_Vmovdqu_xmmm128_xmm, VEX_Vmovdqu_ymmm256_ymm, EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        EVEX_Vmovdqu64_ymmm256_k1z_ymm, EVEX_Vmovdqu64_zmmm512_k1z_zmm;
}

// Splats from the low lane of a vector register or from memory.
packed! {
    SPLAT_F32 =
        VEX_Vbroadcastss_xmm_xmm, VEX_Vbroadcastss_ymm_xmm, EVEX_Vbroadcastss_xmm_k1z_xmmm32,
        EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
    SPLAT_MEM_F32 =
        VEX_Vbroadcastss_xmm_m32, VEX_Vbroadcastss_ymm_m32, EVEX_Vbroadcastss_xmm_k1z_xmmm32,
        EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
    SPLAT_I8 =
        VEX_Vpbroadcastb_xmm_xmmm8, VEX_Vpbroadcastb_ymm_xmmm8, EVEX_Vpbroadcastb_xmm_k1z_xmmm8,
        EVEX_Vpbroadcastb_ymm_k1z_xmmm8, EVEX_Vpbroadcastb_zmm_k1z_xmmm8;
    SPLAT_GPR_I8 =
        INVALID, INVALID, EVEX_Vpbroadcastb_xmm_k1z_r32, EVEX_Vpbroadcastb_ymm_k1z_r32,
        EVEX_Vpbroadcastb_zmm_k1z_r32;
    SPLAT_I16 =
        VEX_Vpbroadcastw_xmm_xmmm16, VEX_Vpbroadcastw_ymm_xmmm16, EVEX_Vpbroadcastw_xmm_k1z_xmmm16,
        EVEX_Vpbroadcastw_ymm_k1z_xmmm16, EVEX_Vpbroadcastw_zmm_k1z_xmmm16;
    SPLAT_GPR_I16 =
        INVALID, INVALID, EVEX_Vpbroadcastw_xmm_k1z_r32, EVEX_Vpbroadcastw_ymm_k1z_r32,
        EVEX_Vpbroadcastw_zmm_k1z_r32;
    SPLAT_I32 =
        VEX_Vpbroadcastd_xmm_xmmm32, VEX_Vpbroadcastd_ymm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32,
        EVEX_Vpbroadcastd_ymm_k1z_xmmm32, EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
    SPLAT_GPR_I32 =
        INVALID, INVALID, EVEX_Vpbroadcastd_xmm_k1z_r32, EVEX_Vpbroadcastd_ymm_k1z_r32,
        EVEX_Vpbroadcastd_zmm_k1z_r32;
    SPLAT_I64 =
        VEX_Vpbroadcastq_xmm_xmmm64, VEX_Vpbroadcastq_ymm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64,
        EVEX_Vpbroadcastq_ymm_k1z_xmmm64, EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
    SPLAT_GPR_I64 =
        INVALID, INVALID, EVEX_Vpbroadcastq_xmm_k1z_r64, EVEX_Vpbroadcastq_ymm_k1z_r64,
        EVEX_Vpbroadcastq_zmm_k1z_r64;
}

// Masks.
packed! {
    MASKLOAD_I32 = VEX_Vpmaskmovd_xmm_xmm_m128, VEX_Vpmaskmovd_ymm_ymm_m256, INVALID, INVALID, INVALID;
    MASKLOAD_I64 = VEX_Vpmaskmovq_xmm_xmm_m128, VEX_Vpmaskmovq_ymm_ymm_m256, INVALID, INVALID, INVALID;
    MASKSTORE_I32 = VEX_Vpmaskmovd_m128_xmm_xmm, VEX_Vpmaskmovd_m256_ymm_ymm, INVALID, INVALID, INVALID;
    MASKSTORE_I64 = VEX_Vpmaskmovq_m128_xmm_xmm, VEX_Vpmaskmovq_m256_ymm_ymm, INVALID, INVALID, INVALID;
    BLENDV = VEX_Vpblendvb_xmm_xmm_xmmm128_xmm, VEX_Vpblendvb_ymm_ymm_ymmm256_ymm, INVALID, INVALID, INVALID;
}

// Gathers and scatters, by the wider of data and index.
packed! {
    GATHER32_I32 =
        VEX_Vpgatherdd_xmm_vm32x_xmm, VEX_Vpgatherdd_ymm_vm32y_ymm, EVEX_Vpgatherdd_xmm_k1_vm32x,
        EVEX_Vpgatherdd_ymm_k1_vm32y, EVEX_Vpgatherdd_zmm_k1_vm32z;
    SCATTER32_I32 =
        INVALID, INVALID, EVEX_Vpscatterdd_vm32x_k1_xmm, EVEX_Vpscatterdd_vm32y_k1_ymm,
        EVEX_Vpscatterdd_vm32z_k1_zmm;
    GATHER32_I64 =
        VEX_Vpgatherdq_xmm_vm32x_xmm, VEX_Vpgatherdq_ymm_vm32x_ymm, EVEX_Vpgatherdq_xmm_k1_vm32x,
        EVEX_Vpgatherdq_ymm_k1_vm32x, EVEX_Vpgatherdq_zmm_k1_vm32y;
    SCATTER32_I64 =
        INVALID, INVALID, EVEX_Vpscatterdq_vm32x_k1_xmm, EVEX_Vpscatterdq_vm32x_k1_ymm,
        EVEX_Vpscatterdq_vm32y_k1_zmm;
    GATHER64_I64 =
        VEX_Vpgatherqq_xmm_vm64x_xmm, VEX_Vpgatherqq_ymm_vm64y_ymm, EVEX_Vpgatherqq_xmm_k1_vm64x,
        EVEX_Vpgatherqq_ymm_k1_vm64y, EVEX_Vpgatherqq_zmm_k1_vm64z;
    GATHER64_I32 =
        VEX_Vpgatherqd_xmm_vm64x_xmm, VEX_Vpgatherqd_xmm_vm64y_xmm, EVEX_Vpgatherqd_xmm_k1_vm64x,
        EVEX_Vpgatherqd_xmm_k1_vm64y, EVEX_Vpgatherqd_ymm_k1_vm64z;
    SCATTER64_I64 =
        INVALID, INVALID, EVEX_Vpscatterqq_vm64x_k1_xmm, EVEX_Vpscatterqq_vm64y_k1_ymm,
        EVEX_Vpscatterqq_vm64z_k1_zmm;
    SCATTER64_I32 =
        INVALID, INVALID, EVEX_Vpscatterqd_vm64x_k1_xmm, EVEX_Vpscatterqd_vm64y_k1_xmm,
        EVEX_Vpscatterqd_vm64z_k1_ymm;
}

// Low lane, general-purpose registers and single lanes.
single! {
    ADD_SF32 = VEX_Vaddss_xmm_xmm_xmmm32, EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er;
    ADD_SF64 = VEX_Vaddsd_xmm_xmm_xmmm64, EVEX_Vaddsd_xmm_k1z_xmm_xmmm64_er;
    SUB_SF32 = VEX_Vsubss_xmm_xmm_xmmm32, EVEX_Vsubss_xmm_k1z_xmm_xmmm32_er;
    SUB_SF64 = VEX_Vsubsd_xmm_xmm_xmmm64, EVEX_Vsubsd_xmm_k1z_xmm_xmmm64_er;
    MUL_SF32 = VEX_Vmulss_xmm_xmm_xmmm32, EVEX_Vmulss_xmm_k1z_xmm_xmmm32_er;
    MUL_SF64 = VEX_Vmulsd_xmm_xmm_xmmm64, EVEX_Vmulsd_xmm_k1z_xmm_xmmm64_er;
    DIV_SF32 = VEX_Vdivss_xmm_xmm_xmmm32, EVEX_Vdivss_xmm_k1z_xmm_xmmm32_er;
    DIV_SF64 = VEX_Vdivsd_xmm_xmm_xmmm64, EVEX_Vdivsd_xmm_k1z_xmm_xmmm64_er;
    MIN_SF32 = VEX_Vminss_xmm_xmm_xmmm32, EVEX_Vminss_xmm_k1z_xmm_xmmm32_sae;
    MIN_SF64 = VEX_Vminsd_xmm_xmm_xmmm64, EVEX_Vminsd_xmm_k1z_xmm_xmmm64_sae;
    MAX_SF32 = VEX_Vmaxss_xmm_xmm_xmmm32, EVEX_Vmaxss_xmm_k1z_xmm_xmmm32_sae;
    MAX_SF64 = VEX_Vmaxsd_xmm_xmm_xmmm64, EVEX_Vmaxsd_xmm_k1z_xmm_xmmm64_sae;
    SQRT_SF32 = VEX_Vsqrtss_xmm_xmm_xmmm32, EVEX_Vsqrtss_xmm_k1z_xmm_xmmm32_er;
    SQRT_SF64 = VEX_Vsqrtsd_xmm_xmm_xmmm64, EVEX_Vsqrtsd_xmm_k1z_xmm_xmmm64_er;
    FMADD132_SF32 = VEX_Vfmadd132ss_xmm_xmm_xmmm32, EVEX_Vfmadd132ss_xmm_k1z_xmm_xmmm32_er;
    FNMADD132_SF32 = VEX_Vfnmadd132ss_xmm_xmm_xmmm32, EVEX_Vfnmadd132ss_xmm_k1z_xmm_xmmm32_er;
    FMADD213_SF32 = VEX_Vfmadd213ss_xmm_xmm_xmmm32, EVEX_Vfmadd213ss_xmm_k1z_xmm_xmmm32_er;
    FNMADD213_SF32 = VEX_Vfnmadd213ss_xmm_xmm_xmmm32, EVEX_Vfnmadd213ss_xmm_k1z_xmm_xmmm32_er;
    FMADD231_SF32 = VEX_Vfmadd231ss_xmm_xmm_xmmm32, EVEX_Vfmadd231ss_xmm_k1z_xmm_xmmm32_er;
    FNMADD231_SF32 = VEX_Vfnmadd231ss_xmm_xmm_xmmm32, EVEX_Vfnmadd231ss_xmm_k1z_xmm_xmmm32_er;
    ROUND_SF32 = VEX_Vroundss_xmm_xmm_xmmm32_imm8, EVEX_Vrndscaless_xmm_k1z_xmm_xmmm32_imm8_sae;
    CMP_SF32 = VEX_Vcmpss_xmm_xmm_xmmm32_imm8, EVEX_Vcmpss_kr_k1_xmm_xmmm32_imm8_sae;
    UCOMI_SF32 = VEX_Vucomiss_xmm_xmmm32, EVEX_Vucomiss_xmm_xmmm32_sae;
    LOAD_SF32 = VEX_Vmovss_xmm_m32, EVEX_Vmovss_xmm_k1z_m32;
    STORE_SF32 = VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm;
    CVT_GPR32_SF32 = VEX_Vcvtsi2ss_xmm_xmm_rm32, EVEX_Vcvtsi2ss_xmm_xmm_rm32_er;
    CVT_GPR64_SF32 = VEX_Vcvtsi2ss_xmm_xmm_rm64, EVEX_Vcvtsi2ss_xmm_xmm_rm64_er;
    CVTT_SF32_GPR32 = VEX_Vcvttss2si_r32_xmmm32, EVEX_Vcvttss2si_r32_xmmm32_sae;
    CVTT_SF32_GPR64 = VEX_Vcvttss2si_r64_xmmm32, EVEX_Vcvttss2si_r64_xmmm32_sae;
    CVT_SF32_GPR32 = VEX_Vcvtss2si_r32_xmmm32, EVEX_Vcvtss2si_r32_xmmm32_er;
    CVT_SF32_GPR64 = VEX_Vcvtss2si_r64_xmmm32, EVEX_Vcvtss2si_r64_xmmm32_er;
    FMADD132_SF64 = VEX_Vfmadd132sd_xmm_xmm_xmmm64, EVEX_Vfmadd132sd_xmm_k1z_xmm_xmmm64_er;
    FNMADD132_SF64 = VEX_Vfnmadd132sd_xmm_xmm_xmmm64, EVEX_Vfnmadd132sd_xmm_k1z_xmm_xmmm64_er;
    FMADD213_SF64 = VEX_Vfmadd213sd_xmm_xmm_xmmm64, EVEX_Vfmadd213sd_xmm_k1z_xmm_xmmm64_er;
    FNMADD213_SF64 = VEX_Vfnmadd213sd_xmm_xmm_xmmm64, EVEX_Vfnmadd213sd_xmm_k1z_xmm_xmmm64_er;
    FMADD231_SF64 = VEX_Vfmadd231sd_xmm_xmm_xmmm64, EVEX_Vfmadd231sd_xmm_k1z_xmm_xmmm64_er;
    FNMADD231_SF64 = VEX_Vfnmadd231sd_xmm_xmm_xmmm64, EVEX_Vfnmadd231sd_xmm_k1z_xmm_xmmm64_er;
    ROUND_SF64 = VEX_Vroundsd_xmm_xmm_xmmm64_imm8, EVEX_Vrndscalesd_xmm_k1z_xmm_xmmm64_imm8_sae;
    CMP_SF64 = VEX_Vcmpsd_xmm_xmm_xmmm64_imm8, EVEX_Vcmpsd_kr_k1_xmm_xmmm64_imm8_sae;
    UCOMI_SF64 = VEX_Vucomisd_xmm_xmmm64, EVEX_Vucomisd_xmm_xmmm64_sae;
    LOAD_SF64 = VEX_Vmovsd_xmm_m64, EVEX_Vmovsd_xmm_k1z_m64;
    STORE_SF64 = VEX_Vmovsd_m64_xmm, EVEX_Vmovsd_m64_k1_xmm;
    CVT_GPR32_SF64 = VEX_Vcvtsi2sd_xmm_xmm_rm32, EVEX_Vcvtsi2sd_xmm_xmm_rm32_er;
    CVT_GPR64_SF64 = VEX_Vcvtsi2sd_xmm_xmm_rm64, EVEX_Vcvtsi2sd_xmm_xmm_rm64_er;
    CVTT_SF64_GPR32 = VEX_Vcvttsd2si_r32_xmmm64, EVEX_Vcvttsd2si_r32_xmmm64_sae;
    CVTT_SF64_GPR64 = VEX_Vcvttsd2si_r64_xmmm64, EVEX_Vcvttsd2si_r64_xmmm64_sae;
    CVT_SF64_GPR32 = VEX_Vcvtsd2si_r32_xmmm64, EVEX_Vcvtsd2si_r32_xmmm64_er;
    CVT_SF64_GPR64 = VEX_Vcvtsd2si_r64_xmmm64, EVEX_Vcvtsd2si_r64_xmmm64_er;
    CVT_SF64_SF32 = VEX_Vcvtsd2ss_xmm_xmm_xmmm64, EVEX_Vcvtsd2ss_xmm_k1z_xmm_xmmm64_er;
    CVT_SF32_SF64 = VEX_Vcvtss2sd_xmm_xmm_xmmm32, EVEX_Vcvtss2sd_xmm_k1z_xmm_xmmm32_sae;
    MOVD_TO_XMM = VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32;
    MOVD_FROM_XMM = VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm;
    MOVQ_TO_XMM = VEX_Vmovq_xmm_rm64, EVEX_Vmovq_xmm_rm64;
    MOVQ_FROM_XMM = VEX_Vmovq_rm64_xmm, EVEX_Vmovq_rm64_xmm;
    PEXTR_I8 = VEX_Vpextrb_r32m8_xmm_imm8, EVEX_Vpextrb_r32m8_xmm_imm8;
    PEXTR_I16 = VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8;
    PEXTR_I32 = VEX_Vpextrd_rm32_xmm_imm8, EVEX_Vpextrd_rm32_xmm_imm8;
    PEXTR_I64 = VEX_Vpextrq_rm64_xmm_imm8, EVEX_Vpextrq_rm64_xmm_imm8;
    INSERT_F32 = VEX_Vinsertps_xmm_xmm_xmmm32_imm8, EVEX_Vinsertps_xmm_xmm_xmmm32_imm8;
    LOAD_HIGH_F64 = VEX_Vmovhpd_xmm_xmm_m64, EVEX_Vmovhpd_xmm_xmm_m64;
    INSERT128_Y = VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8;
    INSERT256_Z = INVALID, EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8;
    EXTRACT128_Y = VEX_Vextractf128_xmmm128_ymm_imm8, EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8;
    EXTRACT128_Z = INVALID, EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8;
    EXTRACT256_Z = INVALID, EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
}
