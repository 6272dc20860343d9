// SPDX-License-Identifier: Apache-2.0
// Finding sources: real modules from real compilers in real bundles.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/subprocess.h"
#include "base/test_util.h"
#include "bundle/writer.h"
#include "variant/tree.h"
#include "variant/variant.h"

namespace klab::variant {
namespace {

using testing::Contains;
using testing::Each;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

std::string kernel(const std::string& body, const std::string& head = "") {
  return "#version 450\n#extension GL_GOOGLE_include_directive : require\n" + head +
         "layout(local_size_x = 64) in;\n"
         "layout(set = 0, binding = 0) readonly buffer In { float a[]; };\n"
         "layout(set = 0, binding = 1) buffer Out { float b[]; };\n"
         "layout(push_constant) uniform Push { uint n; float k; };\n"
         "void main() {\n  uint i = gl_GlobalInvocationID.x;\n  if (i >= n) return;\n  " +
         body + "\n}\n";
}

class Find : public testing::Test {
 protected:
  TestFolder folder_;

  std::string add(const std::string& name, const std::string& text) {
    return folder_.add("tree/" + name, text);
  }

  Result<bundle::Reader> captured(const std::string& spirv, const std::string& name) {
    auto writer = bundle::Writer::create(folder_.path() / (name + ".klab"), {}).value();
    bundle::Manifest manifest;
    bundle::Dispatch dispatch;
    dispatch.name = name, dispatch.entry_point = "main", dispatch.block = {64, 1, 1};
    dispatch.code = writer.add_code("spirv", "spv", std::as_bytes(std::span(spirv))).value();
    manifest.dispatches.push_back(dispatch);
    auto sealed = writer.seal(manifest);
    if (!sealed) return fail(sealed.error());
    return bundle::Reader::open(sealed->path);
  }
  std::string built(const std::string& file, compile::Options options) {
    const compile::Request r{.verb = "compile",
                             .language = "glsl",
                             .source = file,
                             .output = folder_ / "built.spv",
                             .options = options};
    const auto answer = compile::run_compiler(r);
    EXPECT_TRUE(answer && answer->ok) << (answer ? answer->log : answer.error().what);
    return read_file(folder_ / "built.spv").value_or("");
  }
  std::vector<Candidate> found(const std::string& spirv, const std::string& name, FindRequest request = {}) {
    request.root = folder_.path() / "tree";
    auto reader = captured(spirv, name);
    EXPECT_TRUE(reader) << (reader ? "" : reader.error().what);
    auto list = find_source(*reader, 0, request);
    EXPECT_TRUE(list) << (list ? "" : list.error().what);
    return list.value_or(std::vector<Candidate>{});
  }
  // Builds it as a candidate says it is built.
  std::string rebuilt(const Candidate& c) { return built(c.file, c.options); }
};

TEST_F(Find, the_file_that_compiles_to_the_captured_code_comes_first) {
  const std::string right = add("a/scale.comp", kernel("b[i] = a[i] * k;"));
  add("a/shift.comp", kernel("b[i] = a[i] + k;"));
  add("other.comp", "#version 450\nlayout(local_size_x = 8) in;\nvoid main() {}\n");
  for (const std::string level : {"performance", "none", "size"})
    for (const std::string target :
         {"vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3", "vulkan1.3,spv1.4"}) {
      const std::string code = built(right, {.optimisation = level, .target = target});
      const auto list = found(code, "kernel" + level + target);
      ASSERT_GE(list.size(), 2u) << level << " " << target;
      EXPECT_EQ(list[0].file, fs::canonical(right));
      EXPECT_EQ(list[0].evidence, Evidence::same_code);
      EXPECT_THAT(list[0].because, Contains(HasSubstr("byte for byte")));
      EXPECT_EQ(rebuilt(list[0]), code);
      EXPECT_THAT(list[1].file, EndsWith("shift.comp"));
      EXPECT_EQ(list[1].evidence, Evidence::interface_matches);
      EXPECT_LT(list[1].score, list[0].score);
      EXPECT_THAT(list, Not(Contains(Field(&Candidate::file, EndsWith("other.comp")))));
      if (level != "performance" && target != "vulkan1.2") break;
    }
}

TEST_F(Find, code_of_another_compiler_matches_after_stripping_names) {
  if (find_program("glslangValidator").empty()) GTEST_SKIP() << "glslangValidator is not installed";
  const std::string right = add("scale.comp", kernel("b[i] = a[i] * k;"));
  add("shift.comp", kernel("b[i] = a[i] + k;"));
  ASSERT_TRUE(run_program({.argv = {"glslangValidator", "-V", "-g", "--target-env", "vulkan1.1", right, "-o",
                                    folder_ / "g.spv"}})
                  ->status.ok());
  // Without its embedded text there is nothing but the code to go by.
  auto list = found(read_file(folder_ / "g.spv").value(), "k");
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].file, fs::canonical(right));
  EXPECT_EQ(list[0].evidence, Evidence::same_code);
  EXPECT_THAT(list[0].because, Contains(HasSubstr("after stripping names")));
  EXPECT_EQ(list[0].options.optimisation, "none");
}

TEST_F(Find, embedded_text_and_debug_names_are_evidence_when_the_code_differs) {
  const std::string file = add("deep/er/scale.comp", kernel("b[i] = a[i] * k;"));
  add("deep/other/scale.comp", kernel("b[i] = a[i] - k;"));
  std::string code = built(file, {.optimisation = "none", .target = "vulkan1.2", .debug_info = true});
  // As a newer compiler might: another constant, so no file builds to it.
  const auto at = code.find("scale.comp");
  ASSERT_NE(at, std::string::npos);
  const auto text = read_file(file).value();
  add("deep/er/scale.comp", text + "// edited since\n");
  auto list = found(code, "unrelated");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].file, fs::canonical(file));
  EXPECT_EQ(list[0].evidence, Evidence::same_code) << "a comment changes no code";
  EXPECT_EQ(list[1].evidence, Evidence::debug_name);
  add("deep/er/scale.comp", text);
  list = found(code, "unrelated2");
  EXPECT_THAT(list[0].because, Contains(HasSubstr("carries exactly this text")));
  add("deep/er/scale.comp", kernel("b[i] = a[i] / k;"));
  list = found(code, "unrelated3");
  EXPECT_EQ(list[0].file, fs::canonical(file)) << "more of its path agrees";
  EXPECT_EQ(list[0].evidence, Evidence::debug_name);
}

TEST_F(Find, embedded_text_with_other_line_endings_is_recognised) {
  const std::string text = kernel("b[i] = a[i] * k;");
  const std::string code = built(add("k.comp", text), {.optimisation = "none", .debug_info = true});
  std::string crlf;
  for (char c : text) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  add("k.comp", crlf);
  EXPECT_THAT(found(code, "x").at(0).because, Contains(HasSubstr("other line endings")));
}

TEST_F(Find, includes_are_found_in_the_tree) {
  add("include/common/types.glsl", "#include \"more.glsl\"\n#define T float\n");
  add("include/common/more.glsl", "#define TWO 2\n");
  add("elsewhere/deep/types.glsl", "#error the wrong one\n");
  const std::string file =
      add("src/k.comp", kernel("T x = a[i]; b[i] = x * TWO;", "#include \"common/types.glsl\"\n"));
  const std::string sibling =
      add("src/s.comp", kernel("b[i] = a[i] + TWO;", "#include \"../include/common/more.glsl\"\n"));
  const std::string code = built(file, {.include_folders = {folder_ / "tree/include"}});
  auto list = found(code, "unrelated");
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].file, fs::canonical(file));
  EXPECT_EQ(list[0].evidence, Evidence::same_code);
  EXPECT_EQ(rebuilt(list[0]), code);
  const std::string other = built(sibling, {.include_folders = {folder_ / "tree/include/common"}});
  EXPECT_EQ(found(other, "unrelated2").at(0).file, fs::canonical(sibling));
}

TEST_F(Find, given_defines_are_tried_and_kept) {
  const std::string file =
      add("generic.comp", kernel("b[i] = OP(a[i], k);",
                                 "#ifdef ADD\n#define OP(x, y) ((x) + (y))\n#endif\n#ifdef MUL\n#define "
                                 "OP(x, y) ((x) * (y))\n#endif\n"));
  const std::string code = built(file, {.defines = {"MUL"}});
  const auto without = found(code, "generic");
  ASSERT_EQ(without.size(), 1u);
  EXPECT_EQ(without[0].evidence, Evidence::name_matches);
  EXPECT_THAT(without[0].because, Contains(HasSubstr("does not compile")));
  EXPECT_EQ(found(code, "generic2", {.defines = {"ADD"}}).at(0).evidence, Evidence::interface_matches);
  const auto list = found(code, "generic3", {.defines = {"MUL"}});
  EXPECT_EQ(list.at(0).evidence, Evidence::same_code);
  EXPECT_EQ(list.at(0).options.defines, std::vector<std::string>{"MUL"});
  // Defines that a file does not need do not hide it.
  const std::string plain = add("plain.comp", kernel("b[i] = a[i] * k;", "#ifdef ADD\n#error no\n#endif\n"));
  EXPECT_EQ(found(built(plain, {}), "x", {.defines = {"ADD"}}).at(0).file, fs::canonical(plain));
}

TEST_F(Find, a_name_alone_is_weak_and_its_mismatch_is_said) {
  add("fft.comp", "#version 450\nlayout(local_size_x = 8) in;\nvoid main() {}\n");
  const std::string code = built(folder_.add("away.comp", kernel("b[i] = a[i];")), {});
  const auto list = found(code, "fft");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].evidence, Evidence::name_matches);
  EXPECT_LT(list[0].score, 0.3);
  EXPECT_THAT(list[0].because, Contains(HasSubstr("interface differs")));
}

TEST_F(Find, links_build_folders_and_odd_files_are_left_out) {
  const std::string text = kernel("b[i] = a[i] * k;");
  const std::string outside = folder_.add("outside/k.comp", text);
  const std::string code = built(outside, {});
  add("build/k.comp", text);
  add(".git/k.comp", text);
  add("out/CMakeCache.txt", "");
  add("out/k.comp", text);
  add("binary.comp", text + std::string(1, '\0'));
  add("huge.comp", text + std::string(5 << 20, ' '));
  add("k.txt", text);
  fs::create_directory_symlink(folder_ / "outside", folder_ / "tree/link");
  fs::create_symlink(outside, folder_ / "tree/linked.comp");
  ASSERT_EQ(::mkfifo((folder_ / "tree/pipe.comp").c_str(), 0600), 0);
  EXPECT_THAT(found(code, "k"), testing::IsEmpty());
  const std::string file = add("sub/k.comp.glsl", text);
  const auto list = found(code, "k2");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].file, fs::canonical(file));
}

TEST_F(Find, copies_of_the_source_are_told) {
  const std::string text = kernel("b[i] = a[i] * k;");
  const std::string code = built(add("one/k.comp", text), {});
  add("two/k.comp", text);
  const auto list = found(code, "x");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_THAT(list[0].because, Contains(HasSubstr("two/k.comp builds to the same code")));
  EXPECT_THAT(list[1].because, Contains(HasSubstr("one/k.comp builds to the same code")));
}

TEST_F(Find, the_examples_are_found_from_what_other_compilers_made_of_them) {
  const fs::path examples = KLAB_SOURCE_DIR "/examples/vulkan";
  int tried = 0;
  for (const std::string name : {"pointer_table", "spec_constants", "matmul_tiled"}) {
    const std::string file = (examples / (name + ".comp")).string();
    ASSERT_TRUE(fs::exists(file));
    for (const std::vector<std::string>& argv :
         {std::vector<std::string>{"glslc", "-O", "--target-env=vulkan1.2"},
          {"glslangValidator", "-V", "--target-env", "vulkan1.2"}}) {
      if (find_program(argv[0]).empty()) continue;
      std::vector<std::string> command = argv;
      command.insert(command.end(), {file, "-o", folder_ / "example.spv"});
      ASSERT_TRUE(run_program({.argv = command})->status.ok()) << file;
      auto reader = captured(read_file(folder_ / "example.spv").value(), name + argv[0]);
      ASSERT_TRUE(reader);
      const auto list = find_source(*reader, 0, {.root = examples});
      ASSERT_TRUE(list && !list->empty()) << name;
      EXPECT_EQ(list->front().file, fs::canonical(file).string());
      EXPECT_EQ(list->front().evidence, Evidence::same_code) << name << " " << argv[0];
      ++tried;
    }
  }
  if (tried == 0) GTEST_SKIP() << "neither glslc nor glslangValidator is installed";
}

TEST_F(Find, a_cap_is_never_silent) {
  for (int i = 0; i < 5; ++i) add("a" + std::to_string(i) + ".comp", "#version 450\nvoid main() {}\n");
  const std::string code = built(folder_.add("away.comp", kernel("b[i] = a[i];")), {});
  auto reader = captured(code, "x");
  const auto list = find_source(*reader, 0, {.root = folder_.path() / "tree", .max_files = 3});
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::cap_reached);
  EXPECT_EQ(find_source(*reader, 0, {.root = folder_.path() / "absent"}).error().code, ErrorCode::not_found);
  EXPECT_EQ(find_source(*reader, 7, {.root = folder_.path() / "tree"}).error().code, ErrorCode::not_found);
}

TEST_F(Find, two_hundred_files_take_seconds) {
  for (int i = 0; i < 200; ++i)
    add("k" + std::to_string(i) + ".comp", kernel("b[i] = a[i] * k + " + std::to_string(i) + ";"));
  const std::string code = built(folder_ / "tree/k137.comp", {});
  const auto start = std::chrono::steady_clock::now();
  const auto list = found(code, "unrelated");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  ASSERT_EQ(list.size(), 200u);
  EXPECT_THAT(list[0].file, EndsWith("/k137.comp"));
  EXPECT_EQ(list[1].evidence, Evidence::interface_matches);
}

TEST(ShaderNames, stems_and_tails) {
  EXPECT_EQ(shader_stem("a/b/mul.comp.glsl"), "mul");
  EXPECT_EQ(shader_stem("mul.comp"), "mul");
  EXPECT_EQ(shader_stem("mul_v1.5.comp"), "mul_v1.5");
  EXPECT_EQ(shared_tail("shaders/./a.comp", "/x/shaders/a.comp"), 2u);
  EXPECT_EQ(shared_tail("b.comp", "/x/a.comp"), 0u);
  EXPECT_EQ(shared_tail("", "/x/a.comp"), 0u);
}

}  // namespace
}  // namespace klab::variant
