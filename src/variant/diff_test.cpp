// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "variant/variant.h"

namespace klab::variant {
namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// Applies a diff as patch(1) would, and checks every line number, count and context line of it.
std::string applied(const std::string& before, const std::string& diff, int* changed = nullptr) {
  if (diff.empty()) return before;
  const auto source = lines(before);
  auto text = lines(diff);
  std::string out;
  std::size_t at = 0, made = 0;
  EXPECT_TRUE(text.size() > 2 && text[0].starts_with("--- ") && text[1].starts_with("+++ "));
  for (std::size_t i = 2; i < text.size();) {
    unsigned a = 0, an = 1, b = 0, bn = 1;
    const std::string& h = text[i];
    const auto plus = h.find('+');
    EXPECT_TRUE(h.starts_with("@@ -") && plus != std::string::npos) << h;
    std::sscanf(h.c_str(), "@@ -%u,%u", &a, &an);
    std::sscanf(h.c_str() + plus, "+%u,%u", &b, &bn);
    const std::size_t start = an == 0 ? a : a - 1;
    EXPECT_GE(start, at);
    while (at < start) out += source.at(at++), ++made;
    EXPECT_EQ(made, bn == 0 ? b : b - 1) << h;
    unsigned used = 0, put = 0;
    for (++i; i < text.size() && !text[i].starts_with("@@ "); ++i) {
      std::string line = text[i].substr(1);
      if (i + 1 < text.size() && text[i + 1] == "\\ No newline at end of file\n") line.pop_back();
      if (text[i][0] == '\\') continue;
      if (changed != nullptr && text[i][0] != ' ') ++*changed;
      if (text[i][0] != '+') {
        EXPECT_EQ(source.at(at), line);
        ++at, ++used;
      }
      if (text[i][0] != '-') out += line, ++made, ++put;
    }
    EXPECT_EQ(used, an);
    EXPECT_EQ(put, bn);
  }
  while (at < source.size()) out += source[at++];
  return out;
}

TEST(Diff, shows_a_change_with_its_context) {
  EXPECT_EQ(unified_diff("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nf\ng\nh\n", "k.comp"),
            "--- k.comp\n+++ k.comp\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
  EXPECT_EQ(unified_diff("same", "same", "k"), "");
}

TEST(Diff, says_when_a_final_newline_is_missing) {
  EXPECT_EQ(unified_diff("a\nb", "a\nb\n", "k"),
            "--- k\n+++ k\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
  EXPECT_EQ(unified_diff("a\nb", "x\nb", "k"),
            "--- k\n+++ k\n@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n");
}

TEST(Diff, handles_empty_texts) {
  EXPECT_EQ(unified_diff("", "a\n", "k"), "--- k\n+++ k\n@@ -0,0 +1 @@\n+a\n");
  EXPECT_EQ(unified_diff("a\n", "", "k"), "--- k\n+++ k\n@@ -1 +0,0 @@\n-a\n");
}

TEST(Diff, keeps_carriage_returns) {
  EXPECT_EQ(unified_diff("a\r\nb\r\n", "a\r\nB\r\n", "k"),
            "--- k\n+++ k\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n");
}

TEST(Diff, of_random_texts_applies_and_is_minimal) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const auto text = [&] {
      std::string out;
      const unsigned count = random() % 14, alphabet = 1 + random() % 5;
      for (unsigned i = 0; i < count; ++i)
        out += std::string(1, static_cast<char>('a' + random() % alphabet)) + "\n";
      if (!out.empty() && random() % 4 == 0) out.pop_back();
      return out;
    };
    const std::string a = text(), b = text();
    int changed = 0;
    const std::string diff = unified_diff(a, b, "k", static_cast<int>(random() % 4));
    ASSERT_EQ(applied(a, diff, &changed), b) << diff;
    const auto x = lines(a), y = lines(b);
    std::vector<std::vector<int>> common(x.size() + 1, std::vector<int>(y.size() + 1));
    for (std::size_t i = 1; i <= x.size(); ++i)
      for (std::size_t j = 1; j <= y.size(); ++j)
        common[i][j] =
            x[i - 1] == y[j - 1] ? common[i - 1][j - 1] + 1 : std::max(common[i - 1][j], common[i][j - 1]);
    ASSERT_EQ(changed, static_cast<int>(x.size() + y.size()) - 2 * common[x.size()][y.size()]) << a << "---\n"
                                                                                               << b;
  }
}

TEST(Diff, of_a_hundred_thousand_lines_is_quick_and_right) {
  std::string a, b, c;
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    const std::string line = "line " + std::to_string(i * 7919 % 5003) + "\n";
    a += line;
    b += random() % 200 == 0 ? "changed " + std::to_string(i) + "\n" : line;
    c += "other " + std::to_string(random()) + "\n";
    if (i % 3 == 0) c += line;
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(applied(a, unified_diff(a, b, "k")), b);
  EXPECT_EQ(applied(a, unified_diff(a, c, "k")), c);  // nothing alike: the budget ends the search
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace klab::variant
