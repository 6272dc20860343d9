// SPDX-License-Identifier: Apache-2.0
// HIP variants by the real hipcc and hiprtc, as klab-compile serves them. Skipped where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/environment.h"
#include "base/ids.h"
#include "compile/cache.h"
#include "compile/hipcc/rocm.h"
#include "compile/service.h"

namespace klab::compile {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSource = R"(#include <hip/hip_runtime.h>
#include "scale.h"
__device__ int counter = 3;
__constant__ float table[4] = {1, 2, 3, 4};
namespace app {
__global__ void scale(float* x, int n) {
  __shared__ float shared[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[threadIdx.x % 64] = table[threadIdx.x % 4];
  __syncthreads();
  if (i < n) x[i] *= KLAB_BY * shared[0] + counter;
}
template <int N>
__global__ void unroll(float* x) {
  for (int i = 0; i < N; ++i) x[threadIdx.x] += i;
}
}
)";

class HipCompiler : public ::testing::TestWithParam<const char*> {
 protected:
  fs::path folder = fs::temp_directory_path() / ("klab-hipcc-" + new_id());
  void SetUp() override {
    if (GetParam() == std::string("hipcc") ? !find_hipcc() : !find_hiprtc()) GTEST_SKIP() << "no " << GetParam();
    fs::create_directories(folder);
    ASSERT_TRUE(write_file_atomic(folder / "scale.h", "#define KLAB_BY 2\n"));
  }
  void TearDown() override {
    std::error_code ec;
    fs::remove_all(folder, ec);
  }
  Request request(const std::string& text, const std::string& entry) {
    Request r{.verb = "compile", .language = "hip", .source = (folder / "scale.hip").string(), .source_text = text,
              .output = (folder / "code.hsaco").string()};
    r.options.arch = "gfx1030";
    r.options.compiler = GetParam();
    r.options.entry_point = entry;
    return r;
  }
};

TEST_P(HipCompiler, a_source_becomes_a_code_object_with_its_facts) {
  const Answer a = serve(request(kSource, "_ZN3app5scaleEPfi"));
  ASSERT_TRUE(a.ok) << (a.error ? a.error->what : "") << a.log;
  EXPECT_THAT(a.compiler, ::testing::StartsWith(GetParam()));
  ASSERT_TRUE(a.cuda);
  EXPECT_EQ(a.cuda->format, "hsaco");
  EXPECT_THAT(a.cuda->arch, HasSubstr("gfx1030"));
  const KernelFacts* k = a.cuda->kernel("_ZN3app5scaleEPfi");
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->demangled, "app::scale(float*, int)");
  EXPECT_GT(k->registers.value_or(0), 0u);
  EXPECT_GT(k->scalar_registers.value_or(0), 0u);
  EXPECT_EQ(k->vector_spills, 0u);
  EXPECT_EQ(k->shared_bytes, 256u);
  ASSERT_TRUE(k->parameters);
  EXPECT_EQ(*k->parameters, (std::vector<KernelParameter>{{0, 8}, {8, 4}})) << "hidden arguments are none of its own";
  EXPECT_FALSE(k->code_hash.empty());
  std::vector<std::string> names;
  for (const ModuleVariable& v : a.cuda->variables) names.push_back(v.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"counter", "table"}));
  std::vector<std::string> read;
  for (const Dependency& d : a.dependencies) read.push_back(fs::path(d.path).filename().string());
  EXPECT_THAT(read, ::testing::Contains("scale.h"));
  // Given as it is, it has the same facts.
  const Answer again = serve({.verb = "reflect", .language = "hsaco", .source = (folder / "code.hsaco").string()});
  ASSERT_TRUE(again.ok) << (again.error ? again.error->what : "");
  EXPECT_EQ(again.cuda->kernel("_ZN3app5scaleEPfi")->code_hash, k->code_hash);
}

TEST_P(HipCompiler, a_template_that_the_file_does_not_use_is_instantiated) {
  const Answer a = serve(request(kSource, "_ZN3app6unrollILi7EEEvPf"));
  ASSERT_TRUE(a.ok) << (a.error ? a.error->what : "") << a.log;
  EXPECT_EQ(a.entry_point, "_ZN3app6unrollILi7EEEvPf");
}

TEST_P(HipCompiler, options_reach_it) {
  Request r = request("extern \"C\" __global__ void f(int* x) { *x = KLAB_VALUE; }\n#if __cplusplus < 202002L\n#error old\n#endif\n", "f");
  r.options.standard = "c++20";
  r.options.defines = {"KLAB_VALUE=7"};
  const Answer seven = serve(r);
  ASSERT_TRUE(seven.ok) << (seven.error ? seven.error->what : "") << seven.log;
  r.options.defines = {"KLAB_VALUE=8"};
  EXPECT_NE(serve(r).stripped_hash, seven.stripped_hash);
  r.options.standard = "c++17";
  const Answer old = serve(r);
  ASSERT_FALSE(old.ok);
  EXPECT_THAT(old.error->what, HasSubstr("scale.hip:3"));
}

TEST_P(HipCompiler, errors_name_the_user_s_file_and_line) {
  std::string text = kSource;
  text.replace(text.find("x[i] *= "), 8, "x[j] *= ");
  const Answer a = serve(request(text, "_ZN3app5scaleEPfi"));
  ASSERT_FALSE(a.ok);
  EXPECT_EQ(a.error->code, ErrorCode::compile_failed);
  EXPECT_THAT(a.error->what, HasSubstr("scale.hip:11"));
  EXPECT_THAT(a.error->what, HasSubstr("'j'"));
  const Answer missing = serve(request(kSource, "_ZN3app5otherEPfi"));
  ASSERT_FALSE(missing.ok);
  EXPECT_EQ(missing.error->code, ErrorCode::missing_symbol);
  Request odd = request(kSource, "_ZN3app5scaleEPfi");
  odd.options.arch = "sm_90";
  EXPECT_EQ(serve(odd).error->code, ErrorCode::usage);
}

INSTANTIATE_TEST_SUITE_P(Each, HipCompiler, ::testing::Values("hipcc", "hiprtc"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Hip, the_compiler_that_is_named_is_the_one_that_is_run) {
  Request r{.verb = "compile", .language = "hip", .source = "k.hip", .source_text = "__global__ void k() {}\n"};
  r.options.arch = "gfx1030";
  r.options.hipcc = "/nowhere/hipcc";
  Answer a = serve(r);
  ASSERT_FALSE(a.ok);
  EXPECT_EQ(a.error->code, ErrorCode::environment);
  EXPECT_THAT(a.error->what, HasSubstr("/nowhere/hipcc"));
  r.options.compiler = "hiprtc";
  EXPECT_EQ(serve(r).error->code, ErrorCode::usage) << "it would not be used";
  r.options.hipcc.clear();
  r.options.compiler = "nvcc";
  EXPECT_EQ(serve(r).error->code, ErrorCode::usage);
}

TEST(Hip, without_hipcc_hiprtc_takes_device_code_and_says_why) {
  if (!find_hiprtc()) GTEST_SKIP() << "no hiprtc";
  auto variables = environment_variables();
  variables["KLAB_HIPCC"] = "/nowhere/hipcc";
  const ScopedEnvironment scope(std::make_shared<Variables>(variables));
  Request r{.verb = "compile", .language = "hip", .source = "k.hip", .source_text = "__global__ void k(int* x) { *x = 1; }\n"};
  r.options.arch = "gfx1030";
  const Answer a = serve(r);
  ASSERT_TRUE(a.ok) << (a.error ? a.error->what : "") << a.log;
  EXPECT_THAT(a.compiler, ::testing::StartsWith("hiprtc"));
  EXPECT_THAT(a.why_compiler, HasSubstr("hipcc was not found"));
  r.source_text += "int main() { k<<<1, 1>>>(nullptr); }\n";
  const Answer whole = serve(r);
  ASSERT_FALSE(whole.ok);
  EXPECT_EQ(whole.error->code, ErrorCode::environment);
}

}  // namespace
}  // namespace klab::compile
