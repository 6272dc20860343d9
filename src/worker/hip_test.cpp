// SPDX-License-Identifier: Apache-2.0
// The real klab-worker on a HIP device: a GPU, or the simulated one. Skipped where there is neither. On the simulated one
// times mean nothing, and none is looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "worker/test_worker.h"

namespace klab::worker {
namespace {

using namespace testing;
using bundle::MemoryKind;
using bundle::ProofState;
using replay::AddressMode;
using replay::Answer;
using replay::Outcome;
using replay::Request;
using ::testing::HasSubstr;
using validate::Correctness;

constexpr std::uint64_t kX = 0x230000000000, kY = 0x230000100000;

/// With the simulated GPU's driver library first, where there is one.
TestWorker::Environment environment() {
  TestWorker::Environment out;
  const char* named = std::getenv("KLAB_SIM");
  const fs::path folder = named != nullptr ? fs::path(named) : fs::path(KLAB_BUILD_DIR) / "sim";
  std::error_code ec;
  if (fs::exists(folder / "libhsakmt.so.1", ec) && (named != nullptr || !fs::exists("/dev/kfd", ec)))
    out["LD_LIBRARY_PATH"] = folder.string();
  return out;
}

class HipWorker : public ::testing::Test {
 protected:
  TempFolder folder;
  fs::path bundle = folder.path / "t.klab";
  std::optional<TestWorker> own;
  static bundle::DeviceIdentity& device() {
    static bundle::DeviceIdentity identity;
    return identity;
  }
  static std::string& reason() {
    static std::string text = [] {
      TestWorker w(environment());
      const auto a = w.ask({.verb = "devices"});
      if (!a) return a.error().what;
      std::string why = "this build has no HIP backend";
      for (const auto& d : a->devices) {
        if (d.value("api", "") != "hip") continue;
        if (!d.contains("error")) {
          device() = d.at("identity").get<bundle::DeviceIdentity>();
          return std::string();
        }
        why = d.at("error").value("what", "?");
      }
      return why;
    }();
    return text;
  }
  void SetUp() override {
    if (!reason().empty()) GTEST_SKIP() << "no HIP device, and no simulated one: " << reason();
    own.emplace(environment());
  }
  void use(TestWorker::Environment more) {
    auto all = environment();
    for (auto& [name, value] : more) all[name] = value;
    own.emplace(std::move(all));
  }

  TestBundle hip_bundle(const std::string& kernel) {
    TestBundle b;
    const auto code = read_file(fs::path(KLAB_BUILD_DIR) / "src/gpu/hip_test_kernels.hsaco");
    EXPECT_TRUE(code) << "hip_test_kernels.hsaco";
    if (code) b.code = bytes_of(std::string_view(*code));
    b.kind = "hsaco";
    b.device = device();
    b.entry_point = kernel;
    return b;
  }
  TestBundle axpy() {
    constexpr std::uint32_t kCount = 3001;
    TestBundle b = hip_bundle("axpy");
    std::vector<float> x(kCount), y(kCount), after(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      x[i] = 0.25f * static_cast<float>(i % 512) + 1;
      y[i] = static_cast<float>(i % 100);
      after[i] = 2.0f * x[i] + y[i];
    }
    b.regions = {{"x", bytes_of(x), bytes_of(x), kX, false}, {"y", bytes_of(y), bytes_of(after), kY, false}};
    b.arguments.resize(24);
    const std::uint64_t pointers[] = {kY, kX};
    const float a = 2;
    std::memcpy(b.arguments.data(), pointers, 16);
    std::memcpy(b.arguments.data() + 16, &a, 4);
    std::memcpy(b.arguments.data() + 20, &kCount, 4);
    b.arguments.resize(80, std::byte{0xee});  // hidden arguments of a process that is gone
    b.grid = {(kCount + 63) / 64, 1, 1};
    return b;
  }
  void write(const TestBundle& b) {
    const auto status = b.write(bundle);
    ASSERT_TRUE(status) << status.error().what;
  }
  Answer ask(const Request& r) {
    auto a = own->ask(r, 280'000);
    EXPECT_TRUE(a) << a.error().what;
    if (a && a->error) std::fprintf(stderr, "note: %s\n", a->error->what.c_str());
    return a.value_or(Answer{});
  }
  Request request(const std::string& verb, std::vector<replay::VariantCode> variants = {}) {
    Request r{.verb = verb, .bundle = bundle, .variants = std::move(variants)};
    r.conditions.cache = replay::CacheState::warm;
    r.conditions.iterations = 3;
    return r;
  }
  Answer variant(const char* kernel) {
    replay::VariantCode v;
    v.label = kernel;
    v.launch.entry_point = kernel;
    return ask(request("replay", {v}));
  }
};

TEST_F(HipWorker, an_in_place_kernel_is_proved_at_its_addresses_and_its_variants_are_told_apart) {
  write(axpy());
  const Answer proof = ask(request("proof"));
  EXPECT_EQ(proof.proof.state, ProofState::equal) << proof.proof.detail;
  EXPECT_EQ(proof.address_mode, AddressMode::exact);
  EXPECT_FALSE(proof.address_by.empty());
  const Answer baseline = ask(request("replay", {{}}));
  ASSERT_EQ(baseline.outcome, Outcome::ok) << (baseline.error ? baseline.error->what : "");
  EXPECT_EQ(baseline.variants.at(0).validation.correctness, Correctness::correct)
      << baseline.variants.at(0).validation.reason;
  EXPECT_EQ(baseline.variants.at(0).restored_bytes_per_iteration, 3001u * 4);
  const Answer right = variant("axpy_strided");
  EXPECT_EQ(right.variants.at(0).validation.correctness, Correctness::correct)
      << right.variants.at(0).validation.reason;
  for (const char* wrong : {"axpy_wrong", "axpy_nothing"}) {
    const Answer a = variant(wrong);
    EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::incorrect) << wrong;
  }
  const Answer missing = variant("axpy_of_another_name");
  EXPECT_EQ(missing.outcome, Outcome::missing_symbol);
}

TEST_F(HipWorker, a_faulting_variant_is_a_device_fault_and_the_worker_leaves_by_itself) {
  write(axpy());
  const Answer a = variant("axpy_fault");
  EXPECT_EQ(a.outcome, Outcome::device_fault);
  const auto status = own->child().wait(std::chrono::seconds(20));
  ASSERT_TRUE(status) << "the worker stayed";
  EXPECT_EQ(status->code, 3) << "it was killed or aborted";
}

TEST_F(HipWorker, an_endless_variant_is_a_timeout_and_the_worker_leaves_by_itself) {
  write(axpy());
  replay::VariantCode v;
  v.launch.entry_point = "axpy_endless";
  Request r = request("replay", {v});
  r.budget_s = 10;
  const Answer a = ask(r);
  EXPECT_EQ(a.outcome, Outcome::timeout);
  EXPECT_TRUE(own->child().wait(std::chrono::seconds(20))) << "the worker stayed";
}

TEST_F(HipWorker, pointers_in_memory_are_rewritten_when_addresses_cannot_be_kept) {
  struct Row {
    std::uint64_t values;
    std::uint32_t count, padding;
  };
  TestBundle b = hip_bundle("scale_rows");
  const std::vector<float> values(100, 3), after(100, 12);
  const std::vector<Row> rows{{kX, 50, 0}, {kX + 200, 50, 0}};
  b.regions = {{"values", bytes_of(values), bytes_of(after), kX, false},
               {"rows", bytes_of(rows), bytes_of(rows), kY, false}};
  b.arguments.resize(16);
  const std::uint32_t count = 2;
  const float by = 4;
  std::memcpy(b.arguments.data(), &kY, 8);
  std::memcpy(b.arguments.data() + 8, &count, 4);
  std::memcpy(b.arguments.data() + 12, &by, 4);
  b.grid = {2, 1, 1};
  write(b);
  const Answer exact = ask(request("proof"));
  EXPECT_EQ(exact.proof.state, ProofState::equal) << exact.proof.detail;
  EXPECT_EQ(exact.address_mode, AddressMode::exact);
  use({{"KLAB_WORKER_FORCE_RELOCATE", "1"}});
  const Answer relocated = ask(request("proof"));
  EXPECT_EQ(relocated.proof.state, ProofState::equal) << relocated.proof.detail;
  EXPECT_EQ(relocated.address_mode, AddressMode::relocated);
  EXPECT_EQ(relocated.rewritten_words, 3u);
}

TEST_F(HipWorker, module_variables_are_restored_by_name) {
  TestBundle b = hip_bundle("use_variables");
  const std::uint32_t before = 40, later = 41, factor = 3, product = 120;
  auto word = [](std::uint32_t v) { return bytes_of(std::vector<std::uint32_t>{v}); };
  b.regions = {{"out", word(0), word(product), kX, false},
               {"counter", word(before), word(later), 0x7f0000001000, false, MemoryKind::module_variable},
               {"factor", word(factor), word(factor), 0x7f0000002000, false, MemoryKind::constant}};
  b.arguments.resize(8);
  std::memcpy(b.arguments.data(), &kX, 8);
  write(b);
  const Answer a = ask(request("proof"));
  EXPECT_EQ(a.proof.state, ProofState::equal) << a.proof.detail;
}

TEST_F(HipWorker, memory_pools_are_refused_with_the_reason) {
  write(axpy());
  Request r = request("replay", {{}});
  r.conditions.memory = "host";
  const Answer a = ask(r);
  EXPECT_EQ(a.outcome, Outcome::refused);
  ASSERT_TRUE(a.error);
  EXPECT_THAT(a.error->what, HasSubstr("grain"));
}

TEST_F(HipWorker, all_three_conditions_say_what_they_ran) {
  write(axpy());
  for (const auto mode : {replay::Mode::isolated, replay::Mode::repeats}) {
    Request r = request("replay", {{}});
    r.conditions.mode = mode;
    r.conditions.repeats = 2;
    r.validate = false;
    const Answer a = ask(r);
    EXPECT_EQ(a.outcome, Outcome::ok) << (a.error ? a.error->what : "");
    EXPECT_EQ(a.ran.mode, mode);
  }
  Request sustained = request("replay", {{}});
  sustained.conditions.mode = replay::Mode::sustained;
  EXPECT_EQ(ask(sustained).outcome, Outcome::refused) << "the kernel reads what it writes";
}

}  // namespace
}  // namespace klab::worker
