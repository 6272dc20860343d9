// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/kernels.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>

#include "shim/common/link.h"
#include "shim/cuda/driver.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMaxName = 4096;            // bytes of a name in a note
constexpr std::size_t kMaxKept = 4ull << 30;      // bytes of code kept
constexpr std::uint64_t kLoadNs = 5'000'000'000;  // for the driver to load a function

// Function handles to kernels without a lock: a launch that is not wanted costs one probe.
constexpr std::size_t kPlaces = 1u << 15;
struct Place {
  std::atomic<CUfunction> function{nullptr};
  std::atomic<Kernel*> kernel{nullptr};
};
Place places[kPlaces];
Kernel not_wanted;

std::size_t place_of(CUfunction f) {
  const auto n = reinterpret_cast<std::uintptr_t>(f);
  return (n >> 4 ^ n >> 19) * 0x9e3779b97f4a7c15ull >> 49;
}
static_assert(kPlaces == 1u << 15, "place_of answers 15 bits");

struct Modules {
  std::mutex lock;
  std::vector<std::shared_ptr<const Code>> codes;  // in order of loading
  std::unordered_map<CUmodule, std::shared_ptr<const Code>> of_module;
  std::unordered_map<CUlibrary, std::shared_ptr<const Code>> of_library;
  std::unordered_map<CUfunction, std::shared_ptr<const Code>> of_function;
  std::size_t kept = 0;
  bool full = false;
};
Modules& modules() {
  static Modules* const the = new Modules;
  return *the;
}

// What was loaded in this thread since load_begins().
thread_local std::shared_ptr<const Code>* loaded_here = nullptr;
struct LoadedHere {
  std::shared_ptr<const Code> code;
  std::shared_ptr<const Code>* before = loaded_here;
  LoadedHere() { loaded_here = &code; }
  ~LoadedHere() { loaded_here = before; }
  LoadedHere(const LoadedHere&) = delete;
};
// Of the program's own load calls: begun in one callback, ended in another.
thread_local std::shared_ptr<const Code>* load_call = nullptr;

// Code that holds the kernel: of its module or library when that is known, else the newest. `several`: others
// of the same name differ.
std::shared_ptr<const Code> code_of(CUmodule module, CUlibrary library, const std::string& mangled,
                                    bool& several) {
  std::vector<std::shared_ptr<const Code>> newest;
  {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    if (const auto it = all.of_module.find(module); module != nullptr && it != all.of_module.end())
      newest.push_back(it->second);
    if (const auto it = all.of_library.find(library); library != nullptr && it != all.of_library.end())
      newest.push_back(it->second);
    const std::size_t sure = newest.size();
    newest.insert(newest.end(), all.codes.rbegin(), all.codes.rend());
    for (std::size_t i = 0; i < sure; ++i)
      if (Cubin(newest[i]->bytes).has_kernel(mangled)) return newest[i];
  }
  std::shared_ptr<const Code> found;
  for (const auto& code : newest) {
    if (!Cubin(code->bytes).has_kernel(mangled)) continue;
    if (!found)
      found = code;
    else if (found->bytes != code->bytes)
      several = true;
  }
  return found;
}

std::optional<std::vector<Parameter>> told_layout(const Resolved& r) {
  auto ask = [&](auto call, auto handle) -> std::optional<std::vector<Parameter>> {
    if (call == nullptr || handle == nullptr) return std::nullopt;
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < 4096; ++i) {
      std::size_t offset = 0, size = 0;
      const CUresult result = call(handle, i, &offset, &size);
      if (result == CUDA_ERROR_INVALID_VALUE) return all;  // past the last
      if (result != CUDA_SUCCESS || offset > 65536 || size > 65536) return std::nullopt;
      all.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
    }
    return std::nullopt;
  };
  if (auto told = ask(driver().FuncGetParamInfo, r.function)) return told;
  return ask(driver().KernelGetParamInfo, r.kernel);
}

// The driver loads the function in a thread of our own: CUPTI may keep silent about what happens inside a
// callback, and a module that is loaded silently is lost. Answers with what was loaded, if anything was.
std::shared_ptr<const Code> load_elsewhere(CUfunction function, bool is_kernel) {
  CUcontext context = nullptr;
  if (driver().CtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  struct Job {
    std::atomic<bool> done{false};
    std::shared_ptr<const Code> code;
  };
  auto job = std::make_shared<Job>();
  const NoSignals quiet;
  try {
    std::thread([job, context, function, is_kernel] {
      Inside guard;
      LoadedHere here;
      const Driver& d = driver();
      if (d.CtxSetCurrent(context) == CUDA_SUCCESS) {
        {
          const Relaxed relaxed;
          CUfunction f = function;
          if (is_kernel && d.KernelGetFunction(&f, reinterpret_cast<CUkernel>(function)) != CUDA_SUCCESS)
            f = nullptr;
          if (d.FuncLoad != nullptr && f != nullptr) d.FuncLoad(f);
        }
        d.CtxSetCurrent(nullptr);
      }
      job->code = here.code;
      job->done.store(true, std::memory_order_release);
    }).detach();
  } catch (...) {
    return nullptr;
  }
  for (const std::uint64_t start = now_ns(); !job->done.load(std::memory_order_acquire);) {
    if (now_ns() - start > kLoadNs) return nullptr;
    ::usleep(20);
  }
  return job->code;
}

// Empty: `function` is a CUfunction, or a CUkernel when `is_kernel`.
std::string handle_kind(CUfunction function, bool& is_kernel) {
  const Driver& d = driver();
  int value = 0;
  const char* name = nullptr;
  is_kernel = d.FuncGetName != nullptr
                  ? d.FuncGetName(&name, function) != CUDA_SUCCESS
                  : d.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function) != CUDA_SUCCESS;
  if (is_kernel && d.KernelGetFunction == nullptr)
    return "its function handle is of a kind that this driver gives no access to";
  return {};
}

}  // namespace

std::string mangled_name(CUfunction function, const char* symbol) {
  const Driver& d = driver();
  const char* name = nullptr;
  if (d.FuncGetName != nullptr && d.FuncGetName(&name, function) == CUDA_SUCCESS && name != nullptr)
    return name;
  name = nullptr;
  if (d.KernelGetName != nullptr &&
      d.KernelGetName(&name, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS && name != nullptr)
    return name;
  return symbol != nullptr ? symbol : "";
}

Kernel* wanted_kernel(CUfunction function, const char* symbol) {
  const std::size_t start = place_of(function);
  std::size_t free_place = kPlaces;
  for (std::size_t i = 0; i < 16; ++i) {
    Place& p = places[(start + i) % kPlaces];
    const CUfunction f = p.function.load(std::memory_order_acquire);
    if (f == function) {
      Kernel* const k = p.kernel.load(std::memory_order_acquire);
      if (k != nullptr) return k == &not_wanted ? nullptr : k;
      free_place = (start + i) % kPlaces;
      break;
    }
    if (f == nullptr) {
      free_place = (start + i) % kPlaces;
      break;
    }
  }
  const std::string mangled = mangled_name(function, symbol);
  if (mangled.empty()) return nullptr;
  Kernel& k = kernel_named(mangled);
  Kernel* const answer = k.matches ? &k : &not_wanted;
  if (free_place < kPlaces) {
    Place& p = places[free_place];
    CUfunction expected = nullptr;
    if (p.function.load() == function || p.function.compare_exchange_strong(expected, function))
      p.kernel.store(answer, std::memory_order_release);
  }
  return k.matches ? &k : nullptr;
}

void note_code(CUfunction function, const Kernel& kernel) {
  {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    if (all.of_function.count(function) != 0) return;
  }
  bool is_kernel = false;
  if (!handle_kind(function, is_kernel).empty()) return;
  std::shared_ptr<const Code> code = load_elsewhere(function, is_kernel);
  if (code && !Cubin(code->bytes).has_kernel(kernel.mangled)) code.reset();
  // Null, too, is an answer: it is not asked for again.
  Modules& all = modules();
  std::lock_guard hold(all.lock);
  all.of_function[function] = std::move(code);
}

Resolved resolve(CUfunction function, const Kernel& kernel, std::string& why) {
  const Driver& d = driver();
  Resolved r;
  bool is_kernel = false;
  if (why = handle_kind(function, is_kernel); !why.empty()) return r;
  r.function = function;
  CUlibrary library = nullptr;
  if (is_kernel) {
    r.kernel = reinterpret_cast<CUkernel>(function);
    if (const CUresult result = d.KernelGetFunction(&r.function, r.kernel); result != CUDA_SUCCESS) {
      why = failed("cuKernelGetFunction", result);
      return r;
    }
    if (d.KernelGetLibrary != nullptr && d.KernelGetLibrary(&library, r.kernel) != CUDA_SUCCESS)
      library = nullptr;
  }
  if (d.FuncGetModule != nullptr && d.FuncGetModule(&r.module, r.function) != CUDA_SUCCESS)
    r.module = nullptr;
  Modules& all = modules();
  {
    std::lock_guard hold(all.lock);
    if (const auto it = all.of_function.find(function); it != all.of_function.end()) r.code = it->second;
  }
  bool several = false;
  if (!r.code) r.code = code_of(r.module, library, kernel.mangled, several);
  if (!r.code) {
    std::lock_guard hold(all.lock);
    why = all.full ? "its code was not kept: the program loads more code than is kept"
                   : "its code was not seen when the driver loaded it (" + std::to_string(all.codes.size()) +
                         " modules were)";
    return r;
  }
  if (several)
    note("code of " + kernel.mangled.substr(0, kMaxName),
         "is that of the newest of several modules that have a kernel of this name, which may not be the one "
         "that ran");
  r.layout = told_layout(r);
  if (!r.layout) r.layout = Cubin(r.code->bytes).parameters(kernel.mangled);
  return r;
}

void module_loaded(std::uint32_t module_id, const void* cubin, std::size_t size) {
  if (cubin == nullptr || size == 0) return;
  auto code = std::make_shared<Code>();
  code->module_id = module_id;
  Modules& all = modules();
  {
    std::lock_guard hold(all.lock);
    if (size > kMaxKept - std::min(kMaxKept, all.kept)) {
      all.full = true;
      return;
    }
    all.kept += size;
  }
  const auto* from = static_cast<const std::byte*>(cubin);
  code->bytes.assign(from, from + size);
  std::lock_guard hold(all.lock);
  all.codes.push_back(code);
  if (loaded_here != nullptr) *loaded_here = code;
  if (load_call != nullptr) *load_call = code;
}

void module_unloading(std::uint32_t module_id) {
  Modules& all = modules();
  std::lock_guard hold(all.lock);
  for (auto it = all.codes.begin(); it != all.codes.end(); ++it)
    if ((*it)->module_id == module_id) {
      all.kept -= std::min(all.kept, (*it)->bytes.size());
      all.codes.erase(it);
      return;
    }
}

void load_begins() {
  if (load_call == nullptr) load_call = new std::shared_ptr<const Code>;
  load_call->reset();
}

void load_returned(CUmodule module, CUlibrary library) {
  if (load_call == nullptr) return;
  const std::unique_ptr<std::shared_ptr<const Code>> ended(load_call);
  load_call = nullptr;
  if (!*ended) return;
  Modules& all = modules();
  std::lock_guard hold(all.lock);
  if (module != nullptr) all.of_module[module] = *ended;
  if (library != nullptr) all.of_library[library] = *ended;
}

void forget_handles(CUmodule module, CUlibrary library) {
  {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    if (module != nullptr) all.of_module.erase(module);
    if (library != nullptr) all.of_library.erase(library);
    all.of_function.clear();
  }
  for (Place& p : places)
    if (p.function.load(std::memory_order_relaxed) != nullptr)
      p.kernel.store(nullptr, std::memory_order_release);
}

void kernels_after_fork() {
  new (&modules().lock) std::mutex;
  counts_after_fork();
}

}  // namespace klab::shim
