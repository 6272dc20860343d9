// SPDX-License-Identifier: Apache-2.0
// Instructions by family against known answers: LLVM assembles, one wave runs, registers are looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>

#include "access.h"

namespace sim {
namespace {

using ::testing::HasSubstr;

std::vector<u8> assembled(const std::string& source, bool wave64) {
  char folder[] = "/tmp/sim_isa_XXXXXX";
  if (mkdtemp(folder) == nullptr) ADD_FAILURE();
  const std::string base = folder;
  std::ofstream(base + "/code.s") << source;
  const std::string features = wave64 ? "-wavefrontsize32,+wavefrontsize64" : "+wavefrontsize32,-wavefrontsize64";
  const std::string assemble = std::string(KLAB_LLVM_MC) + " --triple=amdgcn-amd-amdhsa --mcpu=gfx1030 --mattr=" + features + " --filetype=obj -o " + base +
                               "/code.o " + base + "/code.s && " + KLAB_LLVM_OBJCOPY + " -O binary --only-section=.text " + base + "/code.o " + base + "/code";
  EXPECT_EQ(std::system(assemble.c_str()), 0) << source;
  std::ifstream in(base + "/code", std::ios::binary);
  std::vector<u8> bytes{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(base);
  return bytes;
}

class Isa : public testing::Test {
 protected:
  Isa() { reset(32); }
  void reset(u32 lanes) {
    wave = Wave();
    wave.lanes = lanes;
    wave.vector.assign((kVectorRegisters + 1) * kMostLanes, 0xdeadbeef);
    wave.scalar.fill(0);
    wave.set_exec(wave.lane_mask());
    group = Workgroup();
    group.lds.resize(1024);
    group.waves = 1;
    wave.group = &group;
    wave.grid = &grid;
    wave.scratch_bytes = 256;
    wave.scratch.assign(256ull * lanes, std::byte{0});
    for (u32 l = 0; l < kMostLanes; ++l) v(0)[l] = l;
  }
  /// Runs until the wave ends; registers stay as they were set before.
  void run(const std::string& source) {
    const auto code = assembled(source + "\ns_endpgm\n", wave.lanes == 64);
    auto* page = static_cast<std::byte*>(memory().own_page(4096 + code.size() / 4096 * 4096));
    std::memcpy(page, code.data(), code.size());
    wave.pc = reinterpret_cast<u64>(page);
    wave.state = Wave::State::ready;
    const CodeUse use;
    run_slice(wave, 100000);
    EXPECT_EQ(wave.state, Wave::State::ended);
  }
  u32* v(u32 r) { return wave.lanes_of(r); }
  void set(u32 r, f32 value) { std::fill(v(r), v(r) + kMostLanes, std::bit_cast<u32>(value)); }
  void set(u32 r, u32 value) { std::fill(v(r), v(r) + kMostLanes, value); }
  void set64(u32 r, f64 value) {
    set(r, static_cast<u32>(std::bit_cast<u64>(value)));
    set(r + 1, static_cast<u32>(std::bit_cast<u64>(value) >> 32));
  }
  f32 real(u32 r, u32 lane = 0) { return std::bit_cast<f32>(v(r)[lane]); }
  f64 real64(u32 r, u32 lane = 0) { return std::bit_cast<f64>(v(r)[lane] | static_cast<u64>(v(r + 1)[lane]) << 32); }
  u32 s(u32 r) const { return wave.scalar[r]; }
  /// Memory that the GPU can reach.
  u32* page(u32 words = 1024) { return static_cast<u32*>(memory().own_page(words * 4ull)); }
  void point(u32 scalar, const void* to) { wave.set_pair(scalar, reinterpret_cast<u64>(to)); }

  Wave wave;
  Workgroup group;
  GridBarrier grid;
};

TEST_F(Isa, scalar_arithmetic_sets_its_condition_as_it_should) {
  run("s_mov_b32 s0, 0xffffffff\ns_add_u32 s1, s0, 1\ns_addc_u32 s2, 0, 0\ns_sub_u32 s3, 5, 7\ns_subb_u32 s4, 9, 1");
  EXPECT_EQ(s(1), 0u);
  EXPECT_EQ(s(2), 1u) << "the carry";
  EXPECT_EQ(s(3), static_cast<u32>(-2));
  EXPECT_EQ(s(4), 7u) << "less the borrow";
  run("s_movk_i32 s0, -3\ns_ashr_i32 s1, s0, 1\ns_lshr_b32 s2, s0, 28\ns_mul_i32 s3, s0, 7\ns_mul_hi_u32 s4, s0, 2\ns_mov_b32 s20, 0x12345678\ns_bfe_u32 s5, s20, 0x80010\n"
      "s_movk_i32 s21, 0x80\ns_bfe_i32 s6, s21, 0x80000\ns_ff1_i32_b32 s7, 0x50\ns_bcnt1_i32_b32 s8, 0xff0\ns_flbit_i32_b32 s9, 1\ns_sext_i32_i8 s10, 0x80\ns_lshl2_add_u32 s11, 3, 4");
  EXPECT_EQ(static_cast<i32>(s(1)), -2);
  EXPECT_EQ(s(2), 15u);
  EXPECT_EQ(static_cast<i32>(s(3)), -21);
  EXPECT_EQ(s(4), 1u);
  EXPECT_EQ(s(5), 0x34u);
  EXPECT_EQ(static_cast<i32>(s(6)), -128);
  EXPECT_EQ(s(7), 4u);
  EXPECT_EQ(s(8), 8u);
  EXPECT_EQ(s(9), 31u);
  EXPECT_EQ(static_cast<i32>(s(10)), -128);
  EXPECT_EQ(s(11), 16u);
}

TEST_F(Isa, scalar_comparisons_branches_and_calls) {
  run("s_movk_i32 s0, -1\ns_cmp_lt_i32 s0, 0\ns_cselect_b32 s1, 1, 2\ns_cmp_lt_u32 s0, 0\ns_cselect_b32 s2, 1, 2\ns_cmpk_eq_i32 s0, -1\ns_cselect_b32 s3, 1, 2\n"
      "s_mov_b32 s4, 0\ns_mov_b32 s5, 5\nloop:\ns_add_u32 s4, s4, s5\ns_sub_u32 s5, s5, 1\ns_cmp_lg_u32 s5, 0\ns_cbranch_scc1 loop\n"
      "s_getpc_b64 s[10:11]\ns_add_u32 s10, s10, 16\ns_addc_u32 s11, s11, 0\ns_setpc_b64 s[10:11]\ns_mov_b32 s6, 1\ns_mov_b32 s7, 1");
  EXPECT_EQ(s(1), 1u);
  EXPECT_EQ(s(2), 2u);
  EXPECT_EQ(s(3), 1u);
  EXPECT_EQ(s(4), 15u);
  EXPECT_EQ(s(6), 0u) << "jumped over";
  EXPECT_EQ(s(7), 1u);
}

TEST_F(Isa, wide_scalars_and_the_execution_mask) {
  run("s_mov_b64 s[0:1], -1\ns_lshl_b64 s[2:3], s[0:1], 36\ns_andn2_b64 s[4:5], s[0:1], s[2:3]\ns_mov_b32 s6, 0xff\ns_and_saveexec_b32 s7, s6\nv_mov_b32 v1, 7\n"
      "s_mov_b32 exec_lo, s7\nv_mov_b32 v2, 9");
  EXPECT_EQ(s(3), 0xfffffff0u);
  EXPECT_EQ(s(4), ~0u);
  EXPECT_EQ(s(5), 0xfu);
  EXPECT_EQ(s(7), ~0u);
  EXPECT_EQ(v(1)[7], 7u);
  EXPECT_EQ(v(1)[8], 0xdeadbeefu) << "not in the mask";
  EXPECT_EQ(v(2)[31], 9u);
}

TEST_F(Isa, vector_integers) {
  set(1, 0xfffffff0u);
  set(2, 0x30u);
  run("v_add_nc_u32 v3, v1, v2\nv_add_nc_u32_e64 v4, v1, v2 clamp\nv_sub_nc_u32_e64 v5, v2, v1 clamp\nv_mul_lo_u32 v6, v1, v2\nv_mul_hi_u32 v7, v1, v2\n"
      "v_mul_i32_i24 v8, v1, v2\nv_mad_u32_u24 v9, v2, v2, v2\nv_min_i32 v10, v1, v2\nv_max_u32 v11, v1, v2\nv_add3_u32 v12, v0, v2, 1\nv_lshl_add_u32 v13, v0, 2, v2\n"
      "v_bfe_u32 v14, v1, 4, 8\nv_bfe_i32 v15, v2, 4, 2\nv_alignbit_b32 v16, v2, v1, 4\nv_perm_b32 v17, v1, v2, 0x07060c00\nv_ffbh_u32 v18, v2\nv_bfrev_b32 v19, v2\nv_med3_i32 v20, v1, v2, 5");
  EXPECT_EQ(v(3)[0], 0x20u);
  EXPECT_EQ(v(4)[0], ~0u);
  EXPECT_EQ(v(5)[0], 0u);
  EXPECT_EQ(v(6)[0], static_cast<u32>(-16 * 0x30));
  EXPECT_EQ(v(7)[0], 0x2fu);
  EXPECT_EQ(static_cast<i32>(v(8)[0]), -16 * 0x30);
  EXPECT_EQ(v(9)[0], 0x30u * 0x30u + 0x30u);
  EXPECT_EQ(v(10)[0], 0xfffffff0u);
  EXPECT_EQ(v(11)[0], 0xfffffff0u);
  EXPECT_EQ(v(12)[31], 31u + 0x31u);
  EXPECT_EQ(v(13)[5], 20u + 0x30u);
  EXPECT_EQ(v(14)[0], 0xffu);
  EXPECT_EQ(static_cast<i32>(v(15)[0]), -1);
  EXPECT_EQ(v(16)[0], 0x0fffffffu);
  EXPECT_EQ(v(17)[0], 0xffff0030u);
  EXPECT_EQ(v(18)[0], 26u);
  EXPECT_EQ(v(19)[0], 0x0c000000u);
  EXPECT_EQ(v(20)[0], 5u);
}

TEST_F(Isa, carries_go_through_masks_of_lanes) {
  set(1, 0xffffffffu);
  run("v_add_co_u32 v2, vcc_lo, v1, v0\nv_add_co_ci_u32_e32 v3, vcc_lo, 0, v0, vcc_lo\nv_sub_co_u32 v4, s4, v0, v1\nv_subrev_co_ci_u32_e64 v5, s5, v0, 0, s4\n"
      "v_mad_u64_u32 v[6:7], s6, v1, v1, v[2:3]");
  EXPECT_EQ(v(2)[0], 0xffffffffu);
  EXPECT_EQ(v(2)[1], 0u);
  EXPECT_EQ(v(3)[0], 0u);
  EXPECT_EQ(v(3)[3], 4u) << "0 + 3 + the carry";
  EXPECT_EQ(s(4), ~0u) << "every lane borrowed";
  EXPECT_EQ(v(5)[2], static_cast<u32>(0 - 2 - 1));
  EXPECT_EQ(v(6)[0] | static_cast<u64>(v(7)[0]) << 32, 0xfffffffe00000001ull + 0xffffffffull);
}

TEST_F(Isa, reals_with_signs_scales_and_clamps) {
  set(1, 3.0f);
  set(2, -0.5f);
  run("v_add_f32 v3, v1, v2\nv_fma_f32 v4, -v1, |v2|, 1.0\nv_mul_f32_e64 v5, v1, v2 mul:4\nv_add_f32_e64 v6, v1, v1 clamp\nv_max_f32 v7, v1, v2\nv_rcp_f32 v8, v2\n"
      "v_floor_f32 v9, v2\nv_rndne_f32 v10, v2\nv_fract_f32 v11, v2\nv_ldexp_f32 v12, v1, 3\nv_cvt_i32_f32 v13, v2\nv_cvt_u32_f32 v14, v2\nv_cvt_f32_u32 v15, v0\n"
      "v_fmac_f32 v15, v1, v1\nv_mul_f32_e64 v16, v1, v1 div:2\nv_cvt_f32_ubyte0 v17, 0x1ff\nv_sin_f32 v18, 0.5\nv_med3_f32 v19, v1, v2, 1.0");
  EXPECT_EQ(real(3), 2.5f);
  EXPECT_EQ(real(4), -0.5f);
  EXPECT_EQ(real(5), -6.0f);
  EXPECT_EQ(real(6), 1.0f);
  EXPECT_EQ(real(7), 3.0f);
  EXPECT_EQ(real(8), -2.0f);
  EXPECT_EQ(real(9), -1.0f);
  EXPECT_EQ(real(10), -0.0f);
  EXPECT_EQ(real(11), 0.5f);
  EXPECT_EQ(real(12), 24.0f);
  EXPECT_EQ(v(13)[0], 0u);
  EXPECT_EQ(v(14)[0], 0u);
  EXPECT_EQ(real(15, 5), 14.0f);
  EXPECT_EQ(real(16), 4.5f);
  EXPECT_EQ(real(17), 255.0f);
  EXPECT_NEAR(real(18), 0.0f, 1e-6f) << "half a turn";
  EXPECT_EQ(real(19), 1.0f);
}

TEST_F(Isa, denormals_are_kept_or_flushed_as_the_mode_says) {
  set(1, std::bit_cast<f32>(0x00000010u));
  run("v_add_f32 v2, v1, v1\ns_denorm_mode 12\nv_add_f32 v3, v1, v1\ns_denorm_mode 15\nv_add_f32 v4, v1, v1");
  EXPECT_EQ(v(2)[0], 0x20u);
  EXPECT_EQ(v(3)[0], 0u);
  EXPECT_EQ(v(4)[0], 0x20u);
}

// As the compiler divides: correctly rounded for every pair.
constexpr const char* kDivide32 =
    "v_div_scale_f32 v3, s4, v2, v2, v1\nv_rcp_f32 v4, v3\nv_div_scale_f32 v5, vcc_lo, v1, v2, v1\nv_fma_f32 v6, -v3, v4, 1.0\nv_fmac_f32 v4, v6, v4\n"
    "v_mul_f32 v6, v5, v4\nv_fma_f32 v7, -v3, v6, v5\nv_fmac_f32 v6, v7, v4\nv_fma_f32 v3, -v3, v6, v5\nv_div_fmas_f32 v3, v3, v4, v6\nv_div_fixup_f32 v3, v3, v2, v1";

TEST_F(Isa, divisions_of_32_bits_are_what_the_host_gets) {
  std::mt19937 random(7);
  std::uniform_int_distribution<u32> any;
  std::vector<std::pair<u32, u32>> pairs = {{0x3f800000, 0}, {0, 0x3f800000}, {0x7f800000, 0x7f800000}, {0, 0}, {0x7f7fffff, 0x00800000}, {1, 0x7f000000},
                                            {0x00000003, 0x3f000000}, {0x7e800000, 0x00400000}, {0x80000000, 0x3f800000}, {0x3f800000, 0xff800000}};
  while (pairs.size() < 32) pairs.emplace_back(any(random), any(random));
  for (u32 l = 0; l < 32; ++l) v(1)[l] = pairs[l].first, v(2)[l] = pairs[l].second;
  run(kDivide32);
  for (u32 l = 0; l < 32; ++l) {
    const f32 a = std::bit_cast<f32>(pairs[l].first), b = std::bit_cast<f32>(pairs[l].second), expected = a / b, got = real(3, l);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << a << " / " << b;
    else
      EXPECT_EQ(std::bit_cast<u32>(got), std::bit_cast<u32>(expected)) << a << " / " << b << ": " << got;
  }
}

TEST_F(Isa, divisions_of_64_bits_are_what_the_host_gets) {
  std::mt19937_64 random(11);
  std::vector<std::pair<f64, f64>> pairs = {{1, 3}, {1, 0}, {0, 0}, {1e308, 1e-10}, {5e-324, 0.5}, {1e-300, 1e300}, {-7, 2}, {1e-310, 3e-310}};
  while (pairs.size() < 32) pairs.emplace_back(std::bit_cast<f64>(random()), std::bit_cast<f64>(random()));
  for (u32 l = 0; l < 32; ++l) {
    const u64 a = std::bit_cast<u64>(pairs[l].first), b = std::bit_cast<u64>(pairs[l].second);
    v(2)[l] = static_cast<u32>(a), v(3)[l] = static_cast<u32>(a >> 32), v(4)[l] = static_cast<u32>(b), v(5)[l] = static_cast<u32>(b >> 32);
  }
  run("v_div_scale_f64 v[6:7], s4, v[4:5], v[4:5], v[2:3]\nv_div_scale_f64 v[12:13], vcc_lo, v[2:3], v[4:5], v[2:3]\nv_rcp_f64 v[8:9], v[6:7]\n"
      "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0\nv_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\nv_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0\n"
      "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]\nv_mul_f64 v[10:11], v[12:13], v[8:9]\nv_fma_f64 v[6:7], -v[6:7], v[10:11], v[12:13]\n"
      "v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[10:11]\nv_div_fixup_f64 v[6:7], v[6:7], v[4:5], v[2:3]");
  for (u32 l = 0; l < 32; ++l) {
    const f64 expected = pairs[l].first / pairs[l].second, got = real64(6, l);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got));
    else
      EXPECT_EQ(std::bit_cast<u64>(got), std::bit_cast<u64>(expected)) << pairs[l].first << " / " << pairs[l].second << ": " << got;
  }
}

TEST_F(Isa, doubles_and_their_literals) {
  set64(2, 1.5);
  run("v_add_f64 v[4:5], v[2:3], 1.0\nv_mul_f64 v[6:7], v[2:3], -v[2:3]\nv_cvt_f32_f64 v8, v[2:3]\nv_cvt_f64_i32 v[10:11], v0\nv_fma_f64 v[12:13], v[2:3], 2.0, 0.5\n"
      "v_cmp_lt_f64 vcc_lo, v[2:3], v[10:11]\nv_lshlrev_b64 v[14:15], 33, v[2:3]");
  EXPECT_EQ(real64(4), 2.5);
  EXPECT_EQ(real64(6), -2.25);
  EXPECT_EQ(real(8), 1.5f);
  EXPECT_EQ(real64(10, 9), 9.0);
  EXPECT_EQ(real64(12), 3.5);
  EXPECT_EQ(s(kVcc), 0xfffffffcu) << "lanes 2 and up";
}

TEST(Half, is_rounded_to_the_nearest_even) {
  EXPECT_EQ(to_half(1.0).bits, 0x3c00);
  EXPECT_EQ(to_half(-2.0).bits, 0xc000);
  EXPECT_EQ(to_half(65504.0).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0).bits, 0x7c00);
  EXPECT_EQ(to_half(65519.9).bits, 0x7bff);
  EXPECT_EQ(to_half(std::ldexp(1.0, -24)).bits, 1);
  EXPECT_EQ(to_half(std::ldexp(1.0, -25)).bits, 0) << "a tie goes to even";
  EXPECT_EQ(to_half(std::ldexp(1.5, -25)).bits, 1);
  EXPECT_EQ(to_half(1.0 + std::ldexp(1.0, -11)).bits, 0x3c00);
  EXPECT_EQ(to_half(1.0 + 3 * std::ldexp(1.0, -11)).bits, 0x3c02);
  for (u32 bits = 0; bits < 0x10000; ++bits) {
    const f16 h{static_cast<u16>(bits)};
    const bool is_number = (bits & 0x7c00) != 0x7c00 || (bits & 0x3ff) == 0;
    if (is_number) {
      EXPECT_EQ(to_half(from_half(h)).bits, bits);
    }
  }
}

TEST_F(Isa, halves_alone_and_in_pairs) {
  set(1, 0x3c004000u);  // hi 1, lo 2
  set(2, 0x40003c00u);  // hi 2, lo 1
  set(3, 0xabcd0000u);
  run("v_add_f16 v3, v1, v2\nv_pk_add_f16 v4, v1, v2\nv_pk_mul_f16 v5, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]\nv_pk_fma_f16 v6, v1, v2, v1 neg_lo:[1,0,0]\nv_cvt_f32_f16 v7, v1\n"
      "v_cvt_f16_f32 v8, 1.0\nv_pk_add_u16 v9, v1, v2\nv_cvt_f32_f16_sdwa v10, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1");
  EXPECT_EQ(v(3)[0], 0xabcd4200u) << "3 in the lower half; the upper half stays";
  EXPECT_EQ(v(4)[0], 0x42004200u);
  EXPECT_EQ(v(5)[0], 0x44003c00u) << "lo: 1 * 1, hi: 2 * 2";
  EXPECT_EQ(v(6)[0], 0x42000000u) << "lo: -2 * 1 + 2, hi: 1 * 2 + 1";
  EXPECT_EQ(real(7), 2.0f);
  EXPECT_EQ(v(8)[0] & 0xffff, 0x3c00u);
  EXPECT_EQ(v(9)[0], 0x7c007c00u);
  EXPECT_EQ(real(10), 1.0f);
}

TEST_F(Isa, comparisons_write_masks) {
  set(1, 2.0f);
  set(2, std::numeric_limits<f32>::quiet_NaN());
  run("v_cmp_gt_u32 vcc_lo, 8, v0\nv_cndmask_b32 v3, 5, v0, vcc_lo\nv_cmp_class_f32 s4, v2, 3\nv_cmp_nlt_f32 s5, v1, v2\nv_cmp_lt_f32 s6, v1, v2\nv_cmp_eq_i32 s7, -1, v0\n"
      "v_cndmask_b32_e64 v4, v1, -v1, vcc_lo\ns_mov_b32 s8, exec_lo\nv_cmpx_lt_u32 3, v0\nv_mov_b32 v5, 1\ns_mov_b32 s9, exec_lo");
  EXPECT_EQ(s(kVcc), 0xffu);
  EXPECT_EQ(v(3)[7], 7u);
  EXPECT_EQ(v(3)[8], 5u);
  EXPECT_EQ(s(4), ~0u);
  EXPECT_EQ(s(5), ~0u);
  EXPECT_EQ(s(6), 0u);
  EXPECT_EQ(s(7), 0u);
  EXPECT_EQ(real(4, 0), -2.0f);
  EXPECT_EQ(real(4, 9), 2.0f);
  EXPECT_EQ(s(9), 0xfffffff0u);
  EXPECT_EQ(v(5)[3], 0xdeadbeefu);
  EXPECT_EQ(v(5)[4], 1u);
}

TEST_F(Isa, masks_have_two_registers_in_a_wave_of_64) {
  reset(64);
  run("v_cmp_lt_u32 vcc, 31, v0\nv_cndmask_b32 v1, 0, 1, vcc\ns_and_saveexec_b64 s[4:5], vcc\nv_mov_b32 v2, 3\nv_mbcnt_lo_u32_b32 v3, -1, 0\nv_mbcnt_hi_u32_b32 v3, -1, v3");
  EXPECT_EQ(wave.pair(kVcc), 0xffffffff00000000ull);
  EXPECT_EQ(v(1)[31], 0u);
  EXPECT_EQ(v(1)[32], 1u);
  EXPECT_EQ(wave.pair(4), ~0ull);
  EXPECT_EQ(v(2)[31], 0xdeadbeefu);
  EXPECT_EQ(v(2)[63], 3u);
  EXPECT_EQ(v(3)[40], 40u);
}

TEST_F(Isa, lanes_talk_by_dpp) {
  for (u32 r = 1; r < 8; ++r) set(r, 100u);
  run("v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf\nv_mov_b32_dpp v2, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\n"
      "v_mov_b32_dpp v3, v0 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf\nv_mov_b32_dpp v4, v0 row_ror:4 row_mask:0x1 bank_mask:0xf\n"
      "v_add_nc_u32_dpp v5, v0, v0 row_mirror row_mask:0xf bank_mask:0xf\nv_mov_b32_dpp v6, v0 dpp8:[7,6,5,4,3,2,1,0]\nv_mov_b32_dpp v7, v0 row_xmask:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(v(1)[0], 100u) << "no lane before the row: nothing is written";
  EXPECT_EQ(v(1)[17], 16u);
  EXPECT_EQ(v(2)[0], 0u);
  EXPECT_EQ(v(3)[4], 7u);
  EXPECT_EQ(v(4)[2], 14u);
  EXPECT_EQ(v(4)[18], 100u) << "a row that is masked";
  EXPECT_EQ(v(5)[0], 15u);
  EXPECT_EQ(v(6)[9], 14u);
  EXPECT_EQ(v(7)[4], 5u);
}

TEST_F(Isa, parts_of_registers_by_sdwa) {
  set(1, 0x80ff7f01u);
  set(2, 0x11223344u);
  run("v_add_nc_u32_sdwa v3, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:WORD_1\n"
      "v_mov_b32_sdwa v4, sext(v1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1\n"
      "v_mov_b32_sdwa v5, v1 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_2\n"
      "v_mov_b32_sdwa v6, v1 dst_sel:WORD_1 dst_unused:UNUSED_SEXT src0_sel:WORD_1\n"
      "v_mov_b32_sdwa v2, v1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0");
  EXPECT_EQ(v(3)[0], 0xffu + 0x1122u);
  EXPECT_EQ(v(4)[0], 0xffff80ffu);
  EXPECT_EQ(v(2)[0], 0x11220144u);
  EXPECT_EQ(v(5)[0], 0xffffff00u) << "the sign of 0xff, above it";
  EXPECT_EQ(v(6)[0], 0x80ff0000u) << "nothing lies above";
}

TEST_F(Isa, scalars_and_lanes) {
  set(1, 77u);
  run("v_readlane_b32 s0, v0, 5\nv_readfirstlane_b32 s1, v0\nv_writelane_b32 v1, 3, 9\ns_mov_b32 s4, 0x76543210\ns_mov_b32 s5, 0xfedcba98\nv_permlanex16_b32 v2, v0, s4, s5");
  EXPECT_EQ(s(0), 5u);
  EXPECT_EQ(s(1), 0u);
  EXPECT_EQ(v(1)[9], 3u);
  EXPECT_EQ(v(1)[8], 77u);
  EXPECT_EQ(v(2)[3], 19u);
  EXPECT_EQ(v(2)[20], 4u);
}

TEST_F(Isa, global_memory_in_all_sizes) {
  u32* memory = page();
  std::iota(memory, memory + 1024, 0x8000'0080u);
  point(2, memory);
  run("v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3]\nglobal_load_dwordx4 v[4:7], v1, s[2:3] offset:16\nglobal_load_sbyte v8, v1, s[2:3]\nglobal_load_ushort v9, v1, s[2:3] offset:2\n"
      "s_load_dwordx2 s[4:5], s[2:3], 0x8\nv_mov_b32 v10, s2\nv_mov_b32 v11, s3\nflat_load_dword v12, v[10:11] offset:4\nglobal_store_dword v1, v0, s[2:3] offset:512\n"
      "global_store_byte v[10:11], v0, off offset:1024\nv_mov_b32 v13, 0x1234\nglobal_load_short_d16_hi v13, v1, s[2:3]");
  EXPECT_EQ(v(2)[5], 0x80000085u);
  EXPECT_EQ(v(4)[1], 0x80000085u);
  EXPECT_EQ(v(7)[1], 0x80000088u);
  EXPECT_EQ(static_cast<i32>(v(8)[0]), -128);
  EXPECT_EQ(v(9)[0], 0x8000u);
  EXPECT_EQ(s(4), 0x80000082u);
  EXPECT_EQ(v(12)[0], 0x80000081u);
  EXPECT_EQ(memory[128 + 31], 31u);
  EXPECT_EQ(memory[256] & 0xff, 31u) << "the last lane wrote last";
  EXPECT_EQ(v(13)[0], 0x00801234u);
}

TEST_F(Isa, an_access_outside_every_allocation_faults) {
  point(2, reinterpret_cast<void*>(0x1234'5678'9000));
  const auto code = assembled("v_mov_b32 v1, 0\nglobal_store_dword v1, v0, s[2:3]\n", false);
  auto* at = static_cast<std::byte*>(memory().own_page(4096));
  std::memcpy(at, code.data(), code.size());
  wave.pc = reinterpret_cast<u64>(at);
  const CodeUse use;
  try {
    run_slice(wave, 10);
    FAIL();
  } catch (const MemoryFault& fault) {
    EXPECT_EQ(fault.address, 0x1234'5678'9000u);
    EXPECT_TRUE(fault.write);
  }
}

TEST(GpuMemory, is_there_for_the_gpu_that_it_is_mapped_for_alone) {
  void* at = nullptr;
  ASSERT_EQ(memory().allocate(kCpuNode, 4096, {}, &at), HSAKMT_STATUS_SUCCESS);
  const u64 address = reinterpret_cast<u64>(at);
  EXPECT_THROW(memory().window(address, 4, false), MemoryFault) << "mapped for none";
  ASSERT_EQ(memory().map(at, 1u << 2, nullptr), HSAKMT_STATUS_SUCCESS);
  EXPECT_THROW(memory().window(address, 4, false), MemoryFault) << "mapped for the other";
  this_gpu() = 2;
  EXPECT_NO_THROW(memory().window(address, 4, false));
  this_gpu() = kFirstGpu;
  ASSERT_EQ(memory().map(at, 0, nullptr), HSAKMT_STATUS_SUCCESS);
  EXPECT_NO_THROW(memory().window(address, 4, false)) << "host memory, mapped for all";
  EXPECT_EQ(memory().release(at), HSAKMT_STATUS_SUCCESS);
}

TEST_F(Isa, atomics_return_what_was_there) {
  u32* memory = page();
  memory[0] = 10;
  memory[1] = 5;
  reinterpret_cast<u64*>(memory)[2] = 1ull << 40;
  point(2, memory);
  run("v_mov_b32 v1, 0\nv_mov_b32 v2, 1\nglobal_atomic_add v3, v1, v2, s[2:3] glc\ns_mov_b32 exec_lo, 1\nv_mov_b32 v4, 9\nv_mov_b32 v5, 5\nglobal_atomic_cmpswap v6, v1, v[4:5], s[2:3] offset:4 glc\n"
      "v_mov_b32 v7, 0\nglobal_atomic_add_x2 v[8:9], v1, v[4:5], s[2:3] offset:16 glc\nglobal_atomic_smax v1, v4, s[2:3]");
  EXPECT_EQ(memory[0], 42u);
  EXPECT_EQ(v(3)[0], 10u);
  EXPECT_EQ(v(3)[31], 41u) << "one lane after the other";
  EXPECT_EQ(memory[1], 9u);
  EXPECT_EQ(v(6)[0], 5u);
  EXPECT_EQ(v(9)[0], 256u);
  EXPECT_EQ(reinterpret_cast<u64*>(memory)[2], (1ull << 40) + 9 + (5ull << 32));
}

TEST_F(Isa, lds_and_its_exchanges) {
  run("v_lshlrev_b32 v1, 2, v0\nds_write_b32 v1, v0 offset:64\nds_read_b32 v2, v1 offset:68\nds_read2_b32 v[4:5], v1 offset0:16 offset1:17\nv_mov_b32 v6, 0\nv_mov_b32 v7, 1\n"
      "ds_add_rtn_u32 v8, v6, v7\nds_read_b32 v9, v6 offset:2048\nds_bpermute_b32 v10, v1, v0 offset:4\nds_swizzle_b32 v11, v0 offset:0x041f\nds_write_b8 v6, v0 offset:300\nds_read_u8 v12, v6 offset:300");
  EXPECT_EQ(v(2)[4], 5u);
  EXPECT_EQ(v(4)[4], 4u);
  EXPECT_EQ(v(5)[4], 5u);
  EXPECT_EQ(v(8)[31] - v(8)[0], 31u);
  EXPECT_EQ(v(9)[0], 0u) << "beyond LDS";
  EXPECT_EQ(v(10)[7], 8u);
  EXPECT_EQ(v(11)[6], 7u) << "xor with 1";
  EXPECT_EQ(v(12)[0], 31u);
}

TEST_F(Isa, scratch_is_each_lanes_own) {
  wave.scalar[3] = kScratchDescriptor;
  wave.scalar[32] = 32 * 16;  // of the whole wave: 16 bytes of each lane
  run("buffer_store_dword v0, off, s[0:3], s32 offset:4\nv_mov_b32 v1, 20\nbuffer_load_dword v2, v1, s[0:3], 0 offen\nv_mov_b32 v3, 20\nv_mov_b32 v4, 0x20000\nflat_load_dword v5, v[3:4]");
  EXPECT_EQ(v(2)[9], 9u);
  EXPECT_EQ(v(5)[30], 30u) << "the same by its flat address";
}

// Strictness: what is not known whole is refused, not guessed.
TEST(Parse, refuses_what_it_does_not_understand) {
  std::string why;
  EXPECT_FALSE(parse("v_add_f32_e64 v0, v1, v2 wobble:3", why));
  EXPECT_THAT(why, HasSubstr("wobble:3"));
  EXPECT_FALSE(parse("v_add_f32 v0, v1, q2", why));
  EXPECT_FALSE(parse("v_add_f32 v0, v[1:, v2", why));
  EXPECT_FALSE(parse("global_load_dword v0, v1, s[2:3] offset:x", why));
  EXPECT_FALSE(parse("v_mov_b32_dpp v0, v1 row_shr:99 row_mask:0xf", why));
}

TEST(Bind, refuses_forms_that_no_handler_has) {
  const auto bound = [](const std::string& text) {
    std::string why;
    auto i = parse(text, why);
    if (!i) return "parse: " + why;
    return bind(*i, 32);
  };
  EXPECT_EQ(bound("v_add_f32_e32 v0, v1, v2"), "");
  EXPECT_THAT(bound("v_frobnicate_b32 v0, v1"), HasSubstr("v_frobnicate_b32 is not simulated"));
  EXPECT_THAT(bound("v_add_f32 v0, v1"), HasSubstr("takes 3 operands"));
  EXPECT_THAT(bound("v_add_f64 v[0:1], v2, v[4:5]"), HasSubstr("has 1 registers, not 2"));
  EXPECT_THAT(bound("v_and_b32 v0, -v1, v2"), HasSubstr("has a sign"));
  EXPECT_THAT(bound("v_mul_lo_u32 v0, v1, v2 clamp"), HasSubstr("modifiers"));
  EXPECT_THAT(bound("v_cmp_eq_u32 vcc, v1, v2"), HasSubstr("has 2 registers, not 1"));
}

}  // namespace
}  // namespace sim
