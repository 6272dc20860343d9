// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/code.h"

#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <unordered_map>

#include "shim/common/link.h"
#include "shim/hsa/gate.h"
#include "shim/hsa/metadata.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMaxCode = 1u << 30;  // as klab takes it

// Bytes as the runtime was given them: of memory they are the program's until the load is done.
struct Source {
  const std::byte* at = nullptr;
  std::size_t size = 0;
  Code own;  // from a file
};

struct Executable {
  bool frozen = false, listed = false;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const Code>>> codes;  // agent, code
};

struct Codes {
  std::mutex lock;
  std::unordered_map<std::uint64_t, std::shared_ptr<Source>> readers;
  std::unordered_map<std::uint64_t, Executable> executables;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Loaded>> kernels;  // by kernel object
};
Codes& codes() {
  static Codes* const the = new Codes;
  return *the;
}

// Code without a wanted kernel is not kept: a library of a gigabyte costs a walk over its names.
bool worth_keeping(std::span<const std::byte> bytes) {
  if (link().config().mode != KLAB_MODE_CAPTURE || bytes.size() > kMaxCode) return false;
  bool wanted = false;
  const bool parsed = AmdgpuCode(bytes).each_kernel(
      [&](std::string_view name) {
        wanted = wanted || wanted_name(std::string(name));
        return false;
      },
      [](AmdgpuKernel&&) {});
  return wanted || !parsed;  // of an older form that has no such note: names come from the loader
}

hsa_status_t reader_from_memory(const void* at, std::size_t size, hsa_code_object_reader_t* reader) {
  const hsa_status_t status = api().core.hsa_code_object_reader_create_from_memory_fn(at, size, reader);
  if (status != HSA_STATUS_SUCCESS || reader == nullptr) return status;
  auto source = std::make_shared<Source>();
  source->at = static_cast<const std::byte*>(at), source->size = size;
  std::lock_guard hold(codes().lock);
  codes().readers[reader->handle] = std::move(source);
  return status;
}

hsa_status_t reader_from_file(hsa_file_t file, hsa_code_object_reader_t* reader) {
  const hsa_status_t status = api().core.hsa_code_object_reader_create_from_file_fn(file, reader);
  struct stat st {};
  if (status != HSA_STATUS_SUCCESS || reader == nullptr || ::fstat(file, &st) != 0 || st.st_size <= 0 ||
      static_cast<std::size_t>(st.st_size) > kMaxCode)
    return status;
  auto source = std::make_shared<Source>();
  source->own.resize(static_cast<std::size_t>(st.st_size));
  std::size_t done = 0;
  while (done < source->own.size()) {
    const ssize_t n =
        ::pread(file, source->own.data() + done, source->own.size() - done, static_cast<off_t>(done));
    if (n <= 0) return status;
    done += static_cast<std::size_t>(n);
  }
  source->at = source->own.data(), source->size = source->own.size();
  std::lock_guard hold(codes().lock);
  codes().readers[reader->handle] = std::move(source);
  return status;
}

hsa_status_t reader_destroy(hsa_code_object_reader_t reader) {
  {
    std::lock_guard hold(codes().lock);
    codes().readers.erase(reader.handle);
  }
  return api().core.hsa_code_object_reader_destroy_fn(reader);
}

hsa_status_t load_agent_code(hsa_executable_t executable, hsa_agent_t agent, hsa_code_object_reader_t reader,
                             const char* options, hsa_loaded_code_object_t* loaded) {
  const hsa_status_t status =
      api().core.hsa_executable_load_agent_code_object_fn(executable, agent, reader, options, loaded);
  if (status != HSA_STATUS_SUCCESS) return status;
  std::shared_ptr<Source> source;
  {
    std::lock_guard hold(codes().lock);
    if (const auto it = codes().readers.find(reader.handle); it != codes().readers.end()) source = it->second;
  }
  std::shared_ptr<const Code> kept;
  if (source && worth_keeping({source->at, source->size}))
    kept = std::make_shared<const Code>(source->at, source->at + source->size);
  std::lock_guard hold(codes().lock);
  Executable& e = codes().executables[executable.handle];
  if (kept) e.codes.emplace_back(agent.handle, std::move(kept));
  return status;
}

hsa_status_t freeze(hsa_executable_t executable, const char* options) {
  const hsa_status_t status = api().core.hsa_executable_freeze_fn(executable, options);
  if (status != HSA_STATUS_SUCCESS) return status;
  std::lock_guard hold(codes().lock);
  codes().executables[executable.handle].frozen = true;
  return status;
}

hsa_status_t executable_destroy(hsa_executable_t executable) {
  const Gate::Pass pass(gate());
  {
    std::lock_guard hold(codes().lock);
    codes().executables.erase(executable.handle);
    for (auto it = codes().kernels.begin(); it != codes().kernels.end();)
      it = it->second->executable.handle == executable.handle ? codes().kernels.erase(it) : std::next(it);
  }
  return api().core.hsa_executable_destroy_fn(executable);
}

template <class T>
T symbol_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t which) {
  T value{};
  if (api().core.hsa_executable_symbol_get_info_fn(symbol, which, &value) != HSA_STATUS_SUCCESS) return T{};
  return value;
}

std::string symbol_name(hsa_executable_symbol_t symbol) {
  const auto length = symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH);
  if (length == 0 || length > 1u << 20) return {};
  std::string name(length + 1, '\0');
  if (api().core.hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name.data()) !=
      HSA_STATUS_SUCCESS)
    return {};
  name.resize(length);
  return name;
}

struct ListedKernels {
  std::vector<std::pair<std::uint64_t, Loaded>> found;
};

hsa_status_t list_kernel(hsa_executable_t executable, hsa_agent_t agent, hsa_executable_symbol_t symbol,
                         void* data) {
  if (symbol_info<hsa_symbol_kind_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE) != HSA_SYMBOL_KIND_KERNEL)
    return HSA_STATUS_SUCCESS;
  Loaded k;
  k.mangled = symbol_name(symbol);
  if (k.mangled.size() > 3 && k.mangled.compare(k.mangled.size() - 3, 3, ".kd") == 0)
    k.mangled.resize(k.mangled.size() - 3);
  k.executable = executable, k.agent = agent;
  k.kernarg_bytes =
      symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
  k.group_bytes = symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE);
  k.private_bytes =
      symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE);
  const auto object = symbol_info<std::uint64_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT);
  if (object != 0 && !k.mangled.empty())
    static_cast<ListedKernels*>(data)->found.emplace_back(object, std::move(k));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t list_variable(hsa_executable_symbol_t symbol, void* data) {
  if (symbol_info<hsa_symbol_kind_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE) != HSA_SYMBOL_KIND_VARIABLE)
    return HSA_STATUS_SUCCESS;
  Global g;
  g.name = symbol_name(symbol);
  g.address = symbol_info<std::uint64_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS);
  g.size = symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE);
  // ROCm 5 calls every one of them constant; what code cannot write is left out by its section (snapshot.cpp).
  if (!g.name.empty() && g.address != 0 && g.size != 0) static_cast<std::vector<Global>*>(data)->push_back(std::move(g));
  return HSA_STATUS_SUCCESS;
}
hsa_status_t list_agent_variable(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t symbol, void* data) {
  return list_variable(symbol, data);
}
hsa_status_t list_program_variable(hsa_executable_t, hsa_executable_symbol_t symbol, void* data) {
  return list_variable(symbol, data);
}

hsa_status_t list_kernels_of(hsa_agent_t agent, void* data) {
  auto& [executable, all] = *static_cast<std::pair<hsa_executable_t, ListedKernels>*>(data);
  api().core.hsa_executable_iterate_agent_symbols_fn(executable, agent, list_kernel, &all);
  return HSA_STATUS_SUCCESS;
}

std::shared_ptr<const Code> code_of(const Executable& e, const Loaded& k) {
  for (const auto& [agent, code] : e.codes)
    if (agent == k.agent.handle && (e.codes.size() == 1 || AmdgpuCode(*code).kernel(k.mangled))) return code;
  return nullptr;
}

// The loader is asked with no lock of ours held.
void list_new_executables() {
  std::vector<hsa_executable_t> fresh;
  {
    std::lock_guard hold(codes().lock);
    for (auto& [handle, e] : codes().executables)
      if (e.frozen && !e.listed) {
        e.listed = true;
        fresh.push_back({handle});
      }
  }
  for (const hsa_executable_t executable : fresh) {
    std::pair<hsa_executable_t, ListedKernels> job{executable, {}};
    api().core.hsa_iterate_agents_fn(list_kernels_of, &job);
    std::lock_guard hold(codes().lock);
    const auto e = codes().executables.find(executable.handle);
    if (e == codes().executables.end()) continue;
    for (auto& [object, k] : job.second.found) {
      k.code = code_of(e->second, k);
      codes().kernels[object] = std::make_shared<const Loaded>(std::move(k));
    }
  }
}

}  // namespace

std::shared_ptr<const Loaded> loaded_kernel(std::uint64_t kernel_object) {
  for (const bool again : {false, true}) {
    if (again) list_new_executables();
    std::lock_guard hold(codes().lock);
    const auto it = codes().kernels.find(kernel_object);
    if (it == codes().kernels.end()) continue;
    if (it->second->kernel == nullptr) {
      auto named = std::make_shared<Loaded>(*it->second);
      named->kernel = &kernel_named(named->mangled);
      it->second = std::move(named);
    }
    return it->second;
  }
  return nullptr;
}

std::vector<Global> globals_of(const Loaded& kernel) {
  std::vector<Global> all;
  api().core.hsa_executable_iterate_agent_symbols_fn(kernel.executable, kernel.agent, list_agent_variable,
                                                     &all);
  if (api().core.hsa_executable_iterate_program_symbols_fn != nullptr)
    api().core.hsa_executable_iterate_program_symbols_fn(kernel.executable, list_program_variable, &all);
  return all;
}

void hook_code(HsaApiTable& table) {
  CoreApiTable& core = *table.core_;
  replace(core, &CoreApiTable::hsa_code_object_reader_create_from_memory_fn, reader_from_memory);
  replace(core, &CoreApiTable::hsa_code_object_reader_create_from_file_fn, reader_from_file);
  replace(core, &CoreApiTable::hsa_code_object_reader_destroy_fn, reader_destroy);
  replace(core, &CoreApiTable::hsa_executable_load_agent_code_object_fn, load_agent_code);
  replace(core, &CoreApiTable::hsa_executable_freeze_fn, freeze);
  replace(core, &CoreApiTable::hsa_executable_destroy_fn, executable_destroy);
}

void forget_code() {
  std::lock_guard hold(codes().lock);
  codes().readers.clear();
  codes().executables.clear();
  codes().kernels.clear();
}

void code_after_fork() { new (&codes().lock) std::mutex; }

}  // namespace klab::shim
