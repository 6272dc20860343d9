// SPDX-License-Identifier: Apache-2.0
#include "compile/ptx/ptx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "compile/cubin/cubin.h"

namespace klab::compile {
namespace {

TEST(Ptx, declares_the_same_interface_as_the_cubin_made_from_it) {
  const fs::path corpus = fs::path(KLAB_SOURCE_DIR) / "fuzz/corpus";
  const CudaFacts ptx = read_ptx(read_file(corpus / "ptx/kept.ptx").value()).value();
  const std::string bytes = read_file(corpus / "cubin_facts/sm_90.cubin").value();
  const CudaFacts cubin = read_cubin(std::as_bytes(std::span(bytes))).value();
  EXPECT_EQ(ptx.arch, "sm_90");
  EXPECT_EQ(ptx.ptx_version, "9.0");
  ASSERT_EQ(ptx.kernels.size(), cubin.kernels.size());
  for (const KernelFacts& k : ptx.kernels) {
    const KernelFacts* other = cubin.kernel(k.name);
    ASSERT_TRUE(other) << k.name;
    EXPECT_EQ(k.parameters, other->parameters) << k.name;
    EXPECT_EQ(k.parameter_bytes, other->parameter_bytes);
    EXPECT_EQ(k.max_block, other->max_block);
    EXPECT_EQ(k.cluster, other->cluster);
  }
  ASSERT_EQ(ptx.variables.size(), cubin.variables.size());
  for (const ModuleVariable& v : ptx.variables) {
    const auto same = [&](const ModuleVariable& w) { return w.name == v.name && w.size == v.size && w.space == v.space; };
    EXPECT_TRUE(std::any_of(cubin.variables.begin(), cubin.variables.end(), same)) << v.name;
  }
}

TEST(Ptx, odd_declarations_are_laid_out_by_alignment) {
  const CudaFacts facts = read_ptx(".version 8.3\n.target sm_80, texmode_independent // a note\n.address_size 64\n"
                                   ".extern .global .f32 elsewhere;\n.const .align 16 .v4 .f32 table[2] = {0x0, 1};\n"
                                   ".entry k(.param .u8 a, .param .u64 .ptr .global .align 256 b, .param .align 16 .b8 c[20],\n"
                                   "/* .entry no() {} */ .param .f32 d) .reqntid 32, 2 .reqnctapercluster 2, 1, 1 { .reg .b32 %r<2>; ret; }\n"
                                   ".entry declared(.param .u32 x);\n")
                              .value();
  ASSERT_EQ(facts.kernels.size(), 1u);
  const KernelFacts& k = facts.kernels[0];
  EXPECT_EQ(k.parameters, (std::vector<KernelParameter>{{0, 1}, {8, 8}, {16, 20}, {36, 4}}));
  EXPECT_EQ(k.required_block, (std::array<std::uint32_t, 3>{32, 2, 1}));
  EXPECT_EQ(k.cluster, (std::array<std::uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(facts.undefined, std::vector<std::string>{"elsewhere"});
  ASSERT_EQ(facts.variables.size(), 1u);
  EXPECT_EQ(facts.variables[0].size, 32u);
  EXPECT_EQ(read_ptx("hello").error().code, ErrorCode::invalid_data);
  EXPECT_EQ(read_ptx(std::string_view("\x7f" "ELF\0", 5)).error().code, ErrorCode::invalid_data);
}

TEST(Ptx, a_line_is_traced_to_the_source_that_it_came_from) {
  const std::string text = ".version 8.0\n.loc 1 12 3\nadd;\n.loc 2 7 1\nsub;\n.file 1 \"/src/a.cu\"\n.file 2 \"/src/b.cuh\"\n";
  EXPECT_EQ(source_of_ptx_line(text, 3)->file, "/src/a.cu");
  EXPECT_EQ(source_of_ptx_line(text, 3)->line, 12u);
  EXPECT_EQ(source_of_ptx_line(text, 5)->file, "/src/b.cuh");
  EXPECT_FALSE(source_of_ptx_line(text, 1));
}

}  // namespace
}  // namespace klab::compile
