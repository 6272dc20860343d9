// SPDX-License-Identifier: Apache-2.0
// What an AMD GPU code object (HSACO) says of itself: target, kernels with their arguments and figures, variables; and
// which of a clang offload bundle's entries fits a device. Foreign bytes in, facts out; pure.
// Not here: loading it (gpu/hip), compiling it (compile/).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace klab::bundle {

/// One argument in the kernarg segment. Kinds are those of AMD's metadata: "by_value", "global_buffer",
/// "dynamic_shared_pointer", "image", ..., and the hidden ones that the runtime fills in: "hidden_block_count_x".
struct HsacoArgument {
  std::string name, type_name, kind;
  std::uint32_t offset = 0, size = 0;  // bytes
  bool hidden() const { return kind.starts_with("hidden_"); }
};

struct HsacoKernel {
  std::string name;    // mangled, as a program asks for it
  std::string symbol;  // of its descriptor: NAME.kd
  std::uint32_t kernarg_bytes = 0, kernarg_alignment = 0;
  std::uint32_t shared_bytes = 0;   // LDS that the kernel itself declares
  std::uint32_t scratch_bytes = 0;  // a work-item
  std::uint32_t wavefront_size = 0;
  std::uint32_t max_block_threads = 0;
  std::array<std::uint32_t, 3> required_block{0, 0, 0};  // 0: none
  bool dynamic_stack = false;
  std::optional<bool> workgroup_processor_mode;
  std::optional<std::uint32_t> scalar_registers, vector_registers, accumulation_registers;
  std::optional<std::uint32_t> scalar_spills, vector_spills;
  std::uint64_t code_bytes = 0;          // 0: not known
  std::span<const std::byte> code;       // machine code, a view into the bytes read
  std::vector<HsacoArgument> arguments;  // ascending
  /// End of the arguments that the program gave, in bytes; hidden ones follow.
  std::uint32_t explicit_bytes() const;
  const HsacoArgument* hidden(std::string_view kind) const;
};

struct HsacoVariable {
  std::string name;
  std::uint64_t size = 0;  // bytes
  bool constant = false;   // in a segment that kernels cannot write
};

struct Hsaco {
  std::string target;            // "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"
  std::string arch;              // "gfx90a:sramecc+:xnack-"
  std::uint32_t abi_version = 0;  // code object version: 3, 4, 5, 6
  std::vector<HsacoKernel> kernels;
  std::vector<HsacoVariable> variables;
  std::vector<std::string> undefined;  // what another object would have to bring
  std::vector<std::string> printf_formats;
  /// By its name, or by its descriptor's (NAME.kd); null: it is not there.
  const HsacoKernel* kernel(std::string_view name) const;
};

bool looks_like_hsaco(std::span<const std::byte> bytes);
/// A clang offload bundle, plain or compressed.
bool looks_like_offload_bundle(std::span<const std::byte> bytes);

/// Errors: invalid_data (not an ELF file for AMD GPUs, or damaged), unsupported (metadata before code object version 3).
Result<Hsaco> read_hsaco(std::span<const std::byte> bytes);

struct OffloadEntry {
  std::string id;    // "hipv4-amdgcn-amd-amdhsa--gfx1030"
  std::string arch;  // "gfx1030"; empty: the host's
  std::span<const std::byte> bytes;
};
/// Errors: invalid_data; unsupported (compressed: says how to have it plain).
Result<std::vector<OffloadEntry>> read_offload_bundle(std::span<const std::byte> bytes);

/// Whether code for `code_arch` runs on a device that calls itself `device_arch` ("gfx90a:sramecc+:xnack-"): the same
/// processor, and each feature that the code names is as the device has it.
bool arch_fits(std::string_view code_arch, std::string_view device_arch);

/// The HSACO in `bytes` for this device: the bytes themselves, or the entry of an offload bundle that fits best.
/// Errors: invalid_data, unsupported (none fits; names what there is).
Result<std::span<const std::byte>> hsaco_for(std::span<const std::byte> bytes, std::string_view device_arch);

}  // namespace klab::bundle
