// SPDX-License-Identifier: Apache-2.0
// What is known of CUDA or HIP code without running it: kernels and their figures, module variables, instruction
// counts. Not here: reading it out of foreign bytes (cubin/, ptx/), occupancy (occupancy.h).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace klab::compile {

/// A kernel parameter in the parameter buffer.
struct KernelParameter {
  std::uint32_t offset = 0, size = 0;  // bytes
  bool operator==(const KernelParameter&) const = default;
};

/// Instructions of one kernel as a disassembler shows them, not as often as they run.
struct InstructionMix {
  std::uint64_t total = 0;                       // without NOP padding
  std::map<std::string, std::uint64_t> opcodes;  // "FFMA" -> 12, modifiers left off
  std::map<std::string, std::uint64_t> matrix;   // "HGMMA.64x128x16.F32.BF16" -> 4, as it is written
  std::map<std::string, std::uint64_t>
      groups;  // "fp32", "fp64", "fp16", "integer", "matrix", "global_load", ...
  std::uint64_t matrix_total() const;
};

/// One kernel. Empty optionals: the code object does not say.
struct KernelFacts {
  std::string name, demangled;
  std::optional<std::uint32_t> registers;        // per thread; HIP: vector registers
  std::optional<std::uint32_t> scalar_registers, accumulation_registers;  // HIP
  std::optional<std::uint32_t> vector_spills, scalar_spills;              // HIP: registers
  std::uint32_t wavefront_size = 0;                                       // HIP
  std::optional<std::uint32_t> max_registers;    // that the compiler was allowed
  std::uint64_t local_bytes = 0;                 // stack frame per thread, its callees not counted
  std::optional<std::uint64_t> min_stack_bytes;  // with callees; recursion is not in it
  std::optional<std::uint64_t> spill_store_bytes, spill_load_bytes;  // from the assembler's log
  std::uint64_t shared_bytes = 0;    // static, without what the system reserves
  std::uint64_t constant_bytes = 0;  // constant bank 0: parameters and launch words
  std::uint64_t code_bytes = 0;
  std::string code_hash;       // XXH3-128 of its machine code
  std::uint32_t barriers = 0;  // named barriers used
  std::uint32_t parameter_bytes = 0;
  std::optional<std::vector<KernelParameter>> parameters;  // ascending; empty: not recorded
  std::array<std::uint32_t, 3> max_block{0, 0,
                                         0};  // __launch_bounds__ as written (x is the thread count); 0: none
  std::array<std::uint32_t, 3> required_block{0, 0, 0};  // 0: none
  std::array<std::uint32_t, 3> cluster{0, 0, 0};         // compiled-in cluster; 0: none
  bool cooperative = false;                              // synchronises the grid
  std::optional<InstructionMix> instructions;            // when a disassembler was there
};

struct ModuleVariable {
  std::string name;
  std::string space;         // "global", "constant", "managed"
  std::uint64_t size = 0;    // bytes
  bool initialised = false;  // its bytes in the code object are not all zero
};

struct CudaFacts {
  std::string format;     // "cubin", "ptx", "hsaco"
  std::string arch;       // "sm_90a"; of PTX its .target; "gfx90a:xnack-"
  std::string made_by;    // "ptxas, Cuda compilation tools, release 13.0, V13.0.88", or empty
  std::string made_with;  // the assembler's options, or empty
  std::string ptx_version;
  std::vector<KernelFacts> kernels;
  std::vector<ModuleVariable> variables;
  std::vector<std::string> undefined;  // functions and variables that another object would have to bring
  std::string disassembler;            // program that counted the instructions, or empty
  std::string disassembler_problem;    // why not
  const KernelFacts* kernel(std::string_view name) const;
};
void to_json(Json& j, const KernelParameter& v);
void from_json(const Json& j, KernelParameter& v);
void to_json(Json& j, const InstructionMix& v);
void from_json(const Json& j, InstructionMix& v);
void to_json(Json& j, const KernelFacts& v);
void from_json(const Json& j, KernelFacts& v);
void to_json(Json& j, const ModuleVariable& v);
void from_json(const Json& j, ModuleVariable& v);
void to_json(Json& j, const CudaFacts& v);
void from_json(const Json& j, CudaFacts& v);

/// "_Z5saxpyIfEvT_" -> "void saxpy<float>(float)"; what is not mangled comes back as it is.
std::string demangle(const std::string& name);
/// The expression that names a kernel in its source: "saxpy<float>", "ns::k<(ns::Mode)1, 16>". Anonymous
/// namespaces, which no expression can name, are left out. An unmangled name is its own expression.
std::string name_expression(const std::string& mangled);
/// Compute capability and suffix of "sm_90a" or "compute_90a". Errors: usage.
struct Arch {
  std::uint32_t number = 0;  // 90
  std::string suffix;        // "", "a", "f"
};
Result<Arch> parse_arch(std::string_view text);

/// Layouts in words for a message: "3 parameters, 24 bytes: [0] 4 B, [8] 8 B, [16] 8 B".
std::string describe_layout(const std::vector<KernelParameter>& parameters);

}  // namespace klab::compile
