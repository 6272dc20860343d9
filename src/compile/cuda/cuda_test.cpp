// SPDX-License-Identifier: Apache-2.0
// CUDA through klab-compile, warm and once, and the pieces that need no toolkit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.h"
#include "compile/cache.h"
#include "compile/client.h"
#include "compile/compile_commands.h"
#include "compile/cubin/cubin.h"
#include "compile/cuda/build.h"
#include "compile/cuda/diagnostics.h"
#include "compile/cuda/includes.h"
#include "compile/cuda/toolkit.h"

namespace klab::compile {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

#define NEEDS(kind, name) \
  if (!find_cuda_##kind(name)) GTEST_SKIP() << name " is not installed: this is not tested here"

TEST(CudaNames, an_expression_is_what_names_a_kernel_in_its_source) {
  EXPECT_EQ(name_expression("_Z5saxpyIfEviT_PKS0_PS0_"), "saxpy<float>");
  EXPECT_EQ(name_expression("_ZN4blas5saxpyIfEEviT_PKS1_PS1_"), "blas::saxpy<float>");
  EXPECT_EQ(name_expression("_Z1kPf"), "k");
  EXPECT_EQ(name_expression("matmul"), "matmul");
  EXPECT_EQ(name_expression("_ZN32_GLOBAL__N__327206cb_4_s_cu_none5tanonILi3EEEvPf"), "tanon<3>");
  EXPECT_EQ(name_expression("_Z3runI6FunctoIfLi3EEEvT_PFvvE"), "run<Functo<float, 3> >");
}

TEST(CudaNames, architectures_are_parsed) {
  EXPECT_EQ(parse_arch("sm_90a")->number, 90u);
  EXPECT_EQ(parse_arch("sm_90a")->suffix, "a");
  EXPECT_EQ(parse_arch("compute_120f")->number, 120u);
  for (const char* bad : {"", "sm_", "sm_9", "sm_90b", "90 ", "sm_90aa"})
    EXPECT_FALSE(parse_arch(bad)) << bad;
}

TEST(CudaDiagnostics, every_compilers_form_gives_file_line_and_severity) {
  const auto m = parse_cuda_messages(
      "a b.cu(3): error: identifier \"x\" is undefined\n  int y = x;\n          ^\n\n"
      "/p/t.cuh(12): warning #177-D: variable \"v\" was declared but never referenced\n"
      "t.h(4): catastrophic error: cannot open source file \"vector\"\n"
      "host.cu:7:12: error: expected ';' before '}' token\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas /tmp/x.ptx, line 27; error   : Not a name of any known instruction: 'bogus'\n"
      "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)\n"
      "nvcc fatal   : Unknown option '--what'\n"
      "k.cu(9): error: static assertion failed\n          detected during instantiation of \"void k<T>()\" "
      "at line 20\n");
  ASSERT_EQ(m.size(), 8u);
  EXPECT_THAT(m[0], AllOf(Field(&Message::file, "a b.cu"), Field(&Message::line, 3u)));
  EXPECT_THAT(m[1], AllOf(Field(&Message::severity, Severity::warning), Field(&Message::line, 12u)));
  EXPECT_EQ(m[2].text, "cannot open source file \"vector\"");
  EXPECT_THAT(m[3], AllOf(Field(&Message::file, "host.cu"), Field(&Message::line, 7u)));
  EXPECT_THAT(m[4], AllOf(Field(&Message::file, "/tmp/x.ptx"), Field(&Message::line, 27u)));
  EXPECT_THAT(m[5].text, HasSubstr("too much shared data"));
  EXPECT_THAT(m[6].text, HasSubstr("Unknown option"));
  EXPECT_THAT(m[7].text, HasSubstr("detected during instantiation"));
  EXPECT_THAT(first_error(m, "a b.cu", "").what,
              HasSubstr("a b.cu:3: identifier \"x\" is undefined (and 6 more)"));
}

TEST(CudaHostCode, launches_and_main_are_seen_and_comments_are_not) {
  EXPECT_THAT(host_code_reason("\nvoid f() { k<<<1, 2>>>(); }\n"), HasSubstr("line 2"));
  EXPECT_THAT(host_code_reason("int main() {}"), HasSubstr("main"));
  for (const char* text : {"// k<<<1,2>>>()\n", "/* int main() */", "const char* s = \"<<<\";",
                           "int domain(int x);", "__device__ int remain() { return 1 << 2; }"})
    EXPECT_EQ(host_code_reason(text), "") << text;
}

TEST(CudaIncludes, every_include_that_could_count_is_followed) {
  TestFolder folder;
  folder.add("src/near.cuh", "#include \"deep/d.h\"\n");
  folder.add("src/deep/d.h", "");
  folder.add("inc/far.h", "#  include /* here */ <more.h>\n");
  folder.add("inc/more.h", "");
  folder.add("toolkit/cuda.h", "#include \"never_looked_at.h\"\n");
  const Includes found = scan_includes(
      "#if 0\n#include \"near.cuh\"\n#endif\n#inc\\\nlude <far.h>\n#if "
      "__has_include(<absent.h>)\n#endif\n#include <cuda.h>\n",
      folder / "src/k.cu", {folder / "inc", folder / "toolkit"}, {folder / "toolkit"});
  EXPECT_TRUE(found.complete);
  std::vector<std::string> there, absent;
  for (const Dependency& d : found.dependencies) (d.hash.empty() ? absent : there).push_back(d.path);
  EXPECT_THAT(there, testing::UnorderedElementsAre(folder / "src/near.cuh", folder / "src/deep/d.h",
                                                   folder / "inc/far.h", folder / "inc/more.h"));
  EXPECT_THAT(absent, Contains(folder / "src/absent.h"));
  EXPECT_THAT(absent, Contains(folder / "inc/absent.h"));
  EXPECT_THAT(absent, testing::Not(Contains(HasSubstr("never_looked_at"))));
  EXPECT_FALSE(scan_includes("#include HEADER\n", folder / "src/k.cu", {}, {}).complete);
}

TEST(CompileCommands, an_nvcc_command_gives_its_options) {
  const auto argv = split_command(
      "/usr/bin/nvcc -ccbin=g++ -I../inc -I '/a b' -isystem=/sys -DX=\\\"q\\\" -D Y --use_fast_math "
      "-std=gnu++20 "
      "-gencode arch=compute_90,code=sm_90 -maxrregcount=64 -Xcompiler -Wall,-O2 --expt-relaxed-constexpr "
      "-Xptxas -dlcm=ca -O3 -c k.cu -o k.o");
  const ProjectOptions p = options_of_command(argv, "/p/build");
  EXPECT_EQ(p.options.include_folders, (std::vector<std::string>{"/p/inc", "/a b", "/sys"}));
  EXPECT_EQ(p.options.defines, (std::vector<std::string>{"X=\"q\"", "Y"}));
  EXPECT_EQ(p.options.standard, "c++20");
  EXPECT_TRUE(p.options.fast_math);
  EXPECT_EQ(p.options.max_registers, 64u);
  EXPECT_EQ(p.options.project,
            (std::vector<std::string>{"-ccbin=g++", "-Xcompiler", "-Wall,-O2", "--expt-relaxed-constexpr",
                                      "--ptxas-options=-dlcm=ca"}));
  EXPECT_THAT(p.ignored, Contains("arch=compute_90,code=sm_90"));
}

class CudaCompile : public testing::Test {
 protected:
  TestFolder folder_;
  Compiler warm_;
  Request request(const std::string& source, const std::string& entry = "k",
                  const std::string& language = "cuda") {
    Request r{.language = language, .source = source, .output = folder_ / "out.cubin"};
    r.options.arch = "sm_90", r.options.entry_point = entry;
    return r;
  }
  Answer built(const Request& r) {
    auto answer = warm_.ask(r);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().what);
    return answer ? *answer : Answer{};
  }
  Answer cached(const Request& r) {
    auto answer = compile_cached(r, folder_.path() / "cache", 120, &warm_);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().what);
    return answer ? *answer : Answer{};
  }
};

TEST_F(CudaCompile, sixteen_arguments_and_structs_by_value_keep_their_layout) {
  NEEDS(library, "nvrtc");
  std::string list;
  for (int i = 0; i < 14; ++i) list += ", int a" + std::to_string(i);
  const Answer answer = built(request(folder_.add(
      "k.cu", "struct P { char c; double d; float* p; };\nextern \"C\" __global__ void k(P p, short s" +
                  list + ") { p.p[0] = s + p.d + a13; }\n")));
  ASSERT_TRUE(answer.ok) << answer.error->what;
  const auto& parameters = answer.cuda->kernel("k")->parameters;
  ASSERT_TRUE(parameters);
  ASSERT_EQ(parameters->size(), 16u);
  EXPECT_EQ((*parameters)[0], (KernelParameter{0, 24}));
  EXPECT_EQ((*parameters)[1], (KernelParameter{24, 2}));
  EXPECT_EQ((*parameters)[15], (KernelParameter{80, 4}));
}

TEST_F(CudaCompile, parameters_over_16_kib_are_read) {
  NEEDS(library, "nvrtc");
  const Answer answer = built(request(folder_.add("k.cu",
                                                  "struct Big { char c[20000]; };\nextern \"C\" __global__ "
                                                  "void k(Big b, float* x) { x[0] = b.c[threadIdx.x]; }\n")));
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_EQ(answer.cuda->kernel("k")->parameters, (std::vector<KernelParameter>{{0, 20000}, {20000, 8}}));
}

TEST_F(CudaCompile, inline_assembly_errors_name_the_users_line) {
  for (const std::string compiler : {"nvrtc", "nvcc"}) {
    if (compiler == "nvrtc") NEEDS(library, "nvrtc");
    if (compiler == "nvcc" && !find_cuda_program("nvcc")) continue;
    Request r = request(folder_.add("k.cu",
                                    "extern \"C\" __global__ void k(float* x) {\n\n  asm "
                                    "volatile(\"bogus.f32 %0;\" :: \"f\"(x[0]));\n}\n"));
    r.options.compiler = compiler;
    const Answer answer = built(r);
    ASSERT_FALSE(answer.ok);
    EXPECT_THAT(answer.error->what, HasSubstr(r.source + ":3: Not a name of any known instruction"))
        << compiler;
  }
}

TEST_F(CudaCompile, host_headers_send_a_file_to_nvcc_and_that_is_remembered) {
  NEEDS(library, "nvrtc");
  NEEDS(program, "nvcc");
  const std::string text = "#include <vector>\nextern \"C\" __global__ void k(float* x) { x[0] = 1; }\n";
  const Request r = request(folder_.add("k.cu", text));
  const Answer first = cached(r);
  ASSERT_TRUE(first.ok) << first.error->what;
  EXPECT_THAT(first.compiler, testing::StartsWith("nvcc "));
  EXPECT_THAT(first.why_compiler, HasSubstr("vector"));
  EXPECT_TRUE(first.nvrtc_refused);
  folder_.add("k.cu", text + "// edited\n");
  const Answer second = cached(r);
  EXPECT_FALSE(second.cached);
  EXPECT_FALSE(second.nvrtc_refused);  // it was not even tried
  EXPECT_EQ(second.why_compiler, first.why_compiler);
  folder_.add("k.cu", text.substr(text.find('\n') + 1));
  EXPECT_THAT(cached(r).compiler, testing::StartsWith("NVRTC "));
}

TEST_F(CudaCompile, nvcc_instantiates_the_captured_template) {
  NEEDS(program, "nvcc");
  Request r =
      request(folder_.add("k.cu", "template <class T> __global__ void scale(T* x, T f) { x[0] *= f; }\n"),
              "_Z5scaleIfEvPT_S0_");
  r.options.compiler = "nvcc";
  const Answer answer = built(r);
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_EQ(answer.entry_point, "_Z5scaleIfEvPT_S0_");
}

TEST_F(CudaCompile, a_kernel_of_internal_linkage_is_found_under_its_new_name) {
  NEEDS(program, "nvcc");
  Request r = request(folder_.add("k.cu",
                                  "namespace { __global__ void hidden(float* x) { x[0] = 1; } }\nvoid f() { "
                                  "hidden<<<1, 1>>>(0); }\n"),
                      "_ZN32_GLOBAL__N__327206cb_4_s_cu_none6hiddenEPf");
  const Answer answer = built(r);
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_NE(answer.entry_point, r.options.entry_point);
  EXPECT_THAT(answer.entry_point, HasSubstr("hidden"));
}

TEST_F(CudaCompile, a_missing_kernel_is_named_with_those_that_are_there) {
  NEEDS(library, "nvrtc");
  const Answer answer =
      built(request(folder_.add("k.cu", "__global__ void other(float* x) { *x = 1; }\n"), "_Z4wantPf"));
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.error->code, ErrorCode::missing_symbol);
  EXPECT_THAT(answer.error->what, AllOf(HasSubstr("want(float*)"), HasSubstr("other(float*)")));
}

TEST_F(CudaCompile, a_template_that_is_gone_is_missed_by_name_and_other_errors_come_first) {
  NEEDS(library, "nvrtc");
  Answer answer =
      built(request(folder_.add("k.cu", "template <class T> __global__ void other(T* x) { *x = 1; }\n"),
                    "_Z5scaleIfEvPT_S0_"));
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.error->code, ErrorCode::missing_symbol);
  EXPECT_THAT(answer.error->hint, HasSubstr("--kernel"));
  answer =
      built(request(folder_.add("k.cu", "__global__ void other(float* x) { y; }\n"), "_Z5scaleIfEvPT_S0_"));
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.error->code, ErrorCode::compile_failed);
  EXPECT_THAT(answer.error->what, HasSubstr("k.cu:1: identifier \"y\" is undefined"));
}

TEST_F(CudaCompile, options_reach_the_compiler) {
  NEEDS(library, "nvrtc");
  Request r =
      request(folder_.add("k.cu",
                          "#include \"w.h\"\nextern \"C\" __global__ void k(float* x) { x[0] = W / x[1]; "
                          "static_assert(__cplusplus >= 202002L); }\n"));
  folder_.add("lib/w.h", "");
  r.options.include_folders = {folder_ / "lib"}, r.options.defines = {"W=3"}, r.options.standard = "c++20";
  const Answer exact = built(r);
  ASSERT_TRUE(exact.ok) << exact.error->what;
  r.options.fast_math = true;
  const Answer fast = built(r);
  EXPECT_LT(fast.cuda->kernel("k")->code_bytes, exact.cuda->kernel("k")->code_bytes);
  r.options.max_registers = 24;
  EXPECT_EQ(built(r).cuda->kernel("k")->max_registers, 24u);
  r.options.extra = {"--no-such-option"};
  EXPECT_THAT(built(r).error->what, HasSubstr("no-such-option"));
  r.options = {}, r.options.entry_point = "k", r.options.arch = "sm_9";
  EXPECT_EQ(built(r).error->code, ErrorCode::usage);
  r.options.arch = "sm_90", r.options.optimisation = "size";
  EXPECT_EQ(built(r).error->code, ErrorCode::usage);
}

TEST_F(CudaCompile, ptx_is_assembled_and_its_errors_have_lines) {
  NEEDS(program, "ptxas");
  const std::string head =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n";
  Request r = request(folder_.add("k.ptx", head + "ret;\n}\n"), "k", "ptx");
  const Answer answer = built(r);
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_EQ(answer.cuda->format, "cubin");
  EXPECT_EQ(answer.cuda->arch, "sm_90");
  r.source = folder_.add("bad.ptx", head + "bogus;\n}\n");
  EXPECT_THAT(built(r).error->what, HasSubstr("bad.ptx:6: Not a name"));
}

TEST_F(CudaCompile, ptx_goes_through_nvjitlink_or_to_the_driver_without_ptxas) {
  NEEDS(program, "ptxas");
  const ScopedVariable none("KLAB_PTXAS", folder_ / "nowhere");
  const Request r =
      request(folder_.add("k.ptx",
                          ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"),
              "k", "ptx");
  if (find_cuda_library("nvJitLink")) {
    const Answer answer = built(r);
    ASSERT_TRUE(answer.ok) << answer.error->what;
    EXPECT_THAT(answer.compiler, testing::StartsWith("nvJitLink "));
    EXPECT_EQ(answer.cuda->format, "cubin");
  }
  const ScopedVariable neither("KLAB_NVJITLINK", folder_ / "nowhere");
  Compiler fresh;
  const Answer answer = fresh.ask(r).value();
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_EQ(answer.cuda->format, "ptx");
  EXPECT_THAT(answer.why_compiler, HasSubstr("the driver compiles"));
}

TEST_F(CudaCompile, cached_builds_know_their_headers_and_options) {
  NEEDS(library, "nvrtc");
  folder_.add("lib/v.h", "#define V 1\n");
  Request r = request(
      folder_.add("src/k.cu", "#include \"v.h\"\nextern \"C\" __global__ void k(int* x) { *x = V; }\n"));
  r.options.include_folders = {folder_ / "lib"};
  const Answer first = cached(r);
  ASSERT_TRUE(first.ok) << first.error->what;
  EXPECT_TRUE(cached(r).cached);
  folder_.add("lib/v.h", "#define V 2\n");
  const Answer changed = cached(r);
  EXPECT_FALSE(changed.cached);
  EXPECT_NE(changed.stripped_hash, first.stripped_hash);
  folder_.add("lib/v.h", "#define V 1\n");
  EXPECT_TRUE(cached(r).cached);
  folder_.add("src/v.h", "#define V 3\n");  // nearer
  const Answer nearer = cached(r);
  EXPECT_FALSE(nearer.cached);
  EXPECT_NE(nearer.stripped_hash, first.stripped_hash);
  r.options.line_info = false;
  EXPECT_FALSE(cached(r).cached);
}

TEST_F(CudaCompile, an_include_that_a_macro_names_is_never_cached) {
  NEEDS(library, "nvrtc");
  folder_.add("src/v.h", "#define V 1\n");
  const Request r = request(folder_.add(
      "src/k.cu",
      "#define NAME \"v.h\"\n#include NAME\nextern \"C\" __global__ void k(int* x) { *x = V; }\n"));
  ASSERT_TRUE(cached(r).ok);
  EXPECT_FALSE(cached(r).cached);
}

TEST_F(CudaCompile, a_warm_compiler_takes_a_changed_header_at_once) {
  NEEDS(library, "nvrtc");
  std::vector<std::string> hashes;
  for (const char* v : {"1", "2", "1", "3"}) {
    folder_.add("v.h", std::string("#define V ") + v + "\n");
    const Answer answer = built(request(
        folder_.add("k.cu", "#include \"v.h\"\nextern \"C\" __global__ void k(int* x) { *x = V; }\n")));
    ASSERT_TRUE(answer.ok) << answer.error->what;
    hashes.push_back(answer.stripped_hash);
  }
  EXPECT_EQ(hashes[0], hashes[2]);
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(hashes[1], hashes[3]);
}

TEST_F(CudaCompile, without_nvrtc_nvcc_is_used_and_without_both_the_environment_is_to_blame) {
  NEEDS(program, "nvcc");
  const ScopedVariable none("KLAB_NVRTC", folder_ / "nowhere");
  const Request r = request(folder_.add("k.cu", "extern \"C\" __global__ void k(float* x) { x[0] = 1; }\n"));
  Answer answer = built(r);
  ASSERT_TRUE(answer.ok) << answer.error->what;
  EXPECT_THAT(answer.why_compiler, HasSubstr("NVRTC cannot be used"));
  const ScopedVariable neither("KLAB_NVCC", folder_ / "nowhere");
  Compiler fresh;
  answer = fresh.ask(r).value();
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.error->code, ErrorCode::environment);
}

TEST(WarmCompiler, is_replaced_after_a_crash_and_a_hang) {
  TestFolder folder;
  Compiler warm;
  const Request r{.verb = "tools"};
  {
    const ScopedVariable fake(
        "KLAB_COMPILE", folder.add("crash", "#!/bin/sh\nread line; echo doom >&2; kill -SEGV $$\n", 0700));
    const Answer answer = warm.ask(r).value();
    ASSERT_TRUE(answer.error);
    EXPECT_THAT(answer.error->what, AllOf(HasSubstr("SIGSEGV"), HasSubstr("doom")));
    EXPECT_FALSE(warm.running());
  }
  {
    const ScopedVariable fake("KLAB_COMPILE", folder.add("hang", "#!/bin/sh\nsleep 600\n", 0700));
    EXPECT_THAT(warm.ask(r, 0.2)->error->what, HasSubstr("did not finish"));
  }
  {
    const ScopedVariable fake(
        "KLAB_COMPILE", folder.add("babble", "#!/bin/sh\nread line; echo '{\"ok\": 3}'; sleep 60\n", 0700));
    EXPECT_EQ(warm.ask(r)->error->code, ErrorCode::compile_failed);
  }
  const ScopedVariable absent("KLAB_COMPILE", folder / "nowhere");
  EXPECT_EQ(warm.ask(r).error().code, ErrorCode::environment);
}

TEST(WarmCompiler, answers_many_requests_in_one_process) {
  Compiler warm;
  for (int i = 0; i < 3; ++i) {
    const auto answer =
        warm.ask({.language = "glsl",
                  .source = "a.comp",
                  .source_text = "#version 450\nlayout(local_size_x = 8) in;\nvoid main() {}\n"});
    ASSERT_TRUE(answer && answer->ok);
    EXPECT_EQ(answer->reflection.block[0], 8u);
    EXPECT_TRUE(warm.running());
  }
}

}  // namespace
}  // namespace klab::compile
