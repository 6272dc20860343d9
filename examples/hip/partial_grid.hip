// SPDX-License-Identifier: Apache-2.0
// A 3-D grid counted in work-items that is no multiple of the block: the last blocks of each direction are
// partial. Its code object is loaded from a file beside the program.
#include <hip/hip_ext.h>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 37, 2);
  device();
  const unsigned width = o.size, height = 13, depth = 5;
  hipModule_t module;
  hipFunction_t function;
  HIP(hipModuleLoad(&module, (program_folder() + "partial_grid.hsaco").c_str()));
  HIP(hipModuleGetFunction(&function, module, "fill_volume"));
  std::vector<std::uint32_t> expected(std::size_t{width} * height * depth);
  // Beyond the exact grid lies memory that a replay of whole blocks would write.
  const std::vector<std::uint32_t> guard(4096, 0x5a5a5a5au);
  std::vector<std::uint32_t> all = expected;
  all.insert(all.end(), guard.begin(), guard.end());
  unsigned* out = to_device(all);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    unsigned seed = r + 3, w = width, h = height;
    void* arguments[] = {&out, &w, &h, &seed};
    HIP(hipExtModuleLaunchKernel(function, width, height, depth, 16, 4, 2, 0, nullptr, arguments, nullptr,
                                 nullptr, nullptr, 0));
    for (unsigned z = 0; z < depth; ++z)
      for (unsigned y = 0; y < height; ++y)
        for (unsigned x = 0; x < width; ++x)
          expected[(z * height + y) * width + x] += seed * (x + 1) + 1000 * y + 1000000 * z;
  }
  const auto got = to_host(out, all.size());
  Verdict v;
  v.compare("out", std::vector<std::uint32_t>(got.begin(), got.begin() + static_cast<long>(expected.size())),
            expected);
  v.compare("guard", std::vector<std::uint32_t>(got.begin() + static_cast<long>(expected.size()), got.end()),
            guard);
  return v.finish();
}
