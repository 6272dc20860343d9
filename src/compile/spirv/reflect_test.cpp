// SPDX-License-Identifier: Apache-2.0
#include "compile/spirv/reflect.h"

#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/glsl/glsl.h"
#include "compile/spirv/module.h"

namespace klab::compile {
namespace {

Words built(const std::string& text, Options options = {}) {
  auto outcome = compile_glsl(text, "dir/kernel.comp", options);
  EXPECT_TRUE(outcome.code) << outcome.log;
  return outcome.code.value_or(Words{});
}
Words assembled(const std::string& text) {
  std::vector<Message> messages;
  auto words = assemble(text, parse_target("vulkan1.3").value(), "t.spvasm", messages);
  EXPECT_TRUE(words) << (words ? "" : words.error().what);
  return words.value_or(Words{});
}
Reflection facts(const Words& words) {
  auto r = reflect(words);
  EXPECT_TRUE(r) << (r ? "" : r.error().what);
  return r.value_or(Reflection{});
}

constexpr char kRich[] = R"(#version 450
#extension GL_KHR_memory_scope_semantics : enable
layout(constant_id = 3) const uint TILE = 16;
layout(constant_id = 4) const float SCALE = 1.5;
layout(constant_id = 5) const bool FLIP = true;
layout(constant_id = 6) const int SHIFT = -2;
layout(local_size_x_id = 1, local_size_y = 2) in;
struct Item { vec3 v; float w; uint k[3]; };
layout(set = 0, binding = 0) readonly buffer In { float a[]; } source;
layout(set = 0, binding = 1) writeonly buffer Out { uint n; float b[]; } sink;
layout(set = 1, binding = 2) uniform Block { mat4 m; mat3 t[2]; vec3 v; float w; } u;
layout(set = 1, binding = 3) uniform sampler2D textures[4];
layout(set = 1, binding = 4, r32f) readonly uniform image2D picture;
layout(set = 1, binding = 5) buffer Many { Item items[5]; } many[2];
layout(push_constant) uniform Push { uint n; layout(offset = 16) vec4 k; } pc;
shared float tile[TILE * 2 + 1];
shared vec3 more[3];
shared Item stuff[TILE];
void main() {
  uint i = gl_GlobalInvocationID.x;
  tile[gl_LocalInvocationID.x] = source.a[i] * SCALE;
  more[0] = u.v + u.t[0][0];
  stuff[0].v = vec3(SHIFT);
  barrier();
  sink.b[i] = tile[0] * pc.k.x * u.m[0][0] * u.w + more[0].x + stuff[0].v.x + (FLIP ? 1 : 0);
  sink.b[i] += textureLod(textures[1], vec2(0), 0).x + imageLoad(picture, ivec2(0)).x;
  atomicAdd(many[1].items[0].k[0], pc.n);
})";

TEST(Reflect, block_shared_and_push_sizes_use_the_defaults_of_specialization_constants) {
  const Reflection r = facts(built(kRich, {.optimisation = "none"}));
  EXPECT_EQ(r.version, "1.5");
  EXPECT_THAT(r.entry_points, testing::ElementsAre("main"));
  EXPECT_EQ(r.block, (std::array<std::uint32_t, 3>{1, 2, 1}));
  EXPECT_TRUE(r.block_from_spec);
  EXPECT_EQ(r.push_constant_bytes, 32u);
  // tile 33 floats = 132, up to 144; more 3 x 16 = 48; stuff 16 x (12 + 4 + 12, up to 32) = 512.
  EXPECT_EQ(r.shared_bytes, 144u + 48u + 512u);
  EXPECT_EQ(r.barrier_instructions, 1u);
  EXPECT_EQ(r.atomic_instructions, 1u);
  EXPECT_EQ(r.float_atomics, 0u);
  EXPECT_GT(r.instructions, 40u);
  EXPECT_THAT(r.capabilities, testing::Contains("Shader"));
  EXPECT_EQ(r.source_language, "GLSL");
}

TEST(Reflect, bindings_have_type_name_size_count_and_access) {
  const Reflection r = facts(built(kRich, {.optimisation = "none"}));
  ASSERT_EQ(r.bindings.size(), 6u);
  const auto check = [&](int i, const char* type, const char* name, std::uint64_t size, std::uint32_t count,
                         bool ro, bool wo) {
    const ReflectedBinding& b = r.bindings[static_cast<std::size_t>(i)];
    EXPECT_EQ(b.type, type) << i;
    EXPECT_EQ(b.name, name) << i;
    EXPECT_EQ(b.size, size) << i;
    EXPECT_EQ(b.count, count) << i;
    EXPECT_EQ(b.read_only, ro) << i;
    EXPECT_EQ(b.write_only, wo) << i;
  };
  check(0, "storage_buffer", "source", 0, 1, true, false);
  check(1, "storage_buffer", "sink", 4, 1, false, true);
  check(2, "uniform_buffer", "u", 64 + 96 + 16, 1, true, false);
  check(3, "combined_image_sampler", "textures", 0, 4, false, false);
  check(4, "storage_image", "picture", 0, 1, true, false);
  check(5, "storage_buffer", "many", 5 * 32, 2, false, false);
  EXPECT_EQ(r.bindings[5].set, 1u);
  EXPECT_EQ(r.bindings[5].binding, 5u);
}

TEST(Reflect, what_lies_in_a_buffer_is_listed_with_types_offsets_and_names) {
  const Reflection r = facts(built(kRich, {.debug_info = true}));
  auto text = [](const std::vector<ReflectedField>& fields) {
    std::string s;
    for (const auto& f : fields) s += fmt::format("{}:{}x{}:{} ", f.offset, f.type, f.count, f.name);
    return s;
  };
  ASSERT_EQ(r.bindings.size(), 6u);
  EXPECT_EQ(text(r.bindings[0].fields), "");
  EXPECT_EQ(text(r.bindings[0].element_fields), "0:f32x1:a ");
  EXPECT_EQ(r.bindings[0].element_stride, 4u);
  EXPECT_EQ(text(r.bindings[1].fields), "0:u32x1:n ");
  EXPECT_EQ(r.bindings[1].element_offset, 4u);
  // A column of mat3 has 16 bytes of which 12 are used; an array of matrices is not listed.
  EXPECT_EQ(text(r.bindings[2].fields), "") << "one member of a kind that is not listed: none of the block is guessed";
  const std::string many = text(r.bindings[5].fields);
  EXPECT_THAT(many, ::testing::StartsWith("0:f32x3:items.v 12:f32x1:items.w 16:u32x3:items.k 32:f32x3:items.v "));
}

TEST(Reflect, small_and_large_scalars_keep_their_width) {
  const Reflection r = facts(built(R"(#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { int8_t b[]; };
layout(set = 0, binding = 1) buffer B { f16vec2 h[]; };
layout(set = 0, binding = 2) buffer C { dvec2 d[]; };
void main() { h[0] = f16vec2(float(int(b[0])) + float(d[0].x)); })"));
  ASSERT_EQ(r.bindings.size(), 3u);
  EXPECT_EQ(r.bindings[0].element_fields.at(0).type, "i8");
  EXPECT_EQ(r.bindings[1].element_fields.at(0).type, "f16");
  EXPECT_EQ(r.bindings[1].element_fields.at(0).count, 2u);
  EXPECT_EQ(r.bindings[2].element_fields.at(0).type, "f64");
}

TEST(Reflect, specialization_constants_have_types_and_defaults) {
  const Reflection r = facts(built(kRich, {.optimisation = "none"}));
  std::map<std::uint32_t, std::string> seen;
  for (const ReflectedSpec& s : r.spec_constants)
    seen[s.id] = s.name + " " + s.type + " " + to_hex(s.default_value);
  EXPECT_EQ(seen[1], " uint32 01000000");
  EXPECT_EQ(seen[3], "TILE uint32 10000000");
  EXPECT_EQ(seen[4], "SCALE float 0000c03f");
  EXPECT_EQ(seen[5], "FLIP bool 01000000");
  EXPECT_EQ(seen[6], "SHIFT int32 feffffff");
}

TEST(Reflect, a_fixed_block_is_not_from_specialization) {
  for (const std::string target : {"vulkan1.0", "vulkan1.3"}) {
    const Reflection r =
        facts(built("#version 450\nlayout(local_size_x = 8, local_size_y = 4) in;\nvoid main() {}\n",
                    {.target = target}));
    EXPECT_EQ(r.block, (std::array<std::uint32_t, 3>{8, 4, 1}));
    EXPECT_FALSE(r.block_from_spec);
    EXPECT_EQ(r.shared_bytes, 0u);
  }
}

TEST(Reflect, local_size_by_id_is_read) {
  const Reflection r = facts(assembled(R"(
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "go"
OpExecutionModeId %main LocalSizeId %a %b %c
OpDecorate %b SpecId 7
%void = OpTypeVoid
%fn = OpTypeFunction %void
%uint = OpTypeInt 32 0
%a = OpConstant %uint 32
%b = OpSpecConstant %uint 3
%c = OpSpecConstantOp %uint IMul %b %a
%main = OpFunction %void None %fn
%l = OpLabel
OpReturn
OpFunctionEnd
)"));
  EXPECT_EQ(r.block, (std::array<std::uint32_t, 3>{32, 3, 96}));
  EXPECT_TRUE(r.block_from_spec);
  EXPECT_THAT(r.entry_points, testing::ElementsAre("go"));
}

TEST(Reflect, shared_size_is_zero_when_a_length_cannot_be_worked_out) {
  const Reflection r = facts(assembled(R"(
OpCapability Shader
OpCapability Kernel
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpDecorate %n SpecId 0
%void = OpTypeVoid
%fn = OpTypeFunction %void
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%n = OpSpecConstant %float 3
%m = OpSpecConstantOp %uint ConvertFToU %n
%array = OpTypeArray %float %m
%pointer = OpTypePointer Workgroup %array
%v = OpVariable %pointer Workgroup
%main = OpFunction %void None %fn
%l = OpLabel
OpReturn
OpFunctionEnd
)"));
  EXPECT_EQ(r.shared_bytes, 0u);
}

TEST(Reflect, device_addresses_and_float_atomics_are_counted) {
  const Reflection r = facts(built(R"(#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 32) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { Node next; float value; };
layout(push_constant) uniform Push { Node first; } pc;
layout(set = 0, binding = 0) buffer Out { float sum; };
void main() { atomicAdd(sum, pc.first.next.value); }
)"));
  EXPECT_TRUE(r.uses_physical_addresses);
  EXPECT_EQ(r.float_atomics, 1u);
  EXPECT_EQ(r.atomic_instructions, 1u);
  EXPECT_EQ(r.push_constant_bytes, 8u);
}

TEST(Reflect, embedded_source_and_its_file_are_found) {
  const std::string text = "#version 450\nlayout(local_size_x = 8) in;\nvoid main() {}\n";
  const Reflection r = facts(built(text, {.debug_info = true}));
  EXPECT_THAT(r.source_text, testing::HasSubstr(text));
  EXPECT_THAT(r.source_files, testing::ElementsAre("dir/kernel.comp"));
}

TEST(Reflect, embedded_source_in_shader_debug_information_is_found) {
  const Reflection r = facts(assembled(R"(
OpCapability Shader
OpExtension "SPV_KHR_non_semantic_info"
%set = OpExtInstImport "NonSemantic.Shader.DebugInfo.100"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 4 1 1
%lib = OpString "lib.hlsl"
%libtext = OpString "// library"
%file = OpString "k.hlsl"
%part1 = OpString "first "
%part2 = OpString "second"
%void = OpTypeVoid
%uint = OpTypeInt 32 0
%u100 = OpConstant %uint 100
%u4 = OpConstant %uint 4
%u5 = OpConstant %uint 5
%fn = OpTypeFunction %void
%s0 = OpExtInst %void %set DebugSource %lib %libtext
%s1 = OpExtInst %void %set DebugSource %file %part1
%s2 = OpExtInst %void %set DebugSourceContinued %part2
%cu = OpExtInst %void %set DebugCompilationUnit %u100 %u4 %s1 %u5
%main = OpFunction %void None %fn
%l = OpLabel
OpReturn
OpFunctionEnd
)"));
  EXPECT_EQ(r.source_text, "first second");
  EXPECT_THAT(r.source_files, testing::ElementsAre("lib.hlsl", "k.hlsl"));
  EXPECT_EQ(r.source_language, "HLSL");
}

TEST(Reflect, stripped_code_is_equal_with_and_without_debug_information) {
  const Words plain = built(kRich, {.optimisation = "none"});
  const Words debug = built(kRich, {.optimisation = "none", .debug_info = true});
  EXPECT_NE(plain, debug);
  EXPECT_EQ(strip(plain).value(), strip(debug).value());
  EXPECT_NE(strip(plain).value(), strip(built(kRich, {.optimisation = "performance"})).value());
}

TEST(Reflect, a_module_of_the_other_byte_order_reads_the_same) {
  const Words words = built(kRich);
  std::string swapped;
  for (std::uint32_t w : words) {
    w = __builtin_bswap32(w);
    swapped.append(reinterpret_cast<const char*>(&w), 4);
  }
  EXPECT_EQ(words_of(swapped).value(), words);
}

TEST(Reflect, damaged_modules_are_refused_or_read_without_harm) {
  const Words good = built(kRich, {.optimisation = "none"});
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Words bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = random() % 4 == 0 ? random() : random() % 300;
    if (i % 5 == 0) bad.resize(random() % bad.size());
    refused += reflect(bad) ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
  EXPECT_FALSE(reflect({}));
}

TEST(Messages, are_parsed_whatever_the_file_is_called) {
  const auto m =
      parse_messages("a: b:3.comp:12: error: 'x' : undeclared\nmore of it\nc.comp: warning: odd\n");
  ASSERT_EQ(m.size(), 2u);
  EXPECT_EQ(m[0].file, "a: b:3.comp");
  EXPECT_EQ(m[0].line, 12u);
  EXPECT_EQ(m[0].text, "'x' : undeclared\nmore of it");
  EXPECT_EQ(m[1].severity, Severity::warning);
  EXPECT_EQ(m[1].file, "c.comp");
  EXPECT_EQ(m[1].line, 0u);
}

}  // namespace
}  // namespace klab::compile
