// SPDX-License-Identifier: Apache-2.0
#include "ops/doctor.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>

#include "base/find_cupti.h"
#include "base/ids.h"
#include "base/units.h"
#include "compile/protocol.h"
#include "ops/run.h"

namespace klab::ops {
namespace {

Check program_beside(const std::string& name, const std::string& purpose) {
  const fs::path path = program_folder() / name;
  if (::access(path.c_str(), R_OK) == 0) return {purpose, Health::ok, path.string(), ""};
  return {purpose, Health::missing, path.string() + " is not there",
          "build klab whole (./demo does), or reinstall it"};
}

// What a capture of a CUDA program needs besides the driver: the shim beside klab, and a libcupti for it to
// open. The target may bring its own; this is what would be found without.
Check check_cuda() {
  const fs::path shim = program_folder() / "libklab_cuda.so";
  if (::access(shim.c_str(), R_OK) != 0)
    return {
        "CUDA capture shim", Health::warning, shim.string() + " is not there",
        "CUDA programs cannot be captured: build klab where the CUDA toolkit's headers are (12.4 or newer)"};
  const std::vector<std::string> files = cupti_files(path_interpreters());
  if (files.empty())
    return {"CUDA capture shim", Health::warning, shim.string() + ", but no libcupti",
            "install the CUDA toolkit's CUPTI or the Python package nvidia-cuda-cupti, or name the file in "
            "KLAB_CUPTI; "
            "a program that has its own needs none"};
  return {"CUDA capture shim", Health::ok, fmt::format("{}, with {}", shim.string(), files.front()), ""};
}

Check check_hip() {
  const fs::path shim = program_folder() / "libklab_hsa.so";
  if (::access(shim.c_str(), R_OK) != 0)
    return {"HIP capture shim", Health::warning, shim.string() + " is not there",
            "HIP programs cannot be captured: build klab where the HSA runtime's headers are (libhsa-runtime-dev)"};
  return {"HIP capture shim", Health::ok, shim.string(), ""};
}

Check check_store(Lab& lab) {
  auto store = lab.store();
  if (!store) return {"store", Health::missing, store.error().what, store.error().hint};
  std::error_code ec;
  const auto space = fs::space(lab.home(), ec);
  Check check{"store", Health::ok, lab.home().string(), ""};
  if (!ec) check.found += fmt::format(", {} free", format_bytes(space.available));
  if (!ec && space.available < (1ull << 30)) {
    check.health = Health::warning;
    check.fix = "captures need room: free some space or set KLAB_HOME to a larger disk";
  }
  return check;
}

Check check_compiler() {
  std::error_code ec;
  const fs::path output = fs::temp_directory_path(ec) / ("klab-doctor-" + new_id() + ".spv");
  auto answer =
      compile::run_compiler({.language = "glsl",
                             .source = "doctor.comp",
                             .source_text = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n",
                             .output = output.string()});
  fs::remove(output, ec);
  if (!answer) return {"GLSL compiler", Health::missing, answer.error().what, answer.error().hint};
  if (!answer->ok)
    return {"GLSL compiler", Health::missing, answer->error ? answer->error->what : answer->log,
            "reinstall klab"};
  return {"GLSL compiler", Health::ok, answer->compiler, ""};
}

// Compilers and tools for CUDA variants. Without any, captures can still be replayed.
void check_cuda_tools(Lab& lab, std::vector<Check>& checks) {
  const auto answer = lab.compiler().ask({.verb = "tools"}, 60);
  if (!answer || !answer->ok) {
    const Error error = !answer ? answer.error() : answer->error.value_or(Error{});
    checks.push_back({"CUDA compilers", Health::warning, error.what, error.hint});
    return;
  }
  const auto found = [](const compile::Tool& t) { return fmt::format("{} {}", t.version, t.path); };
  std::string disassembler;
  for (const compile::Tool& t : answer->tools) {
    const bool usable = !t.path.empty() && t.problem.empty();
    if (t.name == "nvdisasm" || t.name == "cuobjdump") {
      if (usable && disassembler.empty()) disassembler = fmt::format("{} {}", t.name, found(t));
      continue;
    }
    std::string fix;
    if (!usable && t.name == "NVRTC")
      fix = "CUDA C++ variants then go through nvcc, which is slower; KLAB_NVRTC names a libnvrtc.so";
    else if (!usable && t.name == "nvcc")
      fix = "whole programs and files with host headers cannot be built; KLAB_NVCC names one";
    else if (!usable && t.name == "hipcc")
      fix = "HIP variants are left to hiprtc, which takes device code only; install hipcc, or KLAB_HIPCC names one";
    else if (!usable && t.name == "hiprtc")
      fix = "HIP variants are left to hipcc, which is slower; KLAB_HIPRTC names a libhiprtc.so";
    else if (!usable && t.name == "comgr")
      fix = "hiprtc cannot work without it; install libamd-comgr2 (AMD: comgr)";
    else if (!usable)
      fix = "PTX is left to nvJitLink or the driver; KLAB_PTXAS names one";
    checks.push_back({t.name, usable ? Health::ok : Health::warning, usable ? found(t) : t.problem, fix});
  }
  checks.push_back({"CUDA disassembler", disassembler.empty() ? Health::warning : Health::ok,
                    disassembler.empty() ? "neither nvdisasm nor cuobjdump" : disassembler,
                    disassembler.empty()
                        ? "instructions (HMMA, HGMMA, ...) are not counted: install cuda-nvdisasm, or "
                          "the Python package nvidia-cuda-nvdisasm"
                        : ""});
}

}  // namespace

void to_json(Json& j, const Check& v) {
  j = Json{{"name", v.name}, {"health", v.health}, {"found", v.found}};
  if (!v.fix.empty()) j["fix"] = v.fix;
}

std::vector<Check> examine(Lab& lab) {
  std::vector<Check> checks{program_beside("klab-worker", "replay worker"),
                            program_beside("libVkLayer_klab_capture.so", "Vulkan capture layer"),
                            check_compiler(), check_store(lab)};
  auto devices = list_devices(lab);
  if (!devices) {
    checks.push_back({"devices", Health::missing, devices.error().what, devices.error().hint});
    return checks;
  }
  // One API that works is enough: what keeps the others from working is worth knowing, and no failure.
  const bool any =
      std::any_of(devices->begin(), devices->end(), [](const Json& d) { return d.contains("identity"); });
  for (const Json& one : *devices) {
    try {
      if (one.contains("error")) {
        const auto error = one["error"].get<Error>();
        checks.push_back({one.value("api", "?") + " devices", any ? Health::warning : Health::missing,
                          error.what, error.hint});
        continue;
      }
      const Json& identity = one.at("identity");
      Check check{identity.value("api", "?") + " device", Health::ok,
                  fmt::format("{} ({})", identity.value("name", "?"), identity.value("driver_version", "?")),
                  ""};
      if (identity.value("type", "") == "cpu") {
        check.health = Health::warning;
        check.fix = "this device runs on the CPU: right for correctness, its times say nothing of a GPU";
      }
      checks.push_back(std::move(check));
    } catch (const std::exception& e) {
      checks.push_back({"devices", Health::missing, e.what(), "is klab-worker of the same version as klab?"});
    }
  }
  checks.push_back(check_cuda());
  checks.push_back(check_hip());
  check_cuda_tools(lab, checks);
  return checks;
}

}  // namespace klab::ops
