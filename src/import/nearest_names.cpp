// SPDX-License-Identifier: Apache-2.0
// Names to offer when none matched.
#include <algorithm>
#include <cctype>
#include <numeric>

#include "import/dispatch_list.h"

namespace klab::import {
namespace {

// Longer names are compared by their start only; the cost is quadratic and a kernel's name may be a mangled
// novel.
constexpr std::size_t kCompared = 256;

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kCompared))
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Levenshtein distance, two rows.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// The pattern may be a regular expression; what is compared is the text in it.
std::string literal_of(std::string_view pattern) {
  std::string out;
  for (const char c : pattern)
    if (std::string_view("^$.*+?()[]{}|\\").find(c) == std::string_view::npos) out += c;
  return out.empty() ? std::string(pattern) : out;
}

}  // namespace

std::vector<std::string> nearest_names(const std::vector<std::string>& names, std::string_view pattern,
                                       std::size_t limit) {
  const std::string wanted = folded(literal_of(pattern));
  struct Scored {
    double score;
    std::size_t at;
  };
  std::vector<Scored> scored;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = folded(names[i]);
    double score = 0;
    if (name.empty() || wanted.empty()) {
      score = 1;
    } else if (name.find(wanted) != std::string::npos || wanted.find(name) != std::string::npos) {
      // One holds the other: the closer in length, the better, and always ahead of a mere likeness.
      const auto shorter = static_cast<double>(std::min(name.size(), wanted.size()));
      score = -shorter / static_cast<double>(std::max(name.size(), wanted.size()));
    } else {
      score = static_cast<double>(edits(name, wanted)) /
              static_cast<double>(std::max(name.size(), wanted.size()));
    }
    scored.push_back({score, i});
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  std::vector<std::string> nearest;
  for (const Scored& s : scored) {
    if (nearest.size() == limit) break;
    if (std::find(nearest.begin(), nearest.end(), names[s.at]) == nearest.end())
      nearest.push_back(names[s.at]);
  }
  return nearest;
}

}  // namespace klab::import
