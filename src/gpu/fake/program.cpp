// SPDX-License-Identifier: Apache-2.0
// Reads program texts. Grammar in README.md.
#include "gpu/fake/program.h"

#include <sstream>

#include <fmt/format.h>

namespace klab::gpu::fake {
namespace {

constexpr std::string_view kMagic = "klab-fake 1";

std::optional<FaultKind> fault_from(std::string_view word) {
  if (word == "device_lost") return FaultKind::device_lost;
  if (word == "hang") return FaultKind::hang;
  if (word == "freeze") return FaultKind::freeze;
  if (word == "crash") return FaultKind::crash;
  if (word == "wrong_answer") return FaultKind::wrong_answer;
  if (word == "stray_write") return FaultKind::stray_write;
  if (word == "fail_prepare") return FaultKind::fail_prepare;
  return std::nullopt;
}

}  // namespace

std::span<std::byte> Call::bytes(std::uint32_t binding) const {
  for (const auto& b : spec->bindings)
    if (b.set == 0 && b.binding == binding && b.element == 0) return view(b);
  return {};
}

Result<Program> parse_program(std::span<const std::byte> code) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(code.data()), code.size()));
  std::string line;
  if (!std::getline(text, line) || line != kMagic)
    return fail(ErrorCode::invalid_data,
                fmt::format("not code of the fake device: line 1 is not \"{}\"", kMagic));
  Program program;
  for (int number = 2; std::getline(text, line); ++number) {
    std::istringstream words(line);
    std::string verb, name, at;
    auto bad = [&] { return fail(ErrorCode::invalid_data, fmt::format("line {}: \"{}\"", number, line)); };
    if (!(words >> verb) || verb[0] == '#') continue;
    if (verb == "kernel") {
      if (!(words >> name)) return bad();
      program.kernel = find_kernel(name);
      program.flushes = name == "flush";
      if (program.kernel == nullptr)
        return fail(ErrorCode::compile_failed, fmt::format("line {}: no kernel called \"{}\"", number, name));
    } else if (verb == "entry") {
      if (!(words >> program.entry)) return bad();
    } else if (verb == "time") {
      if (!(words >> program.time_ns)) return bad();
    } else if (verb == "cold_time") {
      if (!(words >> program.cold_time_ns)) return bad();
    } else if (verb == "drift") {
      if (!(words >> program.drift)) return bad();
    } else if (verb == "variable") {
      std::uint64_t size = 0;
      if (!(words >> name >> size) || size == 0 || size > 1u << 20) return bad();
      program.variables.emplace_back(name, size);
    } else if (verb == "fault") {
      Fault fault;
      if (!(words >> name)) return bad();
      const auto kind = fault_from(name);
      if (!kind) return bad();
      fault.kind = *kind;
      if (words >> at && (at != "at" || !(words >> fault.at))) return bad();
      program.faults.push_back(fault);
    } else {
      return bad();
    }
  }
  if (program.kernel == nullptr) return fail(ErrorCode::invalid_data, "no line \"kernel NAME\"");
  return program;
}

}  // namespace klab::gpu::fake
