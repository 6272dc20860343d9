// SPDX-License-Identifier: Apache-2.0
// For tests, on any device: what the calibration kernels leave is what they are said to do, so that the bytes and
// operations that are counted were really moved and done.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "kernels/calibration.h"
#include "kernels/kernels.h"

namespace klab::gpu::calibration_checks {

using Words = std::vector<std::uint32_t>;
using kernels::CalibrationComputePush, kernels::CalibrationFacts, kernels::CalibrationKernel,
    kernels::CalibrationKind, kernels::CalibrationMemoryPush, kernels::Operands;

class Checker {
 public:
  explicit Checker(Device& device) : device_(device) { out_ = place(kernels::kCalibrationOut * 4ull); }
  ~Checker() {
    for (const MemoryId m : memories_) device_.release(m);
  }

  MemoryId place(std::uint64_t size) {
    const MemoryRequest request{.size = size};
    auto placed = device_.place(std::span(&request, 1), false);
    EXPECT_TRUE(placed) << placed.error().what;
    if (placed) memories_.push_back(placed->front().id);
    return placed ? placed->front().id : 0;
  }
  MemoryId filled(const Words& words) {
    const MemoryId m = place(words.size() * 4);
    EXPECT_TRUE(device_.upload(m, 0, std::as_bytes(std::span(words))));
    return m;
  }
  Words read(MemoryId m, std::size_t words) {
    Words got(words);
    EXPECT_TRUE(device_.download(m, 0, std::as_writable_bytes(std::span(got))));
    return got;
  }

  /// Runs it once with out[] zeroed before, and gives out[]. An error of preparing is the answer.
  template <class Push>
  Result<Words> launch(const CalibrationKernel& k, const std::vector<std::pair<MemoryId, std::uint64_t>>& arrays,
                       const Push& push, std::uint32_t grid) {
    LaunchSpec spec;
    const auto code = device_.builtin_kernel(k.name);
    if (code.empty()) return fail(ErrorCode::unsupported, "not in this API");
    KLAB_TRY(spec.code, device_.load(code));
    spec.grid = {grid, 1, 1};
    if (k.block != 0 && device_.identity().api != "vulkan") spec.block = {k.block, 1, 1};
    spec.dynamic_shared_bytes = k.shared_bytes;
    auto bound = arrays;
    bound.emplace_back(out_, kernels::kCalibrationOut * 4ull);
    for (std::uint32_t i = 0; i < bound.size(); ++i) {
      spec.layout.push_back({.set = 0, .binding = i, .vulkan_type = 7, .count = 1});
      spec.bindings.push_back({.binding = i, .memory = bound[i].first, .range = bound[i].second});
    }
    spec.push_ranges.push_back({0, sizeof push});
    const auto bytes = std::as_bytes(std::span(&push, 1));
    spec.push_constants.assign(bytes.begin(), bytes.end());
    KLAB_TRY(const LaunchId id, device_.prepare(spec));
    const Step steps[] = {Step::fill_of(out_, 0, kernels::kCalibrationOut * 4ull, 0), Step::launch_of(id, false)};
    KLAB_TRY_VOID(device_.run(steps, 60'000'000'000));
    device_.discard(id);
    return read(out_, kernels::kCalibrationOut);
  }
  Result<CalibrationFacts> facts(const CalibrationKernel& k,
                                 const std::vector<std::pair<MemoryId, std::uint64_t>>& arrays) {
    KLAB_TRY(const Words words, launch(k, arrays, CalibrationMemoryPush{}, 1));
    const CalibrationFacts f{words[0], words[1], words[2], {words[3], words[4], words[5]}};
    if (f.supported != 1) return fail(ErrorCode::unsupported, "no such instructions");
    return f;
  }

 private:
  Device& device_;
  MemoryId out_ = 0;
  std::vector<MemoryId> memories_;
};

inline std::uint32_t fill_word(std::uint32_t i, std::uint32_t seed) {
  std::uint32_t x = i * 0x9e3779b9u + seed;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) * 0x735a2d97u;
  return (x >> 9) | 0x3f800000u;
}

/// `checked`: names of the kernels that were; those that this device lacks are left out.
inline void check_memory(Device& device, std::vector<std::string>& checked) {
  constexpr std::size_t kWords = 1u << 20, kSpare = 64;
  for (const CalibrationKernel& k : kernels::calibration_kernels()) {
    if (k.arrays == 0) continue;
    SCOPED_TRACE(k.name);
    Checker c(device);
    std::vector<std::pair<MemoryId, std::uint64_t>> arrays;
    std::vector<Words> before;
    for (std::uint32_t a = 0; a < k.arrays; ++a) {
      Words words(kWords + kSpare);
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = fill_word(static_cast<std::uint32_t>(i), 77 + a);
      arrays.emplace_back(c.filled(words), words.size() * 4);
      before.push_back(std::move(words));
    }
    const auto facts = c.facts(k, arrays);
    if (!facts) continue;
    const std::uint64_t tile = facts->work() * (k.block != 0 ? k.block : kernels::kThreads);
    ASSERT_EQ(kWords * 4 % tile, 0u) << tile;
    CalibrationMemoryPush push{.tiles = static_cast<std::uint32_t>(kWords * 4 / tile),
                               .report = 1,
                               .value = 0x40490fdb,
                               .scale = 0.75f};
    const bool sums = k.figure == "read" || k.figure == "cache_read";
    if (sums && k.block == 0) push.passes = 3, push.shift = 5;
    const auto out = c.launch(k, arrays, push, 7);
    ASSERT_TRUE(out) << out.error().what;
    const Words after = c.read(arrays[0].first, kWords + kSpare);
    std::size_t wrong = 0, spare_wrong = 0;
    if (sums && k.block == 0) {
      const std::uint32_t sum = std::accumulate(before[0].begin(), before[0].begin() + kWords, 0u);
      EXPECT_EQ(out->at(0), 3 * sum);
    }
    for (std::size_t i = 0; i < kWords; ++i) {
      std::uint32_t wanted = before[0][i], other = wanted;
      if (k.figure == "fill") wanted = other = fill_word(static_cast<std::uint32_t>(i), push.value);
      if (k.figure == "write") wanted = other = push.value;
      if (k.figure == "copy") wanted = other = before[1][i];
      if (k.figure == "triad") {
        const auto b = std::bit_cast<float>(before[1][i]), x = std::bit_cast<float>(before[2][i]);
        wanted = std::bit_cast<std::uint32_t>(std::fma(x, 0.75f, b));
        const volatile float product = x * 0.75f;  // rounded twice, where the device does not fuse
        other = std::bit_cast<std::uint32_t>(product + b);
      }
      wrong += after[i] != wanted && after[i] != other;
    }
    for (std::size_t i = kWords; i < kWords + kSpare; ++i) spare_wrong += after[i] != before[0][i];
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(spare_wrong, 0u) << "words past the last tile";
    checked.emplace_back(k.name);
  }
}

inline std::uint32_t fold(std::uint32_t all, std::uint32_t word) { return std::rotl(all, 1) ^ word; }

/// What one thread of a vector kernel leaves after `steps` of each chain.
inline std::uint32_t vector_result(std::string_view figure, std::uint32_t thread, std::uint32_t steps) {
  std::uint32_t all = 0;
  for (std::uint32_t c = 0; c < kernels::kCalibrationChains; ++c) {
    const float start = static_cast<float>(thread % 64 + c) * 0.0625f;
    const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
    std::uint32_t word = 0;
    if (figure == "fp32") {
      float x = start;
      for (std::uint32_t s = 0; s < steps; ++s) x = x * 0.5f + 1.0f;
      word = bits(x);
    } else if (figure == "fp64") {
      double x = start;
      for (std::uint32_t s = 0; s < steps; ++s) x = x * 0.5 + 1.0;
      const auto wide = std::bit_cast<std::uint64_t>(x);
      word = static_cast<std::uint32_t>(wide) ^ static_cast<std::uint32_t>(wide >> 32);
    } else if (figure == "int32") {
      std::uint32_t x = bits(start) | 1u;
      for (std::uint32_t s = 0; s < steps; ++s) x = x * (bits(0.5f) | 1u) + (bits(1.0f) | 1u);
      word = x;
    } else if (figure == "int8") {
      std::uint32_t x = bits(start) | 0x01010101u;
      const std::uint32_t m = bits(0.5f) | 0x01010101u, a = bits(1.0f) | 0x01010101u;
      std::int32_t dot = 0;
      for (int b = 0; b < 32; b += 8) dot += static_cast<std::int8_t>(m >> b) * static_cast<std::int8_t>(a >> b);
      word = x + steps * static_cast<std::uint32_t>(dot);
    } else {
      word = 0x40004000u;  // after so many halvings both rest at 2, which binary16 and bfloat16 spell alike
    }
    all = fold(all, word);
  }
  return all;
}

inline void check_vectors(Device& device, std::vector<std::string>& checked) {
  constexpr std::uint32_t kIterations = 3, kGrid = 5;
  for (const CalibrationKernel& k : kernels::calibration_kernels()) {
    if (k.kind != CalibrationKind::vector) continue;
    SCOPED_TRACE(k.name);
    Checker c(device);
    const auto facts = c.facts(k, {});
    if (!facts) continue;
    const std::uint64_t an_operation = k.figure == "int8" ? 8 : k.figure == "fp16" || k.figure == "bf16" ? 4 : 2;
    EXPECT_EQ(facts->work(), an_operation * kernels::kCalibrationChains * kernels::kCalibrationSteps * kernels::kThreads);
    const CalibrationComputePush push{
        .iterations = kIterations, .report = 1, .seed = 1, .multiplier = 0.5f, .addend = 1.0f};
    const auto out = c.launch(k, {}, push, kGrid);
    ASSERT_TRUE(out) << out.error().what;
    std::size_t wrong = 0;
    for (std::uint32_t t = 0; t < kGrid * kernels::kThreads; ++t)
      wrong += out->at(t) != vector_result(k.figure, t % kernels::kThreads, kIterations * kernels::kCalibrationSteps);
    EXPECT_EQ(wrong, 0u) << std::hex << out->at(0) << " instead of "
                         << vector_result(k.figure, 0, kIterations * kernels::kCalibrationSteps);
    checked.emplace_back(k.name);
  }
}

/// On operands that are all one each sum is the number of its products, wherever the elements lie.
inline void check_matrices(Device& device, std::vector<std::string>& checked) {
  constexpr std::uint32_t kIterations = 3, kGrid = 3;
  for (const CalibrationKernel& k : kernels::calibration_kernels()) {
    if (k.kind != CalibrationKind::matrix) continue;
    SCOPED_TRACE(k.name);
    Checker c(device);
    Words ones(k.operand_words);
    for (std::size_t i = 0; i < ones.size(); ++i)
      ones[i] = k.operands == Operands::f16    ? 0x3c003c00
                : k.operands == Operands::bf16 ? 0x3f803f80
                : k.operands == Operands::tf32 ? 0x3f800000
                : k.operands == Operands::e4m3 ? 0x38383838
                : k.operands == Operands::int8 ? 0x01010101
                : i % 2 == 1                   ? 0x3ff00000
                                               : 0;
    const std::vector<std::pair<MemoryId, std::uint64_t>> arrays{{c.filled(ones), ones.size() * 4}};
    const auto facts = c.facts(k, arrays);
    if (!facts) continue;
    const std::uint64_t m = facts->shape[0], n = facts->shape[1], depth = facts->shape[2];
    const std::uint64_t instructions = facts->work() / (2 * m * n * depth);  // a block and iteration
    std::uint64_t sums = 0, products = 0, words = 1;  // of a thread: 32-bit or 64-bit sums; products in each
    if (k.warpgroup) {
      sums = m * n / 128;
      products = instructions / 2 * depth * kIterations;
    } else {
      words = k.operands == Operands::f64 ? 2 : 1;
      const std::uint64_t accumulators = instructions / (k.block / 32) / 4;
      sums = accumulators * m * n / 32;
      products = 4 * depth * kIterations;
    }
    std::uint32_t all = 0;
    for (std::uint64_t s = 0; s < sums; ++s) {
      if (words == 2) {
        const auto wide = std::bit_cast<std::uint64_t>(static_cast<double>(products));
        all = fold(fold(all, static_cast<std::uint32_t>(wide)), static_cast<std::uint32_t>(wide >> 32));
      } else {
        all = fold(all, k.operands == Operands::int8 ? static_cast<std::uint32_t>(products)
                                                     : std::bit_cast<std::uint32_t>(static_cast<float>(products)));
      }
    }
    const CalibrationComputePush push{.iterations = kIterations, .report = 1, .operand_words = k.operand_words, .seed = 1};
    const auto out = c.launch(k, arrays, push, kGrid);
    ASSERT_TRUE(out) << out.error().what;
    std::size_t wrong = 0;
    const std::uint32_t threads = kGrid * (k.warpgroup ? 256 : k.block);
    for (std::uint32_t t = 0; t < threads; ++t) wrong += out->at(t) != all;
    EXPECT_EQ(wrong, 0u) << std::hex << out->at(0) << " instead of " << all;
    checked.emplace_back(k.name);
  }
}

}  // namespace klab::gpu::calibration_checks
