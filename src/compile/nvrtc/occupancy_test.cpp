// SPDX-License-Identifier: Apache-2.0
// Our occupancy against the toolkit's own calculator, where the toolkit's header is there.
#include <gtest/gtest.h>

#include "compile/occupancy.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define HAVE_CALCULATOR 1
#endif

namespace klab::compile {
namespace {

KernelFacts kernel(std::uint32_t registers, std::uint64_t shared) {
  KernelFacts k;
  k.registers = registers;
  k.shared_bytes = shared;
  return k;
}

TEST(Occupancy, known_cases_of_the_programming_guide_hold) {
  const auto full = occupancy(kernel(32, 0), 90, 256, 0);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->blocks, 8u);
  EXPECT_EQ(full->fraction, 1.0);
  const auto half = occupancy(kernel(64, 0), 90, 256, 0);
  EXPECT_EQ(half->warps, 32u);
  EXPECT_EQ(half->limited_by, "registers");
  EXPECT_EQ(occupancy(kernel(32, 0), 90, 128, 227 * 1024)->blocks, 1u);
  EXPECT_EQ(occupancy(kernel(32, 0), 90, 128, 228 * 1024)->blocks, 0u);
  EXPECT_EQ(occupancy(kernel(32, 0), 90, 32, 0)->limited_by, "blocks");
  EXPECT_EQ(occupancy(kernel(168, 0), 90, 1024, 0)->blocks, 0u);
}

TEST(Occupancy, of_an_architecture_that_is_not_known_nothing_is_said) {
  EXPECT_FALSE(occupancy(kernel(32, 0), 71, 256, 0));
  EXPECT_FALSE(occupancy(KernelFacts{}, 90, 256, 0));
  EXPECT_FALSE(occupancy(kernel(32, 0), 90, 0, 0));
}

TEST(Occupancy, agrees_with_the_toolkits_calculator) {
#ifndef HAVE_CALCULATOR
  GTEST_SKIP() << "cuda_occupancy.h is not installed";
#else
  std::size_t cases = 0;
  for (const std::uint32_t arch : {75u, 80u, 86u, 87u, 89u, 90u, 100u, 103u, 120u, 121u}) {
    const SmLimits limits = sm_limits(arch).value();
    cudaOccDeviceProp device;
    device.computeMajor = static_cast<int>(arch / 10);
    device.computeMinor = static_cast<int>(arch % 10);
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = static_cast<int>(limits.threads);
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = limits.shared_bytes;
    device.sharedMemPerBlockOptin = limits.block_shared_bytes;
    device.reservedSharedMemPerBlock = limits.reserved_shared;
    device.numSms = 100;
    for (const std::uint32_t registers : {16u, 24u, 32u, 40u, 63u, 64u, 72u, 128u, 168u, 255u})
      for (const std::uint32_t threads : {32u, 64u, 96u, 128u, 192u, 256u, 384u, 512u, 1000u, 1024u})
        for (const std::uint64_t shared : {0u, 1u, 1000u, 4096u, 20000u, 48u << 10, 64u << 10, 99u << 10, 200u << 10}) {
          cudaOccFuncAttributes function;
          function.maxThreadsPerBlock = 1024;
          function.numRegs = static_cast<int>(registers);
          function.sharedSizeBytes = 0;
          function.partitionedGCConfig = PARTITIONED_GC_OFF;
          function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          function.maxDynamicSharedSizeBytes = shared;
          function.numBlockBarriers = 1;
          cudaOccDeviceState state;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult theirs{};
          const auto ours = occupancy(kernel(registers, 0), arch, threads, shared);
          ASSERT_TRUE(ours);
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &device, &function, &state, static_cast<int>(threads),
                                                      shared) != CUDA_OCC_SUCCESS)
            theirs.activeBlocksPerMultiprocessor = 0;
          ASSERT_EQ(static_cast<int>(ours->blocks), theirs.activeBlocksPerMultiprocessor)
              << "sm_" << arch << ", " << registers << " registers, " << threads << " threads, " << shared << " B";
          ++cases;
        }
  }
  EXPECT_EQ(cases, 9000u);
#endif
}

}  // namespace
}  // namespace klab::compile
