// SPDX-License-Identifier: Apache-2.0
// Times that others recorded (tests/data/tuning_spaces): of one configuration, A and B are the same kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/files.h"
#include "measure/comparison.h"
#include "measure/interval.h"

namespace klab::measure {
namespace {

struct Count {
  int of = 0, plain = 0, paired = 0, claimed = 0;
};

std::string unpacked(const fs::path& file) {
  const std::string command = "gzip -dc '" + file.string() + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text(1 << 20, '\0');
  std::size_t size = 0;
  while (pipe != nullptr) {
    const std::size_t n = std::fread(text.data() + size, 1, text.size() - size, pipe.get());
    if (n == 0) break;
    size += n;
    if (size == text.size()) text.resize(2 * size);
  }
  text.resize(size);
  return text;
}

/// Welch's test of samples 2 to 16 against 17 to 31: what a tool does that runs one after the other.
bool plain_difference(const std::vector<double>& t) {
  double mean[2] = {0, 0}, variance[2] = {0, 0};
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < 15; ++i) mean[side] += t[static_cast<std::size_t>(2 + 15 * side + i)] / 15;
    for (int i = 0; i < 15; ++i)
      variance[side] += std::pow(t[static_cast<std::size_t>(2 + 15 * side + i)] - mean[side], 2) / 14 / 15;
  }
  const double sum = variance[0] + variance[1];
  if (!(sum > 0)) return mean[0] != mean[1];
  const double degrees = sum * sum / (variance[0] * variance[0] / 14 + variance[1] * variance[1] / 14);
  return std::abs(mean[0] - mean[1]) / std::sqrt(sum) > student_quantile(0.975, degrees);
}

Count count_file(const char* name, std::size_t every) {
  Count n;
  const auto whole = parse_json(unpacked(fs::path(KLAB_SOURCE_DIR) / "tests" / "data" / "tuning_spaces" / name), name);
  if (!whole) return n;
  std::size_t at = 0;
  for (const Json& result : whole->at("results")) {
    if (at++ % every != 0 || result.value("invalidity", "") != "correct") continue;
    const auto times = result.at("times").value("runtimes", std::vector<double>());
    if (times.size() < 32) continue;
    ++n.of;
    n.plain += plain_difference(times);
    // The same samples as seven blocks ABBA, each in a placement of its own: nothing was allocated anew, but there is
    // no other repetition in these data.
    Design design;
    design.seed = at;
    design.looks = {{7, kAlpha}};
    std::vector<Block> blocks;
    for (std::uint32_t b = 0; b < 7; ++b) {
      const double* t = times.data() + 2 + 4 * b;
      Block block;
      block.placement = b;
      block.a = {Letter{t[0], 1, {}}, Letter{t[3], 1, {}}};
      block.b = {Letter{t[1], 1, {}}, Letter{t[2], 1, {}}};
      blocks.push_back(block);
    }
    const Conclusion c = conclude(design, blocks, true);
    n.paired += c.interval.low > 1 || c.interval.high < 1;
    n.claimed += c.verdict == Verdict::faster || c.verdict == Verdict::slower;
  }
  return n;
}

TEST(Recorded, pairs_of_one_configuration_differ_no_more_often_than_said) {
  // One in eight configurations; KLAB_ALL_CONFIGURATIONS=1 takes all of them.
  const std::size_t every = std::getenv("KLAB_ALL_CONFIGURATIONS") != nullptr ? 1 : 8;
  Count all;
  for (const char* file : {"convolution_milo_A100_T4.json.gz", "convolution_milo_MI250X_T4.json.gz",
                           "convolution_milo_W6600_T4.json.gz", "dedispersion_milo_A100_T4.json.gz"}) {
    const Count n = count_file(file, every);
    ASSERT_GT(n.of, 500) << file;
    const auto percent = [&](int k) { return 100.0 * k / n.of; };
    std::printf("%-38s %5d configurations: plain test %5.1f %%, interval without 1 %4.1f %%, claims %4.2f %%\n", file, n.of,
                percent(n.plain), percent(n.paired), percent(n.claimed));
    all.of += n.of, all.plain += n.plain, all.paired += n.paired, all.claimed += n.claimed;
  }
  std::printf("%-38s %5d configurations: plain test %5.1f %%, interval without 1 %4.1f %%, claims %4.2f %%\n", "together", all.of,
              100.0 * all.plain / all.of, 100.0 * all.paired / all.of, 100.0 * all.claimed / all.of);
  EXPECT_GT(all.plain, all.of / 10) << "these data do show what is wrong with one after the other";
  EXPECT_LE(all.paired, all.of * 5 / 100);
  EXPECT_LE(all.claimed, all.of / 100);
}

}  // namespace
}  // namespace klab::measure
