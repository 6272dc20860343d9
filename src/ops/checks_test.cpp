// SPDX-License-Identifier: Apache-2.0
#include "ops/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace klab::ops {
namespace {

std::string text(std::string_view kernel) {
  std::string s;
  for (const PointedType& p : pointed_types(kernel)) {
    validate::TypedRange r{.stride = p.stride, .fields = p.fields};
    s += (p.stride == 0 ? "-" : validate::describe(r)) + " ";
  }
  return s;
}

TEST(PointedTypes, parameters_of_demangled_names) {
  EXPECT_EQ(text("saxpy(int, float, float const*, float*)"), "- - f32 f32 ");
  EXPECT_EQ(text("void ns::mix<float, 4>(__half const*, __nv_bfloat16*, unsigned long long*, double*)"), "f16 bf16 u64 f64 ");
  EXPECT_EQ(text("void f<(int)3>(float4*, float3 const* __restrict__, unsigned char*)"), "{f32x4} {f32x3} u8 ");
  EXPECT_EQ(text("g(Tensor<float, 2>, std::pair<int, float>*, float**, void*)"), "- - - - ");
  EXPECT_EQ(text("h(void (*)(int, float), int*)"), "- i32 ");
  EXPECT_EQ(text("none()"), "");
  EXPECT_EQ(text("extern_c_kernel"), "");
  EXPECT_EQ(text(")("), "");
}

TEST(LaunchWords, are_read_and_nonsense_is_refused) {
  const auto l = parse_launch_words("grid=3,1,1  push=0=e8030000 push=4=00 block=64");
  ASSERT_TRUE(l);
  EXPECT_EQ(l->grid, "3,1,1");
  EXPECT_EQ(l->block, "64");
  EXPECT_THAT(l->push_constants, ::testing::ElementsAre("0=e8030000", "4=00"));
  for (const char* bad : {"", " ", "grid", "grid=", "color=3"}) EXPECT_FALSE(parse_launch_words(bad)) << bad;
}

TEST(Checks, arguments_come_back_as_they_were) {
  CheckText c;
  c.level = "numeric";
  c.types = {"out=f16"};
  c.tolerances = {"abs=1"};
  c.seed = 9;
  c.other_captures = false;
  c.unseen.emplace_back().grid = "3";
  c.type_defaults["k"]["r"] = "f32";
  const Json j = check_arguments(c);
  CheckText back;
  Fields fields(j, "test");
  ASSERT_TRUE(take_checks(fields, back).done());
  EXPECT_EQ(check_arguments(back), j);
  const Json bad{{"unseen_launches", {{{"gird", "3"}}}}};
  Fields wrong(bad, "test");
  EXPECT_FALSE(take_checks(wrong, back).done()) << "an unknown member of a launch is refused";
}

}  // namespace
}  // namespace klab::ops
