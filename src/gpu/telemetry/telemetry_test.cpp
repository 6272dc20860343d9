// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/test_util.h"
#include "gpu/telemetry/sources.h"

namespace klab::gpu {
namespace {

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

struct Card {
  fs::path device;
  Card(const fs::path& root, const std::string& name, const std::string& address) : device(root / name / "device") {
    put(device / "vendor", "0x1002\n");
    put(device / "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=" + address + "\n");
    put(device / "power_dpm_force_performance_level", "auto\n");
    put(device / "hwmon/hwmon3/name", "amdgpu\n");
    put(device / "hwmon/hwmon3/freq1_input", "2105000000\n");
    put(device / "hwmon/hwmon3/freq2_input", "1219000000\n");
    put(device / "hwmon/hwmon3/power1_average", "287000000\n");
    put(device / "hwmon/hwmon3/power1_cap", "300000000\n");
    put(device / "hwmon/hwmon3/temp1_input", "61000\n");
  }
  void throttle(std::uint64_t bits) {
    std::string metrics(120, '\0');
    metrics[0] = 120, metrics[2] = 1, metrics[3] = 3;
    std::memcpy(metrics.data() + 112, &bits, 8);
    put(device / "gpu_metrics", metrics);
  }
};

TEST(Amdgpu, reads_the_kernels_files) {
  TestFolder folder;
  Card card(folder.path(), "card1", "0000:03:00.0");
  card.throttle(0);
  std::string why;
  const auto t = telemetry::open_amdgpu({.uuid = "0000:03:00.0"}, folder.path(), why);
  ASSERT_NE(t, nullptr) << why;
  const TelemetrySample s = t->sample();
  EXPECT_DOUBLE_EQ(s.core_mhz.value(), 2105);
  EXPECT_DOUBLE_EQ(s.memory_mhz.value(), 1219);
  EXPECT_DOUBLE_EQ(s.power_w.value(), 287);
  EXPECT_DOUBLE_EQ(s.temperature_c.value(), 61);
  EXPECT_TRUE(s.reasons.empty());
  EXPECT_EQ(t->facts().at("performance_level"), "auto");
  card.throttle(1);
  EXPECT_THAT(t->sample().reasons, testing::ElementsAre("power cap"));
  EXPECT_TRUE(t->sample().slowdown.empty()) << "the kernel's own cost";
  card.throttle(1ull << 36);
  EXPECT_EQ(t->sample().slowdown, "thermal slowdown");
  put(card.device / "gpu_metrics", "short");
  EXPECT_TRUE(t->sample().reasons.empty());
}

TEST(Amdgpu, does_not_guess_between_two_cards) {
  TestFolder folder;
  Card one(folder.path(), "card0", "0000:03:00.0"), two(folder.path(), "card1", "0000:43:00.0");
  std::string why;
  EXPECT_EQ(telemetry::open_amdgpu({.uuid = "00112233445566778899aabbccddeeff"}, folder.path(), why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("which of 2"));
  EXPECT_NE(telemetry::open_amdgpu({.uuid = "0000:43:00.0"}, folder.path(), why), nullptr);
  EXPECT_EQ(telemetry::open_amdgpu({}, folder.path() / "nothing", why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("no amdgpu card"));
}

TEST(OpenTelemetry, says_why_clocks_cannot_be_observed) {
  std::string why;
  EXPECT_EQ(open_telemetry({.api = "vulkan", .type = "cpu"}, why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("CPU driver"));
  EXPECT_EQ(open_telemetry({.api = "vulkan", .type = "discrete", .vendor_id = 0x8086}, why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("vendor"));
}

}  // namespace
}  // namespace klab::gpu
