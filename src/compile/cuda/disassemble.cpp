// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/disassemble.h"

#include <fmt/format.h>

#include "base/subprocess.h"
#include "compile/cubin/sass.h"
#include "compile/cuda/scratch.h"
#include "compile/cuda/toolkit.h"
#include "compile/nvcc/nvcc.h"

namespace klab::compile {

Result<Disassembly> disassemble_cubin(const std::string& cubin) {
  Scratch scratch;
  if (!scratch.ok()) return fail(scratch.error());
  const std::string file = (scratch.path() / "code.cubin").string();
  KLAB_TRY_VOID(write_file_atomic(file, cubin, 0600, false));
  std::optional<Error> first;
  for (const std::string name : {"nvdisasm", "cuobjdump"}) {
    const FoundFile tool = find_cuda_program(name);
    if (!tool) continue;
    SpawnOptions spawn;
    spawn.argv = {tool.path.string()};
    spawn.argv.emplace_back(name == "nvdisasm" ? "-c" : "--dump-sass");
    spawn.argv.push_back(file);
    spawn.die_with_parent = true;
    auto finished = run_program(std::move(spawn), {}, std::chrono::seconds(60), 512u << 20);
    if (finished && finished->status.ok() && !finished->out.empty())
      return Disassembly{std::move(finished->out), fmt::format("{} {}", name, tool_version(tool.path))};
    const std::string why = !finished ? finished.error().what
                            : finished->timed_out
                                ? "it ran for a minute"
                                : to_string(finished->status) + ": " + finished->err.substr(0, 400);
    if (!first)
      first = Error{ErrorCode::compile_failed, fmt::format("{}: {}", tool.path.string(), why), "", 0};
  }
  if (first) return fail(*first);
  return fail(ErrorCode::environment, "neither nvdisasm nor cuobjdump was found",
              "install the CUDA toolkit's nvdisasm (package cuda-nvdisasm, or nvidia-cuda-nvdisasm for "
              "Python), or set "
              "KLAB_NVDISASM");
}

void add_instruction_counts(const std::string& cubin, CudaFacts& facts) {
  const auto disassembly = disassemble_cubin(cubin);
  if (!disassembly) {
    facts.disassembler_problem = disassembly.error().what;
    return;
  }
  facts.disassembler = disassembly->tool;
  const auto counted = count_instructions(disassembly->text);
  for (KernelFacts& k : facts.kernels)
    if (const auto found = counted.find(k.name); found != counted.end()) k.instructions = found->second;
  if (counted.empty())
    facts.disassembler_problem = fmt::format("{} printed no instruction", disassembly->tool);
}

}  // namespace klab::compile
