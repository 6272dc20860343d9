// SPDX-License-Identifier: Apache-2.0
// Label hw_cuda: on a machine for CUDA the disassembler must be there, and its output must be what sass.cpp reads.
#include <gtest/gtest.h>

#include "compile/cuda/disassemble.h"
#include "compile/cubin/cubin.h"

namespace klab::compile {
namespace {

TEST(Disassembler, counts_the_kept_cubins_instructions) {
  const std::string cubin = read_file(fs::path(KLAB_SOURCE_DIR) / "fuzz/corpus/cubin_facts/sm_90.cubin").value();
  CudaFacts facts = read_cubin(std::as_bytes(std::span(cubin))).value();
  add_instruction_counts(cubin, facts);
  ASSERT_EQ(facts.disassembler_problem, "");
  for (const KernelFacts& k : facts.kernels) {
    ASSERT_TRUE(k.instructions) << k.name;
    EXPECT_GT(k.instructions->total, 4u);
    EXPECT_LE(k.instructions->total, k.code_bytes / 16);
    EXPECT_GE(k.instructions->opcodes.at("EXIT"), 1u);
    EXPECT_EQ(k.instructions->matrix_total(), 0u);
    EXPECT_EQ(k.instructions->groups.count("global_store"), 1u);
  }
}

}  // namespace
}  // namespace klab::compile
