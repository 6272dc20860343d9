// SPDX-License-Identifier: Apache-2.0
// CUDA variants through the verbs, against bundles made from real cubins. What needs a toolkit is skipped
// without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/subprocess.h"
#include "base/test_util.h"
#include "bundle/writer.h"
#include "compile/cuda/toolkit.h"
#include "ops/build.h"

namespace klab::ops {
namespace {

using testing::Contains;
using testing::HasSubstr;

#define NEEDS_NVRTC()                       \
  if (!compile::find_cuda_library("nvrtc")) \
  GTEST_SKIP() << "NVRTC is not installed: CUDA builds are not tested"
#define NEEDS_NVCC() \
  if (!compile::find_cuda_program("nvcc")) GTEST_SKIP() << "nvcc is not installed: it is not tested"

constexpr char kSaxpy[] =
    "__constant__ float bias[4];\n"
    "__device__ int launches;\n"
    "namespace blas {\n"
    "template <class T> __global__ void saxpy(int n, T a, const T* x, T* y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i == 0) launches++;\n"
    "  if (i < n) y[i] = a * x[i] + y[i] + bias[i & 3];\n"
    "}\n"
    "}\n";
constexpr char kEntry[] = "_ZN4blas5saxpyIfEEviT_PKS1_PS1_";

class CudaVerbs : public testing::Test {
 protected:
  TestFolder folder_;
  ScopedVariable home_{"KLAB_HOME", folder_ / "home"};
  ScopedVariable cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  Lab lab_;

  std::string cubin_of(const std::string& text, const std::string& entry, const std::string& arch,
                       const std::string& language = "cuda") {
    compile::Request r{.verb = "compile",
                       .language = language,
                       .source = folder_.add("captured/k.cu", text),
                       .output = folder_ / "captured.cubin"};
    r.options.arch = arch, r.options.entry_point = entry;
    auto answer = compile::run_compiler(r);
    EXPECT_TRUE(answer && answer->ok) << (answer && answer->error ? answer->error->what : "");
    return read_file(r.output).value_or("");
  }

  fs::path bundle_of(const std::string& code, const std::string& entry, std::vector<bundle::Argument> layout,
                     std::uint32_t device = 90, const std::string& kind = "cubin") {
    const fs::path path = folder_ / "k.klab";
    auto writer = bundle::Writer::create(path, {.replace = true});
    EXPECT_TRUE(writer);
    bundle::Manifest m;
    m.made_at = "2026-01-31T12:00:00Z";
    m.device.api = "cuda";
    m.device.name = "a GPU";
    m.device.device_id = device;
    bundle::Dispatch d;
    d.name = "kernel";
    d.entry_point = entry;
    d.grid = {16, 1, 1};
    d.block = {256, 1, 1};
    if (!layout.empty()) d.arguments.resize(layout.back().offset + layout.back().size);
    d.argument_layout = std::move(layout);
    bundle::Region r;
    r.name = "bias";
    r.size = 16;
    r.kind = bundle::MemoryKind::constant;
    r.reached_by = bundle::ReachedBy::symbol;
    d.regions.push_back(r);
    d.regions[0].pre = writer->add_list(16).value();
    d.regions[0].post = writer->add_list(16).value();
    d.code = writer->add_code(kind, kind, std::as_bytes(std::span(code))).value();
    m.dispatches.push_back(std::move(d));
    auto sealed = writer->seal(std::move(m));
    EXPECT_TRUE(sealed) << (sealed ? "" : sealed.error().what);
    return path;
  }
  fs::path saxpy_bundle(const std::string& arch = "sm_90") {
    return bundle_of(cubin_of(kSaxpy, kEntry, arch), kEntry, {{0, 4}, {4, 4}, {8, 8}, {16, 8}});
  }
};

TEST_F(CudaVerbs, a_variant_of_a_template_keeps_the_captured_name_and_says_its_figures) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("fast.cu", kSaxpy)});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->compiler.compiler, testing::StartsWith("NVRTC 1"));
  EXPECT_TRUE(built->same_code);
  EXPECT_EQ(built->variant.language, "cuda");
  EXPECT_EQ(built->variant.options.arch, "sm_90");
  EXPECT_FALSE(built->variant.launch.entry_point);
  ASSERT_TRUE(built->cuda && built->cuda->kernel && built->cuda->occupancy);
  EXPECT_GT(built->cuda->kernel->registers.value_or(0), 4u);
  EXPECT_EQ(built->cuda->occupancy->max_warps, 64u);
  EXPECT_TRUE(built->cuda->notes.empty()) << built->cuda->notes[0];
  EXPECT_EQ(read_file(built->variant.source_copy).value(), kSaxpy);
}

TEST_F(CudaVerbs, an_arch_specific_capture_is_built_for_the_same_arch) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle("sm_90a");
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("fast.cu", kSaxpy)});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_EQ(built->cuda->arch, "sm_90a");
  built = build_variant(lab_, {.bundle = bundle, .source = folder_ / "fast.cu", .cuda = {.arch = "sm_90"}});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_EQ(built->cuda->arch, "sm_90");
}

TEST_F(CudaVerbs, another_parameter_layout_is_refused_with_both_layouts) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  auto built = build_variant(
      lab_, {.bundle = bundle,
             .source = folder_.add("wide.cu",
                                   "namespace blas { template <class T> __global__ void saxpy(long n, T a, "
                                   "const T* x, T* y) { y[n] = a * x[n]; } }\n"),
             .cuda = {.kernel = "blas::saxpy<float>"}});
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::compile_failed);
  EXPECT_THAT(built.error().what,
              HasSubstr("captured: 4 parameters, 24 bytes: [0] 4 B, [4] 4 B, [8] 8 B, [16] 8 B"));
  EXPECT_THAT(built.error().what, HasSubstr("variant:  4 parameters, 32 bytes: [0] 8 B, [8] 4 B"));
}

TEST_F(CudaVerbs, missing_module_variables_and_a_new_name_are_said) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  auto built = build_variant(
      lab_,
      {.bundle = bundle,
       .source = folder_.add("other.cu",
                             "template <class T, int W> __global__ void wide(int n, T a, const T* x, T* "
                             "y) { for (int i = 0; i < W; ++i) y[i] = a * x[i]; }\n"),
       .cuda = {.kernel = "wide<float, 4>"}});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->cuda->notes, Contains(HasSubstr("module variable bias (16 B)")));
  EXPECT_THAT(built->cuda->notes,
              Contains(HasSubstr("wide<float, 4>(int, float, float const*, float*) takes the place")));
  EXPECT_EQ(built->variant.launch.entry_point, "_Z4wideIfLi4EEviT_PKS0_PS0_");
}

TEST_F(CudaVerbs, a_compile_error_has_the_users_file_and_line) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  const std::string file = folder_.add("broken.cu", "\n\n__global__ void k() { oops(); }\n");
  auto built = build_variant(lab_, {.bundle = bundle, .source = file});
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::compile_failed);
  EXPECT_THAT(built.error().what, HasSubstr(file + ":3: error: "));
  EXPECT_THAT(built.error().what, HasSubstr("oops"));
}

TEST_F(CudaVerbs, a_cubin_of_another_device_is_refused_and_one_of_this_is_taken) {
  NEEDS_NVRTC();
  const std::string here = cubin_of(kSaxpy, kEntry, "sm_90"), other = cubin_of(kSaxpy, kEntry, "sm_80");
  const fs::path bundle = bundle_of(here, kEntry, {{0, 4}, {4, 4}, {8, 8}, {16, 8}});
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("given.cubin", here)});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_TRUE(built->same_code);
  EXPECT_EQ(read_file(built->variant.code).value(), here);
  built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("given.cubin", other)});
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().what,
              HasSubstr("code for sm_80, which does not run on the captured device (sm_90)"));
}

TEST_F(CudaVerbs, launch_overrides_are_checked_by_api) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  auto built = build_variant(
      lab_, {.bundle = bundle,
             .launch = {.block = "128", .dynamic_shared = "64K", .attributes = {"cooperative=1"}}});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_EQ(built->variant.launch.block, (bundle::Dim3{128, 1, 1}));
  EXPECT_EQ(built->variant.launch.dynamic_shared_bytes, 65536u);
  EXPECT_EQ(built->variant.launch.attributes.at("cooperative"), 1);
  EXPECT_EQ(built->cuda->occupancy->limited_by, "shared memory");
  EXPECT_EQ(build_variant(lab_, {.bundle = bundle, .launch = {.spec_constants = {"0=1"}}}).error().code,
            ErrorCode::usage);
  EXPECT_EQ(build_variant(lab_, {.bundle = bundle, .launch = {.block = "0"}}).error().code, ErrorCode::usage);
  EXPECT_EQ(build_variant(lab_, {.bundle = bundle, .launch = {.attributes = {"x"}}}).error().code,
            ErrorCode::usage);
}

TEST_F(CudaVerbs, a_launch_that_the_code_forbids_is_noted) {
  NEEDS_NVRTC();
  const std::string text =
      "extern \"C\" __global__ void __launch_bounds__(128) k(float* x) { x[threadIdx.x] = 1; }\n";
  const fs::path bundle = bundle_of(cubin_of(text, "k", "sm_90"), "k", {{0, 8}});
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("k.cu", text)});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->cuda->notes, Contains(HasSubstr("allows 128 threads a block, and the launch has 256")));
}

TEST_F(CudaVerbs, the_file_that_builds_to_the_captured_code_is_found_selected_and_planned_for_saving) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  folder_.add("src/deep/blas.cuh", kSaxpy);
  folder_.add("src/other.cu",
              "template <class T> __global__ void saxpy(int n, T a, const T* x, T* y) { y[0] = a; }\n");
  folder_.add("src/mentions.cpp", "// saxpy and __global__ are words here\n");
  auto found = find_source(lab_, bundle, 0, {.root = folder_ / "src"});
  ASSERT_TRUE(found) << found.error().what;
  ASSERT_EQ(found->candidates.size(), 3u);
  EXPECT_EQ(found->selected, found->candidates[0].file);
  EXPECT_THAT(found->selected, testing::EndsWith("src/deep/blas.cuh"));
  EXPECT_THAT(found->candidates[0].because[0], HasSubstr("compiles to the captured machine code"));
  EXPECT_THAT(found->candidates[1].because, Contains(HasSubstr("but the captured one is blas::saxpy")));
  auto built = build_variant(
      lab_, {.bundle = bundle, .source = folder_.add("edited.cu", std::string(kSaxpy) + "// v\n")});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->variant.target_file, testing::EndsWith("src/deep/blas.cuh"));
  auto preview = preview_save(lab_, {.bundle = bundle, .variant = built->variant.name});
  ASSERT_FALSE(preview);
  EXPECT_EQ(preview.error().code, ErrorCode::not_correct);
  session::VerdictRow verdict{.bundle = built->variant.bundle, .variant = built->variant.id};
  verdict.correctness = validate::Correctness::correct;
  ASSERT_TRUE(lab_.store().value()->add_verdict(verdict));
  preview = preview_save(lab_, {.bundle = bundle, .variant = built->variant.name});
  ASSERT_TRUE(preview) << preview.error().what;
  EXPECT_THAT(preview->plan.diff, HasSubstr("+// v"));
}

TEST_F(CudaVerbs, ptx_inside_the_captured_cubin_is_written_out_and_builds_again) {
  NEEDS_NVRTC();
  if (!compile::find_cuda_program("ptxas")) GTEST_SKIP() << "ptxas is not installed";
  const fs::path bundle = saxpy_bundle();
  auto written = write_source(lab_, bundle, 0, folder_ / "k.ptx", false);
  ASSERT_TRUE(written) << written.error().what;
  EXPECT_EQ(written->language, "ptx");
  EXPECT_EQ(write_source(lab_, bundle, 0, folder_ / "k.ptx", false).error().code, ErrorCode::usage);
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_ / "k.ptx"});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_EQ(built->variant.language, "ptx");
  EXPECT_TRUE(built->same_code);
  EXPECT_EQ(built->variant.target_file, fs::canonical(folder_ / "k.ptx").string());
}

TEST_F(CudaVerbs, a_capture_of_ptx_is_built_against_its_declarations) {
  NEEDS_NVRTC();
  const std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n)\n{\n "
      "ret;\n}\n";
  const fs::path bundle = bundle_of(ptx, "k", {}, 90, "ptx");
  auto built = build_variant(
      lab_, {.bundle = bundle,
             .source = folder_.add("k.cu",
                                   "extern \"C\" __global__ void k(float* a, unsigned n) { a[n] = 0; }\n")});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_EQ(built->cuda->arch, "sm_90");
  built = build_variant(
      lab_, {.bundle = bundle,
             .source = folder_.add("bad.cu", "extern \"C\" __global__ void k(float* a) { *a = 0; }\n")});
  EXPECT_FALSE(built);
}

TEST_F(CudaVerbs, options_of_compile_commands_are_used_and_named) {
  NEEDS_NVRTC();
  const fs::path bundle = saxpy_bundle();
  folder_.add("project/include/scale.h", "#define SCALE(x) (x)\n");
  const std::string source = folder_.add(
      "project/src/saxpy.cu",
      std::string("#include \"scale.h\"\n#ifndef FROM_BUILD\n#error no define\n#endif\n") + kSaxpy);
  folder_.add("project/build/compile_commands.json",
              Json::array({{{"directory", folder_ / "project/build"},
                            {"file", source},
                            {"command",
                             "nvcc -forward-unknown-to-host-compiler -I../include -DFROM_BUILD=1 -O3 "
                             "--generate-code=arch=compute_90,code=[compute_90,sm_90] -Xcompiler=-fPIC -x cu "
                             "-c ../src/saxpy.cu -o saxpy.o"}}})
                  .dump());
  auto built = build_variant(lab_, {.bundle = bundle, .source = source});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->cuda->notes, Contains(HasSubstr("compile_commands.json")));
  EXPECT_FALSE(
      build_variant(lab_, {.bundle = bundle, .source = source, .cuda = {.no_compile_commands = true}}));
}

TEST_F(CudaVerbs, a_whole_program_is_built_by_nvcc_and_says_why) {
  NEEDS_NVCC();
  const std::string text =
      std::string("#include <cstdio>\n") + kSaxpy +
      "int main() {\n  blas::saxpy<float><<<1, 1>>>(1, 1.f, nullptr, nullptr);\n  std::puts(\"\");\n}\n";
  const fs::path bundle = saxpy_bundle();
  auto built = build_variant(lab_, {.bundle = bundle, .source = folder_.add("program.cu", text)});
  ASSERT_TRUE(built) << built.error().what;
  EXPECT_THAT(built->compiler.compiler, testing::StartsWith("nvcc "));
  EXPECT_THAT(built->cuda->notes, Contains(HasSubstr("defines main")));
  EXPECT_TRUE(built->same_code);
}

}  // namespace
}  // namespace klab::ops
