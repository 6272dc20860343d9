// SPDX-License-Identifier: Apache-2.0
// Cubins kept in fuzz/corpus/cubin_facts (made by nvcc 13.0 from the kernels that the names below tell), and damage to them.
#include "compile/cubin/cubin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "bundle/elf.h"
#include "compile/cubin/sass.h"

namespace klab::compile {
namespace {

using testing::HasSubstr;

std::string kept(const std::string& name) {
  return read_file(fs::path(KLAB_SOURCE_DIR) / "fuzz/corpus" / name).value();
}
Result<CudaFacts> facts_of(const std::string& bytes) { return read_cubin(std::as_bytes(std::span(bytes))); }

// Every place where `from` stands becomes `to`, of the same length.
std::string with(std::string bytes, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size())
    bytes.replace(at, from.size(), to);
  return bytes;
}

TEST(Cubin, kernels_have_their_figures_limits_and_parameters) {
  const CudaFacts facts = facts_of(kept("cubin_facts/sm_90.cubin")).value();
  EXPECT_EQ(facts.arch, "sm_90");
  EXPECT_THAT(facts.made_by, HasSubstr("V13.0.88"));
  ASSERT_EQ(facts.kernels.size(), 2u);
  const KernelFacts* k = facts.kernel("by_value");
  ASSERT_TRUE(k);
  EXPECT_EQ(k->parameters, (std::vector<KernelParameter>{{0, 24}, {24, 2}}));
  EXPECT_EQ(k->parameter_bytes, 26u);
  EXPECT_EQ(k->max_block, (std::array<std::uint32_t, 3>{256, 1, 1}));
  EXPECT_EQ(k->max_registers, 128u);
  EXPECT_EQ(k->shared_bytes, 512u);  // not the 1,024 that the system has of each block
  EXPECT_EQ(k->barriers, 1u);
  EXPECT_EQ(k->local_bytes, 0u);
  EXPECT_TRUE(k->registers && *k->registers >= 8 && *k->registers <= 64);
  EXPECT_GT(k->code_bytes, 100u);
  EXPECT_EQ(k->code_hash.size(), 32u);
  const KernelFacts* clustered = facts.kernel("_Z9clusteredILi4EEvPf");
  ASSERT_TRUE(clustered);
  EXPECT_EQ(clustered->demangled, "void clustered<4>(float*)");
  EXPECT_EQ(clustered->cluster, (std::array<std::uint32_t, 3>{2, 1, 1}));
}

TEST(Cubin, module_variables_have_their_space_and_size) {
  const CudaFacts facts = facts_of(kept("cubin_facts/sm_90.cubin")).value();
  std::string text;
  for (const ModuleVariable& v : facts.variables)
    text += v.name + " " + v.space + " " + std::to_string(v.size) + (v.initialised ? " initialised\n" : "\n");
  EXPECT_THAT(text, HasSubstr("coefficients constant 64\n"));
  EXPECT_THAT(text, HasSubstr("counter global 4 initialised\n"));
  EXPECT_THAT(text, HasSubstr("shared_with_host managed 4 initialised\n"));
}

TEST(Cubin, the_architecture_has_its_suffix) {
  const CudaFacts facts = facts_of(kept("cubin_facts/sm_120a.cubin")).value();
  EXPECT_EQ(facts.arch, "sm_120a");
  EXPECT_EQ(facts.kernel("by_value")->shared_bytes, 512u);
  // Without the assembler's note, the compatibility section says it.
  const std::string no_note = with(kept("cubin_facts/sm_120a.cubin"), ".note.nv.tkinfo", ".note.nv.xxinfo");
  EXPECT_EQ(facts_of(no_note)->arch, "sm_120a");
  EXPECT_EQ(facts_of(with(kept("cubin_facts/sm_90.cubin"), ".note.nv.tkinfo", ".note.nv.xxinfo"))->arch, "sm_90");
}

TEST(Cubin, the_header_of_cuda_12_is_read) {
  std::string bytes = with(with(kept("cubin_facts/sm_90.cubin"), ".note.nv.tkinfo", ".note.nv.xxinfo"), ".nv.compat", ".nv.xxmpat");
  bytes[7] = 0x33, bytes[8] = 7;
  bytes[48] = 0x5a, bytes[49] = 0x05, bytes[50] = 0x5a, bytes[51] = 0;
  EXPECT_EQ(facts_of(bytes)->arch, "sm_90");
  bytes[49] = 0x0d;
  EXPECT_EQ(facts_of(bytes)->arch, "sm_90a");
  EXPECT_EQ(facts_of(bytes)->kernel("by_value")->parameters->size(), 2u);
}

TEST(Cubin, whatever_byte_is_damaged_it_is_read_or_refused) {
  const std::string whole = kept("cubin_facts/sm_90.cubin");
  ASSERT_TRUE(looks_like_cubin(std::as_bytes(std::span(whole))));
  for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
    const auto facts = facts_of(whole.substr(0, cut));
    if (!facts) {
      EXPECT_EQ(facts.error().code, ErrorCode::invalid_data);
    }
  }
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int value : {0x00, 0x7f, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(value);
      if (const auto facts = facts_of(bytes); facts) {
        EXPECT_LE(facts->kernels.size(), 100u);
      }
    }
  EXPECT_EQ(facts_of("not an ELF file").error().code, ErrorCode::invalid_data);
  std::string other = whole;
  other[18] = 62;  // x86-64
  EXPECT_THAT(facts_of(other).error().what, HasSubstr("machine 62"));
  std::string relocatable = whole;
  relocatable[16] = 1;
  EXPECT_EQ(facts_of(relocatable).error().code, ErrorCode::unsupported);
}

TEST(Cubin, spills_come_from_the_assemblers_log) {
  CudaFacts facts = facts_of(kept("cubin_facts/sm_90.cubin")).value();
  read_spills(
      "ptxas info    : Function properties for by_value\n"
      "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Function properties for unknown\n"
      "ptxas         .     0 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads\n",
      facts);
  EXPECT_EQ(facts.kernel("by_value")->spill_store_bytes, 12u);
  EXPECT_EQ(facts.kernel("by_value")->spill_load_bytes, 16u);
  EXPECT_FALSE(facts.kernel("_Z9clusteredILi4EEvPf")->spill_store_bytes);
}

TEST(Cubin, facts_go_through_json_unchanged) {
  const CudaFacts facts = facts_of(kept("cubin_facts/sm_120a.cubin")).value();
  const Json json = facts;
  EXPECT_EQ(Json(json.get<CudaFacts>()), json);
}

// The text is written after the manual's form; what a real disassembler prints is looked at by the tests of hardware.
TEST(Sass, instructions_are_counted_by_function_without_padding) {
  const auto mixes = count_instructions(kept("sass/nvdisasm.txt"));
  ASSERT_EQ(mixes.size(), 1u);
  const InstructionMix& mix = mixes.at("_Z4gemmPf");
  EXPECT_EQ(mix.total, 11u);
  EXPECT_EQ(mix.opcodes.at("HGMMA"), 2u);
  EXPECT_EQ(mix.opcodes.at("FFMA"), 1u);
  EXPECT_EQ(mix.matrix_total(), 3u);
  EXPECT_EQ(mix.matrix.at("HGMMA.64x128x16.F32.BF16"), 2u);
  EXPECT_EQ(mix.matrix.at("HMMA.16816.F32"), 1u);
  EXPECT_EQ(mix.groups.at("matrix"), 3u);
  EXPECT_EQ(mix.groups.at("global_load"), 1u);
  EXPECT_EQ(mix.groups.at("control"), 2u);
}

TEST(Sass, both_tools_and_every_matrix_unit_are_understood) {
  const auto mixes = count_instructions(kept("sass/cuobjdump.txt"));
  ASSERT_EQ(mixes.size(), 2u);
  EXPECT_EQ(mixes.at("mma").matrix_total(), 4u);
  EXPECT_EQ(mixes.at("mma").matrix.count("UTCHMMA"), 1u);
  EXPECT_EQ(mixes.at("other").opcodes.at("IMAD"), 1u);
  for (const char* name : {"HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA",
                           "UTCQMMA", "UTCOMMA", "UTCIMMA"})
    EXPECT_TRUE(is_matrix_opcode(name)) << name;
  for (const char* name : {"FFMA", "HFMA2", "IMAD", "UTMALDG", "UTCBAR", "MMA"}) EXPECT_FALSE(is_matrix_opcode(name)) << name;
}

}  // namespace
}  // namespace klab::compile
