// SPDX-License-Identifier: Apache-2.0
// Opens the device and a buffer, submits an empty command buffer, and exits: there is nothing to capture.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 16, 1);
  Gpu gpu;
  const Buffer b = gpu.buffer(o.size * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  VkCommandBuffer c = gpu.begin();
  vkCmdFillBuffer(c, b.handle, 0, VK_WHOLE_SIZE, 7);
  barrier(c);
  gpu.run(c);
  return finish(checksum(b.as<std::uint32_t>()), b.as<std::uint32_t>()[0] != 7, 1);
}
