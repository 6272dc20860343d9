// SPDX-License-Identifier: Apache-2.0
// The environment that HIP programs are started with. Captures of real ones: tests/test_hip.py.
#include <gtest/gtest.h>

#include "capture/launch.h"

namespace klab::capture {
namespace {

using Set = std::map<std::string, std::optional<std::string>>;

Set environment(const std::string& shim, const std::map<std::string, std::string>& before) {
  return hsa_environment(shim, [&](const std::string& name) -> std::optional<std::string> {
    const auto it = before.find(name);
    return it != before.end() ? std::optional(it->second) : std::nullopt;
  });
}

TEST(HsaEnvironment, the_shim_is_the_tools_library) {
  const Set set = environment("/x/libklab_hsa.so", {});
  EXPECT_EQ(set.at("HSA_TOOLS_LIB"), "/x/libklab_hsa.so");
  EXPECT_EQ(set.at("HSA_TOOLS_DISABLE_REGISTER"), "1");
}

TEST(HsaEnvironment, a_users_own_tools_come_first) {
  const Set set = environment("/x/libklab_hsa.so", {{"HSA_TOOLS_LIB", "librocprofiler64.so"}});
  EXPECT_EQ(set.at("HSA_TOOLS_LIB"), "librocprofiler64.so /x/libklab_hsa.so");
}

TEST(HsaEnvironment, the_shim_is_named_once) {
  const Set set = environment("/x/libklab_hsa.so", {{"HSA_TOOLS_LIB", "/x/libklab_hsa.so"}});
  EXPECT_EQ(set.count("HSA_TOOLS_LIB"), 0u);
}

TEST(HsaEnvironment, a_users_own_choice_of_registration_stays) {
  const Set set = environment("/x/libklab_hsa.so", {{"HSA_TOOLS_DISABLE_REGISTER", "0"}});
  EXPECT_EQ(set.count("HSA_TOOLS_DISABLE_REGISTER"), 0u);
  EXPECT_EQ(set.at("HSA_TOOLS_ROCPROFILER_V1_TOOLS"), "1") << "else the shim is left out where another tool registers";
  EXPECT_EQ(environment("/x/libklab_hsa.so", {{"HSA_TOOLS_ROCPROFILER_V1_TOOLS", "0"}}).count("HSA_TOOLS_ROCPROFILER_V1_TOOLS"), 0u);
}

// The runtime splits the list at blanks.
TEST(HsaEnvironment, a_path_with_blanks_is_one_name) {
  EXPECT_EQ(environment("/my home/a\"b/libklab_hsa.so", {}).at("HSA_TOOLS_LIB"),
            "/my\\ home/a\\\"b/libklab_hsa.so");
}

}  // namespace
}  // namespace klab::capture
