// SPDX-License-Identifier: Apache-2.0
// Klab's own device kernels: their code and what to bind and push. README.md has the interface of each in a
// table. Not here: launching them (worker/), and any GPU API.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace klab::kernels {

/// SPIR-V 1.3 (Vulkan 1.1) of kernel `name`, entry point "main"; an empty span when there is none.
/// Names: kToolKernels, and those of calibration.h. The bytes live as long as the program.
std::span<const std::byte> spirv(std::string_view name);
/// The tools of replay: each API that has any of them has them under these names ("patch" not in Vulkan, "clock" in CUDA only). The
/// kernels of calibration.h come besides.
inline constexpr std::string_view kToolKernels[] = {"hash",  "hash_address", "compare", "compare_values",
                                                    "flush", "poison",       "patch",   "clock"};
/// CUDA fat binary of all tools (klab.cu; entry points "klab_NAME", and "klab_hash_finish", "klab_gate"
/// that only gpu/cuda launches); an empty span in a build without nvcc.
std::span<const std::byte> cuda_fatbin();
/// HIP code object of all tools, or of all calibration kernels, for the processor of `arch` ("gfx90a:sramecc+:xnack-"); an
/// empty span when this build has none for it. Entry points as in cuda_fatbin(), and "klab_copy", "klab_fill",
/// "klab_gws_init" that only gpu/hip launches.
std::span<const std::byte> hip_code(std::string_view arch, bool calibration);

/// Largest chunk of the hash kernels and window of one compare, flush or poison launch. Mesa's CPU driver
/// silently ends a shader's loops after 65,535 rounds, so more would be cut short there.
inline constexpr std::uint32_t kMaxHashChunk = 32u << 20;
inline constexpr std::uint64_t kMaxWindow = 1ull << 32;

inline constexpr std::uint32_t kThreads = 256;  // workgroup size of all of them, in x

/// 128 bits of one chunk, position-dependent. Not XXH3: comparable only with other values of these kernels.
using Hash = std::array<std::uint32_t, 4>;

/// "hash". Bindings: 0 the data (readonly), 1 HashChunk[], 2 Hash[] (one for each chunk). One workgroup a
/// chunk.
struct HashChunk {
  std::uint32_t offset = 0;  // bytes into binding 0, a multiple of 4
  std::uint32_t size =
      0;  // bytes, up to kMaxHashChunk; the last word may be read whole, so bind a range rounded up to 4
};
/// "hash_address" (needs device addresses). Bindings: 0 HashAddressChunk[], 1 Hash[].
struct HashAddressChunk {
  std::uint64_t address = 0;  // a multiple of 4
  std::uint32_t size = 0;     // bytes, up to kMaxHashChunk
  std::uint32_t reserved = 0;
};
/// Push constants of both hash kernels. The grid may be x by y workgroups, x*y >= count, for counts over
/// 65,535.
struct HashPush {
  std::uint32_t count = 0;  // chunks of this launch
  std::uint32_t first = 0;  // first chunk of this launch: reads and writes elements first .. first+count-1
};

/// The same value on the host, for tests and for memory that the host sees anyway.
Hash hash_on_host(std::span<const std::byte> bytes);

/// "compare". Bindings: 0 a, 1 b (both readonly), 2 CompareResult[] (first fill it: see CompareResult).
struct ComparePush {
  std::uint32_t a_offset = 0, b_offset = 0;  // bytes, multiples of 4
  std::uint32_t size = 0;                    // bytes, any
  std::uint32_t result = 0;                  // element of binding 2
};
/// Start value: {0, 0xffffffff}.
struct CompareResult {
  std::uint32_t differing_bytes = 0;
  std::uint32_t first_offset = 0xffffffff;  // bytes after a_offset
};

/// "compare_values". Bindings: 0 what is there, 1 what should be (each word xored with veil()), 2 ValuesResult[]
/// (first fill it: see there). Element i lies at start + i / per * stride + i % per * size, in bytes modulo 2^32.
/// Any grid; each thread strides over [first, first + count).
enum class ValueType : std::uint32_t { f16, bf16, f32, f64 };  // f64: not in SPIR-V
struct ValuesPush {
  std::uint32_t actual_start = 0, expected_start = 0;
  std::uint32_t first = 0, count = 0, stride = 4, per = 1;
  ValueType type = ValueType::f32;
  std::uint32_t result = 0;  // element of binding 2
  float absolute = 0, relative = 0;
  std::uint32_t key = 0;  // of veil()
};
/// Start value: {0, 0xffffffff, 0}.
struct ValuesResult {
  std::uint32_t beyond = 0;             // elements that |a - e| <= absolute + relative |e| does not hold for
  std::uint32_t first = 0xffffffff;     // the lowest of them
  std::uint32_t different = 0;          // in bits
  std::uint32_t reserved = 0;
};
/// What word `index` of an expected outcome is xored with: a kernel under test must not find the answer in memory.
constexpr std::uint32_t veil(std::uint32_t index, std::uint32_t key) {
  std::uint32_t x = (index ^ key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  return x ^ (x >> 13) ^ key;
}

/// "flush". Binding 0: the buffer that is read and written whole, or with value 0 only read. Any grid; each thread strides over it.
struct FlushPush {
  std::uint32_t words = 0;  // 32-bit words
  std::uint32_t value = 0;  // a different one each time, so that no write can be left out
};

/// "poison". Bindings: 0 the data, 1 the mask: bit i of it (bit i%8 of byte i/8) set: byte i of the window is
/// overwritten by the pattern's byte i%8. Any grid; each thread strides.
struct PoisonPush {
  std::uint32_t offset = 0;  // bytes into binding 0, a multiple of 4
  std::uint32_t size = 0;    // bytes, any
  std::uint32_t pattern[2] = {0, 0};
};

/// "patch" (APIs with module variables only). Binding 0: PatchWord[]. A word that holds `from` gets `to`, or
/// with `back` the other way; any other word stays. Any grid; each thread strides.
struct PatchWord {
  std::uint64_t address = 0;  // a multiple of 8
  std::uint64_t from = 0, to = 0;
};
struct PatchPush {
  std::uint32_t count = 0, back = 0;
};

/// "clock" (CUDA only). Binding 0: ClockReading[]. Any grid: each block reads the counters of the multiprocessor that it runs
/// on and writes them to element `first` + its number; those that no block came to stay as they were.
struct ClockReading {
  std::uint64_t cycles = 0, nanoseconds = 0;
};
struct ClockPush {
  std::uint32_t first = 0;
};
inline constexpr std::uint32_t kClockProcessors = 512;  // more are left out
inline constexpr std::uint32_t kClockBlocks = 1024;     // some for each multiprocessor

/// Workgroups in x for a striding kernel over `bytes`: enough for any GPU, at most 65,535.
constexpr std::uint32_t striding_grid(std::uint64_t bytes) {
  const std::uint64_t groups = (bytes / 4 + kThreads - 1) / kThreads;
  return groups < 1 ? 1 : groups > 16384 ? 16384 : static_cast<std::uint32_t>(groups);
}

static_assert(sizeof(HashChunk) == 8 && sizeof(HashAddressChunk) == 16 && sizeof(HashPush) == 8);
static_assert(sizeof(ValuesPush) == 44 && sizeof(ValuesResult) == 16);
static_assert(sizeof(ComparePush) == 16 && sizeof(CompareResult) == 8 && sizeof(FlushPush) == 8);
static_assert(sizeof(PoisonPush) == 16 && sizeof(PatchWord) == 24 && sizeof(PatchPush) == 8);

}  // namespace klab::kernels
