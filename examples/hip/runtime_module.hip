// SPDX-License-Identifier: Apache-2.0
// Source compiled by hiprtc while the program runs, loaded as a module and launched with a packed argument
// buffer.
#include <hip/hiprtc.h>

#include "common.h"

using namespace example;

constexpr char kSource[] = R"(
extern "C" __global__ void blend(const float* a, const float* b, float* out, float weight, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * weight + b[i];
}
)";

void check_rtc(hiprtcResult result, const char* what) {
  if (result != HIPRTC_SUCCESS) die(std::string(what) + ": " + hiprtcGetErrorString(result));
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 1);
  const std::string arch = std::string("--gpu-architecture=") + device().gcnArchName;
  hiprtcProgram program;
  check_rtc(hiprtcCreateProgram(&program, kSource, "blend.hip", 0, nullptr, nullptr), "hiprtcCreateProgram");
  const char* options[] = {arch.c_str()};
  check_rtc(hiprtcCompileProgram(program, 1, options), "hiprtcCompileProgram");
  std::size_t size = 0;
  check_rtc(hiprtcGetCodeSize(program, &size), "hiprtcGetCodeSize");
  std::vector<char> code(size);
  check_rtc(hiprtcGetCode(program, code.data()), "hiprtcGetCode");
  check_rtc(hiprtcDestroyProgram(&program), "hiprtcDestroyProgram");
  hipModule_t module;
  hipFunction_t function;
  HIP(hipModuleLoadData(&module, code.data()));
  HIP(hipModuleGetFunction(&function, module, "blend"));
  std::fill(code.begin(), code.end(), '\0');  // who captures this must have kept its own copy
  std::vector<float> a = noise_vector(o.size, 1), b = noise_vector(o.size, 2), expected(o.size);
  struct {
    const float *a, *b;
    float* out;
    float weight;
    unsigned n;
  } arguments{to_device(a), to_device(b), allocate<float>(o.size), 0.25f, o.size};
  std::size_t bytes = sizeof arguments;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   HIP_LAUNCH_PARAM_END};
  for (std::uint32_t r = 0; r < o.repeat; ++r)
    HIP(hipModuleLaunchKernel(function, blocks(o.size, 64), 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
  for (std::uint32_t i = 0; i < o.size; ++i) expected[i] = a[i] * 0.25f + b[i];
  Verdict v;
  v.compare("out", to_host(arguments.out, o.size), expected);
  return v.finish();
}
