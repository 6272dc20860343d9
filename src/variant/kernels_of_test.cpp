// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "variant/variant.h"

namespace klab::variant {
namespace {

std::string shown(std::string_view text) {
  std::string out;
  for (const KernelDefinition& k : kernels_of(text)) {
    for (const std::string& n : k.namespaces) out += (n.empty() ? "(anonymous)" : n) + "::";
    out += k.name + "/" + std::to_string(k.parameters) + "@" + std::to_string(k.line) +
           (k.is_template ? " template" : "") + (k.defined ? "\n" : " declared\n");
  }
  return out;
}

TEST(KernelsOf, names_namespaces_parameters_and_lines) {
  EXPECT_EQ(shown("namespace a::b {\n"
                  "namespace {\n"
                  "template <class T, int N = (3 > 2)>\n"
                  "static __global__ void __launch_bounds__(256, 2)\n"
                  "k(const T* x, std::pair<int, int> p, int n = f(1, 2)) { if (n) { x[0]; } }\n"
                  "}\n"
                  "extern \"C\" __global__ void plain(void);\n"
                  "}\n"
                  "__global__ __cluster_dims__(2, 1, 1) void after() {}\n"),
            "a::b::(anonymous)::k/3@5 template\n"
            "a::b::plain/0@7 declared\n"
            "after/0@9\n");
}

TEST(KernelsOf, comments_strings_macros_and_instantiations_are_passed_over) {
  EXPECT_EQ(shown("// __global__ void a() {}\n"
                  "/* __global__ void b() {} */\n"
                  "const char* s = \"__global__ void c() {} {{{\";\n"
                  "auto r = R\"x(__global__ void d() { )\" )x\";\n"
                  "#define KERNEL(n) \\\n  __global__ void n() {}\n"
                  "template __global__ void e<float>(float*);\n"
                  "namespace short_name = other;\n"
                  "char brace = '{';\n"
                  "__global__ void last(int n) { char c = '}'; }\n"),
            "last/1@10\n");
}

TEST(KernelsOf, text_of_any_kind_ends) {
  for (const char* text : {"__global__", "__global__ void k(", "namespace {", "\"", "'", "R\"(", "/*", "}}}}",
                           "#", "__global__ void k(((", "template < __global__ void k()"})
    (void)kernels_of(text);
}

}  // namespace
}  // namespace klab::variant
