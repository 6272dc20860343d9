// SPDX-License-Identifier: Apache-2.0
// For tests: the real klab-worker on the fake device, and bundles for its kernels.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/test_worker.h"

namespace klab::worker {

using namespace testing;
using replay::Answer;
using replay::Request;

inline std::string program(const std::string& kernel, const std::string& more = {}) {
  return "klab-fake 1\nkernel " + kernel + "\n" + more;
}

inline std::vector<float> ramp(std::size_t n, float from, float step) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = from + step * static_cast<float>(i);
  return v;
}

inline constexpr std::size_t kElements = 6000;
inline constexpr std::size_t kMany = 300000;  // more than one chunk, and a shorter last one

/// y = a * x over a zeroed y.
inline TestBundle scale_bundle(std::size_t n = kElements) {
  const auto x = ramp(n, 1.0f, 0.25f);
  auto y = x;
  for (auto& v : y) v *= 3.0f;
  TestBundle b;
  b.regions = {{"x", bytes_of(x), bytes_of(x)}, {"y", bytes_of(std::vector<float>(n)), bytes_of(y)}};
  b.code = bytes_of(program("scale"));
  b.push = bytes_of(std::vector<float>{3.0f});
  return b;
}

/// y = a * x + y, in place.
inline TestBundle saxpy_bundle() {
  TestBundle b = scale_bundle();
  const auto x = ramp(kElements, 1.0f, 0.25f), y = ramp(kElements, 7.0f, 0.5f);
  auto after = y;
  for (std::size_t i = 0; i < y.size(); ++i) after[i] = 3.0f * x[i] + y[i];
  b.regions[1] = {"y", bytes_of(y), bytes_of(after)};
  b.code = bytes_of(program("saxpy"));
  return b;
}

/// In place and idempotent, captured when it was already clamped: it changes nothing.
inline TestBundle clamp_bundle() {
  std::vector<float> v(1000);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 101) / 100.0f;
  TestBundle b;
  b.regions = {{"v", bytes_of(v), bytes_of(v)}};
  b.code = bytes_of(program("clamp"));
  return b;
}

class FakeWorker : public ::testing::Test {
 protected:
  TempFolder folder;
  fs::path bundle = folder.path / "t.klab";
  TestWorker worker;

  void write(const TestBundle& b) {
    const auto status = b.write(bundle);
    ASSERT_TRUE(status) << status.error().what;
  }
  replay::VariantCode variant(const std::string& text) {
    const fs::path file = folder.path / (new_id() + ".txt");
    EXPECT_TRUE(write_file_atomic(file, text));
    return {.label = "variant", .code = file};
  }
  Request request(const std::string& verb, std::vector<replay::VariantCode> variants = {}) {
    return {.verb = verb, .bundle = bundle, .variants = std::move(variants)};
  }
  Answer ask(const Request& r) { return ask(worker, r); }
  Answer ask(TestWorker& w, const Request& r) {
    auto a = w.ask(r);
    EXPECT_TRUE(a) << a.error().what;
    return a.value_or(Answer{});
  }
  Answer replay_variant(const std::string& text) { return ask(request("replay", {variant(text)})); }
};

}  // namespace klab::worker
