// SPDX-License-Identifier: Apache-2.0
#include "compile/hipcc/hipcc.h"

#include <map>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/subprocess.h"
#include "compile/cuda/diagnostics.h"
#include "compile/cuda/make_rule.h"
#include "compile/cuda/scratch.h"
#include "compile/hipcc/hsaco_facts.h"
#include "compile/hipcc/options.h"
#include "compile/hipcc/rocm.h"

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxSource = 256u << 20;
constexpr auto kLimit = std::chrono::minutes(9);

std::vector<std::string> argument_vector(const fs::path& hipcc, const Options& o, const std::string& own_folder) {
  std::vector<std::string> argv{hipcc.string(), "--genco", "--offload-arch=" + o.arch};
  // As nvcc and hiprtc do: a kernel by itself names blockIdx without including anything.
  argv.insert(argv.end(), {"-include", "hip/hip_runtime.h"});
  add_hip_options(o, own_folder, argv);
  return argv;
}

Result<Finished> run(std::vector<std::string> argv, const fs::path& scratch) {
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.environment["TMPDIR"] = scratch.string();
  spawn.environment["HIPCC_COMPILE_FLAGS_APPEND"] = std::nullopt;  // not part of the key of a cached build
  spawn.environment["HIPCC_LINK_FLAGS_APPEND"] = std::nullopt;
  spawn.environment["HIP_PLATFORM"] = "amd";
  spawn.die_with_parent = true;
  return run_program(std::move(spawn), {}, kLimit);
}

}  // namespace

std::string hipcc_version(const fs::path& hipcc) {
  static std::map<std::string, std::string> known;
  const std::string identity = file_identity(hipcc);
  if (const auto found = known.find(identity); found != known.end()) return found->second;
  SpawnOptions spawn;
  spawn.argv = {hipcc.string(), "--version"};
  spawn.die_with_parent = true;
  const auto finished = run_program(std::move(spawn), {}, std::chrono::seconds(20));
  std::string version;
  constexpr std::string_view kBefore = "HIP version: ";
  if (finished && finished->status.ok())
    if (const std::size_t at = finished->out.find(kBefore); at != std::string::npos) {
      const std::size_t from = at + kBefore.size();
      version = finished->out.substr(from, finished->out.find_first_of(" \n", from) - from);
    }
  return known[identity] = version;
}

CudaOutcome compile_hipcc(const std::string& text, const std::string& name, const Options& options,
                          const std::string& instantiate) {
  CudaOutcome outcome;
  const FoundFile hipcc = find_hipcc(options.hipcc);
  if (!hipcc) {
    outcome.code = fail(ErrorCode::environment,
                        options.hipcc.empty() ? "hipcc was not found"
                                              : fmt::format("{} is no program that can be run", options.hipcc),
                        "install it (Debian: hipcc; AMD: rocm-hip-sdk), or name it with --hipcc or KLAB_HIPCC");
    return outcome;
  }
  if (auto checked = check_hip_options(options); !checked) {
    outcome.code = fail(checked.error());
    return outcome;
  }
  const std::string version = hipcc_version(hipcc.path);
  outcome.compiler = version.empty() ? "hipcc" : fmt::format("hipcc {}", version);
  Scratch scratch;
  if (!scratch.ok()) {
    outcome.code = fail(scratch.error());
    return outcome;
  }
  const std::string shown = name.empty() ? "source.hip" : name;
  const fs::path own = fs::path(shown).parent_path();
  std::error_code ec;
  const auto on_disk = name.empty() ? Result<std::string>(std::string()) : read_file(name, kMaxSource);
  const std::string extension = fs::path(name).extension().string();
  const bool in_place = on_disk && *on_disk == text && instantiate.empty() &&
                        (extension == ".hip" || extension == ".cu" || extension == ".cpp");
  std::string input = name;
  if (!in_place) {
    input = (scratch.path() / "source.hip").string();
    if (auto s = write_file_atomic(input, under_name(text, shown, instantiate), 0600, false); !s) {
      outcome.code = fail(s.error());
      return outcome;
    }
  }
  const fs::path made = scratch.path() / "code.hsaco", rule = scratch.path() / "rule.d";
  std::vector<std::string> argv = argument_vector(hipcc.path, options,
                                                  in_place      ? ""
                                                  : own.empty() ? "."
                                                                : own.string());
  argv.insert(argv.end(), {"-MD", "-MF", rule.string(), "-o", made.string(), input});
  auto finished = run(argv, scratch.path());
  if (!finished) {
    outcome.code =
        fail(ErrorCode::environment, "hipcc cannot be run: " + finished.error().what, finished.error().hint);
    return outcome;
  }
  outcome.log = replace_all(finished->out + finished->err, input, shown);
  if (finished->timed_out) {
    outcome.code = fail(ErrorCode::compile_failed, fmt::format("hipcc did not finish {} within 9 minutes", shown));
    return outcome;
  }
  outcome.messages = parse_cuda_messages(outcome.log);
  if (!finished->status.ok()) {
    outcome.code = fail(first_error(outcome.messages, shown, outcome.log));
    return outcome;
  }
  if (in_place && read_file(name, kMaxSource).value_or("") != text) {
    outcome.code = fail(ErrorCode::source_changed, fmt::format("{} was changed while hipcc read it", name),
                        "build again");
    return outcome;
  }
  outcome.dependencies = dependencies_of_rule(read_file(rule, kMaxSource).value_or(""), input);
  auto code = read_file(made, 1ull << 30);
  if (!code) {
    outcome.code = fail(code.error());
    return outcome;
  }
  const auto hsaco = unbundle(std::as_bytes(std::span(*code)), options.arch);
  if (!hsaco)
    outcome.code = fail(hsaco.error());
  else
    outcome.code = std::string(reinterpret_cast<const char*>(hsaco->data()), hsaco->size());
  return outcome;
}

}  // namespace klab::compile
