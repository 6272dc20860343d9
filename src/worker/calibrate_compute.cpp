// SPDX-License-Identifier: Apache-2.0
// Rates of arithmetic: multiply-adds of vectors, and matrix instructions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "measure/summary.h"
#include "worker/calibrate_bench.h"

namespace klab::worker {
namespace {

using kernels::CalibrationComputePush, kernels::CalibrationKernel, kernels::CalibrationKind, kernels::Operands;

constexpr std::uint32_t kRandomWords = 1u << 16;
static_assert(kRandomWords * 4 >= kernels::kWgmmaStageBytes * kernels::kWgmmaStages);
constexpr std::uint32_t kNever = 0x5eed1e55;  // no result has this value but by chance; then one word of out[] is written
constexpr double kLaunchGpuNs = 2e6, kLaunchCpuNs = 15e6;
constexpr double kSustainedS = 0.6;  // a power limit takes some tenths of a second to settle
constexpr std::uint32_t kMostIterationsCpu = 60'000;  // Mesa's CPU driver ends loops at 65,535

/// A floating-point number of few bits, rounded to nearest; what is too small becomes zero.
std::uint32_t small_float(double v, int exponent_bits, int mantissa_bits) {
  const std::uint32_t sign = std::signbit(v) ? 1u << (exponent_bits + mantissa_bits) : 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(v), &exponent);  // [0.5, 1)
  auto mantissa = static_cast<std::uint32_t>(std::lround(fraction * (2 << mantissa_bits)));
  if (mantissa >> mantissa_bits == 2) mantissa >>= 1, ++exponent;
  const int biased = exponent - 1 + (1 << (exponent_bits - 1)) - 1;
  if (fraction == 0 || biased <= 0) return sign;
  return sign | static_cast<std::uint32_t>(biased) << mantissa_bits | (mantissa & ((1u << mantissa_bits) - 1));
}

/// Normal values of mean 0 and deviation 1, as a matrix product's inputs often are: what a matrix unit draws, and so
/// how fast it may run, depends on them.
std::vector<std::uint32_t> random_operands(Operands type, std::uint32_t count) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<std::uint32_t> words(kRandomWords);
  const auto packed = [&](int bits, auto make) {
    for (std::uint32_t& w : words) {
      w = 0;
      for (int at = 0; at < 32; at += bits) w |= (make(normal(random)) & ((1ull << bits) - 1)) << at;
    }
  };
  switch (type) {
    case Operands::none:
      break;
    case Operands::f16:
      packed(16, [](double v) { return small_float(v, 5, 10); });
      break;
    case Operands::bf16:
      packed(16, [](double v) { return small_float(v, 8, 7); });
      break;
    case Operands::tf32:
      packed(32, [](double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); });
      break;
    case Operands::e4m3:
      packed(8, [](double v) { return small_float(v, 4, 3); });
      break;
    case Operands::int8:
      packed(8, [](double v) { return static_cast<std::uint32_t>(std::lround(std::clamp(v * 32, -127.0, 127.0))); });
      break;
    case Operands::f64:
      for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
        const double v = normal(random);
        std::memcpy(&words[i], &v, sizeof v);
      }
      break;
  }
  // More than that are the same values in another order of pieces.
  while (words.size() < count) {
    const std::size_t from = words.size() / 16 * 40'503 % (kRandomWords - 16) / 2 * 2;
    words.insert(words.end(), words.begin() + static_cast<std::ptrdiff_t>(from),
                 words.begin() + static_cast<std::ptrdiff_t>(from + 16));
  }
  words.resize(count);
  return words;
}

struct Shape {
  std::uint32_t grid = 0, block = 0;
};

std::vector<Shape> shapes(const Bench& bench, const CalibrationKernel& k) {
  const std::uint32_t units = bench.units();
  if (k.warpgroup) return {{units, k.block}};
  if (k.block != 0) return {{units, k.block}, {units * 2, k.block}, {units * 4, k.block}};
  if (bench.is_cpu()) return {{units * 4, kernels::kThreads}};
  if (!bench.chooses_block()) return {{units * 32, kernels::kThreads}};
  return {{units * 2, 1024}, {units, 1024}, {units * 4, 512}, {units * 8, 256}};
}

class Compute {
 public:
  Compute(Bench& bench, const CalibrationKernel& k) : bench_(bench), k_(k) {}

  Status measure() {
    if (k_.operands != Operands::none) {
      const auto words = random_operands(k_.operands, k_.operand_words);
      KLAB_TRY(operands_, bench_.gpu().allocate(words.size() * 4));
      KLAB_TRY_VOID(bench_.gpu()->upload(operands_.id(), 0, std::as_bytes(std::span(words))));
      arrays_.push_back({operands_.id(), 0, words.size() * 4});
    }
    KLAB_TRY(facts_, bench_.facts(k_, arrays_));
    std::vector<Attempt> attempts;
    std::optional<Error> refused;
    Launch best;
    double best_rate = 0;
    for (const Shape shape : shapes(bench_, k_)) {
      Attempt a;
      auto launch = attempt(shape, a);
      if (!launch) {
        refused = launch.error();
        if (bench_.gpu().lost()) break;
        continue;
      }
      if (a.median_rate() > best_rate) best_rate = a.median_rate(), best = std::move(*launch);
      attempts.push_back(std::move(a));
    }
    if (bench_.gpu().lost() || attempts.empty()) return fail(refused.value_or(Error{}));
    Json more = Json::object();
    if (k_.kind == CalibrationKind::matrix)
      more["shape"] = fmt::format("m{}n{}k{}", facts_.shape[0], facts_.shape[1], facts_.shape[2]);
    if (k_.kind == CalibrationKind::matrix && !bench_.is_cpu()) KLAB_TRY_VOID(sustain(best, attempts, more));
    const bool whole = k_.figure.starts_with("int");
    bench_.note(k_, whole ? "GOP/s" : "GFLOP/s", std::move(attempts), std::move(more));
    return {};
  }

 private:
  Result<Launch> prepare(Shape shape, std::uint32_t iterations) {
    const CalibrationComputePush push{.iterations = iterations,
                                      .operand_words = k_.operand_words,
                                      .seed = kNever,
                                      .multiplier = 0.5f,
                                      .addend = 1.0f};
    return bench_.prepare(k_, arrays_, push, shape.grid, shape.block);
  }

  Result<Launch> attempt(Shape shape, Attempt& a) {
    // Long enough that starting and ending do not count.
    std::uint32_t iterations = 16;
    const double wanted = bench_.is_cpu() ? kLaunchCpuNs : kLaunchGpuNs;
    for (int round = 0;; ++round) {
      KLAB_TRY(Launch launch, prepare(shape, iterations));
      KLAB_TRY(const double ns, bench_.once(launch.id()));
      const double most = bench_.is_cpu() ? kMostIterationsCpu : 4e9;
      if (round == 3 || ns > 0.7 * wanted || iterations >= most) {
        // The kernel tells the operations of the block that it was asked with.
        const double asked_block = k_.block != 0 || !bench_.chooses_block() ? shape.block : 256;
        a.config = fmt::format("{} blocks of {} threads, {} iterations", shape.grid, shape.block, iterations);
        a.work = static_cast<double>(facts_.work()) * shape.block / asked_block * shape.grid * iterations;
        KLAB_TRY_VOID(bench_.sample(launch.id(), bench_.budget_s(), a));
        return launch;
      }
      iterations = static_cast<std::uint32_t>(std::clamp(iterations * std::min(1000.0, wanted / ns), iterations + 1.0, most));
    }
  }

  /// The best one for so long that the clock settles at what the power limit allows. The figure is that of the
  /// second half; what was attained before is "burst".
  Status sustain(const Launch& launch, std::vector<Attempt>& attempts, Json& more) {
    const auto best = std::max_element(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
      return a.median_rate() < b.median_rate();
    });
    const double launch_ns = measure::summarise(best->ns).median_ns;
    const auto count = static_cast<std::size_t>(std::clamp(kSustainedS * 1e9 / launch_ns, 20.0, 2000.0));
    Attempt long_one;
    KLAB_TRY_VOID(bench_.sample_many(launch.id(), count, long_one));
    double fastest = *std::min_element(best->ns.begin(), best->ns.end());
    double total = 0;
    for (const double ns : long_one.ns) fastest = std::min(fastest, ns), total += ns;
    more["burst"] = best->work / std::max(fastest, 1.0);
    more["sustained_ms"] = total * 1e-6;
    Attempt settled = *best;
    settled.ns.assign(long_one.ns.begin() + static_cast<std::ptrdiff_t>(count / 2), long_one.ns.end());
    settled.clock_mhz = long_one.clock_mhz;
    // The short tries stay in the list as they were; the figure is this one's alone.
    Json& tried = more["tried"] = Json::array();
    for (const Attempt& a : attempts) tried.push_back({{"config", a.config}, {"value", a.median_rate()}});
    attempts.assign(1, std::move(settled));
    return {};
  }

  Bench& bench_;
  const CalibrationKernel& k_;
  Memory operands_;
  std::vector<BuiltinBinding> arrays_;
  kernels::CalibrationFacts facts_;
};

}  // namespace

Status calibrate_compute(Bench& bench) {
  bool matrices = false;
  for (const CalibrationKernel& k : kernels::calibration_kernels()) {
    if (k.kind != CalibrationKind::vector && k.kind != CalibrationKind::matrix) continue;
    if (bench.gpu()->builtin_kernel(k.name).empty()) {
      if (k.kind == CalibrationKind::vector)
        KLAB_TRY_VOID(bench.missing(title(k), {ErrorCode::unsupported,
                                               fmt::format("there is no such kernel for {} yet",
                                                           bench.gpu()->identity().api), "", 0}));
      continue;
    }
    matrices = matrices || k.kind == CalibrationKind::matrix;
    bench.step(title(k));
    Compute one(bench, k);
    if (Status done = one.measure(); !done) KLAB_TRY_VOID(bench.missing(title(k), done.error()));
  }
  if (!matrices)
    KLAB_TRY_VOID(bench.missing("matrix units",
                                {ErrorCode::unsupported,
                                 bench.gpu().abilities().matrix_units
                                     ? "the device has them, but this build's GLSL compiler does not know cooperative "
                                       "matrices"
                                     : "the device has none that this API names", "", 0}));
  return {};
}

}  // namespace klab::worker
