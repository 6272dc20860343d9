// SPDX-License-Identifier: Apache-2.0
// klab-compile itself, as others use it: through run_compiler and compile_cached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/subprocess.h"
#include "base/test_util.h"
#include "compile/cache.h"
#include "compile/protocol.h"

namespace klab::compile {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

constexpr char kScale[] =
    "#version 450\nlayout(local_size_x = 64) in;\n"
    "layout(set = 0, binding = 0) buffer Data { float x[]; };\n"
    "void main() { x[gl_GlobalInvocationID.x] *= 2; }\n";

Answer compiled(Request request) {
  auto answer = run_compiler(request);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().what);
  return answer ? *answer : Answer{};
}

class Compile : public testing::Test {
 protected:
  TestFolder folder_;
  Request request(const std::string& source) {
    Request r;
    r.source = source;
    r.output = folder_ / "out.spv";
    return r;
  }
  // A stand-in for klab-compile.
  ScopedVariable script(const std::string& body) {
    return {"KLAB_COMPILE", folder_.add("fake-compile", "#!/bin/sh\n" + body + "\n", 0700)};
  }
};

TEST_F(Compile, gives_the_same_code_as_glslc_at_every_level_and_target) {
  if (find_program("glslc").empty()) GTEST_SKIP() << "glslc is not installed";
  Request r = request(folder_.add("scale.comp", kScale));
  for (const auto& [level, flag] : {std::pair{"none", "-O0"}, {"size", "-Os"}, {"performance", "-O"}})
    for (const std::string target : {"vulkan1.0", "vulkan1.3"})
      for (const bool debug : {target == "vulkan1.3"}) {
        r.options.optimisation = level, r.options.target = target, r.options.debug_info = debug;
        const Answer answer = compiled(r);
        ASSERT_TRUE(answer.ok) << answer.error->what;
        std::vector<std::string> argv{"glslc",  flag, "--target-env=" + target,
                                      r.source, "-o", folder_ / "glslc.spv"};
        if (debug) argv.insert(argv.begin() + 1, "-g");
        ASSERT_TRUE(run_program({.argv = argv})->status.ok());
        EXPECT_EQ(read_file(r.output).value(), read_file(folder_ / "glslc.spv").value())
            << level << " " << target << debug;
      }
}

TEST_F(Compile, names_file_and_line_of_an_error_as_the_user_named_them) {
  const Answer answer =
      compiled(request(folder_.add("odd: name.comp", "#version 450\n\nvoid main() { x = 1; }\n")));
  EXPECT_FALSE(answer.ok);
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code, ErrorCode::compile_failed);
  EXPECT_THAT(answer.messages, testing::Contains(AllOf(Field(&Message::file, folder_ / "odd: name.comp"),
                                                       Field(&Message::line, 3u),
                                                       Field(&Message::text, HasSubstr("undeclared")))));
  EXPECT_THAT(answer.error->what, HasSubstr("odd: name.comp:3:"));
  EXPECT_FALSE(fs::exists(folder_ / "out.spv"));
}

TEST_F(Compile, names_the_included_file_that_an_error_is_in) {
  folder_.add("inc/bad.glsl", "float f() {\n  return nothing;\n}\n");
  const Answer answer =
      compiled(request(folder_.add("a.comp",
                                   "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include "
                                   "\"inc/bad.glsl\"\nvoid main() {}\n")));
  ASSERT_FALSE(answer.ok);
  EXPECT_THAT(answer.messages, testing::Contains(AllOf(Field(&Message::file, folder_ / "inc/bad.glsl"),
                                                       Field(&Message::line, 2u))));
}

TEST_F(Compile, source_text_replaces_the_file_and_keeps_its_name) {
  Request r = request(folder_.add("a.comp", kScale));
  r.source_text = "#version 450\nvoid main() { oops; }\n";
  const Answer answer = compiled(r);
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.messages.at(0).file, r.source);
}

TEST_F(Compile, source_text_of_any_bytes_is_taken_as_it_is) {
  Request r = request("latin1.comp");
  r.source_text = std::string("// caf\xe9\n") + kScale;
  r.options.debug_info = true;
  EXPECT_TRUE(compiled(r).ok);
  EXPECT_THAT(read_file(r.output).value(), HasSubstr("caf\xe9"));
}

TEST_F(Compile, quotes_look_beside_the_file_first_and_brackets_only_in_folders) {
  folder_.add("src/v.glsl", "#define V 1\n");
  folder_.add("lib/v.glsl", "#define V 2\n");
  const auto text = [](const std::string& include) {
    return "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include " + include +
           "\nlayout(local_size_x = V) in;\nvoid main() {}\n";
  };
  Request r = request(folder_ / "src/a.comp");
  r.options.include_folders = {folder_ / "lib"};
  r.source_text = text("\"v.glsl\"");
  EXPECT_EQ(compiled(r).reflection.block[0], 1u);
  r.source_text = text("<v.glsl>");
  EXPECT_EQ(compiled(r).reflection.block[0], 2u);
  r.options.include_folders.clear();
  EXPECT_FALSE(compiled(r).ok);
}

TEST_F(Compile, reads_nothing_outside_the_named_folders) {
  folder_.add("secret.glsl", "#error the secret was read\n");
  fs::create_directories(folder_.path() / "src");
  fs::create_symlink(folder_ / "secret.glsl", folder_ / "src/link.glsl");
  for (const std::string& name :
       {std::string("../secret.glsl"), folder_ / "secret.glsl", std::string("link.glsl")}) {
    Request r = request(folder_.add(
        "src/a.comp", "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include \"" + name +
                          "\"\nvoid main() {}\n"));
    Answer answer = compiled(r);
    ASSERT_FALSE(answer.ok);
    EXPECT_THAT(answer.error->what, AllOf(HasSubstr("outside"), HasSubstr("--include"))) << name;
    EXPECT_THAT(answer.log, testing::Not(HasSubstr("secret was read")));
    r.options.include_folders = {folder_.path().string()};
    EXPECT_THAT(compiled(r).log, HasSubstr("secret was read")) << name;
  }
}

TEST_F(Compile, reports_a_cycle_of_includes) {
  folder_.add("x.glsl", "#include \"y.glsl\"\n");
  folder_.add("y.glsl", "#include \"x.glsl\"\n");
  const Answer answer = compiled(request(folder_.add("a.comp",
                                                     "#version 450\n#extension GL_GOOGLE_include_directive : "
                                                     "require\n#include \"x.glsl\"\nvoid main() {}\n")));
  ASSERT_FALSE(answer.ok);
  EXPECT_THAT(answer.error->what, AllOf(HasSubstr("cycle"), HasSubstr("x.glsl"), HasSubstr("y.glsl")));
}

TEST_F(Compile, refuses_other_stages_and_missing_entry_points) {
  EXPECT_EQ(compiled(request(folder_.add("a.vert", kScale))).error->code, ErrorCode::unsupported);
  const Answer pragma = compiled(request(folder_.add(
      "a.glsl", "#version 450\n#pragma shader_stage(vertex)\nvoid main() { gl_Position = vec4(0); }\n")));
  ASSERT_FALSE(pragma.ok);
  EXPECT_THAT(pragma.error->what, HasSubstr("no compute entry point"));
  Request first = request(folder_.add("a.comp", kScale));
  ASSERT_TRUE(compiled(first).ok);
  Request spirv = request(first.output);
  spirv.language = "spirv", spirv.output = folder_ / "b.spv", spirv.options.entry_point = "other";
  EXPECT_EQ(compiled(spirv).error->code, ErrorCode::missing_symbol);
}

TEST_F(Compile, refuses_unknown_options) {
  Request r = request(folder_.add("a.comp", kScale));
  r.options.target = "vulkan1.4";
  EXPECT_EQ(compiled(r).error->code, ErrorCode::usage);
  r.options.target = "vulkan1.0,spv1.7";
  EXPECT_EQ(compiled(r).error->code, ErrorCode::usage);
  r.options = {}, r.options.optimisation = "fastest";
  EXPECT_EQ(compiled(r).error->code, ErrorCode::usage);
  r.options = {}, r.options.defines = {"1X=2"};
  EXPECT_EQ(compiled(r).error->code, ErrorCode::usage);
  EXPECT_EQ(compiled(request(folder_ / "absent.comp")).error->code, ErrorCode::not_found);
}

TEST_F(Compile, spirv_goes_through_text_and_back_unchanged) {
  Request r = request(folder_.add("a.comp", kScale));
  const Answer built = compiled(r);
  Request text{.verb = "disassemble", .source = r.output};
  const Answer shown = compiled(text);
  ASSERT_TRUE(shown.ok);
  EXPECT_THAT(shown.disassembly, AllOf(HasSubstr("OpEntryPoint GLCompute"), HasSubstr("LocalSize 64 1 1")));
  Request again = request(folder_.add("a.spvasm", shown.disassembly));
  again.language = "spirv";
  const Answer assembled = compiled(again);
  ASSERT_TRUE(assembled.ok) << assembled.error->what;
  EXPECT_EQ(assembled.stripped_hash, built.stripped_hash);
}

TEST_F(Compile, invalid_spirv_is_refused_with_the_validators_reason) {
  Request r = request(folder_.add(
      "bad.spvasm",
      "OpCapability Shader\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %1 \"main\"\n"));
  r.language = "spirv";
  const Answer answer = compiled(r);
  ASSERT_FALSE(answer.ok);
  EXPECT_EQ(answer.error->code, ErrorCode::compile_failed);
  EXPECT_FALSE(fs::exists(r.output));
  Request typo = request(folder_.add("typo.spvasm", "OpCapability Shader\nOpNoSuchThing\n"));
  typo.language = "spirv";
  EXPECT_EQ(compiled(typo).messages.at(0).line, 2u);
  Request junk = request(folder_.add("junk.spv", "not SPIR-V at all, of any length"));
  junk.language = "spirv";
  EXPECT_EQ(compiled(junk).error->code, ErrorCode::invalid_data);
}

TEST_F(Compile, a_batch_answers_each_request_in_order) {
  Request batch{.verb = "batch"};
  batch.batch = {request(folder_.add("a.comp", kScale)), request(folder_ / "absent.comp")};
  const Answer answer = compiled(batch);
  ASSERT_EQ(answer.batch.size(), 2u);
  EXPECT_TRUE(answer.batch[0].ok);
  EXPECT_EQ(answer.batch[1].error->code, ErrorCode::not_found);
}

TEST_F(Compile, a_crash_is_said_with_the_compilers_last_words) {
  const auto fake = script("cat >/dev/null; echo 'assertion of doom' >&2; kill -SEGV $$");
  const Answer answer = compiled(request(folder_.add("a.comp", kScale)));
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code, ErrorCode::compile_failed);
  EXPECT_THAT(answer.error->what, AllOf(HasSubstr("crashed"), HasSubstr("SIGSEGV"),
                                        HasSubstr("assertion of doom"), HasSubstr("a.comp")));
}

TEST_F(Compile, a_hang_is_ended_at_the_limit) {
  const auto fake = script("echo thinking >&2; sleep 600");
  const auto answer = run_compiler(request(folder_.add("a.comp", kScale)), 0.3);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error->code, ErrorCode::compile_failed);
  EXPECT_THAT(answer->error->what, AllOf(HasSubstr("did not finish"), HasSubstr("thinking")));
}

TEST_F(Compile, an_unusable_answer_is_a_failed_compilation) {
  for (const std::string body : {"cat >/dev/null; echo '{\"ok\": true'", "cat >/dev/null; echo '{\"ok\": 3}'",
                                 "exit 0", "echo '{\"ok\": false}'", "exit 7"}) {
    const auto fake = script(body);
    const Answer answer = compiled(request(folder_.add("a.comp", kScale)));
    ASSERT_TRUE(answer.error) << body;
    EXPECT_EQ(answer.error->code, ErrorCode::compile_failed) << body;
  }
}

TEST_F(Compile, without_its_program_the_environment_is_to_blame) {
  const ScopedVariable absent("KLAB_COMPILE", folder_ / "nowhere/klab-compile");
  EXPECT_EQ(run_compiler(request("a.comp")).error().code, ErrorCode::environment);
}

class Cache : public Compile {
 protected:
  Answer cached(const Request& r) {
    auto answer = compile_cached(r, folder_.path() / "cache");
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().what);
    return answer ? *answer : Answer{};
  }
  Request with_include() {
    folder_.add("lib/v.glsl", "#define V 8\n");
    Request r =
        request(folder_.add("src/a.comp",
                            "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include "
                            "\"v.glsl\"\nlayout(local_size_x = V) in;\nvoid main() {}\n"));
    r.options.include_folders = {folder_ / "lib"};
    return r;
  }
};

TEST_F(Cache, the_second_build_runs_no_compiler_and_gives_the_same) {
  const Request r = request(folder_.add("a.comp", kScale));
  const Answer first = cached(r);
  ASSERT_TRUE(first.ok);
  EXPECT_FALSE(first.cached);
  const std::string code = read_file(r.output).value();
  fs::remove(r.output);
  Request elsewhere = r;
  elsewhere.output = folder_ / "other.spv";
  const Answer second = cached(elsewhere);
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(second.hash, first.hash);
  EXPECT_EQ(second.output, elsewhere.output);
  EXPECT_EQ(second.reflection.block[0], 64u);
  EXPECT_EQ(read_file(elsewhere.output).value(), code);
}

TEST_F(Cache, a_changed_include_is_seen_and_its_return_too) {
  const Request r = with_include();
  EXPECT_EQ(cached(r).reflection.block[0], 8u);
  folder_.add("lib/v.glsl", "#define V 16\n");
  Answer changed = cached(r);
  EXPECT_FALSE(changed.cached);
  EXPECT_EQ(changed.reflection.block[0], 16u);
  folder_.add("lib/v.glsl", "#define V 8\n");
  changed = cached(r);
  EXPECT_TRUE(changed.cached);
  EXPECT_EQ(changed.reflection.block[0], 8u);
}

TEST_F(Cache, an_include_that_appears_nearer_is_seen) {
  const Request r = with_include();
  EXPECT_EQ(cached(r).reflection.block[0], 8u);
  folder_.add("src/v.glsl", "#define V 4\n");
  EXPECT_EQ(cached(r).reflection.block[0], 4u);
}

TEST_F(Cache, options_source_and_compiler_are_part_of_the_key) {
  Request r = request(folder_.add("a.comp", kScale));
  ASSERT_TRUE(cached(r).ok);
  Request other = r;
  other.options.optimisation = "none";
  EXPECT_FALSE(cached(other).cached);
  other = r, other.source_text = std::string(kScale) + "\n";
  EXPECT_FALSE(cached(other).cached);
  const ScopedVariable updated("KLAB_COMPILE",
                               folder_.add("klab-compile", read_file(compiler_program()).value(), 0700));
  EXPECT_FALSE(cached(r).cached);
  EXPECT_TRUE(cached(r).cached);
}

TEST_F(Cache, a_damaged_entry_is_built_again) {
  const Request r = request(folder_.add("a.comp", kScale));
  const Answer first = cached(r);
  ASSERT_TRUE(write_file_atomic(folder_.path() / "cache/code" / first.hash, "damage"));
  EXPECT_FALSE(cached(r).cached);
  EXPECT_TRUE(cached(r).cached);
  for (const auto& e : fs::directory_iterator(folder_.path() / "cache/keys"))
    ASSERT_TRUE(write_file_atomic(e.path(), "[[{"));
  EXPECT_FALSE(cached(r).cached);
  EXPECT_TRUE(cached(r).cached);
}

TEST_F(Cache, failures_are_not_kept) {
  const Request r = request(folder_.add("a.comp", "#version 450\nvoid main() { oops; }\n"));
  EXPECT_FALSE(cached(r).ok);
  EXPECT_FALSE(cached(r).cached);
}

}  // namespace
}  // namespace klab::compile
