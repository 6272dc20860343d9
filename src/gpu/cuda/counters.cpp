// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/counters.h"

#include "gpu/cuda/device.h"

#if __has_include(<cupti_range_profiler.h>)
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "base/find_cupti.h"

namespace klab::gpu::cuda {
namespace {

constexpr int kMostPasses = 64;

#define KLAB_CUPTI_FUNCTIONS(X)                   \
  X(cuptiGetResultString)                         \
  X(cuptiProfilerInitialize)                      \
  X(cuptiProfilerGetCounterAvailability)          \
  X(cuptiDeviceGetChipName)                       \
  X(cuptiProfilerHostInitialize)                  \
  X(cuptiProfilerHostDeinitialize)                \
  X(cuptiProfilerHostGetMetricProperties)         \
  X(cuptiProfilerHostConfigAddMetrics)            \
  X(cuptiProfilerHostGetConfigImageSize)          \
  X(cuptiProfilerHostGetConfigImage)              \
  X(cuptiProfilerHostEvaluateToGpuValues)         \
  X(cuptiRangeProfilerEnable)                     \
  X(cuptiRangeProfilerDisable)                    \
  X(cuptiRangeProfilerGetCounterDataSize)         \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerSetConfig)                  \
  X(cuptiRangeProfilerStart)                      \
  X(cuptiRangeProfilerStop)                       \
  X(cuptiRangeProfilerPushRange)                  \
  X(cuptiRangeProfilerPopRange)                   \
  X(cuptiRangeProfilerDecodeData)

// Not in a header before cupti_result.h; declared there with C linkage.
extern "C" CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** str);

struct Cupti {
#define KLAB_MEMBER(name) decltype(&::name) name = nullptr;
  KLAB_CUPTI_FUNCTIONS(KLAB_MEMBER)
#undef KLAB_MEMBER

  std::string text(CUptiResult result) const {
    const char* s = nullptr;
    if (cuptiGetResultString != nullptr && cuptiGetResultString(result, &s) == CUPTI_SUCCESS && s != nullptr)
      return s;
    return fmt::format("CUPTI error {}", static_cast<int>(result));
  }
};

Result<const Cupti*> cupti() {
  static Cupti table;
  static bool ready = false;
  if (ready) return &table;
  std::string tried;
  void* handle = nullptr;
  std::vector<std::string> files = cupti_files(path_interpreters());
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
    files.emplace_back(name);  // the loader's own search
  for (const std::string& file : files) {
    handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    tried = ::dlerror();
  }
  if (handle == nullptr)
    return fail(ErrorCode::environment, "hardware counters need libcupti, which was not found: " + tried,
                "install the CUDA toolkit's CUPTI, or set KLAB_CUPTI to libcupti.so");
#define KLAB_LOAD(name)                                                                               \
  table.name = reinterpret_cast<decltype(table.name)>(::dlsym(handle, #name));                        \
  if (table.name == nullptr)                                                                          \
    return fail(ErrorCode::environment, "this libcupti has no " #name ": it is older than CUDA 12.6", \
                "set KLAB_CUPTI to a newer libcupti.so; the driver may stay");
  KLAB_CUPTI_FUNCTIONS(KLAB_LOAD)
#undef KLAB_LOAD
  ready = true;
  return &table;
}

/// A parameter struct with its size filled in, as every call of this API wants it.
template <class Params>
Params params(std::size_t size) {
  Params p{};
  p.structSize = size;
  return p;
}
#define KLAB_PARAMS(type) params<type>(type##_STRUCT_SIZE)

class Session {
 public:
  Session(const Cupti& c, CUcontext context, CUpti_ProfilerRange mode)
      : c_(c), context_(context), range_mode_(mode) {}
  ~Session() {
    if (range_ != nullptr) {
      auto p = KLAB_PARAMS(CUpti_RangeProfiler_Disable_Params);
      p.pRangeProfilerObject = range_;
      c_.cuptiRangeProfilerDisable(&p);
    }
    if (host_ != nullptr) {
      auto p = KLAB_PARAMS(CUpti_Profiler_Host_Deinitialize_Params);
      p.pHostObject = host_;
      c_.cuptiProfilerHostDeinitialize(&p);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status open(CUdevice device) {
    auto init = KLAB_PARAMS(CUpti_Profiler_Initialize_Params);
    KLAB_TRY_VOID(check(c_.cuptiProfilerInitialize(&init), "cuptiProfilerInitialize"));
    auto chip = KLAB_PARAMS(CUpti_Device_GetChipName_Params);
    chip.deviceIndex = static_cast<std::size_t>(device);
    KLAB_TRY_VOID(check(c_.cuptiDeviceGetChipName(&chip), "cuptiDeviceGetChipName"));
    auto available = KLAB_PARAMS(CUpti_Profiler_GetCounterAvailability_Params);
    available.ctx = context_;
    KLAB_TRY_VOID(
        check(c_.cuptiProfilerGetCounterAvailability(&available), "cuptiProfilerGetCounterAvailability"));
    availability_.resize(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = availability_.data();
    KLAB_TRY_VOID(
        check(c_.cuptiProfilerGetCounterAvailability(&available), "cuptiProfilerGetCounterAvailability"));
    auto host = KLAB_PARAMS(CUpti_Profiler_Host_Initialize_Params);
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = chip.pChipName;
    host.pCounterAvailabilityImage = availability_.data();
    KLAB_TRY_VOID(check(c_.cuptiProfilerHostInitialize(&host), "cuptiProfilerHostInitialize"));
    host_ = host.pHostObject;
    return {};
  }

  bool has(const std::string& name) const {
    auto p = KLAB_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params);
    p.pHostObject = host_;
    p.pMetricName = name.c_str();
    return c_.cuptiProfilerHostGetMetricProperties(&p) == CUPTI_SUCCESS;
  }

  Status configure(std::vector<const char*> names) {
    names_ = std::move(names);
    auto add = KLAB_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
    add.pHostObject = host_;
    add.ppMetricNames = names_.data();
    add.numMetrics = names_.size();
    KLAB_TRY_VOID(check(c_.cuptiProfilerHostConfigAddMetrics(&add), "cuptiProfilerHostConfigAddMetrics"));
    auto size = KLAB_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params);
    size.pHostObject = host_;
    KLAB_TRY_VOID(
        check(c_.cuptiProfilerHostGetConfigImageSize(&size), "cuptiProfilerHostGetConfigImageSize"));
    config_.resize(size.configImageSize);
    auto image = KLAB_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params);
    image.pHostObject = host_;
    image.configImageSize = config_.size();
    image.pConfigImage = config_.data();
    KLAB_TRY_VOID(check(c_.cuptiProfilerHostGetConfigImage(&image), "cuptiProfilerHostGetConfigImage"));

    auto enable = KLAB_PARAMS(CUpti_RangeProfiler_Enable_Params);
    enable.ctx = context_;
    KLAB_TRY_VOID(check(c_.cuptiRangeProfilerEnable(&enable), "cuptiRangeProfilerEnable"));
    range_ = enable.pRangeProfilerObject;
    auto data = KLAB_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params);
    data.pRangeProfilerObject = range_;
    data.pMetricNames = names_.data();
    data.numMetrics = names_.size();
    data.maxNumOfRanges = 1;
    data.maxNumRangeTreeNodes = 1;
    KLAB_TRY_VOID(
        check(c_.cuptiRangeProfilerGetCounterDataSize(&data), "cuptiRangeProfilerGetCounterDataSize"));
    data_.resize(data.counterDataSize);
    auto clear = KLAB_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    clear.pRangeProfilerObject = range_;
    clear.counterDataSize = data_.size();
    clear.pCounterData = data_.data();
    KLAB_TRY_VOID(check(c_.cuptiRangeProfilerCounterDataImageInitialize(&clear),
                        "cuptiRangeProfilerCounterDataImageInitialize"));
    auto set = KLAB_PARAMS(CUpti_RangeProfiler_SetConfig_Params);
    set.pRangeProfilerObject = range_;
    set.configSize = config_.size();
    set.pConfig = config_.data();
    set.counterDataImageSize = data_.size();
    set.pCounterDataImage = data_.data();
    set.range = range_mode_;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = 1;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    return check(c_.cuptiRangeProfilerSetConfig(&set), "cuptiRangeProfilerSetConfig");
  }

  /// One pass. True: it was the last that is needed.
  Result<bool> pass(const std::function<Status()>& launch) {
    auto start = KLAB_PARAMS(CUpti_RangeProfiler_Start_Params);
    start.pRangeProfilerObject = range_;
    KLAB_TRY_VOID(check(c_.cuptiRangeProfilerStart(&start), "cuptiRangeProfilerStart"));
    Status outcome;
    if (range_mode_ == CUPTI_UserRange) {
      auto push = KLAB_PARAMS(CUpti_RangeProfiler_PushRange_Params);
      push.pRangeProfilerObject = range_;
      push.pRangeName = "launch";
      outcome = check(c_.cuptiRangeProfilerPushRange(&push), "cuptiRangeProfilerPushRange");
    }
    if (outcome) outcome = launch();
    if (range_mode_ == CUPTI_UserRange) {
      auto pop = KLAB_PARAMS(CUpti_RangeProfiler_PopRange_Params);
      pop.pRangeProfilerObject = range_;
      const Status popped = check(c_.cuptiRangeProfilerPopRange(&pop), "cuptiRangeProfilerPopRange");
      if (outcome) outcome = popped;
    }
    auto stop = KLAB_PARAMS(CUpti_RangeProfiler_Stop_Params);
    stop.pRangeProfilerObject = range_;
    const Status stopped = check(c_.cuptiRangeProfilerStop(&stop), "cuptiRangeProfilerStop");
    KLAB_TRY_VOID(outcome);
    KLAB_TRY_VOID(stopped);
    return stop.isAllPassSubmitted != 0;
  }

  Result<std::vector<double>> values() {
    auto decode = KLAB_PARAMS(CUpti_RangeProfiler_DecodeData_Params);
    decode.pRangeProfilerObject = range_;
    KLAB_TRY_VOID(check(c_.cuptiRangeProfilerDecodeData(&decode), "cuptiRangeProfilerDecodeData"));
    if (decode.numOfRangeDropped != 0)
      return fail(ErrorCode::unsupported, "the profiler dropped what it measured",
                  "ask for fewer counters at a time");
    std::vector<double> out(names_.size());
    auto evaluate = KLAB_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
    evaluate.pHostObject = host_;
    evaluate.pCounterDataImage = data_.data();
    evaluate.counterDataImageSize = data_.size();
    evaluate.rangeIndex = 0;
    evaluate.ppMetricNames = names_.data();
    evaluate.numMetrics = names_.size();
    evaluate.pMetricValues = out.data();
    KLAB_TRY_VOID(
        check(c_.cuptiProfilerHostEvaluateToGpuValues(&evaluate), "cuptiProfilerHostEvaluateToGpuValues"));
    return out;
  }

 private:
  Status check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return {};
    const std::string what = fmt::format("{}: {}", call, c_.text(result));
    if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
      return fail(ErrorCode::environment, "hardware counters are not permitted here (" + what + ")",
                  "run as root, or have the administrator load the driver with "
                  "NVreg_RestrictProfilingToAdminUsers=0");
    return fail(ErrorCode::unsupported, "hardware counters: " + what, "see whether `ncu` can read them here");
  }

  const Cupti& c_;
  CUcontext context_;
  CUpti_ProfilerRange range_mode_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  CUpti_RangeProfiler_Object* range_ = nullptr;
  std::vector<std::uint8_t> availability_, config_, data_;
  std::vector<const char*> names_;
};

}  // namespace

namespace {

// What is relative to the whole range: with the kernel alone in it that is the kernel.
bool of_elapsed_time(const std::string& name) {
  return name.find("sustained_elapsed") != std::string::npos ||
         name.find("time_duration") != std::string::npos || name.find("cycles_elapsed") != std::string::npos;
}

Result<Counters> collect(const Cupti& c, CUcontext context, CUdevice device, CUpti_ProfilerRange mode,
                         std::span<const std::string> names, const std::function<Status()>& restore,
                         const std::function<Status()>& launch) {
  Session session(c, context, mode);
  KLAB_TRY_VOID(session.open(device));
  Counters out;
  std::vector<const char*> present;
  for (const std::string& name : names) {
    if (session.has(name) && (mode == CUPTI_AutoRange || !of_elapsed_time(name)))
      present.push_back(name.c_str());
    else
      out.missing.push_back(name);
  }
  if (present.empty()) return out;
  KLAB_TRY_VOID(session.configure(present));
  for (bool done = false; !done;) {
    if (++out.passes > kMostPasses)
      return fail(ErrorCode::unsupported, fmt::format("these counters need more than {} passes", kMostPasses),
                  "ask for fewer counters at a time");
    KLAB_TRY_VOID(restore());
    KLAB_TRY(done, session.pass(launch));
  }
  KLAB_TRY(const auto values, session.values());
  for (std::size_t i = 0; i < present.size(); ++i) out.values.push_back({present[i], values[i]});
  return out;
}

}  // namespace

Result<Counters> collect_counters(CUcontext context, CUdevice device, std::span<const std::string> names,
                                  const std::function<Status()>& restore,
                                  const std::function<Status()>& launch) {
  KLAB_TRY(const Cupti* const c, cupti());
  // A range of its own for the kernel; where that is not to be had, one around the launch, in which the
  // device also idles: then what is relative to the range's time is left out.
  auto out = collect(*c, context, device, CUPTI_AutoRange, names, restore, launch);
  if (!out && out.error().code == ErrorCode::unsupported)
    out = collect(*c, context, device, CUPTI_UserRange, names, restore, launch);
  return out;
}

}  // namespace klab::gpu::cuda
#else
namespace klab::gpu::cuda {

Result<Counters> collect_counters(CUcontext, CUdevice, std::span<const std::string>,
                                  const std::function<Status()>&, const std::function<Status()>&) {
  return fail(ErrorCode::unsupported,
              "this klab was built without CUPTI's headers: it reads no hardware counters",
              "build it where cupti_range_profiler.h is (CUDA 12.6 or newer)");
}

}  // namespace klab::gpu::cuda
#endif

namespace klab::gpu::cuda {

Result<Counters> CudaDevice::count(LaunchId launch, std::span<const Step> before,
                                   std::span<const std::string> names, std::uint64_t timeout_ns) {
  KLAB_TRY_VOID(check_alive());
  CUcontext context = nullptr;
  KLAB_CU_TRY(driver_.CtxGetCurrent(&context), "cuCtxGetCurrent");
  // Never timed: a timed batch waits behind a gate, and the profiler runs kernels one after the other.
  const Step step = Step::launch_of(launch, false);
  const auto only = [&](std::span<const Step> steps) -> Status {
    KLAB_TRY_VOID(run(steps, timeout_ns));
    return {};
  };
  return collect_counters(
      context, device_, names, [&] { return only(before); }, [&] { return only(std::span(&step, 1)); });
}

}  // namespace klab::gpu::cuda
