// SPDX-License-Identifier: Apache-2.0
// Through the driver API: loads a PTX file that lies beside it (the driver compiles it), changes a variable
// of the module and launches with a packed parameter buffer, in place of an array of pointers. --array: with
// the array.
#include <cuda.h>

#include <fstream>
#include <iterator>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 2, {"--array"});
  device();
  std::ifstream file(program_folder() + "driver_module.ptx", std::ios::binary);
  const std::string ptx{std::istreambuf_iterator<char>(file), {}};
  if (ptx.empty()) die("driver_module.ptx is not beside the program");
  CUmodule module;
  CUfunction kernel;
  CUdeviceptr bias = 0;
  std::size_t bias_bytes = 0;
  DRIVER(driver_function<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, ptx.c_str()));
  DRIVER(driver_function<decltype(&cuModuleGetFunction)>("cuModuleGetFunction")(&kernel, module, "add_bias"));
  DRIVER(driver_function<decltype(&cuModuleGetGlobal)>("cuModuleGetGlobal")(&bias, &bias_bytes, module,
                                                                            "module_bias"));
  const unsigned value = 1000;
  CUDA(cudaMemcpy(reinterpret_cast<void*>(bias), &value, sizeof value, cudaMemcpyHostToDevice));

  std::vector<std::uint32_t> x(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 26);
  unsigned* dx = to_device(x);
  const auto launch = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    struct {
      unsigned char tag;
      alignas(8) unsigned* x;
      unsigned n;
    } packed{static_cast<unsigned char>(r + 1), dx, o.size};
    std::size_t size = 20;  // without the padding at the end
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    void* array[] = {&packed.tag, &packed.x, &packed.n};
    const bool by_array = o.has("--array");
    DRIVER(launch(kernel, blocks(o.size, 256), 1, 1, 256, 1, 1, 0, nullptr, by_array ? array : nullptr,
                  by_array ? nullptr : extra));
    for (std::uint32_t& word : x) word += 1000 * (r + 1);
  }
  CUDA(cudaDeviceSynchronize());
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  return v.finish();
}
