// SPDX-License-Identifier: Apache-2.0
// What is said to klab-compile (one JSON request on its stdin) and what it answers (one JSON on stdout).
// In-process compilers crash on some inputs, so they live in that program.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "compile/cuda_facts.h"

namespace klab::compile {

enum class Severity { error, warning, note };
KLAB_JSON_ENUM(Severity, error, warning, note)

struct Message {
  Severity severity = Severity::error;
  std::string file;        // as the user named it
  std::uint32_t line = 0;  // from 1; 0: none
  std::string text;
};
void to_json(Json& j, const Message& v);
void from_json(const Json& j, Message& v);

/// How a source becomes a code object. Part of a variant's identity.
struct Options {
  std::vector<std::string> include_folders;
  std::vector<std::string> defines;          // "NAME" or "NAME=VALUE"
  std::string optimisation = "performance";  // "none", "size", "performance"
  std::string target = "vulkan1.2";          // "vulkan1.0" .. "vulkan1.3", optionally ",spv1.5"
  std::string entry_point = "main";          // CUDA: the mangled name
  bool debug_info = false;

  // CUDA, HIP.
  std::string arch;               // "sm_90a", "gfx90a:xnack-"
  std::string compiler = "auto";  // CUDA: "nvrtc", "nvcc", or "auto": NVRTC where it can; HIP: "hipcc", "hiprtc", or
                                  // "auto": hipcc where there is one
  std::string hipcc;              // path of the hipcc to use; empty: the one that is found
  std::string standard;           // "c++17"; empty: the compiler's own
  std::string kernel;             // expression that names the kernel; empty: from entry_point
  bool fast_math = false, line_info = true;
  std::uint32_t max_registers = 0;  // 0: the compiler decides
  std::vector<std::string> extra;   // the user's own, each handed to the compiler as it is
  std::vector<std::string>
      project;  // from the project's build: left out where the compiler has no such option
};
void to_json(Json& j, const Options& v);
void from_json(const Json& j, Options& v);

/// `count` elements of one type at a byte offset: "f32", "u32", "i8", "f16", "u64" (also an address), ...
struct ReflectedField {
  std::uint32_t offset = 0, count = 1;
  std::string type, name;
};
void to_json(Json& j, const ReflectedField& v);
void from_json(const Json& j, ReflectedField& v);

struct ReflectedBinding {
  std::uint32_t set = 0, binding = 0, count = 1;
  std::string type;  // "storage_buffer", "uniform_buffer", "storage_image", ...
  std::string name;
  std::uint64_t size = 0;  // bytes of the fixed part of the block
  bool read_only = false, write_only = false;
  /// What lies in the fixed part, and in each element of the runtime array at its end (stride 0: there is none). Empty
  /// where it is not known or has too many parts to list.
  std::vector<ReflectedField> fields, element_fields;
  std::uint64_t element_offset = 0;
  std::uint32_t element_stride = 0;
};
struct ReflectedSpec {
  std::uint32_t id = 0;
  std::string name, type;  // "uint32", "float", "bool"
  Bytes default_value;
};
/// Facts of a SPIR-V module, read with SPIRV-Tools. Sources: SPIR-V specification 1.6.
struct Reflection {
  std::string version;                          // "1.5"
  std::vector<std::string> entry_points;        // GLCompute ones
  std::array<std::uint32_t, 3> block{0, 0, 0};  // LocalSize or its defaults; 0: not known
  bool block_from_spec = false;  // LocalSizeId or WorkgroupSize through specialization constants
  std::vector<ReflectedBinding> bindings;
  std::vector<ReflectedSpec> spec_constants;
  std::uint32_t push_constant_bytes = 0;
  std::uint64_t shared_bytes = 0;         // Workgroup storage class
  std::uint64_t instructions = 0;         // inside functions
  std::uint64_t matrix_instructions = 0;  // OpCooperativeMatrixMulAdd{KHR,NV}
  std::uint64_t atomic_instructions = 0, barrier_instructions = 0, float_atomics = 0;
  std::vector<std::string> capabilities;
  std::vector<std::string> source_files;  // OpSource / OpString named by debug information
  std::string source_text;                // embedded source, when there is one
  std::string source_language;            // "GLSL", "HLSL", ...
  bool uses_physical_addresses = false;   // PhysicalStorageBuffer
};
void to_json(Json& j, const Reflection& v);
void from_json(const Json& j, Reflection& v);

struct Request {
  std::string verb = "compile";  // "compile", "reflect", "disassemble", "ptx", "tools", "batch"
  std::string language =
      "glsl";               // "glsl", "spirv" (given directly: validated and copied), "cuda", "ptx", "cubin", "hip", "hsaco"
  std::string source;       // path
  std::string source_text;  // used in place of the file's content when not empty (`source` still names it)
                            // bytes that are not UTF-8 travel as hexadecimal "source_bytes"
  std::string output;       // path of the code object to write
  bool instructions = false;  // CUDA, verb "reflect": count instructions too, where a disassembler is there
  Options options;
  std::vector<Request>
      batch;  // verb "batch": these in order, in one process (starting a compiler costs 0.1 s)
};
void to_json(Json& j, const Request& v);
void from_json(const Json& j, Request& v);

/// A file that the compiler looked for besides the source.
struct Dependency {
  std::string path;
  std::string hash;  // XXH3-128 of what was read; empty: it was not there, and the search went on
};
void to_json(Json& j, const Dependency& v);
void from_json(const Json& j, Dependency& v);

/// A compiler or inspection tool of this machine (verb "tools").
struct Tool {
  std::string name;     // "NVRTC", "nvcc", "ptxas", "nvdisasm", "cuobjdump", "hipcc", "hiprtc", "comgr"
  std::string path;     // empty: not found
  std::string version;  // "13.0.88"
  std::string problem;  // why it cannot be used, and what would help
};
void to_json(Json& j, const Tool& v);
void from_json(const Json& j, Tool& v);

struct Answer {
  bool ok = false;
  std::optional<Error> error;  // compile_failed, missing_symbol, not_found, invalid_data, environment
  std::vector<Message> messages;
  std::string log;            // the compiler's own text
  std::string output, hash;   // code object and its XXH3-128
  std::string stripped_hash;  // the same without names, debug information and generator, ids renumbered;
                              // empty for a module that does not validate
  std::string compiler;       // "glslang 12.0.0, SPIRV-Tools v2023.1 ..."
  std::vector<Dependency> dependencies;
  bool cached = false;  // nothing was compiled (compile/cache.h)
  Reflection reflection;
  std::optional<CudaFacts> cuda;  // of CUDA or HIP code
  std::string entry_point;   // CUDA: the kernel's name in this code; it may differ from the one asked for
  std::string why_compiler;  // why this compiler, when it is not the first choice
  bool nvrtc_refused =
      false;  // NVRTC was tried and could not; the next build of such a file goes straight to nvcc
  bool cacheable = true;    // false: not everything that it read is known
  double compile_ms = 0;    // inside klab-compile
  std::vector<Tool> tools;  // verb "tools"
  std::string
      disassembly;  // verb "disassemble"; verb "ptx": PTX that is the code or that its line information holds
  std::vector<Answer> batch;  // verb "batch": one for each request
};
void to_json(Json& j, const Answer& v);
void from_json(const Json& j, Answer& v);

/// $KLAB_COMPILE, else klab-compile beside this program.
fs::path compiler_program();

/// Runs klab-compile once (client.h has one that stays). A crash or a hang (`limit_s`) of it is
/// compile_failed with that said. Errors: environment (klab-compile is not beside klab). Otherwise an Answer,
/// ok or not. Thread: any.
Result<Answer> run_compiler(const Request& request, double limit_s = 120);

}  // namespace klab::compile
