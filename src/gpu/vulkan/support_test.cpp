// SPDX-License-Identifier: Apache-2.0
// What test_support.h declares.
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "base/files.h"
#include "base/ids.h"
#include "gpu/vulkan/test_support.h"

namespace klab::gpu {

std::vector<std::byte> compile_glsl(const std::string& source, std::vector<std::string> options) {
  static std::map<std::string, std::vector<std::byte>> done;
  std::string key = source;
  for (const auto& o : options) key += "\n" + o;
  if (const auto found = done.find(key); found != done.end()) return found->second;
  const fs::path out = fs::temp_directory_path() / ("klab-gpu-test-" + new_id() + ".spv");
  SpawnOptions spawn{.argv = {"glslc", "-fshader-stage=compute", "--target-env=vulkan1.2", "-o", out.string(), "-"}};
  spawn.argv.insert(spawn.argv.end() - 1, options.begin(), options.end());
  auto ran = run_program(spawn, source);
  if (!ran || !ran->status.ok()) {
    ADD_FAILURE() << "glslc: " << (ran ? ran->err : ran.error().what);
    std::abort();
  }
  const std::string text = read_file(out).value();
  fs::remove(out);
  const auto bytes = std::as_bytes(std::span(text));
  return done[key] = {bytes.begin(), bytes.end()};
}

std::unique_ptr<Device> open_device(std::span<const AddressRange> wanted) {
  const char* selector = std::getenv("KLAB_TEST_DEVICE");
  auto api = find_api("vulkan");
  EXPECT_TRUE(api) << api.error().what;
  auto device = (*api)->open(selector != nullptr ? selector : "", wanted);
  EXPECT_TRUE(device) << device.error().what << "\n" << device.error().hint;
  if (!device) std::abort();
  return std::move(*device);
}

LaunchSpec VulkanTest::spec_of(CodeId code, const std::vector<std::pair<MemoryId, std::uint64_t>>& buffers,
                               std::span<const std::byte> push) {
  LaunchSpec spec;
  spec.code = code;
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    spec.layout.push_back({.set = 0, .binding = i, .vulkan_type = 7, .count = 1});
    spec.bindings.push_back({.set = 0, .binding = i, .memory = buffers[i].first, .range = (buffers[i].second + 3) / 4 * 4});
  }
  if (!push.empty()) {
    spec.push_ranges.push_back({0, static_cast<std::uint32_t>(push.size())});
    spec.push_constants.assign(push.begin(), push.end());
  }
  return spec;
}

}  // namespace klab::gpu
