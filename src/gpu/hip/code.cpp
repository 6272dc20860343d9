// SPDX-License-Identifier: Apache-2.0
// Code objects, their variables and kernels.
#include <algorithm>

#include <fmt/format.h>

#include "gpu/builtin_plan.h"
#include "gpu/hip/device.h"

namespace klab::gpu::hip {

HipDevice::Module::~Module() {
  if (device == nullptr || device->lost_) return;
  if (executable.handle != 0) (void)device->runtime_.hsa_executable_destroy(executable);
  if (reader.handle != 0) (void)device->runtime_.hsa_code_object_reader_destroy(reader);
}

Result<std::shared_ptr<HipDevice::Module>> HipDevice::load_module(std::vector<std::byte> bytes) {
  auto m = std::make_shared<Module>();
  m->device = this;
  m->bytes = std::move(bytes);
  KLAB_TRY(m->facts, bundle::read_hsaco(m->bytes));
  const std::string& arch = m->facts.arch;
  if (!arch.empty() && arch.find("generic") == std::string::npos && !bundle::arch_fits(arch, facts_.arch))
    return fail(ErrorCode::unsupported,
                fmt::format("the code object is built for {}, this GPU ({}) is {}", arch, identity().name, facts_.arch),
                fmt::format("build it with --offload-arch={}", facts_.arch.substr(0, facts_.arch.find(':'))));
  if (!m->facts.undefined.empty())
    return fail(ErrorCode::invalid_data,
                fmt::format("the code object needs {}, which it does not define", m->facts.undefined.front()),
                "link all that the kernel calls into one code object");
  KLAB_HSA_TRY(runtime_.hsa_code_object_reader_create_from_memory(m->bytes.data(), m->bytes.size(), &m->reader),
               "hsa_code_object_reader_create_from_memory", ErrorCode::invalid_data);
  KLAB_HSA_TRY(runtime_.hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                                  &m->executable),
               "hsa_executable_create_alt");
  if (const hsa_status_t s =
          runtime_.hsa_executable_load_agent_code_object(m->executable, facts_.agent, m->reader, nullptr, nullptr);
      s != HSA_STATUS_SUCCESS)
    return lost(hsa_fail(s, fmt::format("the runtime does not take the code object of {} bytes", m->bytes.size()),
                         ErrorCode::invalid_data)
                    .value());
  if (const hsa_status_t s = runtime_.hsa_executable_freeze(m->executable, nullptr); s != HSA_STATUS_SUCCESS)
    return lost(hsa_fail(s, "hsa_executable_freeze", ErrorCode::invalid_data).value());
  return m;
}

Result<CodeId> HipDevice::load(std::span<const std::byte> code) {
  KLAB_TRY_VOID(check_alive());
  if (const auto name = builtin_name(code); !name.empty()) return load_builtin(name);
  KLAB_TRY(const auto fits, bundle::hsaco_for(code, facts_.arch));
  KLAB_TRY_VOID(settle());  // the runtime's own copies of code use the same engines
  KLAB_TRY(auto module, load_module({fits.begin(), fits.end()}));
  codes_[next_id_] = {.module = std::move(module), .builtin = {}, .symbols = {}};
  return next_id_++;
}

void HipDevice::unload(CodeId id) {
  const auto it = codes_.find(id);
  if (lost_ || it == codes_.end()) return;
  for (const MemoryId symbol : it->second.symbols) memories_.erase(symbol);
  codes_.erase(it);
}

Result<Placed> HipDevice::symbol(CodeId id, std::string_view name, std::uint64_t size) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(id);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", id));
  hsa_executable_symbol_t symbol{};
  const hsa_status_t found = runtime_.hsa_executable_get_symbol_by_name(
      it->second.module->executable, std::string(name).c_str(), &facts_.agent, &symbol);
  if (found == HSA_STATUS_ERROR_INVALID_SYMBOL_NAME)
    return fail(ErrorCode::missing_symbol, fmt::format("the code object has no variable {}", name), {}, found);
  KLAB_HSA_TRY(found, fmt::format("hsa_executable_get_symbol_by_name({})", name));
  hsa_symbol_kind_t kind{};
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  (void)runtime_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind);
  if (kind != HSA_SYMBOL_KIND_VARIABLE)
    return fail(ErrorCode::missing_symbol, fmt::format("{} is no variable of the code object", name));
  KLAB_HSA_TRY(runtime_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address),
               fmt::format("the address of variable {}", name));
  KLAB_HSA_TRY(runtime_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE, &bytes),
               fmt::format("the size of variable {}", name));
  if (bytes != size)
    return fail(
        ErrorCode::invalid_data,
        fmt::format("variable {} has {} bytes in this code object, {} in the capture", name, bytes, size));
  memories_[next_id_] = {nullptr, address, size};
  it->second.symbols.push_back(next_id_);
  return Placed{.id = next_id_++, .address = address, .pool = "device"};
}

std::vector<Device::Variable> HipDevice::variables(CodeId id, std::string&) {
  std::vector<Variable> out;
  const auto it = codes_.find(id);
  if (it == codes_.end() || !it->second.builtin.empty()) return out;
  for (const bundle::HsacoVariable& v : it->second.module->facts.variables) out.push_back({v.name, v.size, v.constant});
  return out;
}

Result<std::vector<std::string>> HipDevice::entry_points(CodeId id) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(id);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", id));
  std::vector<std::string> names;
  for (const bundle::HsacoKernel& k : it->second.module->facts.kernels) names.push_back(k.name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<HipDevice::Kernel> HipDevice::kernel(const Module& module, const std::string& name) {
  Kernel k;
  k.facts = module.facts.kernel(name);
  if (k.facts == nullptr)
    return fail(ErrorCode::missing_symbol, fmt::format("the code object has no kernel {}", name));
  hsa_executable_symbol_t symbol{};
  const hsa_status_t found =
      runtime_.hsa_executable_get_symbol_by_name(module.executable, k.facts->symbol.c_str(), &facts_.agent, &symbol);
  if (found == HSA_STATUS_ERROR_INVALID_SYMBOL_NAME)
    return fail(ErrorCode::missing_symbol, fmt::format("the code object has no kernel descriptor {}", k.facts->symbol), {},
                found);
  KLAB_HSA_TRY(found, fmt::format("hsa_executable_get_symbol_by_name({})", k.facts->symbol), ErrorCode::launch_failed);
  KLAB_HSA_TRY(runtime_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &k.object),
               fmt::format("the kernel object of {}", name), ErrorCode::launch_failed);
  return k;
}

}  // namespace klab::gpu::hip
