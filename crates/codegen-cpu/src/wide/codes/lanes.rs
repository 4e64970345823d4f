//! What moves between lanes, types of lanes, registers and memory.

use super::Packed;
use iced_x86::Code;

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
    PERM_F32 =
        INVALID, VEX_Vpermps_ymm_ymm_ymmm256, INVALID, EVEX_Vpermps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32;
    PERM2_F32 =
        INVALID, INVALID, EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vpermt2ps_ymm_k1z_ymm_ymmm256b32,
        EVEX_Vpermt2ps_zmm_k1z_zmm_zmmm512b32;
    BLEND_F32 =
        VEX_Vblendps_xmm_xmm_xmmm128_imm8, VEX_Vblendps_ymm_ymm_ymmm256_imm8, INVALID, INVALID, INVALID;
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
    CVT_F32_BF16 =
        INVALID, INVALID, EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32, EVEX_Vcvtneps2bf16_xmm_k1z_ymmm256b32,
        EVEX_Vcvtneps2bf16_ymm_k1z_zmmm512b32;
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
    SPLAT_MEM_128 =
        INVALID, VEX_Vbroadcastf128_ymm_m128, INVALID, EVEX_Vbroadcastf32x4_ymm_k1z_m128,
        EVEX_Vbroadcastf32x4_zmm_k1z_m128;
    SPLAT_MEM_256 = INVALID, INVALID, INVALID, INVALID, EVEX_Vbroadcastf32x8_zmm_k1z_m256;
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
