// SPDX-License-Identifier: Apache-2.0
// The kernels that measure what a device can attain (calibrate.cu, calibrate_*.comp): their names, what to bind
// and push, and what they answer. Not here: launching and timing them (worker/calibrate*).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace klab::kernels {

/// CUDA fat binary of calibrate.cu (entry points "klab_NAME"); an empty span in a build without nvcc.
std::span<const std::byte> cuda_calibration_fatbin();

/// Each kernel's last binding is u32 out[kCalibrationOut]. A launch with count 0 does no work and writes there what
/// the kernel is, as compiled for this device.
inline constexpr std::uint32_t kCalibrationOut = 64 * 1024;
struct CalibrationFacts {
  std::uint32_t supported = 0;  // 0: this device's code has no such instructions
  std::uint32_t work_low = 0, work_high = 0;  // memory: bytes of one array a thread and tile; else operations a block
                                              // and iteration (an FMA is two)
  std::uint32_t shape[3] = {0, 0, 0};         // of a matrix instruction: m, n, k; else zeros
  std::uint64_t work() const { return std::uint64_t{work_high} << 32 | work_low; }
};

/// What operands[] of a kernel holds: random values of this type.
enum class Operands : std::uint32_t { none, f16, bf16, tf32, e4m3, int8, f64 };

enum class CalibrationKind { memory, cache, vector, matrix, launch };

struct CalibrationKernel {
  std::string_view name;    // of the kernel
  CalibrationKind kind = CalibrationKind::memory;
  std::string_view figure;  // "read", "fp32"
  std::string_view how;     // what is special about it, for a person: "wgmma"; empty: nothing
  std::uint32_t width = 0;  // memory, cache: bytes of one access of a thread
  std::uint32_t arrays = 0;        // memory, cache: bound before out[]; written first, then read
  std::uint32_t block = 0;         // threads, where they are not the launch's choice; 0: they are
  std::uint32_t shared_bytes = 0;  // dynamic
  Operands operands = Operands::none;  // one array of them is bound before out[]
  bool warpgroup = false;              // one block a multiprocessor, of two warpgroups and what feeds them
  std::uint32_t operand_words = 1u << 16;  // of operands[]: a power of two, or whole stages where it is fed
  bool ceiling_only = false;               // more than any real kernel can sustain: no roof, but a limit
};

/// Memory and cache kernels. A block of T threads takes tiles of T * (bytes a thread and tile) in turn.
struct CalibrationMemoryPush {
  std::uint32_t tiles = 0;   // of each array; 0: tell the facts
  std::uint32_t passes = 1;  // over the arrays
  std::uint32_t shift = 0;   // tiles by which each pass starts later, so that no block reads what it read before
  std::uint32_t report = 0;  // read: out[0] += the sum of all words
  std::uint32_t value = 0;   // write, fill: what is written
  float scale = 0;           // triad: a = b + scale * c
};
/// Vector and matrix kernels.
struct CalibrationComputePush {
  std::uint32_t iterations = 0;  // 0: tell the facts
  std::uint32_t report = 0;      // out[thread of the grid] = its result's bits
  std::uint32_t operand_words = 0;  // a power of two
  std::uint32_t seed = 0;
  float multiplier = 0, addend = 0;
};

/// The vector kernels: chains a thread, and steps of each in one iteration.
inline constexpr std::uint32_t kCalibrationChains = 8, kCalibrationSteps = 16;
/// Words of operands[] that one wgmma stage takes (A: 128 rows, B: 256 rows, of 128 bytes), and how many stages.
inline constexpr std::uint32_t kWgmmaStageBytes = 384 * 128, kWgmmaStages = 4;
inline constexpr std::uint32_t kWgmmaShared = kWgmmaStageBytes * kWgmmaStages + 1024;
/// What the fed kernels go through again and again: 12 MiB, which the last-level cache of any GPU that has them holds.
inline constexpr std::uint32_t kWgmmaFedWords = 256 * kWgmmaStageBytes / 4;
inline constexpr std::uint32_t kBulkStageBytes = 16 * 1024, kBulkStages = 12;
inline constexpr std::uint32_t kBulkShared = kBulkStageBytes * kBulkStages + 128;

namespace calibration {
using enum CalibrationKind;
#define KLAB_MEMORY_ROWS(width)                                                          \
  {"calibrate_read_" #width, memory, "read", "", width, 1},                              \
      {"calibrate_write_" #width, memory, "write", "", width, 1},                        \
      {"calibrate_copy_" #width, memory, "copy", "", width, 2},                          \
      {"calibrate_triad_" #width, memory, "triad", "", width, 3},                        \
      {"calibrate_cache_" #width, cache, "cache_read", "", width, 1}
inline constexpr CalibrationKernel kKernels[] = {
    KLAB_MEMORY_ROWS(4),
    KLAB_MEMORY_ROWS(8),
    KLAB_MEMORY_ROWS(16),
    KLAB_MEMORY_ROWS(32),
    {"calibrate_read_bulk", memory, "read", "bulk copies to shared memory", 16, 1, 32, kBulkShared},
    {"calibrate_copy_bulk", memory, "copy", "bulk copies through shared memory", 16, 2, 32, kBulkShared},
    {.name = "calibrate_fp64", .kind = vector, .figure = "fp64"},
    {.name = "calibrate_fp32", .kind = vector, .figure = "fp32"},
    {.name = "calibrate_fp16", .kind = vector, .figure = "fp16", .how = "pairs"},
    {.name = "calibrate_bf16", .kind = vector, .figure = "bf16", .how = "pairs"},
    {.name = "calibrate_int8", .kind = vector, .figure = "int8", .how = "dot product of four"},
    {.name = "calibrate_int32", .kind = vector, .figure = "int32"},
    {.name = "calibrate_mma_f16", .kind = matrix, .figure = "fp16", .how = "mma", .block = 256, .operands = Operands::f16},
    {.name = "calibrate_mma_bf16", .kind = matrix, .figure = "bf16", .how = "mma", .block = 256, .operands = Operands::bf16},
    {.name = "calibrate_mma_tf32", .kind = matrix, .figure = "tf32", .how = "mma", .block = 256, .operands = Operands::tf32},
    {.name = "calibrate_mma_e4m3", .kind = matrix, .figure = "fp8", .how = "mma", .block = 256, .operands = Operands::e4m3},
    {.name = "calibrate_mma_int8", .kind = matrix, .figure = "int8", .how = "mma", .block = 256, .operands = Operands::int8},
    {.name = "calibrate_mma_f64", .kind = matrix, .figure = "fp64", .how = "mma", .block = 256, .operands = Operands::f64},
#define KLAB_WGMMA_ROW(type, name_of_figure)                                                                    \
  {.name = "calibrate_wgmma_fed_" #type,                                                                        \
   .kind = matrix,                                                                                              \
   .figure = name_of_figure,                                                                                    \
   .how = "wgmma, operands from the cache",                                                                     \
   .block = 288,                                                                                                \
   .shared_bytes = kWgmmaShared,                                                                                \
   .operands = Operands::type,                                                                                  \
   .warpgroup = true,                                                                                           \
   .operand_words = kWgmmaFedWords},                                                                            \
  {                                                                                                             \
    .name = "calibrate_wgmma_" #type, .kind = matrix, .figure = name_of_figure,                                 \
    .how = "wgmma, operands stay", .block = 256, .shared_bytes = kWgmmaShared, .operands = Operands::type,      \
    .warpgroup = true, .ceiling_only = true                                                                     \
  }
    KLAB_WGMMA_ROW(f16, "fp16"),
    KLAB_WGMMA_ROW(bf16, "bf16"),
    KLAB_WGMMA_ROW(tf32, "tf32"),
    KLAB_WGMMA_ROW(e4m3, "fp8"),
    KLAB_WGMMA_ROW(int8, "int8"),
#undef KLAB_WGMMA_ROW
    {.name = "calibrate_empty", .kind = launch, .figure = "empty"},
    {.name = "calibrate_fill", .kind = launch, .figure = "fill", .arrays = 1},
};
#undef KLAB_MEMORY_ROWS
}  // namespace calibration

/// All of them; not each API has each.
constexpr std::span<const CalibrationKernel> calibration_kernels() { return calibration::kKernels; }

static_assert(sizeof(CalibrationFacts) == 24 && sizeof(CalibrationMemoryPush) == 24);
static_assert(sizeof(CalibrationComputePush) == 24);

}  // namespace klab::kernels
