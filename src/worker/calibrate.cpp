// SPDX-License-Identifier: Apache-2.0
#include "worker/calibrate.h"

#include <algorithm>
#include <thread>

#include "measure/summary.h"
#include "worker/calibrate_bench.h"

namespace klab::worker {
namespace {

constexpr double kLaunchLimitS = 20;  // of one batch; none should take a second
constexpr std::uint32_t kUnknownUnits = 256;

}  // namespace

double Attempt::median_rate() const { return ns.empty() ? 0 : work / measure::summarise(ns).median_ns; }

std::string title(const kernels::CalibrationKernel& kernel) {
  using enum kernels::CalibrationKind;
  std::string text(kernel.figure);
  if (kernel.kind == memory || kernel.kind == cache) text += fmt::format(" by {} bytes", kernel.width);
  if (kernel.kind == matrix) text = "matrix " + text;
  if (!kernel.how.empty()) text += fmt::format(" ({})", kernel.how);
  return text;
}

Bench::Bench(Gpu& gpu, const Deadline& deadline, OnStep on_step)
    : gpu_(gpu), deadline_(deadline), on_step_(std::move(on_step)) {
  const bundle::DeviceIdentity& device = gpu_->identity();
  cpu_ = device.type == "cpu";
  chooses_block_ = device.api == "cuda" || device.api == "hip";
  units_ = gpu_.abilities().compute_units;
  if (units_ == 0) units_ = cpu_ ? std::max(1u, std::thread::hardware_concurrency()) : kUnknownUnits;
}

Status Bench::start() {
  KLAB_TRY(out_, gpu_.allocate(kernels::kCalibrationOut * 4ull));
  KLAB_TRY(clock_, ClockMeter::create(gpu_));
  if (!clock_) return {};
  std::vector<gpu::Step> steps;  // its first launches load its code
  for (const int end : {0, 1}) clock_->append(steps, end);
  KLAB_TRY_VOID(run(steps));
  return {};
}

Result<Launch> Bench::prepare(const kernels::CalibrationKernel& kernel, std::span<const BuiltinBinding> arrays,
                              std::span<const std::byte> push, std::uint32_t grid, std::uint32_t block) {
  std::vector<BuiltinBinding> bindings(arrays.begin(), arrays.end());
  bindings.push_back({out_.id(), 0, kernels::kCalibrationOut * 4ull});
  const bundle::Dim3 threads =
      chooses_block_ ? bundle::Dim3{block, 1, 1} : bundle::Dim3{0, 0, 0};
  return gpu_.builtin(kernel.name, bindings, push, {grid, 1, 1}, threads, kernel.shared_bytes);
}

Result<kernels::CalibrationFacts> Bench::facts(const kernels::CalibrationKernel& kernel,
                                               std::span<const BuiltinBinding> arrays) {
  // All pushes are of one size, and zeros ask for the facts.
  static_assert(sizeof(kernels::CalibrationMemoryPush) == sizeof(kernels::CalibrationComputePush));
  const kernels::CalibrationMemoryPush nothing{};
  KLAB_TRY(const Launch launch, prepare(kernel, arrays, nothing, 1, kernel.block != 0 ? kernel.block : 256));
  const gpu::Step steps[] = {gpu::Step::fill_of(out_.id(), 0, sizeof(kernels::CalibrationFacts), 0),
                             gpu::Step::launch_of(launch.id(), false)};
  KLAB_TRY_VOID(run(steps));
  kernels::CalibrationFacts facts;
  KLAB_TRY_VOID(gpu_->download(out_.id(), 0, std::as_writable_bytes(std::span(&facts, 1))));
  if (facts.supported != 1)
    return fail(ErrorCode::unsupported, fmt::format("{} has no such instructions", gpu_->identity().name));
  return facts;
}

Result<gpu::BatchResult> Bench::run(std::span<const gpu::Step> steps) {
  KLAB_TRY_VOID(deadline_.check("calibrating"));
  return gpu_.run(steps, deadline_.timeout_ns(kLaunchLimitS));
}

Result<double> Bench::once(gpu::LaunchId launch) {
  const gpu::Step first[] = {gpu::Step::launch_of(launch, false)}, second[] = {gpu::Step::launch_of(launch, true)};
  KLAB_TRY_VOID(run(first));
  KLAB_TRY(const auto result, run(second));
  return std::max(result.launch_ns.at(0), 1.0);
}

Status Bench::sample(gpu::LaunchId launch, double budget_s, Attempt& into, std::uint32_t at_least) {
  KLAB_TRY(const double ns, once(launch));
  const auto count = static_cast<std::size_t>(
      std::clamp(budget_s * 1e9 / ns, static_cast<double>(at_least), std::max(200.0, static_cast<double>(at_least))));
  return timed(launch, 0, count, into);
}

Status Bench::sample_many(gpu::LaunchId launch, std::size_t count, Attempt& into) {
  return timed(launch, count / 2, count, into);
}

Status Bench::timed(gpu::LaunchId launch, std::size_t clock_from, std::size_t count, Attempt& into) {
  std::vector<gpu::Step> steps;
  for (std::size_t i = 0; i < count; ++i) {
    if (clock_ && i == clock_from) clock_->append(steps, 0);
    steps.push_back(gpu::Step::launch_of(launch, true));
  }
  if (clock_) clock_->append(steps, 1);
  KLAB_TRY(auto result, run(steps));
  into.ns = std::move(result.launch_ns);
  if (clock_) {
    KLAB_TRY(into.clock_mhz, clock_->read());
  }
  return {};
}

void Bench::step(const std::string& what) {
  const auto total = static_cast<std::uint64_t>(kernels::calibration_kernels().size());
  if (on_step_) on_step_(what, std::min<std::uint64_t>(steps_, total), total);
  ++steps_;
}

void Bench::note(const kernels::CalibrationKernel& kernel, const std::string& unit, std::vector<Attempt> attempts,
                 Json more) {
  const auto best = std::max_element(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
    return a.median_rate() < b.median_rate();
  });
  if (best == attempts.end() || best->ns.empty()) return;
  const measure::Summary s = measure::summarise(best->ns);
  if (s.median_ns <= 0 || s.q1_ns <= 0 || s.min_ns <= 0) return;
  Json figure{{"kind", kernel.kind == kernels::CalibrationKind::memory   ? "memory"
                       : kernel.kind == kernels::CalibrationKind::cache  ? "cache"
                       : kernel.kind == kernels::CalibrationKind::vector ? "vector"
                       : kernel.kind == kernels::CalibrationKind::matrix ? "matrix"
                                                                         : "launch"},
              {"name", kernel.figure},
              {"unit", unit},
              {"value", best->work / s.median_ns},
              {"q1", best->work / s.q3_ns},
              {"q3", best->work / s.q1_ns},
              {"best", best->work / s.min_ns},
              {"samples", s.count},
              {"work", best->work},
              {"config", best->config}};
  if (!kernel.how.empty()) figure["how"] = kernel.how;
  if (kernel.width != 0) figure["width"] = kernel.width;
  if (kernel.ceiling_only) figure["ceiling_only"] = true;
  if (best->clock_mhz) figure["clock_mhz"] = *best->clock_mhz;
  if (attempts.size() > 1) {
    Json& tried = figure["tried"] = Json::array();
    for (const Attempt& a : attempts) tried.push_back({{"config", a.config}, {"value", a.median_rate()}});
  }
  figure.update(more);
  figures_.push_back(std::move(figure));
}

Status Bench::missing(const std::string& name, const Error& error) {
  if (gpu_.lost() || error.code == ErrorCode::device_fault || error.code == ErrorCode::timeout)
    return fail(error);
  missing_.push_back({{"name", name}, {"why", error.what}});
  return {};
}

Json Bench::answer() && {
  return Json{{"figures", std::move(figures_)}, {"missing", std::move(missing_)}, {"notes", std::move(notes_)}};
}

Result<Json> calibrate(Gpu& gpu, const Deadline& deadline, const OnStep& on_step) {
  Bench bench(gpu, deadline, on_step);
  KLAB_TRY_VOID(bench.start());
  if (bench.is_cpu())
    bench.add_note(
        "this is a CPU: the figures say how this driver performs on this CPU while nothing else runs, and nothing of "
        "any GPU");
  if (!gpu.abilities().timestamps)
    bench.add_note("this driver has no timestamps: times are the host's, of one submission each");
  KLAB_TRY_VOID(calibrate_launches(bench));
  KLAB_TRY_VOID(calibrate_memory(bench));
  KLAB_TRY_VOID(calibrate_compute(bench));
  Json answer = std::move(bench).answer();
  answer["last_level_cache"] = gpu.abilities().last_level_cache;
  return answer;
}

}  // namespace klab::worker
