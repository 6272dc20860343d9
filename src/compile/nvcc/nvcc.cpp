// SPDX-License-Identifier: Apache-2.0
#include "compile/nvcc/nvcc.h"

#include <unistd.h>

#include <map>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"
#include "base/subprocess.h"
#include "compile/cuda/diagnostics.h"
#include "compile/cuda/make_rule.h"
#include "compile/cuda/scratch.h"
#include "compile/cuda/toolkit.h"

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxSource = 256u << 20;
constexpr auto kLimit = std::chrono::minutes(9);

std::vector<std::string> argument_vector(const fs::path& nvcc, const Options& o,
                                         const std::string& own_folder) {
  std::vector<std::string> argv{nvcc.string(), "-arch=" + o.arch};
  if (!o.standard.empty()) argv.push_back("-std=" + o.standard);
  if (o.line_info) argv.emplace_back("-lineinfo");
  if (o.fast_math) argv.emplace_back("-use_fast_math");
  if (o.max_registers != 0) argv.push_back(fmt::format("-maxrregcount={}", o.max_registers));
  if (o.optimisation == "none") argv.insert(argv.end(), {"-Xcicc", "-O0", "-Xptxas", "-O0"});
  argv.insert(argv.end(), {"-Xptxas", "-v"});
  for (const std::string& d : o.defines) argv.push_back("-D" + d);
  for (const std::string& folder : o.include_folders) argv.push_back("-I" + (folder.empty() ? "." : folder));
  if (!own_folder.empty()) argv.push_back("-I" + own_folder);
  argv.insert(argv.end(), o.project.begin(), o.project.end());
  argv.insert(argv.end(), o.extra.begin(), o.extra.end());
  return argv;
}

Result<Finished> run(std::vector<std::string> argv, const fs::path& scratch) {
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.environment["TMPDIR"] = scratch.string();
  spawn.environment["NVCC_PREPEND_FLAGS"] = std::nullopt;  // not part of the key of a cached build
  spawn.environment["NVCC_APPEND_FLAGS"] = std::nullopt;
  spawn.die_with_parent = true;
  return run_program(std::move(spawn), {}, kLimit);
}

}  // namespace

std::string tool_version(const fs::path& program) {
  static std::map<std::string, std::string> known;
  const std::string identity = file_identity(program);
  if (const auto found = known.find(identity); found != known.end()) return found->second;
  SpawnOptions spawn;
  spawn.argv = {program.string(), "--version"};
  spawn.die_with_parent = true;
  const auto finished = run_program(std::move(spawn), {}, std::chrono::seconds(20));
  std::string version;
  if (finished && finished->status.ok()) {
    // "Cuda compilation tools, release 13.0, V13.0.88"
    const std::size_t at = finished->out.find(", V");
    if (at != std::string::npos) {
      const std::size_t end = finished->out.find_first_not_of("0123456789.", at + 3);
      version = finished->out.substr(at + 3, end == std::string::npos ? end : end - at - 3);
    }
  }
  return known[identity] = version;
}

CudaOutcome compile_nvcc(const std::string& text, const std::string& name, const Options& options,
                         const std::string& instantiate) {
  CudaOutcome outcome;
  const FoundFile nvcc = find_cuda_program("nvcc");
  if (!nvcc) {
    outcome.code =
        fail(ErrorCode::environment, "nvcc was not found", "install the CUDA toolkit, or set KLAB_NVCC");
    return outcome;
  }
  outcome.compiler = fmt::format("nvcc {}", tool_version(nvcc.path));
  Scratch scratch;
  if (!scratch.ok()) {
    outcome.code = fail(scratch.error());
    return outcome;
  }
  const std::string shown = name.empty() ? "source.cu" : name;
  const fs::path own = fs::path(shown).parent_path();
  std::error_code ec;
  const auto on_disk = name.empty() ? Result<std::string>(std::string()) : read_file(name, kMaxSource);
  const bool in_place =
      on_disk && *on_disk == text && instantiate.empty() && fs::path(name).extension() == ".cu";
  std::string input = name;
  if (!in_place) {
    input = (scratch.path() / "source.cu").string();
    if (auto s = write_file_atomic(input, under_name(text, shown, instantiate), 0600, false); !s) {
      outcome.code = fail(s.error());
      return outcome;
    }
  }
  const fs::path cubin = scratch.path() / "code.cubin", rule = scratch.path() / "rule.d";
  std::vector<std::string> argv = argument_vector(nvcc.path, options,
                                                  in_place      ? ""
                                                  : own.empty() ? "."
                                                                : own.string());
  argv.insert(argv.begin() + 1, {"-cubin", "-MD", "-MF", rule.string(), "-o", cubin.string()});
  argv.push_back(input);
  auto finished = run(argv, scratch.path());
  if (!finished) {
    outcome.code =
        fail(ErrorCode::environment, "nvcc cannot be run: " + finished.error().what, finished.error().hint);
    return outcome;
  }
  outcome.log = replace_all(finished->out + finished->err, input, shown);
  if (finished->timed_out) {
    outcome.code =
        fail(ErrorCode::compile_failed, fmt::format("nvcc did not finish {} within 9 minutes", shown));
    return outcome;
  }
  std::string ptx;
  if (!finished->status.ok() && names_ptx_line(outcome.log)) {
    std::vector<std::string> as_ptx = argument_vector(nvcc.path, options,
                                                      in_place      ? ""
                                                      : own.empty() ? "."
                                                                    : own.string());
    const fs::path file = scratch.path() / "code.ptx";
    as_ptx.insert(as_ptx.begin() + 1, {"-ptx", "-o", file.string()});
    as_ptx.push_back(input);
    // It has ptxas look at the PTX too, and fails again, but leaves it there.
    if (run(as_ptx, scratch.path())) {
      ptx = replace_all(read_file(file, kMaxSource).value_or(""), input, shown);
      ptx = replace_all(std::move(ptx), "\"" + fs::absolute(shown, ec).string() + "\"", "\"" + shown + "\"");
    }
  }
  outcome.messages = parse_cuda_messages(outcome.log, [&](std::uint32_t line) -> std::optional<SourceLine> {
    return ptx.empty() ? std::nullopt : source_of_ptx_line(ptx, line);
  });
  if (!finished->status.ok()) {
    outcome.code = fail(first_error(outcome.messages, shown, outcome.log));
    return outcome;
  }
  if (in_place && read_file(name, kMaxSource).value_or("") != text) {
    outcome.code = fail(ErrorCode::source_changed, fmt::format("{} was changed while nvcc read it", name),
                        "build again");
    return outcome;
  }
  outcome.dependencies = dependencies_of_rule(read_file(rule, kMaxSource).value_or(""), input);
  outcome.code = read_file(cubin, 1ull << 30);
  return outcome;
}

}  // namespace klab::compile
