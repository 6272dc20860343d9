// SPDX-License-Identifier: Apache-2.0
#include "compile/hipcc/hsaco_facts.h"

#include "base/hash.h"
#include "bundle/hsaco.h"

namespace klab::compile {

bool looks_like_amdgpu_code(std::span<const std::byte> bytes) {
  return bundle::looks_like_hsaco(bytes) || bundle::looks_like_offload_bundle(bytes);
}

Result<std::span<const std::byte>> unbundle(std::span<const std::byte> bytes, std::string_view arch) {
  if (!arch.empty() || !bundle::looks_like_offload_bundle(bytes)) return bundle::hsaco_for(bytes, arch);
  KLAB_TRY(const auto entries, bundle::read_offload_bundle(bytes));
  const bundle::OffloadEntry* only = nullptr;
  for (const bundle::OffloadEntry& e : entries) {
    if (e.arch.empty()) continue;
    if (only != nullptr)
      return fail(ErrorCode::usage, "the offload bundle holds code for several processors", "say which with --arch");
    only = &e;
  }
  if (only == nullptr) return fail(ErrorCode::invalid_data, "the offload bundle holds no code for a GPU");
  return only->bytes;
}

Result<CudaFacts> read_hsaco_facts(std::span<const std::byte> hsaco) {
  KLAB_TRY(const bundle::Hsaco code, bundle::read_hsaco(hsaco));
  CudaFacts facts;
  facts.format = "hsaco";
  facts.arch = code.arch;
  facts.undefined = code.undefined;
  for (const bundle::HsacoKernel& k : code.kernels) {
    KernelFacts f;
    f.name = k.name;
    f.demangled = demangle(k.name);
    f.registers = k.vector_registers;
    f.scalar_registers = k.scalar_registers;
    f.accumulation_registers = k.accumulation_registers;
    f.vector_spills = k.vector_spills;
    f.scalar_spills = k.scalar_spills;
    f.wavefront_size = k.wavefront_size;
    f.local_bytes = k.scratch_bytes;
    f.shared_bytes = k.shared_bytes;
    f.code_bytes = k.code_bytes;
    if (!k.code.empty()) f.code_hash = to_string(hash_bytes(k.code));
    f.parameter_bytes = k.explicit_bytes();
    if (!k.arguments.empty() || k.kernarg_bytes == 0) {
      f.parameters.emplace();
      for (const bundle::HsacoArgument& a : k.arguments)
        if (!a.hidden()) f.parameters->push_back({a.offset, a.size});
    }
    // 1024 is what the compiler assumes where the source says nothing.
    if (k.max_block_threads != 0 && k.max_block_threads != 1024) f.max_block = {k.max_block_threads, 1, 1};
    f.required_block = k.required_block;
    facts.kernels.push_back(std::move(f));
  }
  for (const bundle::HsacoVariable& v : code.variables)
    facts.variables.push_back({v.name, v.constant ? "constant" : "global", v.size, false});
  return facts;
}

}  // namespace klab::compile
