// SPDX-License-Identifier: Apache-2.0
// Unified diffs: Myers' linear-space algorithm on interned lines, with a work budget.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "variant/variant.h"

namespace klab::variant {
namespace {

constexpr std::int64_t kBudget = 60'000'000;  // diagonal steps, about half a second
constexpr int kNever = -1'000'000'000;        // a diagonal that no path reaches

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

class Differ {
 public:
  Differ(std::vector<int> a, std::vector<int> b)
      : deleted(a.size()), inserted(b.size()), a_(std::move(a)), b_(std::move(b)) {
    const std::size_t diagonals = a_.size() + b_.size() + 5;
    forward_.resize(2 * diagonals + 1), backward_.resize(2 * diagonals + 1);
    middle_ = static_cast<int>(diagonals);
  }
  std::vector<char> deleted, inserted;

  void run() {
    std::vector<Box> todo{{0, static_cast<int>(a_.size()), 0, static_cast<int>(b_.size())}};
    while (!todo.empty()) {
      Box box = todo.back();
      todo.pop_back();
      while (box.a0 < box.a1 && box.b0 < box.b1 && a_[box.a0] == b_[box.b0]) ++box.a0, ++box.b0;
      while (box.a0 < box.a1 && box.b0 < box.b1 && a_[box.a1 - 1] == b_[box.b1 - 1]) --box.a1, --box.b1;
      const bool both = box.a0 < box.a1 && box.b0 < box.b1;
      const auto split = both ? middle_point(box) : std::nullopt;
      if (split) {
        todo.push_back({box.a0, split->first, box.b0, split->second});
        todo.push_back({split->first, box.a1, split->second, box.b1});
      } else {
        std::fill(deleted.begin() + box.a0, deleted.begin() + box.a1, 1);
        std::fill(inserted.begin() + box.b0, inserted.begin() + box.b1, 1);
      }
    }
  }

 private:
  struct Box {
    int a0, a1, b0, b1;
  };

  // The furthest point on diagonal k after one more edit, of paths that stay inside; kNever when there is
  // none.
  static int step(const std::vector<int>& reach, int at, int k, int d, int n, int m) {
    if (d == 0) return 0;
    const auto inside = [&](int x) { return x >= 0 && x <= n && x - k >= 0 && x - k <= m; };
    const int down = k < d ? reach[at + 1] : kNever, right = k > -d ? reach[at - 1] + 1 : kNever;
    int best = kNever;
    if (inside(down)) best = down;
    if (inside(right) && right > best) best = right;
    return best;
  }

  // A point that a shortest edit path passes through, neither corner. Empty: the budget is spent.
  std::optional<std::pair<int, int>> middle_point(const Box& box) {
    const int n = box.a1 - box.a0, m = box.b1 - box.b0, delta = n - m;
    const bool odd = (delta & 1) != 0;
    for (int d = 0; d <= (n + m + 1) / 2; ++d) {
      if ((budget_ -= 2 * (d + 1)) < 0) return std::nullopt;
      for (int k = -d; k <= d; k += 2) {
        int x = step(forward_, middle_ + k, k, d, n, m);
        if (x != kNever)
          while (x < n && x - k < m && a_[box.a0 + x] == b_[box.b0 + x - k]) ++x;
        forward_[middle_ + k] = x;
        const int back = delta - k;
        if (odd && x != kNever && back >= -(d - 1) && back <= d - 1 && backward_[middle_ + back] != kNever &&
            x + backward_[middle_ + back] >= n)
          return std::pair(box.a0 + x, box.b0 + x - k);
      }
      for (int k = -d; k <= d; k += 2) {
        int x = step(backward_, middle_ + k, k, d, n, m);
        if (x != kNever)
          while (x < n && x - k < m && a_[box.a1 - 1 - x] == b_[box.b1 - 1 - (x - k)]) ++x;
        backward_[middle_ + k] = x;
        const int fore = delta - k;
        if (!odd && x != kNever && fore >= -d && fore <= d && forward_[middle_ + fore] != kNever &&
            x + forward_[middle_ + fore] >= n)
          return std::pair(box.a1 - x, box.b1 - (x - k));
      }
    }
    return std::nullopt;
  }

  std::vector<int> a_, b_, forward_, backward_;
  int middle_ = 0;
  std::int64_t budget_ = kBudget;
};

void put(std::string& out, char mark, std::string_view line) {
  out += mark;
  out += line;
  if (line.back() != '\n') out += "\n\\ No newline at end of file\n";
}

std::string range(std::size_t start, std::size_t count) {
  // An empty range names the line before it.
  if (count == 1) return std::to_string(start + 1);
  return fmt::format("{},{}", count == 0 ? start : start + 1, count);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, const std::string& name,
                         int context_lines) {
  if (before == after) return {};
  const auto a = lines_of(before), b = lines_of(after);
  std::unordered_map<std::string_view, int> numbers;
  const auto numbered = [&](const std::vector<std::string_view>& lines) {
    std::vector<int> out;
    out.reserve(lines.size());
    for (std::string_view line : lines)
      out.push_back(numbers.emplace(line, static_cast<int>(numbers.size())).first->second);
    return out;
  };
  auto left = numbered(a), right = numbered(b);
  Differ differ(std::move(left), std::move(right));
  differ.run();

  const std::size_t context = static_cast<std::size_t>(std::max(context_lines, 0));
  std::string out = fmt::format("--- {}\n+++ {}\n", name, name);
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && !differ.deleted[i] && !differ.inserted[j]) {
      ++i, ++j;
      continue;
    }
    // A hunk: from here back over the context, on to where more than two contexts are equal.
    const std::size_t lead = std::min({context, i, j});
    const std::size_t i0 = i - lead, j0 = j - lead;
    std::string body;
    for (std::size_t k = i0; k < i; ++k) put(body, ' ', a[k]);
    for (;;) {
      while (i < a.size() && differ.deleted[i]) put(body, '-', a[i++]);
      while (j < b.size() && differ.inserted[j]) put(body, '+', b[j++]);
      std::size_t equal = 0;
      while (i + equal < a.size() && j + equal < b.size() && !differ.deleted[i + equal] &&
             !differ.inserted[j + equal] && equal <= 2 * context)
        ++equal;
      const bool at_end = i + equal == a.size() && j + equal == b.size();
      const bool last = at_end || equal > 2 * context;
      const std::size_t shown = last ? std::min(equal, context) : equal;
      for (std::size_t k = 0; k < shown; ++k) put(body, ' ', a[i + k]);
      i += shown, j += shown;
      if (last) break;
    }
    out += fmt::format("@@ -{} +{} @@\n", range(i0, i - i0), range(j0, j - j0));
    out += body;
  }
  return out;
}

}  // namespace klab::variant
