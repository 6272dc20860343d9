// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/kernels.h"

#include <cxxabi.h>
#include <pthread.h>
#include <regex.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <thread>
#include <unordered_map>

#include "shim/common/link.h"
#include "shim/cuda/driver.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMaxName = 4096;             // bytes of a name that klab is told
constexpr std::size_t kMaxKept = 4ull << 30;       // bytes of code kept
constexpr std::uint64_t kLoadNs = 20'000'000'000;  // for the driver to load a function

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

struct Kernels {
  std::mutex lock;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> by_name;
  std::vector<Kernel*> all;
  bool compiled = false, valid = false;
  regex_t expression;
};
Kernels& kernels() {
  static Kernels* const the = new Kernels;
  return *the;
}

struct Modules {
  std::mutex lock;
  std::vector<std::shared_ptr<const Code>> codes;  // in order of loading
  std::unordered_map<CUmodule, std::shared_ptr<const Code>> of_module;
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

bool hash_prefix(const std::string& text, std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return text.size() >= 4 && text.size() <= 16 && std::strncmp(text.c_str(), digits, text.size()) == 0;
}

bool request_matches(Kernels& all, const Kernel& k) {
  const std::string& wanted = link().config().kernel;
  if (wanted == k.name || wanted == k.mangled || hash_prefix(wanted, k.hash)) return true;
  if (!all.compiled) {
    all.compiled = true;
    all.valid = ::regcomp(&all.expression, wanted.c_str(), REG_EXTENDED | REG_NOSUB) == 0;
  }
  return all.valid && (::regexec(&all.expression, k.name.c_str(), 0, nullptr, 0) == 0 ||
                       ::regexec(&all.expression, k.mangled.c_str(), 0, nullptr, 0) == 0);
}

void send_kernel(const Kernel& k, const Code* code) {
  klab_kernel record{};
  record.kernel = k.id;
  record.has_code = k.matches ? 1 : 0;
  record.hash = k.hash;
  if (code != nullptr) {
    const XXH128_hash_t hash = XXH3_128bits(code->bytes.data(), code->bytes.size());
    record.code_hash_low = hash.low64;
    record.code_hash_high = hash.high64;
    record.code_size = code->bytes.size();
  }
  const std::string_view name = std::string_view(k.name).substr(0, kMaxName);
  const std::string_view entry = std::string_view(k.mangled).substr(0, kMaxName);
  record.name_length = static_cast<std::uint32_t>(name.size());
  record.entry_length = static_cast<std::uint32_t>(entry.size());
  link().send(&record, sizeof record, KLAB_KERNEL, {name, entry});
}

std::shared_ptr<const Code> code_of(CUmodule module, const std::string& mangled) {
  std::vector<std::shared_ptr<const Code>> newest;
  {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    if (const auto it = all.of_module.find(module); module != nullptr && it != all.of_module.end()) {
      if (Cubin(it->second->bytes).has_kernel(mangled)) return it->second;
    }
    newest.assign(all.codes.rbegin(), all.codes.rend());
  }
  for (const auto& code : newest)
    if (Cubin(code->bytes).has_kernel(mangled)) return code;
  return nullptr;
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

// Loads in a thread of our own: should CUPTI keep silent about what happens inside a callback, it does not there.
void load_elsewhere(CUkernel kernel, CUfunction function) {
  CUcontext context = nullptr;
  if (driver().CtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return;
  struct Job {
    std::atomic<bool> done{false};
  };
  auto job = std::make_shared<Job>();
  try {
    std::thread([job, context, kernel, function] {
      Inside guard;
      const Driver& d = driver();
      if (d.CtxSetCurrent(context) == CUDA_SUCCESS) {
        Relaxed relaxed;
        CUfunction f = function;
        if (kernel != nullptr && d.KernelGetFunction != nullptr) d.KernelGetFunction(&f, kernel);
        if (d.FuncLoad != nullptr && f != nullptr) d.FuncLoad(f);
        d.CtxSetCurrent(nullptr);
      }
      job->done = true;
    }).detach();
  } catch (...) {
    return;
  }
  for (const std::uint64_t end = now_ns() + kLoadNs; !job->done && now_ns() < end;) ::usleep(50);
}

}  // namespace

Counts& counts() {
  static Counts* const the = new Counts;
  return *the;
}

std::string demangle(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? std::string(text) : mangled;
  std::free(text);
  return name;
}

std::string mangled_name(CUfunction function, const char* symbol) {
  const Driver& d = driver();
  const char* name = nullptr;
  if (d.FuncGetName != nullptr && d.FuncGetName(&name, function) == CUDA_SUCCESS && name != nullptr) return name;
  name = nullptr;
  if (d.KernelGetName != nullptr &&
      d.KernelGetName(&name, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS && name != nullptr)
    return name;
  return symbol != nullptr ? symbol : "";
}

Kernel& kernel_named(const std::string& mangled) {
  Kernels& all = kernels();
  std::lock_guard hold(all.lock);
  auto& place = all.by_name[mangled];
  if (place) return *place;
  place = std::make_unique<Kernel>();
  Kernel& k = *place;
  k.id = static_cast<std::uint32_t>(all.all.size());
  k.mangled = mangled;
  k.name = demangle(mangled);
  k.hash = XXH3_64bits(mangled.data(), mangled.size());
  k.matches = link().config().mode == KLAB_MODE_CAPTURE && request_matches(all, k);
  all.all.push_back(&k);
  send_kernel(k, nullptr);
  return k;
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

Resolved resolve(CUfunction function, const Kernel& kernel, std::string& why) {
  const Driver& d = driver();
  Resolved r;
  LoadedHere here;
  int value = 0;
  const char* name = nullptr;
  const bool is_function =
      d.FuncGetName != nullptr
          ? d.FuncGetName(&name, function) == CUDA_SUCCESS
          : d.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == CUDA_SUCCESS;
  if (is_function) {
    r.function = function;
  } else if (d.KernelGetFunction != nullptr) {
    r.kernel = reinterpret_cast<CUkernel>(function);
    if (const CUresult result = d.KernelGetFunction(&r.function, r.kernel); result != CUDA_SUCCESS) {
      why = failed("cuKernelGetFunction", result);
      return r;
    }
  } else {
    why = "its function handle is of a kind that this driver gives no access to";
    return r;
  }
  // Lazily loaded: asking for it loads it, and the load is heard of in this thread.
  if (d.FuncLoad != nullptr) d.FuncLoad(r.function);
  if (d.FuncGetModule != nullptr && d.FuncGetModule(&r.module, r.function) != CUDA_SUCCESS) r.module = nullptr;
  if (here.code && Cubin(here.code->bytes).has_kernel(kernel.mangled))
    r.code = here.code;
  else
    r.code = code_of(r.module, kernel.mangled);
  if (!r.code) {
    load_elsewhere(r.kernel, r.function);
    r.code = code_of(r.module, kernel.mangled);
  }
  if (!r.code) {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    why = all.full ? "its code was not kept: the program loads more code than is kept"
                   : "its code was not seen when the driver loaded it (" + std::to_string(all.codes.size()) +
                         " modules were)";
    return r;
  }
  r.layout = told_layout(r);
  if (!r.layout) r.layout = Cubin(r.code->bytes).parameters(kernel.mangled);
  return r;
}

bool send_code(Kernel& kernel, const Code& code) {
  const std::uint64_t hash = XXH3_64bits(code.bytes.data(), code.bytes.size());
  if (kernel.code_sent_hash == hash) return link().live();
  send_kernel(kernel, &code);
  for (std::size_t at = 0; at < code.bytes.size(); at += KLAB_SLOT_BYTES)
    if (!link().send_data(KLAB_DATA_CODE, kernel.id, at, code.bytes.data() + at,
                          std::min<std::size_t>(KLAB_SLOT_BYTES, code.bytes.size() - at)))
      return false;
  kernel.code_sent_hash = hash;
  return true;
}

void send_counts() {
  std::vector<klab_count> rows;
  {
    std::lock_guard hold(kernels().lock);
    std::lock_guard counting(counts().lock);
    for (const Kernel* k : kernels().all) rows.push_back({k->id, 0, k->executions});
  }
  link().send_list(KLAB_COUNTS, 0, rows.data(), sizeof(klab_count), rows.size());
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

void load_returned(CUmodule module) {
  if (load_call == nullptr) return;
  const std::unique_ptr<std::shared_ptr<const Code>> ended(load_call);
  load_call = nullptr;
  if (module == nullptr || !*ended) return;
  Modules& all = modules();
  std::lock_guard hold(all.lock);
  all.of_module[module] = *ended;
}

void forget_handles(CUmodule module) {
  {
    Modules& all = modules();
    std::lock_guard hold(all.lock);
    if (module != nullptr) all.of_module.erase(module);
  }
  for (Place& p : places)
    if (p.function.load(std::memory_order_relaxed) != nullptr) p.kernel.store(nullptr, std::memory_order_release);
}

void kernels_after_fork() {
  new (&kernels().lock) std::mutex;
  new (&modules().lock) std::mutex;
  new (&counts().lock) std::mutex;
  counts().finished = true;
}

}  // namespace klab::shim
