// SPDX-License-Identifier: Apache-2.0
// Code objects, their variables and kernels.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "gpu/builtin_plan.h"
#include "gpu/cuda/code_object.h"
#include "gpu/cuda/device.h"

namespace klab::gpu::cuda {
namespace {

std::string text_of(const std::array<char, 16384>& log) {
  std::string text(log.data(), ::strnlen(log.data(), log.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Result<CodeId> CudaDevice::load(std::span<const std::byte> code) {
  KLAB_TRY_VOID(check_alive());
  if (const auto name = builtin_name(code); !name.empty()) return load_builtin(name);
  KLAB_TRY(const CodeKind kind, code_kind(code));
  Code c;
  c.bytes.assign(code.begin(), code.end());
  c.bytes.push_back(std::byte{0});  // PTX is a text
  std::array<char, 16384> info{}, error{};
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {info.data(), reinterpret_cast<void*>(info.size()), error.data(),
                    reinterpret_cast<void*>(error.size())};
  const CUresult r = driver_.ModuleLoadDataEx(&c.module, c.bytes.data(), 4, options, values);
  const char* what = kind == CodeKind::ptx ? "PTX" : kind == CodeKind::cubin ? "cubin" : "fat binary";
  const std::string log = text_of(error);
  switch (r) {
    case CUDA_SUCCESS:
      break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return fail(ErrorCode::unsupported,
                  fmt::format("the {} has no code for this GPU, {} (sm_{})", what, identity().name,
                              identity().device_id),
                  fmt::format("build it for sm_{0}, or with PTX for compute_{0}", identity().device_id), r);
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
      return fail(ErrorCode::compile_failed,
                  fmt::format("the driver's compiler refused the {}: {}{}{}", what, result_name(r),
                              log.empty() ? "" : "\n", log),
                  r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                      ? "build with a toolkit that is not newer than the driver"
                      : "",
                  r);
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return fail(ErrorCode::environment,
                  "the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed",
                  "install it, or give a cubin", r);
    case CUDA_ERROR_INVALID_IMAGE:
      return fail(ErrorCode::invalid_data,
                  fmt::format("the driver does not take the {}: {}", what, result_name(r)), {}, r);
    default:
      return lose(cu_fail(r,
                          fmt::format("cuModuleLoadDataEx of a {} of {} bytes{}{}", what, code.size(),
                                      log.empty() ? "" : ", ", log),
                          ErrorCode::compile_failed));
  }
  codes_[next_id_] = std::move(c);
  return next_id_++;
}

void CudaDevice::unload(CodeId id) {
  const auto it = codes_.find(id);
  if (lost_ || it == codes_.end()) return;
  for (const MemoryId symbol : it->second.symbols) memories_.erase(symbol);
  if (it->second.builtin.empty()) (void)driver_.ModuleUnload(it->second.module);
  codes_.erase(it);
}

Result<Placed> CudaDevice::symbol(CodeId id, std::string_view name, std::uint64_t size) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(id);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", id));
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  const CUresult r = driver_.ModuleGetGlobal(&address, &bytes, it->second.module, std::string(name).c_str());
  if (r == CUDA_ERROR_NOT_FOUND)
    return fail(ErrorCode::missing_symbol, fmt::format("the code object has no variable {}", name), {}, r);
  if (r != CUDA_SUCCESS) return lose(cu_fail(r, fmt::format("cuModuleGetGlobal({})", name)));
  if (bytes != size)
    return fail(
        ErrorCode::invalid_data,
        fmt::format("variable {} has {} bytes in this code object, {} in the capture", name, bytes, size));
  memories_[next_id_] = {nullptr, address, size};
  it->second.symbols.push_back(next_id_);
  return Placed{.id = next_id_++, .address = address, .pool = "device"};
}

std::vector<Device::Variable> CudaDevice::variables(CodeId id, std::string& cannot) {
  std::vector<Variable> out;
  const auto it = codes_.find(id);
  if (it == codes_.end() || !it->second.builtin.empty()) return out;
  const auto found = cubin_variables(it->second.bytes);
  if (!found) {
    cannot = "only a cubin's variables can be listed";
    return out;
  }
  for (const CubinVariable& v : *found) out.push_back({v.name, v.size, v.constant});
  return out;
}

Result<std::vector<std::string>> CudaDevice::entry_points(CodeId id) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(id);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", id));
  if (driver_.ModuleGetFunctionCount == nullptr || driver_.ModuleEnumerateFunctions == nullptr ||
      driver_.FuncGetName == nullptr)
    return fail(ErrorCode::unsupported,
                "this driver (before CUDA 12.4) cannot list the kernels of a code object");
  unsigned count = 0;
  if (const CUresult r = driver_.ModuleGetFunctionCount(&count, it->second.module); r != CUDA_SUCCESS)
    return lose(cu_fail(r, "cuModuleGetFunctionCount"));
  std::vector<CUfunction> functions(count);
  if (count != 0)
    if (const CUresult r = driver_.ModuleEnumerateFunctions(functions.data(), count, it->second.module);
        r != CUDA_SUCCESS)
      return lose(cu_fail(r, "cuModuleEnumerateFunctions"));
  std::vector<std::string> names;
  for (const CUfunction f : functions) {
    const char* name = nullptr;
    if (driver_.FuncGetName(&name, f) == CUDA_SUCCESS && name != nullptr) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<CUfunction> CudaDevice::function(const Code& code, const std::string& name) {
  CUfunction f = nullptr;
  const CUresult r = driver_.ModuleGetFunction(&f, code.module, name.c_str());
  if (r == CUDA_SUCCESS) return f;
  if (r == CUDA_ERROR_NOT_FOUND)
    return fail(ErrorCode::missing_symbol, fmt::format("the code object has no kernel {}", name), {}, r);
  return lose(cu_fail(r, fmt::format("cuModuleGetFunction({})", name), ErrorCode::launch_failed));
}

}  // namespace klab::gpu::cuda
